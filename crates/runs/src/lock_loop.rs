//! The loop of the lock experiments: one source for threads of this machine and for threads of the
//! virtual kernel.
//!
//! On this machine, one gate (a futex) starts all threads together. On a virtual machine, each
//! thread starts where its kernel places a new thread, unless the gate is requested. Each thread
//! then works outside, acquires the lock, works inside, and releases it, until the phase is over.
//! Threads of a lock with handoff in order cannot be stopped by a flag alone, because waiters do
//! not read it: a thread that acquires the lock after the window releases it immediately and exits,
//! so the queue drains in one turn per thread.

mod work;

use std::fmt;
use std::iter;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_stats::{LogHistogram, jain};
use convoy_sync::{Atomic, Lock, Platform, Sleep};

use crate::steady::Settling;

const GATE_CLOSED: u32 = 0;
const GATE_OPEN: u32 = 1;

/// Time before the window.
pub(crate) const PHASE_WARMUP: u32 = 0;
/// Critical sections and waits count.
pub(crate) const PHASE_WINDOW: u32 = 1;
/// All threads exit.
pub(crate) const PHASE_OVER: u32 = 2;

pub use crate::native::Library;
pub use convoy_sync::{LockName as Policy, Promise};
pub use work::Vary;
pub(crate) use work::{Readers, Work, Works};

/// The lock of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A lock that runs on every platform.
    Generic(Policy),
    /// A lock of this machine's libraries.
    Library(Library),
}

impl Measured {
    /// Returns the lock of this name; `None` if there is no such lock.
    pub fn named(name: &str) -> Option<Self> {
        let generic = Policy::named(name).map(Self::Generic);
        generic.or_else(|| Library::named(name).map(Self::Library))
    }

    /// Returns the name of each lock.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Policy::NAMES.iter().copied().chain(Library::ALL.iter().map(|lock| lock.name()))
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic(lock) => lock.name(),
            Self::Library(lock) => lock.name(),
        }
    }

    /// Returns whether it makes this promise.
    pub fn promises_to(self, promise: Promise) -> bool {
        matches!(self, Self::Generic(lock) if lock.promises_to(promise))
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One lock loop, on either kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The lock.
    pub lock: Measured,
    /// Number of CPUs to which the threads are restricted; `None` for all.
    pub cpus: Option<u32>,
    /// Threads.
    pub threads: u32,
    /// On a virtual machine: each thread is pinned to a separate CPU and runs in the kernel, with
    /// preemption disabled; no other task runs.
    pub bound: bool,
    /// On a virtual machine: threads in addition to these that compute and take no lock.
    pub busy: u32,
    /// Number of locks. Thread `i` uses lock `i` modulo this number.
    pub locks: u32,
    /// Cache lines that a critical section writes, or reads.
    pub lines: u32,
    /// Percentage of critical sections that acquire the lock for reading, if it is a reader/writer
    /// lock.
    pub readers_percent: u32,
    /// Length of the critical section, nanoseconds, including its clock read.
    pub section_ns: u32,
    /// Variation of that length.
    pub section: Vary,
    /// Work between two critical sections, nanoseconds, including its clock read.
    pub outside_ns: u32,
    /// Variation of that work.
    pub think: Vary,
    /// Number of reads before a spinning lock sleeps; replaces its default.
    pub spin_limit: Option<u32>,
    /// Seed of the draws, and of the perturbation of a virtual machine.
    pub seed: u64,
    /// Time from the start of the threads to the window, milliseconds: exact after a gate has
    /// opened, otherwise a minimum.
    pub warmup_ms: u32,
    /// On a virtual machine: all threads sleep on one gate, and the window begins `warmup_ms` after
    /// its opening, settled or not. Otherwise the window begins when the run has settled.
    pub from_start: bool,
    /// Length of the window, in milliseconds.
    pub window_ms: u32,
}

impl Loop {
    /// Returns the work of thread `index` in a critical section and outside. `steps` converts
    /// nanoseconds to steps.
    pub(crate) fn work(&self, index: u32, steps: impl Fn(u32) -> u32) -> Works {
        Works {
            // Draws inside differ from the draws outside.
            inside: Work::new(self.section, steps(self.section_ns), !self.seed, index),
            outside: Work::new(self.think, steps(self.outside_ns), self.seed, index),
            readers: Readers::new(self.readers_percent, self.seed, index),
        }
    }
}

