//! `convoy reproduce host`: measurements of a machine compared with the simulation of it.

use serde::{Deserialize, Serialize};

use convoy_stats::Sample;

use crate::format::{fixed, significant};
use crate::table::{Cell, Column, Table};

/// One cell of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostRow {
    /// The lock, or the mix of AIM7.
    pub(crate) load: String,
    /// CPUs that it was kept to.
    pub(crate) cpus: u32,
    /// Length of the section in nanoseconds; none for a mix.
    pub(crate) section_ns: Option<u32>,
    pub(crate) tasks: u32,
    pub(crate) unit: String,
    /// Median over the rounds measured.
    pub(crate) measured: f64,
    /// Smallest and largest round.
    pub(crate) range: [f64; 2],
    /// Median over the seeds simulated.
    pub(crate) reproduced: f64,
    /// The error of that, percent of the measured median.
    pub(crate) error_percent: f64,
    /// The rounds differ enough for the cell to be called bistable.
    pub(crate) bistable: bool,
    /// A rule of the simulation was fitted to this row; it is not a prediction.
    pub(crate) fitted: bool,
}

impl HostRow {
    /// The figures of a row with these measured rounds and simulated seeds, without its cell.
    pub(crate) fn figures(rounds: &Sample, seeds: &Sample, bistable_factor: f64) -> Self {
        let (measured, reproduced) = (rounds.median(), seeds.median());
        Self {
            measured,
            range: [rounds.min(), rounds.max()],
            reproduced,
            error_percent: 100.0 * (reproduced / measured - 1.0),
            bistable: rounds.max() > bistable_factor * rounds.min(),
            ..Self::default()
        }
    }
}

/// The errors of some rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostErrors {
    pub(crate) rows: String,
    pub(crate) count: usize,
    /// Median of the absolute errors, percent.
    pub(crate) median_percent: f64,
    /// Rows with an absolute error of at most 15 %.
    pub within_15_percent: usize,
}

/// The result of `convoy reproduce host`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostReport {
    pub(crate) experiment: String,
    /// Description of the measurement, with place and time, and of the simulation.
    pub(crate) scale: String,
    /// The cells, locks first.
    pub(crate) rows: Vec<HostRow>,
    /// The errors, of all predictions first.
    pub(crate) errors: Vec<HostErrors>,
    pub(crate) notes: Vec<String>,
}

impl HostReport {
    /// The report of `rows`.
    pub(crate) fn new(experiment: &str, scale: &str, rows: Vec<HostRow>) -> Self {
        let errors = all_errors(&rows);
        Self {
            experiment: experiment.to_owned(),
            scale: scale.to_owned(),
            rows,
            errors,
            notes: Vec::new(),
        }
    }

    /// Takes in the rows and notes of another part of the same experiment.
    pub(crate) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        let new: Vec<String> =
            other.notes.into_iter().filter(|note| !self.notes.contains(note)).collect();
        self.notes.extend(new);
        self.errors = all_errors(&self.rows);
    }

    /// Returns the result in a few words.
    pub(crate) fn verdict(&self) -> String {
        match self.errors.iter().find(|errors| errors.rows == PREDICTIONS) {
            Some(errors) => format!(
                "the median error of {} predictions is {} %; {} are within 15 %",
                errors.count,
                fixed(errors.median_percent, 1),
                errors.within_15_percent
            ),
            None => "no prediction was made".to_owned(),
        }
    }

    /// The rows, and their errors by group.
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![self.table(), self.error_table()]
    }

    fn error_table(&self) -> Table {
        let mut table = Table::of(
            "absolute errors",
            &self.errors,
            &[
                (Column::text("Rows"), &|row| Cell::text(&row.rows)),
                (Column::number("Number", ""), &|row| Cell::count(row.count as u64)),
                (Column::number("Median error", "%"), &|row| Cell::number(row.median_percent, 1)),
                (Column::number("Within 15 %", ""), &|row| {
                    Cell::count(row.within_15_percent as u64)
                }),
            ],
        );
        for note in &self.notes {
            table.note(note.clone());
        }
        table
    }

    /// CSV of the cells.
    pub(crate) fn to_csv(&self) -> String {
        self.table().to_csv()
    }

    fn table(&self) -> Table {
        let columns = vec![
            Column::text("Load").key("load"),
            Column::number("CPUs", "").key("cpus"),
            Column::number("Section", "ns").key("section_ns"),
            Column::number("Tasks", "").key("tasks"),
            Column::number("Measured", "").key("measured").group("rate"),
            Column::text("").joined().key("range").group("rate"),
            Column::number("Simulated", "").key("reproduced").group("rate"),
            Column::text("Unit").key("unit").group("rate"),
            Column::number("Error", "%").key("error_percent"),
            Column::text("").key("bistable"),
            Column::text("").key("fitted"),
        ];
        let mut table = Table::new(&format!("{}: {}", self.experiment, self.scale), columns);
        let mut before: Option<&HostRow> = None;
        for row in &self.rows {
            let group = |row: &HostRow| (row.load.clone(), row.cpus, row.section_ns);
            if before.is_some_and(|before| group(before) != group(row)) {
                table.rule();
            }
            before = Some(row);
            table.row(cells(row));
        }
        table
    }
}

