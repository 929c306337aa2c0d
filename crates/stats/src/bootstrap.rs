//! The bias-corrected and accelerated bootstrap, for statistics without a formula.

use crate::error::{Error, open_unit};
use crate::normal;
use crate::rng::Rng;
use crate::sample::{Sample, percentile_of};

/// A statistic of a sample with its bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// The statistic of the sample.
    pub value: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
}

/// Interval of `statistic` by the `BCa` bootstrap (B. Efron, 1987): percentiles of the statistic
/// over `resamples` samples drawn with replacement, shifted by the bias of the statistic and by the
/// acceleration that leaving out single values shows.
///
/// 10,000 resamples fix an end of a 95 % interval to about a fiftieth of its distance. With fewer
/// than about 15 values every bootstrap interval is too narrow; prefer
/// [`estimate`](Sample::estimate) or [`shift_of`](crate::shift_of).
///
/// # Errors
/// [`Error::TooFew`] for fewer than two values or fewer than 100 resamples,
/// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1,
/// [`Error::Overflow`] if the statistic of any resample is not finite.
pub fn bca(
    sample: &Sample,
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    resamples: usize,
    seed: u64,
) -> Result<Bootstrap, Error> {
    let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
    let values = sample.values();
    let n = values.len();
    for (have, need) in [(n, 2), (resamples, 100)] {
        if have < need {
            return Err(Error::TooFew { have, need });
        }
    }
    let checked = |values: &[f64]| crate::error::finite(statistic(values));
    let value = checked(values)?;
    let mut rng = Rng::new(seed);
    let mut drawn = vec![0.0; n];
    let mut replicates = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        drawn.fill_with(|| values[rng.below(n)]);
        replicates.push(checked(&drawn)?);
    }
    replicates.sort_by(f64::total_cmp);
    let below = replicates.partition_point(|replicate| *replicate < value);
    let up_to = replicates.partition_point(|replicate| *replicate <= value);
    let share = (below + up_to) as f64 / (2 * resamples) as f64;
    // A bias that no resample contradicts is bounded by what this many could have shown.
    let least = 1.0 / (resamples + 1) as f64;
    let bias = normal::quantile(share.clamp(least, 1.0 - least));
    let acceleration = acceleration(values, checked)?;
    let end = |z: f64| {
        let moved = bias + z;
        let level = normal::cdf(bias + moved / (1.0 - acceleration * moved));
        percentile_of(&replicates, if level.is_nan() { 0.5 } else { level })
    };
    let z = normal::tail_quantile(tail);
    Ok(Bootstrap { value, lo: end(-z), hi: end(z) })
}

/// A sixth of the skewness of the statistic with each value left out in turn.
fn acceleration(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Result<f64, Error>,
) -> Result<f64, Error> {
    let left_out: Result<Vec<f64>, Error> = (0..values.len())
        .map(|out| {
            let mut rest = values.to_vec();
            rest.remove(out);
            statistic(&rest)
        })
        .collect();
    let left_out = Sample::of_differences(left_out?)?;
    let mean = left_out.mean();
    let spread = left_out.max() - left_out.min();
    if spread <= 0.0 || spread.is_infinite() {
        return Ok(0.0);
    }
    let power = |exponent: i32| -> f64 {
        left_out.values().iter().map(|value| ((mean - value) / spread).powi(exponent)).sum()
    };
    Ok(power(3) / (6.0 * power(2).powf(1.5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn of_a_normal_sample_it_is_near_the_t_interval() {
        let mut rng = Rng::new(3);
        let sample = Sample::new((0..200).map(|_| rng.normal()).collect::<Vec<_>>()).unwrap();
        let (boot, t) = (bca(&sample, mean, 0.95, 10_000, 4).unwrap(), sample.estimate());
        assert!((boot.lo - t.lo).abs() < 0.01 && (boot.hi - t.hi).abs() < 0.01, "{boot:?} {t:?}");
        assert_eq!(bca(&sample, mean, 0.95, 10_000, 4), Ok(boot));
    }

    #[test]
    fn it_leans_towards_the_long_tail() {
        let skewed: Vec<f64> = (0..40).map(|i| (f64::from(i) / 8.0).exp()).collect();
        let sample = Sample::new(skewed).unwrap();
        let boot = bca(&sample, mean, 0.95, 5_000, 5).unwrap();
        assert!(boot.hi - boot.value > 1.2 * (boot.value - boot.lo), "{boot:?}");
    }

    #[test]
    fn hostile_input() {
        let two = Sample::new([1.0, 1.0]).unwrap();
        let flat = bca(&two, mean, 0.95, 1_000, 0).unwrap();
        assert_eq!((flat.value, flat.lo, flat.hi), (1.0, 1.0, 1.0));
        assert!(bca(&Sample::new([1.0]).unwrap(), mean, 0.95, 1_000, 0).is_err());
        assert!(bca(&two, mean, 1.0, 1_000, 0).is_err());
        assert!(bca(&two, mean, 0.95, 99, 0).is_err());
        assert_eq!(bca(&two, |_| f64::NAN, 0.95, 1_000, 0), Err(Error::Overflow));
    }
}
