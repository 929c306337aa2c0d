//! How sides are measured and judged.

use crate::{MeasureError, MetricChoice};
use convoy_stats::{Correction, Interval};

/// Runs that do not count because the program or the machine is still warming up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Until a block is like those before.
    Auto,
    /// A fixed number of blocks.
    Blocks(u32),
}

/// How sides are measured and judged.
#[derive(Clone, Debug)]
pub struct Request {
    /// The metric.
    pub metric: MetricChoice,
    /// Runs of each side; `None`: as many as the verdict needs, up to `max_runs`.
    pub runs: Option<u32>,
    /// The most runs of each side.
    pub max_runs: u32,
    /// Seconds for which short runs continue past `max_runs`, up to ten times that number.
    pub go_on: Option<f64>,
    /// The longest time of measuring, seconds.
    pub max_time: Option<f64>,
    /// Runs that do not count.
    pub warmup: Warmup,
    /// A shell command before each run.
    pub prepare: Option<String>,
    /// The CPUs that the commands may use; `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// A run that takes longer failed, seconds.
    pub timeout: Option<f64>,
    /// Whether failed runs are left out instead of ending it.
    pub ignore_failure: bool,
    /// Settings that the records of the sides may have differently.
    pub across: Vec<String>,
    /// Whether the baseline is compared with itself as well.
    pub aa: bool,
    /// Whether more is better, where the numbers themselves do not say so.
    pub higher_is_better: bool,
    /// Relative difference that does not matter, 0.01 for 1 %.
    pub same_within: f64,
    /// The largest difference within which sides are called the same where no more is shown.
    pub widest: f64,
    /// Share of collapsing runs of the candidate that must have shown before it is called faster or
    /// the same early, 0.05 for 5 %.
    pub tail: f64,
    /// Chance to call equal sides different.
    pub alpha: f64,
    /// The kind of intervals of means.
    pub interval: Interval,
    /// The correction over a table.
    pub correction: Correction,
    /// Of the order of runs.
    pub seed: u64,
}

impl Request {
    pub(super) fn check(&self) -> Result<(), MeasureError> {
        for (name, seconds) in [("timeout", self.timeout), ("max-time", self.max_time)] {
            if let Some(s) = seconds.filter(|s| !(*s > 0.0 && *s <= 1e7)) {
                let problem = format!("{s} s is not above 0 and up to 1e7 seconds");
                return Err(MeasureError::Setting { name, problem });
            }
        }
        if self.alpha > 0.0 && self.alpha < 0.5 {
            return Ok(());
        }
        let problem = format!("{} must lie between 0 and 0.5", self.alpha);
        Err(MeasureError::Setting { name: "alpha", problem })
    }
}
