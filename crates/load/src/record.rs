//! What a run leaves: versioned, additive, readable by other programs.
//!
//! Fields are only added; a reader must accept records without the newer ones. A field that a
//! target cannot know is absent, never zero.

use serde::{Deserialize, Serialize};

use crate::calibration::CalibrationHost;
use crate::columns::Columns;
use crate::jobs::Job;

/// Version of [`RunRecord`].
pub const SCHEMA: u32 = 1;

/// One run of a mix over its load points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of this format, [`SCHEMA`].
    pub schema: u32,
    /// Where it ran: `host`, or the kernel preset of the virtual target.
    pub target: String,
    /// Mix or workfile.
    pub mix: String,
    /// Seed of the orders and offsets.
    pub seed: u64,
    /// Every loop count was divided by this; 1 is AIM7's size.
    pub shrink: u32,
    /// Start delay inside Real, seconds; 10 in AIM7 of 1996.
    pub start_delay_s: f64,
    /// The machine.
    pub host: CalibrationHost,
    /// Where the files of the jobs were, on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_directory: Option<String>,
    /// The load points, in the order they ran.
    pub points: Vec<Point>,
}

/// One load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Users (AIM7: tasks).
    pub users: u32,
    /// Jobs/Min.
    pub jobs_per_min: f64,
    /// Job timing index, 0 to 100.
    pub jti: u32,
    /// From release (or the stamp before the start delay) to the end of the last user, seconds.
    pub real_s: f64,
    /// User and system time of all users and the processes they waited for, seconds.
    pub cpu_s: f64,
    /// Jobs/sec/task.
    pub jobs_per_sec_per_task: f64,
    /// Jobs/Min of one user.
    #[serde(default)]
    pub jobs_per_min_per_task: f64,
    /// Standard deviation of the users' times, seconds.
    #[serde(default)]
    pub std_dev_s: f64,
    /// The same in percent of their mean.
    #[serde(default)]
    pub std_dev_percent: f64,
    /// Share of the CPUs' time in which they had nothing to do, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_percent: Option<f64>,
    /// Share of the CPUs' time that went to others than the users (other programs, a hypervisor,
    /// the run control), percent. Far above zero the figures are not those of this load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_percent: Option<f64>,
    /// Context switches of the users per second of Real.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_s: Option<f64>,
    /// Share of the time that the big kernel lock was owned by a task not on a CPU, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_not_running_percent: Option<f64>,
    /// Real that the single-job costs predict, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_s: Option<f64>,
    /// `real_s` without the start delay over `predicted_s`: above 1, what running together costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_over_predicted: Option<f64>,
    /// From the first user's start to the last one's, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_s: Option<f64>,
    /// Jobs that succeeded.
    pub jobs_done: u64,
    /// Jobs that failed.
    #[serde(default)]
    pub jobs_failed: u64,
    /// Users that were killed before their end.
    #[serde(default)]
    pub users_lost: u32,
    /// The first failure: user, job, call, error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Size of a user's file, KB.
    pub file_kb: u64,
    /// FNV-1a of all users' orders, hexadecimal: equal means the same jobs in the same orders.
    pub order_hash: String,
    /// The order of user 0.
    pub first_order: Vec<String>,
    /// What each kind of job took.
    pub jobs: Vec<JobStats>,
}

/// One kind of job at one load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStats {
    /// The job.
    pub job: String,
    /// Runs of all users.
    pub runs: u64,
    /// Runs that failed.
    #[serde(default)]
    pub failures: u64,
    /// Mean time of a run, nanoseconds.
    pub mean_ns: f64,
    /// Longest run, nanoseconds.
    pub max_ns: u64,
    /// Time of a run alone on this machine, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ns: Option<f64>,
}

impl Point {
    /// Takes over the columns.
    #[must_use]
    pub fn with_columns(self, columns: &Columns) -> Self {
        Self {
            jobs_per_min: columns.jobs_per_min,
            jti: columns.jti,
            real_s: columns.real_s,
            jobs_per_sec_per_task: columns.jobs_per_sec_per_task,
            jobs_per_min_per_task: columns.jobs_per_min_per_task,
            std_dev_s: columns.std_dev_s,
            std_dev_percent: columns.std_dev_percent,
            ..self
        }
    }
}

/// The FNV-1a hash of the orders of all users, hexadecimal.
pub fn order_hash(orders: &[Vec<Job>]) -> String {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut add = |byte: u8| {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    };
    for order in orders {
        for job in order {
            job.name().bytes().for_each(&mut add);
            add(b' ');
        }
        add(b'\n');
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_leaves_out_what_it_does_not_know() {
        let point = Point { users: 2, idle_percent: Some(1.5), ..Point::default() };
        let record = RunRecord { schema: SCHEMA, points: vec![point], ..RunRecord::default() };
        let text = serde_json::to_string(&record).expect("serializable");
        assert!(!text.contains("owner_not_running_percent"), "{text}");
        assert_eq!(serde_json::from_str::<RunRecord>(&text).expect("valid"), record);
    }

    #[test]
    fn a_record_of_the_first_schema_is_read() {
        let text = include_str!("../tests/data/schema-1/run.json");
        let record: RunRecord = serde_json::from_str(text).expect("old records stay readable");
        assert_eq!((record.schema, record.points[0].users), (1, 2));
        assert_eq!(record.points[0].owner_not_running_percent, None);
    }

    #[test]
    fn the_hash_depends_on_order_and_user() {
        let (a, b) = (Job::AddInt, Job::Sieve);
        let hash = order_hash(&[vec![a, b], vec![a]]);
        assert_eq!(hash, order_hash(&[vec![a, b], vec![a]]));
        assert_ne!(hash, order_hash(&[vec![b, a], vec![a]]));
        assert_ne!(hash, order_hash(&[vec![a], vec![b, a]]));
        // The offset basis: no users, nothing hashed.
        assert_eq!(order_hash(&[]), "cbf29ce484222325");
    }
}
