//! A thread of a process.

use serde::{Deserialize, Serialize};

/// Calls and waits of a thread. Threads that live one after the other may share an entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Thread ID, of the last thread if there were several.
    pub id: u64,
    /// Number of threads before it.
    #[serde(default, skip_serializing_if = "crate::record::scheduling::is_default")]
    pub earlier: u64,
    /// Number of acquisitions, and of waits for conditions and at barriers.
    pub count: u64,
    /// Time that it waited for locks, in seconds.
    pub lock_wait_s: f64,
    /// Time that it waited for locks, for conditions and at barriers, in seconds.
    pub wait_s: f64,
}
