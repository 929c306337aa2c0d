//! Lock experiments on the virtual kernel: threads of one process run the loop of
//! [`crate::lock_loop`], its source and that of the locks unchanged.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Mode, Preset, Sim, User};
use convoy_stats::{LogHistogram, jain};
use convoy_sync::{AdaptiveLock, Atomic, Lock, Promise, with_lock};
use convoy_workload::api::Kernel;

use crate::lock_loop::{Ground, Outside, PHASE_OVER, PHASE_WINDOW, Policy, Shared, Think, Trace};
use crate::native::{NativeExperiment, NativeRecord, NativeRun};
use crate::virtual_end::{VirtualError, run_to_end};
use convoy_workload::calibration::Calibration;

/// Machine tasks beside the threads.
const TASKS_BESIDE: usize = 16;
/// Part of the first-level caches that a thread of the loop uses again after it was away: its
/// stack, its record and its share of the histogram, some 32 lines of 768.
const FOOTPRINT: f64 = 0.04;
/// How often the coordinator looks whether threads are ready or gone, nanoseconds.
const POLL_NS: u64 = 1_000_000;
/// Virtual time after the window in which threads have to leave the lock, nanoseconds.
const DRAIN_NS: u64 = 30_000_000_000;

impl Ground for User {
    fn churn(value: usize, steps: u32) -> usize {
        Here::compute(u64::from(steps) * 1000);
        value
    }
}

/// What to run. Every field is what it is on this machine; a step of work takes a nanosecond.
#[derive(Clone, Debug)]
pub struct VirtualLocks {
    /// The lock.
    pub policy: Policy,
    /// Threads.
    pub threads: u32,
    /// They are kept to the first CPU.
    pub pinned: bool,
    /// Length of the section, in nanoseconds, with its look at the clock.
    pub section_ns: u32,
    /// Work between two sections, in nanoseconds, with its look at the clock.
    pub outside_ns: u32,
    /// How that work varies.
    pub think: Think,
    /// Looks of a lock that spins before it sleeps, instead of its own number.
    pub spin_limit: Option<u32>,
    /// Time from the opening of the gate to the window, in milliseconds.
    pub warmup_ms: u32,
    /// Length of the window, in milliseconds.
    pub window_ms: u32,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine.
    pub machine: Preset,
    /// Seed of the machine's perturbation.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct VirtualLocksPoint {
    /// Sections completed per second of the window.
    pub acquisitions_per_s: f64,
    /// Jain's index of the threads' acquisitions; `None` if there were none at all.
    pub jain: Option<f64>,
    /// CPUs in use, on average over the window.
    pub cpus_used: f64,
    /// Voluntary context switches per second of the window.
    pub voluntary_switches_per_s: f64,
    /// Waits in nanoseconds, as on this machine.
    pub waits: LogHistogram,
    /// Threads without an acquisition in the window.
    pub starved_threads: u32,
    /// Threads that waited when the window ended.
    pub waiting_threads: u32,
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// From the end of the window until all threads had left, in nanoseconds.
    pub drain_ns: u64,
    /// Simulated memory operations.
    pub operations: u64,
    /// Schedule hash of the whole run.
    pub hash: u64,
}

/// CPU time and switches at one moment.
#[derive(Clone, Copy, Default)]
struct Snapshot {
    now_ns: u64,
    busy_ps: u64,
    voluntary: u64,
}

/// What a CPU has spent on anything but idling, picoseconds.
fn busy_ps(cpu: usize) -> u64 {
    let times = Here::times(cpu);
    times.iter().sum::<u64>() - times[Mode::Idle as usize]
}

impl Snapshot {
    fn take(world: &World, cpus: usize) -> Self {
        Self {
            now_ns: Here::now_ns(),
            // Not what is left of idle time: that of a CPU which still idles is not booked yet.
            busy_ps: (0..cpus).map(busy_ps).sum(),
            voluntary: world.sched().stats().voluntary,
        }
    }
}

/// What the threads and the coordinator leave.
#[derive(Default)]
struct Board {
    traces: RefCell<Vec<Trace>>,
    window: RefCell<(Snapshot, Snapshot)>,
    drain_ns: Cell<u64>,
    broken: RefCell<Option<String>>,
}

impl VirtualLocks {
    /// Runs the cell.
    ///
    /// # Errors
    /// [`VirtualError`].
    pub fn run(&self) -> Result<VirtualLocksPoint, VirtualError> {
        with_lock!(self.policy, User, AdaptiveLock<User>, T => self.execute::<T>())
    }

