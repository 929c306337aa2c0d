//! Scheduling domains: which CPUs balance with which, and how eagerly.
//!
//! Levels are those of `include/linux/topology.h` and `include/asm-x86/topology.h` of 2.6.25 for a
//! machine without hyper-threading and with one memory node. The multi-core level
//! groups the CPUs of one last-level cache. Levels that degenerate (one group, no flag of their
//! own) are removed as `cpu_attach_domain` does.

use convoy_machine::Topology;
use core::cell::Cell;
use core::ops::Range;
use schemars::JsonSchema;
use serde::Deserialize;

/// A group of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its CPUs.
    pub cpus: Range<usize>,
    /// Capacity, 1024 for each unit. A group whose child domain shares package resources has one
    /// unit, however many CPUs it holds.
    pub power: u64,
}

/// Numbers of one level (`SD_MC_INIT`, `SD_CPU_INIT`). An index names the average load that is
/// looked at: 0 is the load of now, i the average over 2^(i-1) ticks.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelRules {
    /// Load index of periodic balancing of a busy CPU, 0 to 5.
    #[schemars(range(min = 0, max = 5))]
    pub busy_idx: usize,
    /// Load index of periodic balancing of an idle CPU.
    #[schemars(range(min = 0, max = 5))]
    pub idle_idx: usize,
    /// Load index of balancing when the CPU has just run out of tasks.
    #[schemars(range(min = 0, max = 5))]
    pub newidle_idx: usize,
    /// Load index for wakeups.
    #[schemars(range(min = 0, max = 5))]
    pub wake_idx: usize,
    /// Load index for fork and exec.
    #[schemars(range(min = 0, max = 5))]
    pub forkexec_idx: usize,
    /// Imbalance that is tolerated, in percent, 100 for none.
    #[schemars(range(min = 100, max = 1000))]
    pub imbalance_pct: u64,
    /// Failed attempts after which cache-hot tasks move, too.
    #[schemars(range(min = 0, max = 1000))]
    pub cache_nice_tries: u32,
    /// Shortest interval of periodic balancing, in milliseconds.
    #[schemars(range(min = 1, max = 1000))]
    pub min_interval_ms: u64,
    /// Longest interval of periodic balancing, in milliseconds.
    #[schemars(range(min = 1, max = 1000))]
    pub max_interval_ms: u64,
    /// Factor on the interval while the CPU is busy.
    #[schemars(range(min = 1, max = 1000))]
    pub busy_factor: u64,
}

impl LevelRules {
    /// Tolerance for wakeups, fork and exec, in percent: `100 + (imbalance_pct - 100) / 2`.
    pub fn half_imbalance(&self) -> u64 {
        100 + (self.imbalance_pct - 100) / 2
    }
}

/// Numbers of the levels that a machine may have.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DomainRules {
    /// CPUs that share a last-level cache.
    pub mc: LevelRules,
    /// All CPUs.
    pub cpu: LevelRules,
}

/// One level of the hierarchy as one CPU sees it.
#[derive(Debug)]
pub(crate) struct Domain {
    /// CPUs of the domain.
    pub span: Range<usize>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Its numbers.
    pub rules: LevelRules,
    /// Current interval in milliseconds.
    pub interval: Cell<u64>,
    /// Tick of the last periodic balancing.
    pub last_balance: Cell<u64>,
    /// Attempts that moved nothing.
    pub failed: Cell<u32>,
    /// Longest newly idle balancing so far, nanoseconds.
    pub newidle_cost: Cell<u64>,
}

impl Domain {
    fn new(span: Range<usize>, groups: Vec<Group>, rules: &LevelRules) -> Self {
        Self {
            span,
            groups,
            rules: rules.clone(),
            interval: Cell::new(1),
            last_balance: Cell::new(0),
            failed: Cell::new(0),
            newidle_cost: Cell::new(0),
        }
    }

    /// After an attempt that found or moved nothing: the interval grows.
    pub(crate) fn lengthen(&self) {
        if self.interval.get() < self.rules.max_interval_ms {
            self.interval.set(self.interval.get() * 2);
        }
    }

    /// The interval is the shortest again.
    pub(crate) fn shorten(&self) {
        self.interval.set(self.rules.min_interval_ms);
    }

    /// Whether cache-hot tasks may move: attempts have failed too often.
    pub(crate) fn moves_hot(&self) -> bool {
        self.failed.get() > self.rules.cache_nice_tries
    }
}

fn singles(span: &Range<usize>) -> Vec<Group> {
    span.clone().map(|cpu| Group { cpus: cpu..cpu + 1, power: 1024 }).collect()
}

/// The domains of `cpu`, lowest level first.
pub(crate) fn build(topology: &Topology, rules: &DomainRules, cpu: usize) -> Vec<Domain> {
    let all = 0..topology.cpus;
    let size = topology.cpus_per_llc.min(topology.cpus);
    let start = cpu / size * size;
    let mine = start..(start + size).min(topology.cpus);
    let mut domains = Vec::new();
    if mine.len() > 1 {
        let groups = singles(&mine);
        domains.push(Domain::new(mine.clone(), groups, &rules.mc));
    }
    if mine.len() < all.len() {
        let groups = all
            .clone()
            .step_by(size)
            .map(|first| Group { cpus: first..(first + size).min(all.end), power: 1024 })
            .collect();
        domains.push(Domain::new(all, groups, &rules.cpu));
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::KernelPreset;

    /// CPUs and groups of each level.
    fn levels(cpus: usize, cpus_per_llc: usize) -> Vec<(usize, usize)> {
        let topology = Topology {
            cpus,
            cpus_per_llc,
            cpus_per_package: cpus_per_llc,
            threads_per_core: 1,
            packages_per_node: 1,
        };
        let preset = KernelPreset::named("2.6.25").expect("a shipped preset");
        let domains = build(&topology, &preset.sched.domains, 0);
        domains.iter().map(|domain| (domain.span.len(), domain.groups.len())).collect()
    }

    #[test]
    fn levels_that_survive() {
        assert_eq!(levels(1, 1), []);
        assert_eq!(levels(4, 4), [(4, 4)]);
        assert_eq!(levels(4, 2), [(2, 2), (4, 2)]);
        assert_eq!(levels(8, 2), [(2, 2), (8, 4)]);
        assert_eq!(levels(4, 1), [(4, 4)]);
    }
}
