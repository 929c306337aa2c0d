//! Problems in a series of runs, with the sample and advice.

use core::fmt;

use crate::change::change_points;
use crate::error::Error;
use crate::ratio::{Ratio, paired_ratio};
use crate::rng::Rng;
use crate::sample::CONFIDENCE;
use crate::sample::Sample;
use crate::student;

/// Modified z-score from which a value is an outlier (B. Iglewicz, D. Hoaglin, 1993).
const OUTLIER: f64 = 3.5;

/// Level of the tests of drift and autocorrelation: a diagnosis should rarely cry wolf.
const ALPHA: f64 = 0.01;

/// Permutations of each of these tests.
const PERMUTATIONS: usize = 999;

/// Fewest values of which anything is said.
const LEAST: usize = 6;

/// One thing that a reader of the result should know. Positions count from 0 in the order measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// The first values differ from later ones.
    WarmUp {
        /// How many there are.
        samples: usize,
    },
    /// One value is far from the others.
    Outlier {
        /// Its position.
        index: usize,
        /// The value.
        value: f64,
        /// Modified z-score: distance from the median in robust standard deviations, with sign.
        score: f64,
    },
    /// The values rise or fall over the series.
    Drift {
        /// Change from the first to the last value, in the unit of the values.
        total: f64,
        /// The same relative to the median; `None` if that is zero.
        relative: Option<f64>,
        /// p-value of the permutation test of Spearman's rank correlation with the order.
        p: f64,
    },
    /// Neighbours are alike, so that the values are worth fewer than they are.
    Autocorrelation {
        /// Correlation of each value with the next.
        lag1: f64,
        /// p-value of the permutation test.
        p: f64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp { samples } => write!(
                f,
                "the first {samples} samples differ from the rest: add {samples} warm-up runs"
            ),
            Self::Outlier { index, value, score } => write!(
                f,
                "sample {index} ({value}) is {:.1} robust standard deviations {} the median: look \
                 what else ran then",
                score.abs(),
                if *score < 0.0 { "below" } else { "above" }
            ),
            Self::Drift { total, relative, .. } => {
                let word = if *total < 0.0 { "fall" } else { "rise" };
                match relative {
                    Some(share) => write!(f, "values {word} by {:.2} %", share.abs() * 100.0)?,
                    None => write!(f, "values {word} by {}", total.abs())?,
                }
                f.write_str(" over the series: interleave the sides, let the machine settle")
            }
            Self::Autocorrelation { lag1, .. } => write!(
                f,
                "neighbouring samples are alike (lag-1 correlation {lag1:.2}): they tell less than \
                 as many independent ones, so interleave the sides"
            ),
        }
    }
}

/// Returns the problems of a series, in the order warm-up, outliers, drift, autocorrelation. Empty
/// if nothing is, or if there are fewer than 6 values.
///
/// The values of the warm-up are left out of what follows, and drift is taken out before
/// autocorrelation is tested. Each of the tests has the level 1 %; of normal values, about one in
/// 2000 is called an outlier (more in small series).
pub fn diagnose(series: &Sample, seed: u64) -> Vec<Finding> {
    let values = series.values();
    if values.len() < LEAST {
        return Vec::new();
    }
    let mut rng = Rng::new(seed);
    let cold = warm_up(series, seed);
    let rest = &values[cold..];
    let mut found = Vec::new();
    if cold > 0 {
        found.push(Finding::WarmUp { samples: cold });
    }
    found.extend(outliers(rest, rest).into_iter().map(|(index, value, score)| Finding::Outlier {
        index: index + cold,
        value,
        score,
    }));
    if rest.len() < LEAST {
        return found;
    }
    let (drift, slope) = drift(rest, &mut rng);
    found.extend(drift);
    let slope = if drift.is_some() { slope } else { 0.0 };
    let level: Vec<f64> = rest.iter().enumerate().map(|(i, v)| v - slope * i as f64).collect();
    found.extend(autocorrelation(&level, &mut rng));
    found
}

/// How many values at the beginning differ from the rest: those up to the first change of level in
/// the first half, or the outliers in a row that the series begins with, as the second half sees
/// them.
fn warm_up(series: &Sample, seed: u64) -> usize {
    let values = series.values();
    let half = values.len() / 2;
    // Only a series that is level afterwards was warming up; else it just changed.
    let change = match change_points(series, seed).as_deref() {
        Ok([only]) if *only <= half => *only,
        _ => 0,
    };
    let strange = outliers(&values[..half], &values[half..]);
    let leading = strange.iter().enumerate().take_while(|(place, (index, _, score))| {
        place == index && (*score < 0.0) == (strange[0].2 < 0.0)
    });
    change.max(leading.count())
}

