//! Scheduling domains: which CPUs balance with which, and how eagerly.
//!
//! From below: the threads of a core, the CPUs of one last-level cache (*MC*), the CPUs of a memory
//! node (*CPU*), and one level of nodes (up to 3.4) or one for each distance between them (from 3.5
//! on). Which of them a kernel has, and with which numbers, its preset says
//! (`include/linux/topology.h`, `arch/x86/include/asm/topology.h`, `sd_numa_init`). A level with
//! one group is removed as `cpu_attach_domain` does; that one of 3.7 which stays, for the flag
//! `PREFER_SIBLING`, does nothing but lend the flag to the level above, and so do all here.
//!
//! Spans are consecutive CPUs: distances with other spans do not form a level.

use convoy_machine::Preset;
use core::cell::Cell;
use core::ops::Range;
use schemars::JsonSchema;
use serde::Deserialize;

/// A group of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its CPUs.
    pub cpus: Range<usize>,
}

/// Capacity of a group, 1024 for each task that it runs at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// One unit, however many CPUs share the cache (up to 2.6.31).
    #[default]
    Cache,
    /// The sum of its CPUs; a hardware thread has less than one unit, and so has a CPU that runs
    /// real-time tasks (from 2.6.32 on).
    Cpus,
    /// The same, but a hardware thread has one unit (from 4.20 on).
    Threads,
}

/// The levels above a memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeLevels {
    /// One level with the nodes as groups (up to 3.4); the second level from 17 nodes on is not
    /// modelled.
    #[default]
    One,
    /// One for each distance between nodes, with its intervals for each CPU of the level (from 3.5
    /// on).
    ByDistance,
}

/// From this distance on a wakeup, fork or exec does not consider a node (`RECLAIM_DISTANCE`).
const FAR: u8 = 30;

/// Numbers of one level (`SD_MC_INIT`, `SD_CPU_INIT`). An index selects the average load: 0 is the
/// current load, i the average over 2^(i-1) ticks.
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
    /// The level above spreads tasks over groups of this one before it fills one
    /// (`SD_PREFER_SIBLING`).
    #[serde(default)]
    pub prefer_sibling: bool,
    /// One CPU of the machine at a time balances at this level (`SD_SERIALIZE`).
    #[serde(default)]
    pub serialize: bool,
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
    /// Hardware threads of one core. Without it each thread counts as a core.
    #[serde(default)]
    pub smt: Option<LevelRules>,
    /// CPUs that share a last-level cache.
    pub mc: LevelRules,
    /// CPUs of one memory node; all CPUs where `node` is missing.
    pub cpu: LevelRules,
    /// Several memory nodes.
    #[serde(default)]
    pub node: Option<LevelRules>,
    /// How many levels the nodes make.
    #[serde(default)]
    pub node_levels: NodeLevels,
    /// Capacity of a group.
    #[serde(default)]
    pub power: Power,
    /// The intervals of every level, not only of nodes by distance, are for each CPU of the level
    /// (from 3.16 on).
    #[serde(default)]
    pub intervals_by_cpus: bool,
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
    /// The level below prefers its siblings.
    pub spreads: bool,
    /// Wakeups, fork and exec search this level, too.
    pub near: bool,
    /// Up to this many tasks of a node may stay while another node is nearly idle (`imb_numa_nr`);
    /// 0 at the other levels.
    pub node_tasks: usize,
    /// Current interval in milliseconds.
    pub interval: Cell<u64>,
    /// Tick of the last periodic balancing.
    pub last_balance: Cell<u64>,
    /// Attempts that moved nothing.
    pub failed: Cell<u32>,
    /// Longest newly idle balancing of late, nanoseconds, and the tick at which it changed.
    pub newidle_cost: Cell<u64>,
    pub newidle_tick: Cell<u64>,
}

impl Domain {
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

    /// A newly idle balancing has cost `ns`: the greatest cost counts, and decays by a hundredth
    /// each second of `hz` ticks (`update_newidle_cost`).
    pub(crate) fn note_newidle(&self, ns: u64, tick: u64, hz: u32) {
        let cost = self.newidle_cost.get();
        if ns > cost {
            self.newidle_cost.set(ns);
        } else if tick > self.newidle_tick.get() + u64::from(hz) {
            self.newidle_cost.set(cost * 253 / 256);
        } else {
            return;
        }
        self.newidle_tick.set(tick);
    }

