//! Seeds until the answer is known: how many more each point of a grid needs.
//!
//! The number follows from the spread of the first look alone, never from a mean (Stein's two
//! stages), so that the interval holds what it states although the data chose its size; and all
//! decisions are taken between looks, so that they do not depend on which cell ends first.

use convoy_stats::{Sample, two_stage};

use super::plan::Planner;
use super::{Plan, PlanError, PlannedGrid};
use crate::job::Outcome;

/// Confidence of the interval whose half is bounded.
const CONFIDENCE: f64 = 0.95;

impl Plan {
    /// The plan with the seeds that `outcomes`, one for each of its cells, ask for; `None` if every
    /// change is known as well as it is asked for, or a cell has no outcome.
    ///
    /// # Errors
    /// [`PlanError`] of a cell that cannot be made.
    pub fn longer(&self, outcomes: &[Option<Outcome>]) -> Result<Option<Self>, PlanError> {
        let mut longer = self.clone();
        let mut rest = outcomes;
        for grid in &mut longer.grids {
            let (own, others) = rest.split_at(grid.cells().min(rest.len()));
            rest = others;
            if !grid.open {
                continue;
            }
            let Some(wanted) = wanted(grid, own) else { return Ok(None) };
            let before = grid.grid.clone();
            let planner =
                Planner { experiment: &self.experiment, grid: &before, changes: &self.changes };
            for (index, count) in wanted.into_iter().enumerate() {
                let first = self.changes.seed;
                let seeds: Vec<u64> = (grid.seeds.len()..count).map(|i| first + i as u64).collect();
                let more = planner.jobs(grid, &grid.points[index].at, &seeds)?;
                grid.points[index].jobs.extend(more);
            }
            grid.open = false;
        }
        Ok((self.jobs().count() < longer.jobs().count()).then_some(longer))
    }
}

/// How many seeds each point needs: a point and its baseline as many as their change.
fn wanted(grid: &PlannedGrid, outcomes: &[Option<Outcome>]) -> Option<Vec<usize>> {
    let (compare, half_width) = (grid.grid.compare.as_ref()?, grid.grid.half_width?);
    let looked = grid.seeds.len();
    let values = |index: usize| -> Option<Vec<f64>> {
        let own = outcomes.get(index * looked..(index + 1) * looked)?;
        own.iter().map(|outcome| outcome.as_ref()?.metric(&compare.metric)).collect()
    };
    let mut wanted = vec![looked; grid.points.len()];
    for index in 0..grid.points.len() {
        let Some(base) = grid.baseline(index).filter(|base| *base != index) else { continue };
        let (before, after) = (values(base)?, values(index)?);
        let pairs = before.iter().zip(&after);
        let changes: Vec<f64> = pairs.map(|(base, own)| compare.change.of(*base, *own)).collect();
        let sample = Sample::new(changes).ok()?;
        let count = two_stage(&sample, half_width, CONFIDENCE).unwrap_or(usize::MAX);
        let count = count.min(grid.grid.seeds_at_most as usize).max(looked);
        for point in [base, index] {
            wanted[point] = wanted[point].max(count);
        }
    }
    Some(wanted)
}
