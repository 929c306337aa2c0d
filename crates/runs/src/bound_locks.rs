//! Lock loops in the kernel: each thread is pinned to a separate CPU, runs with preemption
//! disabled, and no other task runs. Without scheduler and ticks, only the lock and the cache lines
//! remain.
//!
//! CPUs are used package by package, first one CPU of each core, then the others.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use convoy_machine::{Fifo, Here, Outcome, Preset, Sim, Smp, Word};
use convoy_stats::LogHistogram;
use convoy_sync::{Lock, TicketLock, with_lock};

use crate::board::VirtualLocksPoint;
use crate::lock_loop::{Door, Ground, Loop, LoopResult, Measured, Trace, Works};
use crate::virtual_end::VirtualError;

/// Time until every CPU has its thread, nanoseconds.
const START_NS: u64 = 1_000_000;
/// Virtual time after the window in which threads must leave the lock, nanoseconds.
const DRAIN_NS: u64 = 1_000_000_000;

impl Ground for Smp {
    const COUNTS: bool = false;

    fn churn(value: usize, steps: u32) -> usize {
        Here::compute(u64::from(steps) * 1000);
        value
    }

    fn expect<'a>(words: impl Iterator<Item = &'a Word<usize>>) {
        Here::fetch_together(words);
    }
}

/// The time in which acquisitions count, nanoseconds.
#[derive(Clone, Copy)]
struct Window {
    begin: u64,
    end: u64,
}

/// Returns the thread number of `cpu` if `threads` are pinned to one CPU each; `None` for CPUs
/// without a thread.
fn index(cpu: usize, cpus: usize, threads_per_core: usize, threads: usize) -> Option<usize> {
    let cores = cpus.div_ceil(threads_per_core);
    let index = cpu % threads_per_core * cores + cpu / threads_per_core;
    (index < threads).then_some(index)
}

/// Runs the loop `what` on `preset`.
///
/// # Errors
/// Returns a [`VirtualError`] if the lock runs only on the host, if the run cannot be set up, or if
/// it does not end.
pub(crate) fn run(what: &Loop, preset: &Preset) -> Result<VirtualLocksPoint, VirtualError> {
    let cpus = preset.topology.cpus;
    if what.threads as usize > cpus {
        let problem = format!("each is bound to a separate CPU, and there are {cpus}");
        return Err(VirtualError::Setup { users: what.threads, what: problem });
    }
    match what.lock {
        Measured::Generic(lock) => {
            with_lock!(lock, Smp, TicketLock<Smp>, T => execute::<T>(what, preset))
        }
        Measured::Library(lock) => Err(VirtualError::HostOnly {
            job: lock.name(),
            reason: "its source knows no machine but this one",
        }),
    }
}

/// The locks of a run, created by its first task.
type Doors<C> = Rc<OnceCell<Vec<Sim<Door<Smp, C>>>>>;

fn execute<C: Lock>(what: &Loop, preset: &Preset) -> Result<VirtualLocksPoint, VirtualError> {
    let topology = preset.topology.clone();
    let begin = START_NS + u64::from(what.warmup_ms) * 1_000_000;
    let window = Window { begin, end: begin + u64::from(what.window_ms) * 1_000_000 };
    let doors: Doors<C> = Rc::default();
    let traces: Rc<RefCell<Vec<Trace>>> = Rc::default();
    let bodies = (0..topology.cpus).map(|_| {
        let (doors, traces) = (Rc::clone(&doors), Rc::clone(&traces));
        let (what, topology) = (what.clone(), topology.clone());
        let body = move || {
            // Until every CPU has a thread.
            Here::compute((START_NS / 2).saturating_sub(Here::now_ns()) * 1000);
            let threads = what.threads as usize;
            let per_core = topology.threads_per_core;
            let own = index(Here::cpu(), topology.cpus, per_core, threads);
            let Some(own) = own else { return };
            let place = |_| Here::place(Door::new(what.spin_limit, what.lines));
            let doors = doors.get_or_init(|| (0..what.locks).map(place).collect());
            let mut work = what.work(own as u32, |ns| ns);
            let trace = turns(&doors[own % doors.len()], window, &mut work);
            traces.borrow_mut().push(trace);
        };
        Box::new(body) as Box<dyn FnOnce()>
    });
    let limit = window.end + DRAIN_NS;
    let (outcome, machine) = Fifo::run(preset, what.seed, limit, bodies.collect())
        .map_err(|source| VirtualError::AddressSpace { tasks: topology.cpus, source })?;
    if outcome != Outcome::Stopped {
        return Err(VirtualError::NoEnd {
            outcome,
            at_s: machine.now_ns() as f64 / 1e9,
            seed: what.seed,
            kernel: format!("threads that are kept to a CPU each under {}", what.lock),
            what: machine.explain_no_end(),
        });
    }
    // Objects in simulated memory must be dropped before the machine.
    drop(doors);
    let mut waits = LogHistogram::new();
    let traces = traces.borrow();
    traces.iter().for_each(|trace| waits.merge(&trace.waits));
    let result = LoopResult {
        settling: None,
        window_s: f64::from(what.window_ms) / 1e3,
        acquisitions: traces.iter().map(|trace| trace.acquisitions).collect(),
        locks: what.locks,
        cpus_used: f64::from(what.threads),
        others_cpus: None,
        alone_ns: None,
        voluntary_switches: 0,
        waiting_threads: traces.iter().filter(|trace| trace.waiting).count() as u32,
        waits,
    };
    let (operations, hash) = (machine.operations(), machine.hash());
    Ok(VirtualLocksPoint { result, operations, hash, ..VirtualLocksPoint::default() })
}

