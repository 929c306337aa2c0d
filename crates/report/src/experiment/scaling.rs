//! Throughput against threads: published, reproduced, and two models without locks. *Flat* predicts
//! the throughput of the first number of threads for all, *linear* a throughput proportional to the
//! threads.
//!
//! Each row of the axes before the last one is a series. Its shape is right if what follows says so
//! of [`Shape`].

use super::published::fitted_and_ending;
use super::results::{Results, median};
use super::sentence;
use crate::format::fixed;
use crate::metric::metric;
use crate::table::{Cell, Column, Table};

/// A share of the published peak that may be missing where ours is, for the same place.
const SAME_PEAK: f64 = 0.9;
/// Shares of the peak that are left at the end: from the first one on throughput *holds*, from the
/// second one on it *falls*, below it *collapses*.
const WORDS: [(f64, &str); 3] = [(0.8, "holds"), (0.4, "falls"), (0.0, "collapses")];
/// Two shares of the peak that differ by less than this mean the same.
const SAME_SHARE: f64 = 0.1;

/// One number of threads of a series.
#[derive(Clone, Copy, Debug)]
struct Step {
    threads: f64,
    theirs: f64,
    ours: f64,
    fitted: bool,
}

/// Position of a series' maximum, and the part of it that remains at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    peak: usize,
    left: f64,
}

impl Shape {
    fn of(values: &[f64]) -> Option<Self> {
        let peak = (0..values.len())
            .reduce(|best, at| if values[at] > values[best] { at } else { best })?;
        Some(Self { peak, left: values[values.len() - 1] / values[peak] })
    }

    fn word(self) -> &'static str {
        WORDS.iter().find(|(least, _)| self.left >= *least).map_or("collapses", |(_, word)| word)
    }

    /// Returns whether `self` equals `other`, the shape of `values`: its peak is where the other
    /// has almost its highest value, and about the same part remains at the end.
    fn is_as(self, other: Self, values: &[f64]) -> bool {
        let place = values[self.peak] >= SAME_PEAK * values[other.peak];
        let share = (self.left - other.left).abs() < SAME_SHARE;
        place && (share || self.word() == other.word())
    }
}

/// A series with its labels of the other axes.
struct Series {
    labels: Vec<String>,
    steps: Vec<Step>,
}

/// Summary of a table: whether the shape of each series is right, and the errors.
#[derive(Default)]
pub(super) struct Tally {
    shapes: Vec<bool>,
    errors: Errors,
}

impl Tally {
    fn add(&mut self, series: &Series) {
        self.shapes.extend(series.shape().map(|(right, _)| right));
        series.add_errors(&mut self.errors);
    }

    /// Returns the summary of a grid.
    pub(super) fn of(results: Results) -> Self {
        let mut tally = Self::default();
        for series in all(results, key(results)) {
            tally.add(&series);
        }
        tally
    }

    /// A sentence of several tables.
    pub(super) fn sentence(tables: &[Self]) -> Option<String> {
        let mut errors = Errors::default();
        for table in tables {
            errors.ours.extend(&table.errors.ours);
            errors.flat.extend(&table.errors.flat);
            errors.linear.extend(&table.errors.linear);
        }
        let medians = errors.medians()?;
        let shapes = || tables.iter().flat_map(|table| &table.shapes);
        let right = shapes().filter(|right| **right).count();
        let full = tables.iter().filter(|table| table.shapes.iter().all(|right| *right)).count();
        Some(format!(
            "{right} of {} shapes are right, and all of a table in {full} of {}; the median error \
             is {}, {}",
            shapes().count(),
            tables.len(),
            said(medians),
            against_null(medians)
        ))
    }
}

/// Relative errors of three predictions of the steps that none was fitted to.
#[derive(Default)]
struct Errors {
    ours: Vec<f64>,
    flat: Vec<f64>,
    linear: Vec<f64>,
}

impl Errors {
    fn medians(&self) -> Option<[f64; 3]> {
        Some([median(&self.ours)?, median(&self.flat)?, median(&self.linear)?])
    }
}

impl Series {
    /// Prediction of the first step for this one.
    fn flat(&self) -> f64 {
        self.steps[0].theirs
    }

