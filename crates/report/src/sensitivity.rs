//! `convoy reproduce --sensitivity`: how the loss depends on the machine and on the load.

use convoy_stats::Ratio;
use serde::{Deserialize, Serialize};

use crate::format::{distinct, fixed};
use crate::json;
use crate::plot::{Axis, Panel, Plot, Point, Scale, Series};
use crate::table::{Cell, Column, Table};

/// What a sweep turns, and how it is named on paper.
const AXES: [(&str, &str, &str); 4] = [
    ("cpus", "CPUs", "CPUs"),
    ("tasks", "Tasks", "tasks"),
    ("hold_ns", "Hold time", "hold time, ns"),
    ("hold_factor", "Hold time", "hold time, times the default"),
];

/// The heading and the label of an axis; an unknown axis names itself.
fn names(axis: &str) -> (&str, &str) {
    let known = AXES.into_iter().find(|(key, ..)| *key == axis);
    known.map_or((axis, axis), |(_, heading, label)| (heading, label))
}

/// One case at one value of what is swept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityRow {
    /// What is swept: `cpus`, `tasks`, `hold_ns` or `hold_factor`.
    pub axis: String,
    /// Its value.
    pub x: f64,
    /// The kernel preset.
    pub case: String,
    /// Jobs/Min lost against the baseline at the same value, in percent; negative for a gain.
    pub loss_percent: f64,
    /// 95 % interval of the loss; infinite ends (`null` in JSON) with one seed.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
}

/// The result of a sensitivity sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityReport {
    /// Name of the experiment.
    pub experiment: String,
    /// The kernel preset the losses are taken against.
    pub baseline: String,
    /// What is not swept, in one sentence.
    pub scale: String,
    /// The losses, axis by axis, each in rising order.
    pub rows: Vec<SensitivityRow>,
}

impl SensitivityReport {
    /// A report without rows.
    pub fn new(experiment: &str, baseline: &str, scale: &str) -> Self {
        Self {
            experiment: experiment.to_owned(),
            baseline: baseline.to_owned(),
            scale: scale.to_owned(),
            rows: Vec::new(),
        }
    }

    /// Adds a point; `ratio` is that of the Jobs/Min of `case` to those of the baseline.
    pub fn push(&mut self, axis: &str, x: f64, case: &str, ratio: &Ratio) {
        let loss = |ratio: f64| 100.0 * (1.0 - ratio);
        self.rows.push(SensitivityRow {
            axis: axis.to_owned(),
            x,
            case: case.to_owned(),
            loss_percent: loss(ratio.value),
            // One pair tells nothing about the lower end of the ratio either.
            ci95: if ratio.hi.is_finite() {
                [loss(ratio.hi), loss(ratio.lo)]
            } else {
                [f64::NEG_INFINITY, f64::INFINITY]
            },
        });
    }

    /// The rows as JSON.
    pub fn to_json(&self) -> String {
        json::to_json(self)
    }

    /// One line per point.
    pub fn to_csv(&self) -> String {
        let columns = ["axis", "x", "case", "loss_percent", "lo", "hi"];
        let mut table = Table::new("", columns.map(Column::text).to_vec());
        for row in &self.rows {
            table.row(vec![
                Cell::text(&row.axis),
                Cell::shown("", row.x),
                Cell::text(&row.case),
                Cell::shown("", row.loss_percent),
                Cell::shown("", row.ci95[0]),
                Cell::shown("", row.ci95[1]),
            ]);
        }
        table.to_csv()
    }

    /// The table for people: a line per value, a column per case.
    pub fn to_text(&self) -> String {
        self.table().to_text()
    }

    /// The same as a table.
    pub fn table(&self) -> Table {
        let cases = distinct(self.rows.iter().map(|row| row.case.as_str()));
        let mut columns = vec![Column::text("Swept"), Column::number("Value", "")];
        for case in &cases {
            columns.push(Column::number(case, "loss, %"));
            columns.push(Column::text("").joined());
        }
        let title = format!("{}: Jobs/Min lost against {}", self.experiment, self.baseline);
        let mut table = Table::new(&title, columns);
        for axis in distinct(self.rows.iter().map(|row| row.axis.as_str())) {
            table.rule();
            let mut heading = Cell::text(names(axis).1);
            for x in self.values(axis) {
                let mut cells = vec![heading, Cell::text(x.to_string())];
                heading = Cell::repeated(axis);
                for case in &cases {
                    cells
                        .extend(self.find(axis, x, case).map_or_else(Default::default, loss_cells));
                }
                table.row(cells);
            }
        }
        table.note(&self.scale);
        table.note("±: half the 95 % interval over the seeds, pair by pair.");
        table
    }

