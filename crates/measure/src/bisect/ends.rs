//! Parameters from the measurement of the ends: the cost of a run and of a build, and the smallest
//! relevant difference.

use super::journal::Event;
use super::model::search_of;
use super::session::{Session, outcome};
use crate::MeasureError;
use convoy_stats::Sample;

/// Runs of each end after which the costs and the smallest effect are known.
const END_RUNS: usize = 2;

impl Session<'_> {
    /// Once both ends have been measured: determines the cost of a run and of a build, and the
    /// smallest relevant difference.
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

    /// Restarts the search with its costs and replays the observations.
    pub(super) fn apply_costs(&mut self, costs: [f64; 3]) -> Result<(), MeasureError> {
        self.search = search_of(self.settings, self.commits, self.prior, Some(costs))?;
        for run in &self.observed {
            let search = &mut self.search;
            search.observe(run.node, run.build, outcome(run)).map_err(MeasureError::machine)?;
        }
        for node in self.skipped.keys() {
            self.search.skip(*node).map_err(MeasureError::machine)?;
        }
        self.costs = true;
        Ok(())
    }
}

/// The middle value; 0 of none.
fn median(values: Vec<f64>) -> f64 {
    Sample::new(values).map_or(0.0, |sample| sample.median())
}