fn cells(row: &HostRow) -> Vec<Cell> {
    let rate = |value: f64| Cell::shown(significant(value), value);
    vec![
        Cell::text(row.load.clone()),
        Cell::count(u64::from(row.cpus)),
        row.section_ns.map_or_else(Cell::empty, |ns| Cell::count(u64::from(ns))),
        Cell::count(u64::from(row.tasks)),
        rate(row.measured),
        Cell::text(format!("[{}–{}]", significant(row.range[0]), significant(row.range[1]))),
        rate(row.reproduced),
        Cell::text(row.unit.clone()),
        Cell::signed(row.error_percent, 1),
        if row.bistable { Cell::text("bistable") } else { Cell::empty() },
        if row.fitted { Cell::text("fitted") } else { Cell::empty() },
    ]
}

/// The group of all rows that nothing was fitted to.
const PREDICTIONS: &str = "predictions";

fn all_errors(rows: &[HostRow]) -> Vec<HostErrors> {
    let errors = [
        errors(rows, PREDICTIONS, |row| !row.fitted),
        errors(rows, "  locks", |row| !row.fitted && row.section_ns.is_some()),
        errors(rows, "  AIM7", |row| !row.fitted && row.section_ns.is_none()),
        errors(rows, "  not bistable", |row| !row.fitted && !row.bistable),
        errors(rows, "  bistable", |row| !row.fitted && row.bistable),
        errors(rows, "fitted", |row| row.fitted),
    ];
    errors.into_iter().flatten().collect()
}

/// The errors of the rows that `wanted` holds for; `None` without any.
fn errors(rows: &[HostRow], name: &str, wanted: impl Fn(&HostRow) -> bool) -> Option<HostErrors> {
    let all: Vec<f64> =
        rows.iter().filter(|row| wanted(row)).map(|row| row.error_percent.abs()).collect();
    let within_15_percent = all.iter().filter(|error| **error <= 15.0).count();
    let count = all.len();
    let median_percent = Sample::new(all).ok()?.median();
    Some(HostErrors { rows: name.to_owned(), count, median_percent, within_15_percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(load: &str, section_ns: Option<u32>, rounds: &[f64], simulated: f64) -> HostRow {
        let rounds = Sample::new(rounds.to_vec()).unwrap();
        let seeds = Sample::new(vec![simulated]).unwrap();
        HostRow {
            load: load.to_owned(),
            cpus: 2,
            section_ns,
            tasks: 16,
            unit: "k/s".to_owned(),
            ..HostRow::figures(&rounds, &seeds, 1.5)
        }
    }

    fn report() -> HostReport {
        let rows = vec![
            row("handoff", Some(100), &[90.0, 100.0, 110.0], 95.0),
            row("ticket", Some(100), &[10.0, 40.0, 70.0], 80.0),
            row("shared", None, &[200.0], 220.0),
        ];
        HostReport::new("host", "2 CPUs", rows)
    }

    #[test]
    fn errors_are_of_the_medians_and_wide_ranges_are_named() {
        let report = report();
        assert!((report.rows[0].error_percent + 5.0).abs() < 1e-9);
        assert!(!report.rows[0].bistable && report.rows[1].bistable);
        assert!((report.errors[0].median_percent - 10.0).abs() < 1e-9);
        assert_eq!((report.errors[0].count, report.errors[0].within_15_percent), (3, 2));
        let bistable = report.errors.last().unwrap();
        assert_eq!((bistable.rows.trim(), bistable.count), ("bistable", 1));
    }

    #[test]
    fn what_was_fitted_counts_for_no_prediction() {
        let mut rows = report().rows;
        rows[1].fitted = true;
        let report = HostReport::new("host", "2 CPUs", rows);
        assert!((report.errors[0].median_percent - 7.5).abs() < 1e-9);
        let fitted = report.errors.last().unwrap();
        assert_eq!((fitted.rows.as_str(), fitted.count), ("fitted", 1));
        assert!(report.table().to_text().lines().any(|line| line.trim_end().ends_with("fitted")));
    }

    #[test]
    fn the_text_shows_both_sides_and_the_error() {
        let text = report().tables().iter().map(Table::to_text).collect::<String>();
        assert!(text.contains("-5.0") && text.contains("+100.0"), "{text}");
        assert!(text.contains("bistable") && text.contains("Median error"), "{text}");
        assert_eq!(report().to_csv().lines().count(), 4);
    }
}
