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
}

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

    /// One line per load point.
    pub fn to_csv(&self) -> String {
        self.table().to_csv()
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        self.table().to_text()
    }

    /// The table of both, for Markdown.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::number("Tasks", "").key("users"),
            Column::number("Jobs/Min", "").key("jobs_per_min"),
            Column::number("JTI", "%").key("jti"),
            Column::number("Real", "s").key("real_s"),
            Column::number("CPU", "s").key("cpu_s"),
            Column::number("Jobs/sec/task", "").key("jobs_per_sec_per_task"),
            Column::number("meas/pred", "").key("measured_over_predicted"),
            Column::number("failed", "jobs").key("failed_jobs"),
        ];
        let mut table = Table::new(&self.title, columns);
        for point in &self.points {
            let ratio = point.measured_over_predicted;
            table.row(vec![
                Cell::count(point.users),
                Cell::number(point.jobs_per_min, 1),
                Cell::number(point.jti, 0),
                Cell::number(point.real_s, 2),
                Cell::number(point.cpu_s, 2),
                Cell::number(point.jobs_per_sec_per_task, 4),
                ratio.map_or_else(|| Cell::number(f64::NAN, 0), |value| Cell::number(value, 2)),
                Cell::count(point.failed_jobs),
            ]);
        }
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
    }
}
