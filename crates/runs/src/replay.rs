//! A recorded program on the virtual machine: threads that work, sleep and hold locks for times
//! drawn from what was recorded, anchored to what was measured then.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Preset, Sim, Smp, User};
use convoy_stats::{LogHistogram, Rng};
use convoy_sync::{Atomic, Platform, Sleep};
use convoy_workload::api::Kernel;
use convoy_workload::calibration::Calibration;

use crate::lock_loop::{PHASE_OVER, PHASE_WARMUP, PHASE_WINDOW, Policy, Trace};
pub use crate::spread::{Span, Spread};
use crate::virtual_end::{VirtualError, run_to_end};
use crate::virtual_locks::{Board, Snapshot, TASKS_BESIDE, VirtualLocksPoint};
use actor::Actor;
pub use anchor::Anchor;
use doors::Doors;
pub use effort::Effort;
use locks::Taken;
pub use locks::{Kind, Mode};
pub use moved::Moved;
use moved::Owners;
pub use script::{Class, Condition, Gates, Pace, Script, Step};
use tally::Counts;
pub use tally::{ClassTally, PlaceTally, Tally};

mod actor;
mod anchor;
mod doors;
mod effort;
mod locks;
mod moved;
mod others;
pub mod script;
mod tally;
mod window;

/// Part of the first-level caches that a thread uses again after it was away. Not recorded: a
/// program touches more than a lock loop does.
const FOOTPRINT: f64 = 0.25;
/// Of the gate.
const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// How often the coordinator looks whether threads are gone, nanoseconds.
const POLL_NS: u64 = 1_000_000;
/// Virtual time after the window in which threads have to end, nanoseconds.
const DRAIN_NS: u64 = 100_000_000_000;

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
    fn recorded(&self, lock: usize) -> usize {
        self.before.get(lock).map_or(1, |count| *count as usize).max(1)
    }

    /// Mean work of a critical section and before it, nanoseconds.
    pub fn work_ns(&self) -> f64 {
        let work = |one: &Section| one.think.work.mean() + one.hold.work.mean();
        self.mean(work, |_| true)
    }

    /// Mean work before a critical section, nanoseconds.
    fn think_ns(&self) -> f64 {
        self.mean(|one| one.think.work.mean(), |_| true)
    }

    /// Mean time for which the locks of a name are held, nanoseconds, and whether some holds
    /// overlap: those of readers.
    pub fn held_ns(&self, lock: usize) -> (f64, bool) {
        let own = |one: &Section| one.lock == lock;
        let is_shared = self.sections.iter().any(|one| own(one) && one.mode == Mode::Read);
        (self.mean(|one| one.hold.work.mean(), own), is_shared)
    }

    /// A mean over acquisitions.
    fn mean(&self, of: impl Fn(&Section) -> f64, which: impl Fn(&Section) -> bool) -> f64 {
        let own = || self.sections.iter().filter(|one| which(one));
        let count: u64 = own().map(|one| one.count).sum();
        own().map(|one| of(one) * one.count as f64).sum::<f64>() / count.max(1) as f64
    }

    /// What the locks of a name are.
    fn kind(&self, lock: usize) -> Kind {
        self.kinds.get(lock).copied().unwrap_or_default()
    }
}

/// One run of the replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What is replayed.
    pub behaviour: Arc<Behaviour>,
    /// Its anchor.
    pub anchor: Anchor,
    /// Threads.
    pub threads: u32,
    /// The lock in place of all of them.
    pub policy: Policy,
    /// Whether only the first lock has the policy, and the others are libc's.
    pub alone: bool,
    /// Looks before it sleeps, instead of its own number.
    pub looks: Option<u32>,
    /// Whether a program of few acquisitions is replayed from its beginning to its end: a convoy
    /// that begins by chance sooner or later bounds a part of such a run, and the rest of a long
    /// one.
    pub whole: bool,
    /// CPUs that other programs take from it.
    pub others_cpus: f64,
    /// How much of the host's time it may take.
    pub effort: Effort,
    /// Seed of the draws and of the machine.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine with its CPUs.
    pub machine: Preset,
}

