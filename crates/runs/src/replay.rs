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
use convoy_sync::{AdaptiveLock, AtMost, Atomic, Lock, NoSignals, Platform, Sleep, with_lock};
use convoy_workload::api::Kernel;
use convoy_workload::calibration::Calibration;

use crate::lock_loop::{PHASE_OVER, PHASE_WARMUP, PHASE_WINDOW, Policy, Trace};
pub use crate::spread::{Span, Spread};
use crate::virtual_end::{VirtualError, run_to_end};
use crate::virtual_locks::{Board, Snapshot, TASKS_BESIDE, VirtualLocksPoint};
pub use anchor::Anchor;
use script::{Actor, Doors};
pub use script::{Class, Condition, Gates, Script, Step};

mod anchor;
pub mod script;

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
/// Acquisitions that a window should hold, and its length at least, nanoseconds.
const ENOUGH: (f64, f64) = (4000.0, 20e6);
/// The same of a script, whose threads wait for each other.
const ENOUGH_OF_SCRIPT: (f64, f64) = (20_000.0, 100e6);
/// Most acquisitions of a program that is replayed from its beginning to its end.
const WHOLE: u64 = 1_500_000;
/// How much longer than the record such a replay may take.
const SLOWEST: f64 = 100.0;
/// Time without a step after which a thread that waits goes on, nanoseconds.
const STUCK_NS: u64 = 20_000_000;

/// One place that takes a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Which lock, an index of [`Behaviour::locks`].
    pub lock: usize,
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
}

impl Behaviour {
    /// How many locks of a name there were.
    fn recorded(&self, lock: usize) -> usize {
        self.before.get(lock).map_or(1, |count| *count as usize).max(1)
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
    /// Seed of the draws and of the machine.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine with its CPUs.
    pub machine: Preset,
}

/// The lock of a queue, which no signal interrupts, as in locks that are put in place of libc's.
type Inner = NoSignals<User, AdaptiveLock<User>>;

/// The lock of libc, if it does not look before it sleeps.
type Libcs = AdaptiveLock<User, AtMost>;

/// What all threads see.
struct Field<C> {
    /// The locks of each name.
    locks: Vec<Locks<C>>,
    /// Open once all threads are there: the first ones would keep the CPUs from the thread that
    /// makes the others.
    gate: Sim<<User as Platform>::AtomicU32>,
    phase: Sim<<User as Platform>::AtomicU32>,
    gone: Sim<<User as Platform>::AtomicU32>,
    /// Acquisitions after which the window ends, of a run that is whole.
    left: Cell<u64>,
    /// The end of the window. Read after the phase.
    end: Cell<Snapshot>,
    /// Conditions.
    doors: Doors,
}

/// The locks of one name.
enum Locks<C> {
    /// With the policy.
    Own(Vec<Sim<C>>),
    /// As libc has them.
    Others(Vec<Sim<Libcs>>),
}

impl<C> Locks<C> {
    fn count(&self) -> usize {
        match self {
            Self::Own(locks) => locks.len(),
            Self::Others(locks) => locks.len(),
        }
    }
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
        with_lock!(self.policy, User, Inner, T => self.execute::<T>())
    }

