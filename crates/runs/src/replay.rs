//! A recorded program on the virtual machine: threads that work, sleep and hold locks for times
//! drawn from what was recorded, anchored to what was measured then.
//!
//! The anchor: at the recorded numbers of CPUs and threads, under the recorded policy, one thing is
//! fitted until an acquisition takes the CPU time that it took: where the way of a lock from owner
//! to owner bounded the throughput, what switches and wakeups cost, and the throughput with it;
//! else the work between sections, and sleep is added until the throughput is what it was. The
//! waits are not fitted: how far they agree says what the replay is worth.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Preset, Sim, User};
use convoy_stats::{LogHistogram, Rng};
use convoy_sync::{AdaptiveLock, AtMost, Atomic, Lock, Platform, with_lock};
use convoy_workload::api::Kernel;
use convoy_workload::calibration::Calibration;

use crate::lock_loop::{PHASE_OVER, PHASE_WARMUP, PHASE_WINDOW, Policy, Trace};
pub use crate::spread::{Span, Spread};
use crate::virtual_end::{VirtualError, run_to_end};
use crate::virtual_locks::{Board, Snapshot, TASKS_BESIDE, VirtualLocksPoint};
use script::{Actor, Doors};
pub use script::{Class, Condition, Gates, Script, Step};

pub mod script;

/// Part of the first-level caches that a thread uses again after it was away. Not recorded: a
/// program touches more than a lock loop does.
const FOOTPRINT: f64 = 0.25;
/// How often the coordinator looks whether threads are gone, nanoseconds.
const POLL_NS: u64 = 1_000_000;
/// Virtual time after the window in which threads have to end, nanoseconds.
const DRAIN_NS: u64 = 100_000_000_000;
/// Acquisitions that a window should hold, and its length at least, nanoseconds.
const ENOUGH: (f64, f64) = (4000.0, 20e6);
/// The same of a script, whose threads wait for each other.
const ENOUGH_OF_SCRIPT: (f64, f64) = (20_000.0, 100e6);
/// Time without a step after which a thread that waits goes on, nanoseconds.
const STUCK_NS: u64 = 20_000_000;
/// Steps of the anchor at most.
const STEPS: usize = 10;
/// Sum of what throughput and CPU time are off by at which the anchor is found.
const CLOSE: f64 = 0.01;
/// Share of the time in which a lock was on its way to the next owner that bounds the throughput,
/// and the CPU use below which it is not the CPUs that do.
const PASSING: f64 = 0.3;
const BUSY: f64 = 0.9;
/// What an error of CPU time counts for beside one of the throughput where CPUs idle.
const IDLE_CPU: f64 = 0.25;
/// How far the price of wakeups may be from that of the machine.
const WAKEUPS: f64 = 8.0;

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

    /// Mean work of a section and before it, nanoseconds.
    fn service_ns(&self) -> f64 {
        let count: u64 = self.sections.iter().map(|one| one.count).sum();
        let work = |one: &Section| one.think.work.mean() + one.hold.work.mean();
        let sum: f64 = self.sections.iter().map(|one| work(one) * one.count as f64).sum();
        sum / count.max(1) as f64
    }

    /// Whether CPUs idle while threads mostly wait for each other.
    fn waits_for_threads(&self) -> bool {
        let turn_ns = f64::from(self.threads) * 1e9 / self.rate;
        let cpus_used = self.rate * self.cpu_ns / 1e9;
        let is_idle = cpus_used < BUSY * f64::from(self.cpus);
        self.script.is_some() && is_idle && self.idle_ns > PASSING * turn_ns
    }

    /// Whether the way of locks from owner to owner bounds the throughput: CPUs idle, and a lock is
    /// often on that way.
    fn is_bound_by_wakeups(&self) -> bool {
        let cpus_used = self.rate * self.cpu_ns / 1e9;
        self.passing > PASSING && cpus_used < BUSY * f64::from(self.cpus)
    }
}

/// What the anchor found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// What the prices of switches and wakeups are multiplied with.
    pub wakeups: f64,
    /// Work that is added before each section, nanoseconds; below zero: left out.
    pub work_ns: f64,
    /// Sleep that is added before each section, nanoseconds.
    pub sleep_ns: f64,
}

impl Anchor {
    /// Nothing is changed.
    pub const NONE: Self = Self { wakeups: 1.0, work_ns: 0.0, sleep_ns: 0.0 };

    /// The machine with its price of wakeups.
    fn price(&self, machine: &Preset) -> Preset {
        let mut machine = machine.clone();
        let prices = &mut machine.price_ns;
        let mut all = vec![&mut prices.ipi, &mut prices.idle_exit, &mut prices.switch];
        if let Some(guest) = &mut machine.guest_ns {
            all.extend([&mut guest.send, &mut guest.halted_exit]);
        }
        for ns in all {
            *ns *= self.wakeups;
        }
        machine
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
    /// Seed of the draws and of the machine.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine with its CPUs.
    pub machine: Preset,
}

/// The lock of libc, if it does not look before it sleeps.
type Libcs = AdaptiveLock<User, AtMost>;

/// What all threads see.
struct Field<C> {
    /// The locks of each name.
    locks: Vec<Locks<C>>,
    phase: Sim<<User as Platform>::AtomicU32>,
    gone: Sim<<User as Platform>::AtomicU32>,
    /// When the window ended, nanoseconds. Read after the phase.
    end_ns: RefCell<u64>,
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
        with_lock!(self.policy, User, AdaptiveLock<User>, T => self.execute::<T>())
    }

