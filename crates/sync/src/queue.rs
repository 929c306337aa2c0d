//! First-in first-out queues of waiting tasks, linked through records on the waiters' stacks.
//!
//! A queue belongs to a lock and is used only while the lock's inner lock is held. The exception is
//! [`Waiter::sleep`], which runs without it.
//!
//! # Invariants
//!
//! - Q1 A linked record outlives its membership: the waiter leaves its function only after it saw,
//!   under the inner lock or in its state word, that the record was unlinked.
//! - Q2 Whenever the inner lock is free, the state of a linked record is `ASLEEP`, or `RUNNING` or
//!   `OWED` for a waiter that was woken and has not looked again yet.

use crate::platform::{Access, Atomic, Platform, Sleep, TaskId, Wake};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const RUNNING: u32 = 0;
const ASLEEP: u32 = 1;
/// Running, and the lock is closed for all others.
const OWED: u32 = 2;

type Link<P> = Cell<Option<NonNull<Waiter<P>>>>;

/// One waiting task. On a separate cache line: other tasks write it.
#[repr(C, align(64))]
pub struct Waiter<P: Platform> {
    /// The word on which the task sleeps, as the task state does in the kernel.
    state: P::AtomicU32,
    /// The waiting task.
    pub(crate) task: TaskId,
    /// The releaser handed the lock to this waiter. Guarded by the inner lock.
    pub(crate) granted: Cell<bool>,
    /// The notifier of a condition variable moved it to the queue of a lock.
    pub(crate) moved: Cell<bool>,
    /// The waiter wants to share the lock with other readers.
    pub(crate) reader: bool,
    /// Others wait behind it, if the lock uses this. Guarded by the inner lock.
    pub(crate) urgent: Cell<bool>,
    /// Visitors that may still be put before it, if the lock uses this. Guarded by the inner lock.
    pub(crate) lets_pass: Cell<u8>,
    /// The lock is closed for all others while it is the first. Guarded by the inner lock.
    pub(crate) owed: Cell<bool>,
    /// When it prepared to sleep, if the lock uses this. Guarded by the inner lock.
    pub(crate) since: Cell<u32>,
    /// When it arrived, likewise.
    pub(crate) arrived: Cell<u32>,
    next: Link<P>,
    prev: Link<P>,
}

impl<P: Platform> Waiter<P> {
    /// Returns a record for the calling task. [`Queue::push`] reports it to the platform.
    pub(crate) fn new(reader: bool) -> Self {
        Self {
            state: P::AtomicU32::new(RUNNING),
            task: P::current(),
            granted: Cell::new(false),
            moved: Cell::new(false),
            reader,
            urgent: Cell::new(false),
            lets_pass: Cell::new(0),
            owed: Cell::new(false),
            since: Cell::new(0),
            arrived: Cell::new(0),
            next: Cell::new(None),
            prev: Cell::new(None),
        }
    }

    /// Declares the intention to sleep; the last step before the inner lock is dropped.
    #[inline]
    pub(crate) fn prepare(&self) {
        // Relaxed: the inner lock orders this with the releaser's read of it.
        self.state.store(ASLEEP, Relaxed);
    }

    /// Sleeps until woken, or for the other reasons of [`Platform::wait`].
    #[inline]
    pub(crate) fn sleep(&self, sleep: Sleep, deadline: Option<u64>) -> Wake {
        P::wait(&self.state, ASLEEP, sleep, deadline)
    }

    /// Sleeps without the inner lock until `granted` was set by [`Self::wake`]'s caller.
    pub(crate) fn sleep_until_woken(&self) {
        loop {
            // Acquire pairs with the release in `wake`: the releaser's writes are visible.
            if self.state.load(Acquire) == RUNNING {
                return;
            }
            self.sleep(Sleep::Uninterruptible, None);
        }
    }

