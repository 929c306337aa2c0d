//! `convoy run`: the load points of an AIM7 run.

use serde::{Deserialize, Serialize};

use crate::format::fixed;
use crate::json;
use crate::table::{Cell, Column, Table};

/// One load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPoint {
    /// Users, AIM7's Tasks.
    pub users: u64,
    /// Jobs of all users per minute of real time.
    pub jobs_per_min: f64,
    /// Job timing index in percent: 100 less the relative standard deviation of the users' times.
    pub jti: f64,
    /// From the start signal to the end of the last user, in seconds.
    pub real_s: f64,
    /// User and system time of all users, in seconds.
    pub cpu_s: f64,
    /// Jobs per second and user.
    pub jobs_per_sec_per_task: f64,
    /// Jobs/Min over what single-job calibration predicts for this machine; `None` without a
    /// prediction.
    pub measured_over_predicted: Option<f64>,
    /// Jobs that failed; they are not counted as done.
    pub failed_jobs: u64,
    /// Idle time of the CPUs in percent; `None` where it is not known.
    pub idle_percent: Option<f64>,
    /// Context switches per second; `None` where they are not known.
    pub context_switches_per_s: Option<f64>,
    /// Share of the time in which the big kernel lock had an owner that was not on a CPU, in
    /// percent; `None` on a machine whose kernel cannot be watched.
    pub owner_not_running_percent: Option<f64>,
    /// Mean time between two owners of that lock, in milliseconds; `None` as above.
    pub owner_change_ms: Option<f64>,
    /// Hash of the simulated schedule, hexadecimal; `None` on a real machine.
    pub hash: Option<String>,
}

/// A column that a table for people has only where some point knows the number.
struct Optional {
    title: &'static str,
    unit: &'static str,
    key: &'static str,
    decimals: usize,
    value: fn(&RunPoint) -> Option<f64>,
}

const OPTIONAL: [Optional; 5] = [
    Optional {
        title: "meas/pred",
        unit: "",
        key: "measured_over_predicted",
        decimals: 2,
        value: |point| point.measured_over_predicted,
    },
    Optional {
        title: "idle",
        unit: "%",
        key: "idle_percent",
        decimals: 1,
        value: |point| point.idle_percent,
    },
    Optional {
        title: "switches",
        unit: "1/s",
        key: "context_switches_per_s",
        decimals: 0,
        value: |point| point.context_switches_per_s,
    },
    Optional {
        title: "owner off CPU",
        unit: "%",
        key: "owner_not_running_percent",
        decimals: 1,
        value: |point| point.owner_not_running_percent,
    },
    Optional {
        title: "owner change",
        unit: "ms",
        key: "owner_change_ms",
        decimals: 2,
        value: |point| point.owner_change_ms,
    },
];

/// The result of `convoy run` with a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Mix, target, seed and jobs per user in one line.
    pub title: String,
    /// The load points, in the order of the list of users.
    pub points: Vec<RunPoint>,
    /// Lines under the table.
    pub notes: Vec<String>,
}

impl RunReport {
    /// JSON as DESIGN section 7 lays it down.
    pub fn to_json(&self) -> String {
        json::to_json(self)
    }

    /// One line per load point, with every column.
    pub fn to_csv(&self) -> String {
        self.rows(&OPTIONAL.each_ref(), true).to_csv()
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        self.table().to_text()
    }

    /// The table for people, without the columns that nothing is known for.
    pub fn table(&self) -> Table {
        let known = |column: &&Optional| self.points.iter().any(|p| (column.value)(p).is_some());
        let optional: Vec<&Optional> = OPTIONAL.iter().filter(known).collect();
        let mut table = self.rows(&optional, false);
        let best = self.points.iter().max_by(|a, b| a.jobs_per_min.total_cmp(&b.jobs_per_min));
        if let Some(best) = best {
            let jobs = fixed(best.jobs_per_min, 1);
            table.note(format!("Max Jobs per Minute {jobs} at {} tasks.", best.users));
        }
        for note in &self.notes {
            table.note(note);
        }
        table
    }

    fn rows(&self, optional: &[&Optional], hash: bool) -> Table {
        let mut columns = vec![
            Column::number("Tasks", "").key("users"),
            Column::number("Jobs/Min", "").key("jobs_per_min"),
            Column::number("JTI", "%").key("jti"),
            Column::number("Real", "s").key("real_s"),
            Column::number("CPU", "s").key("cpu_s"),
            Column::number("Jobs/sec/task", "").key("jobs_per_sec_per_task"),
        ];
        let number = |c: &&Optional| Column::number(c.title, c.unit).key(c.key);
        columns.extend(optional.iter().map(number));
        columns.push(Column::number("failed", "jobs").key("failed_jobs"));
        if hash {
            columns.push(Column::text("hash"));
        }
        let mut table = Table::new(&self.title, columns);
        for point in &self.points {
            let mut cells = vec![
                Cell::count(point.users),
                Cell::number(point.jobs_per_min, 1),
                Cell::number(point.jti, 0),
                Cell::number(point.real_s, 2),
                Cell::number(point.cpu_s, 2),
                Cell::number(point.jobs_per_sec_per_task, 4),
            ];
            // What is not a number shows as unknown and is empty in CSV.
            let value = |c: &&Optional| (c.value)(point).unwrap_or(f64::NAN);
            cells.extend(optional.iter().map(|c| Cell::number(value(c), c.decimals)));
            cells.push(Cell::count(point.failed_jobs));
            if hash {
                cells.push(Cell::text(point.hash.as_deref().unwrap_or_default()));
            }
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            owner_change_ms: None,
            hash: None,
        };
        RunReport {
            title: "Mix shared on this machine, 100 jobs per user, seed 1".to_owned(),
            points: vec![point(1, 589.6, Some(0.97)), point(200, 1_201.04, None)],
            notes: vec!["2 CPUs.".to_owned()],
        }
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
    fn json() {
        let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        let point = &json["points"][1];
        assert_eq!(point["users"], 200);
        assert_eq!(point["jobs_per_min"], 1201.04);
        assert_eq!(point["measured_over_predicted"], serde_json::Value::Null);
        for key in ["jti", "real_s", "cpu_s", "jobs_per_sec_per_task"] {
            assert!(point[key].is_f64(), "{key}");
        }
        for key in ["idle_percent", "owner_not_running_percent", "owner_change_ms", "hash"] {
            assert!(point.as_object().unwrap().contains_key(key), "{key}");
            assert!(point[key].is_null(), "{key}");
        }
    }

    #[test]
    fn a_full_table_fits_a_terminal() {
        let mut report = example();
        for point in &mut report.points {
            point.users = 10_000;
            point.jobs_per_min = 1_234_567.8;
            point.idle_percent = Some(100.0);
            point.owner_not_running_percent = Some(100.0);
            point.owner_change_ms = Some(12_345.67);
        }
        for line in report.to_text().lines() {
            assert!(line.chars().count() <= crate::MAX_WIDTH, "{line}");
        }
    }
}
