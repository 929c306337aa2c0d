//! Objects of a comparison: sides, each with series of numbers.

use convoy_os::Disturbance;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings by name, as far as a record contains them.
pub type Settings = BTreeMap<String, String>;

/// The numbers of one benchmark on one side, in the order measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Which benchmark or workload; empty if the side has but one.
    pub benchmark: String,
    /// At how many users, if it is a load point.
    pub users: Option<u32>,
    /// The metric.
    pub metric: String,
    /// In which unit; times are always in seconds.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The numbers.
    pub values: Vec<f64>,
}

/// The baseline or a candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Its name in tables.
    pub label: String,
    /// Its command, file or stored run.
    pub source: String,
    /// Its measurements.
    pub series: Vec<Series>,
    /// Settings of the load, from a record.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// Activity of other programs during the measurement, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Notes on its numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Side {
    /// Adds a number to the series that `like` describes, which is made if it is new.
    pub(super) fn push(&mut self, like: &Series, value: f64) {
        let found = self.series.iter_mut().find(|series| series.same(like));
        match found {
            Some(series) => series.values.push(value),
            None => self.series.push(Series { values: vec![value], ..like.clone() }),
        }
    }
}

impl Series {
    /// An empty series.
    pub fn new(benchmark: &str, metric: &str, unit: &str, higher_is_better: bool) -> Self {
        Self {
            benchmark: benchmark.to_owned(),
            users: None,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            higher_is_better,
            values: Vec::new(),
        }
    }

    /// AIM7's throughput at `users`.
    pub(super) fn jobs_per_min(benchmark: &str, users: u32) -> Self {
        Self { users: Some(users), ..Self::new(benchmark, "jobs/min", "jobs/min", true) }
    }

    /// Whether both are of the same thing.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.benchmark == other.benchmark && self.alike(other)
    }

    fn alike(&self, other: &Self) -> bool {
        self.users == other.users && self.metric == other.metric
    }

    /// How messages call it.
    pub fn name(&self) -> String {
        let users = self.users.map(|users| format!("{users} users"));
        let parts = [Some(self.benchmark.clone()), users, Some(self.metric.clone())];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|p| !p.is_empty()).collect();
        parts.join(", ")
    }
}

/// The series of `candidate` that `series` of the baseline is compared with. Where both sides have
/// one benchmark only, its name does not matter.
pub fn partner<'a>(baseline: &Side, series: &Series, candidate: &'a Side) -> Option<&'a Series> {
    let single =
        |side: &Side| side.series.iter().all(|series| series.benchmark == side.series[0].benchmark);
    let exact = candidate.series.iter().find(|other| series.same(other));
    let alone = single(baseline) && single(candidate);
    exact.or_else(|| candidate.series.iter().find(|other| alone && series.alike(other)))
}
