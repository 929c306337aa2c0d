//! Rules of load balancing that a kernel preset names.

use schemars::JsonSchema;
use serde::Deserialize;

/// When a CPU that has run out of tasks tries to pull one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Newidle {
    /// Never.
    Never,
    /// Always (up to 2.6.26).
    Always,
    /// When its idle times last at least 0.5 ms on average (from 2.6.33 on).
    LongIdle,
    /// When some CPU has two tasks and its idle times are longer than the search was (6.6 and
    /// later); it then pulls one task.
    Measured,
}

/// Tasks that the balancer may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// Every task that waits (2.6.23).
    Any,
    /// Of the first 33 (`sysctl_sched_nr_migrate`) those that are not cache-hot.
    FewCold,
}

/// Condition on the spread of a group's CPUs under which the balancer always pulls from the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Their loads differ by more than a task at nice 0 (up to 2.6.26).
    #[default]
    OneTask,
    /// By more than two of their tasks (2.6.32).
    TwoMeans,
    /// By one of their tasks, and the CPU with the highest load has two (2.6.37 to 3.4).
    MeanOnCrowded,
    /// By one of their tasks, and in number by two (3.5 to 3.11).
    MeanAndTasks,
    /// None: only tasks that may not leave their CPU count (from 3.12 on), and these are not
    /// modelled here.
    Never,
}

/// Whether a level that prefers siblings makes the level above pull from a group with two tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Siblings {
    /// It does not (up to 2.6.31).
    #[default]
    Ignored,
    /// It does (2.6.32 to 2.6.36).
    Always,
    /// While the local group has room for another task (from 2.6.37 on).
    WithRoom,
}

/// How much is moved between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Imbalance {
    /// The excess of the busiest over the mean, and over one of its tasks (up to 2.6.33).
    #[default]
    LoadPerTask,
    /// Its excess over the mean, and over its capacity (2.6.34 to 5.4).
    AboveCapacity,
    /// While the local group has spare capacity, the number of tasks that equalises the numbers of
    /// tasks or idle CPUs; else as `above-capacity` (from 5.5 on).
    Tasks,
    /// The same by averages that tasks take along: a group is crowded when its tasks have run or
    /// waited for long, and then fills another one's utilisation, or levels their loads (load
    /// tracking, 3.11 and later, as in 6.18). Only the class `eevdf` keeps them.
    Tracked,
}

/// By what fork and exec choose a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idlest {
    /// By its load, and in it the CPU with the least (up to 5.4).
    #[default]
    Load,
    /// While it has room by the number of its idle CPUs, and of these the one that went idle last
    /// (from 5.5 on).
    IdleCpus,
}

/// Order in which a CPU visits the groups of a level; of equal groups it pulls from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOrder {
    /// By the numbers of their CPUs. No kernel does this; it is how the tables of 2007 were
    /// computed.
    #[default]
    ByNumber,
    /// From its own group on, and round.
    OwnFirst,
}

/// When the task that a wakeup favours counts as cache-hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HotBuddies {
    /// Always (up to 2.6.31).
    #[default]
    Always,
    /// For a CPU that has something to run (from 2.6.32 on).
    WhenBusy,
}

/// By which clock a task is cache-hot, for half a millisecond after it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HotClock {
    /// Its queue's, brought up to date (up to 2.6.32).
    #[default]
    Now,
    /// Its queue's clock without an update, that is at the last event there (3.0 and 3.7).
    LastEvent,
}

/// What becomes of load averages while a CPU's tick is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedTicks {
    /// They stay as they are (up to 2.6.35).
    #[default]
    Stale,
    /// They decay when the CPU next checks them (from 2.6.36 on).
    Decay,
}

/// Tasks that the migration thread pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Push {
    /// One of at least two tasks (up to 2.6.36).
    #[default]
    Spare,
    /// One task, and be it the only one (from 2.6.37 on, when the thread counts itself).
    Any,
}

/// The CPU that balances for idle CPUs with stopped ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// One of them, which keeps its tick (up to 2.6.35).
    #[default]
    Owner,
    /// The first of them that stopped, kicked by the tick of a busy CPU: the first two to ask may
    /// do so, one if it has two tasks and one if it has any, until they stop their own tick. A CPU
    /// that was busy at its last tick ignores the kick, and is not kicked again until its softirq
    /// does the work. The load averages of the kicked CPU are updated, but not the others' (2.6.36
    /// to 3.1).
    FirstTwo,
    /// The idle CPU with the lowest number, kicked by the tick of any busy CPU that has two tasks
    /// or shares its core with another busy thread. A kick that comes when its CPU has work again
    /// bars further ones until a softirq of that CPU (3.3 to 3.9; load averages as in 3.7).
    Crowded,
    /// The same, but such a kick is forgotten (3.10 to 4.0; that two busy CPUs of a cache may kick
    /// from 3.13 on is not modelled).
    CrowdedOrForgotten,
    /// The idle CPU with the lowest number that has nothing queued, kicked by the tick of any busy
    /// CPU that has two tasks or shares its cache with another busy CPU. It balances for the others
    /// whose turn it is, from its own number on and round, and for itself last (from 4.1 on;
    /// details as in 6.18).
    OthersFirst,
}

/// Rules of load balancing, `[sched.balance]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent rules of the balancer")]
pub struct BalanceRules {
    /// A new task starts on the idlest CPU (`SD_BALANCE_FORK`, here from 2.6.24 on) instead of its
    /// parent's.
    pub fork: bool,
    /// When a CPU that has run out of tasks tries to pull one.
    pub newidle: Newidle,
    /// What may be moved.
    pub migration: Migration,
    /// With `config.group_sched` the load of a CPU is the group's share on it (2.6.26-rc1) instead
    /// of the sum of its tasks. Periodic balancing redistributes the shares of its level
    /// (`get_aggregate`).
    pub group_shares: bool,
    /// When the CPUs of a group differ too much.
    #[serde(default)]
    pub spread: Spread,
    /// Effect of a level that prefers siblings on the level above.
    #[serde(default)]
    pub siblings: Siblings,
    /// How much is moved between two groups.
    #[serde(default)]
    pub imbalance: Imbalance,
    /// Order in which groups are visited.
    #[serde(default)]
    pub group_order: GroupOrder,
    /// A newly idle CPU in a group with spare capacity pulls from a group without it, whatever the
    /// loads (from 2.6.37 on).
    #[serde(default)]
    pub newidle_force: bool,
    /// A newly idle CPU stops at the first level where it found an imbalance and moved nothing
    /// (2.6.32 and 2.6.33).
    #[serde(default)]
    pub newidle_stops: bool,
    /// An idle CPU compares numbers of idle CPUs instead of loads (from 2.6.38 on).
    #[serde(default)]
    pub idle_counts: bool,
    /// When the task that a wakeup favours counts as cache-hot.
    #[serde(default)]
    pub hot_buddies: HotBuddies,
    /// By which clock a task is cache-hot.
    #[serde(default)]
    pub hot_clock: HotClock,
    /// What becomes of load averages while the tick is stopped.
    #[serde(default)]
    pub stopped_ticks: StoppedTicks,
    /// Tasks that the migration thread pushes.
    #[serde(default)]
    pub push: Push,
    /// By what fork and exec choose a group.
    #[serde(default)]
    pub idlest: Idlest,
    /// Of two groups without load a new task goes to the remote one, as in every kernel; without
    /// it, to its own, as the tables of 2008 were computed.
    #[serde(default)]
    pub fork_leaves: bool,
    /// The CPU that balances for idle CPUs with stopped ticks.
    #[serde(default)]
    pub stopped: Stopped,
}
