//! The single-user mode of AIM9: each job repeated for a period, in operations per second.
//!
//! An operation is smaller than a run of a job: the factor ([`Job::operations`]) says how many of
//! them one run makes. Arithmetic factors are `loops × 12 / 1000`, in thousands of operations.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::HostError;
use super::run::{HostRun, Progress, Single};
use convoy_workload::jobs::{Job, Operations};

/// Result of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The job.
    pub job: String,
    /// Runs that succeeded.
    pub runs: u64,
    /// Runs that failed.
    pub failures: u64,
    /// Time that all runs took, seconds.
    pub seconds: f64,
    /// Runs per second.
    pub runs_per_s: f64,
    /// Operations of a run.
    pub factor: f64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// The name of an operation.
    pub unit: String,
}

/// Returns the operations of a run of `job` with files of `file_kb`, and their name; for arithmetic
/// jobs in thousands, as in AIM9.
fn factor(job: Job, file_kb: u64) -> (f64, String) {
    let Operations { count, unit } = job.operations(file_kb);
    match unit {
        "additions" | "multiplications" | "divisions" => {
            (count as f64 / 1000.0, format!("thousand {unit}"))
        }
        _ => (count as f64, unit.to_owned()),
    }
}

/// Repeats each job of the mix for `period`, alone, one after the other. Shrunk jobs have fewer
/// operations per run than the factor: rates are those of full size only if `shrink` is 1.
///
/// # Errors
/// [`HostError`].
pub fn run(
    options: &HostRun,
    period: Duration,
    progress: impl FnMut(&Progress),
) -> Result<Vec<Rate>, HostError> {
    let jobs: Vec<Job> = options.mix.weights.iter().map(|(job, _)| *job).collect();
    let file_kb = options.mix.file_kb(1);
    let sums = super::run::single(options, &jobs, period, progress)?;
    Ok(jobs.iter().zip(sums).map(|(job, sum)| rate(*job, file_kb, &sum)).collect())
}

fn rate(job: Job, file_kb: u64, sum: &Single) -> Rate {
    let (factor, unit) = factor(job, file_kb);
    let runs = sum.runs - sum.failures;
    let seconds = sum.total_ns as f64 / 1e9;
    let runs_per_s = if seconds > 0.0 { runs as f64 / seconds } else { 0.0 };
    Rate {
        job: job.name().to_owned(),
        runs,
        failures: sum.failures,
        seconds,
        runs_per_s,
        factor,
        operations_per_s: runs_per_s * factor,
        unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_aim9() {
        assert_eq!(factor(Job::AddDouble, 10), (18_000.0, "thousand additions".to_owned()));
        assert_eq!(factor(Job::SyncDiskRw, 100), (50.0, "KB".to_owned()));
        assert_eq!(factor(Job::PageTest, 10).0 as u32, 1700);
    }

    #[test]
    fn a_rate_counts_what_succeeded() {
        let sum = Single { runs: 12, failures: 2, total_ns: 2_000_000_000 };
        let rate = rate(Job::AddLong, 10, &sum);
        assert_eq!((rate.runs, rate.failures, rate.runs_per_s), (10, 2, 5.0));
        assert!((rate.operations_per_s - 300_000.0).abs() < 1e-6);
        assert!(super::rate(Job::AddLong, 10, &Single::default()).operations_per_s < 1e-9);
    }
}