    fn execute<C: Lock>(&self) -> Result<VirtualLocksPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let tasks = self.threads as usize + TASKS_BESIDE + cpus;
        let machine = Machine::new(&self.machine, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        let calibration = Calibration::embedded()?;
        let options = Options { processes: tasks, ..Options::default() };
        let world = World::new(&self.kernel, &self.machine, &calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (cell, shared, inner) = (self.clone(), Rc::clone(&board), Rc::clone(&world));
        world.boot(&machine, move |process| {
            if let Err(what) = cell.coordinate::<C>(process, &inner, &shared) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(&machine, self.threads, self.seed, &self.kernel.name, &board.broken)?;
        Ok(VirtualLocksPoint::of(&board, &machine))
    }

    fn coordinate<C: Lock>(
        &self,
        k: &mut Process,
        world: &World,
        board: &Rc<Board>,
    ) -> Result<(), String> {
        // The loop's looks at the clock are part of the section and of the work outside.
        let clock = self.machine.user_ns.as_ref().map_or(0, |user| user.clock.round() as u32);
        let steps = |ns: u32| ns.saturating_sub(clock);
        if self.pinned {
            world.sched().stay_here();
        }
        let shared: Rc<Sim<Shared<User, C>>> =
            Rc::new(Here::place(Shared::new(steps(self.section_ns), self.spin_limit)));
        Here::name(&**shared, "the measured lock");
        for index in 0..self.threads {
            let (own, board) = (Rc::clone(&shared), Rc::clone(board));
            let mut outside = Outside::new(self.think, steps(self.outside_ns), self.seed, index);
            let body = move || {
                let trace = own.body(index, &mut outside);
                board.traces.borrow_mut().push(trace);
            };
            k.thread(FOOTPRINT, body).map_err(|error| format!("clone: {error}"))?;
        }
        while shared.ready.0.load(Acquire) < self.threads {
            k.sleep(POLL_NS);
        }
        shared.open_gate();
        k.sleep(u64::from(self.warmup_ms) * 1_000_000);
        let cpus = self.machine.topology.cpus;
        let begin = Snapshot::take(world, cpus);
        shared.phase.store(PHASE_WINDOW, Relaxed);
        k.sleep(u64::from(self.window_ms) * 1_000_000);
        let end = Snapshot::take(world, cpus);
        shared.window_end_ns.store(end.now_ns as usize, Relaxed);
        shared.phase.store(PHASE_OVER, Release);
        *board.window.borrow_mut() = (begin, end);
        while shared.gone.load(Acquire) < self.threads {
            if Here::now_ns() > end.now_ns + DRAIN_NS {
                return Err("the threads did not leave the lock".to_owned());
            }
            k.sleep(POLL_NS);
        }
        board.drain_ns.set(Here::now_ns() - end.now_ns);
        Ok(())
    }
}

/// The cells of `experiment` on a virtual machine, in the order of the experiment, round after
/// round; each round has a seed of its own.
pub fn cells(
    experiment: &NativeExperiment,
    kernel: &KernelPreset,
    machine: &Preset,
) -> Vec<VirtualLocks> {
    let NativeExperiment { policies, threads, section_ns, rounds, .. } = experiment;
    let cell = |round: u32, section_ns: u32, threads: u32, policy: Policy| VirtualLocks {
        policy,
        threads,
        pinned: false,
        section_ns,
        outside_ns: experiment.outside_ns,
        think: experiment.think,
        spin_limit: experiment.spin_limit.filter(|_| policy.promises_to(Promise::SpinLimit)),
        warmup_ms: experiment.warmup_ms,
        window_ms: experiment.window_ms,
        kernel: kernel.clone(),
        machine: machine.clone(),
        seed: experiment.seed + u64::from(round),
    };
    let mut cells = Vec::with_capacity(experiment.runs());
    for round in 0..*rounds {
        for &section_ns in section_ns {
            for &threads in threads {
                cells.extend(policies.iter().map(|&p| cell(round, section_ns, threads, p)));
            }
        }
    }
    cells
}

/// The record of the `cells` of `experiment`, of which those without a point did not run.
pub fn record(
    experiment: &NativeExperiment,
    cells: &[VirtualLocks],
    points: &[Option<VirtualLocksPoint>],
) -> NativeRecord {
    let round = |cell: &VirtualLocks| (cell.seed - experiment.seed) as u32;
    let ran = (0..).zip(cells).zip(points);
    let runs = ran.filter_map(|((order, cell), point)| Some((order, cell, point.as_ref()?)));
    let runs = runs.map(|(order, cell, point)| point.run(round(cell), order, cell)).collect();
    let (kernel, machine) = (&cells[0].kernel, &cells[0].machine);
    let place = format!("{} on {}", kernel.name, machine.name);
    let clock_ns = machine.user_ns.as_ref().map_or(0.0, |user| user.clock);
    let cpus = machine.topology.cpus as u32;
    NativeRecord::new(experiment, Some(place), cpus, (1.0, clock_ns), runs)
}

impl VirtualLocksPoint {
    /// The row of the record for this point of `cell`.
    fn run(&self, round: u32, order: u32, cell: &VirtualLocks) -> NativeRun {
        let us = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e3;
        NativeRun {
            round,
            order,
            section_ns: cell.section_ns,
            threads: cell.threads,
            policy: cell.policy,
            window_s: self.window_s,
            cpus_used: self.cpus_used,
            others_cpus: None,
            acquisitions_per_s: self.acquisitions_per_s,
            voluntary_switches_per_s: self.voluntary_switches_per_s,
            involuntary_switches_per_s: None,
            jain: self.jain,
            starved_threads: self.starved_threads,
            waiting_threads: self.waiting_threads,
            wait_p50_us: us(self.waits.percentile(50.0)),
            wait_p99_us: us(self.waits.percentile(99.0)),
            wait_max_us: us(self.waits.max()),
            drain_ms: self.drain_ns as f64 / 1e6,
        }
    }

    fn of(board: &Board, machine: &Machine) -> Self {
        let (begin, end) = *board.window.borrow();
        let span_s = (end.now_ns - begin.now_ns) as f64 / 1e9;
        let mut waits = LogHistogram::new();
        let traces = board.traces.borrow();
        traces.iter().for_each(|trace| waits.merge(&trace.waits));
        let acquisitions: Vec<u64> = traces.iter().map(|trace| trace.acquisitions).collect();
        Self {
            acquisitions_per_s: acquisitions.iter().sum::<u64>() as f64 / span_s,
            jain: jain(&acquisitions),
            cpus_used: (end.busy_ps - begin.busy_ps) as f64 / 1e12 / span_s,
            voluntary_switches_per_s: (end.voluntary - begin.voluntary) as f64 / span_s,
            waits,
            starved_threads: acquisitions.iter().filter(|count| **count == 0).count() as u32,
            waiting_threads: traces.iter().filter(|trace| trace.waiting).count() as u32,
            window_s: span_s,
            drain_ns: board.drain_ns.get(),
            operations: machine.operations(),
            hash: machine.hash(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(policy: Policy, threads: u32, pinned: bool) -> VirtualLocks {
        VirtualLocks {
            policy,
            threads,
            pinned,
            section_ns: 1000,
            outside_ns: 1000,
            think: Think::Fixed,
            spin_limit: None,
            warmup_ms: 5,
            window_ms: 20,
            kernel: KernelPreset::named("6.18").unwrap(),
            machine: Preset::named("host").unwrap(),
            seed: 1,
        }
    }

    #[test]
    fn every_lock_runs_as_threads_and_the_same_every_time() {
        for &policy in Policy::ALL {
            let point = cell(policy, 4, false).run().unwrap();
            // Sections of 1 us, one at a time: a million a second and no more.
            assert!(point.acquisitions_per_s > 0.0 && point.acquisitions_per_s < 1e6, "{policy}");
            let again = cell(policy, 4, false).run().unwrap();
            assert_eq!(point.hash, again.hash, "{policy}");
        }
    }

    #[test]
    fn one_cpu_without_contention_gives_what_the_work_allows() {
        // 2 us for each section and the work between: a lock adds little.
        let point = cell(Policy::Adaptive, 2, true).run().unwrap();
        assert!((0.45e6..0.5e6).contains(&point.acquisitions_per_s), "{point:?}");
        assert!((0.99..1.02).contains(&point.cpus_used), "{}", point.cpus_used);
    }

    #[test]
    fn idle_cpus_of_a_large_machine_are_not_in_use() {
        let machine = Preset::named("westmere-ex-80-2013").unwrap();
        let point = VirtualLocks { machine, ..cell(Policy::Ticket, 2, false) }.run().unwrap();
        assert!((1.5..2.5).contains(&point.cpus_used), "{}", point.cpus_used);
    }

    #[test]
    fn a_handoff_costs_switches_that_a_mutex_saves() {
        // Long enough for a tick to preempt an owner, and so for a queue to form.
        let long = |policy| VirtualLocks { warmup_ms: 100, ..cell(policy, 16, true) };
        let handoff = long(Policy::Handoff).run().unwrap();
        let mutex = long(Policy::Mutex).run().unwrap();
        assert!(handoff.voluntary_switches_per_s > handoff.acquisitions_per_s);
        assert!(mutex.acquisitions_per_s > 1.5 * handoff.acquisitions_per_s);
    }

    #[test]
    fn threads_of_a_ticket_lock_on_one_cpu_get_on_by_yielding() {
        let long = VirtualLocks { warmup_ms: 100, ..cell(Policy::Ticket, 4, true) };
        let point = long.run().unwrap();
        assert!(point.acquisitions_per_s > 1e4, "{}", point.acquisitions_per_s);
        assert!(point.jain.is_some_and(|jain| jain > 0.9), "{:?}", point.jain);
    }
}
