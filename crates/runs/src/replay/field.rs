//! State that the threads of a replay share: locks, conditions, counts, and the phase of the run.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Release};

use convoy_kernel::World;
use convoy_machine::{Here, Sim, Smp, User};
use convoy_stats::Rng;
use convoy_sync::{Atomic, Platform};

use super::behaviour::{Behaviour, Kind, Mode, Section};
use super::doors::Doors;
use super::locks::Taken;
use super::moved::{self, Owners};
use super::named::named;
use super::request::Replay;
use super::tally::Counts;
use crate::lock_loop::{PHASE_OVER, PHASE_WARMUP, PHASE_WINDOW, Trace};
use crate::snapshot::Snapshot;

/// Share of the first-level caches that a thread reuses after it was switched away. Not recorded: a
/// program uses more memory than a lock loop.
pub(super) const FOOTPRINT: f64 = 0.25;
/// States of the gate.
pub(super) const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// Interval at which the coordinator checks whether threads have exited, nanoseconds.
pub(super) const POLL_NS: u64 = 1_000_000;

/// State that all threads share.
pub(super) struct Field {
    /// The locks of each name.
    pub(super) locks: Vec<Vec<Box<dyn Taken>>>,
    /// Opens once all threads are present, if the whole program is replayed. Otherwise it is open
    /// from the beginning: the threads of a recorded program have run for a long time, each placed
    /// as a new thread is.
    pub(super) gate: Sim<<User as Platform>::AtomicU32>,
    pub(super) phase: Sim<<User as Platform>::AtomicU32>,
    pub(super) gone: Sim<<User as Platform>::AtomicU32>,
    /// Acquisitions that remain until the window ends, if the whole program is replayed.
    pub(super) left: Cell<u64>,
    /// The end of the window. Read after the phase.
    pub(super) end: Cell<Snapshot>,
    /// Conditions.
    pub(super) doors: Doors,
    /// Counts of the window.
    pub(super) counts: Counts,
    /// CPU time of other programs, nanoseconds.
    pub(super) others_ns: Cell<f64>,
    /// CPU of the last owner of each lock.
    pub(super) owners: Owners,
}

/// One pass of a thread through a critical section.
pub(super) struct Visit<'a> {
    pub(super) thread: u32,
    pub(super) place: usize,
    pub(super) section: &'a Section,
    pub(super) lock: &'a dyn Taken,
    /// Additional work of the critical section, nanoseconds.
    pub(super) moves: &'a dyn Fn() -> f64,
}

/// Works, then sleeps.
pub(super) fn rest(world: &World, work_ns: f64, sleep_ns: f64) {
    Here::compute((work_ns * 1e3) as u64);
    if sleep_ns >= 1.0 {
        world.sched().nap_until(User::now() + sleep_ns as u64);
    }
}

impl Field {
    /// Returns the state of a run. Must be called by a task of the machine.
    pub(super) fn new(replay: &Replay) -> Self {
        let locks: Vec<Vec<Box<dyn Taken>>> =
            (0..replay.behaviour.locks.len()).map(|name| replay.locks(name)).collect();
        Self {
            owners: Owners::new(locks.iter().map(Vec::len)),
            locks,
            gate: named(Atomic::new(if replay.is_whole() { SHUT } else { OPEN }), "the gate"),
            phase: named(Atomic::new(PHASE_WARMUP), "the phase"),
            gone: named(Atomic::new(0), "the count of threads"),
            left: Cell::new(if replay.is_whole() { replay.behaviour.total } else { u64::MAX }),
            end: Cell::new(Snapshot::default()),
            doors: Doors::new(replay.behaviour.script.as_deref(), replay.threads),
            counts: Counts::new(replay),
            others_ns: Cell::new(0.0),
        }
    }

    /// Frees a unit of each semaphore that has none.
    pub(super) fn free_semaphores(&self, behaviour: &Behaviour) {
        let names = (0..self.locks.len())
            .filter(|&name| matches!(behaviour.kind(name), Kind::Semaphore { .. }));
        for lock in names.flat_map(|name| &self.locks[name]) {
            lock.try_take();
            lock.give(Mode::Exclusive);
        }
    }

    /// Lets the threads begin.
    pub(super) fn open(&self) {
        // Release: pairs with the acquire load of the gate; threads begin after all earlier writes.
        self.gate.store(OPEN, Release);
        User::wake(&raw const *self.gate, usize::MAX);
    }

    /// Ends the window.
    pub(super) fn ends(&self, world: &World) {
        let end = Snapshot::take(world, Smp::cpus() as usize);
        self.end.set(end);
        self.counts.ends(end.now_ns);
        self.phase.store(PHASE_OVER, Release);
        User::wake(&raw const *self.phase, usize::MAX);
    }

    /// Counts an acquisition that ended in the window, and ends the window after the last one.
    pub(super) fn count(&self, world: &World, trace: &mut Trace) {
        let left = self.left.get();
        if left > 0 {
            trace.acquisitions += 1;
            self.left.set(left - 1);
        }
        if left == 1 {
            self.ends(world);
        }
    }

    /// Passes through a critical section. Returns whether the run continues.
    pub(super) fn pass(
        &self,
        visit: &Visit<'_>,
        world: &World,
        rng: &mut Rng,
        trace: &mut Trace,
    ) -> bool {
        let Visit { thread, place, section, lock, moves } = *visit;
        let asked = User::now();
        self.counts.asks(thread, place, asked);
        lock.take(section.mode);
        let got = User::now();
        self.counts.has(thread);
        let phase = self.phase.load(Acquire);
        if phase == PHASE_OVER {
            lock.give(section.mode);
            trace.waiting = asked < self.end.get().now_ns;
            return false;
        }
        let (work, sleep) = section.hold.draw(rng);
        rest(world, moved::with(work, moves()), sleep);
        lock.give(section.mode);
        if phase == PHASE_WINDOW {
            trace.waits.record(got - asked);
            self.counts.counts(thread, place, got - asked);
            self.count(world, trace);
        }
        true
    }
}
