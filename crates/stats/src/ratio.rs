//! The candidate against the baseline as a difference and as a ratio, in pairs and unpaired.
//!
//! Runs with the same seed, or next to each other in time, share their disturbances. Taking the
//! difference or the ratio inside the pair removes them, so the interval is for the pairs and not
//! for two separate means.

use crate::error::{Error, finite, open_unit};
use crate::sample::{CONFIDENCE, Estimate, Interval, Sample};
use crate::welch::Welch;

/// `candidate - baseline`, pair by pair.
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length.
pub fn differences(baseline: &Sample, candidate: &Sample) -> Result<Sample, Error> {
    check_pairs(baseline, candidate)?;
    let pairs = baseline.values().iter().zip(candidate.values());
    Sample::of_differences(pairs.map(|(b, c)| c - b).collect())
}

/// Estimate of `candidate - baseline`, pair by pair.
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length.
pub fn paired_difference(baseline: &Sample, candidate: &Sample) -> Result<Estimate, Error> {
    Ok(differences(baseline, candidate)?.estimate())
}

/// How many times the baseline the candidate is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Ratio of the geometric means; in pairs that is the geometric mean of the ratios.
    pub value: f64,
    /// Number of pairs, or of values on the smaller side.
    pub n: usize,
    /// Lower end of the interval; 0 if `n` is 1.
    pub lo: f64,
    /// Upper end of the interval; infinite if `n` is 1.
    pub hi: f64,
}

impl Ratio {
    /// The farther end of the interval from 1, as a difference that is symmetric as a ratio: 1 %
    /// more, or 1.01 times less.
    pub(crate) fn reach(self) -> f64 {
        if self.lo > 0.0 { self.hi.max(1.0 / self.lo) - 1.0 } else { f64::INFINITY }
    }

    /// The ratio of the baseline to the candidate.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { value: 1.0 / self.value, n: self.n, lo: 1.0 / self.hi, hi: 1.0 / self.lo }
    }

    /// Returns the ratio from an estimate of its logarithm.
    fn of_logs(mean: f64, half: f64, n: usize) -> Result<Self, Error> {
        let value = finite(mean.exp())?;
        Ok(Self { value, n, lo: (mean - half).exp(), hi: (mean + half).exp() })
    }
}

/// Ratio `candidate / baseline` with the 95 % t interval of the logarithms of the ratios of the
/// pairs.
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length, [`Error::NotPositive`] if a value is not
/// positive, [`Error::Overflow`] if the ratio does not fit a number.
pub fn paired_ratio(baseline: &Sample, candidate: &Sample) -> Result<Ratio, Error> {
    paired_ratio_with(baseline, candidate, CONFIDENCE, Interval::T)
}

/// [`paired_ratio`] with the interval of the given confidence and kind.
///
/// # Errors
/// As [`paired_ratio`], and [`Error::NotAProbability`] unless `confidence` lies strictly between 0
/// and 1.
pub fn paired_ratio_with(
    baseline: &Sample,
    candidate: &Sample,
    confidence: f64,
    interval: Interval,
) -> Result<Ratio, Error> {
    let estimate = log_ratios(baseline, candidate)?.estimate_with(confidence, interval)?;
    Ratio::of_logs(estimate.mean, estimate.half_width(), estimate.n)
}

/// Returns `ln candidate - ln baseline`, pair by pair: the basis of the paired ratio and of its
/// sequential test.
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length, [`Error::NotPositive`] if a value is not
/// positive.
pub fn log_ratios(baseline: &Sample, candidate: &Sample) -> Result<Sample, Error> {
    check_pairs(baseline, candidate)?;
    differences(&baseline.logarithms()?, &candidate.logarithms()?)
}

/// Ratio `candidate / baseline` of the geometric means of two unpaired samples, with Welch's
/// interval of the difference of the mean logarithms.
///
/// # Errors
/// [`Error::NotPositive`] if a value is not positive, [`Error::NotAProbability`] unless
/// `confidence` lies strictly between 0 and 1, [`Error::Overflow`] if the ratio does not fit a
/// number.
pub fn unpaired_ratio(
    baseline: &Sample,
    candidate: &Sample,
    confidence: f64,
    interval: Interval,
) -> Result<Ratio, Error> {
    let (baseline, candidate) = (baseline.logarithms()?, candidate.logarithms()?);
    let n = baseline.n().min(candidate.n());
    let mean = candidate.mean() - baseline.mean();
    let half = match Welch::new(&baseline, &candidate) {
        Ok(welch) => welch.half_width(confidence, interval)?,
        Err(Error::NoSpread) => 0.0,
        Err(_) => open_unit("confidence", confidence).map(|_| f64::INFINITY)?,
    };
    Ratio::of_logs(mean, half, n)
}

