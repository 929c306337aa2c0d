//! Two sides measured in pairs: the difference and the ratio of what one pair saw.
//!
//! Runs with the same seed, or next to each other in time, share their disturbances. Taking the
//! difference inside the pair removes them, so the interval is that of the differences and not that
//! of two separate means.

use crate::sample::{Estimate, Sample, SampleError};

/// Estimate of `candidate - baseline`, pair by pair.
///
/// # Errors
/// [`SampleError::Unpaired`] if the samples differ in length; [`SampleError::NotFinite`] if a
/// difference overflows.
pub fn paired_difference(baseline: &Sample, candidate: &Sample) -> Result<Estimate, SampleError> {
    check_pairs(baseline, candidate)?;
    let differences: Vec<f64> =
        baseline.values().iter().zip(candidate.values()).map(|(b, c)| c - b).collect();
    Ok(Sample::new(differences)?.estimate())
}

/// How many times the baseline the candidate is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the ratios of the pairs.
    pub value: f64,
    /// Number of pairs.
    pub n: usize,
    /// Lower end of the 95 % interval; 0 if `n` is 1.
    pub lo: f64,
    /// Upper end of the 95 % interval; infinite if `n` is 1.
    pub hi: f64,
}

/// Ratio `candidate / baseline` with the t interval of the logarithms of the ratios of the pairs.
///
/// # Errors
/// [`SampleError::Unpaired`] if the samples differ in length, [`SampleError::NotPositive`] if a
/// value is not positive, [`SampleError::NotFinite`] if a ratio overflows.
pub fn paired_ratio(baseline: &Sample, candidate: &Sample) -> Result<Ratio, SampleError> {
    check_pairs(baseline, candidate)?;
    for side in [baseline, candidate] {
        if let Some(index) = side.values().iter().position(|value| *value <= 0.0) {
            return Err(SampleError::NotPositive { index });
        }
    }
    let logs: Vec<f64> =
        baseline.values().iter().zip(candidate.values()).map(|(b, c)| c.ln() - b.ln()).collect();
    let estimate = Sample::new(logs)?.estimate();
    Ok(Ratio {
        value: estimate.mean.exp(),
        n: estimate.n,
        lo: estimate.lo.exp(),
        hi: estimate.hi.exp(),
    })
}

fn check_pairs(baseline: &Sample, candidate: &Sample) -> Result<(), SampleError> {
    if baseline.n() == candidate.n() {
        Ok(())
    } else {
        Err(SampleError::Unpaired { baseline: baseline.n(), candidate: candidate.n() })
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
        assert!((difference.sd - 0.5).abs() < 1e-12);
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
        let unpaired = SampleError::Unpaired { baseline: 1, candidate: 2 };
        assert_eq!(paired_difference(&one, &two), Err(unpaired));
        assert_eq!(paired_ratio(&one, &two), Err(unpaired));
        let zero = sample(&[1.0, 0.0]);
        assert_eq!(paired_ratio(&two, &zero), Err(SampleError::NotPositive { index: 1 }));
        let single = paired_ratio(&one, &sample(&[2.0])).unwrap();
        assert_eq!((single.lo, single.hi), (0.0, f64::INFINITY));
        let (low, high) = (sample(&[-f64::MAX]), sample(&[f64::MAX]));
        assert_eq!(paired_difference(&low, &high), Err(SampleError::NotFinite { index: 0 }));
    }
}
