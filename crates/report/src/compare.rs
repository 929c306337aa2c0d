//! `convoy compare`: a baseline and its candidates, row by row.
//!
//! The numbers come judged; nothing here computes a statistic.

use serde::{Deserialize, Serialize};

use crate::compare_verdict;
use crate::json;
use crate::table::{Cell, Column, Table};

pub use crate::compare_text::CompareLayout;
pub use convoy_measure::compare::{
    Failures as CompareFailure, Floor as CompareFloor, RangeChange as CompareRange,
    WarmedUp as CompareWarmUp,
};

/// One side of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareSide {
    /// Its name.
    pub label: String,
    /// How many values it has.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; `None` for one value.
    pub sd: Option<f64>,
    /// The 95 % interval of the mean.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// The runs that were far worse than the rest; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapses: Option<CompareCollapses>,
}

/// Runs that were far worse than the rest of their side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareCollapses {
    /// How many of the runs.
    pub runs: usize,
    /// How many times as bad as the median of the side the middle one of them is.
    pub factor: f64,
}

/// One candidate against the baseline in one benchmark and metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// Benchmark or workload; empty if there is one only.
    pub benchmark: String,
    /// Users, if it is a load point.
    pub users: Option<u32>,
    /// The metric.
    pub metric: String,
    /// In which unit.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The baseline.
    pub baseline: CompareSide,
    /// The candidate.
    pub candidate: CompareSide,
    /// `faster`, `slower`, `same` or `unsure`.
    pub verdict: String,
    /// What took the verdict on typical runs away: `mean`, `tail` or `noise floor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// How many times better the candidate is; `None` without a ratio.
    pub speedup: Option<f64>,
    /// The 95 % interval of the speedup.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// The p-value that the verdict uses, corrected over the table.
    pub p: f64,
    /// The p-value of the test alone.
    pub p_raw: f64,
    /// The smallest possible p-value for this number of values.
    pub p_floor: f64,
    /// `signed-rank` of pairs or `rank-sum` of two groups.
    pub test: String,
    /// Stars of `p`.
    pub stars: usize,
    /// Chance that a run of the candidate is better than one of the baseline.
    pub superiority: f64,
    /// Hodges-Lehmann shift of the candidate in the unit; `None` with too few values.
    pub shift: Option<f64>,
    /// Values a side would need for the test to be able to find anything; `None` if there are
    /// enough.
    pub needs: Option<usize>,
}

impl CompareRow {
    /// A speedup as a change in percent, as people say it: 1.2 is 20 % faster; 0.85 is 18 % slower,
    /// a negative number, for a time is 18 % longer then, and 15 % slower for a rate.
    pub fn percent(&self, speedup: f64) -> f64 {
        let is_longer = !self.higher_is_better && speedup < 1.0;
        100.0 * if is_longer { 1.0 - 1.0 / speedup } else { speedup - 1.0 }
    }

    /// Whether the candidate is slower, by at least this share if one is given and both can be
    /// compared by a ratio. A candidate that collapses now and then is slower whatever its mean.
    pub fn is_slower_by(&self, share: Option<f64>) -> bool {
        let enough = |speedup| share.is_none_or(|share| self.percent(speedup) <= -100.0 * share);
        self.verdict == "slower" && self.speedup.is_none_or(enough)
    }
}

/// The result of `convoy compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// Operands and method of the comparison, in one line.
    pub title: String,
    /// All comparisons.
    pub rows: Vec<CompareRow>,
    /// Mean changes over ranges of users, if there are load points.
    pub ranges: Vec<CompareRange>,
    /// The noise floor, if it could be measured.
    pub noise_floor: Option<CompareFloor>,
    /// Runs that failed and were left out.
    pub failures: Vec<CompareFailure>,
    /// Runs of each side that came before and do not count.
    #[serde(default)]
    pub warm_up: CompareWarmUp,
    /// Runs of each side, blocks in other words; `None` for stored numbers.
    pub runs: Option<usize>,
    /// Why no more runs were made; empty for stored numbers.
    pub stopped: String,
    /// Whether an interrupt or a failure ended it early.
    pub partial: bool,
    /// Lines under the table.
    pub notes: Vec<String>,
}

