//! The outcomes of one grid, point by point.

use convoy_lab::experiment::{Plan, PlannedGrid};
use convoy_lab::job::Outcome;
use convoy_stats::{Estimate, Sample, two_stage_interval};

/// A grid with one outcome, or none, for each of its cells.
#[derive(Clone, Copy)]
pub(super) struct Results<'a> {
    pub(super) plan: &'a Plan,
    pub(super) grid: &'a PlannedGrid,
    pub(super) outcomes: &'a [Option<Outcome>],
}

impl<'a> Results<'a> {
    /// The outcomes of a point; `None` unless all its seeds have one.
    pub(super) fn point(&self, index: usize) -> Option<Vec<&'a Outcome>> {
        let start: usize = self.grid.points[..index].iter().map(|point| point.jobs.len()).sum();
        let end = start + self.grid.points.get(index)?.jobs.len();
        self.outcomes.get(start..end)?.iter().map(Option::as_ref).collect()
    }

    /// Returns mean and interval of values, seed by seed; `None` without values, or if one is not
    /// finite.
    pub(super) fn estimate(&self, values: Vec<f64>) -> Option<Estimate> {
        let sample = Sample::new(values).ok()?;
        // Where the first seeds have decided how many there are, only they say how far values
        // spread.
        let looked = self.grid.grid.pilot(sample.n());
        let more = self.grid.staged && sample.n() > looked && looked > 1;
        let staged = more.then(|| two_stage_interval(&sample, looked, 0.95).ok()).flatten();
        Some(staged.unwrap_or_else(|| sample.estimate()))
    }

    /// One number of a point, seed by seed; `None` if a seed lacks it.
    pub(super) fn values(&self, index: usize, metric: &str) -> Option<Vec<f64>> {
        self.point(index)?.into_iter().map(|outcome| outcome.metric(metric)).collect()
    }

    /// The point that `index` is compared with.
    pub(super) fn baseline(&self, index: usize) -> Option<usize> {
        self.grid.baseline(index)
    }
}

/// The median of values; `None` without values, or if one is not finite.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values.to_vec()).ok().map(|sample| sample.median())
}
