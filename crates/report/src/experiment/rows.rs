//! A grid as a table: one row for each point, or with one axis across.

use std::collections::BTreeMap;

use convoy_lab::experiment::{Change, Level, Point};
use convoy_lab::job::Job;
use convoy_os::Disturbance;
use serde_json::Value;

use super::beside::{self, change};
use super::published::ending;
use super::results::Results;
use super::{ranges, sentence};
use crate::format::fixed;
use crate::metric::{Metric, metric};
use crate::table::{Cell, Column, Table};
use crate::verdict::{self, LockCell};

/// The cell of half an interval; one seed has none.
pub(super) fn half_width(value: f64) -> Cell {
    // One decimal would turn a small interval into none, or make one of none.
    let decimals = if value < 0.05 { 3 } else { 1 };
    let text =
        if value.is_finite() { format!("± {}", fixed(value, decimals)) } else { String::new() };
    Cell::shown(text, value)
}

/// The cell of a metric: a time in the unit that a person reads.
pub(super) fn metric_cell(key: &str, value: f64) -> Cell {
    if key.ends_with("_us") {
        return Cell::duration(Some(value));
    }
    Cell::number(value, shown(key).2)
}

/// The label of a point on one axis; of a number, the number.
pub(super) fn label_cell(level: &Level) -> Cell {
    if let Some(range) = &level.range {
        return Cell::text(range.as_str());
    }
    match level.number() {
        Some(number) if number >= 0.0 && number.fract() == 0.0 => Cell::count(number as u64),
        Some(number) => Cell::shown(level.label.as_str(), number),
        None => Cell::text(level.label.as_str()),
    }
}

/// How a metric is printed.
pub(super) fn shown(key: &str) -> (String, &'static str, usize) {
    match metric(key) {
        Some(Metric { title, head, decimals, .. }) => (title.to_owned(), head, decimals),
        None => (key.to_owned(), "", 3),
    }
}

/// The values of each metric seed by seed, for each row of a table that has a row for each point;
/// of a range, point by point.
fn samples(results: Results) -> Vec<Value> {
    let of = |index: usize| -> BTreeMap<String, Vec<f64>> {
        let values = |key: String| Some((key.clone(), results.values(index, &key)?));
        metrics(results).into_iter().filter_map(values).collect()
    };
    let point = |&index: &usize| {
        let at = results.grid.labels(&results.grid.points[index]);
        serde_json::json!({ "at": at, "samples": of(index) })
    };
    let row = |row: &Vec<usize>| match &row[..] {
        [index] => serde_json::json!(of(*index)),
        several => several.iter().map(point).collect(),
    };
    results.rows().iter().map(row).collect()
}

/// Returns the rows of the JSON: the table's, with the values of each seed if there are several.
pub(super) fn json(results: Results, table: &Table) -> Value {
    let mut rows = table.to_json();
    let pivot = results.grid.grid.columns.is_some();
    if let (false, true, Some(rows)) = (pivot, results.grid.seeds.len() > 1, rows.as_array_mut()) {
        for (row, samples) in rows.iter_mut().zip(samples(results)) {
            row["samples"] = samples;
        }
    }
    rows
}

/// A warning if other programs had a part of the machine.
pub(super) fn disturbance(
    others: impl Iterator<Item = Vec<f64>>,
    results: Results,
) -> Option<String> {
    let others = others.filter_map(|values| results.estimate(values));
    let most = others.map(|others| others.mean).reduce(f64::max)?;
    let found = Disturbance { seconds: 1.0, others_s: most, ..Disturbance::default() };
    found.sentence().map(|sentence| {
        format!(
            "{sentence} Other load slows down locks that keep the CPUs busy, and hides the cost of \
             locks that leave CPUs idle."
        )
    })
}

/// [`disturbance`] of all points of a grid.
pub(super) fn disturbed(results: Results) -> Option<String> {
    let points = 0..results.grid.points.len();
    let others = points.filter_map(|index| results.values(index, "others_cpus"));
    disturbance(others, results)
}

/// The table, and a sentence of its largest change.
pub(super) fn table(results: Results) -> (Table, Option<String>) {
    let grid = results.grid;
    let title = sentence::title(results);
    let across = grid.grid.columns.as_ref().and_then(|name| grid.axis(name));
    let mut table = match across {
        Some(axis) => pivot(results, axis, &title),
        None => plain(results, &title),
    };
    let notes = sentence::looks(grid).into_iter().chain(grid.grid.notes.iter().cloned());
    let notes = notes.chain(disturbed(results));
    for note in notes.chain(ending(results)) {
        table.note(note);
    }
    (table, verdict(results))
}

