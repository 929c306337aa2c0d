//! One cell on this machine: threads of the lock loop, started together, measured over a window,
//! and all released and joined at the end.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use convoy_sync::Native;

use super::work::{Calibration, fastest};
use crate::lock_loop::{
    Apart, Contest, Guarded, Loop, LoopResult, PHASE_OVER, PHASE_WINDOW, Shared, Stage, Trace,
};
use convoy_os::clock::{
    CpusError, cpu_ticks, cpus, keeping_to, monotonic_ns, process_cpu_ns, process_switches,
};

/// Stack of a thread, bytes: the loop needs little, and 2000 threads must start quickly.
const STACK_BYTES: usize = 64 * 1024;

/// Interval at which the coordinator, one thread, checks whether the others are ready or have
/// exited.
const POLL: Duration = Duration::from_millis(1);

/// Milliseconds after which threads that have not left the lock are abandoned. Draining takes one
/// context switch per thread, about 10 µs each.
pub(super) const DRAIN_MS: u32 = 30_000;

/// Number of acquisitions and releases in one measurement of an uncontended lock: about 5 µs, so
/// short that few measurements are disturbed.
const VISITS: u32 = 1000;

/// The loop to run, with its limits.
pub(super) struct Plan<'a> {
    pub(super) what: &'a Loop,
    pub(super) calibration: &'a Calibration,
    pub(super) drain_ms: u32,
}

/// Errors of a cell.
#[derive(Debug)]
pub(super) enum CellError {
    /// The system refused a thread after `started`.
    Threads { started: u32, source: io::Error },
    /// This many threads did not leave the lock.
    Stuck { missing: u32 },
    /// The threads could not be restricted to the requested CPUs.
    Cpus(CpusError),
}

/// Runs one cell.
pub(super) fn run<C: Guarded + Send + Sync + 'static>(
    plan: &Plan,
) -> Result<LoopResult, CellError> {
    let place = |what: &Loop| -> Arc<dyn Contest<Native> + Send + Sync> {
        Arc::new(Shared::<Native, C>::new(what.spin_limit, what.lines))
    };
    run_on(plan, &place, &alone::<C>)
}

/// Creates the cell of a lock.
type Place<'a> = &'a dyn Fn(&Loop) -> Arc<dyn Contest<Native> + Send + Sync>;

fn run_on(
    plan: &Plan,
    place: Place,
    alone: &dyn Fn(Option<u32>) -> f64,
) -> Result<LoopResult, CellError> {
    // Threads inherit the CPUs of the thread that starts them, so the coordinator is restricted as
    // well.
    match plan.what.cpus {
        Some(cpus) => keeping_to(cpus, || start(plan, place, alone)).map_err(CellError::Cpus)?,
        None => start(plan, place, alone),
    }
}

fn start(
    plan: &Plan,
    place: Place,
    alone: &dyn Fn(Option<u32>) -> f64,
) -> Result<LoopResult, CellError> {
    let contest = place(plan.what);
    let shared = contest.stage();
    let mut threads = Vec::with_capacity(plan.what.threads as usize);
    for index in 0..plan.what.threads {
        let own = Arc::clone(&contest);
        let mut work = plan.what.work(index, |ns| plan.calibration.steps(ns));
        let body = move || own.body(index, &mut work);
        let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(source) => {
                shared.phase.store(PHASE_OVER, Release);
                shared.open_gate();
                for thread in threads {
                    join(thread);
                }
                return Err(CellError::Threads { started: index, source });
            }
        }
    }
    while shared.ready.load(Acquire) < plan.what.threads {
        thread::sleep(POLL);
    }
    // The C library omits atomic instructions while a process has only one thread, so this is
    // measured while there are others.
    let alone_ns = alone(plan.what.spin_limit);
    Ok(LoopResult { alone_ns: Some(alone_ns), ..shared.observe(plan, threads)? })
}

/// Returns the nanoseconds to acquire and release an uncontended lock.
fn alone<C: Guarded>(spin_limit: Option<u32>) -> f64 {
    let lock = Apart::new(C::free(spin_limit));
    fastest(VISITS, || (0..VISITS).for_each(|_| black_box(&lock.0).with(|| ())))
}

