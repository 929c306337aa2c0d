//! Wakeups of a [`HandoffRwSemaphore`].

use super::{HANDOFF, HandoffRwSemaphore, OWNERS, READER, WAITERS, WRITER, is_late};
use crate::event::LockEvent;
use crate::lock::RawLock;
use crate::platform::{Access, Atomic, Platform};
use crate::queue::{Queue, Waiter};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// Readers granted by one wakeup (`MAX_READERS_WAKEUP`).
const GRANTS: usize = 256;

/// Which waiters a wakeup is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// The first waiter, whatever it is, since no task owns the lock.
    First,
    /// Readers only, as readers own the lock.
    Readers,
    /// The same, and the caller is one of the owners.
    ReadersOfReader,
}

impl<P: Platform, L: RawLock<P>> HandoffRwSemaphore<P, L> {
    /// Wakes the first writer, or makes owners of the readers.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self) {
        self.wake_for(Whom::First);
    }

    /// The caller is a reader that owns the lock: so are all readers of the queue, if one is first.
    #[cold]
    pub(super) fn share(&self) {
        self.wake_for(Whom::ReadersOfReader);
    }

    fn wake_for(&self, whom: Whom) {
        let mut roused = Roused::new();
        let flags = self.lock.lock_irqsave();
        self.rouse(whom, &mut roused);
        self.lock.unlock_irqrestore(flags);
        roused.wake();
    }

    /// Under the inner lock: finds tasks to wake, unless a writer owns the lock with this `count`.
    pub(super) fn rouse_if_free(&self, count: u32) -> Roused<P> {
        let mut roused = Roused::new();
        if count & WRITER != 0 {
            return roused;
        }
        if count & OWNERS != 0 {
            self.rouse(Whom::Readers, &mut roused);
        } else {
            self.spin_again();
            self.rouse(Whom::First, &mut roused);
        }
        roused
    }

    /// Under the inner lock: finds the first writer, or makes owners of the readers.
    fn rouse(&self, whom: Whom, roused: &mut Roused<P>) {
        P::touch(&self.sleepers, Access::Read);
        // SAFETY: the inner lock is held until the end of this function.
        let Some(first) = (unsafe { self.sleepers.front() }) else { return };
        if !first.reader {
            if whom == Whom::First {
                P::event(LockEvent::Woken, self, first.task);
                roused.add(first);
            }
            return;
        }
        if whom != Whom::ReadersOfReader && !self.admit(first) {
            return;
        }
        let granted = Queue::new();
        P::touch(&granted, Access::Fresh);
        // SAFETY: as above; the records stay in one of the queues until they are removed below.
        let readers = unsafe { self.sleepers.split(&granted, GRANTS, |waiter| waiter.reader) };
        let counted = if whom == Whom::ReadersOfReader { 0 } else { READER };
        let mut change = (readers as u32 * READER).wrapping_sub(counted);
        // Relaxed: flags that change under the inner lock only.
        change = change.wrapping_sub(self.count.load(Relaxed) & HANDOFF);
        if self.sleepers.is_empty() {
            change = change.wrapping_sub(WAITERS);
        }
        if change != 0 {
            // Acquire for the waiters, whose records pass it on.
            self.count.fetch_add(change, Acquire);
        }
        // SAFETY: as above.
        while let Some(waiter) = unsafe { granted.front() } {
            // SAFETY: the waiter was just found in the queue, under the inner lock.
            unsafe { granted.remove(waiter) };
            waiter.owed.set(false);
            P::event(LockEvent::Handoff, self, waiter.task);
            roused.add(waiter);
        }
    }

    /// Under the inner lock, the reader `first` being first in the queue: counts it in, unless a
    /// writer owns the lock, which will wake it.
    fn admit(&self, first: &Waiter<P>) -> bool {
        // count += READER. Acquire pairs with the release in `up_write`.
        let before = self.count.fetch_add(READER, Acquire);
        if before & WRITER == 0 {
            self.own_as_reader();
            return true;
        }
        let mut change = READER.wrapping_neg();
        if is_late(first) {
            first.owed.set(true);
            if before & HANDOFF == 0 {
                change = change.wrapping_add(HANDOFF);
            }
        }
        // Relaxed: nothing was done under the lock.
        self.count.fetch_add(change, Relaxed);
        false
    }
}

/// Tasks to wake without the inner lock (`wake_q`).
pub(super) struct Roused<P: Platform> {
    tasks: [*const P::AtomicU32; GRANTS],
    count: usize,
}

impl<P: Platform> Roused<P> {
    fn new() -> Self {
        Self { tasks: [core::ptr::null(); GRANTS], count: 0 }
    }

    /// Marks `waiter`, which is in the queue under the inner lock or was until now, as running.
    fn add(&mut self, waiter: &Waiter<P>) {
        // SAFETY: the caller holds the inner lock, and the record was in the queue under it.
        if let Some(state) = unsafe { Waiter::rouse(waiter.into()) } {
            self.tasks[self.count] = state;
            self.count += 1;
        }
    }

    /// Wakes them in the order in which they were added.
    pub(super) fn wake(self) {
        for state in &self.tasks[..self.count] {
            P::wake(*state, 1);
        }
    }
}
