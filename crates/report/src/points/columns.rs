//! Columns of a load point that not every run knows.

use super::point::RunPoint;
use crate::table::{Cell, Column};

/// A column that a table for people has only where some point knows the number.
pub(super) struct Optional {
    title: &'static str,
    unit: &'static str,
    pub(super) key: &'static str,
    decimals: usize,
    pub(super) value: fn(&RunPoint) -> Option<f64>,
    is_minor: bool,
}

const fn optional(
    title: &'static str,
    unit: &'static str,
    key: &'static str,
    decimals: usize,
    value: fn(&RunPoint) -> Option<f64>,
) -> Optional {
    Optional { title, unit, key, decimals, value, is_minor: false }
}

/// In both the first table and the machine's.
const IDLE: Optional = optional("idle", "%", "idle_percent", 1, |point| point.idle_percent);
/// As above.
const SWITCHES: Optional =
    optional("switches", "1/s", "context_switches_per_s", 0, |point| point.context_switches_per_s);

/// AIM7's columns after the first six, and the virtual machine's.
pub(super) const OPTIONAL: &[Optional] = &[
    optional("Jobs/min/task", "", "jobs_per_min_per_task", 2, |p| p.jobs_per_min_per_task),
    optional("±", "%", "precision_percent", 2, |point| {
        point.jobs_per_min_ci95.map(|[lo, hi]| 100.0 * (hi - lo) / (hi + lo))
    }),
    optional("meas/pred", "", "measured_over_predicted", 2, |p| p.measured_over_predicted),
    IDLE,
    SWITCHES,
    optional("owner off CPU", "%", "owner_not_running_percent", 1, |point| {
        point.owner_not_running_percent
    }),
    Optional {
        is_minor: true,
        ..optional("owner change", "ms", "owner_change_ms", 2, |point| point.owner_change_ms)
    },
];

/// re-aim's columns after the first.
pub(super) const REAIM: &[Optional] = &[
    optional("Parent Time", "s", "real_s", 2, |point| Some(point.real_s)),
    optional("Child SysTime", "s", "system_s", 2, |p| p.system_s),
    optional("Child UTime", "s", "user_s", 2, |p| p.user_s),
    optional("Jobs per Minute", "", "jobs_per_min", 2, |point| Some(point.jobs_per_min)),
    optional("Jobs/min/Child", "", "jobs_per_min_per_task", 2, |p| p.jobs_per_min_per_task),
    optional("Std_dev Time", "s", "std_dev_s", 4, |p| p.std_dev_s),
    optional("Std_dev Percent", "%", "std_dev_percent", 2, |p| p.std_dev_percent),
    optional("JTI", "%", "jti", 0, |point| Some(point.jti)),
];

/// Activity of the machine during the run.
pub(super) const MACHINE: &[Optional] = &[
    optional("in kernel", "%", "kernel_percent", 1, RunPoint::kernel_percent),
    optional("user", "%", "user_percent", 1, |p| p.user_percent),
    optional("system", "%", "system_percent", 1, |p| p.system_percent),
    IDLE,
    optional("steal", "%", "steal_percent", 1, |p| p.steal_percent),
    SWITCHES,
    optional("involuntary", "1/s", "involuntary_switches_per_s", 0, |point| {
        point.involuntary_switches_per_s
    }),
    optional("page faults", "1/s", "page_faults_per_s", 0, |p| p.page_faults_per_s),
    optional("major", "1/s", "major_faults_per_s", 0, |p| p.major_faults_per_s),
    optional("start p99", "ms", "start_skew_p99_ms", 2, |p| p.start_skew_p99_s.map(|s| s * 1e3)),
    optional("overhead", "ms", "overhead_ms", 1, |p| p.overhead_s.map(|s| s * 1e3)),
];

impl Optional {
    pub(super) fn column(&self) -> Column {
        let column = Column::number(self.title, self.unit).key(self.key);
        if self.is_minor { column.minor() } else { column }
    }

    /// A missing number is shown as unknown and is empty in CSV.
    pub(super) fn cell(&self, point: &RunPoint) -> Cell {
        Cell::number((self.value)(point).unwrap_or(f64::NAN), self.decimals)
    }
}
