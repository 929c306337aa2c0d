//! How the kernel scheduled threads.

use serde::{Deserialize, Serialize};

use crate::record::times::total;

/// Scheduling of the threads of a process. Times are sums over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Number of times that a thread lost its CPU while it was runnable.
    pub preemptions: u64,
    /// Time until these threads ran again, in seconds.
    pub preempted_s: f64,
    /// Number of times that a thread went to sleep.
    pub sleeps: u64,
    /// Time asleep, in seconds.
    pub asleep_s: f64,
    /// Time from wakeups until the threads ran, in seconds.
    pub woken_s: f64,
    /// Number of times that a thread of another process of the program woke a thread of this
    /// process.
    #[serde(default, skip_serializing_if = "is_default")]
    pub woken_by_others: u64,
    /// Number of times that a thread of this process woke a thread of another process of the
    /// program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wakes_others: u64,
    /// Time asleep until another process of the program ended the sleep, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asleep_by_others_s: f64,
}

/// Critical sections that began with a wait and ended with a wakeup of other threads, as the kernel
/// saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Number of critical sections.
    pub count: u64,
    /// Their total time, in seconds.
    pub total_s: f64,
    /// Part of this time after the owner was preempted, in seconds.
    pub preempted_s: f64,
    /// Part of this time while the owner slept, in seconds.
    pub asleep_s: f64,
    /// Part of this time from the end of that sleep until the owner had a CPU, in seconds.
    pub woken_s: f64,
}

impl Held {
    /// Returns the time that the owner was off CPU, in seconds.
    pub fn off_s(&self) -> f64 {
        self.preempted_s + self.asleep_s + self.woken_s
    }

    /// Adds the counts of another lock.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count = total([self.count, other.count]);
        self.total_s += other.total_s;
        self.preempted_s += other.preempted_s;
        self.asleep_s += other.asleep_s;
        self.woken_s += other.woken_s;
    }
}

/// Returns whether a value can be omitted.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
