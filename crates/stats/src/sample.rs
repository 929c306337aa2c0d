//! A sample and its summary statistics.

use crate::error::{Error, open_unit};
use crate::{normal, student};

/// Two-sided confidence of every interval that does not name another.
pub const CONFIDENCE: f64 = 0.95;

/// A median absolute deviation of normal values is this share of their standard deviation.
const MAD_OF_SD: f64 = 0.674_489_750_196_081_7;

/// At least one finite number, in the order measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// The largest magnitude of a value. Squares of smaller values do not overflow, so that results
    /// computed from a sample are finite.
    pub const LARGEST: f64 = 1e150;

    /// Takes the values.
    ///
    /// # Errors
    /// [`Error::Empty`] without values, [`Error::NotFinite`] with a NaN or an infinity,
    /// [`Error::TooLarge`] with a magnitude above [`Sample::LARGEST`].
    pub fn new(values: impl Into<Vec<f64>>) -> Result<Self, Error> {
        let values = values.into();
        if values.is_empty() {
            return Err(Error::Empty);
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { index });
        }
        match values.iter().position(|value| value.abs() > Self::LARGEST) {
            Some(index) => Err(Error::TooLarge { index }),
            None => Ok(Self { values }),
        }
    }

    /// Takes differences of values of samples, which may be twice as large as a value.
    pub(crate) fn of_differences(values: Vec<f64>) -> Result<Self, Error> {
        if values.is_empty() { Err(Error::Empty) } else { Ok(Self { values }) }
    }

    /// The natural logarithms of the values.
    ///
    /// # Errors
    /// [`Error::NotPositive`] if a value is not positive.
    pub fn logarithms(&self) -> Result<Self, Error> {
        match self.values.iter().position(|value| *value <= 0.0) {
            Some(index) => Err(Error::NotPositive { index }),
            None => Ok(Self { values: self.values.iter().map(|value| value.ln()).collect() }),
        }
    }

    /// The values, in the order measured.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
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
        let mean = rough + self.values.iter().map(|value| (value - rough) / n).sum::<f64>();
        // Roundings must not carry it out of the values, which may all be equal.
        mean.clamp(self.min(), self.max())
    }

    /// The standard deviation with divisor n - 1. `None` for a single value.
    pub fn sd(&self) -> Option<f64> {
        if self.n() < 2 {
            return None;
        }
        let mean = self.mean();
        // In units of the largest deviation, so that squares of tiny numbers do not vanish.
        let largest = self.values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        if largest <= 0.0 {
            return Some(0.0);
        }
        let squares: f64 = self.values.iter().map(|value| ((value - mean) / largest).powi(2)).sum();
        Some(largest * (squares / (self.n() - 1) as f64).sqrt())
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

    /// Returns the typical distance from the median, scaled so that it estimates the standard
    /// deviation of normal values and is insensitive to outliers: the median distance, or the mean
    /// distance if more than half of the values are equal.
    pub fn robust_sd(&self) -> f64 {
        let median = self.median();
        let distances = self.values.iter().map(|value| (value - median).abs()).collect();
        let distances = Self { values: distances };
        match distances.median() {
            mad if mad > 0.0 => mad / MAD_OF_SD,
            _ => distances.mean() * (core::f64::consts::PI / 2.0).sqrt(),
        }
    }

    /// The value below which `percent` of the sample lies, interpolated linearly between order
    /// statistics (the default of R and `NumPy`). `percent` outside 0 to 100 is clamped; NaN
    /// returns the minimum.
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile_of(&self.sorted(), fraction(percent))
    }

    /// Mean, spread and the two-sided 95 % Student t interval of the mean.
    ///
    /// For a single value the interval is from minus to plus infinity.
    pub fn estimate(&self) -> Estimate {
        self.estimate_with(CONFIDENCE, Interval::T).unwrap_or_else(|_| self.without_interval())
    }

    /// Mean, spread and the two-sided interval of the mean of the given confidence and kind.
    ///
    /// # Errors
    /// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1.
    pub fn estimate_with(&self, confidence: f64, interval: Interval) -> Result<Estimate, Error> {
        match self.sd() {
            Some(sd) => Estimate::of_summary(self.mean(), sd, self.n(), confidence, interval),
            None => open_unit("confidence", confidence).map(|_| self.without_interval()),
        }
    }

    /// A mean of which nothing else is known.
    fn without_interval(&self) -> Estimate {
        let (mean, n) = (self.mean(), self.n());
        Estimate { mean, sd: None, n, lo: f64::NEG_INFINITY, hi: f64::INFINITY }
    }
}

/// Which distribution an interval of a mean takes its width from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interval {
    /// Student's t with n - 1 degrees of freedom: right for any n if the values are normal.
    #[default]
    T,
    /// The normal distribution, `1.96 sd / sqrt(n)` at 95 %, as older papers print it. It is too
    /// narrow: at 4 values it covers the mean in 85 % of all experiments, not in 95 %.
    Z,
}

/// The value below which the `share` (0 to 1) of sorted values lies, interpolated linearly.
pub(crate) fn percentile_of(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let share = position - below as f64;
    sorted[below] * (1.0 - share) + sorted[above] * share
}

/// A percentage as a fraction within 0 to 1; NaN is 0.
pub(crate) fn fraction(percent: f64) -> f64 {
    if percent.is_nan() { 0.0 } else { (percent / 100.0).clamp(0.0, 1.0) }
}

