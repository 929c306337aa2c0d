//! Lock experiments on the virtual kernel: threads of one process run the loop of
//! [`crate::lock_loop`], with the unchanged source of the loop and the locks.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Preset, Sim, User, Word};
use convoy_sync::{AdaptiveLock, Atomic, Lock, with_lock};
use convoy_workload::api::Kernel;

pub use crate::board::VirtualLocksPoint;
use crate::board::{Board, TASKS_BESIDE};
use crate::bound_locks;
use crate::live;
use crate::lock_loop::{
    Contest, Door, Ground, Loop, Measured, PHASE_OVER, PHASE_WINDOW, Shared, Stage, Trace, Works,
};
use crate::snapshot::Snapshot;
use crate::steady::{BATCH_NS, Watch};
use crate::virtual_end::{VirtualError, run_to_end};
use convoy_workload::calibration::Calibration;

/// Share of the first-level caches that a thread of the loop reuses after it was switched away: its
/// stack, its record and its share of the histogram, about 32 of 768 lines.
const FOOTPRINT: f64 = 0.04;
/// Interval at which the coordinator checks whether threads are ready or have exited, nanoseconds.
const POLL_NS: u64 = 1_000_000;
/// Work of a thread that takes no lock between two checks whether the run is over, nanoseconds.
const BUSY_NS: u32 = 50_000;
/// Virtual time after the window in which threads must leave the lock, nanoseconds.
const DRAIN_NS: u64 = 30_000_000_000;

impl Ground for User {
    const COUNTS: bool = true;

    fn churn(value: usize, steps: u32) -> usize {
        Here::compute(u64::from(steps) * 1000);
        value
    }

    fn expect<'a>(words: impl Iterator<Item = &'a Word<usize>>) {
        Here::fetch_together(words);
    }
}

/// A lock loop on the virtual kernel. Every field of the loop has the same meaning as on this
/// machine; a step of work takes one nanosecond.
#[derive(Clone, Debug)]
pub struct VirtualLocks {
    /// The loop.
    pub measured: Loop,
    /// Whether its threads are pinned to the first CPU.
    pub pinned: bool,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine.
    pub machine: Preset,
}

/// Creates a cell with locks of its type in simulated memory.
type Place = fn(&Loop) -> Rc<dyn Contest<User>>;

fn placed<C: Lock>(what: &Loop) -> Rc<dyn Contest<User>> {
    let shared: Sim<Shared<User, C>> = Here::place(Shared::new(what.spin_limit, what.lines));
    Here::name(&*shared, "the measured lock");
    let others: Vec<Sim<Door<User, C>>> =
        (1..what.locks).map(|_| Here::place(Door::new(what.spin_limit, what.lines))).collect();
    for door in &others {
        Here::name(&**door, "another measured lock");
    }
    Rc::new(Doors { shared, others })
}

/// State that all threads share, and the locks after the first.
struct Doors<C: Lock> {
    shared: Sim<Shared<User, C>>,
    others: Vec<Sim<Door<User, C>>>,
}

impl<C: Lock> Contest<User> for Doors<C> {
    fn stage(&self) -> Stage<'_, User> {
        self.shared.stage()
    }

    fn body(&self, index: u32, work: &mut Works) -> Trace {
        let own = (index as usize % (self.others.len() + 1)).checked_sub(1);
        let door = own.map_or(&self.shared.door, |own| &*self.others[own]);
        self.shared.body_at(door, index, work)
    }
}

/// Computes until the run is over.
fn compute(stage: &Stage<'_, User>) {
    while stage.phase.load(Relaxed) != PHASE_OVER {
        User::churn(0, BUSY_NS);
    }
    stage.gone.fetch_add(1, Release);
}

impl VirtualLocks {
    /// Runs the cell.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the lock runs only on the host, if the run cannot be set up,
    /// or if it does not end.
    pub fn run(&self) -> Result<VirtualLocksPoint, VirtualError> {
        if self.measured.bound {
            return bound_locks::run(&self.measured, &self.machine);
        }
        match self.measured.lock {
            Measured::Generic(lock) => {
                with_lock!(lock, User, AdaptiveLock<User>, T => self.execute(placed::<T>))
            }
            Measured::Library(lock) => Err(VirtualError::HostOnly {
                job: lock.name(),
                reason: "its source knows no machine but this one",
            }),
        }
    }

