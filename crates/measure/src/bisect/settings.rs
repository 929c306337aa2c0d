//! The settings of a search, fixed at its start.

use super::confirm::mixed;
use super::git::{Ends, Git};
use crate::{MeasureError, Metric, MetricChoice, Resource};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the log. Fields may be added; none changes its meaning.
pub(super) const SCHEMA: u32 = 1;

/// The settings of a search, fixed at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Version of the log.
    pub schema: u32,
    /// Version of the program that began it.
    pub convoy: String,
    /// The repository.
    pub repo: String,
    /// The good end, a full id.
    pub good: String,
    /// The bad end, a full id.
    pub bad: String,
    /// A note to the user if the good end differs from the argument.
    pub note: Option<String>,
    /// Whether only the first parent of merges is followed.
    pub first_parent: bool,
    /// Only commits that change these are suspected, or they more than others.
    pub path: Vec<String>,
    /// How many times as much; `None`: only they.
    pub path_weight: Option<f64>,
    /// The shell command that builds a commit.
    pub build: Option<String>,
    /// The command that is measured.
    pub command: Vec<String>,
    /// The resource that is measured, by its name.
    pub metric: String,
    /// The number is the last match of this pattern instead.
    pub metric_regex: Option<String>,
    /// The number is in the last JSON document instead.
    pub metric_json: Option<String>,
    /// Unit of a number that the command prints.
    pub unit: Option<String>,
    /// Probability of the answer at which the search ends.
    pub confidence: f64,
    /// Which change is a regression.
    pub direction: Direction,
    /// Smallest difference of the ends that is a regression, percent of the good end.
    pub min_effect: f64,
    /// Longest time of a run, seconds.
    pub timeout: Option<f64>,
    /// Longest time of a build, seconds.
    pub build_timeout: Option<f64>,
    /// Retries of a failed run before its commit is skipped.
    pub retries: u32,
    /// The most runs.
    pub max_runs: Option<u32>,
    /// The most builds.
    pub max_builds: Option<u32>,
    /// Cost of a build in runs; `None`: measured at the ends.
    pub build_cost: Option<f64>,
    /// What building again gives.
    pub layout: Layout,
    /// Builds kept on disk at a time.
    pub keep_builds: u32,
    /// Whether untracked files of the build before stay.
    pub incremental: bool,
    /// Jobs at a time within a build.
    pub jobs: Option<u32>,
    /// CPUs that runs are pinned to.
    pub cpus: Option<Vec<usize>>,
    /// Pairs of runs that confirm the answer.
    pub confirm: u32,
    /// Of the order of confirming runs and of the padding of the environment.
    pub seed: u64,
}

impl Settings {
    /// The version that this program writes.
    pub const fn schema() -> u32 {
        SCHEMA
    }

    pub(super) fn ends(&self) -> Ends {
        Ends { good: self.good.clone(), bad: self.bad.clone(), note: self.note.clone() }
    }

    pub(super) fn metric(&self) -> Result<Metric, MeasureError> {
        let name = &self.metric;
        let resource = Resource::named(name)
            .ok_or_else(|| MeasureError::Request(format!("no metric is called {name}")))?;
        let (regex, json) = (self.metric_regex.clone(), self.metric_json.clone());
        let choice = MetricChoice { resource, regex, json, unit: self.unit.clone() };
        choice.metric().map_err(MeasureError::request)
    }
}

/// Which change of the metric is a regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Any.
    Either,
    /// A rise.
    LowerIsBetter,
    /// A fall.
    HigherIsBetter,
}

/// How the model treats a second build of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The same program as before: compilers are deterministic.
    Same,
    /// The same program, but its layout may distinguish it from the neighbouring commits.
    Shifts,
    /// A new layout, and so a new shift of the value.
    New,
    /// Builds shift nothing.
    None,
}

impl Layout {
    /// All values, with their names.
    pub const NAMES: &'static [(&'static str, Self)] =
        &[("same", Self::Same), ("shifts", Self::Shifts), ("new", Self::New), ("none", Self::None)];
}

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The search wanted it.
    Search,
    /// An end between the probes, against drift.
    Reference,
    /// The first bad commit or its parent, after the search.
    Confirm,
}

/// The directory of the searches in one repository, unless a flag names another.
pub fn state_of(git: &Git) -> Result<PathBuf, MeasureError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let cache = cache.ok_or_else(|| {
        MeasureError::request(
            "neither HOME nor XDG_CACHE_HOME says where state may be; give --state DIR",
        )
    })?;
    let common = git.common_directory();
    let bytes = common.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0, |hash, byte| mixed(hash, u64::from(*byte)));
    let tree = common.file_name().filter(|name| *name != ".git").map(Path::new);
    let tree = tree.or_else(|| common.parent()?.file_name().map(Path::new));
    let name = tree.map_or("repository".into(), |name| name.to_string_lossy());
    Ok(cache.join("convoy").join(format!("bisect-{name}-{:08x}", hash as u32)))
}

/// `path` from the root: commands run elsewhere.
pub fn absolute(path: &Path) -> Result<PathBuf, MeasureError> {
    std::path::absolute(path).map_err(|error| {
        MeasureError::machine(format!("cannot use {}: {error}; give --state DIR", path.display()))
    })
}
