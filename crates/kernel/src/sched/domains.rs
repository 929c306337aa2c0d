//! Scheduling domains of the period: which CPUs balance with which, and how eagerly.
//!
//! Levels and numbers are those of `include/linux/topology.h` and `include/asm-x86/topology.h` of
//! 2.6.25 for a machine without hyper-threading and with one memory node. The multi-core level
//! groups the CPUs of one last-level cache. Levels that degenerate (one group, no flag of their
//! own) are removed as `cpu_attach_domain` does.

use crate::preset::Ablation;
use convoy_machine::Topology;
use core::cell::Cell;
use core::ops::Range;

/// A group of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its CPUs.
    pub cpus: Range<usize>,
    /// Capacity, 1024 for each unit. A group whose child domain shares package resources has one
    /// unit, however many CPUs it holds.
    pub power: u64,
}

/// One level of the hierarchy as one CPU sees it. Times are in milliseconds or ticks as named.
#[derive(Debug)]
pub struct Domain {
    /// `MC` or `CPU`.
    pub name: &'static str,
    /// CPUs of the domain.
    pub span: Range<usize>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Load indices.
    pub busy_idx: usize,
    /// For balancing on an idle tick.
    pub idle_idx: usize,
    /// For balancing when the CPU has just run out of tasks.
    pub newidle_idx: usize,
    /// For wakeups.
    pub wake_idx: usize,
    /// For fork and exec.
    pub forkexec_idx: usize,
    /// Imbalance that is tolerated, in percent.
    pub imbalance_pct: u64,
    /// Failed attempts after which cache-hot tasks move too.
    pub cache_nice_tries: u32,
    /// Shortest and longest interval of periodic balancing, in milliseconds.
    pub min_interval: u64,
    /// See `min_interval`.
    pub max_interval: u64,
    /// Factor on the interval while the CPU is busy.
    pub busy_factor: u64,
    /// Current interval in milliseconds.
    pub interval: Cell<u64>,
    /// Tick of the last periodic balancing.
    pub last_balance: Cell<u64>,
    /// Attempts that moved nothing.
    pub failed: Cell<u32>,
    /// Longest newly idle balancing so far, nanoseconds.
    pub newidle_cost: Cell<u64>,
}

const MC_NEWIDLE_IDX: usize = 0;

impl Domain {
    fn new(
        name: &'static str,
        span: Range<usize>,
        groups: Vec<Group>,
        indices: [usize; 3],
    ) -> Self {
        let [busy_idx, idle_idx, newidle_idx] = indices;
        Self {
            name,
            span,
            groups,
            busy_idx,
            idle_idx,
            newidle_idx,
            wake_idx: 1,
            forkexec_idx: 1,
            imbalance_pct: 125,
            cache_nice_tries: 1,
            min_interval: 1,
            max_interval: 4,
            busy_factor: 64,
            interval: Cell::new(1),
            last_balance: Cell::new(0),
            failed: Cell::new(0),
            newidle_cost: Cell::new(0),
        }
    }

    /// Tolerance for wakeups, fork and exec, in percent: `100 + (imbalance_pct - 100) / 2`.
    pub fn half_imbalance(&self) -> u64 {
        100 + (self.imbalance_pct - 100) / 2
    }
}

fn singles(span: &Range<usize>) -> Vec<Group> {
    span.clone().map(|cpu| Group { cpus: cpu..cpu + 1, power: 1024 }).collect()
}

/// The domains of `cpu`, lowest level first.
pub fn build(topology: &Topology, ablation: &Ablation, cpu: usize) -> Vec<Domain> {
    let all = 0..topology.cpus;
    let size = topology.cpus_per_llc.min(topology.cpus);
    let start = cpu / size * size;
    let mine = start..(start + size).min(topology.cpus);
    let mut domains = Vec::new();
    if mine.len() > 1 {
        let groups = singles(&mine);
        domains.push(Domain::new("MC", mine.clone(), groups, [2, 0, MC_NEWIDLE_IDX]));
    }
    if mine.len() < all.len() {
        let groups = all
            .clone()
            .step_by(size)
            .map(|first| Group { cpus: first..(first + size).min(all.end), power: 1024 })
            .collect();
        domains.push(Domain::new("CPU", all, groups, [2, 1, ablation.newidle_idx]));
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cpus: usize, cpus_per_llc: usize) -> Vec<(&'static str, usize)> {
        let topology = Topology { cpus, cpus_per_llc, cpus_per_package: cpus_per_llc };
        build(&topology, &Ablation::default(), 0).iter().map(|d| (d.name, d.groups.len())).collect()
    }

    #[test]
    fn levels_that_survive() {
        assert_eq!(names(1, 1), []);
        assert_eq!(names(4, 4), [("MC", 4)]);
        assert_eq!(names(4, 2), [("MC", 2), ("CPU", 2)]);
        assert_eq!(names(8, 2), [("MC", 2), ("CPU", 4)]);
        assert_eq!(names(4, 1), [("CPU", 4)]);
    }
}
