//! `convoy reproduce`: published results compared with reproduced ones.

use convoy_stats::Estimate;
use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::format::{NOTHING, distinct, fixed, wrap};
use crate::json;
use crate::metric::{AIM7, CAUSES, Metric, in_columns, metric};
use crate::table::{Cell, Column, Table};
use crate::verdict::cpus;

/// One number of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReproduceRow {
    pub(crate) case: String,
    /// Name of the metric, see [`metric`].
    pub(crate) metric: String,
    /// Unit of the three numbers, empty if the metric has none.
    pub(crate) unit: String,
    /// The published value, if any.
    pub(crate) published: Option<f64>,
    /// Mean over the seeds.
    pub(crate) reproduced: f64,
    /// 95 % t interval of that mean; infinite ends (`null` in JSON) with one seed.
    #[serde(with = "json::interval")]
    pub ci95: [f64; 2],
    /// Whether a parameter of the machine was fitted to the published number.
    pub(crate) fitted: bool,
}

impl ReproduceRow {
    /// The error as it is printed: in points for percentages, else relative to the published
    /// number.
    fn error(&self) -> Option<String> {
        let published = self.published?;
        let difference = self.reproduced - published;
        let (value, unit) = if self.unit == "%" {
            (difference, "pt")
        } else if published == 0.0 {
            return None;
        } else {
            (100.0 * difference / published.abs(), "%")
        };
        let text = fixed(value, 1);
        let sign = if text.starts_with('-') || text == NOTHING { "" } else { "+" };
        Some(format!("{sign}{text} {unit}"))
    }

    fn half_width(&self) -> f64 {
        (self.ci95[1] - self.ci95[0]) / 2.0
    }

