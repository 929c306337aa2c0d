//! `convoy compare`: a baseline and its candidates, row by row.
//!
//! The numbers come judged; nothing here computes a statistic.

use serde::{Deserialize, Serialize};

use crate::json;

pub(crate) use convoy_measure::compare::{
    Failures as CompareFailure, Floor as CompareFloor, RangeChange as CompareRange,
    WarmedUp as CompareWarmUp,
};

/// One side of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareSide {
    /// Its name.
    pub label: String,
    /// How many values it has.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; `None` for one value.
    pub sd: Option<f64>,
    /// The 95 % interval of the mean.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// The runs that were far worse than the rest; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapses: Option<CompareCollapses>,
}

/// Runs that were far worse than the rest of their side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareCollapses {
    /// How many of the runs.
    pub runs: usize,
    /// How many times as bad as the median of the side the middle one of them is.
    pub factor: f64,
}

/// One candidate against the baseline in one benchmark and metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// Benchmark or workload; empty if there is one only.
    pub benchmark: String,
    /// Users, if it is a load point.
    pub users: Option<u32>,
    /// The metric.
    pub metric: String,
    /// In which unit.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The baseline.
    pub baseline: CompareSide,
    /// The candidate.
    pub candidate: CompareSide,
    /// `faster`, `slower`, `same` or `unsure`.
    pub verdict: String,
    /// The margin of `same`, percent; absent of other verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_within_percent: Option<f64>,
    /// What took the verdict on typical runs away: `mean`, `tail` or `noise floor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// How many times better the candidate is; `None` without a ratio.
    pub speedup: Option<f64>,
    /// The 95 % interval of the speedup.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// The p-value that the verdict uses, corrected over the table.
    pub p: f64,
    /// The p-value of the test alone.
    pub p_raw: f64,
    /// The smallest possible p-value for this number of values.
    pub p_floor: f64,
    /// `signed-rank` of pairs or `rank-sum` of two groups.
    pub test: String,
    /// Stars of `p`.
    pub stars: usize,
    /// Chance that a run of the candidate is better than one of the baseline.
    pub superiority: f64,
    /// Hodges-Lehmann shift of the candidate in the unit; `None` with too few values.
    pub shift: Option<f64>,
    /// Values a side would need for the test to be able to find anything; `None` if there are
    /// enough.
    pub needs: Option<usize>,
}

impl CompareRow {
    /// A speedup as a change in percent, as people say it: 1.2 is 20 % faster; 0.85 is 18 % slower,
    /// a negative number, for a time is 18 % longer then, and 15 % slower for a rate.
    pub fn percent(&self, speedup: f64) -> f64 {
        let is_longer = !self.higher_is_better && speedup < 1.0;
        100.0 * if is_longer { 1.0 - 1.0 / speedup } else { speedup - 1.0 }
    }

    /// The verdict with a margin: `same within 5 %`.
    pub(crate) fn verdict_within(&self, percent: Option<f64>) -> String {
        match percent {
            Some(percent) => format!("{} within {percent} %", self.verdict),
            None => self.verdict.clone(),
        }
    }

    /// Whether the candidate is slower, by at least this share if one is given and both can be
    /// compared by a ratio. A candidate that collapses now and then is slower whatever its mean.
    pub fn is_slower_by(&self, share: Option<f64>) -> bool {
        let enough = |speedup| share.is_none_or(|share| self.percent(speedup) <= -100.0 * share);
        self.verdict == "slower" && self.speedup.is_none_or(enough)
    }
}

/// The result of `convoy compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// Operands and method of the comparison, in one line.
    pub title: String,
    /// Runs of each side that came before and do not count.
    #[serde(default)]
    pub warm_up: CompareWarmUp,
    /// Runs of each side, blocks in other words; `None` for stored numbers.
    pub runs: Option<usize>,
    /// Why no more runs were made; empty for stored numbers.
    pub stopped: String,
    /// Whether an interrupt or a failure ended it early.
    pub partial: bool,
    /// The noise floor, if it could be measured.
    pub noise_floor: Option<CompareFloor>,
    /// Runs that failed and were left out.
    pub failures: Vec<CompareFailure>,
    /// All comparisons.
    pub rows: Vec<CompareRow>,
    /// Mean changes over ranges of users, if there are load points.
    pub ranges: Vec<CompareRange>,
    /// Lines under the table.
    pub notes: Vec<String>,
}
