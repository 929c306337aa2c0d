//! Pure numbers: estimates, intervals, comparisons, noisy bisection, sequential stopping.
//!
//! No I/O, no clock, no project types. Every function documents its behaviour for invalid input: a
//! [`Sample`] is never empty and its values are finite, other problems are an [`Error`], and no
//! function panics or returns a NaN.
//!
//! ```
//! use convoy_stats::{Comparison, Question, Sample, Verdict};
//!
//! let baseline = Sample::new([61.2, 60.9, 61.0, 61.0, 61.4, 60.8]).unwrap();
//! let candidate = Sample::new([67.1, 66.5, 66.9, 67.2, 67.0, 66.4]).unwrap();
//! let comparison = Comparison::new(&baseline, &candidate, Question::default()).unwrap();
//! assert_eq!(comparison.verdict(), Verdict::Slower);
//! assert_eq!(comparison.p, 2.0 / 64.0);
//! ```
//!
//! What each number means to a reader of a table, with its formula, source and limits, is in
//! `docs/statistics.md`.

#![cfg_attr(test, expect(clippy::float_cmp, reason = "tests of exactness compare exactly"))]

mod alternative;
mod betting;
pub mod bisect;
mod change;
mod compare;
mod diagnose;
mod error;
mod fairness;
mod histogram;
mod multiple;
mod normal;
mod pooled;
mod power;
mod question;
mod rank;
mod rank_test;
mod ratio;
mod rng;
mod sample;
mod sequential;
mod serial;
mod shift;
mod student;
mod tail;
mod verdict;
mod welch;

pub use alternative::Alternative;
pub use betting::{Betting, smallest_found};
pub use compare::{Comparison, adjust_table};
pub use diagnose::{Finding, NoiseFloor, diagnose, noise_floor, noise_floor_within};
pub use error::Error;
pub use fairness::jain;
pub use histogram::LogHistogram;
pub use multiple::{Correction, adjust};
pub use normal::{normal_cdf, normal_quantile};
pub use pooled::mean_of_means;
pub use power::Goal;
pub use question::{Better, Design, Question, WIDER};
pub use rank_test::{
    EXACT_PAIRS, EXACT_PRODUCT, Method, RankTest, Zeros, pairs_needed, rank_sum, rank_sum_floor,
    signed_rank, signed_rank_floor, signed_rank_of, stars, values_needed,
};
pub use ratio::{
    Ratio, differences, log_ratios, paired_difference, paired_ratio, paired_ratio_with,
    unpaired_ratio,
};
pub use rng::{GOLDEN, Rng, mix};
pub use sample::{CONFIDENCE, Estimate, Interval, Sample};
pub use sequential::{
    AlwaysValid, Precision, Staged, precision, staged_half_width, staged_values, two_stage_interval,
};
pub use shift::{Shift, paired_shift, probability_larger, shift_of, unpaired_shift};
pub use student::{t_cdf, t_quantile};
pub use tail::Tail;
pub use verdict::{Doubt, Verdict};
pub use welch::Welch;

/// The example of the read-me.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