/// A short loop of one thread, for tests.
#[cfg(test)]
impl Default for Loop {
    fn default() -> Self {
        Self {
            lock: Measured::Library(Library::Std),
            cpus: None,
            threads: 1,
            bound: false,
            busy: 0,
            locks: 1,
            lines: 1,
            readers_percent: 0,
            section_ns: 1000,
            section: Vary::Fixed,
            outside_ns: 1000,
            think: Vary::Fixed,
            spin_limit: None,
            seed: 1,
            warmup_ms: 1,
            from_start: false,
            window_ms: 20,
        }
    }
}

/// Result of a lock loop.
#[derive(Clone, Debug, Default)]
pub struct LoopResult {
    /// Actual length of the window, seconds.
    pub window_s: f64,
    /// Critical sections that each thread completed in the window.
    pub acquisitions: Vec<u64>,
    /// Number of locks.
    pub locks: u32,
    /// Mean number of CPUs in use; on this machine, by the process.
    pub cpus_used: f64,
    /// CPUs that other programs used during the loop, including a hypervisor; `None` if unknown.
    pub others_cpus: Option<f64>,
    /// Uncontended time to acquire and release the lock, the shortest of many, in nanoseconds;
    /// `None` if not measured.
    pub alone_ns: Option<f64>,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Threads that waited when the window ended.
    pub waiting_threads: u32,
    /// The time before the window, if it ended when the run had settled.
    pub settling: Option<Settling>,
    /// Waits, in nanoseconds.
    pub waits: LogHistogram,
}

impl LoopResult {
    /// Returns the critical sections completed per second.
    pub fn acquisitions_per_s(&self) -> f64 {
        self.acquisitions.iter().sum::<u64>() as f64 / self.window_s
    }

    /// Returns its numbers by their names in reports; unknown numbers are not finite.
    pub fn metrics(&self) -> [(&'static str, f64); 15] {
        let us = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e3);
        let settling = |of: fn(Settling) -> f64| self.settling.map_or(f64::NAN, of);
        let starved = self.acquisitions.iter().filter(|count| **count == 0).count();
        [
            ("acquisitions_per_s", self.acquisitions_per_s()),
            ("acquisitions_per_lock_s", self.acquisitions_per_s() / f64::from(self.locks.max(1))),
            ("cpu_ns_per_section", self.cpus_used * 1e9 / self.acquisitions_per_s()),
            ("alone_ns", self.alone_ns.unwrap_or(f64::NAN)),
            ("jain", jain(&self.acquisitions).unwrap_or(f64::NAN)),
            ("cpus_used", self.cpus_used),
            ("others_cpus", self.others_cpus.unwrap_or(f64::NAN)),
            ("voluntary_switches_per_s", self.voluntary_switches as f64 / self.window_s),
            ("starved_threads", starved as f64),
            ("waiting_threads", f64::from(self.waiting_threads)),
            ("wait_p50_us", us(self.waits.percentile(50.0))),
            ("wait_p99_us", us(self.waits.percentile(99.0))),
            ("wait_max_us", us(self.waits.max())),
            ("settle_ms", settling(|settling| settling.ns as f64 / 1e6)),
            ("unsettled", settling(|settling| f64::from(u8::from(!settling.is_settled)))),
        ]
    }
}

/// Operations that the loop needs in addition to a lock's.
pub(crate) trait Ground: Platform {
    /// Whether completed critical sections are counted as they end, which costs nothing there.
    const COUNTS: bool;

    /// Executes `steps` dependent steps of user-mode work that continue from `value`.
    fn churn(value: usize, steps: u32) -> usize;

    /// Announces that `words` will be used, none of whose addresses depends on another's value.
    /// Only a virtual CPU, which executes in order, needs this.
    fn expect<'a>(_words: impl Iterator<Item = &'a Self::AtomicUsize>) {}
}