fn metrics(results: Results) -> Vec<String> {
    let own = &results.grid.grid.metrics;
    if !own.is_empty() {
        return own.clone();
    }
    results.grid.grid.target.metrics().iter().map(|key| (*key).to_owned()).collect()
}

/// Title, unit and decimals of a change.
fn change_column(results: Results) -> Option<(String, &'static str, usize, &'static str)> {
    let compare = results.grid.grid.compare.as_ref()?;
    Some(match compare.change {
        Change::Loss => ("loss".to_owned(), "%", 1, "loss_percent"),
        Change::Gain => ("gain".to_owned(), "%", 1, "gain_percent"),
        Change::Ratio => ("ratio".to_owned(), "", 3, "ratio"),
    })
}

fn plain(results: Results, title: &str) -> Table {
    let grid = results.grid;
    let mut columns: Vec<Column> = grid.axes.iter().map(|axis| Column::text(&axis.name)).collect();
    let metrics = metrics(results);
    let compared = change_column(results);
    let compare = grid.grid.compare.as_ref();
    for key in &metrics {
        let (title, unit, _) = shown(key);
        let column = Column::number(&title, unit).key(key);
        let is_minor = metric(key).is_some_and(|metric| metric.minor);
        columns.push(if is_minor { column.minor() } else { column });
        if let (Some((title, unit, _, name)), true) =
            (&compared, compare.is_some_and(|compare| compare.metric == *key))
        {
            columns.push(Column::number(title, unit).key(name));
            columns.push(Column::number("", "").key(&format!("{name}_half_width")).joined());
            if beside::publishes(results) {
                columns.push(Column::number("published", unit).key(&format!("{name}_published")));
                columns.push(Column::number("error", "pt").key(&format!("{name}_error")));
                columns.push(Column::number("no change", "pt").key(&format!("{name}_error_null")));
            }
        }
    }
    let mut table = Table::new(title, columns);
    let mut outer: Option<String> = None;
    for points in results.rows() {
        let point = &grid.points[points[0]];
        let first = results.labels(points[0]).first().map(|label| (*label).to_owned());
        let first = first.filter(|_| grid.axes.len() > 1);
        if outer.is_some() && outer != first {
            table.rule();
        }
        outer = first;
        let levels = grid.axes.iter().zip(&point.at).map(|(axis, &at)| &axis.levels[at]);
        let mut row: Vec<Cell> = levels.map(label_cell).collect();
        // The baseline is compared with itself, so that no row lacks the figure.
        let base: Option<Vec<usize>> = points.iter().map(|&at| results.baseline(at)).collect();
        for key in &metrics {
            let mean = results.mean(&points, key);
            row.push(mean.map_or_else(Cell::empty, |mean| metric_cell(key, mean.mean)));
            let (Some((_, _, decimals, _)), Some(compare)) = (&compared, compare) else { continue };
            if compare.metric == *key {
                let found = base.as_ref().and_then(|base| results.change(base, &points, key));
                row.push(Cell::known(found.map(|found| found.mean), *decimals));
                row.push(found.map_or_else(Cell::empty, |f| half_width(f.half_width())));
                if beside::publishes(results) {
                    row.extend(beside::cells(results, points[0], found.map(|found| found.mean)));
                }
            }
        }
        table.row(row);
    }
    if let Some(compare) = compare {
        let (title, ..) = shown(&compare.metric);
        table.note(format!(
            "change of {title} against {}, seed by seed; ± is the 95 % t interval of the pairs",
            compare.against()
        ));
    }
    for note in ranges::note(grid).into_iter().chain(beside::notes(results)) {
        table.note(note);
    }
    table
}

