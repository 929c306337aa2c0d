//! A change, with the published change, the null model, and the limits of a loss.

use convoy_lab::experiment::Change;
use convoy_stats::Estimate;

use super::results::Results;
use super::sentence;
use crate::format::fixed;
use crate::table::Cell;

/// A baseline that idles more than this hides an increase of the cost per job: the candidate first
/// uses up the idle time.
const IDLE_PERCENT: f64 = 5.0;
/// Most such rows that a note lists one by one where the table has the columns.
const LISTED: usize = 4;

/// The change of `key` from the point `base` to the point `index`, in pairs of seeds.
pub(super) fn change(results: Results, base: usize, index: usize, key: &str) -> Option<Estimate> {
    change_as(results, results.grid.grid.compare.as_ref()?.change, [base, index], key)
}

/// The change of `key` between two points: in pairs of seeds, or of their means where each point
/// has as many seeds as its own spread asks for.
pub(super) fn change_as(
    results: Results,
    kind: Change,
    [base, index]: [usize; 2],
    key: &str,
) -> Option<Estimate> {
    let (before, after) = results.values(base, key).zip(results.values(index, key))?;
    if results.grid.staged {
        return results.grid.grid.staged_change(kind, &before, &after);
    }
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

/// Returns the published change of the point `index`.
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

/// Returns the published change, the error of `ours`, and the error of the null model, which
/// predicts no change.
pub(super) fn cells(results: Results, index: usize, ours: Option<f64>) -> [Cell; 3] {
    let none = none(results);
    let theirs = published(results, index);
    let signed = |value: f64| Cell::shown(format!("{}{}", plus(value), fixed(value, 1)), value);
    [
        Cell::known(theirs, 1),
        ours.zip(theirs).map_or_else(Cell::empty, |(ours, theirs)| signed(ours - theirs)),
        theirs.map_or_else(Cell::empty, |theirs| signed(none - theirs)),
    ]
}

/// The change where nothing changes.
fn none(results: Results) -> f64 {
    let compare = results.grid.grid.compare.as_ref();
    if compare.is_some_and(|compare| compare.change == Change::Ratio) { 1.0 } else { 0.0 }
}

fn plus(value: f64) -> &'static str {
    if value >= 0.0 { "+" } else { "" }
}

/// Each row that is compared, and the baseline of it, point by point.
fn pairs(results: Results) -> impl Iterator<Item = (Vec<usize>, Vec<usize>)> {
    results.rows().into_iter().filter_map(move |row| Some((results.baseline_of(&row)?, row)))
}

/// Returns the mean error with the error of predicting no change, and the baselines that idle too
/// much for their losses to be called small.
pub(super) fn notes(results: Results) -> Vec<String> {
    errors(results).into_iter().chain(idle(results)).collect()
}

fn errors(results: Results) -> Option<String> {
    let (own, none) = mean_errors(results)?;
    let [own, none] = [own, none].map(|error| fixed(error, 1));
    Some(format!("changes are off by {own} on average, predicting no change by {none}"))
}

/// Returns whether the published changes are reproduced: the mean error, compared with the error of
/// predicting no change, which a model has to beat. Parts of runs reproduce nothing, however close
/// they are.
pub(super) fn verdict(results: Results) -> Option<String> {
    let said = mean_errors(results).map(reproduced)?;
    Some(if sentence::is_cut(results.grid) {
        format!("only parts of the published runs were made; {said}")
    } else {
        said
    })
}

fn reproduced((own, none): (f64, f64)) -> String {
    let [own_text, none_text] = [own, none].map(|error| fixed(error, 1));
    if own < none {
        format!("changes are off by {own_text} on average, predicting no change by {none_text}")
    } else {
        format!(
            "the published changes are not reproduced, off by {own_text} on average; predicting \
             no change is off by {none_text}"
        )
    }
}

/// Mean errors of the changes found, and of no change.
fn mean_errors(results: Results) -> Option<(f64, f64)> {
    let compare = results.grid.grid.compare.as_ref()?;
    let none = none(results);
    let found: Vec<(f64, f64)> = pairs(results)
        .filter_map(|(base, row)| {
            let theirs = published(results, row[0])?;
            let ours = results.change(&base, &row, &compare.metric)?.mean;
            Some(((ours - theirs).abs(), (none - theirs).abs()))
        })
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
    (!found.is_empty()).then(|| (mean(|pair| pair.0), mean(|pair| pair.1)))
}

fn idle(results: Results) -> Option<String> {
    let mean = |row: &[usize], key: &str| results.mean(row, key).map(|mean| mean.mean);
    let (mut told, mut count) = (Vec::new(), 0);
    for (base, row) in pairs(results) {
        count += 1;
        let Some(idle) = mean(&base, "idle_percent").filter(|idle| *idle > IDLE_PERCENT) else {
            continue;
        };
        let cpu = mean(&row, "cpu_ms_per_job").zip(mean(&base, "cpu_ms_per_job"));
        let Some((after, before)) = cpu else { continue };
        let case = results.labels(row[0]).join(", ");
        let more = 100.0 * (after / before - 1.0);
        told.push(format!(
            "{case}: {} % idle, CPU/job {}{} %",
            fixed(idle, 1),
            plus(more),
            fixed(more, 1)
        ));
    }
    // A table with both in adjacent columns does not repeat them.
    let has = |key: &str| results.grid.grid.metrics.iter().any(|metric| metric == key);
    let told = match told.len() {
        0 => return None,
        some if some > LISTED && has("idle_percent") && has("cpu_ms_per_job") => {
            format!("{some} of {count} baselines, see the columns")
        }
        _ => told.join("; "),
    };
    Some(format!(
        "a baseline that idles above {IDLE_PERCENT} % hides what a job costs more, so no loss here \
         is a small one: {told}"
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_no_better_than_no_change_is_not_reproduced() {
        let better = super::reproduced((2.7, 4.2));
        assert_eq!(better, "changes are off by 2.7 on average, predicting no change by 4.2");
        let worse = super::reproduced((4.4, 4.2));
        assert!(
            worse.starts_with("the published changes are not reproduced, off by 4.4"),
            "{worse}"
        );
        assert!(worse.ends_with("predicting no change is off by 4.2"), "{worse}");
    }
}