/// Interface of a lock for the loop.
pub(crate) trait Guarded: Sized {
    /// Returns an unlocked lock, which reads `spin_limit` times before it sleeps if it is a
    /// spinning lock.
    fn free(spin_limit: Option<u32>) -> Self;

    /// Runs `section` with the lock held.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;

    /// Runs `section` with the lock held for reading if it is a reader/writer lock, otherwise
    /// exclusively.
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.with(section)
    }
}

impl<C: Lock> Guarded for C {
    fn free(spin_limit: Option<u32>) -> Self {
        spin_limit.map_or_else(C::unlocked, |looks| C::unlocked().spin_limit(looks))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.acquire();
        let result = section();
        self.release();
        result
    }

    #[inline]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.acquire_shared();
        let result = section();
        self.release_shared();
        result
    }
}

/// A value on a separate cache line, followed by an empty line, because CPUs fetch lines in pairs.
#[repr(C, align(64))]
pub(crate) struct Apart<T>(pub(crate) T, [u8; 64]);

impl<T> Apart<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value, [0; 64])
    }
}

/// A lock and the data that it protects: a word and others on further lines, all on separate lines.
pub(crate) struct Door<P: Platform, C> {
    lock: Apart<C>,
    word: Apart<P::AtomicUsize>,
    others: Vec<P::Home<Apart<P::AtomicUsize>>>,
    /// Whether no line is written.
    empty: bool,
}

impl<P: Platform, C: Guarded> Door<P, C> {
    pub(crate) fn new(spin_limit: Option<u32>, lines: u32) -> Self {
        let word = || Apart::new(P::AtomicUsize::new(1));
        Self {
            lock: Apart::new(C::free(spin_limit)),
            word: word(),
            others: (1..lines).map(|_| P::place(word())).collect(),
            empty: lines == 0,
        }
    }

    /// Executes `steps` of a critical section. A reader (`beside`) does not write.
    fn work(&self, steps: u32, beside: bool)
    where
        P: Ground,
    {
        if self.empty {
            std::hint::black_box(P::churn(1, steps));
            return;
        }
        // The lock orders these accesses; they are atomic only because the language requires it.
        let word = &self.word.0;
        if !self.others.is_empty() {
            P::expect(iter::once(word).chain(self.others.iter().map(|other| &other.0)));
        }
        let value = P::churn(word.load(Relaxed), steps);
        if beside {
            std::hint::black_box(value);
        } else {
            word.store(value, Relaxed);
        }
        for word in &self.others {
            let value = word.0.load(Relaxed);
            if !beside {
                word.0.store(value.wrapping_add(1), Relaxed);
            }
        }
    }

    /// Acquires the lock as `work` says and works with it held. Returns the time of the
    /// acquisition.
    pub(crate) fn pass(&self, work: &mut Works) -> u64
    where
        P: Ground,
    {
        let (steps, beside) = (work.inside.draw(), work.readers.draw());
        let section = || {
            let got = P::now();
            self.work(steps, beside);
            got
        };
        if beside { self.lock.0.with_shared(section) } else { self.lock.0.with(section) }
    }
}

/// State that all threads of a cell share, with its only lock or the first of several. Words that
/// are only read during the window are separate from the others.
pub(crate) struct Shared<P: Platform, C> {
    pub(crate) door: Door<P, C>,
    gate: Apart<P::AtomicU32>,
    phase: P::AtomicU32,
    window_end_ns: P::AtomicUsize,
    ready: Apart<P::AtomicU32>,
    gone: P::AtomicU32,
    /// Threads that have held the lock within the window.
    served: P::AtomicU32,
    /// Critical sections completed so far, where they are counted. Not in simulated memory.
    passed: AtomicU64,
}

/// The words of a cell that its coordinator uses, for every lock.
pub(crate) struct Stage<'a, P: Platform> {
    gate: &'a P::AtomicU32,
    pub(crate) phase: &'a P::AtomicU32,
    pub(crate) window_end_ns: &'a P::AtomicUsize,
    pub(crate) ready: &'a P::AtomicU32,
    pub(crate) gone: &'a P::AtomicU32,
    pub(crate) served: &'a P::AtomicU32,
    pub(crate) passed: &'a AtomicU64,
}

