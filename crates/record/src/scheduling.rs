//! How the kernel gave CPUs to threads.

use serde::{Deserialize, Serialize};

/// How the threads of a process got CPUs. Times are sums over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// How often one lost its CPU although it could have gone on.
    pub preemptions: u64,
    /// Time until they had one again, seconds.
    pub preempted_s: f64,
    /// How often one fell asleep.
    pub sleeps: u64,
    /// Time asleep, seconds.
    pub asleep_s: f64,
    /// Time from wakeups to CPUs, seconds.
    pub woken_s: f64,
    /// How often a thread of another process of the program woke one of this process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub woken_by_others: u64,
    /// How often one of this process woke one of another process of the program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wakes_others: u64,
    /// Time asleep until another process of the program ended the sleep, seconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub asleep_by_others_s: f64,
}

/// Holds that began with a wait and ended with a wakeup of others, as the kernel saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// How many.
    pub count: u64,
    /// Their time, seconds.
    pub total_s: f64,
    /// Of it, after the owner had lost its CPU although it could have gone on, seconds.
    pub preempted_s: f64,
    /// Of it, while the owner slept, seconds.
    pub asleep_s: f64,
    /// Of it, from the end of that sleep until the owner had a CPU, seconds.
    pub woken_s: f64,
}

/// Whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_none(seconds: &f64) -> bool {
    *seconds == 0.0
}
