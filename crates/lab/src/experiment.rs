//! Experiment files: what is run, what was published, which parameters were fitted.

use std::collections::BTreeMap;

use convoy_kernel::Preempt;
use serde::Deserialize;

/// One published run of a kernel; names are those of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRun {
    /// Jobs/Min.
    pub jobs_per_min: f64,
    /// JTI, percent.
    pub jti: f64,
    /// Real, seconds, start delay included.
    pub real_s: f64,
    /// CPU, seconds.
    pub cpu_s: f64,
    /// Jobs/sec/task.
    pub jobs_per_sec_per_task: f64,
}

/// A row of the published table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Kernel preset.
    pub kernel: String,
    /// Metrics of this row that a parameter was fitted to.
    pub fitted: Vec<String>,
    /// Which parameter.
    pub fitted_parameter: Option<String>,
    /// The published runs.
    pub runs: Vec<PublishedRun>,
}

/// What the source leaves open.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unknown {
    /// Machine presets.
    pub machines: Vec<String>,
    /// Ticks a second.
    pub hz: Vec<u32>,
    /// Preemption models.
    pub preempt: Vec<Preempt>,
}

/// One rule removed, or one parameter changed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AblationCase {
    /// For the table.
    pub name: String,
    /// Keys of the kernel preset, each `kernel.KEY=VALUE`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Factor on the traffic of the big kernel lock.
    pub traffic: Option<f64>,
    /// Whether idle CPUs stop their ticks.
    pub no_hz: Option<bool>,
    /// Group scheduling.
    pub group_sched: Option<bool>,
    /// Preemption model.
    pub preempt: Option<Preempt>,
}

/// Ranges of the sensitivity sweep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    /// Tasks on the experiment's machine.
    pub tasks: Vec<u32>,
    /// CPUs.
    pub cpus: Vec<usize>,
    /// Tasks for each CPU in the sweep over CPUs.
    pub tasks_per_cpu: u32,
    /// Hold times of the big kernel lock, nanoseconds.
    pub hold_ns: Vec<f64>,
    /// Tasks in the sweep over hold times.
    pub hold_tasks: u32,
}

/// An experiment on the virtual machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name, as in `convoy reproduce NAME`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Mix.
    pub mix: String,
    /// Machine preset.
    pub machine: String,
    /// Tasks at full size.
    pub tasks: u32,
    /// Start delay at full size, seconds.
    pub start_delay_s: f64,
    /// Number of seeds.
    pub seeds: u32,
    /// Divisor of tasks and start delay without `--full`.
    pub scale: u32,
    /// Published rows.
    pub case: Vec<Case>,
    /// What the source leaves open.
    pub unknown: Unknown,
    /// Ablations of the row with the loss.
    pub ablation: Vec<AblationCase>,
    /// Ranges of the sweep.
    pub sensitivity: Sensitivity,
    /// Error of the scaled-down size, measured once: metric of a kernel at the default scale over
    /// the same at full size.
    #[serde(default)]
    pub scale_error: BTreeMap<String, f64>,
}

/// What is wrong with an experiment file.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No experiment of that name is shipped.
    #[error("unknown experiment {name:?}; known: {known}, or the path of a .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The shipped names.
        known: String,
    },
    /// Not TOML, or a key is missing, unknown or of the wrong type.
    #[error("{name}: {source}")]
    Syntax {
        /// The file.
        name: String,
        /// Line, column and cause.
        source: Box<toml::de::Error>,
    },
    /// A value is out of its range.
    #[error("{name}: {what}")]
    Range {
        /// The file.
        name: String,
        /// Key, value and range.
        what: &'static str,
    },
}

/// Most tasks of an experiment.
const TASKS_MAX: u32 = 1_000_000;

const SHIPPED: [(&str, &str); 1] =
    [("semaphore-2008", include_str!("../../../experiments/semaphore-2008.toml"))];

impl Experiment {
    /// Names of the shipped experiments.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped experiment.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub fn named(name: &str) -> Result<Self, ExperimentError> {
        let found = SHIPPED.iter().find(|(known, _)| *known == name);
        let (known, text) = found.ok_or_else(|| ExperimentError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(known, text)
    }