/// The JSON: the fields of the row that decides, then everything.
#[derive(Serialize)]
struct Envelope<'a> {
    verdict: &'a str,
    sentence: String,
    speedup: Option<f64>,
    #[serde(with = "json::interval")]
    ci95: [f64; 2],
    p: Option<f64>,
    title: &'a str,
    warm_up: CompareWarmUp,
    runs: Option<usize>,
    stopped: &'a str,
    partial: bool,
    noise_floor: Option<&'a CompareFloor>,
    failures: &'a [CompareFailure],
    rows: &'a [CompareRow],
    ranges: &'a [CompareRange],
    notes: &'a [String],
}

impl CompareReport {
    /// The verdict on the whole table: *slower* if any row is; else *faster* if any row is; *same*
    /// if all rows are; else *unsure*.
    pub fn verdict(&self) -> &str {
        self.deciding().map_or("unsure", |row| row.verdict.as_str())
    }

    /// Returns the verdict in one sentence, with the deciding row.
    pub fn sentence(&self) -> String {
        compare_verdict::sentence(self)
    }

    /// Returns the row that decides the verdict on the whole table: of the rows with this verdict,
    /// the one with the largest change.
    pub fn deciding(&self) -> Option<&CompareRow> {
        compare_verdict::strongest(&self.rows)
    }

    /// JSON: every field by its name, numbers with their units in it.
    pub fn to_json(&self) -> String {
        let row = self.deciding();
        json::to_json(&Envelope {
            verdict: self.verdict(),
            sentence: self.sentence(),
            speedup: row.and_then(|row| row.speedup),
            ci95: row.map_or([f64::NAN; 2], |row| row.ci95),
            p: row.map(|row| row.p),
            title: &self.title,
            warm_up: self.warm_up,
            runs: self.runs,
            stopped: &self.stopped,
            partial: self.partial,
            noise_floor: self.noise_floor.as_ref(),
            failures: &self.failures,
            rows: &self.rows,
            ranges: &self.ranges,
            notes: &self.notes,
        })
    }

    /// One line for each comparison, unrounded.
    pub fn to_csv(&self) -> String {
        let number = |key: &str| Column::number(key, "");
        let mut columns: Vec<Column> =
            ["benchmark", "users", "metric", "unit"].map(Column::text).into();
        columns.extend(["baseline", "candidate"].map(Column::text));
        for side in ["baseline", "candidate"] {
            let keys = ["runs", "mean", "sd", "ci95_lo", "ci95_hi"];
            columns.extend(keys.map(|key| number(&format!("{side}_{key}"))));
        }
        let keys = ["speedup", "speedup_lo", "speedup_hi", "p", "p_raw", "p_floor", "stars"];
        columns.extend(keys.map(number));
        columns.extend(["test", "verdict"].map(Column::text));
        let mut table = Table::new("", columns);
        for row in &self.rows {
            table.row(csv_cells(row));
        }
        table.to_csv()
    }

    /// The table for people.
    pub fn to_text(&self, layout: CompareLayout) -> String {
        crate::compare_text::text(self, layout)
    }

    /// The same as Markdown.
    pub fn to_markdown(&self, layout: CompareLayout) -> String {
        crate::compare_text::markdown(self, layout)
    }
}

fn csv_cells(row: &CompareRow) -> Vec<Cell> {
    let value = |value: f64| Cell::shown("", value);
    let users = row.users.map_or_else(Cell::empty, |users| Cell::count(u64::from(users)));
    let mut cells = vec![Cell::text(&row.benchmark), users];
    cells.extend(
        [&row.metric, &row.unit, &row.baseline.label, &row.candidate.label].map(Cell::text),
    );
    for side in [&row.baseline, &row.candidate] {
        cells.push(Cell::count(side.runs as u64));
        let numbers = [side.mean, side.sd.unwrap_or(f64::NAN), side.ci95[0], side.ci95[1]];
        cells.extend(numbers.map(value));
    }
    let speedup = row.speedup.unwrap_or(f64::NAN);
    let numbers = [speedup, row.ci95[0], row.ci95[1], row.p, row.p_raw, row.p_floor];
    cells.extend(numbers.map(value));
    cells.push(Cell::count(row.stars as u64));
    cells.extend([&row.test, &row.verdict].map(Cell::text));
    cells
}