/// Returns a table with the axis `across` in columns: the metric of the baseline, the change of the
/// others; idle time and CPU time of a job next to each.
fn pivot(results: Results, across: usize, title: &str) -> Table {
    let grid = results.grid;
    let levels = &grid.axes[across].levels;
    let metrics = metrics(results);
    let compare =
        grid.grid.compare.as_ref().filter(|compare| grid.axis(&compare.axis) == Some(across));
    let baseline = compare.and_then(|compare| grid.axes[across].find(&compare.baseline));
    let others = grid.axes.iter().enumerate().filter(|(axis, _)| *axis != across);
    let mut columns: Vec<Column> = others.map(|(_, axis)| Column::text(&axis.name)).collect();
    for (level, own) in levels.iter().enumerate() {
        for key in &metrics {
            let (mut title, mut unit, _) = shown(key);
            let mut name = format!("{key} {}", own.label);
            let compared = compare.is_some_and(|compare| compare.metric == *key);
            if let (true, true, Some(change)) =
                (compared, Some(level) != baseline, change_column(results))
            {
                (title, unit, name) = (change.0, change.1, format!("{} {}", change.3, own.label));
            }
            columns.push(Column::number(&title, unit).key(&name).group(&own.label));
        }
    }
    let mut table = Table::new(title, columns);
    for (index, point) in grid.points.iter().enumerate().filter(|(_, p)| p.at[across] == 0) {
        let axes = grid.axes.iter().zip(&point.at).enumerate();
        let others = axes.filter(|(axis, _)| *axis != across).map(|(_, pair)| pair);
        let mut row: Vec<Cell> =
            others.map(|(axis, &level)| label_cell(&axis.levels[level])).collect();
        for level in 0..levels.len() {
            let own = grid.sibling(&point.at, across, level);
            for key in &metrics {
                let compared = compare.is_some_and(|compare| compare.metric == *key);
                let base = baseline.and_then(|base| grid.sibling(&point.at, across, base));
                let found = match (own, base) {
                    (Some(own), Some(base)) if compared && own != base => {
                        change(results, base, own, key).map(|change| (change.mean, 1))
                    }
                    (Some(own), _) => {
                        let mean = results.values(own, key).and_then(|all| results.estimate(all));
                        mean.map(|mean| (mean.mean, shown(key).2.min(2)))
                    }
                    (None, _) => None,
                };
                row.push(
                    found.map_or_else(Cell::empty, |(value, digits)| Cell::number(value, digits)),
                );
            }
        }
        debug_assert!(results.grid.points[index].at == point.at);
        table.row(row);
    }
    for note in beside::notes(results) {
        table.note(note);
    }
    table
}

/// Returns the results of the loops by lock.
fn lock_cells(results: Results) -> Vec<LockCell> {
    let grid = results.grid;
    let compare = grid.grid.compare.as_ref();
    let of = |(index, point): (usize, &Point)| {
        let first = point.jobs.first()?;
        let Job::Locks(job) = first else { return None };
        let mean = |key: &str| {
            results.values(index, key).and_then(|all| results.estimate(all)).map(|e| e.mean)
        };
        let levels = grid.axes.iter().zip(&point.at).filter(|(axis, _)| {
            axis.levels.len() > 1 && compare.is_none_or(|compare| compare.axis != axis.name)
        });
        let place: Vec<String> = levels
            .map(|(axis, &level)| format!("{} {}", axis.name, axis.levels[level].label))
            .collect();
        let base = results.baseline(index).filter(|base| *base != index);
        let base = base.filter(|_| compare.is_some_and(|c| c.change == Change::Ratio));
        let ratio = base.and_then(|base| change(results, base, index, "acquisitions_per_s"));
        Some(LockCell {
            lock: first.settings()["lock"].as_str().unwrap_or_default().to_owned(),
            place: place.join(", "),
            threads: job.threads(),
            per_s: mean("acquisitions_per_s")?,
            ratio: ratio.map(|ratio| ratio.mean),
            unsure: ratio
                .is_some_and(|r| r.lo.is_finite() && r.lo < r.hi && r.lo <= 1.0 && r.hi >= 1.0),
            starved: mean("starved_threads"),
        })
    };
    grid.points.iter().enumerate().filter_map(of).collect()
}

fn verdict(results: Results) -> Option<String> {
    let baseline = results.grid.grid.compare.as_ref().map_or("", |c| c.baseline.as_str());
    if let Some(sentence) = verdict::locks(&lock_cells(results), baseline) {
        return Some(sentence);
    }
    let compare = results.grid.grid.compare.as_ref()?;
    let found = results.rows().into_iter().filter_map(|row| {
        let base = results.baseline_of(&row)?;
        Some((row[0], results.change(&base, &row, &compare.metric)?.mean))
    });
    let far = |value: f64| ranges::far(compare.change, value);
    let (index, value) = found.max_by(|a, b| far(a.1).total_cmp(&far(b.1)))?;
    let case = results.labels(index).join(", ");
    let (metric, ..) = shown(&compare.metric);
    let what = match compare.change {
        Change::Loss if value < 0.0 => format!("gains {} % of {metric}", fixed(-value, 1)),
        Change::Gain if value < 0.0 => format!("loses {} % of {metric}", fixed(-value, 1)),
        Change::Loss => format!("loses {} % of {metric}", fixed(value, 1)),
        Change::Gain => format!("gains {} % of {metric}", fixed(value, 1)),
        Change::Ratio => format!("has {} times the {metric}", fixed(value, 2)),
    };
    let reproduced = beside::verdict(results).map_or_else(String::new, |said| said + "; ");
    Some(format!(
        "{}: {reproduced}{case} {what} against {}, the largest change",
        results.grid.grid.name,
        compare.against()
    ))
}