    /// Spins without the inner lock until woken, or until `unless` holds. Returns whether it was
    /// woken.
    pub(crate) fn spin_until_woken(&self, unless: impl Fn() -> bool) -> bool {
        // The acquire of `spin_until` pairs with the release in `rouse`.
        P::spin_until(&self.state, |state| state == RUNNING || unless()) == RUNNING
    }

    /// Marks the task as running without being woken; for waits that ended by themselves.
    #[inline]
    pub(crate) fn awake(&self) {
        // Relaxed: a releaser that misses it wakes a running task, which is harmless.
        self.state.store(RUNNING, Relaxed);
    }

    /// Returns whether the task was woken and has not prepared to sleep again.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        // Relaxed: `wake` wrote it under the inner lock, which the caller holds or takes next.
        self.state.load(Relaxed) != ASLEEP
    }

    /// The lock is closed for all others while this one is the first. The inner lock is held.
    pub(crate) fn owe(&self) {
        self.owed.set(true);
        if self.is_woken() {
            // Relaxed: only a permission, which orders nothing.
            self.state.store(OWED, Relaxed);
        }
    }

    /// Returns whether the calling task, which runs, was told that the lock is closed for all
    /// others.
    pub(crate) fn is_owed(&self) -> bool {
        // Relaxed, as above.
        self.state.load(Relaxed) == OWED
    }

    /// Returns whether it is the longest waiter; false for a record that was pushed behind others
    /// and removed from there.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.prev.get().is_none()
    }

    /// Wakes the task if it is asleep or about to sleep. Returns whether it was. Takes a pointer,
    /// since a reference as an argument promises that the record outlives the call.
    ///
    /// # Safety
    ///
    /// The inner lock is held, and the record was in the queue under it.
    #[inline]
    pub(crate) unsafe fn wake(this: NonNull<Self>) -> bool {
        // SAFETY: the contract is this function's own.
        let state = unsafe { Self::rouse(this) };
        if let Some(state) = state {
            P::wake(state, 1);
        }
        state.is_some()
    }

    /// Performs the first half of [`Self::wake`]: marks the task as running. Returns the argument
    /// for [`Platform::wake`] if the task was asleep or about to sleep; that call does not need the
    /// inner lock.
    ///
    /// # Safety
    ///
    /// As [`Self::wake`].
    #[inline]
    pub(crate) unsafe fn rouse(this: NonNull<Self>) -> Option<*const P::AtomicU32> {
        // SAFETY: the record is there: its task waits for the swap below or for the inner lock.
        let state = unsafe { &raw const (*this.as_ptr()).state };
        // SAFETY: as above, and others use the cell under the inner lock only.
        let owed = unsafe { (*this.as_ptr()).owed.get() };
        let running = if owed { OWED } else { RUNNING };
        // SAFETY: as above. Release pairs with the acquire in `sleep_until_woken`. A waiter that
        // sleeps there may leave, and its record end, as soon as it sees this; waking uses only the
        // address, and a stray wake-up at a reused address is a spurious one, which every sleeper
        // expects.
        let asleep = unsafe { (*state).swap(running, Release) } == ASLEEP;
        asleep.then_some(state)
    }
}

/// The waiting tasks of one lock, the longest waiting one first. All zero is empty.
#[repr(C)]
pub(crate) struct Queue<P: Platform> {
    head: Link<P>,
    tail: Link<P>,
}

