//! How much of an experiment is run: its usual size, a quick look, or all of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Setting;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// The size in the file.
    #[default]
    Usual,
    /// Its quick look (`--quick`): grids that have one, as they say.
    Quick,
    /// The published size (`--full`).
    Full,
}

impl Size {
    /// The flag that asks for it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Quick => "--quick",
            Self::Full => "--full",
        }
    }
}

/// What another size of a grid changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Number of seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub seeds: Option<u32>,
    /// Each user runs only this many jobs, the first of its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub first: Option<u32>,
    /// The run ends when all users together have finished this many jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub jobs_together: Option<u32>,
    /// Users and start delay are divided by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub scale: Option<u32>,
    /// Only these points: labels by the name of the axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Vec<Setting>>,
}

/// Values of an axis over which a source has one mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Its label in tables and in published rows.
    pub label: String,
    /// All of them, run with `--full`.
    pub values: Vec<Setting>,
    /// Those that are run without; default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<Setting>,
    /// Values with `--quick`; by default those in `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quick: Vec<Setting>,
}

impl Range {
    /// Those that are run at a size.
    pub fn values_at(&self, size: Size) -> &[Setting] {
        let usual = if self.run.is_empty() { &self.values } else { &self.run };
        match size {
            Size::Full => &self.values,
            Size::Quick if !self.quick.is_empty() => &self.quick,
            Size::Usual | Size::Quick => usual,
        }
    }
}
