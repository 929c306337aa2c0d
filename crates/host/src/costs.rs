//! What each job costs alone on this machine, and the Real that follows.
//!
//! A user is a fresh process, and in a fresh process the first run of a job costs more than the
//! next: memory is touched for the first time and copied from the parent, the code is not in the
//! caches. In mixes of short jobs that is a good part of Real. So a *pass* imitates a user: a fresh
//! process in a fresh work directory runs every job of the mix once, then once more. There are
//! several passes; the cost of a first run, and of a later one, is the mean of the middle half of
//! the passes, which neither a lucky nor a disturbed pass moves. If nothing but CPU time mattered,
//! N users on C CPUs would take
//!
//! ```text
//! predicted = Σ (first run + (runs of the job per user − 1) × later run) × max(N / C, 1)
//! ```
//!
//! so measured / predicted says what running together adds (queues for locks, caches, the
//! scheduler) or saves (waiting that overlaps). It is a ratio of two measurements on the same
//! machine, not a figure of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::HostError;
use super::point::run_plan;
use super::supervisor::Plan;
use super::workdir::WorkDirs;
use convoy_os::clock;
use convoy_workload::jobs::Job;

/// Runs of each job in a pass.
const ROUNDS: u64 = 2;
/// Passes at least: a middle half of fewer says nothing.
const LEAST_PASSES: u32 = 3;
/// Passes at most.
const MOST_PASSES: u32 = 25;
/// Time after which the passes done are enough, nanoseconds. A pass of `short` is 30 ms, most of it
/// for the fixtures; one of `fserver` with the sizes of 1996 is seconds.
const ENOUGH_NS: u64 = 1_000_000_000;

/// Times of runs of one job alone, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// The first in its process.
    first_ns: f64,
    /// Each later one.
    later_ns: f64,
}

impl Cost {
    /// All of a user's `runs`.
    fn of_runs(self, runs: u32) -> f64 {
        if runs == 0 { 0.0 } else { self.first_ns + self.later_ns * f64::from(runs - 1) }
    }
}

/// Costs measured so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// By job, and by file size for the jobs that depend on it.
    alone: BTreeMap<(Job, u64), Cost>,
    /// Passes made.
    passes: u32,
}

impl Costs {
    fn key(job: Job, file_kb: u64) -> (Job, u64) {
        (job, if job.depends_on_file_size() { file_kb } else { 0 })
    }

    /// Returns the jobs with unknown cost for files of `file_kb`.
    pub(super) fn unknown(&self, jobs: &[(Job, u32)], file_kb: u64) -> Vec<Job> {
        let known = |job: &Job| self.alone.contains_key(&Self::key(*job, file_kb));
        jobs.iter().map(|(job, _)| *job).filter(|job| !known(job)).collect()
    }

    /// Passes made so far, of all measurements.
    pub(super) fn passes(&self) -> u32 {
        self.passes
    }

    /// Measures `jobs` in the environment of `plan`, each pass in directories that `place` makes.
    pub(super) fn measure(
        &mut self,
        jobs: &[Job],
        plan: &Plan,
        place: impl Fn() -> Result<WorkDirs, HostError>,
    ) -> Result<(), HostError> {
        let order: Vec<Job> = (0..ROUNDS).flat_map(|_| jobs.iter().copied()).collect();
        let began = clock::monotonic_ns();
        let mut seen = vec![Vec::new(); jobs.len()];
        for pass in 0..MOST_PASSES {
            if pass >= LEAST_PASSES && clock::monotonic_ns() - began >= ENOUGH_NS {
                break;
            }
            let directories = place()?;
            let plan = Plan {
                orders: vec![order.clone()],
                directories: directories.names(),
                delay: Duration::ZERO,
                fault: None,
                ..plan.clone()
            };
            let board = run_plan(&plan, &directories, &mut |_| ())?;
            self.passes += 1;
            for (job, costs) in jobs.iter().zip(&mut seen) {
                let tally = board.slot(0).tally(*job);
                if tally.runs == ROUNDS && tally.failures == 0 {
                    let later_ns = (tally.total_ns - tally.first_ns) as f64 / (ROUNDS - 1) as f64;
                    costs.push(Cost { first_ns: tally.first_ns as f64, later_ns });
                }
            }
        }
        for (job, costs) in jobs.iter().zip(seen).filter(|(_, costs)| !costs.is_empty()) {
            let mean = |part: fn(&Cost) -> f64| middle_mean(costs.iter().map(part).collect());
            let cost = Cost { first_ns: mean(|c| c.first_ns), later_ns: mean(|c| c.later_ns) };
            self.alone.insert(Self::key(*job, plan.env.file_kb), cost);
        }
        Ok(())
    }

    /// The mean cost of a run of `job`, nanoseconds, where a user runs it `runs` times.
    pub(super) fn alone_ns(&self, job: Job, runs: u32, file_kb: u64) -> Option<f64> {
        Some(self.alone.get(&Self::key(job, file_kb))?.of_runs(runs) / f64::from(runs.max(1)))
    }

    /// Real of `users` users on `cpus` CPUs, seconds; `None` if the cost of a job is not known.
    pub(super) fn predict(
        &self,
        jobs: &[(Job, u32)],
        file_kb: u64,
        users: u32,
        cpus: u32,
    ) -> Option<f64> {
        let mut user_ns = 0.0;
        for (job, runs) in jobs {
            user_ns += self.alone.get(&Self::key(*job, file_kb))?.of_runs(*runs);
        }
        Some(user_ns / 1e9 * (f64::from(users) / f64::from(cpus)).max(1.0))
    }
}

/// The mean without the lowest and the highest quarter of `values`, which are not none.
fn middle_mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = &values[values.len() / 4..values.len() - values.len() / 4];
    middle.iter().sum::<f64>() / middle.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_is_work_over_cpus_but_never_less_than_one_user() {
        let mut costs = Costs::default();
        costs.alone.insert((Job::Sieve, 0), Cost { first_ns: 1.5e9, later_ns: 0.5e9 });
        costs.alone.insert((Job::DiskRd, 10), Cost { first_ns: 5e8, later_ns: 5e8 });
        let jobs = [(Job::Sieve, 2), (Job::DiskRd, 2)];
        assert_eq!(costs.predict(&jobs, 10, 1, 4), Some(3.0));
        assert_eq!(costs.predict(&jobs, 10, 8, 4), Some(6.0));
        assert_eq!(costs.predict(&jobs, 11, 8, 4), None, "the disk job depends on the size");
        assert_eq!(costs.alone_ns(Job::Sieve, 2, 11), Some(1e9));
        assert_eq!(costs.alone_ns(Job::Sieve, 1, 11), Some(1.5e9));
        assert_eq!(costs.predict(&[], 10, 1, 4), Some(0.0));
    }

    #[test]
    fn outliers_do_not_move_the_mean_of_the_middle() {
        assert!((middle_mean(vec![4.0]) - 4.0).abs() < 1e-12);
        assert!((middle_mean(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((middle_mean(vec![900.0, 4.0, 2.0, 0.0]) - 3.0).abs() < 1e-12);
    }
}