    fn spread(&self, decimals: usize) -> String {
        let mut text = String::new();
        if self.half_width().is_finite() {
            text = format!("± {}", fixed(self.half_width(), decimals));
        }
        if self.fitted {
            text.push_str(if text.is_empty() { "f" } else { " f" });
        }
        text
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReproduceReport {
    pub(crate) experiment: String,
    /// Machine, tasks, mix, seeds and size in one sentence; printed under the title.
    pub(crate) scale: String,
    /// The column Tasks.
    pub(crate) tasks: u64,
    /// All numbers, grouped by case in the order of the source.
    pub(crate) rows: Vec<ReproduceRow>,
    /// Number of published predictions that a run at full size compares, each family once for a
    /// case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) possible: Option<usize>,
    pub(crate) notes: Vec<String>,
    /// The changes and the null model, if there is a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Changes>,
}

impl ReproduceReport {
    pub(crate) fn new(experiment: &str, scale: &str, tasks: u64) -> Self {
        Self {
            experiment: experiment.to_owned(),
            scale: scale.to_owned(),
            tasks,
            rows: Vec::new(),
            possible: None,
            notes: Vec::new(),
            changes: None,
        }
    }

    /// Returns the result in a few words; `None` without a published number.
    pub(crate) fn verdict(&self) -> Option<String> {
        let (predicted, fitted) = (self.independent(false), self.independent(true));
        let (mut parts, mut loss) = (Vec::new(), None);
        if !predicted.is_empty() {
            let (good, count) = (within(&predicted), predicted.len());
            let possible = match self.possible {
                Some(possible) if possible > count => format!("; {possible} were possible"),
                _ => String::new(),
            };
            parts.push(format!(
                "{good} of {count} independent predictions are within 5 % of the published number \
                 (percentages: 5 points){possible}"
            ));
        }
        if !fitted.is_empty() {
            parts.push(format!("{} of {} fitted numbers are", within(&fitted), fitted.len()));
        }
        if let Some(changes) = &self.changes {
            let title =
                metric(&changes.metric).map_or(changes.metric.as_str(), |metric| metric.title);
            parts.extend(changes.sentence());
            let lost = changes
                .rows
                .iter()
                .min_by(|a, b| a.reproduced_percent.total_cmp(&b.reproduced_percent));
            if let Some(row) = lost.filter(|row| row.ci95[1] < 0.0 || !row.ci95[0].is_finite()) {
                let published = row.published_percent;
                let published = published.map(|p| format!(" (published: {} %)", fixed(-p, 1)));
                let figure = |key: &str| self.find(&row.case, key).map(|row| row.reproduced);
                let cause = cpus(figure("idle_percent"), figure("owner_not_running_percent"));
                loss = Some(format!(
                    "{} loses {} % of {title} against {}{}{}",
                    row.case,
                    fixed(-row.reproduced_percent, 1),
                    changes.baseline,
                    published.unwrap_or_default(),
                    cause.map_or_else(String::new, |cause| format!(": {cause}"))
                ));
            }
        }
        let parts = Some(parts.join("; ")).filter(|parts| !parts.is_empty());
        let sentences: Vec<String> = loss.into_iter().chain(parts).collect();
        (!sentences.is_empty()).then(|| sentences.join(". "))
    }

    /// Errors of the numbers that are fitted or not, each family once for a case: Jobs/Min, Real
    /// and Jobs/sec/task are one number in three units. Percentages have their error in points.
    fn independent(&self, fitted: bool) -> Vec<f64> {
        let mut errors = Vec::new();
        for case in self.cases() {
            let rows = || self.rows.iter().filter(|row| row.case == case);
            for name in distinct(rows().map(|row| family(&row.metric))) {
                let members = || rows().filter(|row| family(&row.metric) == name);
                let first = members().find_map(|row| Some((row, row.published?)));
                let Some((row, published)) = first else { continue };
                if members().any(|row| row.fitted) == fitted {
                    // A published zero has no relative error.
                    let scale = if row.unit == "%" { 100.0 } else { published.abs() };
                    let error = (row.reproduced - published).abs() / scale;
                    errors.extend(Some(error).filter(|error| error.is_finite()));
                }
            }
        }
        errors
    }

    /// Adds a number with the unit of its metric, empty for a metric without a column.
    pub(crate) fn push(
        &mut self,
        case: &str,
        key: &str,
        published: Option<f64>,
        reproduced: &Estimate,
        fitted: bool,
    ) {
        self.rows.push(ReproduceRow {
            case: case.to_owned(),
            metric: key.to_owned(),
            unit: metric(key).map_or("", |metric| metric.unit).to_owned(),
            published,
            reproduced: reproduced.mean,
            ci95: [reproduced.lo, reproduced.hi],
            fitted,
        });
    }

    /// One line per number.
    pub(crate) fn to_csv(&self) -> String {
        let table = Table::of(
            "",
            &self.rows,
            &[
                (Column::text("case"), &|row| Cell::text(&row.case)),
                (Column::text("metric"), &|row| Cell::text(&row.metric)),
                (Column::text("unit"), &|row| Cell::text(&row.unit)),
                (Column::text("published"), &|row| Cell::plain(row.published.unwrap_or(f64::NAN))),
                (Column::text("reproduced"), &|row| Cell::plain(row.reproduced)),
                (Column::text("lo"), &|row| Cell::plain(row.ci95[0])),
                (Column::text("hi"), &|row| Cell::plain(row.ci95[1])),
                (Column::text("fitted"), &|row| Cell::text(row.fitted.to_string())),
            ],
        );
        table.to_csv()
    }

    /// Returns the source's table, the table of causes, and metrics without a column in either.
    /// Empty tables are omitted; the notes are below the last.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut title = format!("{}: published and reproduced", self.experiment);
        if !self.scale.is_empty() {
            title = format!(
                "{title}\n{}",
                wrap(&self.scale, 118.min(crate::table::page_width())).join("\n")
            );
        }
        let mut tables = vec![self.stacked(&title, &AIM7, true)];
        tables.push(self.stacked("Where the time went", &CAUSES, false));
        tables.push(self.others());
        tables.extend(self.changes.as_ref().map(Changes::table));
        tables.retain(|table| !table.is_empty());
        if let Some(last) = tables.last_mut() {
            for note in self.legend().into_iter().chain(self.notes.iter().map(String::as_str)) {
                last.note(note);
            }
        }
        tables
    }

    /// Returns the meaning of the signs that occur.
    fn legend(&self) -> Vec<&'static str> {
        let mut legend = Vec::new();
        if self.rows.iter().any(|row| row.half_width().is_finite()) {
            legend.push("±: half the 95 % t interval of the mean over the seeds.");
        }
        if self.rows.iter().any(|row| !row.half_width().is_finite()) {
            legend.push("A number without ± comes from one seed and has no interval.");
        }
        if self.rows.iter().any(|row| row.fitted) {
            legend.push("f: fitted to the published number; every other number is a prediction.");
        }
        if self.rows.iter().any(|row| row.unit == "%" && row.published.is_some()) {
            legend.push("pt: percentage points.");
        }
        legend
    }

