//! Determines when a window may begin: once the throughput and the number of CPUs in use have
//! stopped drifting.
//!
//! Virtual time passes in batches of equal length. The first half of the batches is discarded. The
//! second half is split again, and each series has settled if the means of these two quarters
//! differ by no more than a tolerance, or by no more than the scatter of the batches. So a longer
//! run is judged over a longer time. All of these conditions must hold at several successive
//! batches. If tasks wait for a CPU while other CPUs idle, the load balancer has not finished or
//! does not balance them: then every level of it must have run in that half.

use convoy_kernel::{Process, World};
use convoy_machine::Here;

use crate::snapshot::Snapshot;

/// Length of a batch, nanoseconds: at least one tick of a kernel with 250 Hz.
pub(crate) const BATCH_NS: u64 = 4_000_000;
/// Batches before the first judgement: three in each of the compared quarters.
const BATCHES_MIN: usize = 12;
/// Successive judgements that must find no drift.
const AGREEING: usize = 3;
/// Largest relative difference of the quarters that does not count as drift.
const TOLERANCE: f64 = 0.02;
/// Standard errors of that difference that do not count as drift either, unless the difference
/// exceeds [`NOISE_MAX`].
const NOISE: f64 = 2.5;
const NOISE_MAX: f64 = 0.1;
/// Mean number of idle CPUs that waiting tasks could use above which the load balancer must have
/// run: no task waits long.
const USABLE: f64 = 0.25;
/// Virtual time after which a run counts as unsteady, in nanoseconds, batches and turns of the load
/// balancer; the longest of the three counts.
const CAP_NS: u64 = 1_000_000_000;
const CAP_BATCHES: u64 = 32;
const CAP_TURNS: u64 = 6;
/// Cost of a coroutine resumption on the host, in memory operations: with 2 CPUs there are a sixth
/// as many resumptions as operations and an operation takes 40 ns, with 64 CPUs half as many and 95
/// ns (a Xeon at 2.3 GHz).
const RESUME: u64 = 3;
/// Number of batches for which the budget must last, so that a run can be judged and settle.
const AFFORDED: u64 = 24;

/// Returns the work of the host for the virtual machine so far, in memory operations.
pub(crate) fn work() -> u64 {
    Here::operations() + RESUME * Here::resumes()
}

/// The time before a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settling {
    /// Its length in virtual time, nanoseconds.
    pub ns: u64,
    /// Whether throughput and CPUs in use stopped drifting; if not, the cap ended it.
    pub is_settled: bool,
    /// Remaining drift of the throughput, as a fraction of it; 0 if it had settled.
    pub drift: f64,
}

/// One batch: rates over its length.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    /// Acquisitions per nanosecond.
    passed: f64,
    /// CPUs in use.
    cpus: f64,
    /// Idle CPUs that waiting tasks could have used.
    usable: f64,
}

/// Returns the mean of a series, and the variance of that mean by differences of neighbours (von
/// Neumann), which is insensitive to drift.
fn mean(series: &[f64]) -> (f64, f64) {
    let count = series.len() as f64;
    let squares: f64 = series.windows(2).map(|two| (two[1] - two[0]) * (two[1] - two[0])).sum();
    (series.iter().sum::<f64>() / count, squares / (2.0 * (count - 1.0).max(1.0) * count))
}

/// Returns the relative difference between the mean throughputs of the last two quarters of
/// `batches`.
fn drift(batches: &[Batch]) -> f64 {
    let series: Vec<f64> = batches.iter().map(|batch| batch.passed).collect();
    let judged = &series[series.len() / 2..];
    let (early, late) = judged.split_at(judged.len() / 2);
    if early.is_empty() {
        return f64::INFINITY;
    }
    let ((before, _), (after, _)) = (mean(early), mean(late));
    let most = before.max(after);
    if most > 0.0 { (after - before).abs() / most } else { f64::INFINITY }
}

/// Returns whether the means of the two halves of a series differ by more than is allowed.
fn drifts(batches: &[Batch], of: impl Fn(&Batch) -> f64) -> bool {
    let series: Vec<f64> = batches.iter().map(of).collect();
    let (early, late) = series.split_at(series.len() / 2);
    let ((before, one), (after, other)) = (mean(early), mean(late));
    let (by, size) = ((after - before).abs(), before.max(after));
    let scatter = NOISE * libm::sqrt(one + other);
    // A series of zeros has not begun.
    size <= 0.0 || by > TOLERANCE * size && by > scatter.min(NOISE_MAX * size)
}

/// Returns whether no series drifted at the last few of `batches`, all of equal length. A turn of
/// the load balancer takes `turn` batches.
fn has_settled(batches: &[Batch], turn: usize) -> bool {
    let ends = (0..AGREEING).map(|back| batches.len().saturating_sub(back));
    ends.into_iter().all(|end| is_steady(&batches[..end], turn))
}

fn is_steady(batches: &[Batch], turn: usize) -> bool {
    if batches.len() < BATCHES_MIN {
        return false;
    }
    let judged = &batches[batches.len() / 2..];
    let usable = judged.iter().map(|batch| batch.usable).sum::<f64>();
    let had_turns = usable <= USABLE * judged.len() as f64 || judged.len() >= turn;
    had_turns && !drifts(judged, |batch| batch.passed) && !drifts(judged, |batch| batch.cpus)
}

