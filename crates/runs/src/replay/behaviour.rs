//! The recorded behaviour that a replay executes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::script::Script;
use crate::spread::Span;

/// How a critical section holds its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Exclusively.
    #[default]
    Exclusive,
    /// Together with other readers, if the lock is a reader/writer lock.
    Read,
    /// Exclusively, for writing, if the lock is a reader/writer lock.
    Write,
}

/// The kind of the locks of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `pthread_mutex_t`, and any lock that behaves like it.
    #[default]
    Mutex,
    /// `pthread_rwlock_t`.
    RwLock {
        /// Whether its attribute is `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
        prefers_writers: bool,
    },
    /// `pthread_spinlock_t`.
    Spinlock,
    /// `sem_t`.
    Semaphore {
        /// Free units at the beginning.
        units: u32,
    },
}

/// Additional cost of a critical section after an owner on another CPU, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Additional time, nanoseconds.
    pub extra_ns: f64,
    /// Share of the recorded critical sections that took longer.
    pub share: f64,
}

/// One place that acquires a lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The lock, an index of [`Behaviour::locks`].
    pub lock: usize,
    /// How it is held.
    pub mode: Mode,
    /// Acquisitions.
    pub count: u64,
    /// Number of threads that execute it: the first ones.
    pub threads: u32,
    /// Work and sleep while the lock is held.
    pub hold: Span,
    /// Work and sleep from the previous release to the request.
    pub think: Span,
}

/// Recorded behaviour of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// Number of locks of each name.
    pub locks: Vec<u32>,
    /// Kind of the locks of each name; mutexes beyond the end.
    pub kinds: Vec<Kind>,
    /// Names with locks of another kind than the replaced locks; they remain libc's locks.
    pub others: BTreeSet<usize>,
    /// Names of many locks that threads rarely wait for. Each thread has a separate lock, because
    /// otherwise an owner that holds a lock for long would block threads that never share it.
    pub private: BTreeSet<usize>,
    /// The places.
    pub sections: Vec<Section>,
    /// Number of threads.
    pub threads: u32,
    /// Number of CPUs that it could use.
    pub cpus: u32,
    /// Total number of acquisitions.
    pub total: u64,
    /// Acquisitions per second.
    pub rate: f64,
    /// CPU time of an acquisition and the work before it, nanoseconds.
    pub cpu_ns: f64,
    /// Mean wait for a lock, nanoseconds. A thread that waited did not sleep elsewhere.
    pub wait_ns: f64,
    /// Share of the time in which a lock was being handed from a release to its next owner.
    pub passing: f64,
    /// Recorded number of locks of each name; empty if it is the current number.
    pub before: Vec<u32>,
    /// Steps of its threads in order, if they are known and relevant: then sections and their times
    /// are not used.
    pub script: Option<Arc<Script>>,
    /// Mean wait at conditions per acquisition, nanoseconds.
    pub idle_ns: f64,
    /// Returns from waits at conditions per acquisition, including returns that found nothing and
    /// waited again.
    pub returns: f64,
    /// Time per acquisition for which threads could run but had no CPU, nanoseconds; `None` if not
    /// recorded.
    pub ready_ns: Option<f64>,
    /// Time per acquisition for which threads were switched away while they worked, nanoseconds:
    /// sleep, and waits for a CPU; `None` if not recorded.
    pub away_ns: Option<f64>,
    /// Additional cost of critical sections after another CPU, by name; none beyond the end.
    pub moved: Vec<Moved>,
    /// Price of a cache line that moves between two CPUs of the recorded machine, nanoseconds.
    pub transfer_ns: f64,
    /// Whether other programs used so large a part of the CPUs that the throughput differs from the
    /// throughput of the program alone.
    pub is_disturbed: bool,
}

impl Behaviour {
    /// Returns the recorded number of locks of a name.
    pub(super) fn recorded(&self, lock: usize) -> usize {
        self.before.get(lock).map_or(1, |count| *count as usize).max(1)
    }

    /// Returns the mean work in a critical section and before it, nanoseconds.
    pub fn work_ns(&self) -> f64 {
        self.mean(|one| one.think.work.mean() + one.hold.work.mean(), |_| true)
    }

    /// Returns the mean work before a critical section, nanoseconds.
    pub(super) fn think_ns(&self) -> f64 {
        self.mean(|one| one.think.work.mean(), |_| true)
    }

    /// Returns a mean over acquisitions.
    pub(super) fn mean(
        &self,
        of: impl Fn(&Section) -> f64,
        which: impl Fn(&Section) -> bool,
    ) -> f64 {
        let own = || self.sections.iter().filter(|one| which(one));
        let count: u64 = own().map(|one| one.count).sum();
        own().map(|one| of(one) * one.count as f64).sum::<f64>() / count.max(1) as f64
    }

    /// Returns the kind of the locks of a name.
    pub(super) fn kind(&self, lock: usize) -> Kind {
        self.kinds.get(lock).copied().unwrap_or_default()
    }
}
