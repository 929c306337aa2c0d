//! The window of a replay: it begins when the run has settled and ends when its throughput is known
//! well enough, or it covers the whole program.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use convoy_kernel::{Process, World};
use convoy_machine::{Here, User};
use convoy_stats::{Interval, Sample};
use convoy_sync::{Atomic, Platform, Sleep};
use convoy_workload::api::Kernel;

use super::effort::{BATCH_MAX_NS, BATCHES};
use super::field::{Field, POLL_NS};
use super::request::Replay;
use crate::board::Board;
use crate::lock_loop::PHASE_WINDOW;
use crate::snapshot::Snapshot;
use crate::steady::{BATCH_NS, Watch, work};

/// Number of acquisitions that a batch should have. Batches decide whether a run has settled, and
/// whether its throughput is known.
const ENOUGH_OF_BATCH: f64 = 40.0;
/// Shortest batch, nanoseconds, if each thread has a CPU: the scheduler changes nothing between two
/// ticks. If threads take turns, a batch is at least half of a tick of 250 Hz, so that the batches
/// of a window contain many turns.
const BATCH_LEAST_NS: u64 = 250_000;
const BATCH_SHARED_NS: u64 = BATCH_NS / 2;
/// Largest ratio between the duration of such a replay and of the record.
const SLOWEST: f64 = 100.0;
/// Time without a step after which the replay releases a waiting thread, if all wait, nanoseconds.
const STUCK_NS: u64 = 20_000_000;
/// Half of the 95 % interval of the throughput, as a fraction of it, below which the window ends.
pub(super) const CLOSE: f64 = 0.02;
/// Minimum number of batches that have an interval.
const BATCHES_LEAST: usize = 3;
/// Virtual time after which the window ends, nanoseconds.
const LONGEST_NS: u64 = 20_000_000_000;
/// Virtual CPU time after which it ends, nanoseconds: with ticks that cost the host 6 us every 4
/// ms, it takes a fifth of a second of the host.
const LONGEST_BUSY_NS: u64 = 120_000_000_000;
/// Virtual time, nanoseconds, for which a window continues if a thread has waited for half of it:
/// the thread may starve, and the length of its wait is a result.
const STARVING_NS: u64 = 1_000_000_000;

impl Replay {
    /// Releases a thread that waits for others if all threads wait, and no thread has made a step
    /// for a while: a thread that was woken may not have run since.
    fn slip_if_stuck(&self, field: &Field) {
        let now_ns = Here::now_ns();
        let is_waiting = field.doors.asleep() + field.counts.waiting() >= self.threads;
        if !is_waiting || field.doors.quiet_ns(now_ns) < STUCK_NS {
            return;
        }
        field.doors.slip();
        // Steps are drawn at random, so they may have freed too few units of semaphores.
        field.free_semaphores(&self.behaviour);
    }

    /// Lets time pass, and releases a waiting thread if all threads wait.
    fn let_pass(&self, k: &mut Process, field: &Field, ns: u64) {
        if self.behaviour.script.is_none() {
            return k.sleep(ns);
        }
        let end = Here::now_ns() + ns;
        while Here::now_ns() < end {
            k.sleep(STUCK_NS.min(end - Here::now_ns()));
            self.slip_if_stuck(field);
        }
    }

    /// Replays the program from its beginning to its end. Returns the state at its beginning.
    pub(super) fn pass_whole(&self, k: &mut Process, world: &World, field: &Field) -> Snapshot {
        let begin = Snapshot::take(world, self.machine.topology.cpus);
        field.others_ns.set(0.0);
        field.counts.begins(begin.now_ns);
        // Relaxed: threads read it after the gate has opened.
        field.phase.store(PHASE_WINDOW, Relaxed);
        field.open();
        let recorded_ns = self.behaviour.total as f64 / self.behaviour.rate * 1e9;
        let last = begin.now_ns + (SLOWEST * recorded_ns) as u64;
        while field.phase.load(Acquire) == PHASE_WINDOW {
            let now = Here::now_ns();
            if now >= last {
                field.ends(world);
                break;
            }
            let has_script = self.behaviour.script.is_some();
            let until = if has_script { last.min(now + STUCK_NS) } else { last };
            User::wait(&field.phase, PHASE_WINDOW, Sleep::Uninterruptible, Some(until));
            self.slip_if_stuck(field);
        }
        k.sleep(POLL_NS);
        begin
    }