    /// The cases in the order in which they first appear.
    fn cases(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.case.as_str()))
    }

    fn find(&self, case: &str, key: &str) -> Option<&ReproduceRow> {
        self.rows.iter().find(|row| row.case == case && row.metric == key)
    }

    /// Three lines per case under the same columns: published, reproduced, error.
    fn stacked(&self, title: &str, metrics: &[Metric], tasks: bool) -> Table {
        let known = |metric: &&Metric| self.rows.iter().any(|row| row.metric == metric.key);
        let metrics: Vec<&Metric> = metrics.iter().filter(known).collect();
        let mut columns = vec![Column::text("Kernel")];
        if tasks {
            columns.push(Column::number("Tasks", ""));
        }
        for metric in &metrics {
            let column = Column::number(metric.title, metric.head).key(metric.key);
            columns.push(if metric.minor { column.minor() } else { column });
            columns.push(Column::text("").joined());
        }
        let mut table = Table::new(title, columns);
        for case in self.cases() {
            let found: Vec<_> = metrics.iter().map(|m| (*m, self.find(case, m.key))).collect();
            if found.iter().all(|(_, row)| row.is_none()) {
                continue;
            }
            let published = found.iter().any(|(_, row)| row.is_some_and(|r| r.published.is_some()));
            table.rule();
            table.heading(case);
            for line in [Line::Published, Line::Reproduced, Line::Error] {
                if line != Line::Reproduced && !published {
                    continue;
                }
                let mut cells = vec![Cell::text(format!("  {}", line.label()))];
                if tasks {
                    let count = Cell::count(self.tasks);
                    cells.push(if line == Line::Error { Cell::empty() } else { count });
                }
                cells.extend(found.iter().flat_map(|(metric, row)| line.cells(metric, *row)));
                table.row(cells);
            }
        }
        table
    }

    /// Numbers without a column, one line each.
    fn others(&self) -> Table {
        const DECIMALS: usize = 3;
        Table::of(
            "Other figures",
            self.rows.iter().filter(|row| !in_columns(&row.metric)),
            &[
                (Column::text("Kernel"), &|row| Cell::text(&row.case)),
                (Column::text("Metric"), &|row| Cell::text(&row.metric)),
                (Column::text("Unit"), &|row| Cell::text(&row.unit)),
                (Column::number("published", ""), &|row| Cell::known(row.published, DECIMALS)),
                (Column::number("reproduced", ""), &|row| Cell::number(row.reproduced, DECIMALS)),
                (Column::text("").joined(), &|row| Cell::text(row.spread(DECIMALS))),
                (Column::number("error", ""), &|row| Cell::text(row.error().unwrap_or_default())),
            ],
        )
    }
}

/// The metric that stands for all that follow from it and from the number of jobs.
pub(crate) fn family(metric: &str) -> &str {
    match metric {
        "real_s" | "jobs_per_sec_per_task" => "jobs_per_min",
        other => other,
    }
}

