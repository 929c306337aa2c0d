//! How a kernel is built, `[config]` of its preset, and what its scheduler costs, `[sched_ns]`.

use convoy_catalogue::nanoseconds;
use schemars::JsonSchema;
use serde::Deserialize;

/// Preemption model of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preempt {
    /// `CONFIG_PREEMPT_NONE`: at sleeps, on return to user mode, in `cond_resched`.
    None,
    /// `CONFIG_PREEMPT_VOLUNTARY`: also at every `might_sleep`.
    Voluntary,
    /// `CONFIG_PREEMPT`: anywhere outside spinlocks and interrupts.
    Full,
}

/// Build configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent options of the build")]
pub struct Config {
    /// Ticks a second: 100, 250, 300 or 1000.
    #[schemars(range(min = 100, max = 1000))]
    pub hz: u32,
    /// Preemption model.
    pub preempt: Preempt,
    /// `CONFIG_NO_HZ`: an idle CPU stops its tick.
    pub no_hz: bool,
    /// `CONFIG_FAIR_GROUP_SCHED` by user, and one user runs everything. In 2.6.26-rc1 the load of a
    /// CPU, for balancing and for wakeups, is then the group's share on that CPU instead of the sum
    /// of its tasks; 2.6.25 keeps the sum.
    pub group_sched: bool,
    /// `CONFIG_SCHED_HRTICK` with active high-resolution timers: a slice ends exactly.
    pub hrtick: bool,
    /// The CPUs' ticks are spread over half a period (2.6.23 to 2.6.35); otherwise they fall
    /// together.
    #[serde(default = "yes")]
    pub skew_tick: bool,
    /// `CONFIG_RSEQ_SLICE_EXTENSION` of Linux 7.0: how long, in nanoseconds, a task runs on that is
    /// to be preempted in user mode and has asked for it (`slice_ext_nsec`: 5000 to 50000, by
    /// default 5000). 0, the default, for a kernel that does not offer it.
    #[serde(default)]
    #[schemars(range(max = 50_000))]
    pub slice_extension_ns: u64,
}

const fn yes() -> bool {
    true
}

/// Instruction cost of scheduler paths beyond their priced memory operations, in nanoseconds on the
/// 2008 machine.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct SchedCosts {
    /// One pass of `schedule` without the switch itself.
    pub schedule: f64,
    /// One `try_to_wake_up`.
    pub wake: f64,
    /// The work of a tick.
    pub tick: f64,
    /// Checking one CPU while balancing.
    pub balance_cpu: f64,
    /// Moving one task between run queues.
    pub pull: f64,
}
