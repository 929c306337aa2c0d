//! Comparing two means: Welch's t-test, unequal variances allowed.

use crate::alternative::Alternative;
use crate::error::{Error, open_unit};
use crate::sample::{Interval, Sample};
use crate::{normal, student};

/// The difference of two means, its standard error and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// Mean of the candidate less mean of the baseline.
    pub difference: f64,
    /// Difference over its standard error.
    pub t: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    pub df: f64,
    /// Squared standard error of the mean of the baseline.
    pub variance_baseline: f64,
    /// Squared standard error of the mean of the candidate.
    pub variance_candidate: f64,
}

impl Welch {
    /// Compares two unpaired samples.
    ///
    /// # Errors
    /// [`Error::TooFew`] with fewer than two values on a side, [`Error::NoSpread`] if all values
    /// of both sides equal each other within their side (or their spread is too small to square).
    pub fn new(baseline: &Sample, candidate: &Sample) -> Result<Self, Error> {
        let few = |sample: &Sample| Error::TooFew { have: sample.n(), need: 2 };
        let sd_baseline = baseline.sd().ok_or_else(|| few(baseline))?;
        let sd_candidate = candidate.sd().ok_or_else(|| few(candidate))?;
        let variance_baseline = sd_baseline * (sd_baseline / baseline.n() as f64);
        let variance_candidate = sd_candidate * (sd_candidate / candidate.n() as f64);
        let sum = variance_baseline + variance_candidate;
        if sum <= 0.0 {
            return Err(Error::NoSpread);
        }
        // In shares of the sum, so that nothing is raised to the fourth power.
        let (b, c) = (variance_baseline / sum, variance_candidate / sum);
        let df = 1.0 / (b * b / (baseline.n() - 1) as f64 + c * c / (candidate.n() - 1) as f64);
        let difference = candidate.mean() - baseline.mean();
        let t = crate::error::finite(difference / sum.sqrt())?;
        Ok(Self { difference, t, df, variance_baseline, variance_candidate })
    }

    /// The p-value for the alternative.
    pub fn p(&self, alternative: Alternative) -> f64 {
        match alternative {
            Alternative::TwoSided => 2.0 * student::upper_tail(self.t.abs(), self.df),
            Alternative::Less => student::upper_tail(-self.t, self.df),
            Alternative::Greater => student::upper_tail(self.t, self.df),
        }
    }

    /// Half the width of the two-sided interval of the difference.
    ///
    /// # Errors
    /// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1.
    pub fn half_width(&self, confidence: f64, interval: Interval) -> Result<f64, Error> {
        let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
        let factor = match interval {
            Interval::T => student::tail_quantile(tail, self.df),
            Interval::Z => normal::tail_quantile(tail),
        };
        Ok(factor * (self.variance_baseline + self.variance_candidate).sqrt())
    }
}
