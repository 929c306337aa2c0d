//! Where a history changed its level: change points in a series of measurements.

use crate::alternative::Alternative;
use crate::error::{Error, open_unit};
use crate::rank::doubled_midranks;
use crate::rank_test::rank_sum;
use crate::rng::Rng;
use crate::sample::Sample;
use crate::shift::{Shift, unpaired_shift};

/// Positions around the found one among which the final position is searched.
const NEIGHBOURHOOD: usize = 32;

/// How change points are searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeSearch {
    /// Chance to find a change in a series that has none.
    pub alpha: f64,
    /// Fewest values between two change points; shorter segments are outliers.
    pub least: usize,
    /// Permutations of each test; no p-value is below one over one more.
    pub permutations: usize,
    /// Seed of the permutations.
    pub seed: u64,
}

impl Default for ChangeSearch {
    fn default() -> Self {
        Self { alpha: 0.01, least: 3, permutations: 999, seed: 0 }
    }
}

/// One change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Position of the first value of the new level.
    pub index: usize,
    /// Median from the change before to this one.
    pub before: f64,
    /// Median from this change to the next.
    pub after: f64,
    /// Shift with its 95 % interval between the two; `None` if they are too short for one.
    pub shift: Option<Shift>,
    /// p-value of the permutation test that found the change.
    pub p: f64,
}

/// The change points of a series, in order.
///
/// The series is split where the ranks before and after differ most, measured as the standardised
/// difference of their means, over a fixed set of intervals of all lengths, so that a short change
/// and its return do not hide each other (seeded binary segmentation; S. Kovacs and others, 2023).
/// Whether the largest difference could be chance is decided by permuting the series: exact for any
/// distribution, if the values are independent apart from the changes. Both parts are then searched
/// the same way. Each point is then put where two constant levels fit best, and in the end
/// tested once more between its neighbours.
///
/// # Errors
/// [`Error::NotAProbability`] unless `alpha` lies strictly between 0 and 1, [`Error::TooFew`] if
/// the permutations cannot reach `alpha` or `least` is 0.
pub fn change_points(series: &Sample, search: &ChangeSearch) -> Result<Vec<ChangePoint>, Error> {
    let need = (1.0 / open_unit("alpha", search.alpha)?).ceil() as usize - 1;
    if search.permutations < need {
        return Err(Error::TooFew { have: search.permutations, need });
    }
    if search.least == 0 {
        return Err(Error::TooFew { have: 0, need: 1 });
    }
    let mut rng = Rng::new(search.seed);
    let mut found = Vec::new();
    let mut parts = vec![(0, series.n())];
    while let Some((start, end)) = parts.pop() {
        let split = split(&series.values()[start..end], search, &mut rng);
        if let Some((at, p)) = split {
            found.push((start + at, p));
            parts.extend([(start, start + at), (start + at, end)]);
        }
    }
    found.sort_by_key(|(index, _)| *index);
    for which in 0..found.len() {
        relocate(series, &mut found, which, search.least);
    }
    prune(series, &mut found, search.alpha)?;
    (0..found.len()).map(|which| describe(series, &found, which)).collect()
}

/// The best place to split a part and the p-value of the permutation test, if it is significant.
fn split(values: &[f64], search: &ChangeSearch, rng: &mut Rng) -> Option<(usize, f64)> {
    if values.len() < 2 * search.least {
        return None;
    }
    let intervals = intervals(values.len(), search.least);
    let mut ranks = doubled_midranks(values);
    let (observed, at) = contrast(&ranks, &intervals, search.least);
    // Equal up to rounding counts as reached: the conservative side.
    let reached = observed * (1.0 - 1e-12);
    let mut exceeding = 0;
    // As soon as too many permutations exceed it, the rest cannot make it significant.
    let allowed = (search.alpha * (search.permutations + 1) as f64).floor() as usize;
    for _ in 0..search.permutations {
        rng.shuffle(&mut ranks);
        exceeding += usize::from(contrast(&ranks, &intervals, search.least).0 >= reached);
        if exceeding + 1 > allowed {
            return None;
        }
    }
    Some((at, (exceeding + 1) as f64 / (search.permutations + 1) as f64))
}

/// Intervals of the whole length, its 0.7-fold, half of it and so on, each shifted by half its
/// length.
fn intervals(n: usize, least: usize) -> Vec<(usize, usize)> {
    let mut all = vec![(0, n)];
    let shorter = |length: usize| (length as f64 * core::f64::consts::FRAC_1_SQRT_2) as usize;
    let mut length = shorter(n);
    while length >= 2 * least {
        let step = (length / 2).max(1);
        all.extend((0..=n - length).step_by(step).map(|start| (start, start + length)));
        all.push((n - length, n));
        length = shorter(length);
    }
    all
}

/// The largest squared standardised difference of the means of the ranks on both sides of a place,
/// over all intervals and places, and that place.
fn contrast(ranks: &[usize], intervals: &[(usize, usize)], least: usize) -> (f64, usize) {
    let mut sums = Vec::with_capacity(ranks.len() + 1);
    sums.push(0.0);
    let mut sum = 0.0;
    for rank in ranks {
        sum += *rank as f64;
        sums.push(sum);
    }
    let mut best = (0.0, 0);
    for (start, end) in intervals {
        let length = (end - start) as f64;
        let mean = (sums[*end] - sums[*start]) / length;
        for at in start + least..=end - least {
            let left = (at - start) as f64;
            let excess = sums[at] - sums[*start] - left * mean;
            let size = excess * excess * length / (left * (length - left));
            if size > best.0 {
                best = (size, at);
            }
        }
    }
    best
}

