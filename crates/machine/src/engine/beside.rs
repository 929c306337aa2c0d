//! CPU time spent spinning while tasks wait for a CPU: at any time the smaller of the numbers of
//! spinning CPUs and waiting tasks. It is counted, not priced.

use super::mode::Mode;
use core::cell::Cell;

/// How many CPUs and tasks could have come together, and for how long.
#[derive(Default)]
pub(crate) struct Beside {
    spinning: Cell<u64>,
    waiting: Cell<u64>,
    /// Up to a point in time, picoseconds.
    time: Cell<u64>,
    since: Cell<u64>,
}

impl Beside {
    fn settle(&self, now: u64) {
        // CPUs may run ahead of each other by less than a microsecond.
        let span = now.saturating_sub(self.since.get());
        self.time.set(self.time.get() + span * self.spinning.get().min(self.waiting.get()));
        self.since.set(self.since.get().max(now));
    }

    /// The mode of a CPU changes.
    #[inline]
    pub(super) fn mode_changed(&self, now: u64, old: Mode, mode: Mode) {
        let (before, after) = (old == Mode::Spin, mode == Mode::Spin);
        if before != after {
            self.settle(now);
            self.spinning.set(self.spinning.get() + u64::from(after) - u64::from(before));
        }
    }

    /// `change` more tasks wait from `now` on.
    pub(crate) fn tasks_wait(&self, now: u64, change: i64) {
        self.settle(now);
        let waiting = self.waiting.get().checked_add_signed(change);
        self.waiting.set(waiting.expect("as many tasks stop waiting as began to"));
    }

    /// Time up to `now`.
    pub(crate) fn time(&self, now: u64) -> u64 {
        self.settle(now);
        self.time.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_cpus_count_as_tasks_wait() {
        let beside = Beside::default();
        beside.mode_changed(10, Mode::System, Mode::Spin);
        beside.mode_changed(20, Mode::System, Mode::Spin);
        beside.mode_changed(25, Mode::System, Mode::User);
        assert_eq!(beside.time.get(), 0, "no task waits");
        beside.waiting.set(1);
        beside.settle(30);
        beside.time.set(0);
        beside.waiting.set(3);
        beside.settle(40);
        assert_eq!(beside.time.get(), 20, "two CPUs spin");
        beside.waiting.set(1);
        beside.mode_changed(50, Mode::Spin, Mode::System);
        assert_eq!(beside.time.get(), 30, "one task waits");
        beside.mode_changed(60, Mode::Spin, Mode::System);
        beside.settle(70);
        assert_eq!(beside.time.get(), 40, "the last CPU spun until 60");
    }
}
