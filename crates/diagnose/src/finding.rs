//! One finding on a recorded program: its problem, the lock, the waiting threads, the cost, the
//! cure and how well it is known.

use convoy_record::Origin;
use serde::Serialize;

use crate::gap::Gap;
use crate::interval::Z;
use crate::problem::{JavaActivity, JavaMonitor, Lost, Place, Problem, Subject};

/// A cost below this part of the threads' time is not a problem.
pub const LITTLE: f64 = 0.02;

/// Weight from which a cure may change the number of threads or the kind of the lock: such a change
/// may cost throughput elsewhere.
pub(crate) const MUCH: f64 = 0.1;

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
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
    /// All units of a semaphore are taken.
    PoolExhausted,
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

impl Kind {
    /// Returns whether the problem costs CPU time rather than time of waiting threads.
    pub fn costs_cpu(self) -> bool {
        matches!(
            self,
            Self::ThunderingHerd | Self::ReaderCounter | Self::FalseSharing | Self::Spinning
        )
    }
}

/// The threads that waited for a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waiters {
    /// The place in the program where they waited longest. `None` if it is not known.
    pub place: Option<Place>,
    /// Part of the wait time at that place.
    pub place_share: f64,
    /// Whether they waited almost only there.
    pub is_only_place: bool,
}

/// Activities of owners as parts of the time that threads waited for them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OwnerShares {
    /// On a CPU; `None` if their CPU time was not read.
    pub ran: Option<f64>,
    /// Runnable without a CPU; `None` if too little was observed to say so.
    pub preempted: Option<f64>,
    /// Asleep, or runnable after that sleep.
    pub asleep: f64,
    /// Waiting for another lock.
    pub waited: f64,
    /// The lock was free and its next owner had no CPU yet.
    pub free: f64,
    /// Number of samples of owners.
    pub samples: u64,
}

/// What helps. The text with its details is written by `report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cure {
    /// Acquire locks in one order, and release them on every way out.
    Order,
    /// Use processes, or a shorter switch interval.
    Processes,
    /// Avoid the function of the library.
    AvoidFunction,
    /// Buffer output, and lock the stream once.
    Buffer,
    /// Read without the lock.
    ReadWithoutLock,
    /// Prefer writers.
    PreferWriters,
    /// Initialise the pool with more units.
    MoreUnits,
    /// Release the lock before the call.
    ReleaseBeforeCall,
    /// Fix the other lock first.
    OtherLockFirst,
    /// Run fewer threads, or take a lock that a running thread may acquire.
    AnotherLock,
    /// Let owners inherit the priority of waiting threads.
    InheritPriority,
    /// Hand the lock over, or pause between sections.
    HandOver,
    /// Make the critical section shorter, or split what it guards.
    Shorten,
    /// Acquire the lock less often, or take a lock that spins first.
    LessOften,
    /// Sleep instead of spinning.
    Sleep,
    /// Call the kernel less often, or share less.
    ShareLess,
    /// Wake one thread for each item.
    WakeOne,
    /// Separate the cache lines.
    SeparateLines,
    /// Make the work that others wait for shorter.
    ShortenWork,
}

impl Cure {
    /// Returns whether another lock in the program can be the cure.
    pub fn is_lock(self) -> bool {
        matches!(self, Self::AnotherLock | Self::HandOver | Self::LessOften | Self::Sleep)
    }
}

/// How a fact is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Each event was counted or timed.
    Counted,
    /// From samples.
    Sampled,
    /// Estimated from counts and prices.
    Estimated,
}

/// How well the deciding fact of a finding is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// How it is known.
    pub source: Source,
    /// Number of observations on which it rests.
    pub observations: u64,
    /// 95 % interval of the deciding share, if it is sampled.
    pub interval: Option<[f64; 2]>,
}

/// One problem of a recorded program. Its kind and its cure follow from the facts.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The process, or 0 for the kernel.
    pub pid: u64,
    /// Name of the lock in the record, or of the place, program or class that has the problem.
    pub lock: String,
    /// What the lock is part of. `None` if the finding is not about one lock of the record.
    pub origin: Option<Origin>,
    /// The lock. `None` likewise.
    pub subject: Option<Subject>,
    /// The threads that waited for it. `None` if the finding is not about waits for one lock.
    pub waiters: Option<Waiters>,
    /// Activities of its owners, if they are known.
    pub owners: Option<OwnerShares>,
    /// Cost as the part of their time that the affected threads lose. `None` if unknown.
    pub share: Option<f64>,
    /// Cost as a part of the busy time of all threads, or of the CPU time if CPU time is lost.
    pub weight: Option<f64>,
    /// Time that threads lose, in seconds, summed over threads.
    pub cost_s: f64,
    /// The facts that explain it.
    pub problem: Problem,
    /// Another cause, which may explain as much of the waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Problem>,
    /// What the record does not show about it.
    pub gaps: Vec<Gap>,
    /// How well it is known.
    pub confidence: Confidence,
}

impl Finding {
    /// Returns the kind of the problem.
    pub fn kind(&self) -> Kind {
        self.problem.kind()
    }

    /// Returns what helps. A monitor of Java can often be read without.
    pub fn cure(&self) -> Cure {
        match (self.origin, self.problem.cure()) {
            (Some(Origin::JavaMonitor), Cure::Shorten) => Cure::ReadWithoutLock,
            (_, Cure::AnotherLock) if !self.is_convoy() => Cure::Shorten,
            // Handing a lock over costs throughput.
            (_, Cure::HandOver) if self.weight.is_some_and(|weight| weight < MUCH) => Cure::Shorten,
            (_, cure) => cure,
        }
    }