    fn execute(&self, place: Place) -> Result<VirtualLocksPoint, VirtualError> {
        self.execute_on(place, |_| ())
    }

    /// Runs the cell after `prepare` was called with the machine.
    fn execute_on(
        &self,
        place: Place,
        prepare: impl FnOnce(&Machine),
    ) -> Result<VirtualLocksPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let threads = (self.measured.threads + self.measured.busy) as usize;
        let tasks = threads + TASKS_BESIDE + cpus;
        let machine = Machine::new(&self.machine, self.measured.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        prepare(&machine);
        let calibration = Calibration::embedded()?;
        let options = Options { processes: tasks, ..Options::default() };
        let world = World::new(&self.kernel, &self.machine, &calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (cell, shared, inner) = (self.clone(), Rc::clone(&board), Rc::clone(&world));
        world.boot(&machine, move |process| {
            if let Err(what) = cell.coordinate(process, &inner, &shared, place) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(
            &machine,
            self.measured.threads,
            self.measured.seed,
            &self.kernel.name,
            &board.broken,
        )?;
        let mut point = VirtualLocksPoint::of(&board, &machine);
        point.result.locks = self.measured.locks;
        Ok(point)
    }

    fn coordinate(
        &self,
        k: &mut Process,
        world: &World,
        board: &Rc<Board>,
        place: Place,
    ) -> Result<(), String> {
        // The loop's clock reads are part of the critical section and of the work outside.
        let clock = self.machine.user_ns.as_ref().map_or(0, |user| user.clock.round() as u32);
        if self.pinned {
            world.sched().stay_here();
        }
        let contest = place(&self.measured);
        let shared = contest.stage();
        if !self.measured.from_start {
            // Threads start where the kernel places new threads, and stay runnable from then on.
            shared.open_gate();
        }
        for index in 0..self.measured.threads {
            let (own, board) = (Rc::clone(&contest), Rc::clone(board));
            let mut work = self.measured.work(index, |ns| ns.saturating_sub(clock));
            let body = move || {
                let trace = own.body(index, &mut work);
                board.traces.borrow_mut().push(trace);
            };
            k.thread(FOOTPRINT, Box::new(body)).map_err(|error| format!("clone: {error}"))?;
        }
        for _ in 0..self.measured.busy {
            let own = Rc::clone(&contest);
            k.thread(FOOTPRINT, Box::new(move || compute(&own.stage())))
                .map_err(|error| format!("clone: {error}"))?;
        }
        while shared.ready.load(Acquire) < self.measured.threads {
            k.sleep(POLL_NS);
        }
        let cpus = self.machine.topology.cpus;
        let warmup_ns = u64::from(self.measured.warmup_ms) * 1_000_000;
        if self.measured.from_start {
            shared.open_gate();
            k.sleep(warmup_ns);
        } else {
            let watch = Watch {
                world,
                cpus,
                batch_ns: BATCH_NS,
                least_ns: warmup_ns,
                work: u64::MAX,
                batch_least_ns: BATCH_NS,
            };
            let passed = || shared.passed.load(Relaxed);
            board.settling.set(Some(watch.settle(k, passed, Process::sleep).0));
        }
        let begin = Snapshot::take(world, cpus);
        live::watch(&self.measured, Rc::clone(&contest), begin.now_ns);
        shared.phase.store(PHASE_WINDOW, Relaxed);
        k.sleep(u64::from(self.measured.window_ms) * 1_000_000);
        let end = Snapshot::take(world, cpus);
        shared.window_end_ns.store(end.now_ns as usize, Relaxed);
        shared.phase.store(PHASE_OVER, Release);
        *board.window.borrow_mut() = (begin, end);
        while shared.gone.load(Acquire) < self.measured.threads + self.measured.busy {
            if Here::now_ns() > end.now_ns + DRAIN_NS {
                return Err("the threads did not leave the lock".to_owned());
            }
            k.sleep(POLL_NS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_loop::{LoopResult, Policy, Vary};
    use convoy_kernel::FutexWake;
    use convoy_machine::ColdSwitch;
    use convoy_stats::jain;

    fn cell(policy: Policy, threads: u32, pinned: bool) -> VirtualLocks {
        let measured =
            Loop { lock: Measured::Generic(policy), threads, warmup_ms: 5, ..Loop::default() };
        let kernel = KernelPreset::named("6.18").unwrap();
        VirtualLocks { measured, pinned, kernel, machine: Preset::named("host").unwrap() }
    }

    /// Runs a cell that is long enough for a tick to preempt an owner, so that a queue forms.
    fn long(policy: Policy, threads: u32) -> LoopResult {
        let mut cell = cell(policy, threads, true);
        cell.measured.warmup_ms = 100;
        cell.run().unwrap().result
    }

    #[test]
    fn every_lock_runs_as_threads_and_the_same_every_time() {
        for &policy in Policy::ALL {
            let point = cell(policy, 4, false).run().unwrap();
            // Critical sections of 1 us, one at a time: at most one million per second.
            let rate = point.result.acquisitions_per_s();
            assert!(rate > 0.0 && rate < 1e6, "{policy}");
            assert_eq!(point.hash, cell(policy, 4, false).run().unwrap().hash, "{policy}");
        }
    }

    #[test]
    fn one_cpu_without_contention_gives_what_the_work_allows() {
        // 2 us for each critical section and the work between: a lock adds little.
        let result = cell(Policy::Adaptive, 2, true).run().unwrap().result;
        assert!((0.45e6..0.5e6).contains(&result.acquisitions_per_s()), "{result:?}");
        assert!((0.99..1.02).contains(&result.cpus_used), "{}", result.cpus_used);
    }

    /// Wakeups that last longer than critical sections limit the throughput of a mutex if they are
    /// made under the lock of its bucket, and do not if they follow it.
    #[test]
    fn wakeups_under_the_lock_of_a_bucket_limit_a_mutex() {
        fn rate(rule: FutexWake) -> f64 {
            let mut cell = cell(Policy::Adaptive, 12, false);
            cell.measured.spin_limit = Some(0);
            cell.machine = Preset::named("opteron-6344-4x12").unwrap();
            cell.machine.topology.cpus = 12;
            cell.kernel.locks.futex = rule;
            cell.kernel.sched_ns.wake = 5_000.0;
            cell.run().unwrap().result.acquisitions_per_s()
        }
        let (locked, unlocked) = (rate(FutexWake::Locked), rate(FutexWake::Unlocked));
        assert!(locked < 0.8 * unlocked, "{locked} and {unlocked}");
    }

    #[test]
    fn idle_cpus_of_a_large_machine_are_not_in_use() {
        let machine = Preset::named("westmere-ex-80-2013").unwrap();
        let point = VirtualLocks { machine, ..cell(Policy::Ticket, 2, false) }.run().unwrap();
        let used = point.result.cpus_used;
        assert!((1.5..2.5).contains(&used), "{used}");
    }

    /// They do not take the lock from each other for each critical section: one of them stands back
    /// while the other has the lock to itself.
    #[test]
    fn two_threads_with_short_sections_are_not_half_as_fast_as_one() {
        let [one, two] = [1, 2].map(|threads| {
            let machine = Preset::named("server-2x64").unwrap().with_cpus(64);
            let mut cell = VirtualLocks { machine, ..cell(Policy::Quota, threads, false) };
            (cell.measured.section_ns, cell.measured.outside_ns) = (100, 200);
            cell.run().unwrap().result.acquisitions_per_s()
        });
        assert!(two > 0.6 * one, "{two} of {one}");
    }

    #[test]
    fn threads_that_start_at_one_gate_have_spread_when_the_window_begins() {
        for name in ["server-2x64", "westmere-ex-80-2013"] {
            let machine = Preset::named(name).unwrap().with_cpus(64);
            let mut cell = VirtualLocks { machine, ..cell(Policy::Ticket, 64, false) };
            (cell.measured.section_ns, cell.measured.outside_ns) = (100, 20_000);
            let used = cell.run().unwrap().result.cpus_used;
            assert!((60.0..64.5).contains(&used), "{name}: {used}");
        }
    }

    #[test]
    fn a_handoff_costs_switches_that_a_mutex_saves() {
        let (handoff, mutex) = (long(Policy::Handoff, 16), long(Policy::Mutex, 16));
        let sections: u64 = handoff.acquisitions.iter().sum();
        assert!(handoff.voluntary_switches > sections);
        assert!(mutex.acquisitions_per_s() > 1.5 * handoff.acquisitions_per_s());
    }

    /// The scheduler counts preempted critical sections: with a CPU for each thread there are none,
    /// and waiters spin; with more threads they sleep while one is, unlike waiters of a spinlock.
    #[test]
    fn waiters_sleep_when_a_critical_section_is_preempted() {
        fn run(policy: Policy, threads: u32) -> LoopResult {
            let mut cell = cell(policy, threads, false);
            (cell.measured.warmup_ms, cell.measured.window_ms) = (50, 50);
            cell.run().unwrap().result
        }
        let (few, many) = (run(Policy::FlexGuard, 2), run(Policy::FlexGuard, 16));
        assert!(few.voluntary_switches < 10, "{}", few.voluntary_switches);
        assert!(many.voluntary_switches > 50, "{}", many.voluntary_switches);
        let (many, queued) = (many.acquisitions_per_s(), run(Policy::Queued, 16));
        assert!(many > 2.0 * queued.acquisitions_per_s(), "{many} and {queued:?}");
    }

    #[test]
    fn threads_with_a_lock_each_do_not_wait() {
        let mut cell = cell(Policy::Adaptive, 2, false);
        cell.measured.locks = 2;
        let result = cell.run().unwrap().result;
        assert!(result.voluntary_switches < 10, "{}", result.voluntary_switches);
    }

    #[test]
    fn threads_without_the_lock_take_their_share_of_the_cpus() {
        fn run(busy: u32) -> f64 {
            let mut cell = cell(Policy::Adaptive, 2, true);
            cell.measured.busy = busy;
            (cell.measured.warmup_ms, cell.measured.window_ms) = (50, 100);
            cell.run().unwrap().result.acquisitions_per_s()
        }
        let share = run(2) / run(0);
        assert!((0.4..0.6).contains(&share), "{share}");
    }

    /// An idle CPU that the hypervisor has preempted is not a target of wakeups, so the queue stays
    /// on one CPU; an idle CPU that is still polled takes every other wakeup, each by an interrupt.
    #[test]
    fn a_guest_that_halts_at_once_keeps_a_handoff_on_one_cpu() {
        fn rate(halt_poll: f64) -> f64 {
            let mut cell = cell(Policy::Handoff, 64, false);
            (cell.measured.warmup_ms, cell.measured.window_ms) = (100, 50);
            cell.measured.think = Vary::Staggered;
            cell.machine.guest_ns.as_mut().expect("a guest").halt_poll = halt_poll;
            cell.run().unwrap().result.acquisitions_per_s()
        }
        let (halted, polled) = (rate(0.0), rate(1e6));
        assert!(halted > 2.0 * polled, "{halted} and {polled}");
    }

    #[test]
    fn a_thread_that_was_away_for_many_turns_pays_for_its_lines() {
        fn rate(threads: u32, ns: f64) -> f64 {
            let mut cell = cell(Policy::Handoff, threads, true);
            (cell.measured.warmup_ms, cell.measured.window_ms) = (100, 50);
            cell.measured.think = Vary::Staggered;
            cell.machine.cold_switch = Some(ColdSwitch { after: vec![32, 64], ns: vec![0.0, ns] });
            cell.run().unwrap().result.acquisitions_per_s()
        }
        assert!(rate(8, 20_000.0) > 0.95 * rate(8, 0.0));
        assert!(rate(128, 0.0) > 2.0 * rate(128, 20_000.0));
    }

    #[test]
    fn threads_of_a_ticket_lock_on_one_cpu_get_on_by_yielding() {
        let result = long(Policy::Ticket, 4);
        assert!(result.acquisitions_per_s() > 1e4, "{}", result.acquisitions_per_s());
        assert!(jain(&result.acquisitions).is_some_and(|jain| jain > 0.9));
    }

    /// Threads poll a word in user mode, alone on their CPUs or not, until it changes, for a number
    /// of reads, or for a time. The result is the same as if each read were executed.
    #[test]
    fn looks_that_are_accounted_are_those_that_would_be_executed() {
        for (policy, threads) in [
            (Policy::Ticket, 4),
            (Policy::Ticket, 6),
            (Policy::Adaptive, 4),
            (Policy::Quota, 4),
            (Policy::TestAndSet, 4),
        ] {
            let mut cell = cell(policy, threads, false);
            cell.machine = Preset::named("westmere-ex-80-2013").unwrap().with_cpus(4);
            cell.measured.think = Vary::Exponential;
            (cell.measured.from_start, cell.measured.warmup_ms) = (true, 2);
            // The mean wait has a long tail: in 20 ms it varies by 2 %.
            cell.measured.window_ms = 80;
            let run = |prepare: fn(&Machine)| {
                let run = |cell: &VirtualLocks| {
                    with_lock!(policy, User, AdaptiveLock<User>, T => {
                        cell.execute_on(placed::<T>, prepare)
                    })
                };
                run(&cell).unwrap().result
            };
            let (known, executed) = (run(|_| ()), run(Machine::execute_each_look));
            let near = |what: &str, one: f64, other: f64| {
                let text = format!("{policy} of {threads}: {what} {one}, executed {other}");
                assert!((one - other).abs() < 0.02 * other.abs(), "{text}");
            };
            near("rate", known.acquisitions_per_s(), executed.acquisitions_per_s());
            near("CPUs", known.cpus_used, executed.cpus_used);
            let mean = |result: &LoopResult| result.waits.mean().unwrap_or(0.0);
            near("wait", mean(&known), mean(&executed));
        }
    }

    /// Threads that share no lock fill the CPUs, as new threads are placed.
    #[test]
    fn threads_fill_the_cpus_of_large_machines() {
        let machines =
            ["host", "westmere-ex-80-2013"].map(|name| Preset::named(name).expect("shipped"));
        for machine in &machines {
            for kernel in ["2.6.39", "3.10", "6.18"] {
                for threads in [1, 16, 64, 100] {
                    let mut cell = cell(Policy::Ticket, threads, false);
                    cell.machine = machine.clone().with_cpus(64);
                    cell.kernel = KernelPreset::named(kernel).unwrap();
                    (cell.measured.section_ns, cell.measured.outside_ns) = (10, 1_000_000);
                    let result = cell.run().unwrap().result;
                    let expected = f64::from(threads.min(64));
                    let used = result.cpus_used;
                    let text = format!("{used} CPUs of {expected} with {kernel}");
                    // The scheduler of 2.6.39 occasionally moves the only task of a CPU to an idle
                    // CPU.
                    let least = if kernel == "2.6.39" { 0.95 } else { 0.97 };
                    assert!((least * expected..1.03 * expected).contains(&used), "{text}");
                    assert!(result.settling.is_some_and(|settling| settling.is_settled), "{text}");
                }
            }
        }
    }

    /// While threads arrive, few of them wait yet. If turns were as long as that allows, the
    /// waiters would be kept out until all threads had a turn.
    #[test]
    fn who_waits_first_does_not_wait_until_all_others_have_come() {
        let mut cell = cell(Policy::Quota, 1000, false);
        (cell.measured.warmup_ms, cell.measured.window_ms) = (1, 150);
        let longest = cell.run().unwrap().result.waits.max().expect("somebody waits");
        assert!(longest < 135_000_000, "{longest} ns of 5 ms and rounds of 100 ms on two CPUs");
    }

    /// The stated bound of `Quota`: turns begin once the first waiter has waited for 5 ms; with 64
    /// threads a turn has its maximum, 0.65 ms, and every thread has one in every 64 turns on 2
    /// CPUs. Locks with unlimited stealing have no bound;
    /// therefore the mutex of 4.10 lets its first waiter request a handoff, unlike the mutex of
    /// 3.10.
    #[test]
    fn turns_bound_every_wait_and_without_them_threads_starve() {
        fn run(policy: Policy) -> (f64, f64, f64) {
            let mut cell = cell(policy, 64, false);
            (cell.measured.warmup_ms, cell.measured.window_ms) = (50, 200);
            let metrics = cell.run().unwrap().result.metrics();
            let of = |key| metrics.iter().find(|metric| metric.0 == key).unwrap().1;
            (of("wait_max_us"), of("starved_threads"), of("jain"))
        }
        const BOUND_US: f64 = 5000.0 + 64.0 * 650.0 / 2.0;
        let (longest, starved, jain) = run(Policy::Quota);
        assert!(longest < 1.1 * BOUND_US, "{longest} us");
        assert!(starved < 1.0 && jain > 0.9, "{starved} starved, {jain}");
        for policy in [Policy::Adaptive, Policy::Mutex, Policy::MutexSpinMcs] {
            let (longest, _, jain) = run(policy);
            assert!(longest > 5.0 * BOUND_US && jain < 0.7, "{policy}: {longest} us, {jain}");
        }
    }
}
