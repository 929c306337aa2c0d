//! Waiting as pipes and sockets do: look under a lock, sleep, look again.

use crate::sched::scheduler::Sched;
use convoy_machine::{Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep, Wake};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::Cell;
use core::sync::atomic::Ordering::SeqCst;

/// Tasks that sleep, interruptibly, until the object of their wait has changed.
pub(crate) struct Waiters {
    /// Counts what happened.
    event: Word<u32>,
    /// Tasks that sleep or are about to.
    count: Cell<u32>,
}

/// Result of checking the object.
pub(crate) enum Look<T> {
    Done(Sys<T>),
    /// Sleep until the event differs from this.
    Sleep(u32),
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { event: Word::new(0), count: Cell::new(0) }
    }

    /// Decides to sleep; the caller holds the lock under which it looked.
    pub(crate) fn prepare<T>(&self) -> Look<T> {
        self.count.set(self.count.get() + 1);
        Look::Sleep(self.event.load(SeqCst))
    }

    /// Looks, and sleeps between two looks, until one is done; `EINTR` when a signal ends a sleep.
    pub(crate) fn wait<T>(&self, mut look: impl FnMut() -> Look<T>) -> Sys<T> {
        loop {
            let seen = match look() {
                Look::Done(result) => return result,
                Look::Sleep(seen) => seen,
            };
            let woken = Smp::wait(&self.event, seen, Sleep::Interruptible, None);
            self.count.set(self.count.get() - 1);
            if woken == Wake::Interrupted {
                return Err(Errno::EINTR);
            }
        }
    }

    /// Lets all look again, as a wakeup by a task that is about to sleep itself.
    pub(crate) fn wake(&self, sched: &Sched) {
        let count = self.count.get();
        if count > 0 {
            self.event.fetch_add(1, SeqCst);
            sched.sleepers.wake_sync(&self.event, count as usize);
        }
    }
}