/// Position, value and modified z-score of those `values` that are outliers as `reference` sees
/// them.
fn outliers(values: &[f64], reference: &[f64]) -> Vec<(usize, f64, f64)> {
    let Ok(reference) = Sample::of_differences(reference.to_vec()) else {
        return Vec::new();
    };
    let (median, spread) = (reference.median(), reference.robust_sd());
    let score = |value: f64| (value - median) / spread;
    let scored = values.iter().enumerate().map(|(index, value)| (index, *value, score(*value)));
    scored.filter(|(_, _, score)| score.is_finite() && score.abs() > OUTLIER).collect()
}

/// p-value of a statistic of the order of values: the share of random orders in which its size is
/// at least as large.
fn permutation_p(values: &[f64], rng: &mut Rng, statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let observed = statistic(values).abs() * (1.0 - 1e-12);
    let mut shuffled = values.to_vec();
    let exceeding = (0..PERMUTATIONS).filter(|_| {
        rng.shuffle(&mut shuffled);
        statistic(&shuffled).abs() >= observed
    });
    (exceeding.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// Tests for a trend by ranks, and returns its slope per value: the median of the slopes between
/// each value and the value half a series later.
fn drift(values: &[f64], rng: &mut Rng) -> (Option<Finding>, f64) {
    let n = values.len();
    let ranks = crate::rank::doubled_midranks(values);
    let ranks: Vec<f64> = ranks.iter().map(|rank| *rank as f64 - (n + 1) as f64).collect();
    let p = permutation_p(&ranks, rng, |ranks| {
        ranks.iter().enumerate().map(|(i, rank)| rank * (2.0 * i as f64 - (n - 1) as f64)).sum()
    });
    let half = n / 2;
    let slopes: Vec<f64> = values
        .iter()
        .zip(&values[half..])
        .map(|(first, later)| (later - first) / half as f64)
        .collect();
    let middle = |values: Vec<f64>| Sample::of_differences(values).map_or(0.0, |s| s.median());
    let slope = middle(slopes);
    let total = slope * (n - 1) as f64;
    let median = middle(values.to_vec());
    let relative = (median != 0.0).then(|| total / median.abs()).filter(|share| share.is_finite());
    ((p <= ALPHA && total != 0.0).then_some(Finding::Drift { total, relative, p }), slope)
}

/// Lag-1 autocorrelation, tested against random order.
fn autocorrelation(values: &[f64], rng: &mut Rng) -> Option<Finding> {
    let sample = Sample::of_differences(values.to_vec()).ok()?;
    let (mean, scale) = (sample.mean(), sample.sd().filter(|sd| *sd > 0.0)?);
    let scaled: Vec<f64> = values.iter().map(|value| (value - mean) / scale).collect();
    let squares: f64 = scaled.iter().map(|value| value * value).sum();
    let lag1 = |values: &[f64]| -> f64 {
        values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares
    };
    let p = permutation_p(&scaled, rng, lag1);
    (p <= ALPHA).then(|| Finding::Autocorrelation { lag1: lag1(&scaled), p })
}

/// Difference without a cause: the baseline against itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseFloor {
    /// Ratio of the two identical sides with its 95 % interval.
    pub ratio: Ratio,
    /// The largest relative difference within that interval: 0.02 means that with this many pairs a
    /// difference below 2 % cannot be distinguished from none.
    pub floor: f64,
}

/// The A/A noise floor of two interleaved series of the same command, paired as measured.
///
/// # Errors
/// As [`paired_ratio`], and [`Error::TooFew`] with fewer than two pairs.
pub fn noise_floor(first: &Sample, second: &Sample) -> Result<NoiseFloor, Error> {
    let ratio = paired_ratio(first, second)?;
    if ratio.n < 2 {
        return Err(Error::TooFew { have: ratio.n, need: 2 });
    }
    let floor = crate::error::finite((ratio.hi - 1.0).max(1.0 / ratio.lo - 1.0))?;
    Ok(NoiseFloor { ratio, floor })
}

/// The A/A noise floor within one series: the interval of the ratio that as many pairs of this
/// command as there are values would show around 1. The spread of a pair is estimated from
/// neighbouring values; J. von Neumann (1941) has its degrees of freedom.
///
/// # Errors
/// [`Error::NotPositive`] if a value has no logarithm, [`Error::TooFew`] with fewer than 4 values.
pub fn noise_floor_within(series: &Sample) -> Result<NoiseFloor, Error> {
    let (logs, n) = (series.logarithms()?, series.n());
    if n < 4 {
        return Err(Error::TooFew { have: n, need: 4 });
    }
    let count = n as f64;
    let steps = logs.values().windows(2).map(|pair| pair[1] - pair[0]);
    let spread = (steps.map(|step| step * step).sum::<f64>() / (count - 1.0)).sqrt();
    let df = 2.0 * (count - 1.0).powi(2) / (3.0 * count - 4.0);
    let half = student::tail_quantile((1.0 - CONFIDENCE) / 2.0, df) * spread / count.sqrt();
    let floor = crate::error::finite(half.exp_m1())?;
    Ok(NoiseFloor { ratio: Ratio { value: 1.0, n, lo: (-half).exp(), hi: half.exp() }, floor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        (0..n).map(|_| 100.0 + rng.normal()).collect()
    }

    fn found(values: Vec<f64>) -> Vec<Finding> {
        diagnose(&Sample::new(values).unwrap(), 7)
    }

    #[test]
    fn each_illness_is_named_with_its_place() {
        let mut values = normal(30, 1);
        values[12] = 130.0;
        assert!(
            matches!(found(values)[..], [Finding::Outlier { index: 12, score, .. }] if score > 10.0)
        );

        let mut values = normal(30, 1);
        (values[0], values[1]) = (140.0, 115.0);
        assert_eq!(found(values), [Finding::WarmUp { samples: 2 }]);

        let mut values = normal(40, 1);
        values[..10].iter_mut().for_each(|value| *value += 5.0);
        assert!(matches!(found(values)[..], [Finding::WarmUp { samples: 9..=11 }]));

        let slope: Vec<f64> =
            normal(40, 1).iter().enumerate().map(|(i, v)| 0.2 * v + 0.02 * i as f64).collect();
        assert!(
            found(slope).iter().any(|f| matches!(f, Finding::Drift { total, .. } if *total > 0.3))
        );

        let mut walk = normal(60, 6);
        for i in 1..60 {
            walk[i] = 100.0 + 0.7 * (walk[i - 1] - 100.0) + (walk[i] - 100.0);
        }
        let sick = found(walk);
        assert!(
            sick.iter().any(|f| matches!(f, Finding::Autocorrelation { lag1, .. } if *lag1 > 0.3))
        );
    }

    #[test]
    fn healthy_series_are_left_alone() {
        let wolves = (0..200).filter(|seed| {
            let sick = found(normal(30, 1000 + seed));
            sick.iter().any(|finding| !matches!(finding, Finding::Outlier { .. }))
        });
        // Three tests at 1 % each, and a leading outlier now and then: about 8 of 200.
        assert!(wolves.count() < 20);
    }

    #[test]
    fn sentences_name_the_cure() {
        let text = Finding::Outlier { index: 3, value: 9.5, score: -4.21 }.to_string();
        assert_eq!(
            text,
            "sample 3 (9.5) is 4.2 robust standard deviations below the median: look what else ran \
             then"
        );
        let drift = Finding::Drift { total: 2.0, relative: Some(0.02), p: 0.001 }.to_string();
        assert!(drift.starts_with("values rise by 2.00 % over the series"));
    }

    #[test]
    fn hostile_series() {
        for values in [vec![1.0], vec![0.0; 50], vec![1e150, -1e150, 1e150, 0.0, 0.0, 0.0, 1.0]] {
            let sample = Sample::new(values).unwrap();
            for finding in diagnose(&sample, 0) {
                assert!(!finding.to_string().contains("NaN"), "{finding}");
            }
        }
        // A constant series with one stranger has no median deviation, but a mean one.
        let mut flat = vec![5.0; 20];
        flat[9] = 6.0;
        assert!(matches!(found(flat)[..], [Finding::Outlier { index: 9, .. }]));
    }

    #[test]
    fn the_noise_floor_is_what_the_interval_reaches() {
        let (a, b) = (Sample::new(normal(20, 3)).unwrap(), Sample::new(normal(20, 4)).unwrap());
        let floor = noise_floor(&a, &b).unwrap();
        // cv 1 %: 2.09 * sqrt(2 / 20) % and the chance difference of the means.
        assert!((0.004..0.015).contains(&floor.floor), "{floor:?}");
        let within = noise_floor_within(&a).unwrap();
        assert!(within.ratio.n == 20 && (0.004..0.015).contains(&within.floor), "{within:?}");
        assert!(noise_floor_within(&Sample::new([1.0, 2.0, 3.0]).unwrap()).is_err());
        let zero = Sample::new([0.0, 1.0]).unwrap();
        assert!(noise_floor(&zero, &zero).is_err());
    }
}