    /// One panel for each axis, one line for each case.
    pub fn plot(&self) -> Plot {
        let axes = distinct(self.rows.iter().map(|row| row.axis.as_str()));
        Plot {
            title: format!("{}: Jobs/Min lost against {}", self.experiment, self.baseline),
            subtitle: format!("{} Bars: 95 % interval over the seeds.", self.scale),
            panels: axes.into_iter().map(|axis| self.panel(axis)).collect(),
        }
    }

    fn panel(&self, axis: &str) -> Panel {
        let rows = || self.rows.iter().filter(|row| row.axis == axis);
        let series = distinct(rows().map(|row| row.case.as_str())).into_iter().map(|case| Series {
            name: case.to_owned(),
            points: rows()
                .filter(|row| row.case == case)
                .map(|row| Point {
                    x: row.x,
                    y: row.loss_percent,
                    lo: row.ci95[0],
                    hi: row.ci95[1],
                })
                .collect(),
        });
        let (title, label) = names(axis);
        Panel {
            title: title.to_owned(),
            x: Axis { label: label.to_owned(), scale: Scale::Log },
            y: Axis { label: "loss of Jobs/Min, %".to_owned(), scale: Scale::Linear },
            series: series.collect(),
        }
    }

    /// The values of an axis in the order of the rows.
    fn values(&self, axis: &str) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::new();
        for row in self.rows.iter().filter(|row| row.axis == axis) {
            if values.iter().all(|value| value.total_cmp(&row.x).is_ne()) {
                values.push(row.x);
            }
        }
        values
    }

    fn find(&self, axis: &str, x: f64, case: &str) -> Option<&SensitivityRow> {
        self.rows
            .iter()
            .find(|row| row.axis == axis && row.case == case && row.x.total_cmp(&x).is_eq())
    }
}

fn loss_cells(row: &SensitivityRow) -> [Cell; 2] {
    let half = (row.ci95[1] - row.ci95[0]) / 2.0;
    let spread = if half.is_finite() { format!("± {}", fixed(half, 1)) } else { String::new() };
    [Cell::number(row.loss_percent, 1), Cell::text(spread)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::MAX_WIDTH;

    /// The numbers are made up for this test.
    fn example() -> SensitivityReport {
        let scale = "4 CPUs, 2000 tasks unless swept, mix shared, 4 seeds.";
        let mut report = SensitivityReport::new("semaphore-2008", "2.6.25", scale);
        for (axis, values) in [("cpus", [1.0, 4.0, 64.0]), ("hold_factor", [0.5, 1.0, 2.0])] {
            for (x, kept) in values.into_iter().zip([1.0, 0.6, 0.1]) {
                let near = |value: f64| Ratio { value, n: 4, lo: value * 0.95, hi: value * 1.05 };
                report.push(axis, x, "2.6.26-rc1", &near(kept));
                report.push(axis, x, "2.6.26-rc1+semaphore-speedup", &near(0.99));
            }
        }
        let single = Ratio { value: 0.5, n: 1, lo: 0.0, hi: f64::INFINITY };
        report.push("cpus", 128.0, "2.6.26-rc1", &single);
        report
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_text());
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for line in example().to_text().lines() {
            assert!(line.chars().count() <= MAX_WIDTH, "{line}");
        }
    }

    #[test]
    fn a_ratio_becomes_a_loss_with_its_ends_exchanged() {
        let report = example();
        let row = &report.rows[2];
        assert!((row.loss_percent - 40.0).abs() < 1e-9);
        assert!((row.ci95[0] - 37.0).abs() < 1e-9 && (row.ci95[1] - 43.0).abs() < 1e-9);
        let single = report.rows.last().unwrap();
        assert!(single.ci95.iter().all(|end| end.is_infinite()));
        let back: SensitivityReport = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(back, report);
    }

    #[test]
    fn the_plot_has_a_panel_for_each_axis_and_a_line_for_each_case() {
        let plot = example().plot();
        assert_eq!(plot.panels.len(), 2);
        assert_eq!(plot.panels[0].title, "CPUs");
        assert_eq!(plot.panels[1].x.label, "hold time, times the default");
        assert_eq!(plot.panels[0].series.len(), 2);
        assert_eq!(plot.panels[0].series[0].points.len(), 4);
        assert!(plot.to_svg().contains("2.6.26-rc1+semaphore-speedup"));
    }
}
