//! A change, and what stands beside it: the published one, the null model, and what a loss does
//! not say.

use convoy_lab::experiment::Change;
use convoy_stats::Estimate;

use super::Results;
use crate::format::fixed;
use crate::table::Cell;

/// A baseline that idles more than this hides what a job costs more: the candidate first uses up
/// the idle time.
const IDLE_PERCENT: f64 = 5.0;

/// The change of `key` from the point `base` to the point `index`, in pairs of seeds.
pub(super) fn change(results: Results, base: usize, index: usize, key: &str) -> Option<Estimate> {
    let kind = results.grid.grid.compare.as_ref()?.change;
    let (before, after) = results.values(base, key).zip(results.values(index, key))?;
    let pairs = before.iter().zip(&after);
    results.estimate(pairs.map(|(base, value)| kind.of(*base, *value)).collect())
}

/// Whether the source has changes of this grid.
pub(super) fn publishes(results: Results) -> bool {
    let compare = results.grid.grid.compare.as_ref();
    let rows = &results.grid.grid.published;
    compare.is_some_and(|compare| {
        !compare.published.is_empty() || rows.iter().any(|row| row.change.is_some())
    })
}

/// What was published of the change of the point `index`.
fn published(results: Results, index: usize) -> Option<f64> {
    let compare = results.grid.grid.compare.as_ref()?;
    let at = &results.grid.points[index].at;
    if let Some(change) = results.grid.published(at).and_then(|row| row.change) {
        return Some(change);
    }
    let axis = results.grid.axis(&compare.axis)?;
    let level = at[axis];
    compare.published.get(&results.grid.axes[axis].levels[level].label).copied()
}

/// The published change, and the error of `ours`.
pub(super) fn cells(results: Results, index: usize, ours: Option<f64>) -> [Cell; 2] {
    let theirs = published(results, index);
    let signed = |value: f64| Cell::shown(format!("{}{}", plus(value), fixed(value, 1)), value);
    [
        theirs.map_or_else(Cell::empty, |value| Cell::number(value, 1)),
        ours.zip(theirs).map_or_else(Cell::empty, |(ours, theirs)| signed(ours - theirs)),
    ]
}

fn plus(value: f64) -> &'static str {
    if value >= 0.0 { "+" } else { "" }
}

/// Each point that is compared, and the baseline of it.
fn pairs(results: Results) -> impl Iterator<Item = (usize, usize)> {
    (0..results.grid.points.len()).filter_map(move |index| {
        let base = results.baseline(index).filter(|base| *base != index)?;
        Some((base, index))
    })
}

/// The mean error beside that of predicting no change, and which baselines idle too much for their
/// losses to be called small.
pub(super) fn notes(results: Results) -> Vec<String> {
    errors(results).into_iter().chain(idle(results)).collect()
}

fn errors(results: Results) -> Option<String> {
    let compare = results.grid.grid.compare.as_ref()?;
    let none = if compare.change == Change::Ratio { 1.0 } else { 0.0 };
    let found: Vec<(f64, f64)> = pairs(results)
        .filter_map(|(base, index)| {
            let theirs = published(results, index)?;
            let ours = change(results, base, index, &compare.metric)?.mean;
            Some(((ours - theirs).abs(), (none - theirs).abs()))
        })
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
    (!found.is_empty()).then(|| {
        format!(
            "changes are off by {} on average, predicting no change by {}",
            fixed(mean(|pair| pair.0), 1),
            fixed(mean(|pair| pair.1), 1)
        )
    })
}

fn idle(results: Results) -> Option<String> {
    let mean = |index: usize, key: &str| Some(results.estimate(results.values(index, key)?)?.mean);
    let mut told: Vec<String> = Vec::new();
    for (base, index) in pairs(results) {
        let Some(idle) = mean(base, "idle_percent").filter(|idle| *idle > IDLE_PERCENT) else {
            continue;
        };
        let cpu = mean(index, "cpu_ms_per_job").zip(mean(base, "cpu_ms_per_job"));
        let Some((after, before)) = cpu else { continue };
        let case = results.grid.labels(&results.grid.points[index]).join(", ");
        let more = 100.0 * (after / before - 1.0);
        told.push(format!(
            "{case}: {} % idle, CPU/job {}{} %",
            fixed(idle, 1),
            plus(more),
            fixed(more, 1)
        ));
    }
    (!told.is_empty()).then(|| {
        format!(
            "a baseline that idles above {IDLE_PERCENT} % hides what a job costs more, so no loss \
             here is a small one: {}",
            told.join("; ")
        )
    })
}