    fn linear(&self, step: &Step) -> f64 {
        self.flat() * step.threads / self.steps[0].threads
    }

    fn add_errors(&self, errors: &mut Errors) {
        for step in self.steps.iter().skip(1).filter(|step| !step.fitted) {
            let error = |value: f64| (value / step.theirs - 1.0).abs();
            errors.ours.push(error(step.ours));
            errors.flat.push(error(self.flat()));
            errors.linear.push(error(self.linear(step)));
        }
    }

    /// Whether the shape is right, and a sentence of both.
    fn shape(&self) -> Option<(bool, String)> {
        let column = |of: fn(&Step) -> f64| self.steps.iter().map(of).collect::<Vec<f64>>();
        let (theirs, ours) = (column(|step| step.theirs), column(|step| step.ours));
        let (published, own) = (Shape::of(&theirs)?, Shape::of(&ours)?);
        let right = own.is_as(published, &theirs);
        let say = |shape: Shape| {
            let threads = self.steps[shape.peak].threads;
            format!("{} at {threads} threads, {} %", shape.word(), fixed(100.0 * shape.left, 0))
        };
        let verdict = if right { "right" } else { "wrong" };
        Some((
            right,
            format!(
                "{}: {verdict}: published, throughput is highest and then {} are left at the end; \
                 reproduced, {}",
                self.labels.join(" "),
                say(published),
                say(own)
            ),
        ))
    }
}