    /// Waits until the run has settled, then until its throughput is known. Returns the state at
    /// the start of the window.
    pub(super) fn pass_window(
        &self,
        k: &mut Process,
        world: &World,
        field: &Field,
        board: &Board,
    ) -> Snapshot {
        let cpus = self.machine.topology.cpus;
        let batch_ns = ENOUGH_OF_BATCH / self.behaviour.rate * 1e9;
        let batch_ns = batch_ns.clamp(BATCH_NS as f64, BATCH_MAX_NS) as u64;
        let batch_ns = batch_ns.min(self.effort.batch_ns);
        let is_shared = self.threads as usize > cpus;
        let batch_least_ns = if is_shared { BATCH_SHARED_NS } else { BATCH_LEAST_NS };
        let work = self.effort.before;
        let watch = Watch { world, cpus, batch_ns, least_ns: 0, work, batch_least_ns };
        let (settling, batch_ns) =
            watch.settle(k, || field.counts.passed(), |k, ns| self.let_pass(k, field, ns));
        board.settling.set(Some(settling));
        let begin = Snapshot::take(world, cpus);
        field.others_ns.set(0.0);
        field.counts.begins(begin.now_ns);
        field.phase.store(PHASE_WINDOW, Relaxed);
        let half = self.measure(k, world, field, batch_ns);
        // A remaining drift is scatter over a longer time, so the larger of the two contains the
        // other.
        let half = if half < CLOSE { 0.0 } else { half };
        board.uncertainty.set(half.max(settling.drift));
        field.ends(world);
        begin
    }

    /// Lets batches of `batch_ns` pass until the throughput is known. Returns half of its interval,
    /// as a fraction of the throughput.
    fn measure(&self, k: &mut Process, world: &World, field: &Field, batch_ns: u64) -> f64 {
        let cpus = self.machine.topology.cpus;
        let busy_ns = || Snapshot::take(world, cpus).busy_ps / 1000;
        let (begin_ns, begin_busy_ns, begin_work) = (Here::now_ns(), busy_ns(), work());
        let mut rates = Vec::new();
        loop {
            let (now_ns, passed) = (Here::now_ns(), field.counts.passed());
            self.let_pass(k, field, batch_ns);
            let ns = Here::now_ns() - now_ns;
            rates.push((field.counts.passed() - passed) as f64 / ns as f64);
            let elapsed_ns = Here::now_ns() - begin_ns;
            let is_dear = work() - begin_work > self.effort.window;
            let starves = || field.counts.waits_for_ns(Here::now_ns()) > elapsed_ns / 2;
            let is_long = elapsed_ns > LONGEST_NS || busy_ns() - begin_busy_ns > LONGEST_BUSY_NS;
            let is_enough =
                || is_long || is_known(&rates) && !(elapsed_ns < STARVING_NS && starves());
            if is_dear || rates.len() >= self.effort.batches && is_enough() {
                return half_width(&rates);
            }
        }
    }
}

/// Returns whether the mean of these rates of successive batches is known well enough.
fn is_known(rates: &[f64]) -> bool {
    if rates.len() < BATCHES {
        return false;
    }
    half_width(rates) < CLOSE
}

/// Returns half of the 95 % interval of the mean of these rates, as a fraction of it; infinite if
/// there are too few rates, or if all are zero.
fn half_width(rates: &[f64]) -> f64 {
    let sample = Sample::new(rates).ok().filter(|_| rates.len() >= BATCHES_LEAST);
    let estimate = sample.and_then(|rates| rates.serial_estimate(0.95, Interval::T).ok());
    let found = estimate.filter(|found| found.mean > 0.0);
    found.map_or(f64::INFINITY, |found| found.half_width() / found.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_stats::Rng;

    /// Returns the number of batches until a rate with this scatter is known.
    fn batches(scatter: f64) -> usize {
        let mut rng = Rng::new(5);
        let mut rates = Vec::new();
        while !is_known(&rates) {
            rates.push(1.0 + scatter * (rng.uniform() - 0.5));
        }
        rates.len()
    }

    #[test]
    fn the_more_a_rate_scatters_the_longer_it_takes_to_be_known() {
        assert_eq!(batches(0.0), BATCHES);
        let (little, much) = (batches(0.1), batches(0.4));
        assert!((BATCHES..30).contains(&little), "{little}");
        // 1.96 times the deviation of 0.4 / sqrt(12), over the root of 128, is 2 %.
        assert!((80..220).contains(&much), "{much}");
    }

    #[test]
    fn a_rate_of_nothing_is_not_known() {
        assert!(!is_known(&[0.0; 40]));
    }
}
