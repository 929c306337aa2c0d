//! The record of a run: versioned, additive, readable by other programs.
//!
//! Fields are only added; a reader must accept records without the newer ones. A field that a
//! target cannot know is absent, never zero.

use crate::dialect::Dialect;
use convoy_os::Disturbance;
use serde::{Deserialize, Serialize};

use crate::calibration::CalibrationHost;
use crate::columns::Columns;
use crate::jobs::Job;
use crate::sizes::Sizes;

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
    /// The original of the jobs: 1996 if absent, in older records.
    #[serde(default)]
    pub dialect: Dialect,
    /// The sizes of the users' files; older records do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Whether the disk jobs called `sync` as re-aim's do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// Whether `shell_rtns_2` slept as re-aim's does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_sleep: bool,
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
    /// Jobs of each user.
    #[serde(default)]
    pub jobs_per_user: u32,
    /// Time that measuring the jobs alone took, for the prediction, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict_wall_s: Option<f64>,
    /// Fresh processes in which they were measured, each job twice in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict_passes: Option<u32>,
    /// Notes on the mix for readers of the figures, and the mechanism of asynchronous transfers if
    /// its jobs make any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The order of every user of the largest point, names separated by blanks. A user's order
    /// depends on mix, seed and its index only: the users of a smaller point are the first of
    /// these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// Activity of other programs on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Whether points were still to come when this was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
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
    /// Executions of the point; with more than one, every column is the mean over them.
    #[serde(default)]
    pub repeats: Vec<Repeat>,
    /// 95 % interval of Jobs/Min over the executions. With `--precise` it holds although the number
    /// of executions was chosen by looking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_per_min_ci95: Option<[f64; 2]>,
    /// Whether `--precise` was reached; absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precise: Option<bool>,
    /// User time of all users and the processes they waited for, seconds.
    #[serde(default)]
    pub user_s: f64,
    /// System time of the same, seconds.
    #[serde(default)]
    pub system_s: f64,
    /// AIM7's JTI as AIM7 computes it, which goes below zero.
    #[serde(default)]
    pub jti_compat: i32,
    /// Longest time of a user, seconds.
    #[serde(default)]
    pub longest_user_s: f64,
    /// Shortest time of a user, seconds.
    #[serde(default)]
    pub shortest_user_s: f64,
    /// Share of the CPUs' time in user mode, of this load or others, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_percent: Option<f64>,
    /// Share of the CPUs' time in the kernel, of this load or others, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_percent: Option<f64>,
    /// Share of the CPUs' time that a hypervisor gave to others, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_percent: Option<f64>,
    /// Share of the CPUs' time in which they had nothing to do, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_percent: Option<f64>,
    /// Share of the CPUs' time that went to others than the users (other programs, a hypervisor,
    /// the run control), percent. If it is far above zero, the figures do not reflect this load
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_percent: Option<f64>,
    /// Context switches of the users per second of Real.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_s: Option<f64>,
    /// Of these, the switches that preempted a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches_per_s: Option<f64>,
    /// Page faults of the users per second of Real.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_faults_per_s: Option<f64>,
    /// Of these, the faults that waited for a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults_per_s: Option<f64>,
    /// Wall time of the point beyond Real: files made, users started, everything removed; seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead_s: Option<f64>,
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
    /// From the release to the start of a user: the time that 99 % of the users do not exceed,
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_p99_s: Option<f64>,
    /// Why the point failed, if it did. Its columns then cover the executions before the failure,
    /// or the users that finished; all zero if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Cause>,
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

/// One execution of a load point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Jobs/Min.
    pub jobs_per_min: f64,
    /// Job timing index.
    pub jti: u32,
    /// Real, seconds.
    pub real_s: f64,
    /// User and system time, seconds.
    pub cpu_s: f64,
}

/// Why a load point failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The user, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The system call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The error, as `ENOSPC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// All of it in words, with the cure.
    pub text: String,
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
    /// The time that half of the runs do not exceed, nanoseconds, off by at most 3.2 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// The time that 99 % of the runs do not exceed, nanoseconds, off by at most 3.2 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
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
            jti_compat: columns.jti_compat,
            longest_user_s: columns.longest_s,
            shortest_user_s: columns.shortest_s,
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
