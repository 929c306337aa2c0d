//! The load average: how many tasks run, want to run, or sleep uninterruptibly, averaged
//! exponentially over 1, 5 and 15 minutes in fixed point, as `/proc/loadavg` shows it.
//!
//! Counted every 5 s and one tick. All CPUs are counted at the same time, whereas the kernel folds
//! each CPU's part at that CPU's tick. Asleep uninterruptibly are those that wait for a lock; the
//! kernel's own threads and timed sleeps, which the simulation also lets nothing interrupt, do not
//! count.

use super::task::{State, Tcb};
use convoy_sync::Sleep;
use core::cell::Cell;

/// Bits after the point, and 1.
const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;
/// Decay factor of an average after 5 s: `ONE / exp(5 s / 1, 5 and 15 min)`.
const KEPT: [u64; 3] = [1884, 2014, 2037];
/// Seconds between two counts, and one tick.
const INTERVAL_S: u64 = 5;

/// The averages of one machine.
#[derive(Debug, Default)]
pub(crate) struct LoadAverage {
    averages: [Cell<u64>; 3],
    /// The count that the averages took in last.
    active: Cell<u64>,
    /// Tasks that sleep uninterruptibly now.
    asleep: Cell<u64>,
    /// Tick of the next count, once one is set.
    due: Cell<Option<u64>>,
}

impl LoadAverage {
    /// Takes `active` in for one interval.
    fn count(&self, active: u64) {
        self.active.set(active);
        for (average, kept) in self.averages.iter().zip(KEPT) {
            let sum = average.get() * kept + active * ONE * (ONE - kept);
            average.set(sum >> SHIFT);
        }
    }
}

/// Whether `task` is in a sleep that counts as load.
fn sleeps_for_a_lock(task: &Tcb) -> bool {
    task.state.get() == State::Asleep(Sleep::Uninterruptible) && task.sleep_key.get().is_some()
}

impl LoadAverage {
    /// `task` has gone to sleep.
    pub(crate) fn note_sleep(&self, task: &Tcb) {
        let counts = sleeps_for_a_lock(task);
        task.counted_asleep.set(counts);
        self.asleep.set(self.asleep.get() + u64::from(counts));
    }

    /// `task` has been woken.
    pub(crate) fn note_wakeup(&self, task: &Tcb) {
        let counted = task.counted_asleep.replace(false);
        self.asleep.set(self.asleep.get() - u64::from(counted));
    }

    /// At a tick, with `running` runnable tasks: counts, if it is time; also for intervals in which
    /// every CPU's tick was stopped.
    pub(crate) fn tick(&self, jiffies: u64, hz: u32, running: u64) {
        let interval = INTERVAL_S * u64::from(hz) + 1;
        while let due = self.due.get().unwrap_or(interval)
            && jiffies >= due
        {
            self.due.set(Some(due + interval));
            self.count(running + self.asleep.get());
        }
    }

    /// The next count is at tick `due`.
    pub(crate) fn count_at(&self, due: u64) {
        self.due.set(Some(due));
    }

    /// Tasks that were running or waiting at the last count (`calc_load_tasks`): up to 5 s old.
    pub(crate) fn active(&self) -> u64 {
        self.active.get()
    }

    /// The averages over 1, 5 and 15 minutes.
    pub(crate) fn averages(&self) -> [f64; 3] {
        self.averages.each_ref().map(|fixed| fixed.get() as f64 / ONE as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_load_is_approached_exponentially() {
        let load = LoadAverage::default();
        for _ in 0..12 {
            load.count(8);
        }
        // After one minute: 8 (1 - 1/e) = 5.06 of the first, 8 (1 - exp(-1/5)) = 1.45, 0.52.
        let shown = load.averages();
        for (shown, due) in shown.into_iter().zip([5.06, 1.45, 0.52]) {
            assert!((shown - due).abs() < 0.03, "{shown} for {due}");
        }
    }
}
