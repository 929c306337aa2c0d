//! Changes that are large enough to ask why.

use convoy_lab::experiment::{Change, Plan};
use convoy_lab::job::Outcome;
use convoy_stats::Estimate;

use super::results::Results;

/// A change of a row of a table, and a representative pair of cells.
#[derive(Clone, Debug)]
pub struct LargeChange {
    /// The grid.
    pub grid: String,
    /// Labels of the row.
    pub case: String,
    /// The change, percent; a gain is positive.
    pub gain: Estimate,
    /// Label of the point if a row is the mean of several: the point with the change nearest to the
    /// mean.
    pub point: Option<String>,
    /// Its own change with the first seed, percent.
    pub here: f64,
    /// Numbers of the cells in the plan: the baseline, and the candidate.
    pub cells: [usize; 2],
}

/// The changes of all tables of `plan` that are larger than `percent`, in their order.
pub fn large_changes(plan: &Plan, outcomes: &[Option<Outcome>], percent: f64) -> Vec<LargeChange> {
    let (mut found, mut start) = (Vec::new(), 0);
    for grid in &plan.grids {
        let end = start + grid.cells();
        let own = outcomes.get(start..end).unwrap_or_default();
        let results = Results { plan, grid, outcomes: own };
        let rows = results.rows();
        let all = rows.iter().filter_map(|row| of_row(results, row, start));
        found.extend(all.filter(|change| change.gain.mean.abs() > percent));
        start = end;
    }
    found
}

/// Returns the change of a row, in a grid with its first cell at `start`.
fn of_row(results: Results, row: &[usize], start: usize) -> Option<LargeChange> {
    let compare = results.grid.grid.compare.as_ref()?;
    let base = results.baseline_of(row)?;
    let mean = results.change(&base, row, &compare.metric)?;
    let gain = as_gain(compare.change, mean);
    let first = |index: usize| results.values(index, &compare.metric)?.first().copied();
    let pairs = base.iter().zip(row).filter_map(|(base, index)| {
        let (before, after) = first(*base).zip(first(*index))?;
        Some(([*base, *index], 100.0 * (after / before - 1.0)))
    });
    let far = |here: f64| (here - gain.mean).abs();
    let (points, here) = pairs.min_by(|a, b| far(a.1).total_cmp(&far(b.1)))?;
    let cell = |index: usize| {
        let before = results.grid.points[..index].iter();
        start + before.map(|point| point.jobs.len()).sum::<usize>()
    };
    let axes = results.grid.axes.iter().zip(&results.grid.points[points[1]].at);
    let ranged = axes.map(|(axis, &at)| (axis, &axis.levels[at]));
    let point = ranged
        .filter(|(_, level)| level.range.is_some())
        .map(|(axis, level)| format!("{} {}", level.label, axis.name))
        .next();
    Some(LargeChange {
        grid: results.grid.grid.name.clone(),
        case: results.labels(row[0]).join(", "),
        gain,
        point,
        here,
        cells: points.map(cell),
    })
}

/// A change as percent more than the baseline.
fn as_gain(kind: Change, change: Estimate) -> Estimate {
    match kind {
        Change::Gain => change,
        Change::Loss => {
            let (lo, hi) = (-change.hi, -change.lo);
            Estimate { mean: -change.mean, lo, hi, ..change }
        }
        Change::Ratio => Estimate {
            mean: 100.0 * (change.mean - 1.0),
            sd: change.sd.map(|sd| 100.0 * sd),
            lo: 100.0 * (change.lo - 1.0),
            hi: 100.0 * (change.hi - 1.0),
            ..change
        },
    }
}