/// Estimate of the mean behind a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean of the sample.
    pub mean: f64,
    /// Standard deviation with divisor n - 1; `None` if `n` is 1.
    pub sd: Option<f64>,
    /// Size of the sample.
    pub n: usize,
    /// Lower end of the interval, of 95 % unless another was asked for; minus infinity if `n` is
    /// 1.
    pub lo: f64,
    /// Upper end of the interval; plus infinity if `n` is 1.
    pub hi: f64,
}

impl Estimate {
    /// The estimate that a printed mean, standard deviation (divisor n - 1) and size stand for.
    ///
    /// # Errors
    /// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1,
    /// [`Error::TooFew`] for fewer than 2 values, [`Error::NotFinite`] if `mean` (0) or `sd` (1) is
    /// not finite, [`Error::BadParameter`] if `sd` is negative, [`Error::Overflow`] if an end does
    /// not fit a number.
    pub fn of_summary(
        mean: f64,
        sd: f64,
        n: usize,
        confidence: f64,
        interval: Interval,
    ) -> Result<Self, Error> {
        let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
        if n < 2 {
            return Err(Error::TooFew { have: n, need: 2 });
        }
        if let Some(index) = [mean, sd].iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { index });
        }
        if sd < 0.0 {
            return Err(Error::BadParameter { name: "sd", value: sd });
        }
        let factor = match interval {
            Interval::T => student::tail_quantile(tail, (n - 1) as f64),
            Interval::Z => normal::tail_quantile(tail),
        };
        let half = crate::error::finite(factor * (sd / (n as f64).sqrt()))?;
        Ok(Self { mean, sd: Some(sd), n, lo: mean - half, hi: mean + half })
    }

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
        assert_eq!(Sample::new([]), Err(Error::Empty));
        assert_eq!(Sample::new([1.0, f64::NAN]), Err(Error::NotFinite { index: 1 }));
        assert_eq!(Sample::new([f64::INFINITY]), Err(Error::NotFinite { index: 0 }));
    }

    #[test]
    fn one_value_has_an_infinite_interval_and_no_spread() {
        let estimate = sample(&[7.0]).estimate();
        close(estimate.mean, 7.0, 0.0);
        assert_eq!(estimate.sd, None);
        assert!(estimate.lo.is_infinite() && estimate.lo < 0.0);
        assert!(estimate.hi.is_infinite() && estimate.hi > 0.0);
        assert!(estimate.half_width().is_infinite());
        assert!(estimate.contains(1e300));
    }

    #[test]
    fn equal_values_give_an_interval_of_no_width() {
        let estimate = sample(&[3.0, 3.0, 3.0]).estimate();
        assert_eq!(estimate.sd, Some(0.0));
        close(estimate.half_width(), 0.0, 0.0);
        assert!(estimate.contains(3.0) && !estimate.contains(3.1));
    }

    #[test]
    fn textbook_interval() {
        // Deviations -0.05, -0.25, 0.45, -0.15: sd = sqrt(0.29 / 3); t(0.975, 3) = 3.182446305.
        let estimate = sample(&[5.1, 4.9, 5.6, 5.0]).estimate();
        close(estimate.mean, 5.15, 1e-12);
        close(estimate.sd.unwrap(), 0.310_912_635, 1e-8);
        close(estimate.half_width(), 3.182_446_305 * 0.310_912_635 / 2.0, 1e-8);
        close(estimate.lo, 4.655_268_617, 1e-8);
    }

    #[test]
    fn spread_survives_a_large_offset() {
        let estimate = sample(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]).estimate();
        close(estimate.sd.unwrap(), 1.0, 1e-9);
        close(estimate.mean, 1e9 + 2.0, 1e-6);
    }

    #[test]
    fn the_extremes_of_magnitude() {
        assert_eq!(Sample::new([1.0, 1e151]), Err(Error::TooLarge { index: 1 }));
        let large = sample(&[1e150, -1e150, 1e150]).estimate();
        assert!(large.sd.unwrap().is_finite() && large.lo.is_finite() && large.hi.is_finite());
        close(sample(&[1e-200, 2e-200, 3e-200]).sd().unwrap() / 1e-200, 1.0, 1e-12);
        // The sum of ten tenths misses one; equal values must not get a spread from that.
        assert_eq!(sample(&[0.1; 10]).sd(), Some(0.0));
    }

    #[test]
    fn summaries_are_checked() {
        let of =
            |mean, sd, n, confidence| Estimate::of_summary(mean, sd, n, confidence, Interval::Z);
        close(of(3.291, 0.05, 4, 0.95).unwrap().half_width(), 0.049, 5e-4);
        assert_eq!(of(1.0, 0.1, 1, 0.95), Err(Error::TooFew { have: 1, need: 2 }));
        assert_eq!(of(1.0, f64::NAN, 4, 0.95), Err(Error::NotFinite { index: 1 }));
        assert!(matches!(of(1.0, -0.1, 4, 0.95), Err(Error::BadParameter { .. })));
        for confidence in [0.0, 1.0, f64::NAN, 95.0] {
            assert!(matches!(of(1.0, 0.1, 4, confidence), Err(Error::NotAProbability { .. })));
            assert!(sample(&[1.0]).estimate_with(confidence, Interval::T).is_err());
        }
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
