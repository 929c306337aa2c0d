//! Steps of threads in order, in windows of the run: the order that counts by call site do not
//! show.

use serde::{Deserialize, Serialize};

/// The steps of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Classes of threads: threads of one class use the same call sites.
    pub classes: Vec<Class>,
    /// Places that steps name by their number.
    pub places: Vec<Place>,
    /// Steps of one thread in one window.
    pub strips: Vec<Strip>,
}

impl Trace {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.strips.is_empty()
    }
}

/// Threads that do the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// How many.
    pub threads: u64,
    /// Calls of locking functions of all of them.
    pub calls: u64,
    /// The place that they called from most.
    pub most: String,
}

/// A lock or condition, or a call of a locking function with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The lock: its number in the process.
    pub lock: u64,
    /// Which of the locks of that name.
    pub instance: u64,
    /// The call site; empty where a lock is given up.
    pub site: String,
    /// Calls in the whole run.
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
    /// The window; all threads write in the same ones.
    pub window: u64,
    /// When it began, seconds after the process.
    pub begin_s: f64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step: what, its place, nanoseconds since the end of the step before, and nanoseconds that it
/// took. In a record it is these four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, u64)", into = "(u64, u64, u64, u64)")]
pub struct Step {
    /// The operation.
    pub what: What,
    /// Whether the thread was switched away between the step before and this one.
    pub off: bool,
    /// Whether a time limit ran out.
    pub failed: bool,
    /// Where: a number of [`Trace::places`].
    pub place: usize,
    /// Nanoseconds since the end of the step before.
    pub gap_ns: u64,
    /// Nanoseconds that it took: waits among them.
    pub took_ns: u64,
}

/// Operation of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Something of a later version.
    #[default]
    Other,
    /// Takes a lock, or a unit of a semaphore.
    Lock,
    /// Releases a lock.
    Unlock,
    /// Waits on a condition variable.
    Wait,
    /// Signals one, or posts a semaphore that is not a lock.
    Signal,
    /// Wakes all that wait on one.
    Broadcast,
    /// Lets others run.
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