/// What all threads see.
struct Field {
    /// The locks of each name.
    locks: Vec<Vec<Box<dyn Taken>>>,
    /// Of a whole run, open once all threads are there. Else open from the beginning: the threads
    /// of a recorded program have run for long, each placed as a new thread is.
    gate: Sim<<User as Platform>::AtomicU32>,
    phase: Sim<<User as Platform>::AtomicU32>,
    gone: Sim<<User as Platform>::AtomicU32>,
    /// Acquisitions after which the window ends, of a run that is whole.
    left: Cell<u64>,
    /// The end of the window. Read after the phase.
    end: Cell<Snapshot>,
    /// Conditions.
    doors: Doors,
    /// What is counted in the window.
    counts: Counts,
    /// CPU time of other programs, nanoseconds.
    others_ns: Cell<f64>,
    /// Where the last owner of each lock ran.
    owners: Owners,
}

/// A value in simulated memory under a name.
fn named<T>(value: T, name: &'static str) -> Sim<T> {
    let placed = Here::place(value);
    Here::name(&*placed, name);
    placed
}

impl Replay {
    /// Runs it.
    ///
    /// # Errors
    /// [`VirtualError`].
    pub fn run(&self) -> Result<VirtualLocksPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let tasks = (self.threads + self.others()) as usize + TASKS_BESIDE + cpus;
        let preset = self.anchor.price(&self.machine);
        let machine = Machine::new(&preset, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        machine.limit_operations(self.effort.most);
        if cpus == 1 {
            machine.forbid_spinning();
        }
        let calibration = Calibration::embedded()?;
        let options = Options { processes: tasks, ..Options::default() };
        let world = World::new(&self.kernel, &preset, &calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (replay, shared, inner) = (self.clone(), Rc::clone(&board), Rc::clone(&world));
        world.boot(&machine, move |process| {
            if let Err(what) = replay.coordinate(process, &inner, &shared) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(&machine, self.threads, self.seed, &self.kernel.name, &board.broken)?;
        let mut point = VirtualLocksPoint::of(&board, &machine);
        if self.others_cpus > 0.0 {
            let cpus = board.others_ns.get() / 1e9 / point.result.window_s;
            point.result.cpus_used -= cpus;
            point.result.others_cpus = Some(cpus);
        }
        Ok(point)
    }

    /// What all threads see, made by a task of the machine.
    fn field(&self) -> Field {
        let locks: Vec<Vec<Box<dyn Taken>>> =
            (0..self.behaviour.locks.len()).map(|name| self.locks(name)).collect();
        Field {
            owners: Owners::new(locks.iter().map(Vec::len)),
            locks,
            gate: named(Atomic::new(if self.is_whole() { SHUT } else { OPEN }), "the gate"),
            phase: named(Atomic::new(PHASE_WARMUP), "the phase"),
            gone: named(Atomic::new(0), "the count of threads"),
            left: Cell::new(if self.is_whole() { self.behaviour.total } else { u64::MAX }),
            end: Cell::new(Snapshot::default()),
            doors: Doors::new(self.behaviour.script.as_deref(), self.threads),
            counts: Counts::new(self),
            others_ns: Cell::new(0.0),
        }
    }

    fn coordinate(
        &self,
        k: &mut Process,
        world: &Rc<World>,
        board: &Rc<Board>,
    ) -> Result<(), String> {
        let field = Rc::new(self.field());
        self.start_others(k, world, &field)?;
        for index in 0..self.threads {
            let (field, board, replay) = (Rc::clone(&field), Rc::clone(board), self.clone());
            let inner = Rc::clone(world);
            let body = move || {
                let trace = replay.thread(&inner, &field, index);
                board.traces.borrow_mut().push(trace);
                field.gone.fetch_add(1, Release);
            };
            k.thread(FOOTPRINT, Box::new(body)).map_err(|error| format!("clone: {error}"))?;
        }
        let begin = if self.is_whole() {
            self.pass_whole(k, world, &field)
        } else {
            self.pass_window(k, world, &field, board)
        };
        let end = field.end.get();
        *board.window.borrow_mut() = (begin, end);
        *board.gates.borrow_mut() = field.doors.gates();
        *board.tally.borrow_mut() = field.counts.tally();
        board.others_ns.set(field.others_ns.get());
        while field.gone.load(Acquire) < self.threads {
            if Here::now_ns() > end.now_ns + DRAIN_NS {
                return Err("the threads did not leave the lock".to_owned());
            }
            field.doors.open();
            self.free_semaphores(&field);
            k.sleep(POLL_NS);
        }
        Ok(())
    }

    /// Frees a unit of each semaphore that has none.
    fn free_semaphores(&self, field: &Field) {
        let is_semaphore = |name| matches!(self.behaviour.kind(name), Kind::Semaphore { .. });
        let names = (0..field.locks.len()).filter(|&name| is_semaphore(name));
        for lock in names.flat_map(|name| &field.locks[name]) {
            lock.try_take();
            lock.give(Mode::Exclusive);
        }
    }

    /// One thread from its start to its end.
    fn thread(&self, world: &World, field: &Field, index: u32) -> Trace {
        let mut rng = Rng::new(self.seed ^ (u64::from(index) << 32));
        let mut trace = Trace { acquisitions: 0, waits: LogHistogram::new(), waiting: false };
        // Acquire pairs with the release that opens it.
        while field.gate.load(Acquire) == SHUT {
            User::wait(&field.gate, SHUT, Sleep::Uninterruptible, None);
        }
        if let Some(script) = &self.behaviour.script {
            return Actor::new(self, world, field, (index, rng, trace)).act(script);
        }
        // As recorded, threads beyond those that were there do what the first ones did.
        let class = index % self.behaviour.threads.max(1);
        let all_sections = self.behaviour.sections.iter().enumerate();
        let sections: Vec<(usize, &Section)> =
            all_sections.filter(|(_, one)| class < one.threads).collect();
        let share = |one: &Section| one.count as f64 / f64::from(one.threads.max(1));
        let all: f64 = sections.iter().map(|(_, one)| share(one)).sum();
        while field.phase.load(Relaxed) != PHASE_OVER {
            let mut rank = rng.uniform() * all;
            let past = |one: &(usize, &Section)| {
                rank -= share(one.1);
                rank < 0.0
            };
            let found = sections.iter().copied().find(past).or(sections.last().copied());
            let Some((place, section)) = found else { break };
            let (work, sleep) = section.think.draw(&mut rng);
            let more = self.anchor.sleep(&mut rng);
            rest(world, work * self.anchor.work, sleep + more);
            let locks = &field.locks[section.lock];
            let at = if self.behaviour.private.contains(&section.lock) {
                index as usize % locks.len()
            } else {
                rng.below(locks.len())
            };
            let moves = || self.moves(&field.owners, section.lock, at);
            let visit = Visit { thread: index, place, section, lock: &*locks[at], moves: &moves };
            if !field.pass(&visit, world, &mut rng, &mut trace) {
                break;
            }
        }
        trace
    }
}

/// One pass of a thread through a section.
struct Visit<'a> {
    thread: u32,
    place: usize,
    section: &'a Section,
    lock: &'a dyn Taken,
    /// Work that the section has more, nanoseconds.
    moves: &'a dyn Fn() -> f64,
}

/// Works, then sleeps.
fn rest(world: &World, work_ns: f64, sleep_ns: f64) {
    Here::compute((work_ns * 1e3) as u64);
    if sleep_ns >= 1.0 {
        world.sched().nap_until(User::now() + sleep_ns as u64);
    }
}

impl Field {
    /// Lets the threads begin.
    fn open(&self) {
        // Release: they begin after all that was done before.
        self.gate.store(OPEN, Release);
        User::wake(&raw const *self.gate, usize::MAX);
    }

    /// Ends the window.
    fn ends(&self, world: &World) {
        let end = Snapshot::take(world, Smp::cpus() as usize);
        self.end.set(end);
        self.counts.ends(end.now_ns);
        self.phase.store(PHASE_OVER, Release);
        User::wake(&raw const *self.phase, usize::MAX);
    }

    /// An acquisition in the window has ended.
    fn count(&self, world: &World, trace: &mut Trace) {
        let left = self.left.get();
        if left > 0 {
            trace.acquisitions += 1;
            self.left.set(left - 1);
        }
        if left == 1 {
            self.ends(world);
        }
    }

    /// Passes through a section; returns whether the run goes on.
    fn pass(&self, visit: &Visit<'_>, world: &World, rng: &mut Rng, trace: &mut Trace) -> bool {
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

#[cfg(test)]
mod tests;
