//! What one run of each job costs alone on this machine, and the Real that follows.
//!
//! Each job runs alone, in one process, once to warm up and then a few times; its cost is the mean
//! without the warm-up and without the slowest run. If nothing but CPU time mattered, N users on C
//! CPUs would take
//!
//! ```text
//! predicted = Σ (runs of the job per user × its cost) × max(N / C, 1)
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
use crate::jobs::Job;

/// Runs of each job; the slowest, usually the first, does not count.
const RUNS: usize = 4;

/// Costs measured so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Nanoseconds of a run by job, and by file size for the jobs that depend on it.
    alone_ns: BTreeMap<(Job, u64), f64>,
}

impl Costs {
    fn key(job: Job, file_kb: u64) -> (Job, u64) {
        (job, if job.depends_on_file_size() { file_kb } else { 0 })
    }

    /// Those of `jobs` whose cost with files of `file_kb` is not known yet.
    pub(super) fn unknown(&self, jobs: &[(Job, u32)], file_kb: u64) -> Vec<Job> {
        let known = |job: &Job| self.alone_ns.contains_key(&Self::key(*job, file_kb));
        jobs.iter().map(|(job, _)| *job).filter(|job| !known(job)).collect()
    }

    /// Measures `jobs` in the environment of `plan`.
    pub(super) fn measure(
        &mut self,
        jobs: &[Job],
        plan: &Plan,
        directories: &WorkDirs,
    ) -> Result<(), HostError> {
        // Round after round, so that a run finds the caches as another job left them.
        let order = (0..RUNS).flat_map(|_| jobs.iter().copied()).collect();
        let plan = Plan {
            orders: vec![order],
            directories: directories.names(),
            delay: Duration::ZERO,
            fault: None,
            ..plan.clone()
        };
        let board = run_plan(&plan, directories, &mut |_| ())?;
        let slot = board.slot(0);
        for &job in jobs {
            let tally = slot.tally(job);
            if tally.runs > 1 && tally.failures == 0 {
                let ns = (tally.total_ns - tally.longest_ns) as f64 / (tally.runs - 1) as f64;
                self.alone_ns.insert(Self::key(job, plan.env.file_kb), ns);
            }
        }
        Ok(())
    }

    /// The cost of one run of `job`, nanoseconds.
    pub(super) fn alone_ns(&self, job: Job, file_kb: u64) -> Option<f64> {
        self.alone_ns.get(&Self::key(job, file_kb)).copied()
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
        for (job, count) in jobs {
            user_ns += self.alone_ns(*job, file_kb)? * f64::from(*count);
        }
        Some(user_ns / 1e9 * (f64::from(users) / f64::from(cpus)).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_is_work_over_cpus_but_never_less_than_one_user() {
        let mut costs = Costs::default();
        costs.alone_ns.insert((Job::Sieve, 0), 1e9);
        costs.alone_ns.insert((Job::DiskRd, 10), 5e8);
        let jobs = [(Job::Sieve, 2), (Job::DiskRd, 2)];
        assert_eq!(costs.predict(&jobs, 10, 1, 4), Some(3.0));
        assert_eq!(costs.predict(&jobs, 10, 8, 4), Some(6.0));
        assert_eq!(costs.predict(&jobs, 11, 8, 4), None, "the disk job depends on the size");
        assert_eq!(costs.alone_ns(Job::Sieve, 11), Some(1e9));
    }
}