impl Stage<'_, Native> {
    /// Runs the coordinator: opens the gate, opens and closes the window, and collects the results.
    fn observe(
        &self,
        plan: &Plan,
        threads: Vec<JoinHandle<Trace>>,
    ) -> Result<LoopResult, CellError> {
        self.open_gate();
        thread::sleep(Duration::from_millis(u64::from(plan.what.warmup_ms)));
        let before = process_switches();
        let cpu_before = process_cpu_ns();
        let ticks_before = cpu_ticks();
        let begin = monotonic_ns();
        self.phase.store(PHASE_WINDOW, Relaxed);
        thread::sleep(Duration::from_millis(u64::from(plan.what.window_ms)));
        // On a busy machine a short window may pass without a critical section, and a rate of zero
        // says nothing, so the window stays open until one is completed.
        let patience = begin + u64::from(plan.what.window_ms + plan.drain_ms) * 1_000_000;
        while self.served.load(Acquire) == 0 && monotonic_ns() < patience {
            thread::sleep(POLL);
        }
        let end = monotonic_ns();
        let cpu_ns = process_cpu_ns() - cpu_before;
        let busy_share =
            ticks_before.zip(cpu_ticks()).and_then(|(before, after)| after.busy_since(&before));
        self.window_end_ns.store(end as usize, Relaxed);
        // Release: pairs with the acquire load in `Shared::visit`.
        self.phase.store(PHASE_OVER, Release);
        let after = process_switches();
        let limit = end + u64::from(plan.drain_ms) * 1_000_000;
        loop {
            let gone = self.gone.load(Acquire);
            if gone == plan.what.threads {
                break;
            }
            if monotonic_ns() > limit {
                // The threads are abandoned while they sleep; the program ends without them.
                return Err(CellError::Stuck { missing: plan.what.threads - gone });
            }
            thread::sleep(POLL);
        }
        let window_ns = (end - begin).max(1) as f64;
        let cpus_used = cpu_ns as f64 / window_ns;
        let mut result = LoopResult {
            window_s: window_ns / 1e9,
            cpus_used,
            locks: 1,
            // The ticks of 10 ms may sum to less than the process clock.
            others_cpus: busy_share.map(|share| (share * f64::from(cpus()) - cpus_used).max(0.0)),
            voluntary_switches: after.voluntary - before.voluntary,
            ..LoopResult::default()
        };
        for thread in threads {
            let trace = join(thread);
            result.acquisitions.push(trace.acquisitions);
            result.waiting_threads += u32::from(trace.waiting);
            result.waits.merge(&trace.waits);
        }
        Ok(result)
    }
}

/// Returns the result of a thread. A panic in the thread becomes a panic here.
fn join(thread: JoinHandle<Trace>) -> Trace {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_sync::Lock;

    /// Runs a short cell. Threads that do not leave the lock are abandoned after `drain_ms`.
    fn short<C: Lock + Send + Sync>(threads: u32, drain_ms: u32) -> Result<LoopResult, CellError> {
        let what =
            Loop { threads, section_ns: 20, outside_ns: 50, warmup_ms: 2, ..Loop::default() };
        let calibration = Calibration { step_ns: 1.0, clock_ns: 0.0 };
        run::<C>(&Plan { what: &what, calibration: &calibration, drain_ms })
    }

    /// A lock without exclusion: every acquisition succeeds immediately.
    struct Open;

    impl Lock for Open {
        fn with_units(_: u32) -> Self {
            Self
        }
        fn acquire(&self) {}
        fn try_acquire(&self) -> bool {
            true
        }
        fn release(&self) {}
    }

    /// A lock that only its creator can acquire.
    struct Lossy(thread::ThreadId);

    impl Lock for Lossy {
        fn with_units(_: u32) -> Self {
            Self(thread::current().id())
        }
        fn acquire(&self) {
            while thread::current().id() != self.0 {
                thread::park();
            }
        }
        fn try_acquire(&self) -> bool {
            false
        }
        fn release(&self) {}
    }

    #[test]
    fn a_lock_without_waiting_leaves_nobody_waiting() {
        let tally = short::<Open>(3, DRAIN_MS).unwrap();
        assert_eq!(tally.acquisitions.len(), 3);
        assert_eq!(
            tally.waits.count(),
            tally.acquisitions.iter().sum::<u64>() + u64::from(tally.waiting_threads)
        );
        assert!(tally.window_s >= 0.02, "sleep never returns early");
    }

    #[test]
    fn a_lost_wake_up_is_an_error_and_not_a_hang() {
        let stuck = short::<Lossy>(4, 50);
        assert!(matches!(stuck, Err(CellError::Stuck { missing: 4 })));
    }
}
