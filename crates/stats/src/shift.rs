//! By how much: the Hodges-Lehmann shift with the interval of the exact rank test, and how often
//! one side beats the other.

use crate::error::{Error, open_unit};
use crate::rank::Null;
use crate::rank_test::{EXACT_PAIRS, EXACT_PRODUCT};
use crate::ratio::differences;
use crate::sample::Sample;
use crate::{normal, rank_test};

/// A shift of the candidate against the baseline, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Hodges-Lehmann estimate: the median of all pairwise differences or Walsh averages.
    pub value: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
    /// Confidence of the interval, at least the requested one: the distribution has steps.
    pub confidence: f64,
}

/// Shift between pairs: the median of the Walsh averages of `candidate - baseline`, with the
/// interval of all shifts that the signed-rank test does not reject.
///
/// The interval counts order statistics of the Walsh averages with the distribution without ties.
/// With ties its ends belong to it, and its confidence is at least the stated one (G. Noether,
/// 1967).
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length; [`Error::TooFew`] if no interval of that
/// confidence exists, 6 pairs being needed for 95 %; [`Error::NotAProbability`] unless
/// `confidence` lies strictly between 0 and 1.
pub fn paired_shift(
    baseline: &Sample,
    candidate: &Sample,
    confidence: f64,
) -> Result<Shift, Error> {
    shift_of(&differences(baseline, candidate)?, confidence)
}

/// The centre of symmetry of one sample, as [`paired_shift`] of its differences.
///
/// # Errors
/// As [`paired_shift`].
pub fn shift_of(differences: &Sample, confidence: f64) -> Result<Shift, Error> {
    let alpha = 1.0 - open_unit("confidence", confidence)?;
    let sorted = differences.sorted();
    let n = sorted.len();
    let averages = n * (n + 1) / 2;
    let (steps, tail) = if n <= EXACT_PAIRS {
        let ranks: Vec<usize> = (1..=n).collect();
        Null::of_signs(&ranks).lower_quantile(alpha / 2.0)
    } else {
        let variance = averages as f64 * (2 * n + 1) as f64 / 12.0;
        normal_steps(averages as f64 / 2.0, variance, alpha / 2.0)
    }
    .ok_or(Error::TooFew { have: n, need: rank_test::pairs_needed(alpha)? })?;
    // Walsh averages of i <= j: row i has the averages with itself and all later values.
    let pick = |k: usize| kth(&sorted, k, f64::midpoint, |i, count| count.max(i) - i, &sorted);
    Ok(interval(averages, steps, tail, pick))
}

/// Shift between two unpaired samples: the median of all differences `candidate - baseline`, with
/// the interval of all shifts that the rank-sum test does not reject. Ties as in [`paired_shift`].
///
/// # Errors
/// [`Error::TooFew`] if no interval of that confidence exists, 4 values on each side being needed
/// for 95 %; [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1.
pub fn unpaired_shift(
    baseline: &Sample,
    candidate: &Sample,
    confidence: f64,
) -> Result<Shift, Error> {
    let alpha = 1.0 - open_unit("confidence", confidence)?;
    let (n, m) = (baseline.n(), candidate.n());
    let pairs = n * m;
    let (steps, tail) = if pairs <= EXACT_PRODUCT {
        let ranks: Vec<usize> = (1..=n + m).collect();
        Null::of_choices(&ranks, n.min(m)).lower_quantile(alpha / 2.0)
    } else {
        let variance = pairs as f64 * (n + m + 1) as f64 / 12.0;
        normal_steps(pairs as f64 / 2.0, variance, alpha / 2.0)
    }
    .ok_or(Error::TooFew { have: n.min(m), need: rank_test::values_needed(alpha)? })?;
    // Negated and sorted again, so that every row of sums grows with the other side.
    let negated: Vec<f64> = baseline.sorted().iter().rev().map(|value| -value).collect();
    let sorted = candidate.sorted();
    let pick = |k: usize| kth(&negated, k, |minus, plus| plus + minus, |_, count| count, &sorted);
    Ok(interval(pairs, steps, tail, pick))
}

/// Builds the estimate from `count` ordered values; `pick` returns the k-th, from 0; `steps` of
/// them lie outside the interval on each side, with probability `tail`.
fn interval(count: usize, steps: usize, tail: f64, pick: impl Fn(usize) -> f64) -> Shift {
    let middle = f64::midpoint(pick((count - 1) / 2), pick(count / 2));
    let confidence = 1.0 - 2.0 * tail;
    Shift { value: middle, lo: pick(steps), hi: pick(count - 1 - steps), confidence }
}

/// As [`Null::lower_quantile`] by the normal approximation with continuity correction.
fn normal_steps(mean: f64, variance: f64, tail: f64) -> Option<(usize, f64)> {
    let steps = (mean - normal::tail_quantile(tail) * variance.sqrt() - 0.5).floor();
    let reached = normal::cdf((steps + 0.5 - mean) / variance.sqrt());
    (steps >= 0.0).then_some((steps as usize, reached))
}