    fn execute<C: Lock>(&self) -> Result<VirtualLocksPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let tasks = self.threads as usize + TASKS_BESIDE + cpus;
        let preset = self.anchor.price(&self.machine);
        let machine = Machine::new(&preset, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        if cpus == 1 {
            machine.forbid_spinning();
        }
        let calibration = Calibration::embedded()?;
        let options = Options { processes: tasks, ..Options::default() };
        let world = World::new(&self.kernel, &preset, &calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (replay, shared, inner) = (self.clone(), Rc::clone(&board), Rc::clone(&world));
        world.boot(&machine, move |process| {
            if let Err(what) = replay.coordinate::<C>(process, &inner, &shared) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(&machine, self.threads, self.seed, &self.kernel.name, &board.broken)?;
        Ok(VirtualLocksPoint::of(&board, &machine))
    }

    fn coordinate<C: Lock>(
        &self,
        k: &mut Process,
        world: &Rc<World>,
        board: &Rc<Board>,
    ) -> Result<(), String> {
        let lock = || {
            let free = C::unlocked();
            named(self.looks.map_or_else(C::unlocked, |looks| free.spin_limit(looks)), "a lock")
        };
        let libcs = || named(Libcs::unlocked().spin_limit(0), "a lock of libc");
        let of_name = |(index, &count): (usize, &u32)| {
            let is_private = self.behaviour.private.contains(&index);
            let count = if is_private { self.threads } else { count };
            let (all, first) = (0..count.max(1), index == 0);
            if self.behaviour.others.contains(&index) || self.alone && !first {
                Locks::Others(all.map(|_| libcs()).collect())
            } else {
                Locks::Own(all.map(|_| lock()).collect())
            }
        };
        let field = Rc::new(Field {
            locks: self.behaviour.locks.iter().enumerate().map(of_name).collect(),
            gate: named(Atomic::new(SHUT), "the gate"),
            phase: named(Atomic::new(PHASE_WARMUP), "the phase"),
            gone: named(Atomic::new(0), "the count of threads"),
            left: Cell::new(if self.is_whole() { self.behaviour.total } else { u64::MAX }),
            end: Cell::new(Snapshot::default()),
            doors: Doors::new(self.behaviour.script.as_deref(), self.threads),
        });
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
            self.pass_window(k, world, &field)
        };
        let end = field.end.get();
        *board.window.borrow_mut() = (begin, end);
        *board.gates.borrow_mut() = field.doors.gates();
        while field.gone.load(Acquire) < self.threads {
            if Here::now_ns() > end.now_ns + DRAIN_NS {
                return Err("the threads did not leave the lock".to_owned());
            }
            field.doors.open();
            k.sleep(POLL_NS);
        }
        Ok(())
    }

    /// Whether the window is all that the program did.
    fn is_whole(&self) -> bool {
        self.whole && (1..=WHOLE).contains(&self.behaviour.total)
    }

    /// Lets threads do what the program did in all; when that began.
    fn pass_whole<C>(&self, k: &mut Process, world: &World, field: &Field<C>) -> Snapshot {
        let begin = Snapshot::take(world, self.machine.topology.cpus);
        // Relaxed: threads see it once the gate is open.
        field.phase.store(PHASE_WINDOW, Relaxed);
        field.open();
        let recorded_ns = self.behaviour.total as f64 / self.behaviour.rate * 1e9;
        let last = begin.now_ns + (SLOWEST * recorded_ns) as u64;
        while field.phase.load(Acquire) == PHASE_WINDOW {
            let steps = field.doors.steps();
            let now = Here::now_ns();
            if now >= last {
                field.ends(world);
                break;
            }
            let has_script = self.behaviour.script.is_some();
            let until = if has_script { last.min(now + STUCK_NS) } else { last };
            User::wait(&field.phase, PHASE_WINDOW, Sleep::Uninterruptible, Some(until));
            field.slip_if_stuck(steps);
        }
        k.sleep(POLL_NS);
        begin
    }

    /// Lets threads run until they are warm, then for as long as tells how fast they are; when that
    /// began.
    fn pass_window<C>(&self, k: &mut Process, world: &World, field: &Field<C>) -> Snapshot {
        field.open();
        let has_script = self.behaviour.script.is_some();
        let (enough, least) = if has_script { ENOUGH_OF_SCRIPT } else { ENOUGH };
        let window_ns = (enough / self.behaviour.rate * 1e9).clamp(least, 5e9) as u64;
        field.let_pass(k, has_script, window_ns / 2 + 50_000_000);
        let begin = Snapshot::take(world, self.machine.topology.cpus);
        field.phase.store(PHASE_WINDOW, Relaxed);
        field.let_pass(k, has_script, window_ns);
        field.ends(world);
        begin
    }

    /// One thread from its start to its end.
    fn thread<C: Lock>(&self, world: &World, field: &Field<C>, index: u32) -> Trace {
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
        let own = |one: &&Section| class < one.threads;
        let sections: Vec<&Section> = self.behaviour.sections.iter().filter(own).collect();
        let share = |one: &Section| one.count as f64 / f64::from(one.threads.max(1));
        let all: f64 = sections.iter().map(|one| share(one)).sum();
        while field.phase.load(Relaxed) != PHASE_OVER {
            let mut rank = rng.uniform() * all;
            let past = |one: &&Section| {
                rank -= share(one);
                rank < 0.0
            };
            let found = sections.iter().copied().find(past).or(sections.last().copied());
            let Some(section) = found else { break };
            let (work, sleep) = section.think.draw(&mut rng);
            // Exponential around its mean, so that threads do not march in step.
            let more = -libm::log(1.0 - rng.uniform()) * self.anchor.sleep_ns;
            rest(world, (work + self.anchor.work_ns).max(0.0), sleep + more);
            let is_private = self.behaviour.private.contains(&section.lock);
            let draw = |rng: &mut Rng, count: usize| {
                if is_private { index as usize % count } else { rng.below(count) }
            };
            let go_on = match &field.locks[section.lock] {
                Locks::Own(locks) => {
                    let lock = &locks[draw(&mut rng, locks.len())];
                    field.pass(&**lock, section, world, &mut rng, &mut trace)
                }
                Locks::Others(locks) => {
                    let lock = &locks[draw(&mut rng, locks.len())];
                    field.pass(&**lock, section, world, &mut rng, &mut trace)
                }
            };
            if !go_on {
                break;
            }
        }
        trace
    }
}

/// Works, then sleeps.
fn rest(world: &World, work_ns: f64, sleep_ns: f64) {
    Here::compute((work_ns * 1e3) as u64);
    if sleep_ns >= 1.0 {
        world.sched().nap_until(User::now() + sleep_ns as u64);
    }
}

impl<C> Field<C> {
    /// Lets the threads begin.
    fn open(&self) {
        // Release: they begin after all that was done before.
        self.gate.store(OPEN, Release);
        User::wake(&raw const *self.gate, usize::MAX);
    }

    /// Ends the window.
    fn ends(&self, world: &World) {
        self.end.set(Snapshot::take(world, Smp::cpus() as usize));
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

    /// Lets a thread go on that waits if there were no steps since there were so many.
    fn slip_if_stuck(&self, steps: u64) {
        if self.doors.steps() == steps {
            self.doors.slip();
        }
    }

    /// Lets time pass; if nothing moves meanwhile, lets a thread go on that waits.
    fn let_pass(&self, k: &mut Process, has_script: bool, ns: u64) {
        if !has_script {
            return k.sleep(ns);
        }
        let end = Here::now_ns() + ns;
        while Here::now_ns() < end {
            let steps = self.doors.steps();
            k.sleep(STUCK_NS.min(end - Here::now_ns()));
            self.slip_if_stuck(steps);
        }
    }

    /// Passes through a section under `lock`; whether the run goes on.
    fn pass<L: Lock>(
        &self,
        lock: &L,
        section: &Section,
        world: &World,
        rng: &mut Rng,
        trace: &mut Trace,
    ) -> bool {
        let asked = User::now();
        lock.acquire();
        let got = User::now();
        let phase = self.phase.load(Acquire);
        if phase == PHASE_OVER {
            lock.release();
            trace.waiting = asked < self.end.get().now_ns;
            return false;
        }
        let (work, sleep) = section.hold.draw(rng);
        rest(world, work, sleep);
        lock.release();
        if phase == PHASE_WINDOW {
            trace.waits.record(got - asked);
            self.count(world, trace);
        }
        true
    }
}

#[cfg(test)]
mod tests;
