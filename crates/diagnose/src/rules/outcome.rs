//! The kind and the cure of each problem, and findings that are not about waits for one lock.

use convoy_record::{Kind as Primitive, Origin};

use crate::finding::{
    Confidence, Cure, Finding, JavaActivity, JavaMonitor, Kind, Problem, Source, Subject,
};

/// A finding that is not about waits for one lock.
pub(super) struct Plain<'a> {
    pub(super) pid: u64,
    pub(super) lock: &'a str,
    pub(super) share: Option<f64>,
    pub(super) cost_s: f64,
    pub(super) source: Source,
    pub(super) observations: u64,
}

impl Plain<'_> {
    /// Returns the finding of this problem.
    pub(super) fn finding(self, problem: Problem) -> Finding {
        let Self { pid, lock, share, cost_s, source, observations } = self;
        Finding {
            kind: kind(&problem),
            pid,
            lock: lock.to_owned(),
            origin: Origin::Libc,
            subject: crate::evidence::named(lock, Primitive::Mutex, 1),
            waiters: None,
            owners: None,
            share,
            weight: None,
            cost_s,
            cure: cure(&problem),
            problem,
            gaps: Vec::new(),
            confidence: Confidence { source, observations, interval: None },
        }
    }
}

impl Finding {
    /// Replaces the lock that the finding is about.
    pub(super) fn about(mut self, subject: Subject, origin: Origin) -> Self {
        self.subject = subject;
        self.origin = origin;
        self
    }
}

/// Returns the kind of a problem.
pub(super) fn kind(problem: &Problem) -> Kind {
    match problem {
        Problem::Deadlock { .. } => Kind::Deadlock,
        Problem::InterpreterLock => Kind::InterpreterLock,
        Problem::LibcLock { .. } => Kind::LibcLock,
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
        Problem::Contended { .. } => Kind::Contended,
        Problem::KernelLock { .. } => Kind::KernelLock,
        Problem::ThunderingHerd(_) => Kind::ThunderingHerd,
        Problem::ReaderCounter { .. } => Kind::ReaderCounter,
        Problem::FalseSharing { .. } => Kind::FalseSharing,
        Problem::Spinlock { .. } | Problem::Spinning { .. } | Problem::Attempts { .. } => {
            Kind::Spinning
        }
        Problem::Processes { .. } => Kind::Processes,
    }
}

/// Returns the cure of a lock of this origin: a monitor of Java can often be read without.
pub(super) fn of_origin(origin: Origin, cure: Cure) -> Cure {
    if origin == Origin::JavaMonitor && cure == Cure::Shorten {
        Cure::ReadWithoutLock
    } else {
        cure
    }
}

/// Returns what helps against a problem.
pub(super) fn cure(problem: &Problem) -> Cure {
    match problem {
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
        Problem::OwnerWaits { end, .. } => end.as_deref().map_or(Cure::OtherLockFirst, self::cure),
        Problem::OwnerPreempted { .. } => Cure::AnotherLock,
        Problem::Hog { .. } => Cure::HandOver,
        Problem::LongSection { .. } | Problem::Contended { .. } | Problem::RuntimeLock { .. } => {
            Cure::Shorten
        }
        Problem::ShortSections { .. } => Cure::LessOften,
        Problem::KernelLock { .. } => Cure::ShareLess,
        Problem::ThunderingHerd(_) => Cure::WakeOne,
        Problem::FalseSharing { .. } => Cure::SeparateLines,
        Problem::Spinlock { .. } | Problem::Spinning { .. } | Problem::Attempts { .. } => {
            Cure::Sleep
        }
        Problem::Processes { .. } => Cure::ShortenWork,
    }
}

/// Returns what helps against waits for a Java lock.
fn java_cure(monitor: &JavaMonitor) -> Cure {
    match &monitor.activity {
        JavaActivity::Sleeps { method: Some(_) } | JavaActivity::Native { .. } => {
            Cure::ReleaseBeforeCall
        }
        JavaActivity::Waits { .. } => Cure::OtherLockFirst,
        _ => Cure::ReadWithoutLock,
    }
}
