//! A sample and what one number says about it.

use core::fmt;

use crate::student::t_quantile;

/// Two-sided confidence of every interval of this crate.
const CONFIDENCE: f64 = 0.95;

/// Why numbers are not a [`Sample`], or not a pair of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleError {
    /// There is no value.
    Empty,
    /// The value at `index` is NaN or infinite.
    NotFinite {
        /// Position of the first such value.
        index: usize,
    },
    /// Pairs were asked for, but the two sides have different lengths.
    Unpaired {
        /// Values of the baseline.
        baseline: usize,
        /// Values of the candidate.
        candidate: usize,
    },
    /// A ratio was asked for, but the value at `index` is zero or negative.
    NotPositive {
        /// Position of the first such value.
        index: usize,
    },
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a sample needs at least one value"),
            Self::NotFinite { index } => write!(f, "value {index} is not a finite number"),
            Self::Unpaired { baseline, candidate } => {
                write!(f, "{baseline} baseline values cannot be paired with {candidate} candidates")
            }
            Self::NotPositive { index } => {
                write!(f, "value {index} is not positive, so it has no ratio")
            }
        }
    }
}

impl core::error::Error for SampleError {}

/// At least one finite number, in the order measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// Takes the values.
    ///
    /// # Errors
    /// [`SampleError::Empty`] without values, [`SampleError::NotFinite`] with a NaN or an infinity.
    pub fn new(values: impl Into<Vec<f64>>) -> Result<Self, SampleError> {
        let values = values.into();
        if values.is_empty() {
            return Err(SampleError::Empty);
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(SampleError::NotFinite { index }),
            None => Ok(Self { values }),
        }
    }

    /// The values, in the order measured.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// How many values there are; at least 1.
    pub fn n(&self) -> usize {
        self.values.len()
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        let n = self.n() as f64;
        // The second pass removes the rounding error of the first, which matters when the values
        // are large and close.
        let rough = self.values.iter().map(|value| value / n).sum::<f64>();
        rough + self.values.iter().map(|value| (value - rough) / n).sum::<f64>()
    }

    /// The standard deviation with divisor n - 1. NaN for a single value: one number has no spread.
    pub fn sd(&self) -> f64 {
        if self.n() < 2 {
            return f64::NAN;
        }
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (self.n() - 1) as f64).sqrt()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The median; the mean of the two middle values when their number is even.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The value below which `percent` of the sample lies, interpolated linearly between order
    /// statistics (the default of R and `NumPy`). `percent` outside 0 to 100 is clamped; a NaN
    /// gives the minimum.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let position = fraction(percent) * (sorted.len() - 1) as f64;
        let below = position.floor() as usize;
        let above = (below + 1).min(sorted.len() - 1);
        let share = position - below as f64;
        sorted[below] * (1.0 - share) + sorted[above] * share
    }

    /// Mean, spread and the two-sided 95 % Student t interval of the mean.
    ///
    /// The interval is not the normal one: at 4 values `1.96 sd / sqrt(n)` covers the mean in 85 %
    /// of all experiments only. A single value gives the interval from minus to plus infinity.
    pub fn estimate(&self) -> Estimate {
        let (mean, sd, n) = (self.mean(), self.sd(), self.n());
        let half = if n < 2 {
            f64::INFINITY
        } else {
            t_quantile(0.5 + CONFIDENCE / 2.0, (n - 1) as f64) * sd / (n as f64).sqrt()
        };
        Estimate { mean, sd, n, lo: mean - half, hi: mean + half }
    }
}

/// A percentage as a fraction within 0 to 1; NaN is 0.
pub(crate) fn fraction(percent: f64) -> f64 {
    if percent.is_nan() { 0.0 } else { (percent / 100.0).clamp(0.0, 1.0) }
}

/// What a sample says about the mean behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean of the sample.
    pub mean: f64,
    /// Standard deviation with divisor n - 1; NaN if `n` is 1.
    pub sd: f64,
    /// Size of the sample.
    pub n: usize,
    /// Lower end of the 95 % interval; minus infinity if `n` is 1.
    pub lo: f64,
    /// Upper end of the 95 % interval; plus infinity if `n` is 1.
    pub hi: f64,
}

impl Estimate {
    /// Half the width of the interval, the number behind `±`; infinite if `n` is 1.
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }

    /// Whether `value` lies in the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    fn close(left: f64, right: f64, tolerance: f64) {
        assert!((left - right).abs() <= tolerance, "{left} is not {right}");
    }

    #[test]
    fn hostile_input_is_refused_with_its_place() {
        assert_eq!(Sample::new([]), Err(SampleError::Empty));
        assert_eq!(Sample::new([1.0, f64::NAN]), Err(SampleError::NotFinite { index: 1 }));
        assert_eq!(Sample::new([f64::INFINITY]), Err(SampleError::NotFinite { index: 0 }));
    }

    #[test]
    fn one_value_has_an_infinite_interval_and_no_spread() {
        let estimate = sample(&[7.0]).estimate();
        close(estimate.mean, 7.0, 0.0);
        assert!(estimate.sd.is_nan());
        assert!(estimate.lo.is_infinite() && estimate.lo < 0.0);
        assert!(estimate.hi.is_infinite() && estimate.hi > 0.0);
        assert!(estimate.half_width().is_infinite());
        assert!(estimate.contains(1e300));
    }

    #[test]
    fn equal_values_give_an_interval_of_no_width() {
        let estimate = sample(&[3.0, 3.0, 3.0]).estimate();
        close(estimate.sd, 0.0, 0.0);
        close(estimate.half_width(), 0.0, 0.0);
        assert!(estimate.contains(3.0) && !estimate.contains(3.1));
    }

    #[test]
    fn textbook_interval() {
        // Deviations -0.05, -0.25, 0.45, -0.15: sd = sqrt(0.29 / 3); t(0.975, 3) = 3.182446305.
        let estimate = sample(&[5.1, 4.9, 5.6, 5.0]).estimate();
        close(estimate.mean, 5.15, 1e-12);
        close(estimate.sd, 0.310_912_635, 1e-8);
        close(estimate.half_width(), 3.182_446_305 * 0.310_912_635 / 2.0, 1e-8);
        close(estimate.lo, 4.655_268_617, 1e-8);
    }

    #[test]
    fn spread_survives_a_large_offset() {
        let estimate = sample(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]).estimate();
        close(estimate.sd, 1.0, 1e-9);
        close(estimate.mean, 1e9 + 2.0, 1e-6);
    }

    #[test]
    fn the_mean_does_not_overflow() {
        close(sample(&[f64::MAX, f64::MAX]).mean() / f64::MAX, 1.0, 1e-15);
    }

    #[test]
    fn percentiles_interpolate_and_clamp() {
        let values = sample(&[40.0, 10.0, 30.0, 20.0]);
        close(values.median(), 25.0, 1e-12);
        close(values.percentile(25.0), 17.5, 1e-12);
        close(values.percentile(0.0), 10.0, 0.0);
        close(values.percentile(250.0), 40.0, 0.0);
        close(values.percentile(-1.0), 10.0, 0.0);
        close(values.percentile(f64::NAN), 10.0, 0.0);
        close(sample(&[4.0]).percentile(99.0), 4.0, 0.0);
        close(sample(&[1.0, 2.0, 3.0]).median(), 2.0, 0.0);
    }
}
