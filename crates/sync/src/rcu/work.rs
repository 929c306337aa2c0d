//! Work for a thread of one CPU, given by that CPU's ticks and softirqs.

use core::cell::Cell;

/// Whether there is work (`rcu_cpu_has_work`). Only its CPU uses it: an interrupt may occur between
/// any two steps of the thread, and add more.
#[derive(Debug, Default)]
pub struct Work {
    given: Cell<bool>,
}

impl Work {
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
        if self.given.replace(false) {
            body();
        }
    }
}
