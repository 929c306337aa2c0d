//! Kernel presets: which scheduler, semaphore, big kernel lock and paths a run has; read from
//! `kernels/*.toml`.

use crate::config::{Config, SchedCosts};
use crate::lock_rules::{BklKind, BklTraffic, LockRules};
use crate::mappings::MappingRules;
use crate::rcu::rules::RcuRules;
use crate::sched::rules::SchedRules;
use crate::signal::rules::SignalRules;
use crate::softirq::rules::SoftirqRules;
use crate::vfs::rules::VfsRules;
use crate::zone::ZoneRules;
use convoy_catalogue::{CatalogueError, Entry, Fault, Json, KERNELS, Shelf, parsed};
use schemars::JsonSchema;
use serde::Deserialize;

/// A kernel preset.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelPreset {
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
    /// Rules of the scheduler.
    pub sched: SchedRules,
    /// What its locks are.
    pub locks: LockRules,
    /// Big kernel lock.
    pub bkl: BklKind,
    /// Build configuration.
    pub config: Config,
    /// Big kernel lock traffic.
    pub bkl_traffic: BklTraffic,
    /// Scheduler path costs.
    pub sched_ns: SchedCosts,
    /// Page-frame allocator; by default one zone with a lock that is held for a batch.
    #[serde(default)]
    pub zone: ZoneRules,
    /// Locks of names, inodes and pages; by default those from 2.6.16 to 2.6.35.
    #[serde(default)]
    pub vfs: VfsRules,
    /// Lists of the address spaces that map a file or inherited memory; by default part of the
    /// prices of the calls.
    #[serde(default)]
    pub mappings: Option<MappingRules>,
    /// Signals.
    #[serde(default)]
    pub signals: SignalRules,
    /// Software interrupts; by default 2.6.25's.
    #[serde(default)]
    pub softirq: SoftirqRules,
    /// RCU; there is none where the file says nothing.
    #[serde(default)]
    pub rcu: Option<RcuRules>,
}

impl Entry for KernelPreset {
    const SHELF: &'static Shelf = &KERNELS;

    #[inline(never)]
    fn parse(tree: Json) -> Result<Self, Fault> {
        parsed(tree)
    }

    fn check(&self) -> Result<(), Fault> {
        if ![100, 250, 300, 1000].contains(&self.config.hz) {
            let hz = f64::from(self.config.hz);
            return Err(Fault::range("config.hz", hz, "100, 250, 300 or 1000"));
        }
        if let Some(rcu) = &self.rcu {
            rcu.check(self.config.preempt)?;
        }
        self.sched.check()
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

impl KernelPreset {
    /// A shipped kernel; a leading `v` of the name is ignored.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn named(name: &str) -> Result<Self, CatalogueError> {
        convoy_catalogue::load(name, &[]).map(|loaded| loaded.value)
    }
}

#[cfg(test)]
mod tests;
