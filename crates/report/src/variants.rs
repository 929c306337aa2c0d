//! One line per variant: the spread over machines the source does not name, and the ablations that
//! show which rule of the mechanism a result rests on.

use convoy_stats::Estimate;
use serde::{Deserialize, Serialize};

use crate::format::{distinct, fixed};
use crate::json;
use crate::reproduce::metric;
use crate::table::{Cell, Column, Table};

/// One number of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantRow {
    /// What was changed, in words; the first variant of a report is the one that was not.
    pub variant: String,
    /// The kernel preset.
    pub case: String,
    /// Name of the metric, see [`metric`].
    pub metric: String,
    /// Unit of the numbers, empty if the metric has none.
    pub unit: String,
    /// Mean over the seeds.
    pub value: f64,
    /// 95 % t interval of that mean; infinite ends (`null` in JSON) with one seed.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
}

/// Variants of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantReport {
    /// Title of the table.
    pub title: String,
    /// All numbers.
    pub rows: Vec<VariantRow>,
    /// Lines under the table.
    pub notes: Vec<String>,
}

impl VariantReport {
    /// A report without rows.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a number; the unit is that of the metric, empty for one that [`metric`] does not know.
    pub fn push(&mut self, variant: &str, case: &str, key: &str, value: &Estimate) {
        self.rows.push(VariantRow {
            variant: variant.to_owned(),
            case: case.to_owned(),
            metric: key.to_owned(),
            unit: metric(key).map_or("", |metric| metric.unit).to_owned(),
            value: value.mean,
            ci95: [value.lo, value.hi],
        });
    }

    /// The rows as JSON.
    pub fn to_json(&self) -> String {
        json::to_json(self)
    }

    /// One line per number.
    pub fn to_csv(&self) -> String {
        let columns = ["variant", "case", "metric", "unit", "value", "lo", "hi"];
        let mut table = Table::new("", columns.map(Column::text).to_vec());
        for row in &self.rows {
            let words = [&row.variant, &row.case, &row.metric, &row.unit].map(Cell::text);
            let numbers = [row.value, row.ci95[0], row.ci95[1]];
            let numbers = numbers.map(|number| Cell::shown("", number));
            table.row(words.into_iter().chain(numbers).collect());
        }
        table.to_csv()
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        self.table().to_text()
    }

    /// One line per variant and case, one column per metric.
    pub fn table(&self) -> Table {
        let keys = distinct(self.rows.iter().map(|row| row.metric.as_str()));
        let mut columns = vec![Column::text("Variant"), Column::text("Kernel")];
        for key in &keys {
            let known = metric(key);
            let title = known.map_or(*key, |metric| metric.title);
            let unit = known.map_or("", |metric| metric.head);
            columns.push(Column::number(title, unit).key(key));
            columns.push(Column::text("").joined());
        }
        let mut table = Table::new(&self.title, columns);
        for variant in distinct(self.rows.iter().map(|row| row.variant.as_str())) {
            let own = || self.rows.iter().filter(|row| row.variant == variant);
            let mut heading = Cell::text(variant);
            for case in distinct(own().map(|row| row.case.as_str())) {
                let mut cells = vec![heading, Cell::text(case)];
                heading = Cell::repeated(variant);
                for key in &keys {
                    let found = own().find(|row| row.case == case && row.metric == *key);
                    cells.extend(found.map_or_else(Default::default, number_cells));
                }
                table.row(cells);
            }
        }
        table.note("±: half the 95 % t interval of the mean over the seeds.");
        for note in &self.notes {
            table.note(note);
        }
        table
    }
}

fn number_cells(row: &VariantRow) -> [Cell; 2] {
    let decimals = metric(&row.metric).map_or(3, |metric| metric.decimals);
    let half = (row.ci95[1] - row.ci95[0]) / 2.0;
    let spread =
        if half.is_finite() { format!("± {}", fixed(half, decimals)) } else { String::new() };
    [Cell::number(row.value, decimals), Cell::text(spread)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are made up for this test.
    fn example() -> VariantReport {
        let mut report = VariantReport::new("Which rule the loss rests on");
        let estimate = |mean: f64| Estimate { mean, sd: 1.0, n: 4, lo: mean - 1.5, hi: mean + 1.5 };
        for (variant, change, idle) in
            [("as built", -41.0, 43.0), ("next buddy is not hot", -4.0, 1.2)]
        {
            for case in ["2.6.26-rc1", "2.6.26-rc1+semaphore-speedup"] {
                report.push(variant, case, "jobs_per_min_change_percent", &estimate(change));
                report.push(variant, case, "idle_percent", &estimate(idle));
            }
        }
        let single = Estimate { lo: f64::NEG_INFINITY, hi: f64::INFINITY, ..estimate(3.0) };
        report.push("as built", "2.6.26-rc1", "steals", &single);
        report.notes.push("Quad with one shared cache, HZ 1000.".to_owned());
        report
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_text());
    }

    #[test]
    fn json_and_csv_have_every_number() {
        let report = example();
        let back: VariantReport = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(back, report);
        assert_eq!(report.to_csv().lines().count(), 1 + report.rows.len());
        assert!(report.to_csv().contains("as built,2.6.26-rc1,steals,,3,,\n"));
    }
}