/// Moves a point to where the values are nearest to a level on each side, in the sum of distances
/// from the two medians. Ranks know that there is a change, but not the size of single steps: they
/// lean towards the middle.
fn relocate(series: &Sample, found: &mut [(usize, f64)], which: usize, least: usize) {
    let (start, end) = between(series, found, which);
    let at = found[which].0;
    let first = (start + least).max(at.saturating_sub(NEIGHBOURHOOD));
    let last = (end - least).min(at + NEIGHBOURHOOD);
    let values = series.values();
    let costs =
        (first..=last).map(|at| (distances(&values[start..at]) + distances(&values[at..end]), at));
    found[which].0 = costs.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(at, |(_, best)| best);
}

/// The sum of the distances of the values from their median.
fn distances(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper: f64 = sorted[values.len().div_ceil(2)..].iter().sum();
    let lower: f64 = sorted[..values.len() / 2].iter().sum();
    upper - lower
}

/// Drops points, the weakest first, that the exact rank-sum test between their neighbours does not
/// confirm.
fn prune(series: &Sample, found: &mut Vec<(usize, f64)>, alpha: f64) -> Result<(), Error> {
    loop {
        let mut weakest = (alpha, None);
        for which in 0..found.len() {
            let (before, after) = sides(series, found, which)?;
            let p = rank_sum(&before, &after, Alternative::TwoSided).p;
            if p > weakest.0 {
                weakest = (p, Some(which));
            }
        }
        match weakest.1 {
            Some(which) => found.remove(which),
            None => return Ok(()),
        };
    }
}

/// From the point before to the point after.
fn between(series: &Sample, found: &[(usize, f64)], which: usize) -> (usize, usize) {
    let start = if which == 0 { 0 } else { found[which - 1].0 };
    (start, found.get(which + 1).map_or(series.n(), |(index, _)| *index))
}

/// The values between a point and its neighbours.
fn sides(series: &Sample, found: &[(usize, f64)], which: usize) -> Result<(Sample, Sample), Error> {
    let (start, end) = between(series, found, which);
    let at = found[which].0;
    let part = |from: usize, to: usize| Sample::of_differences(series.values()[from..to].to_vec());
    Ok((part(start, at)?, part(at, end)?))
}

fn describe(series: &Sample, found: &[(usize, f64)], which: usize) -> Result<ChangePoint, Error> {
    let (before, after) = sides(series, found, which)?;
    Ok(ChangePoint {
        index: found[which].0,
        before: before.median(),
        after: after.median(),
        shift: unpaired_shift(&before, &after, 0.95).ok(),
        p: found[which].1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Sample {
        let mut rng = Rng::new(seed);
        let mut values = Vec::new();
        for (length, level) in levels {
            values.extend((0..*length).map(|_| level + rng.normal()));
        }
        Sample::new(values).unwrap()
    }

    fn places(series: &Sample) -> Vec<usize> {
        let found = change_points(series, &ChangeSearch::default()).unwrap();
        found.iter().map(|point| point.index).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let series = noisy(&[(40, 100.0), (30, 106.0), (50, 103.0)], 1);
        let found = change_points(&series, &ChangeSearch::default()).unwrap();
        assert_eq!(found.iter().map(|point| point.index).collect::<Vec<_>>(), [40, 70]);
        let shift = found[0].shift.unwrap();
        assert!(shift.lo < 6.0 && 6.0 < shift.hi && found[0].p <= 0.001);
    }

    #[test]
    fn a_bump_does_not_hide_itself() {
        assert_eq!(places(&noisy(&[(60, 0.0), (9, 8.0), (60, 0.0)], 2)), [60, 69]);
    }

    #[test]
    fn an_outlier_is_no_change() {
        let mut values = noisy(&[(40, 10.0)], 3).values().to_vec();
        values[17] = 1e6;
        assert_eq!(places(&Sample::new(values).unwrap()), [0; 0]);
    }

    #[test]
    fn the_level_of_the_search_is_kept() {
        let wrong = (0..400).filter(|seed| !places(&noisy(&[(30, 0.0)], 100 + seed)).is_empty());
        // 1 % of 400 is 4; ten or more have a probability below 1 %.
        assert!(wrong.count() < 10);
    }

    #[test]
    fn hostile_series() {
        for values in [vec![1.0], vec![1.0, 2.0], vec![5.0; 50]] {
            assert_eq!(places(&Sample::new(values).unwrap()), [0; 0]);
        }
        let series = noisy(&[(20, 0.0)], 4);
        for bad in [
            ChangeSearch { permutations: 98, ..ChangeSearch::default() },
            ChangeSearch { least: 0, ..ChangeSearch::default() },
            ChangeSearch { alpha: f64::NAN, ..ChangeSearch::default() },
        ] {
            assert!(change_points(&series, &bad).is_err());
        }
        let long = ChangeSearch { least: usize::MAX / 4, ..ChangeSearch::default() };
        assert_eq!(change_points(&series, &long), Ok(vec![]));
    }
}
