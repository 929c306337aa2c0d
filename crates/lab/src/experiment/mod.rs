//! Experiment files: cells over axes, comparisons, and published results.
//!
//! A file has one or more *grids*. A grid has a target, inputs, and axes; its cells are the product
//! of the axes, each with every seed. An axis is an input (`users`), a key of a preset
//! (`kernel.config.hz`), or a list of points with a label and several settings each. In an ablation
//! the axis removes rules; in a sensitivity analysis the axis is a number; a sweep is any grid.
//! docs/experiments.md is the reference.

mod changes;
mod check;
mod input;
mod inputs;
mod plan;
mod size;
mod sized;
mod target;
mod width;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::{Changes, given};
pub use input::{INPUTS, Input, Kind, Setting, Settings, accept, input_keys};
pub use inputs::Inputs;
pub use plan::{Level, Plan, PlanError, PlannedAxis, PlannedGrid, Point};
pub use size::{Form, Range, Size};
pub use target::Target;

/// How a grid is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// One row for each point.
    #[default]
    Table,
    /// Published, reproduced and error of each point.
    Published,
    /// Measured on a real machine against simulated, cell by cell.
    Measured,
    /// Mean, deviation and interval of each point, published and reproduced, and its speedup over
    /// the baseline with the star of a rank test.
    Speedup,
    /// Throughput against threads, the last axis: published, reproduced, and the models of constant
    /// and of linear throughput from the first number of threads on.
    Scaling,
    /// Locks on this machine: medians of the rounds, and the ratio of each lock's throughput to the
    /// fastest peer's in the same round.
    Peers,
    /// A panel of a plot.
    Plot,
}

/// One point of an axis: a label and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisPoint {
    /// Its label in tables.
    pub label: String,
    /// Its settings.
    #[serde(default)]
    pub set: Settings,
}

/// An axis: one key with several values, or labelled points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name in tables; default the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The input or the key of a preset that varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Setting>,
    /// Ranges of its values: the table has a row for each, with the mean over its points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub range: Vec<Range>,
    /// Points that set several keys, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub point: Vec<AxisPoint>,
}

impl Axis {
    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_deref().or(self.key.as_deref()).unwrap_or_default()
    }

    /// Its points at a size, as files or presets are not yet loaded.
    pub fn points(&self, size: Size) -> Vec<AxisPoint> {
        let Some(key) = &self.key else { return self.point.clone() };
        let point = |value: &Setting| AxisPoint {
            label: value.to_string(),
            set: [(key.clone(), value.clone())].into(),
        };
        let ranges = self.range.iter().flat_map(|range| range.values_at(size));
        self.values.iter().chain(ranges).map(point).collect()
    }

    /// The range that the point with this label belongs to.
    pub fn range_of(&self, label: &str) -> Option<&Range> {
        self.range.iter().find(|range| range.values.iter().any(|v| v.to_string() == label))
    }
}

/// Representation of a change in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Percent of the baseline that is missing; positive is less.
    #[default]
    Loss,
    /// Percent more than the baseline.
    Gain,
    /// Over the baseline.
    Ratio,
}

impl Change {
    /// The change from `base` to `value`, in the unit in which it is printed.
    pub fn of(self, base: f64, value: f64) -> f64 {
        match self {
            Self::Loss => 100.0 * (1.0 - value / base),
            Self::Gain => 100.0 * (value / base - 1.0),
            Self::Ratio => value / base,
        }
    }

    /// How far it moves, without a sign, when `value / base` moves by one.
    fn per_ratio(self) -> f64 {
        match self {
            Self::Loss | Self::Gain => 100.0,
            Self::Ratio => 1.0,
        }
    }
}

/// Comparison in a grid: along one axis, with one of its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Name of the axis.
    pub axis: String,
    /// Label of its baseline.
    pub baseline: String,
    /// Every point is compared with the previous one; the baseline is only the first.
    #[serde(default)]
    pub previous: bool,
    /// The metric.
    pub metric: String,
    /// How the change is printed.
    #[serde(default)]
    pub change: Change,
    /// Published change, in its unit, by the label of the point.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub published: BTreeMap<String, f64>,
}