fn check_pairs(baseline: &Sample, candidate: &Sample) -> Result<(), Error> {
    if baseline.n() == candidate.n() {
        Ok(())
    } else {
        Err(Error::Unpaired { baseline: baseline.n(), candidate: candidate.n() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    #[test]
    fn a_common_disturbance_cancels() {
        let baseline = sample(&[100.0, 200.0, 300.0]);
        let candidate = sample(&[101.0, 201.5, 300.5]);
        let difference = paired_difference(&baseline, &candidate).unwrap();
        assert!((difference.mean - 1.0).abs() < 1e-12);
        assert!((difference.sd.unwrap() - 0.5).abs() < 1e-12);
        // The unpaired spread is 100; the paired interval must not know it.
        assert!(difference.half_width() < 1.3);
    }

    #[test]
    fn the_ratio_of_proportional_sides_is_exact() {
        let ratio = paired_ratio(&sample(&[1.0, 10.0, 100.0]), &sample(&[0.6, 6.0, 60.0])).unwrap();
        assert!((ratio.value - 0.6).abs() < 1e-12);
        assert!((ratio.lo - 0.6).abs() < 1e-9 && (ratio.hi - 0.6).abs() < 1e-9);
    }

    #[test]
    fn swapping_the_sides_inverts_the_ratio() {
        let (a, b) = (sample(&[1.0, 2.0, 4.0]), sample(&[3.0, 5.0, 13.0]));
        let (there, back) = (paired_ratio(&a, &b).unwrap(), paired_ratio(&b, &a).unwrap());
        assert!((there.value * back.value - 1.0).abs() < 1e-12);
        assert!((there.lo * back.hi - 1.0).abs() < 1e-12);
    }

    #[test]
    fn hostile_pairs() {
        let (one, two) = (sample(&[1.0]), sample(&[1.0, 2.0]));
        let unpaired = Error::Unpaired { baseline: 1, candidate: 2 };
        assert_eq!(paired_difference(&one, &two), Err(unpaired));
        assert_eq!(paired_ratio(&one, &two), Err(unpaired));
        let zero = sample(&[1.0, 0.0]);
        assert_eq!(paired_ratio(&two, &zero), Err(Error::NotPositive { index: 1 }));
        let single = paired_ratio(&one, &sample(&[2.0])).unwrap();
        assert_eq!((single.lo, single.hi), (0.0, f64::INFINITY));
        let huge = paired_ratio(&sample(&[1e-300]), &sample(&[1e150]));
        assert_eq!(huge, Err(Error::Overflow));
        // Two of the largest numbers may be twice as far apart, and that is still a sample.
        let (low, high) = (sample(&[-1e150, 0.0]), sample(&[1e150, 0.0]));
        assert!(paired_difference(&low, &high).unwrap().hi.is_finite());
    }

    #[test]
    fn unpaired_ratios() {
        let (a, b) = (sample(&[1.0, 2.0, 4.0]), sample(&[3.0, 6.0, 12.0, 6.0]));
        let ratio = unpaired_ratio(&a, &b, 0.95, Interval::T).unwrap();
        assert!((ratio.value - 3.0).abs() < 1e-12 && ratio.lo < 3.0 && ratio.hi > 3.0);
        let back = unpaired_ratio(&b, &a, 0.95, Interval::T).unwrap().inverse();
        assert!((ratio.lo / back.lo - 1.0).abs() < 1e-12);
        let flat = unpaired_ratio(&sample(&[2.0; 3]), &sample(&[3.0; 2]), 0.95, Interval::T);
        let flat = flat.unwrap();
        assert_eq!((flat.lo, flat.hi), (flat.value, flat.value));
        let single = unpaired_ratio(&sample(&[2.0]), &a, 0.95, Interval::T).unwrap();
        assert_eq!((single.lo, single.hi), (0.0, f64::INFINITY));
    }
}