    /// Returns whether owners without a CPU make a lock convoy: it costs much, and the queue
    /// outlives its cause, so that threads wait for most of the run.
    pub fn is_convoy(&self) -> bool {
        /// Minimum part of the run.
        const MOST: f64 = 0.5;
        match &self.problem {
            Problem::OwnerPreempted { lost: Lost::HandedOver(_), .. } => true,
            Problem::OwnerPreempted { queued, inversion: None, .. } => {
                queued.is_none_or(|queued| queued >= MOST)
                    && self.weight.is_none_or(|weight| weight >= MUCH)
            }
            _ => false,
        }
    }

    /// Returns whether it costs enough to be a problem. A few waits that cost little more
    /// than the limit would cost less in the next record.
    pub fn is_relevant(&self) -> bool {
        /// Half of the 95 % interval of a sum of a random number of exponential times, divided by
        /// the sum, for one time.
        const DEVIATION: f64 = Z * std::f64::consts::SQRT_2;
        /// Cost from which it is a problem even after a single wait.
        const CLEAR: f64 = 2.5 * LITTLE;
        // Waits for locks of libraries may be samples of many more.
        let is_counted =
            self.origin == Some(Origin::Libc) && self.confidence.source == Source::Counted;
        let count =
            if is_counted { self.confidence.observations.max(1) as f64 } else { f64::INFINITY };
        let error = DEVIATION / count.sqrt();
        let mut parts = [self.share, self.weight].into_iter().flatten();
        let is_large = parts.all(|part| part >= CLEAR || part * (1.0 - error) >= LITTLE);
        self.kind() == Kind::Deadlock || is_large
    }
}

impl Problem {
    /// Returns the kind of the problem.
    pub fn kind(&self) -> Kind {
        match self {
            Problem::Deadlock { .. } => Kind::Deadlock,
            Problem::InterpreterLock => Kind::InterpreterLock,
            Problem::LibcLock { .. } => Kind::LibcLock,
            Problem::Java { monitor: Some(JavaMonitor { units: Some(_), .. }), .. } => {
                Kind::PoolExhausted
            }
            Problem::RustStream { .. } | Problem::Java { .. } | Problem::RuntimeLock { .. } => {
                Kind::RuntimeLock
            }
            Problem::WriterStarvation { .. } => Kind::WriterStarvation,
            Problem::PoolExhausted { .. } => Kind::PoolExhausted,
            Problem::OwnerAsleep { .. } => Kind::OwnerAsleep,
            Problem::OwnerWaits { .. } => Kind::OwnerWaits,
            Problem::OwnerPreempted { .. } => Kind::OwnerPreempted,
            Problem::Hog { .. } => Kind::Hog,
            Problem::LongSection { .. } => Kind::LongSection,
            Problem::ShortSections { .. } => Kind::ShortSections,
            Problem::Contended { .. } | Problem::Polls { .. } => Kind::Contended,
            Problem::KernelLock { .. } | Problem::KernelWait { .. } => Kind::KernelLock,
            Problem::ThunderingHerd(_) => Kind::ThunderingHerd,
            Problem::ReaderCounter { .. } => Kind::ReaderCounter,
            Problem::FalseSharing { .. } => Kind::FalseSharing,
            Problem::Spinlock { .. } | Problem::Spinning { .. } | Problem::Attempts { .. } => {
                Kind::Spinning
            }
            Problem::Processes { .. } => Kind::Processes,
        }
    }

    /// Returns what helps against the problem, whatever the lock is part of.
    pub fn cure(&self) -> Cure {
        match self {
            Problem::Deadlock { .. } => Cure::Order,
            Problem::InterpreterLock => Cure::Processes,
            Problem::LibcLock { .. } => Cure::AvoidFunction,
            Problem::RustStream { .. } => Cure::Buffer,
            Problem::Java { monitor: Some(monitor), .. } => java_cure(monitor),
            Problem::Java { monitor: None, .. } | Problem::ReaderCounter { .. } => {
                Cure::ReadWithoutLock
            }
            Problem::WriterStarvation { .. } => Cure::PreferWriters,
            Problem::PoolExhausted { .. } => Cure::MoreUnits,
            Problem::OwnerAsleep { .. } => Cure::ReleaseBeforeCall,
            Problem::OwnerWaits { end, .. } => {
                end.as_deref().map_or(Cure::OtherLockFirst, Self::cure)
            }
            Problem::OwnerPreempted { inversion: Some(_), .. } => Cure::InheritPriority,
            Problem::OwnerPreempted { .. } => Cure::AnotherLock,
            Problem::Hog { .. } => Cure::HandOver,
            Problem::LongSection { .. }
            | Problem::Contended { .. }
            | Problem::RuntimeLock { .. } => Cure::Shorten,
            Problem::ShortSections { .. } => Cure::LessOften,
            Problem::KernelLock { .. } | Problem::KernelWait { .. } => Cure::ShareLess,
            Problem::ThunderingHerd(_) => Cure::WakeOne,
            Problem::FalseSharing { .. } => Cure::SeparateLines,
            Problem::Spinlock { .. }
            | Problem::Spinning { .. }
            | Problem::Attempts { .. }
            | Problem::Polls { .. } => Cure::Sleep,
            Problem::Processes { .. } => Cure::ShortenWork,
        }
    }
}

/// Returns what helps against waits for a Java lock.
fn java_cure(monitor: &JavaMonitor) -> Cure {
    match &monitor.activity {
        _ if monitor.units.is_some() => Cure::MoreUnits,
        JavaActivity::Sleeps { method: Some(_) } | JavaActivity::Native { .. } => {
            Cure::ReleaseBeforeCall
        }
        JavaActivity::Waits { .. } => Cure::OtherLockFirst,
        _ => Cure::ReadWithoutLock,
    }
}