impl Compare {
    /// Returns what each point is compared with, for a sentence: the baseline, or "the previous
    /// kernel" on an axis of kernels.
    pub fn against(&self) -> String {
        if self.previous { format!("the previous {}", self.axis) } else { self.baseline.clone() }
    }
}

/// Runs of which a source has the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Their standard deviation, in the unit of the mean.
    #[schemars(range(min = 0.0, max = 1e15))]
    pub sd: f64,
    /// Half their interval as the source prints it, in the unit of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e15))]
    pub half_width: Option<f64>,
    /// How many they were.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub runs: u32,
}

/// Published or measured results of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The point: labels by the name of the axis.
    pub at: Settings,
    /// The values of each metric: runs of the source, or rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<f64>>,
    /// Deviation and interval, if the source has only means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The change against the baseline, in its unit, as the source prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// Whether the source marks that change as significant.
    #[serde(default, skip_serializing_if = "is_false")]
    pub star: bool,
    /// Metrics that a parameter was fitted to, so that they are not predictions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted: Vec<String>,
    /// Which parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted_parameter: Option<String>,
}

/// The cells of one table or panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Its name, for `--only`.
    pub name: String,
    /// The heading of its table.
    #[serde(default)]
    pub title: String,
    /// Where its cells are executed.
    pub target: Target,
    /// How it is told.
    #[serde(default)]
    pub view: View,
    /// What all its cells have, on top of the experiment's inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: Settings,
    /// The axes; the last varies fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axis: Vec<Axis>,
    /// Points that are left out: labels by the name of the axis, or several of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Settings>,
    /// Whether only the points with a published row are run.
    #[serde(default)]
    pub only_published: bool,
    /// It is run only if it is named (`--only`).
    #[serde(default)]
    pub on_request: bool,
    /// Number of seeds; of a measurement, rounds.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub seeds: u32,
    /// Seeds are added until half the 95 % interval of every compared change is at most this, in
    /// the unit of the change: the spread of the first `seeds` determines the number for each
    /// point. `--seeds` sets a fixed number instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e6))]
    pub half_width: Option<f64>,
    /// With `half_width`: if `seeds` leave a wider interval than this, the points get this many
    /// seeds first, and the spread of these determines the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 1_000))]
    pub second_look: Option<u32>,
    /// Whatever `--seeds` or `half_width` say, there are at most so many.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    #[schemars(range(min = 1, max = 1_000))]
    pub seeds_at_most: u32,
    /// Without `--full`, users and start delay are divided by this.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub scale: u32,
    /// Whatever `--scale` says, they are divided by this at least.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub scale_at_least: u32,
    /// Without `--full` each user runs only this many jobs, the first of its order: the same run,
    /// but shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub first: Option<u32>,
    /// Without `--full` a run ends when all users together have finished this many jobs, while all
    /// of them are still at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub jobs_together: Option<u32>,
    /// Changes by `--quick`; without them the grid does not have a quick form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Form>,
    /// What `--full` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Form>,
    /// The axis with points as columns of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// The metrics of the table; by default the target's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
    /// Label of the horizontal axis of a plot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_label: Option<String>,
    /// Divisor of the horizontal axis of a plot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e12))]
    pub x_divisor: Option<f64>,
    /// A measured cell with a largest round of this many times its smallest is called bistable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub bistable_factor: Option<f64>,
    /// The published results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// The grid of the same experiment that shares its published rows, matched by the labels of
    /// common axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_as: Option<String>,
    /// Error of the size without `--full`, measured once: Jobs/Min there over those at full size,
    /// by the label of the point.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scale_error: BTreeMap<String, f64>,
    /// JTI at full size, measured once, by the label of the point. With it, the JTI of a smaller
    /// size is not compared with the published one: it depends on the number of users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub full_size_jti: BTreeMap<String, f64>,
    /// Lines under the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn one() -> u32 {
    1
}

/// Most seeds of a grid.
fn all() -> u32 {
    1_000
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_all(seeds: &u32) -> bool {
    *seeds == all()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line for people.
    pub title: String,
    /// Where and when its published values were measured, if they were measured by this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// What all cells have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: Settings,
    /// Its grids.
    pub grid: Vec<Grid>,
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
}

#[cfg(test)]
mod tests;
