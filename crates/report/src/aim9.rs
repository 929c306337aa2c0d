//! `convoy run --aim9`: operations per second of each job.

use convoy_host::aim9::Rate;
use serde::{Deserialize, Serialize};

use crate::format::{list, significant};
use crate::json;
use crate::table::{Cell, Column, Table, page_wrap};

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
        json::to_json(&json::WithVerdict { verdict: &self.verdict(), report: self })
    }

    /// One line per job.
    pub fn to_csv(&self) -> String {
        self.table().to_csv()
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        format!("{}\n{}", page_wrap(&self.verdict()), self.table().to_text())
    }

    /// Returns the result in one sentence: the rate of one job, or the ends of the list; and
    /// failures.
    fn verdict(&self) -> String {
        let rate = |row: &Rate| format!("{} {}/s", significant(row.operations_per_s), row.unit);
        let ran: Vec<&Rate> = self.rows.iter().filter(|row| row.runs > 0).collect();
        let time = |row: &&&Rate| row.runs_per_s;
        let quickest = ran.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
        let slowest = ran.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
        let mut sentence = match (quickest, slowest) {
            (Some(row), _) if ran.len() == 1 => {
                format!("{} runs {} times a second: {}", row.job, shown(row), rate(row))
            }
            (Some(quick), Some(slow)) => format!(
                "{} jobs ran alone, from {} ({} times a second) to {} ({})",
                ran.len(),
                quick.job,
                shown(quick),
                slow.job,
                shown(slow)
            ),
            _ => "No job ran to its end".to_owned(),
        };
        let failed: Vec<String> =
            self.rows.iter().filter(|row| row.failures > 0).map(|row| row.job.clone()).collect();
        if !failed.is_empty() {
            sentence = format!("{sentence}; runs of {} failed", list(&failed));
        }
        sentence + "."
    }

    fn table(&self) -> Table {
        fn short(value: f64) -> Cell {
            Cell::shown(significant(value), value)
        }
        Table::of(
            &self.title,
            &self.rows,
            &[
                (Column::text("job"), &|row| Cell::text(&row.job)),
                (Column::number("runs", ""), &|row| Cell::count(row.runs)),
                (Column::number("failed", "").key("failures"), &|row| Cell::count(row.failures)),
                (Column::number("time", "s").key("seconds"), &|row| Cell::number(row.seconds, 2)),
                (Column::number("runs/s", "").key("runs_per_s"), &|row| short(row.runs_per_s)),
                (Column::number("factor", ""), &|row| short(row.factor)),
                (Column::number("operations/s", "").key("operations_per_s"), &|row| {
                    short(row.operations_per_s)
                }),
                (Column::text("operations").key("unit"), &|row| Cell::text(&row.unit)),
            ],
        )
    }
}

/// Runs a second, in three digits.
fn shown(row: &Rate) -> String {
    significant(row.runs_per_s)
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
        let mut report = Aim9Report { title: "aim9".to_owned(), rows: vec![row] };
        let text = report.to_text();
        let first = "add_long runs 62.9 times a second: 3772455 thousand additions/s.";
        assert_eq!(text.lines().next(), Some(first));
        let last = text.lines().rfind(|line| line.contains("add_long")).expect("a row");
        let words: Vec<&str> = last.split_whitespace().collect();
        let shown = ["add_long", "63", "0", "1.00", "62.9", "60000", "3772455", "thousand"];
        assert_eq!(words[..8], shown);
        assert!(report.to_csv().contains("operations_per_s"));
        report.rows.push(Rate {
            job: "fork".into(),
            failures: 2,
            runs: 4,
            runs_per_s: 3.0,
            ..report.rows[0].clone()
        });
        assert!(report.to_json().contains(
            "\"verdict\": \"2 jobs ran alone, from add_long (62.9 times a second) to fork (3.00); \
             runs of fork failed.\""
        ));
    }
}
