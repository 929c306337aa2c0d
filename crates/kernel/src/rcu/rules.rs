//! The rules of RCU, `[rcu]` of a preset.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where core processing and callbacks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both in the softirq RCU: 2.6.39, and 3.0 without boosting (commit a46e0899eec7).
    Softirq,
    /// Both in a `SCHED_FIFO` thread of each CPU: 3.0-rc from commit a26ac2455ffc on.
    Thread,
    /// Core processing in the softirq, callbacks in the thread: commit 09223371deac, and 3.0 with
    /// boosting.
    CallbacksInThread,
}

/// How the threads are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadPolicy {
    /// `SCHED_FIFO`, priority 1: 3.0-rc and 3.0.
    #[default]
    Fifo,
    /// `SCHED_OTHER`: what RCU's threads became later, and a question about the first ones.
    Other,
}

/// RCU of one version of the kernel.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = convoy_catalogue::nanoseconds)]
pub struct RcuRules {
    /// Where its work runs.
    pub placement: Placement,
    /// How its threads are scheduled, where it has any.
    #[serde(default)]
    pub thread: ThreadPolicy,
    /// Instructions of one core processing beyond its priced memory operations, nanoseconds.
    pub core_ns: f64,
    /// Instructions of one callback that frees an object, nanoseconds.
    pub callback_ns: f64,
    /// A grace period that has waited so many seconds is said to stall
    /// (`CONFIG_RCU_CPU_STALL_TIMEOUT`).
    #[serde(default = "stall_s")]
    #[schemars(range(min = 1, max = 3600))]
    pub stall_s: u64,
}

fn stall_s() -> u64 {
    60
}