/// The machine that is watched, and the limits for its time before the window.
pub(crate) struct Watch<'a> {
    pub(crate) world: &'a World,
    /// CPUs of the machine.
    pub(crate) cpus: usize,
    /// Length of a batch, nanoseconds.
    pub(crate) batch_ns: u64,
    /// Minimum time before the window, nanoseconds.
    pub(crate) least_ns: u64,
    /// Work of the host ([`work`]) after which the window begins anyway.
    pub(crate) work: u64,
    /// Shortest batch, nanoseconds, if batches of `batch_ns` take too much of that work.
    pub(crate) batch_least_ns: u64,
}

impl Watch<'_> {
    /// Returns the length of a batch that the budget allows, if a batch of `ns` nanoseconds takes
    /// this much work.
    fn affordable(&self, ns: u64, work: u64) -> u64 {
        let share = self.work / AFFORDED;
        if work <= share {
            return ns;
        }
        let shorter = (ns as f64 * share as f64 / work as f64) as u64;
        shorter.max(self.batch_least_ns).min(ns)
    }

    /// Lets time pass until the run has settled. Returns that time and the length of a batch.
    /// `passed` returns the number of acquisitions so far, at no cost in virtual time; `rest` lets
    /// a number of nanoseconds pass.
    pub(crate) fn settle(
        &self,
        k: &mut Process,
        passed: impl Fn() -> u64,
        rest: impl Fn(&mut Process, u64),
    ) -> (Settling, u64) {
        let turn_ns = self.world.sched().rq.balance_turn_ns();
        let cap = CAP_NS.max(CAP_BATCHES * self.batch_ns).max(CAP_TURNS * turn_ns);
        let cap = cap.max(self.least_ns);
        let look = || (Snapshot::take(self.world, self.cpus), passed());
        let (mut batches, mut batch_ns, begin_work) = (Vec::new(), self.batch_ns, work());
        let begin = look();
        let mut last = begin;
        loop {
            let before = work();
            rest(k, batch_ns);
            let next = look();
            batches.push(Batch::between(&last, &next));
            last = next;
            let ns = next.0.now_ns - begin.0.now_ns;
            let turn = turn_ns.div_ceil(batch_ns) as usize;
            let is_settled = ns >= self.least_ns && has_settled(&batches, turn);
            let is_dear = work() - begin_work > self.work;
            if is_settled || ns >= cap || is_dear {
                let drift = if is_settled { 0.0 } else { drift(&batches) };
                return (Settling { ns, is_settled, drift }, batch_ns);
            }
            let shorter = self.affordable(batch_ns, work() - before);
            if batches.len() == 1 && shorter < batch_ns {
                batch_ns = shorter;
                batches.clear();
            }
        }
    }
}

impl Batch {
    fn between(before: &(Snapshot, u64), after: &(Snapshot, u64)) -> Self {
        let ns = (after.0.now_ns - before.0.now_ns).max(1) as f64;
        Self {
            passed: (after.1 - before.1) as f64 / ns,
            cpus: (after.0.busy_ps - before.0.busy_ps) as f64 / 1e3 / ns,
            usable: (after.0.usable_ps - before.0.usable_ps) as f64 / 1e3 / ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_stats::Rng;

    /// Returns the batch at which a series of `cpus` and `usable`, as functions of the batch
    /// number, counts as steady.
    fn settles(batch: impl Fn(usize) -> (f64, f64), turn: usize) -> Option<usize> {
        let mut batches = Vec::new();
        (0..400).find(|&at| {
            let (cpus, usable) = batch(at);
            batches.push(Batch { passed: 1e-3, cpus, usable });
            has_settled(&batches, turn)
        })
    }

    #[test]
    fn what_never_changes_is_steady_at_once() {
        assert_eq!(settles(|_| (64.0, 0.0), 50), Some(BATCHES_MIN + 1));
    }

    #[test]
    fn a_ramp_is_not_steady_before_it_has_ended() {
        let at = settles(|at| (5.0 + 0.5 * at.min(100) as f64, 0.0), 1).expect("it ends");
        assert!((100..230).contains(&at), "{at}");
    }

    #[test]
    fn a_plateau_beside_tasks_that_wait_lasts_for_turns_of_the_balancer() {
        let at =
            settles(|at| if at < 40 { (5.0, 50.0) } else { (64.0, 0.0) }, 32).expect("it ends");
        assert!(at >= 75, "{at}");
        let lasting = settles(|_| (5.0, 50.0), 32).expect("the balancer leaves it so");
        assert_eq!(lasting, 64);
    }

    #[test]
    fn scatter_is_no_drift_and_growth_beneath_it_is() {
        fn noisy(growth: f64) -> Option<usize> {
            let mut rng = Rng::new(3);
            let draws: Vec<f64> = (0..400).map(|_| rng.uniform() - 0.5).collect();
            settles(|at| (10.0 + draws[at] + growth * at as f64, 0.0), 1)
        }
        assert!(noisy(0.0).is_some_and(|at| at < 40), "{:?}", noisy(0.0));
        // It grows by a third from one quarter to the next, regardless of the length.
        assert_eq!(noisy(0.5), None);
    }

    #[test]
    fn what_has_not_begun_is_not_steady() {
        assert_eq!(settles(|_| (0.0, 0.0), 1), None);
    }
}