/// Runs one thread until the window is over.
fn turns<C: Lock>(door: &Door<Smp, C>, window: Window, work: &mut Works) -> Trace {
    let mut trace = Trace { acquisitions: 0, waits: LogHistogram::new(), waiting: false };
    loop {
        Smp::churn(0, work.outside.draw());
        let asked = Here::now_ns();
        if asked >= window.end {
            return trace;
        }
        let got = door.pass(work);
        let (within, over) = ((window.begin..window.end).contains(&got), got >= window.end);
        if within {
            trace.acquisitions += 1;
            trace.waits.record(got - asked);
        }
        trace.waiting |= over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_loop::Policy;
    use crate::virtual_locks::VirtualLocks;
    use convoy_kernel::KernelPreset;

    fn cell(policy: Policy, threads: u32) -> VirtualLocks {
        let measured = Loop {
            lock: Measured::Generic(policy),
            threads,
            bound: true,
            section_ns: 100,
            outside_ns: 300,
            window_ms: 1,
            ..Loop::default()
        };
        let machine = Preset::named("xeon-e5-2680v4-2x14").unwrap();
        let kernel = KernelPreset::named("6.18").unwrap();
        VirtualLocks { measured, pinned: false, kernel, machine }
    }

    fn rate(cell: &VirtualLocks) -> f64 {
        cell.run().unwrap().result.acquisitions_per_s()
    }

    #[test]
    fn threads_take_the_cores_of_a_package_before_its_siblings_and_other_packages_before_those() {
        fn of(threads: usize) -> Vec<usize> {
            let taken = (0..56).filter_map(|cpu| index(cpu, 56, 2, threads).map(|own| (own, cpu)));
            let mut taken: Vec<(usize, usize)> = taken.collect();
            taken.sort_unstable();
            taken.into_iter().map(|(_, cpu)| cpu).collect::<Vec<usize>>()
        }
        assert_eq!(of(3), [0, 2, 4]);
        assert_eq!(of(30)[26..], [52, 54, 1, 3]);
    }

    #[test]
    fn a_saturated_lock_hands_over_and_private_locks_do_not() {
        let mut shared = cell(Policy::Queued, 12);
        let together = rate(&shared);
        assert!(together > 2e6 && together < 1e7, "{together}");
        shared.measured.locks = 12;
        let apart = rate(&shared);
        assert!((0.93..1.0).contains(&(apart / (12.0 / 400e-9))), "{apart}");
    }

    #[test]
    fn readers_of_a_counter_share_and_writers_do_not() {
        fn share(readers_percent: u32) -> f64 {
            let mut cell = cell(Policy::RwlockQueued, 8);
            cell.measured.section_ns = 5_000;
            cell.measured.readers_percent = readers_percent;
            rate(&cell)
        }
        assert!(share(100) > 5.0 * share(0));
        assert!(share(50) < 0.7 * share(100));
    }

    #[test]
    fn more_lines_under_a_lock_take_longer_and_none_shorter() {
        fn with(lines: u32, buffers: usize) -> f64 {
            let mut cell = cell(Policy::Ticket, 8);
            cell.measured.lines = lines;
            cell.machine.fill_buffers = buffers;
            rate(&cell)
        }
        assert!(with(0, 1) > 1.1 * with(1, 1) && with(1, 1) > 1.5 * with(6, 1));
        // All lines together, two at a time, and one after the other.
        assert!(with(1, 6) > with(6, 6) && with(6, 6) > 1.05 * with(6, 2));
        assert!(with(6, 2) > 1.05 * with(6, 1));
        let close = (with(1, 1) - with(1, 6)).abs();
        assert!(close < 1.0, "one line has nothing to overlap with: {close}");
    }

    #[test]
    fn there_are_no_more_threads_than_cpus() {
        let error = cell(Policy::Ticket, 57).run().unwrap_err().to_string();
        assert!(error.contains("bound to a separate CPU, and there are 56"), "{error}");
    }
}
