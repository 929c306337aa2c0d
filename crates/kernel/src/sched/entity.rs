//! Per-task state of ordinary tasks, for all generations of the scheduler.

use super::average::Average;
use core::cell::Cell;

/// Weight of a nice-0 task.
pub const WEIGHT: u64 = 1024;

/// Nicest and least nice value of a task.
pub const NICE: core::ops::RangeInclusive<i8> = -20..=19;

/// Weight of each nice value from -20 on; one step is about 1.25 times. The same in every fair
/// scheduler (`prio_to_weight`).
const WEIGHTS: [u64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9548, 7620,
    6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172,
    137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// A waiting task's priority, position in its list, and order of queueing among equal positions.
pub(crate) type O1Key = (i64, i64, u64);

/// Per-task state of the O(1) scheduler.
#[derive(Debug, Default)]
pub(crate) struct O1Share {
    /// Time asleep less time run.
    pub(crate) sleep_avg: Cell<u64>,
    /// When it last left a CPU.
    pub(crate) stamp: Cell<u64>,
    /// Ticks left of its slice.
    pub(crate) left: Cell<u64>,
    /// It has not used up the slice that it received from its parent.
    pub(crate) first_slice: Cell<bool>,
    /// Current priority, 100 to 139; smaller is better.
    pub(crate) prio: Cell<i64>,
    /// Place in its list; a child has its parent's.
    pub(crate) place: Cell<i64>,
    /// Key in its array, while it waits.
    pub(crate) key: Cell<Option<O1Key>>,
    pub(crate) expired: Cell<bool>,
    /// It last slept uninterruptibly.
    pub(crate) disk: Cell<bool>,
}

/// What EEVDF keeps of a task.
#[derive(Debug, Default)]
pub(crate) struct EevdfShare {
    /// Virtual deadline; relative to the virtual run time while `relative`.
    pub(crate) deadline: Cell<i64>,
    /// `V - v` when it left the queue.
    pub(crate) lag: Cell<i64>,
    /// Up to this virtual time the running task is kept while it is eligible.
    pub(crate) protected_to: Cell<i64>,
    /// It sleeps, and is still queued because it had more than its share.
    pub(crate) delayed: Cell<bool>,
    /// It was taken off a queue to go to another one.
    pub(crate) relative: Cell<bool>,
    /// Averages of its weight while queued, and of the time in which it ran.
    pub(crate) load: Cell<Average>,
    pub(crate) used: Cell<Average>,
}

impl EevdfShare {
    /// Whether the task sleeps and is still queued.
    pub(crate) fn delayed(&self) -> bool {
        self.delayed.get()
    }
}

/// Per-task state of the class of 2.6.23. Where the clock stood when its wait or sleep began is in
/// `Entity::vruntime`, which follows the task to another CPU.
#[derive(Debug, Default)]
pub(crate) struct FairClockShare {
    /// Its share of the fair clock less its run time, between minus and plus the limit.
    pub(crate) wait_runtime: Cell<i64>,
    /// `fair_key` and its place; kept while it runs.
    pub(crate) key: Cell<(i64, u64)>,
}

/// A task as the class of ordinary tasks sees it. Times are nanoseconds.
#[derive(Debug, Default)]
pub struct Entity {
    /// Virtual run time. For `wait-runtime` the fair clock when the present wait or sleep began;
    /// unused by the O(1) scheduler.
    pub vruntime: Cell<i64>,
    /// Start of the interval not yet charged; last time it was seen running.
    pub exec_start: Cell<u64>,
    /// Run time so far.
    pub sum_exec: Cell<u64>,
    /// `sum_exec` when it was last picked.
    pub picked_at: Cell<u64>,
    /// Runnable: queued or running. With delayed dequeueing a sleeper may still be queued.
    pub on_queue: Cell<bool>,
    /// `sum_exec` at the last wakeup since it slept last; 0 without one.
    last_wakeup: Cell<u64>,
    /// Average run time between that wakeup and its going to sleep.
    avg_overlap: Cell<u64>,
    /// What EEVDF adds.
    pub(crate) eevdf: EevdfShare,
    /// The O(1) scheduler's part.
    pub(crate) o1: O1Share,
    /// The part of 2.6.23's fair scheduler.
    pub(crate) fair_clock: FairClockShare,
    /// Key in the timeline, while it is there.
    pub(crate) key: Cell<Option<(i64, u64)>>,
    /// Key in the list of runnable tasks.
    pub(crate) listed: Cell<u64>,
    nice: Cell<i8>,
}

impl Entity {
    /// Its nice value.
    pub fn nice(&self) -> i8 {
        self.nice.get()
    }

    /// Sets it, for a task that is on no queue.
    pub(crate) fn set_nice(&self, nice: i8) {
        assert!(NICE.contains(&nice), "nice {nice} is not in -20 to 19");
        self.nice.set(nice);
    }

    /// Its weight.
    pub fn weight(&self) -> u64 {
        WEIGHTS[(self.nice.get() - NICE.start()) as usize]
    }

    /// A wakeup counts as this task's: it made it, or runs where the woken task is queued.
    pub(crate) fn note_wakeup(&self) {
        self.last_wakeup.set(self.sum_exec.get());
    }

    /// It goes to sleep: the average follows, by an eighth of the difference, if a wakeup counts
    /// (`update_avg_stats`).
    pub(crate) fn note_overlap(&self) {
        let since = self.last_wakeup.take();
        if since > 0 {
            let average = self.avg_overlap.get() as i64;
            let overlap = (self.sum_exec.get() - since) as i64;
            self.avg_overlap.set((average + ((overlap - average) >> 3)).max(0) as u64);
        }
    }

    /// Whether it only ever runs briefly after a wakeup: for less than `ns`.
    pub(crate) fn is_brief(&self, ns: u64) -> bool {
        self.avg_overlap.get() < ns
    }

    /// Charges run time up to `now` and returns how much was new.
    pub(crate) fn run_until(&self, now: u64) -> u64 {
        let ran = now.saturating_sub(self.exec_start.get());
        self.exec_start.set(now);
        self.sum_exec.set(self.sum_exec.get() + ran);
        ran
    }

    /// `wall` nanoseconds of running in virtual time.
    pub(crate) fn virtual_ns(&self, wall: u64) -> i64 {
        (wall * WEIGHT / self.weight()) as i64
    }
}