impl<P: Platform> Stage<'_, P> {
    pub(crate) fn open_gate(&self) {
        self.gate.store(GATE_OPEN, Release);
        P::wake(self.gate, usize::MAX);
    }
}

/// Interface of a cell for its coordinator, which is compiled once and not for each lock.
pub(crate) trait Contest<P: Platform> {
    fn stage(&self) -> Stage<'_, P>;

    /// Runs one thread, from its start to its end, with its work in a critical section and outside.
    fn body(&self, index: u32, work: &mut Works) -> Trace;
}

/// Measurements of one thread.
pub(crate) struct Trace {
    pub(crate) acquisitions: u64,
    pub(crate) waits: LogHistogram,
    /// Whether the thread waited when the window ended.
    pub(crate) waiting: bool,
}

impl<P: Ground, C: Guarded> Shared<P, C> {
    pub(crate) fn new(spin_limit: Option<u32>, lines: u32) -> Self {
        Self {
            door: Door::new(spin_limit, lines),
            gate: Apart::new(P::AtomicU32::new(GATE_CLOSED)),
            phase: P::AtomicU32::new(PHASE_WARMUP),
            window_end_ns: P::AtomicUsize::new(0),
            ready: Apart::new(P::AtomicU32::new(0)),
            gone: P::AtomicU32::new(0),
            served: P::AtomicU32::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// Acquires the lock of `door` once and works for `steps`, `beside` other readers or alone.
    /// Returns whether there is time for more.
    fn visit(&self, door: &Door<P, C>, steps: u32, beside: bool, trace: &mut Trace) -> bool {
        let asked = P::now();
        let section = || {
            let got = P::now();
            // Acquire: the end of the window is written before the phase becomes `PHASE_OVER`.
            let phase = self.phase.load(Acquire);
            if phase != PHASE_OVER {
                door.work(steps, beside);
            }
            (got, phase)
        };
        let lock = &door.lock.0;
        let (got, phase) = if beside { lock.with_shared(section) } else { lock.with(section) };
        if P::COUNTS {
            self.passed.fetch_add(1, Relaxed);
        }
        match phase {
            PHASE_WINDOW => {
                if trace.acquisitions == 0 {
                    self.served.fetch_add(1, Release);
                }
                trace.acquisitions += 1;
                trace.waits.record(got - asked);
            }
            PHASE_OVER => {
                let end = self.window_end_ns.load(Relaxed) as u64;
                if asked < end {
                    trace.waiting = true;
                    trace.waits.record(end - asked);
                }
            }
            _ => {}
        }
        phase != PHASE_OVER
    }
}

impl<P: Ground, C: Guarded> Contest<P> for Shared<P, C> {
    fn stage(&self) -> Stage<'_, P> {
        Stage {
            gate: &self.gate.0,
            phase: &self.phase,
            window_end_ns: &self.window_end_ns,
            ready: &self.ready.0,
            gone: &self.gone,
            served: &self.served,
            passed: &self.passed,
        }
    }

    fn body(&self, index: u32, work: &mut Works) -> Trace {
        self.body_at(&self.door, index, work)
    }
}

impl<P: Ground, C: Guarded> Shared<P, C> {
    /// Runs [`Contest::body`] with the lock of `door`.
    pub(crate) fn body_at(&self, door: &Door<P, C>, index: u32, work: &mut Works) -> Trace {
        let Works { inside, outside, readers } = work;
        // All memory is allocated before the gate.
        let mut trace = Trace { acquisitions: 0, waits: LogHistogram::new(), waiting: false };
        // Release: pairs with the acquire load of the coordinator.
        self.ready.0.fetch_add(1, Release);
        while self.gate.0.load(Acquire) == GATE_CLOSED {
            P::wait(&self.gate.0, GATE_CLOSED, Sleep::Uninterruptible, None);
        }
        let mut private = index as usize;
        while self.phase.load(Relaxed) != PHASE_OVER {
            private = P::churn(private, outside.draw());
            if !self.visit(door, inside.draw(), readers.draw(), &mut trace) {
                break;
            }
        }
        std::hint::black_box(private);
        self.gone.fetch_add(1, Release);
        trace
    }
}