    /// Whether cache-hot tasks may move: attempts have failed too often.
    pub(crate) fn moves_hot(&self) -> bool {
        self.failed.get() > self.rules.cache_nice_tries
    }
}

/// The domains of one CPU while they are built, lowest level first.
struct Builder {
    cpu: usize,
    domains: Vec<Domain>,
    /// Span of the last level, and how many CPUs each block of it has.
    span: Range<usize>,
    block: usize,
    /// It prefers its siblings, or a level with the same span does.
    prefers: bool,
    /// See [`DomainRules::intervals_by_cpus`].
    by_cpus: bool,
}

impl Builder {
    /// Adds the level of all blocks of `size` CPUs among the first `cpus`; `scale` multiplies its
    /// intervals.
    fn level(&mut self, size: usize, cpus: usize, rules: &LevelRules, scale: u64) {
        let start = self.cpu / size * size;
        let span = start..(start + size).min(cpus);
        let below = core::mem::replace(&mut self.block, size);
        if span == self.span {
            self.prefers |= rules.prefer_sibling && span.len() > 1;
            return;
        }
        let group = |first| Group { cpus: first..(first + below).min(span.end) };
        let mut rules = rules.clone();
        let scale = if self.by_cpus { span.len() as u64 } else { scale };
        rules.min_interval_ms *= scale;
        rules.max_interval_ms *= scale;
        self.domains.push(Domain {
            groups: span.clone().step_by(below).map(group).collect(),
            spreads: self.prefers,
            near: true,
            node_tasks: 0,
            interval: Cell::new(scale),
            last_balance: Cell::new(0),
            failed: Cell::new(0),
            newidle_cost: Cell::new(0),
            newidle_tick: Cell::new(0),
            span: span.clone(),
            rules,
        });
        self.prefers = self.domains.last().is_some_and(|domain| domain.rules.prefer_sibling);
        self.span = span;
    }

    /// Adds a level for each distance between nodes that spans a block of CPUs.
    fn distances(&mut self, preset: &Preset, rules: &LevelRules) {
        let (cpus, size) = (preset.topology.cpus, preset.topology.cpus_per_node());
        let nodes = cpus.div_ceil(size);
        let mine = self.cpu / size;
        let mut all: Vec<u8> = (0..nodes).map(|node| preset.node_distance(mine, node)).collect();
        all.sort_unstable();
        all.dedup();
        // An eighth of a node with one cache, or one task for each cache, as often as the first
        // level of nodes fits into the level (`build_sched_domains`).
        let caches = size / preset.topology.cpus_per_llc.clamp(1, size);
        let few = if caches == 1 { (size / 8).max(1) } else { caches };
        let mut first = None;
        for distance in all {
            let within = |&node: &usize| preset.node_distance(mine, node) <= distance;
            let reached: Vec<usize> = (0..nodes).filter(within).collect();
            let consecutive = reached[reached.len() - 1] - reached[0] + 1 == reached.len();
            let width = reached.len() * size;
            if consecutive && (reached[0] * size).is_multiple_of(width) {
                self.level(width, cpus, rules, width as u64);
                if let Some(domain) = self.domains.last_mut() {
                    domain.near = distance <= FAR;
                    if width > size {
                        domain.node_tasks = few * (width / *first.get_or_insert(width));
                    }
                }
            }
        }
    }
}

