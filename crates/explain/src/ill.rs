//! Problems of a recorded program, and their descriptions.

use serde::Serialize;

/// A cost below this part of the threads' time is not a problem.
pub const LITTLE: f64 = 0.02;

/// The problem, the reason as text, and the cure.
pub(crate) type Reason = (Ill, String, String);
/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ill {
    /// Threads wait for each other forever.
    Deadlock,
    /// Python's interpreter lock.
    InterpreterLock,
    /// A lock inside libc.
    LibcLock,
    /// A monitor of Java, or a lock of another runtime.
    RuntimeLock,
    /// Readers overtake a writer.
    WriterStarvation,
    /// The owner sleeps in a system call.
    OwnerAsleep,
    /// The owner waits for another lock.
    OwnerWaits,
    /// The owner was preempted.
    OwnerPreempted,
    /// A thread acquires the lock again immediately.
    Hog,
    /// The critical section is long.
    LongSection,
    /// Many short critical sections.
    ShortSections,
    /// Waits for an unknown reason.
    Contended,
    /// A lock of the kernel.
    KernelLock,
    /// A broadcast wakes threads that find nothing to do.
    ThunderingHerd,
    /// The counter of a reader/writer lock moves between CPUs.
    ReaderCounter,
    /// Locks share a cache line.
    FalseSharing,
    /// Threads spin for a lock that the program implements itself.
    Spinning,
    /// Processes wait for each other.
    Processes,
}

/// One diagnosis.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The kind of problem.
    pub ill: Ill,
    /// The process, or 0 for the kernel.
    pub pid: u64,
    /// The name of the lock.
    pub lock: String,
    /// Cost as the part of their time that the affected threads lose. `None` if unknown.
    pub share: Option<f64>,
    /// Cost as a part of the busy time of all threads, or of the CPU time if CPU time is lost.
    pub weight: Option<f64>,
    /// Time that threads lose, in seconds, summed over threads.
    pub cost_s: f64,
    /// The problem and its reason.
    pub sentence: String,
    /// The cure.
    pub cure: String,
}

impl Diagnosis {
    /// Returns whether it costs enough to be a problem.
    pub fn is_much(&self) -> bool {
        let is_much = |part: Option<f64>| part.is_none_or(|part| part >= LITTLE);
        self.ill == Ill::Deadlock || is_much(self.share) && is_much(self.weight)
    }

    /// Returns the problem, its reason, and the cure as text.
    pub fn text(&self) -> String {
        [&self.sentence, " ", &self.cure].concat().trim_end().to_owned()
    }
}

/// Returns a part in whole percent, as text.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