impl<P: Platform> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self { head: Cell::new(None), tail: Cell::new(None) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_none()
    }

    /// Returns whether there is one waiter.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.head.get().is_some() && self.head.get() == self.tail.get()
    }

    /// Returns the longest waiting task.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock, and keeps it as long as it uses the result.
    #[inline]
    pub(crate) unsafe fn front(&self) -> Option<&Waiter<P>> {
        // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
        self.head.get().map(|waiter| unsafe { waiter.as_ref() })
    }

    /// The first waiter for which `wanted` holds.
    ///
    /// # Safety
    ///
    /// As [`Self::front`].
    pub(crate) unsafe fn find(&self, wanted: impl Fn(&Waiter<P>) -> bool) -> Option<&Waiter<P>> {
        let mut at = self.head.get();
        while let Some(waiter) = at {
            // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
            let waiter = unsafe { waiter.as_ref() };
            if wanted(waiter) {
                return Some(waiter);
            }
            P::touch(waiter, Access::Read);
            at = waiter.next.get();
        }
        None
    }

    /// Returns the number of waiters.
    ///
    /// # Safety
    ///
    /// As [`Self::front`].
    pub(crate) unsafe fn len(&self) -> usize {
        let count = Cell::new(0);
        let all = |_: &Waiter<P>| {
            count.set(count.get() + 1);
            false
        };
        // SAFETY: the contract is this function's own.
        unsafe { self.find(all) };
        count.get()
    }

    /// Reports `waiter` to the platform as fresh memory, and appends it.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock; `waiter` is in no queue, and does not move and is not
    /// dropped before it was removed from this one (Q1).
    pub(crate) unsafe fn push(&self, waiter: &Waiter<P>) {
        P::touch(waiter, Access::Fresh);
        // SAFETY: the contract is this function's own.
        unsafe { self.append(waiter) };
    }

    /// [`Self::push`] of a record that was in another queue.
    ///
    /// # Safety
    ///
    /// As [`Self::push`].
    pub(crate) unsafe fn append(&self, waiter: &Waiter<P>) {
        P::touch(self, Access::Write);
        let link = Some(NonNull::from(waiter));
        waiter.prev.set(self.tail.get());
        waiter.next.set(None);
        match self.tail.get() {
            None => self.head.set(link),
            Some(last) => {
                // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
                let last = unsafe { last.as_ref() };
                P::touch(last, Access::Write);
                last.next.set(link);
            }
        }
        self.tail.set(link);
    }

    /// [`Self::push`], but before the waiters that are not urgent if this one is.
    ///
    /// # Safety
    ///
    /// As [`Self::push`].
    pub(crate) unsafe fn push_by_urgency(&self, waiter: &Waiter<P>) {
        let next = if waiter.urgent.get() {
            // SAFETY: the contract is this function's own.
            unsafe { self.find(|other| !other.urgent.get()) }
        } else {
            None
        };
        // SAFETY: as above.
        unsafe { self.push_before(next, waiter) };
    }

    /// [`Self::push`], but before those of the last `most` waiters that let visitors pass, and to
    /// which the lock is not handed already.
    ///
    /// # Safety
    ///
    /// As [`Self::push`].
    pub(crate) unsafe fn push_as_visitor(&self, waiter: &Waiter<P>, most: u32) {
        let (mut next, mut at) = (None, self.tail.get());
        for _ in 0..most {
            // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
            let Some(last) = at.map(|last| unsafe { last.as_ref() }) else { break };
            let Some(left) = last.lets_pass.get().checked_sub(1) else { break };
            if last.owed.get() {
                break;
            }
            P::touch(last, Access::Write);
            last.lets_pass.set(left);
            (next, at) = (Some(last), last.prev.get());
        }
        // SAFETY: the contract is this function's own.
        unsafe { self.push_before(next, waiter) };
    }

    /// [`Self::push`], but before `next` if there is one.
    ///
    /// # Safety
    ///
    /// As [`Self::push`], and `next` is in the queue.
    unsafe fn push_before(&self, next: Option<&Waiter<P>>, waiter: &Waiter<P>) {
        let Some(next) = next else {
            // SAFETY: the contract is this function's own.
            unsafe { self.push(waiter) };
            return;
        };
        P::touch(waiter, Access::Fresh);
        P::touch(self, Access::Write);
        P::touch(next, Access::Write);
        let link = Some(NonNull::from(waiter));
        let prev = next.prev.replace(link);
        waiter.next.set(Some(NonNull::from(next)));
        waiter.prev.set(prev);
        match prev {
            None => self.head.set(link),
            Some(prev) => {
                // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
                let prev = unsafe { prev.as_ref() };
                P::touch(prev, Access::Write);
                prev.next.set(link);
            }
        }
    }

    /// Moves the first waiters for which `wanted` holds, at most `most`, to the end of `other`, in
    /// order. Returns their number.
    ///
    /// # Safety
    ///
    /// As [`Self::front`]; the inner lock guards `other` too.
    pub(crate) unsafe fn split(
        &self,
        other: &Self,
        most: usize,
        wanted: impl Fn(&Waiter<P>) -> bool,
    ) -> usize {
        let (mut moved, mut at) = (0, self.head.get());
        while let Some(waiter) = at.filter(|_| moved < most) {
            // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
            let waiter = unsafe { waiter.as_ref() };
            at = waiter.next.get();
            if wanted(waiter) {
                // SAFETY: it was found in this queue.
                unsafe { self.remove(waiter) };
                // SAFETY: it is in no queue now, and its task waits until it was removed.
                unsafe { other.append(waiter) };
                moved += 1;
            } else {
                P::touch(waiter, Access::Read);
            }
        }
        moved
    }

    /// Unlinks `waiter`.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock, and `waiter` is in this queue.
    pub(crate) unsafe fn remove(&self, waiter: &Waiter<P>) {
        P::touch(self, Access::Write);
        P::touch(waiter, Access::Read);
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        match prev {
            None => self.head.set(next),
            Some(prev) => {
                // SAFETY: a linked record is alive (Q1), and stays linked under the caller's lock.
                let prev = unsafe { prev.as_ref() };
                P::touch(prev, Access::Write);
                prev.next.set(next);
            }
        }
        match next {
            None => self.tail.set(prev),
            Some(next) => {
                // SAFETY: as above.
                let next = unsafe { next.as_ref() };
                P::touch(next, Access::Write);
                next.prev.set(prev);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;

    /// Empties the queue. Returns the order of its waiters.
    fn drain<const N: usize>(queue: &Queue<Native>, waiters: &[Waiter<Native>; N]) -> Vec<usize> {
        let mut order = Vec::new();
        // SAFETY: one thread has the queue, and the records outlive it.
        while let Some(first) = unsafe { queue.front() } {
            order.extend(waiters.iter().position(|waiter| std::ptr::eq(waiter, first)));
            // SAFETY: as above.
            unsafe { queue.remove(first) };
        }
        order
    }

    #[test]
    fn urgent_waiters_stand_before_others_and_behind_each_other() {
        const URGENT: [bool; 5] = [false, true, false, true, true];
        let (queue, waiters) = (Queue::<Native>::new(), URGENT.map(|_| Waiter::new(false)));
        for (waiter, urgent) in waiters.iter().zip(URGENT) {
            waiter.urgent.set(urgent);
            // SAFETY: one thread has the queue, and the records outlive it.
            unsafe { queue.push_by_urgency(waiter) };
        }
        assert_eq!(drain(&queue, &waiters), [1, 3, 4, 0, 2]);
    }

    #[test]
    fn visitors_stand_before_those_that_let_them_pass_as_often_as_these_do() {
        let (queue, waiters) = (Queue::<Native>::new(), [(); 8].map(|()| Waiter::new(false)));
        let push = |waiter: usize| {
            // SAFETY: one thread has the queue, and the records outlive it.
            unsafe { queue.push(&waiters[waiter]) };
        };
        let visit = |waiter: usize, most| {
            // SAFETY: as above.
            unsafe { queue.push_as_visitor(&waiters[waiter], most) };
        };
        for (waiter, passes) in [(0, 9), (1, 9), (2, 2)] {
            waiters[waiter].lets_pass.set(passes);
            push(waiter);
        }
        visit(3, 1);
        visit(4, 9);
        visit(5, 9);
        waiters[6].lets_pass.set(9);
        waiters[6].owed.set(true);
        push(6);
        visit(7, 9);
        assert_eq!(drain(&queue, &waiters), [0, 1, 3, 4, 2, 5, 6, 7]);
    }
}
