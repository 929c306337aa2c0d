//! Seeds until the answer is known: how many more each point of a grid needs.
//!
//! The number follows from the spread of the first seeds alone, never from a mean (Stein's two
//! stages), so that the interval has its nominal coverage although the data determine its size; and
//! all decisions are taken between stages, so that they do not depend on which cell ends first.
//!
//! Three seeds say too little of the spread of a noisy point: their interval would ask for many
//! times the seeds. So a grid may look twice: at a few seeds of every point, which are enough where
//! nothing happens, and at more of those that spread. A fifth of the error that 95 % allows goes to
//! the first look and the rest to the second, so that both together keep it (Bonferroni).

use convoy_stats::{Estimate, Staged, staged_half_width, staged_values};

use super::plan::Planner;
use super::{Change, Grid, Plan, PlanError, PlannedGrid};
use crate::job::Outcome;

/// Confidence of the bounded interval.
const CONFIDENCE: f64 = 0.95;
/// Confidence of the first of two stages.
const CONFIDENCE_FIRST: f64 = 0.99;
const CONFIDENCE_SECOND: f64 = 0.96;

impl Grid {
    /// Returns the number of a point's `n` seeds that determine its spread: the seeds of the last
    /// stage.
    pub fn pilot(&self, n: usize) -> usize {
        let looks = self.second_look.into_iter().chain([self.seeds]);
        looks.map(|seeds| seeds as usize).find(|&seeds| seeds <= n).unwrap_or(n)
    }

    /// Returns the confidence of a change with `pilots` seeds in the sides' last stages.
    fn confidence(&self, pilots: [usize; 2]) -> f64 {
        match self.second_look {
            None => CONFIDENCE,
            Some(second) if pilots.contains(&(second as usize)) => CONFIDENCE_SECOND,
            Some(_) => CONFIDENCE_FIRST,
        }
    }

    fn side(&self, values: &[f64]) -> Option<Staged> {
        Staged::new(values, self.pilot(values.len())).ok()
    }

    /// Returns the change from `before` to `after`, values by seed of a grid with a `half_width`,
    /// and its 95 % interval; the sides may have different numbers of seeds.
    pub fn staged_change(&self, kind: Change, before: &[f64], after: &[f64]) -> Option<Estimate> {
        let (base, own) = (self.side(before)?, self.side(after)?);
        let confidence = self.confidence([base.pilot, own.pilot]);
        let half = kind.per_ratio() * staged_half_width(&base, &own, confidence).ok()?;
        let mean = kind.of(base.mean, own.mean);
        let n = before.len().min(after.len());
        Some(Estimate { mean, sd: None, n, lo: mean - half, hi: mean + half })
    }

    /// How many seeds the two sides of a change need after this look; the same if it is known.
    fn wanted(&self, half_width: f64, before: &[f64], after: &[f64]) -> Option<[usize; 2]> {
        let sides = [self.side(before)?, self.side(after)?];
        let half_width = half_width / self.compare.as_ref()?.change.per_ratio();
        let pilots = sides.map(|side| side.pilot);
        let confidence = self.confidence(pilots);
        let now = sides.map(|side| side.n);
        if staged_half_width(&sides[0], &sides[1], confidence).ok()? <= half_width {
            return Some(now);
        }
        let most = self.seeds_at_most as usize;
        let Some(second) = self.second_look.map(|second| (second as usize).min(most)) else {
            return staged_values(sides, [most; 2], half_width, confidence).ok();
        };
        if confidence == CONFIDENCE_FIRST {
            // Who alone has half of the square of what is too much gets the second look. One of the
            // two does: together they have no fewer degrees of freedom.
            let alone = |side: &Staged| -> Option<bool> {
                let none = Staged { spread: 0.0, mean: sides[0].mean, ..*side };
                let own = Staged { mean: sides[1].mean, ..*side };
                let half = staged_half_width(&none, &own, confidence).ok()?;
                Some(half > half_width * std::f64::consts::FRAC_1_SQRT_2)
            };
            let of = |noisy: bool, n: usize| if noisy { second } else { n };
            return Some([of(alone(&sides[0])?, now[0]), of(alone(&sides[1])?, now[1])]);
        }
        // Points that one look was enough for keep the spread of that look.
        let most = pilots.map(|pilot| if pilot < second { second - 1 } else { most });
        staged_values(sides, most, half_width, confidence).ok()
    }
}

impl Plan {
    /// Returns the plan with the seeds that `outcomes`, one for each of its cells, require; `None`
    /// if every change is known precisely enough, or a cell does not have an outcome.
    ///
    /// # Errors
    /// [`PlanError`] of a cell that cannot be made.
    pub fn longer(&self, outcomes: &[Option<Outcome>]) -> Result<Option<Self>, PlanError> {
        let mut longer = self.clone();
        let mut remaining = outcomes;
        for grid in &mut longer.grids {
            let (cells, later) = remaining.split_at(grid.cells().min(remaining.len()));
            remaining = later;
            if grid.looks == 0 {
                continue;
            }
            let Some(wanted) = wanted(grid, cells) else { return Ok(None) };
            let before = grid.grid.clone();
            let planner =
                Planner { experiment: &self.experiment, grid: &before, changes: &self.changes };
            for (index, count) in wanted.into_iter().enumerate() {
                let first = self.changes.seed;
                let now = grid.points[index].jobs.len();
                let seeds: Vec<u64> = (now..count).map(|i| first + i as u64).collect();
                let more = planner.jobs(grid, &grid.points[index].at, &seeds)?;
                grid.points[index].jobs.extend(more);
            }
            grid.looks -= 1;
        }
        Ok((self.jobs().count() < longer.jobs().count()).then_some(longer))
    }
}

/// How many seeds each point needs: the most that one of its changes asks for.
fn wanted(grid: &PlannedGrid, outcomes: &[Option<Outcome>]) -> Option<Vec<usize>> {
    let (compare, half_width) = (grid.grid.compare.as_ref()?, grid.grid.half_width?);
    let mut remaining = outcomes;
    let mut values: Vec<Vec<f64>> = Vec::new();
    for point in &grid.points {
        let (seeds, later) = remaining.split_at_checked(point.jobs.len())?;
        remaining = later;
        let metrics = seeds.iter().map(|outcome| outcome.as_ref()?.metric(&compare.metric));
        values.push(metrics.collect::<Option<_>>()?);
    }
    let mut wanted: Vec<usize> = values.iter().map(Vec::len).collect();
    for index in 0..grid.points.len() {
        let Some(base) = grid.baseline(index).filter(|base| *base != index) else { continue };
        let found = grid.grid.wanted(half_width, &values[base], &values[index])?;
        for (point, count) in [base, index].into_iter().zip(found) {
            wanted[point] = wanted[point].max(count);
        }
    }
    Some(wanted)
}
