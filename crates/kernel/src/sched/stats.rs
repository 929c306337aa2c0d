//! Counters of the scheduler.

/// Counters over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStats {
    /// Switches between different tasks, idle ones included.
    pub switches: u64,
    /// Switches because the task went to sleep.
    pub voluntary: u64,
    /// Wakeups that woke a task.
    pub wakeups: u64,
    /// Of these, onto another CPU than the task's last.
    pub wakeups_moved: u64,
    /// Tasks pulled by a CPU that ran out of work.
    pub pulled_newidle: u64,
    /// Attempts of such a CPU that found nothing it may move.
    pub newidle_failed: u64,
    /// Attempts that found the domains balanced.
    pub newidle_balanced: u64,
    /// Tasks pulled by periodic balancing.
    pub pulled_periodic: u64,
    /// Tasks pushed by the migration thread.
    pub pushed: u64,
    /// Wakeup preemptions.
    pub preemptions: u64,
    /// Real-time tasks pushed to, and pulled from, another CPU.
    pub rt_pushed: u64,
    /// See `rt_pushed`.
    pub rt_pulled: u64,
}

impl SchedStats {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            switches: self.switches - earlier.switches,
            voluntary: self.voluntary - earlier.voluntary,
            wakeups: self.wakeups - earlier.wakeups,
            wakeups_moved: self.wakeups_moved - earlier.wakeups_moved,
            pulled_newidle: self.pulled_newidle - earlier.pulled_newidle,
            newidle_failed: self.newidle_failed - earlier.newidle_failed,
            newidle_balanced: self.newidle_balanced - earlier.newidle_balanced,
            pulled_periodic: self.pulled_periodic - earlier.pulled_periodic,
            pushed: self.pushed - earlier.pushed,
            preemptions: self.preemptions - earlier.preemptions,
            rt_pushed: self.rt_pushed - earlier.rt_pushed,
            rt_pulled: self.rt_pulled - earlier.rt_pulled,
        }
    }
}
