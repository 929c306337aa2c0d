//! `convoy run --aim9`: operations per second of each job.

use convoy_host::aim9::Rate;
use serde::{Deserialize, Serialize};

use crate::format::significant;
use crate::json;
use crate::table::{Cell, Column, Table};

/// The result of the single-user mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aim9Report {
    /// Mix and period in one line.
    pub title: String,
    /// One for each job.
    pub rows: Vec<Rate>,
}

impl Aim9Report {
    /// The JSON of the report.
    pub fn to_json(&self) -> String {
        json::to_json(self)
    }

    /// One line per job.
    pub fn to_csv(&self) -> String {
        self.table().to_csv()
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        self.table().to_text()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            &self.title,
            vec![
                Column::text("job"),
                Column::number("runs", ""),
                Column::number("failed", "").key("failures"),
                Column::number("time", "s").key("seconds"),
                Column::number("runs/s", "").key("runs_per_s"),
                Column::number("factor", ""),
                Column::number("operations/s", "").key("operations_per_s"),
                Column::text("operations").key("unit"),
            ],
        );
        for row in &self.rows {
            let short = |value: f64| Cell::shown(significant(value), value);
            table.row(vec![
                Cell::text(&row.job),
                Cell::count(row.runs),
                Cell::count(row.failures),
                Cell::number(row.seconds, 2),
                short(row.runs_per_s),
                short(row.factor),
                short(row.operations_per_s),
                Cell::text(&row.unit),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_job_rate_and_unit() {
        let row = Rate {
            job: "add_long".to_owned(),
            runs: 63,
            failures: 0,
            seconds: 1.002,
            runs_per_s: 62.87,
            factor: 60_000.0,
            operations_per_s: 3_772_455.0,
            unit: "thousand additions".to_owned(),
        };
        let report = Aim9Report { title: "aim9".to_owned(), rows: vec![row] };
        let text = report.to_text();
        let last = text.lines().find(|line| line.contains("add_long")).expect("a row");
        let words: Vec<&str> = last.split_whitespace().collect();
        let shown = ["add_long", "63", "0", "1.00", "62.9", "60000", "3772455", "thousand"];
        assert_eq!(words[..8], shown);
        assert!(report.to_csv().contains("operations_per_s"));
    }
}