    /// The anchor of `self`, whose machine and threads are those of the record.
    ///
    /// # Errors
    /// [`VirtualError`].
    pub fn anchored(&self) -> Result<Anchor, VirtualError> {
        let (known, mut replay) = (&*self.behaviour, self.clone());
        let cycle = |rate: f64| f64::from(self.threads) * 1e9 / rate;
        let longest = (cycle(known.rate) - known.wait_ns - known.idle_ns).max(0.0);
        let (bound, service_ns) = (known.is_bound_by_wakeups(), known.service_ns());
        let waits = known.waits_for_threads();
        let bound = bound && !waits;
        let mut best = (f64::INFINITY, self.anchor);
        let (mut gain, mut late) = (1.0_f64, 0.0_f64);
        for _ in 0..STEPS {
            let (found, anchor) = (replay.run()?.result, replay.anchor);
            let rate = found.acquisitions_per_s();
            if rate <= 0.0 {
                break;
            }
            let cpu_ns = found.cpus_used * 1e9 / rate;
            // Where threads wait for each other and CPUs idle, CPU time does not bound the
            // throughput.
            let share = if waits { IDLE_CPU } else { 1.0 };
            let wrong = libm::log(rate / known.rate).abs()
                + share * libm::log(cpu_ns / known.cpu_ns.max(1.0)).abs();
            if wrong < best.0 {
                best = (wrong, anchor);
            }
            if wrong < CLOSE {
                break;
            }
            let more = known.cpu_ns - cpu_ns;
            // What is late because of work is not late because of sleep.
            let before = std::mem::replace(&mut late, cycle(known.rate) - cycle(rate) - more);
            // Threads that wait for a lock hide sleep: as long as more is missing, go faster.
            gain = (gain * if before * late > 0.0 { 2.0 } else { 0.5 }).clamp(0.125, 4.0);
            let next = &mut replay.anchor;
            if bound {
                let beside = |cpu_ns: f64| (cpu_ns - service_ns).max(1.0);
                // Both follow the price: the CPU time goes up with it, the throughput down.
                let factor = beside(known.cpu_ns) / beside(cpu_ns) * rate / known.rate;
                let factor = libm::pow(factor, 0.25).clamp(0.5, 2.0);
                next.wakeups = (anchor.wakeups * factor).clamp(1.0 / WAKEUPS, WAKEUPS);
            } else if waits {
                // Threads wait for each other: what is late comes from how long the way takes, and
                // CPU time that is missing was not on that way if the throughput is too low.
                let is_beside = more > 0.0 && rate < known.rate;
                let more = if is_beside { -anchor.work_ns.max(0.0) / 2.0 } else { more };
                next.work_ns = (anchor.work_ns + more).max(-known.cpu_ns);
                let factor = libm::sqrt(rate / known.rate).clamp(0.5, 2.0);
                next.wakeups = (anchor.wakeups * factor).clamp(1.0 / WAKEUPS, WAKEUPS);
            } else {
                next.work_ns = (anchor.work_ns + more).max(-known.cpu_ns);
                next.sleep_ns = (anchor.sleep_ns + gain * late).clamp(0.0, longest);
            }
        }
        Ok(best.1)
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
            phase: named(Atomic::new(PHASE_WARMUP), "the phase"),
            gone: named(Atomic::new(0), "the count of threads"),
            end_ns: RefCell::new(0),
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
        let cpus = self.machine.topology.cpus;
        let has_script = self.behaviour.script.is_some();
        let (enough, least) = if has_script { ENOUGH_OF_SCRIPT } else { ENOUGH };
        let window_ns = (enough / self.behaviour.rate * 1e9).clamp(least, 5e9) as u64;
        field.let_pass(k, has_script, window_ns / 2 + 50_000_000);
        let begin = Snapshot::take(world, cpus);
        field.phase.store(PHASE_WINDOW, Relaxed);
        field.let_pass(k, has_script, window_ns);
        let end = Snapshot::take(world, cpus);
        *field.end_ns.borrow_mut() = end.now_ns;
        field.phase.store(PHASE_OVER, Release);
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

    /// One thread from its start to its end.
    fn thread<C: Lock>(&self, world: &World, field: &Field<C>, index: u32) -> Trace {
        let mut rng = Rng::new(self.seed ^ (u64::from(index) << 32));
        let mut trace = Trace { acquisitions: 0, waits: LogHistogram::new(), waiting: false };
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
    /// Lets time pass; if nothing moves meanwhile, lets a thread go on that waits.
    fn let_pass(&self, k: &mut Process, has_script: bool, ns: u64) {
        if !has_script {
            return k.sleep(ns);
        }
        let end = Here::now_ns() + ns;
        while Here::now_ns() < end {
            let steps = self.doors.steps();
            k.sleep(STUCK_NS.min(end - Here::now_ns()));
            if self.doors.steps() == steps {
                self.doors.slip();
            }
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
            trace.waiting = asked < *self.end_ns.borrow();
            return false;
        }
        let (work, sleep) = section.hold.draw(rng);
        rest(world, work, sleep);
        lock.release();
        if phase == PHASE_WINDOW {
            trace.acquisitions += 1;
            trace.waits.record(got - asked);
        }
        true
    }
}

#[cfg(test)]
mod tests;