/// The series of a grid: points that differ in the last axis only, in their order.
fn all(results: Results, key: &str) -> Vec<Series> {
    let grid = results.grid;
    let mut all: Vec<Series> = Vec::new();
    for (index, point) in grid.points.iter().enumerate() {
        let mut labels = grid.labels(point);
        let threads = labels.pop().and_then(|label| label.parse().ok());
        let row = grid.published(&point.at);
        let theirs = row.and_then(|row| row.values.get(key)).map(|runs| mean(runs));
        let ours = results.values(index, key).map(|seeds| mean(&seeds));
        let (Some(threads), Some(theirs), Some(ours)) = (threads, theirs, ours) else { continue };
        let fitted = row.is_some_and(|row| row.fitted.iter().any(|metric| metric == key));
        let step = Step { threads, theirs, ours, fitted };
        if let Some(last) = all.last_mut().filter(|last| last.labels == labels) {
            last.steps.push(step);
        } else {
            let labels = labels.into_iter().map(str::to_owned).collect();
            all.push(Series { labels, steps: vec![step] });
        }
    }
    all
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn columns(results: Results, unit: &str) -> Vec<Column> {
    let axes = results.grid.axes.iter().map(|axis| Column::text(&axis.name));
    let error = |title: &str, key: &str| Column::number(title, "%").group("error").key(key);
    axes.chain([
        Column::number("published", unit),
        Column::number("reproduced", unit),
        error("ours", "error_percent"),
        error("flat", "error_flat_percent"),
        error("linear", "error_linear_percent"),
    ])
    .collect()
}

fn key(results: Results<'_>) -> &str {
    results.grid.grid.metrics.first().map_or("acquisitions_per_s", String::as_str)
}

/// Returns the table of a grid, and its result in a sentence.
pub(super) fn table(results: Results) -> (Table, Option<String>) {
    let grid = results.grid;
    let key = key(results);
    let title = sentence::title(results);
    let mut table = Table::new(&title, columns(results, metric(key).map_or("", |it| it.unit)));
    let (mut errors, mut shapes) = (Errors::default(), Vec::new());
    for series in all(results, key) {
        for step in &series.steps {
            table.row(row(&series, step));
        }
        series.add_errors(&mut errors);
        shapes.extend(series.shape());
    }
    let medians = errors.medians();
    for note in notes(results, &shapes, medians) {
        table.note(note);
    }
    (table, verdict(&grid.grid.name, &shapes, medians))
}

fn row(series: &Series, step: &Step) -> Vec<Cell> {
    let mut words: Vec<Cell> = series.labels.iter().map(Cell::text).collect();
    let percent = |value: f64| Cell::number(100.0 * (value / step.theirs - 1.0), 1);
    let ours = Cell::number(step.ours, 0);
    words.extend([
        Cell::text(step.threads.to_string()),
        Cell::number(step.theirs, 0),
        if step.fitted { ours.marked("f") } else { ours },
        percent(step.ours),
        percent(series.flat()),
        percent(series.linear(step)),
    ]);
    words
}

fn notes(results: Results, shapes: &[(bool, String)], medians: Option<[f64; 3]>) -> Vec<String> {
    let mut notes: Vec<String> =
        shapes.iter().map(|(_, text)| format!("shape of {text}")).collect();
    notes.extend(
        medians.map(|medians| format!("median error of the predictions: {}", said(medians))),
    );
    notes.push(
        "flat: every number of threads gives what the first one was published to give; linear: \
         throughput grows with the threads from there on"
            .to_owned(),
    );
    notes.extend(fitted_and_ending(results));
    notes
}

fn said([ours, flat, linear]: [f64; 3]) -> String {
    let percent = |error: f64| fixed(100.0 * error, 0);
    format!("{} % (flat {} %, linear {} %)", percent(ours), percent(flat), percent(linear))
}

/// Returns how many shapes are right, and whether the errors are smaller than the better null
/// model's.
fn verdict(name: &str, shapes: &[(bool, String)], medians: Option<[f64; 3]>) -> Option<String> {
    let medians = medians?;
    let right = shapes.iter().filter(|(right, _)| *right).count();
    let shape = match (right, shapes.len()) {
        (1, 1) => "the shape is right".to_owned(),
        (0, 1) => "the shape is wrong".to_owned(),
        (right, all) => format!("{right} of {all} shapes are right"),
    };
    let null = against_null(medians);
    Some(format!("{name}: {shape}; the median error is {}, {null}", said(medians)))
}

fn against_null([ours, flat, linear]: [f64; 3]) -> &'static str {
    if ours < flat.min(linear) {
        "below the error of the better null model"
    } else {
        "not below the error of the better null model"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(theirs: &[f64], ours: &[f64]) -> Series {
        let threads = [1.0, 2.0, 4.0, 8.0];
        let both = theirs.iter().zip(ours).zip(threads);
        let steps = both.map(|((&theirs, &ours), threads)| Step {
            threads,
            theirs,
            ours,
            fitted: threads < 2.0,
        });
        Series { labels: vec!["queued".to_owned()], steps: steps.collect() }
    }

    #[test]
    fn a_shape_is_a_place_and_what_is_left() {
        let right = |theirs: &[f64], ours: &[f64]| series(theirs, ours).shape().unwrap().0;
        assert!(right(&[1.0, 2.0, 1.5, 0.9], &[2.0, 4.0, 3.9, 1.8]));
        assert!(!right(&[1.0, 2.0, 1.5, 0.9], &[1.0, 1.2, 1.3, 1.4]), "it never falls");
        assert!(!right(&[1.0, 2.0, 1.5, 0.9], &[3.0, 2.0, 1.7, 1.4]), "it never rises");
        assert!(!right(&[1.0, 2.0, 1.9, 1.8], &[1.0, 2.0, 0.9, 0.5]), "it collapses");
        // On a plateau any place will do.
        assert!(right(&[1.0, 2.0, 2.0, 1.95], &[1.0, 1.9, 1.95, 2.0]));
    }

    #[test]
    fn the_errors_leave_out_what_was_fitted() {
        let mut errors = Errors::default();
        series(&[1.0, 2.0, 4.0, 4.0], &[1.0, 2.2, 4.0, 3.0]).add_errors(&mut errors);
        let [ours, flat, linear] = errors.medians().unwrap();
        assert!((ours - 0.1).abs() < 1e-9 && (flat - 0.75).abs() < 1e-9 && linear < 1e-9);
        let text = verdict("folly", &[(true, String::new())], Some([ours, flat, linear])).unwrap();
        assert_eq!(
            text,
            "folly: the shape is right; the median error is 10 % (flat 75 %, linear 0 %), not \
             below the error of the better null model"
        );
    }
}
