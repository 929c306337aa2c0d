//! The change of each case against the baseline, compared with the null model that predicts no
//! change.

use convoy_stats::Sample;
use serde::{Deserialize, Serialize};

use crate::format::fixed;
use crate::json;
use crate::metric::metric;
use crate::table::{Cell, Column, Table};

/// How much each case differs from the baseline, published and reproduced. The null model predicts
/// that nothing changes, so its error is the published change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// The case that the others are compared with.
    pub(crate) baseline: String,
    pub(crate) metric: String,
    /// One row for each other case.
    pub(crate) rows: Vec<ChangeRow>,
    /// Mean absolute error of all rows with a published change, percentage points.
    pub(crate) mean_abs_error: Option<f64>,
    /// The same of the null model.
    pub(crate) mean_abs_error_null: Option<f64>,
    /// Mean absolute error of the rows that are predictions.
    pub(crate) mean_abs_error_predicted: Option<f64>,
    /// The same of the null model.
    pub(crate) mean_abs_error_predicted_null: Option<f64>,
}

/// The change of one case, percent of the baseline; less is negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeRow {
    pub(crate) case: String,
    pub(crate) published_percent: Option<f64>,
    /// Mean over the seeds, in pairs.
    pub(crate) reproduced_percent: f64,
    /// 95 % t interval of that mean.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// Change of the CPU time of a job, percent.
    pub(crate) cpu_per_job_percent: Option<f64>,
    /// Idle time of the baseline and of this case, percent.
    pub(crate) idle_percent: Option<[f64; 2]>,
    /// Whether a parameter was fitted to the published number.
    pub(crate) fitted: bool,
}

impl Changes {
    /// The changes of `rows`, with the errors of the predictions.
    pub(crate) fn new(baseline: &str, metric: &str, rows: Vec<ChangeRow>) -> Self {
        let error = |null: bool, all: bool| {
            let rows = rows.iter().filter(|row| all || !row.fitted);
            let own = |row: &ChangeRow| if null { 0.0 } else { row.reproduced_percent };
            let errors = rows.filter_map(|row| Some((own(row) - row.published_percent?).abs()));
            Sample::new(errors.collect::<Vec<f64>>()).ok().map(|errors| errors.estimate().mean)
        };
        Self {
            baseline: baseline.to_owned(),
            metric: metric.to_owned(),
            mean_abs_error: error(false, true),
            mean_abs_error_null: error(true, true),
            mean_abs_error_predicted: error(false, false),
            mean_abs_error_predicted_null: error(true, false),
            rows,
        }
    }

    /// Returns the errors and the null model's; `None` without a published change.
    pub(crate) fn sentence(&self) -> Option<String> {
        let (own, null) = self.mean_abs_error.zip(self.mean_abs_error_null)?;
        let predicted = self.mean_abs_error_predicted.zip(self.mean_abs_error_predicted_null);
        let predicted = predicted.filter(|_| self.rows.iter().any(|row| row.fitted));
        let predicted = predicted.map_or_else(String::new, |(own, null)| {
            format!(" (the predictions alone: {} and {})", fixed(own, 1), fixed(null, 1))
        });
        Some(format!(
            "changes are off by {} points on average, predicting no change by {}{predicted}",
            fixed(own, 1),
            fixed(null, 1)
        ))
    }

    pub(crate) fn table(&self) -> Table {
        fn signed(value: Option<f64>) -> Cell {
            value.map_or_else(Cell::empty, |value| Cell::signed(value, 1))
        }
        let title = metric(&self.metric).map_or(self.metric.as_str(), |metric| metric.title);
        let columns = vec![
            Column::text("Kernel").key("case"),
            Column::number("published", "%").key("published_percent"),
            Column::number("reproduced", "%").key("reproduced_percent"),
            Column::text("").key("half_width_percent").joined(),
            Column::number("error", "pt").key("error_points"),
            Column::number("no change", "pt").key("error_null_points"),
            Column::number("CPU/job", "%").key("cpu_per_job_percent"),
            Column::number("before", "%").key("idle_before_percent").group("idle"),
            Column::number("after", "%").key("idle_after_percent").group("idle"),
        ];
        let heading =
            format!("Change of {title} against {}, and predicting no change", self.baseline);
        let mut table = Table::new(&heading, columns);
        for row in &self.rows {
            let half = (row.ci95[1] - row.ci95[0]) / 2.0;
            let mut spread =
                if half.is_finite() { format!("± {}", fixed(half, 1)) } else { String::new() };
            spread.push_str(if row.fitted { " f" } else { "" });
            let idle = |at: usize| Cell::known(row.idle_percent.map(|idle| idle[at]), 1);
            table.row(vec![
                Cell::text(&row.case),
                signed(row.published_percent),
                signed(Some(row.reproduced_percent)),
                Cell::text(spread.trim()),
                signed(row.published_percent.map(|value| row.reproduced_percent - value)),
                signed(row.published_percent.map(|value| -value)),
                signed(row.cpu_per_job_percent),
                idle(0),
                idle(1),
            ]);
        }
        if let Some(sentence) = self.sentence() {
            table.note(sentence);
        }
        table
    }
}