/// The domains of `cpu`, lowest level first.
pub(crate) fn build(preset: &Preset, rules: &DomainRules, cpu: usize) -> Vec<Domain> {
    let topology = &preset.topology;
    let cpus = topology.cpus;
    let span = cpu..cpu + 1;
    let by_cpus = rules.intervals_by_cpus;
    let mut builder = Builder { cpu, domains: Vec::new(), span, block: 1, prefers: false, by_cpus };
    if let Some(smt) = &rules.smt {
        builder.level(topology.threads_per_core, cpus, smt, 1);
    }
    builder.level(topology.cpus_per_llc, cpus, &rules.mc, 1);
    let node = rules.node.as_ref().map_or(cpus, |_| topology.cpus_per_node());
    builder.level(node, cpus, &rules.cpu, 1);
    match &rules.node {
        Some(node) if rules.node_levels == NodeLevels::ByDistance => {
            builder.distances(preset, node);
        }
        Some(node) => builder.level(cpus, cpus, node, 1),
        None => {}
    }
    builder.domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::KernelPreset;

    /// CPUs and groups of each level as CPU 0 sees them, and whether the level below spreads.
    fn levels(kernel: &str, machine: &Preset) -> Vec<(usize, usize, bool)> {
        let preset = KernelPreset::named(kernel).expect("a shipped preset");
        let domains = build(machine, &preset.sched.domains, 0);
        let shape = |domain: &Domain| (domain.span.len(), domain.groups.len(), domain.spreads);
        domains.iter().map(shape).collect()
    }

    fn machine(cpus: usize, llc: usize, package: usize, threads: usize) -> Preset {
        let mut preset = Preset::named("quad-2008-shared-llc").expect("a shipped preset");
        preset.topology.cpus = cpus;
        preset.topology.cpus_per_llc = llc;
        preset.topology.cpus_per_package = package;
        preset.topology.threads_per_core = threads;
        preset
    }

    #[test]
    fn one_level_of_caches_up_to_2_6_26() {
        for (cpus, llc, expected) in [
            (1, 1, vec![]),
            (4, 4, vec![(4, 4, false)]),
            (4, 2, vec![(2, 2, false), (4, 2, false)]),
            (8, 2, vec![(2, 2, false), (8, 4, false)]),
            (4, 1, vec![(4, 4, false)]),
        ] {
            assert_eq!(levels("2.6.25", &machine(cpus, llc, llc, 1)), expected);
        }
    }

    #[test]
    fn threads_and_one_level_of_nodes_up_to_3_4() {
        let threads = machine(64, 16, 16, 2);
        assert_eq!(levels("3.0", &threads), [(2, 2, false), (16, 8, false), (64, 4, true)]);
        assert_eq!(levels("3.0", &machine(64, 8, 8, 1)), [(8, 8, false), (64, 8, true)]);
        let mut one_node = machine(24, 6, 6, 1);
        one_node.topology.packages_per_node = 4;
        assert_eq!(levels("3.0", &one_node), [(6, 6, false), (24, 4, true)]);
        assert_eq!(levels("3.7", &one_node), [(6, 6, false), (24, 4, false)]);
    }

    #[test]
    fn a_level_for_each_distance_from_3_5_on() {
        let large = Preset::named("westmere-ex-80-2013").expect("a shipped preset");
        assert_eq!(levels("3.0", &large), [(10, 10, false), (80, 8, true)]);
        let expected = [(10, 10, false), (20, 2, true), (40, 2, false), (80, 2, false)];
        assert_eq!(levels("3.7", &large), expected);
        let preset = KernelPreset::named("3.7").expect("a shipped preset");
        let domains = build(&large, &preset.sched.domains, 79);
        let intervals = |domain: &Domain| (domain.interval.get(), domain.rules.max_interval_ms);
        let each: Vec<_> = domains.iter().map(intervals).collect();
        assert_eq!(each, [(1, 4), (20, 40), (40, 80), (80, 160)]);
    }

    #[test]
    fn intervals_of_all_levels_grow_with_their_cpus_from_3_16_on() {
        let preset = KernelPreset::named("6.18").expect("a shipped preset");
        let levels = |machine: &str| {
            let machine = Preset::named(machine).expect("a shipped preset");
            let domains = build(&machine, &preset.sched.domains, 0);
            let level =
                |domain: &Domain| (domain.rules.max_interval_ms as usize, domain.node_tasks);
            domains.iter().map(level).collect::<Vec<_>>()
        };
        // Two tasks are an eighth of a node of 16 CPUs; a node of eight caches may keep eight.
        assert_eq!(levels("xeon-64-2011"), [(4, 0), (32, 0), (128, 2)]);
        assert_eq!(levels("server-2x64"), [(16, 0), (128, 0), (256, 8)]);
        assert_eq!(levels("westmere-ex-80-2013"), [(20, 0), (40, 1), (80, 2), (160, 4)]);
    }

    #[test]
    fn the_cost_of_newly_idle_balancing_fades_in_seconds() {
        let machine = machine(4, 4, 4, 1);
        let preset = KernelPreset::named("6.18").expect("a shipped preset");
        let domains = build(&machine, &preset.sched.domains, 0);
        let cost = |ns, tick| {
            domains[0].note_newidle(ns, tick, 250);
            domains[0].newidle_cost.get()
        };
        assert_eq!([cost(2560, 10), cost(100, 260), cost(100, 261)], [2560, 2560, 2530]);
    }
}