/// The `k`-th smallest, from 0, of `combine(row, column)` over all rows and those columns that
/// `in_row` counts, without writing them down: bisection over the floating-point numbers, counting
/// the values up to each candidate along the staircase between small and large.
///
/// `combine` must grow with both arguments, which are sorted. `in_row(i, c)` says how many of the
/// first `c` columns belong to row `i`.
fn kth(
    rows: &[f64],
    k: usize,
    combine: impl Fn(f64, f64) -> f64,
    in_row: impl Fn(usize, usize) -> usize,
    columns: &[f64],
) -> f64 {
    let up_to = |limit: f64| {
        let mut reach = columns.len();
        let mut count = 0;
        for (i, row) in rows.iter().enumerate() {
            while reach > 0 && combine(*row, columns[reach - 1]) > limit {
                reach -= 1;
            }
            count += in_row(i, reach);
        }
        count
    };
    let mut low = ordered(combine(rows[0], columns[0]));
    let mut high = ordered(combine(rows[rows.len() - 1], columns[columns.len() - 1]));
    while low < high {
        let middle = low + ((high - low) >> 1);
        if up_to(unordered(middle)) > k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    unordered(low)
}

/// The position of a number in the order of all numbers; shifted so that differences of two do
/// not overflow.
fn ordered(value: f64) -> i128 {
    let bits = (value + 0.0).to_bits() as i64;
    i128::from(if bits < 0 { i64::MIN - bits } else { bits })
}

/// The inverse of [`ordered`].
fn unordered(position: i128) -> f64 {
    let bits = position as i64;
    f64::from_bits((if bits < 0 { i64::MIN - bits } else { bits }) as u64)
}

/// P(candidate > baseline) + P(candidate = baseline) / 2, over all pairs of a value of one side and
/// a value of the other: the chance that a run of the candidate beats one of the baseline.
pub fn probability_larger(baseline: &Sample, candidate: &Sample) -> f64 {
    let sorted = baseline.sorted();
    let halves: usize = candidate
        .values()
        .iter()
        .map(|c| sorted.partition_point(|b| b < c) + sorted.partition_point(|b| b <= c))
        .sum();
    halves as f64 / (2.0 * baseline.n() as f64 * candidate.n() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    fn all_sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(f64::total_cmp);
        values
    }

    #[test]
    fn selection_agrees_with_sorting_everything() {
        let a = [3.0, -1.5, 0.0, 7.25, 3.0, 1e-9, -4.0];
        let b = [2.0, 2.0, -0.5, 11.0, 0.1];
        let found = unpaired_shift(&sample(&a), &sample(&b), 0.9).unwrap();
        let differences = all_sorted(a.iter().flat_map(|a| b.map(|b| b - a)).collect());
        assert_eq!(found.value, differences[17]);
        let place = differences.iter().position(|d| *d == found.lo).unwrap();
        assert_eq!(found.hi, differences[34 - place]);
        let walsh = (0..7).flat_map(|i| (i..7).map(move |j| f64::midpoint(a[i], a[j])));
        let walsh = all_sorted(walsh.collect());
        assert_eq!(shift_of(&sample(&a), 0.95).unwrap().value, f64::midpoint(walsh[13], walsh[14]));
    }

    #[test]
    fn the_interval_is_that_of_the_printed_tables() {
        fn walsh(n: usize) -> Vec<f64> {
            let all = (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
            all_sorted(all.map(|(i, j)| f64::midpoint((1 << i) as f64, (1 << j) as f64)).collect())
        }
        // Critical values of the usual tables at 95 %: 6 pairs leave 0 averages outside, 10 leave
        // 8; 4 against 4 leave 0, 10 against 10 leave 23. The ends are the next ones.
        let ladder = |n: usize| sample(&(0..n).map(|i| f64::from(1 << i)).collect::<Vec<_>>());
        for (n, outside) in [(6, 0), (8, 3), (10, 8), (12, 13)] {
            let found = shift_of(&ladder(n), 0.95).unwrap();
            let walsh = walsh(n);
            assert_eq!((found.lo, found.hi), (walsh[outside], walsh[walsh.len() - 1 - outside]));
            assert!(found.confidence >= 0.95);
        }
        assert_eq!(shift_of(&ladder(5), 0.95), Err(Error::TooFew { have: 5, need: 6 }));
        let few = unpaired_shift(&ladder(3), &ladder(6), 0.99);
        assert_eq!(few, Err(Error::TooFew { have: 3, need: 5 }));
    }

    #[test]
    fn effect_sizes_count_pairs() {
        let (a, b) = (sample(&[1.0, 2.0, 3.0]), sample(&[2.0, 4.0]));
        // Of six pairs four have the candidate ahead, one the baseline, one is a tie.
        assert!((probability_larger(&a, &b) - 4.5 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn equal_values_have_a_shift_of_no_width() {
        let found = shift_of(&sample(&[2.0; 8]), 0.95).unwrap();
        assert_eq!((found.value, found.lo, found.hi), (2.0, 2.0, 2.0));
        let found = unpaired_shift(&sample(&[-1.0; 4]), &sample(&[1.0; 5]), 0.95).unwrap();
        assert_eq!((found.value, found.lo, found.hi), (2.0, 2.0, 2.0));
    }
}
