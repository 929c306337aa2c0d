//! What the ends tell beside their levels: the cost of a run and of a build, which difference
//! counts, and whether there is one.

use super::journal::Event;
use super::model::search_of;
use super::session::{Session, outcome};
use crate::measure::MeasureError;
use convoy_stats::Sample;
use convoy_stats::bisect::{Answer, Ending};

/// Runs of each end after which the costs and the smallest effect are known.
const END_RUNS: usize = 2;
/// Runs of each end below which an interval of the effect is not trusted to show no difference.
const SURE_RUNS: usize = 8;

impl Session<'_> {
    /// Once both ends have been measured: what a run and a build cost, and which difference counts.
    pub(super) fn find_costs(&mut self) -> Result<(), MeasureError> {
        let ends = self.commits.ends();
        let of = |end: usize| self.observed.iter().filter(move |run| run.node == end);
        if self.costs || ends.into_iter().any(|end| of(end).count() < END_RUNS) {
            return Ok(());
        }
        let run_s = median(of(ends[0]).map(|run| run.seconds).collect()).max(1e-9);
        let build_s = median(self.builds.seconds.clone());
        let [run, build] = self.settings.build_cost.map_or([run_s, build_s], |cost| [1.0, cost]);
        let level = median(of(ends[0]).map(|run| run.value).collect());
        let min_effect = level.abs() * self.settings.min_effect / 100.0;
        self.journal.append(&Event::Costs { run, build, min_effect })?;
        self.apply_costs([run, build, min_effect])
    }

    /// The search with its costs, told again what it was told.
    pub(super) fn apply_costs(&mut self, costs: [f64; 3]) -> Result<(), MeasureError> {
        let prior = self.prior;
        self.search = search_of(self.settings, self.commits, prior, Some(costs))?;
        for run in &self.observed {
            let search = &mut self.search;
            search.observe(run.node, run.build, outcome(run)).map_err(MeasureError::machine)?;
        }
        for node in self.skipped.keys() {
            self.search.skip(*node).map_err(MeasureError::machine)?;
        }
        self.costs = true;
        self.least = Some(costs[2]);
        Ok(())
    }

    /// The answer if the 99 % interval of the effect lies within what is no regression.
    pub(super) fn no_difference(&mut self) -> Option<Answer> {
        let least = self.least?;
        let of = |end: usize| self.observed.iter().filter(move |run| run.node == end && !run.above);
        if self.commits.ends().into_iter().any(|end| of(end).count() < SURE_RUNS) {
            return None;
        }
        let estimates = self.search.estimates()?;
        let effect = estimates.effect;
        // From the half width at 95 % (1.96) to that at 99 % (2.576).
        let half = 0.5 * (effect.hi - effect.lo) * 2.576 / 1.96;
        (effect.mean.abs() + half < least).then(|| Answer {
            culprit: None,
            confidence: 0.99,
            credible_set: Vec::new(),
            no_regression: self.search.no_regression(),
            ending: Ending::NoRegression,
            estimates,
        })
    }
}

/// The middle value; 0 of none.
fn median(values: Vec<f64>) -> f64 {
    Sample::new(values).map_or(0.0, |sample| sample.median())
}