/// Number of errors of at most 5 %.
fn within(errors: &[f64]) -> usize {
    errors.iter().filter(|error| **error <= 0.05).count()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Published,
    Reproduced,
    Error,
}

impl Line {
    fn label(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Reproduced => "reproduced",
            Self::Error => "error",
        }
    }

    /// The number and the narrow column after it.
    fn cells(self, metric: &Metric, row: Option<&ReproduceRow>) -> [Cell; 2] {
        let Some(row) = row else { return [Cell::empty(), Cell::empty()] };
        match self {
            Self::Published => {
                let number = row.published.map(|value| Cell::number(value, metric.decimals));
                [number.unwrap_or_default(), Cell::empty()]
            }
            Self::Reproduced => [
                Cell::number(row.reproduced, metric.decimals),
                Cell::text(row.spread(metric.decimals)),
            ],
            Self::Error => [Cell::text(row.error().unwrap_or_default()), Cell::empty()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Estimate {
        Estimate { mean, sd: Some(half), n: 4, lo: mean - half, hi: mean + half }
    }

    fn example() -> ReproduceReport {
        let scale = "4 CPUs, 2000 tasks, mix shared, 1/20 of full size, 4 seeds.";
        let mut report = ReproduceReport::new("semaphore-2008", scale, 2000);
        // The published halves are the means of the source's two runs; the others are made up for
        // this test.
        let keys = AIM7.map(|metric| metric.key);
        let cases = [
            (
                "2.6.25",
                [55995.4, 92.5, 207.85, 791.2, 0.46665],
                [56010.0, 93.2, 207.8, 790.9, 0.4668],
            ),
            (
                "2.6.26-rc1",
                [32504.35, 84.5, 358.3, 784.05, 0.27085],
                [33101.2, 80.1, 351.8, 779.4, 0.2758],
            ),
            (
                "2.6.26-rc1+semaphore-speedup",
                [55705.75, 94.0, 209.0, 795.8, 0.4642],
                [55450.0, 93.9, 209.9, 793.0, 0.4621],
            ),
        ];
        for (case, published, reproduced) in cases {
            for ((key, theirs), ours) in keys.iter().zip(published).zip(reproduced) {
                let fitted = case == "2.6.25" && *key == "jobs_per_min";
                report.push(case, key, Some(theirs), &estimate(ours, ours * 0.004), fitted);
            }
        }
        report.push("2.6.26-rc1", "idle_percent", Some(44.0), &estimate(43.1, 0.8), false);
        report.push("2.6.26-rc1", "context_switches_per_s", None, &estimate(4_812.0, 55.0), false);
        report.push("2.6.26-rc1", "owner_not_running_percent", None, &estimate(88.2, 1.1), false);
        report.push("2.6.25", "idle_percent", Some(0.0), &estimate(0.3, 0.1), false);
        report.push("2.6.25", "owner_change_ms", None, &estimate(0.412, 0.02), false);
        report.push("2.6.25", "bkl_events_per_shell", None, &estimate(4.0, f64::INFINITY), true);
        report.notes.push("published: mean of the two runs of the source.".to_owned());
        report
    }

    #[test]
    fn the_verdict_counts_each_family_once_for_a_case() {
        let mut report = example();
        report.changes = None;
        report.possible = Some(12);
        // Throughput, JTI and CPU of three cases, but the fitted throughput of 2.6.25; idle time
        // of two.
        assert_eq!(
            report.verdict().unwrap(),
            "10 of 10 independent predictions are within 5 % of the published number (percentages: \
             5 points); 12 were possible; 1 of 1 fitted numbers are"
        );
    }

    #[test]
    fn csv_has_one_line_per_number() {
        let report = example();
        let csv = report.to_csv();
        assert_eq!(csv.lines().count(), 1 + report.rows.len());
        assert_eq!(csv.lines().next(), Some("case,metric,unit,published,reproduced,lo,hi,fitted"));
        assert!(csv.contains("2.6.26-rc1,idle_percent,%,44,43.1,42.300000000000004,"));
    }
}
