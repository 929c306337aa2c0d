//! The recorded behaviour that a replay executes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::script::Script;
use crate::spread::Span;

/// How a critical section holds its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Alone.
    #[default]
    Exclusive,
    /// Together with other readers, if the lock is a reader/writer lock.
    Read,
    /// Alone, of a reader/writer lock.
    Write,
}

/// What the locks of one name are in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `pthread_mutex_t`, and any lock that acts like it.
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
    /// Time by which it takes longer, nanoseconds.
    pub extra_ns: f64,
    /// Share of the recorded sections that took longer.
    pub share: f64,
}

/// One place that takes a lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Which lock, an index of [`Behaviour::locks`].
    pub lock: usize,
    /// How it is held.
    pub mode: Mode,
    /// Acquisitions.
    pub count: u64,
    /// Threads that do it: the first ones.
    pub threads: u32,
    /// While it is held.
    pub hold: Span,
    /// From the release before to the request.
    pub think: Span,
}

/// What a program did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// How many locks there are of each name.
    pub locks: Vec<u32>,
    /// What the locks of each name are; those beyond the end are mutexes.
    pub kinds: Vec<Kind>,
    /// Names whose locks are of another kind than those that are replaced: they stay libc's.
    pub others: BTreeSet<usize>,
    /// Names of many locks that hardly anybody waits for: each thread has its own, since who holds
    /// one for long would else hold up threads that never meet it.
    pub private: BTreeSet<usize>,
    /// The places.
    pub sections: Vec<Section>,
    /// Threads.
    pub threads: u32,
    /// CPUs that it could use.
    pub cpus: u32,
    /// Acquisitions in all.
    pub total: u64,
    /// Acquisitions a second.
    pub rate: f64,
    /// CPU time of an acquisition and the work before it, nanoseconds.
    pub cpu_ns: f64,
    /// Mean wait for a lock, nanoseconds: what a thread waited it did not sleep elsewhere.
    pub wait_ns: f64,
    /// Share of the time in which a lock was on its way from a release to the next owner.
    pub passing: f64,
    /// How many locks of each name there were; empty: as many as now.
    pub before: Vec<u32>,
    /// What its threads did in order, if that is known and matters: then sections and their times
    /// are not used.
    pub script: Option<Arc<Script>>,
    /// Mean wait at conditions for each acquisition, nanoseconds.
    pub idle_ns: f64,
    /// Returns from waits at conditions for each acquisition, with those that found nothing and
    /// began again.
    pub returns: f64,
    /// Time for which threads could run but had no CPU, of each acquisition, nanoseconds; `None`:
    /// not recorded.
    pub ready_ns: Option<f64>,
    /// Time for which threads were switched away while they worked, of each acquisition,
    /// nanoseconds: sleep, and waits for a CPU; `None`: not recorded.
    pub away_ns: Option<f64>,
    /// What sections cost more after another CPU, for each name; those beyond the end: nothing.
    pub moved: Vec<Moved>,
    /// Price of a line between two CPUs of the recorded machine, nanoseconds.
    pub transfer_ns: f64,
    /// Whether other programs took so much of the CPUs that the throughput is not that of the
    /// program alone.
    pub is_disturbed: bool,
}

impl Behaviour {
    /// How many locks of a name there were.
    pub(super) fn recorded(&self, lock: usize) -> usize {
        self.before.get(lock).map_or(1, |count| *count as usize).max(1)
    }

    /// Mean work of a critical section and before it, nanoseconds.
    pub fn work_ns(&self) -> f64 {
        let work = |one: &Section| one.think.work.mean() + one.hold.work.mean();
        self.mean(work, |_| true)
    }

    /// Mean work before a critical section, nanoseconds.
    pub(super) fn think_ns(&self) -> f64 {
        self.mean(|one| one.think.work.mean(), |_| true)
    }

    /// Mean time for which the locks of a name are held, nanoseconds, and whether some holds
    /// overlap: those of readers, and of a semaphore with several units.
    pub fn held_ns(&self, lock: usize) -> (f64, bool) {
        let own = |one: &Section| one.lock == lock;
        let is_read = self.sections.iter().any(|one| own(one) && one.mode == Mode::Read);
        let is_shared =
            is_read || matches!(self.kind(lock), Kind::Semaphore { units } if units != 1);
        (self.mean(|one| one.hold.work.mean(), own), is_shared)
    }

    /// A mean over acquisitions.
    pub(super) fn mean(
        &self,
        of: impl Fn(&Section) -> f64,
        which: impl Fn(&Section) -> bool,
    ) -> f64 {
        let own = || self.sections.iter().filter(|one| which(one));
        let count: u64 = own().map(|one| one.count).sum();
        own().map(|one| of(one) * one.count as f64).sum::<f64>() / count.max(1) as f64
    }

    /// What the locks of a name are.
    pub(super) fn kind(&self, lock: usize) -> Kind {
        self.kinds.get(lock).copied().unwrap_or_default()
    }
}
