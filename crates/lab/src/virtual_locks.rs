//! One cell of the lock experiments on the virtual kernel: threads of one process run the loop of
//! [`crate::lock_loop`], its source and that of the locks unchanged.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Mode, Preset, Sim, User};
use convoy_stats::{LogHistogram, jain};
use convoy_sync::Atomic;
use convoy_workload::api::Kernel;

use crate::lock_loop::{
    Contender, Ground, PHASE_OVER, PHASE_WINDOW, Policy, Shared, Trace, with_lock,
};
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
    /// Simulated memory operations.
    pub operations: u64,
    /// Schedule hash of the whole run.
    pub hash: u64,
}

/// CPU time and switches at one moment.
#[derive(Clone, Copy, Default)]
struct Snapshot {
    now_ns: u64,
    idle_ps: u64,
    voluntary: u64,
}

impl Snapshot {
    fn take(world: &World, cpus: usize) -> Self {
        Self {
            now_ns: Here::now_ns(),
            idle_ps: (0..cpus).map(|cpu| Here::times(cpu)[Mode::Idle as usize]).sum(),
            voluntary: world.sched().stats().voluntary,
        }
    }
}

/// What the threads and the coordinator leave.
#[derive(Default)]
struct Board {
    traces: RefCell<Vec<Trace>>,
    window: RefCell<(Snapshot, Snapshot)>,
    broken: RefCell<Option<String>>,
}

impl VirtualLocks {
    /// Runs the cell.
    ///
    /// # Errors
    /// [`VirtualError`].
    pub fn run(&self) -> Result<VirtualLocksPoint, VirtualError> {
        with_lock!(self.policy, User, Lock => self.execute::<Lock>())
    }

    fn execute<C: Contender>(&self) -> Result<VirtualLocksPoint, VirtualError> {
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

    fn coordinate<C: Contender>(
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
            Rc::new(Here::place(Shared::new(steps(self.section_ns), steps(self.outside_ns))));
        Here::name(&**shared, "the measured lock");
        for index in 0..self.threads {
            let (own, board) = (Rc::clone(&shared), Rc::clone(board));
            let body = move || {
                let trace = own.body(index);
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
        Ok(())
    }
}

impl VirtualLocksPoint {
    fn of(board: &Board, machine: &Machine) -> Self {
        let (begin, end) = *board.window.borrow();
        let span_s = (end.now_ns - begin.now_ns) as f64 / 1e9;
        let cpus = machine.cpus() as f64;
        let mut waits = LogHistogram::new();
        let traces = board.traces.borrow();
        traces.iter().for_each(|trace| waits.merge(&trace.waits));
        let acquisitions: Vec<u64> = traces.iter().map(|trace| trace.acquisitions).collect();
        Self {
            acquisitions_per_s: acquisitions.iter().sum::<u64>() as f64 / span_s,
            jain: jain(&acquisitions),
            cpus_used: cpus - (end.idle_ps - begin.idle_ps) as f64 / 1e12 / span_s,
            voluntary_switches_per_s: (end.voluntary - begin.voluntary) as f64 / span_s,
            waits,
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
            warmup_ms: 5,
            window_ms: 20,
            kernel: KernelPreset::named("6.18").unwrap(),
            machine: Preset::named("host").unwrap(),
            seed: 1,
        }
    }

    const ALL: [Policy; 6] = [
        Policy::Handoff,
        Policy::Opportunistic,
        Policy::Mutex,
        Policy::Adaptive,
        Policy::TestAndSet,
        Policy::Ticket,
    ];

    #[test]
    fn every_lock_runs_as_threads_and_the_same_every_time() {
        for policy in ALL {
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
