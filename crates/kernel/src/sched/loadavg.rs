//! The load: how many tasks run, want to run, or sleep uninterruptibly, from which the kernel makes
//! its load averages.
//!
//! Counted every 5 s and one tick. All CPUs are counted at the same time, whereas the kernel folds
//! each CPU's part at that CPU's tick. Asleep uninterruptibly are those that wait for a lock; the
//! kernel's own threads and timed sleeps, which the simulation also lets nothing interrupt, do not
//! count.

use super::task::{State, Tcb};
use convoy_sync::Sleep;
use core::cell::Cell;

/// Seconds between two counts, and one tick.
const INTERVAL_S: u64 = 5;

/// The load of one machine.
#[derive(Debug, Default)]
pub(crate) struct LoadAverage {
    /// The last count.
    active: Cell<u64>,
    /// Tasks that sleep uninterruptibly now.
    asleep: Cell<u64>,
    /// Tick of the next count, once one is set.
    due: Cell<Option<u64>>,
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
            self.active.set(running + self.asleep.get());
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
}
