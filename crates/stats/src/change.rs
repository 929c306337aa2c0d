//! Where a series of measurements changed its level.

use crate::alternative::Alternative;
use crate::error::Error;
use crate::rank::doubled_midranks;
use crate::rank_test::rank_sum;
use crate::rng::Rng;
use crate::sample::Sample;

/// Positions around the found one among which the final position is searched.
const NEIGHBOURHOOD: usize = 32;

/// Chance to find a change in a series that has none.
const ALPHA: f64 = 0.01;
/// Fewest values between two change points; shorter segments are outliers.
const LEAST: usize = 3;
/// Permutations of each test; no p-value is below one over one more.
const PERMUTATIONS: usize = 999;

/// The change points of a series, in order: positions of the first values of new levels.
///
/// The series is split where the ranks before and after differ most, measured as the standardised
/// difference of their means, over a fixed set of intervals of all lengths, so that a short change
/// and its return do not hide each other (seeded binary segmentation; S. Kovacs and others, 2023).
/// Whether the largest difference could be chance is decided by permuting the series: exact for any
/// distribution, if the values are independent apart from the changes. Both parts are then searched
/// the same way. Each point is then put where two constant levels fit best, and in the end
/// tested once more between its neighbours.
pub(crate) fn change_points(series: &Sample, seed: u64) -> Result<Vec<usize>, Error> {
    let mut rng = Rng::new(seed);
    let mut found = Vec::new();
    let mut parts = vec![(0, series.n())];
    while let Some((start, end)) = parts.pop() {
        if let Some(place) = split(&series.values()[start..end], &mut rng) {
            found.push(start + place);
            parts.extend([(start, start + place), (start + place, end)]);
        }
    }
    found.sort_unstable();
    for which in 0..found.len() {
        relocate(series, &mut found, which);
    }
    prune(series, &mut found)?;
    Ok(found)
}

/// The best place to split a part, if the permutation test of it is significant.
fn split(values: &[f64], rng: &mut Rng) -> Option<usize> {
    if values.len() < 2 * LEAST {
        return None;
    }
    let intervals = intervals(values.len());
    let mut ranks = doubled_midranks(values);
    let (observed, place) = contrast(&ranks, &intervals);
    // Equal up to rounding counts as reached: the conservative side.
    let reached = observed * (1.0 - 1e-12);
    let mut exceeding = 0;
    // As soon as too many permutations exceed it, the rest cannot make it significant.
    let allowed = (ALPHA * (PERMUTATIONS + 1) as f64).floor() as usize;
    for _ in 0..PERMUTATIONS {
        rng.shuffle(&mut ranks);
        exceeding += usize::from(contrast(&ranks, &intervals).0 >= reached);
        if exceeding + 1 > allowed {
            return None;
        }
    }
    Some(place)
}

/// Intervals of the whole length, its 0.7-fold, half of it and so on, each shifted by half its
/// length.
fn intervals(n: usize) -> Vec<(usize, usize)> {
    let mut all = vec![(0, n)];
    let shorter = |length: usize| (length as f64 * core::f64::consts::FRAC_1_SQRT_2) as usize;
    let mut length = shorter(n);
    while length >= 2 * LEAST {
        let step = (length / 2).max(1);
        all.extend((0..=n - length).step_by(step).map(|start| (start, start + length)));
        all.push((n - length, n));
        length = shorter(length);
    }
    all
}

/// The largest squared standardised difference of the means of the ranks on both sides of a place,
/// over all intervals and places, and that place.
fn contrast(ranks: &[usize], intervals: &[(usize, usize)]) -> (f64, usize) {
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
        for at in start + LEAST..=end - LEAST {
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
fn relocate(series: &Sample, found: &mut [usize], which: usize) {
    let (start, end) = between(series, found, which);
    let at = found[which];
    let first = (start + LEAST).max(at.saturating_sub(NEIGHBOURHOOD));
    let last = (end - LEAST).min(at + NEIGHBOURHOOD);
    let values = series.values();
    let costs =
        (first..=last).map(|at| (distances(&values[start..at]) + distances(&values[at..end]), at));
    found[which] = costs.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(at, |(_, best)| best);
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
fn prune(series: &Sample, found: &mut Vec<usize>) -> Result<(), Error> {
    loop {
        let mut weakest = (ALPHA, None);
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
fn between(series: &Sample, found: &[usize], which: usize) -> (usize, usize) {
    let start = if which == 0 { 0 } else { found[which - 1] };
    (start, found.get(which + 1).copied().unwrap_or(series.n()))
}

/// The values between a point and its neighbours.
fn sides(series: &Sample, found: &[usize], which: usize) -> Result<(Sample, Sample), Error> {
    let (start, end) = between(series, found, which);
    let at = found[which];
    let part = |from: usize, to: usize| Sample::of_differences(series.values()[from..to].to_vec());
    Ok((part(start, at)?, part(at, end)?))
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
        change_points(series, 0).unwrap()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        assert_eq!(places(&noisy(&[(40, 100.0), (30, 106.0), (50, 103.0)], 1)), [40, 70]);
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
    }
}
