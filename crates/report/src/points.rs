//! `convoy run` and `convoy sim`: the load points of an AIM7 run.

use convoy_lab::inputs::Inputs;
use convoy_workload::record::JobStats;
use convoy_workload::users::counted;
use serde::{Deserialize, Serialize};

use crate::format::fixed;
use crate::json::{self, WithVerdict};
use crate::table::{Cell, Column, Table, page_wrap};
use crate::{idle_rules, timeline, verdict};

mod columns;
mod point;

use columns::{MACHINE, OPTIONAL, Optional, REAIM};

pub use point::RunPoint;

/// The result of `convoy run` and `convoy sim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Mix, target, seed and jobs per user in one line.
    pub title: String,
    /// Inputs of a simulation; `None` on a real machine.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// The load points, in the order of the list of users.
    pub points: Vec<RunPoint>,
    /// Lines under the table.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Returns the result in one sentence.
    pub fn verdict(&self) -> String {
        verdict::load(&self.points)
    }

    /// The verdict and every field. Numbers of a point that was not measured are `null`.
    pub fn to_json(&self) -> String {
        json::to_json(&WithVerdict { verdict: &self.verdict(), report: self })
    }

    /// The same as a part of a record.
    pub fn to_value(&self) -> serde_json::Value {
        let all = WithVerdict { verdict: &self.verdict(), report: self };
        serde_json::to_value(&all).unwrap_or_default()
    }

    /// One line per load point, with every column; then the intervals and the jobs.
    pub fn to_csv(&self) -> String {
        let mut columns: Vec<&Optional> = OPTIONAL.iter().collect();
        for more in REAIM.iter().chain(MACHINE) {
            let known = columns.iter().any(|column| column.key == more.key);
            if !known && !["real_s", "jobs_per_min", "jti"].contains(&more.key) {
                columns.push(more);
            }
        }
        let more = [timeline::all(&self.points), self.per_job()];
        let more = more.iter().flatten().map(|table| format!("\n{}", table.to_csv()));
        self.rows(&columns, true).to_csv() + &more.collect::<String>()
    }

    /// The verdict and the tables for people: AIM7's columns, the activity of the machine, the
    /// intervals and the jobs.
    pub fn to_text(&self) -> String {
        let mut texts = vec![page_wrap(&self.verdict())];
        texts.extend(self.tables().iter().map(Table::to_text));
        texts.join("\n")
    }

    /// Its tables: AIM7's columns, the activity of the machine, the jobs and the intervals.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let tables =
            [Some(self.table()), self.machine(), self.per_job(), idle_rules::table(&self.points)];
        tables.into_iter().flatten().chain(timeline::tables(&self.points)).collect()
    }

    /// The first table for people, without the columns that nothing is known for.
    pub fn table(&self) -> Table {
        let known = |column: &&Optional| self.points.iter().any(|p| (column.value)(p).is_some());
        let elsewhere = |column: &&Optional| {
            let twice = MACHINE.iter().any(|other| other.key == column.key);
            twice && self.points.iter().any(RunPoint::is_real)
        };
        let optional: Vec<&Optional> =
            OPTIONAL.iter().filter(known).filter(|column| !elsewhere(column)).collect();
        let mut table = self.rows(&optional, false);
        let whole = self.points.iter().filter(|point| point.failed.is_none());
        let best = whole.max_by(|a, b| a.jobs_per_min.total_cmp(&b.jobs_per_min));
        if let Some(best) = best {
            let jobs = fixed(best.jobs_per_min, 1);
            table.note(format!("Max Jobs per Minute {jobs} with {}.", counted(best.users)));
        }
        for note in &self.notes {
            table.note(note);
        }
        table
    }

    /// Returns the activity of the machine; `None` for a virtual one.
    fn machine(&self) -> Option<Table> {
        let real = || self.points.iter().filter(|point| point.is_real());
        real().next()?;
        let mut columns = vec![Column::number("Tasks", "")];
        columns.extend(MACHINE.iter().map(Optional::column));
        let mut table = Table::new("The machine during the points", columns);
        for point in real() {
            let mut cells = vec![Cell::count(point.users)];
            cells.extend(MACHINE.iter().map(|column| column.cell(point)));
            table.row(cells);
        }
        table.note(
            "in kernel: of the users' CPU time; user to steal: of all CPUs, whatever used them; \
             switches and faults: of the users; \
             start p99: from the release to a user's start; overhead: wall time beyond Real",
        );
        Some(table)
    }

    /// What each kind of job took; `None` if no point says.
    fn per_job(&self) -> Option<Table> {
        fn us(ns: Option<f64>) -> Cell {
            Cell::number(ns.map_or(f64::NAN, |ns| ns / 1e3), 1)
        }
        let told = |point: &&RunPoint| !point.jobs.is_empty();
        self.points.iter().find(told)?;
        let points = self.points.iter().filter(told);
        let rows: Vec<(u64, &JobStats)> =
            points.flat_map(|point| point.jobs.iter().map(|job| (point.users, job))).collect();
        Some(Table::of(
            "Time of a run, by job",
            &rows,
            &[
                (Column::number("Tasks", "").key("users"), &|(users, _)| Cell::count(*users)),
                (Column::text("job"), &|(_, job)| Cell::text(&job.job)),
                (Column::number("runs", ""), &|(_, job)| Cell::count(job.runs)),
                (Column::number("failed", ""), &|(_, job)| Cell::count(job.failures)),
                (Column::number("p50", "µs").key("p50_us"), &|(_, job)| {
                    us(job.p50_ns.map(|ns| ns as f64))
                }),
                (Column::number("p99", "µs").key("p99_us"), &|(_, job)| {
                    us(job.p99_ns.map(|ns| ns as f64))
                }),
                (Column::number("mean", "µs").key("mean_us"), &|(_, job)| us(Some(job.mean_ns))),
                (Column::number("longest", "µs").key("max_us"), &|(_, job)| {
                    us(Some(job.max_ns as f64))
                }),
                (Column::number("alone", "µs").key("alone_us"), &|(_, job)| us(job.alone_ns)),
                (Column::number("mean/alone", "").key("over_alone"), &|(_, job)| {
                    Cell::number(job.alone_ns.map_or(f64::NAN, |alone| job.mean_ns / alone), 2)
                }),
            ],
        ))
    }

    fn rows(&self, optional: &[&Optional], hash: bool) -> Table {
        let mut columns = vec![
            Column::number("Tasks", "").key("users"),
            Column::number("Jobs/Min", "").key("jobs_per_min"),
            Column::number("JTI", "%").key("jti"),
            Column::number("Real", "s").key("real_s"),
            Column::number("CPU", "s").key("cpu_s"),
            Column::number("Jobs/sec/task", "").key("jobs_per_sec_per_task").minor(),
        ];
        columns.extend(optional.iter().map(|column| column.column()));
        columns.push(Column::number("failed", "jobs").key("failed_jobs"));
        if hash {
            columns.push(Column::text("hash"));
            columns.push(Column::text("failure"));
        }
        let mut table = Table::new(&self.title, columns);
        for point in &self.points {
            let mut cells = vec![
                Cell::count(point.users),
                Cell::number(point.jobs_per_min, 1),
                Cell::number(point.jti, 0),
                Cell::number(point.real_s, if point.real_s < 1.0 { 4 } else { 2 }),
                Cell::number(point.cpu_s, if point.cpu_s < 1.0 { 4 } else { 2 }),
                Cell::number(point.jobs_per_sec_per_task, 4),
            ];
            cells.extend(optional.iter().map(|column| column.cell(point)));
            let mark = if point.failed.is_some() { "!" } else { "" };
            cells.push(Cell::count(point.failed_jobs).marked(mark));
            if hash {
                cells.push(Cell::text(point.hash.as_deref().unwrap_or_default()));
                let failure = point.failed.as_ref().map(|cause| cause.text.clone());
                cells.push(Cell::text(failure.unwrap_or_default()));
            }
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_workload::record::Cause;

    fn example() -> RunReport {
        let point = |users, jobs_per_min, measured_over_predicted| RunPoint {
            users,
            jobs_per_min,
            jti: 97.4,
            real_s: 9.87,
            cpu_s: 18.2,
            jobs_per_sec_per_task: 0.987,
            measured_over_predicted,
            failed_jobs: 0,
            idle_percent: measured_over_predicted.map(|_| 58.6),
            context_switches_per_s: Some(3_474.0),
            owner_not_running_percent: None,
            ..RunPoint::default()
        };
        RunReport {
            title: "Mix shared on this machine, 100 jobs per user, seed 1".to_owned(),
            inputs: None,
            points: vec![point(1, 589.6, Some(0.97)), point(200, 1_201.04, None)],
            notes: vec!["2 CPUs.".to_owned()],
        }
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    /// The example as measured on a real machine.
    fn measured() -> RunReport {
        let mut report = example();
        for point in &mut report.points {
            *point = RunPoint {
                jobs_per_min_per_task: Some(1_234.56),
                jobs_per_min_ci95: Some([580.0, 600.0]),
                user_s: Some(12.0),
                system_s: Some(6.2),
                std_dev_s: Some(0.0123),
                std_dev_percent: Some(2.6),
                user_percent: Some(60.0),
                overhead_s: Some(0.0123),
                jobs: vec![JobStats {
                    job: "sync_disk_update".to_owned(),
                    runs: 20_000,
                    mean_ns: 1_234_567.0,
                    max_ns: 9_876_543_210,
                    p50_ns: Some(1_200_000),
                    p99_ns: Some(9_000_000),
                    alone_ns: Some(1_000_000.0),
                    ..JobStats::default()
                }],
                ..point.clone()
            };
        }
        report
    }

    #[test]
    fn a_real_machine_tells_more() {
        insta::assert_snapshot!(measured().to_text());
    }

    #[test]
    fn a_failed_point_is_marked_and_not_the_best() {
        let mut report = measured();
        let cause =
            Cause { user: Some(3), text: "user 3: it broke".to_owned(), ..Cause::default() };
        report.points[1].failed = Some(cause);
        let text = report.to_text();
        assert!(text.contains("Max Jobs per Minute 589.6 with 1 user."), "{text}");
        assert!(text.contains("0!"), "{text}");
        assert!(report.to_csv().contains("user 3: it broke"));
        report.points[1].jobs_per_min = f64::NAN;
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(json["points"][1]["jobs_per_min"].is_null());
        assert_eq!(json["points"][1]["failed"]["user"], 3);
    }
}
