//! One load point.

use convoy_lab::bulk::BulkUse;
use convoy_lab::idle_rules::IdleRule;
use convoy_lab::virtual_run::Sample;
use convoy_workload::record::{Cause, JobStats, Repeat};
use serde::{Deserialize, Serialize};

/// One load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// percent; `None` on a machine with a kernel that cannot be observed.
    pub owner_not_running_percent: Option<f64>,
    /// Mean time between two owners of that lock, in milliseconds; `None` as above.
    pub owner_change_ms: Option<f64>,
    /// Hash of the simulated schedule, hexadecimal; `None` on a real machine.
    pub hash: Option<String>,
    /// Why the point failed, if it did; its numbers then do not cover the whole load.
    pub failed: Option<Cause>,
    /// The executions of the point; the columns are means over them. None on a virtual machine, as
    /// for the following fields.
    pub repeats: Vec<Repeat>,
    /// 95 % interval of Jobs/Min over the executions; `None` for one.
    pub jobs_per_min_ci95: Option<[f64; 2]>,
    /// Whether the precision asked for was reached; `None` if none was.
    pub precise: Option<bool>,
    /// Jobs/Min of one user.
    pub jobs_per_min_per_task: Option<f64>,
    /// User time of all users, seconds.
    pub user_s: Option<f64>,
    /// System time of all users, seconds.
    pub system_s: Option<f64>,
    /// Standard deviation of the users' times, seconds.
    pub std_dev_s: Option<f64>,
    /// The same in percent of their mean.
    pub std_dev_percent: Option<f64>,
    /// Longest time of a user, seconds.
    pub longest_user_s: Option<f64>,
    /// Shortest time of a user, seconds.
    pub shortest_user_s: Option<f64>,
    /// Share of the CPUs' time in user mode, percent.
    pub user_percent: Option<f64>,
    /// Share in the kernel, percent.
    pub system_percent: Option<f64>,
    /// Share that a hypervisor gave to others, percent.
    pub steal_percent: Option<f64>,
    /// Context switches per second that preempted a user.
    pub involuntary_switches_per_s: Option<f64>,
    /// Page faults of the users per second.
    pub page_faults_per_s: Option<f64>,
    /// Of these, the faults that waited for a device.
    pub major_faults_per_s: Option<f64>,
    /// From the release to the start of a user, which 99 % of them do not exceed, seconds.
    pub start_skew_p99_s: Option<f64>,
    /// Wall time of the point beyond Real, seconds.
    pub overhead_s: Option<f64>,
    /// Hash of the orders of all users, hexadecimal.
    pub order_hash: Option<String>,
    /// What each kind of job took, if asked for.
    pub jobs: Vec<JobStats>,
    /// Bulk operations of the simulated page allocator; none on a real machine.
    #[serde(default)]
    pub bulk: Vec<BulkUse>,
    /// Idle time of a simulation while tasks waited on other CPUs, by the rule that let it be.
    #[serde(default)]
    pub idle_rules: Vec<IdleRule>,
    /// The intervals of a simulation, if asked for.
    #[serde(default)]
    pub timeline: Vec<Sample>,
}

impl RunPoint {
    /// Share of the users' CPU time that they spent in the kernel, percent.
    pub(super) fn kernel_percent(&self) -> Option<f64> {
        let (user, system) = (self.user_s?, self.system_s?);
        (user + system > 0.0).then(|| 100.0 * system / (user + system))
    }

    /// Whether it was measured on a real machine.
    pub(super) fn is_real(&self) -> bool {
        self.overhead_s.is_some()
    }
}
