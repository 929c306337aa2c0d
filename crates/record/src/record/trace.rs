//! Steps of threads in order, in windows of the run. Counts by call site do not show this order.

use serde::{Deserialize, Serialize};

/// The steps of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Classes of threads: threads of one class use the same call sites.
    pub classes: Vec<Class>,
    /// Places, to which steps refer by index.
    pub places: Vec<Place>,
    /// Steps of one thread in one window.
    pub strips: Vec<Strip>,
}

impl Trace {
    /// Returns whether the trace is empty.
    pub fn is_empty(&self) -> bool {
        self.strips.is_empty()
    }
}

/// Threads with similar calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Number of threads.
    pub threads: u64,
    /// Number of calls of locking functions by these threads.
    pub calls: u64,
    /// The call site that they used most.
    pub most: String,
}

/// A lock or condition, or a call of a locking function with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Index of the lock in the process.
    pub lock: u64,
    /// Index among the locks of that name.
    pub instance: u64,
    /// The variable with the offset in it, if that is not the name of the lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub element: String,
    /// The call site. Empty for a release.
    pub site: String,
    /// Number of calls in the whole run.
    #[serde(default)]
    pub calls: u64,
}

/// Steps of one thread in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Strip {
    /// The class of the thread.
    pub class: u64,
    /// The thread.
    pub thread: u64,
    /// The window. All threads record steps in the same windows.
    pub window: u64,
    /// Start, in seconds after the start of the process.
    pub begin_s: f64,
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// One step: operation, place, nanoseconds since the end of the previous step, and duration in
/// nanoseconds. A record stores it as these four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, u64)", into = "(u64, u64, u64, u64)")]
pub struct Step {
    /// The operation.
    pub what: What,
    /// Whether the thread was switched out between the previous step and this one.
    pub off: bool,
    /// Whether the operation timed out.
    pub failed: bool,
    /// Index into [`Trace::places`].
    pub place: usize,
    /// Nanoseconds since the end of the previous step.
    pub gap_ns: u64,
    /// Duration in nanoseconds, including waits.
    pub took_ns: u64,
}

/// Operation of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// An operation of a later version.
    #[default]
    Other,
    /// Acquires a lock, or a unit of a semaphore.
    Lock,
    /// Releases a lock.
    Unlock,
    /// Waits on a condition variable.
    Wait,
    /// Signals a condition variable, or posts a semaphore that is not a lock.
    Signal,
    /// Wakes all threads that wait on a condition variable.
    Broadcast,
    /// Yields the CPU.
    Yield,
    /// Waits at a barrier.
    Barrier,
}

impl What {
    const ALL: [Self; 8] = [
        Self::Other,
        Self::Lock,
        Self::Unlock,
        Self::Wait,
        Self::Signal,
        Self::Broadcast,
        Self::Yield,
        Self::Barrier,
    ];
}

const OFF: u64 = 16;
const FAILED: u64 = 32;

impl From<(u64, u64, u64, u64)> for Step {
    fn from((what, place, gap_ns, took_ns): (u64, u64, u64, u64)) -> Self {
        Self {
            what: What::ALL.get((what % OFF) as usize).copied().unwrap_or_default(),
            off: what & OFF != 0,
            failed: what & FAILED != 0,
            place: place as usize,
            gap_ns,
            took_ns,
        }
    }
}

impl From<Step> for (u64, u64, u64, u64) {
    fn from(step: Step) -> Self {
        let [off, failed] = [step.off, step.failed].map(u64::from);
        let what = step.what as u64 + off * OFF + failed * FAILED;
        (what, step.place as u64, step.gap_ns, step.took_ns)
    }
}
