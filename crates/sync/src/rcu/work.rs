//! Work for a thread of one CPU, given by that CPU's ticks and softirqs.

use super::{Sound, Steps};
use core::cell::Cell;
use core::marker::PhantomData;

/// Whether there is work (`rcu_cpu_has_work`). Only its CPU uses it: an interrupt may occur between
/// any two steps of the thread, and add more.
#[derive(Debug)]
pub struct Work<S: Steps = Sound> {
    given: Cell<bool>,
    steps: PhantomData<S>,
}

impl<S: Steps> Default for Work<S> {
    fn default() -> Self {
        Self { given: Cell::new(false), steps: PhantomData }
    }
}

impl<S: Steps> Work<S> {
    /// Records that there is work; the caller wakes the thread afterwards.
    pub fn give(&self) {
        self.given.set(true);
    }

    /// Returns whether the thread must not go to sleep.
    pub fn is_given(&self) -> bool {
        self.given.get()
    }

    /// Runs one round of the thread: `body`, if there is work. Work queued in the meantime belongs
    /// to the next round, because the flag is cleared before the work is done.
    pub fn round(&self, body: impl FnOnce()) {
        if !self.given.get() {
            return;
        }
        if S::TAKES_FIRST {
            self.given.set(false);
            body();
        } else {
            body();
            self.given.set(false);
        }
    }
}
