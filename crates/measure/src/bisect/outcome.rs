//! Additional results of a finished search.

use super::session::Session;
use convoy_stats::bisect::Answer;
use convoy_stats::{Alternative, Estimate, Sample, Zeros, paired_difference, signed_rank};

/// Beyond this many standard errors the slope of the ends over the search is a drift.
const DRIFT: f64 = 3.5;

/// The first bad commit against its parent, in pairs.
#[derive(Clone, Debug)]
pub struct Confirmed {
    /// The number of the parent.
    pub parent: usize,
    /// How many pairs.
    pub pairs: usize,
    /// First bad commit less parent, in units of the metric.
    pub difference: Estimate,
    /// Of the exact signed-rank test, two-sided.
    pub p: f64,
    /// Whether the interval of the difference lies on the side of the effect.
    pub sure: bool,
}

impl Session<'_> {
    /// The first bad commit against its parent, if they were measured.
    pub fn confirmed(&self, answer: &Answer) -> Option<Confirmed> {
        let made = self.confirmation.as_ref();
        let made = made.filter(|made| Some(made.culprit) == answer.culprit)?;
        let [parent, culprit] = made.pairs();
        let pairs = parent.len();
        let (parent, culprit) = (Sample::new(parent).ok()?, Sample::new(culprit).ok()?);
        let difference = paired_difference(&parent, &culprit).ok()?;
        let test = signed_rank(&parent, &culprit, Zeros::default(), Alternative::TwoSided).ok()?;
        let side = answer.estimates.effect.mean.signum();
        let outer = if side > 0.0 { difference.lo } else { difference.hi };
        let sure = pairs > 1 && outer * side > 0.0;
        Some(Confirmed { parent: made.parent, pairs, difference, p: test.p, sure })
    }

    /// Returns the change of the ends over the whole search, in percent, if their slope is
    /// significant.
    pub fn drift(&self) -> Option<f64> {
        let ends = self.commits.ends();
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for end in ends {
            let of: Vec<(usize, f64)> = self
                .observed
                .iter()
                .enumerate()
                .filter(|(_, run)| run.node == end && !run.above)
                .map(|(index, run)| (index, run.value))
                .collect();
            let n = of.len() as f64;
            let time = of.iter().map(|(at, _)| *at as f64).sum::<f64>() / n;
            let level = of.iter().map(|(_, value)| value).sum::<f64>() / n;
            rows.extend(of.iter().map(|(at, value)| (*at as f64 - time, value / level - 1.0)));
        }
        let n = rows.len() as f64;
        let spread: f64 = rows.iter().map(|(x, _)| x * x).sum();
        let slope = rows.iter().map(|(x, y)| x * y).sum::<f64>() / spread;
        let rest: f64 = rows.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let error = (rest / (n - 3.0) / spread).sqrt();
        let significant = n >= 8.0 && slope.abs() > DRIFT * error;
        significant.then_some(100.0 * slope * self.observed.len() as f64)
    }
}
