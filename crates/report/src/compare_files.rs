//! A comparison for programs: JSON and CSV.

use serde::Serialize;

use crate::compare::{
    CompareFailure, CompareFloor, CompareRange, CompareReport, CompareRow, CompareWarmUp,
};
use crate::json;
use crate::table::{Cell, Column, Table};

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
        columns.push(number("same_within_percent"));
        let mut table = Table::new("", columns);
        for row in &self.rows {
            table.row(csv_cells(row));
        }
        table.to_csv()
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
    cells.push(row.same_within_percent.map_or_else(Cell::empty, value));
    cells
}
