//! How much of an experiment is run: its usual size, a quick look, or all of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Experiment, Grid, Setting};

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

impl Grid {
    /// What `size` changes.
    pub fn form(&self, size: Size) -> Option<&Form> {
        match size {
            Size::Usual => None,
            Size::Quick => self.quick.as_ref(),
            Size::Full => self.full.as_ref(),
        }
    }

    /// Seeds at a size.
    pub fn seeds_at(&self, size: Size) -> u32 {
        self.form(size).and_then(|form| form.seeds).unwrap_or(self.seeds)
    }

    /// How many jobs each user does at a size, if not all.
    pub fn first_at(&self, size: Size) -> Option<u32> {
        let own = self.first.filter(|_| size != Size::Full);
        self.form(size).and_then(|form| form.first).or(own)
    }

    /// How many jobs of all users together end a run at a size, if not all.
    pub fn jobs_together_at(&self, size: Size) -> Option<u32> {
        let own = self.jobs_together.filter(|_| size != Size::Full);
        self.form(size).and_then(|form| form.jobs_together).or(own)
    }

    /// The divisor of users and start delay at a size.
    pub fn scale_at(&self, size: Size) -> u32 {
        let own = if size == Size::Full { 1 } else { self.scale };
        self.form(size).and_then(|form| form.scale).unwrap_or(own)
    }

    /// Whether it runs otherwise at `size` than usually.
    fn has(&self, size: Size) -> bool {
        let ranged = || self.axis.iter().flat_map(|axis| &axis.range).next().is_some();
        match size {
            Size::Usual => true,
            Size::Quick => self.quick.is_some(),
            Size::Full => {
                let part = self.first.is_some() || self.jobs_together.is_some();
                self.full.is_some() || part || self.scale > 1 || ranged()
            }
        }
    }
}

impl Experiment {
    /// Checks that it has a separate form at `size`; the error suggests an alternative.
    ///
    /// # Errors
    /// The problem and its cure.
    pub fn has(&self, size: Size, only: &[String]) -> Result<(), String> {
        let named = |grid: &&Grid| only.is_empty() || only.contains(&grid.name);
        if self.grid.iter().filter(named).any(|grid| grid.has(size)) {
            return Ok(());
        }
        let flag = size.flag();
        Err(match size {
            Size::Full => format!("it always runs at full size; drop {flag}"),
            Size::Usual | Size::Quick => {
                let others = self.grid.iter().filter(|grid| grid.has(size));
                let others: Vec<String> =
                    others.map(|grid| format!("--only {}", grid.name)).collect();
                let cure = match &others[..] {
                    [] => format!("drop {flag}, or ask for less by --seeds, --scale or --only"),
                    some => format!("it has one for {}", some.join(", ")),
                };
                format!("it has no quick form; {cure}")
            }
        })
    }
}
