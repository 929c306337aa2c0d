//! What may be wrong with a recorded program, and what is said of it.

use serde::Serialize;

/// Part of the threads' time below which nothing is a problem.
pub const LITTLE: f64 = 0.02;

/// What is wrong, why in words, and the cure.
pub(crate) type Reason = (Ill, String, String);
/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ill {
    /// Threads wait for each other for good.
    Deadlock,
    /// Python's interpreter lock.
    InterpreterLock,
    /// A lock inside of libc.
    LibcLock,
    /// A monitor of Java, or a lock of another runtime.
    RuntimeLock,
    /// Readers overtake a writer.
    WriterStarvation,
    /// The owner sleeps in a system call.
    OwnerAsleep,
    /// The owner waits for another lock.
    OwnerWaits,
    /// The owner had lost its CPU.
    OwnerPreempted,
    /// A thread acquires the lock again at once.
    Hog,
    /// The critical section is long.
    LongSection,
    /// Many short critical sections.
    ShortSections,
    /// Waits for which the reason is not known.
    Contended,
    /// A lock of the kernel.
    KernelLock,
    /// A broadcast wakes threads in vain.
    ThunderingHerd,
    /// The counter of a lock for readers moves between CPUs.
    ReaderCounter,
    /// Locks share a cache line.
    FalseSharing,
    /// Threads spin for a lock of the program's own.
    Spinning,
    /// Processes wait for each other.
    Processes,
}

/// One diagnosis.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// What is wrong.
    pub ill: Ill,
    /// The process; 0: the kernel.
    pub pid: u64,
    /// The lock, by its name.
    pub lock: String,
    /// What it costs: the part of their time that the threads concerned lose; none: not known.
    pub share: Option<f64>,
    /// The part of the busy time of all threads, or of the CPU time if that is lost.
    pub weight: Option<f64>,
    /// Time that threads lose, seconds, summed over threads.
    pub cost_s: f64,
    /// What is wrong, and why.
    pub sentence: String,
    /// What to do.
    pub cure: String,
}

impl Diagnosis {
    /// Whether it costs enough to be a problem.
    pub fn is_much(&self) -> bool {
        let is_much = |part: Option<f64>| part.is_none_or(|part| part >= LITTLE);
        self.ill == Ill::Deadlock || is_much(self.share) && is_much(self.weight)
    }

    /// What is wrong, why, and what to do.
    pub fn text(&self) -> String {
        [&self.sentence, " ", &self.cure].concat().trim_end().to_owned()
    }
}

/// A part in whole percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