    /// Parses `text`; `name` is used in errors.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        let experiment: Self = toml::from_str(text).map_err(|source| ExperimentError::Syntax {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        let fail = |what| Err(ExperimentError::Range { name: name.to_owned(), what });
        if !(1..=TASKS_MAX).contains(&experiment.tasks) {
            return fail("tasks must be 1 to 1000000");
        }
        if !(2..=1000).contains(&experiment.seeds) {
            return fail("seeds must be 2 to 1000");
        }
        if !(1..=experiment.tasks).contains(&experiment.scale) {
            return fail("scale must be 1 to the number of tasks");
        }
        if !(0.0..=1e4).contains(&experiment.start_delay_s) {
            return fail("start_delay_s must be 0 to 10000");
        }
        if experiment.case.is_empty() || experiment.case.iter().any(|case| case.runs.is_empty()) {
            return fail("there must be a case, and each must have published runs");
        }
        let traffic = experiment.ablation.iter().filter_map(|case| case.traffic);
        if !traffic.into_iter().all(|factor| (0.0..=1e3).contains(&factor)) {
            return fail("ablation.traffic must be 0 to 1000");
        }
        if let Err(what) = experiment.sensitivity.validate() {
            return fail(what);
        }
        Ok(experiment)
    }
}

impl Sensitivity {
    fn validate(&self) -> Result<(), &'static str> {
        let tasks = |tasks: &u32| (1..=TASKS_MAX).contains(tasks);
        if !(self.tasks.iter().all(tasks) && tasks(&self.hold_tasks)) {
            return Err("sensitivity.tasks and hold_tasks must be 1 to 1000000");
        }
        if !self.cpus.iter().all(|cpus| (1..=1024).contains(cpus)) {
            return Err("sensitivity.cpus must be 1 to 1024");
        }
        if !(1..=1000).contains(&self.tasks_per_cpu) {
            return Err("sensitivity.tasks_per_cpu must be 1 to 1000");
        }
        if !self.hold_ns.iter().all(|ns| (0.0..=1e9).contains(ns)) {
            return Err("sensitivity.hold_ns must be 0 to 1000000000");
        }
        Ok(())
    }
}

impl Case {
    /// Mean of the published runs for `metric`; `None` where the source has no such column.
    ///
    /// Idle time follows from the columns: it is what the tasks did not use of `cpus` CPUs during
    /// Real without the start delay.
    pub fn published(&self, metric: &str, cpus: usize, start_delay_s: f64) -> Option<f64> {
        let of = |run: &PublishedRun| match metric {
            "jobs_per_min" => Some(run.jobs_per_min),
            "jti" => Some(run.jti),
            "real_s" => Some(run.real_s),
            "cpu_s" => Some(run.cpu_s),
            "jobs_per_sec_per_task" => Some(run.jobs_per_sec_per_task),
            "idle_percent" => {
                let all = cpus as f64 * (run.real_s - start_delay_s);
                Some(100.0 * (1.0 - run.cpu_s / all))
            }
            _ => None,
        };
        let values: Option<Vec<f64>> = self.runs.iter().map(of).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_experiments_are_valid_and_name_known_presets() {
        for name in Experiment::names() {
            let experiment = Experiment::named(name).unwrap();
            assert_eq!(experiment.name, name);
            for case in &experiment.case {
                convoy_kernel::KernelPreset::named(&case.kernel).unwrap();
            }
        }
    }

    #[test]
    fn published_idle_time_follows_from_the_columns() {
        let experiment = Experiment::named("semaphore-2008").unwrap();
        let idle: Vec<_> = experiment
            .case
            .iter()
            .map(|case| case.published("idle_percent", 4, 10.0).unwrap())
            .collect();
        assert!(idle[0].abs() < 0.5, "{idle:?}");
        assert!((42.0..45.5).contains(&idle[1]), "{idle:?}");
    }

    #[test]
    fn errors_name_file_and_key() {
        let error = Experiment::parse("x.toml", "name = 1").unwrap_err().to_string();
        assert!(error.contains("x.toml") && error.contains("line 1"), "{error}");
        let error = Experiment::named("nothing").unwrap_err().to_string();
        assert!(error.contains("semaphore-2008"), "{error}");
    }
}
