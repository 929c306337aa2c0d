//! The rules of RCU, `[rcu]` of a preset.

use crate::config::Preempt;
use convoy_catalogue::Fault;
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
    /// Readers may be preempted, and delay separate grace periods (`CONFIG_TREE_PREEMPT_RCU`, needs
    /// `preempt = "full"`).
    #[serde(default)]
    pub preemptible: bool,
    /// Readers that delay a grace period for this many milliseconds are boosted to the priority of
    /// the `rcubN` of their node (`CONFIG_RCU_BOOST_DELAY`); never if absent.
    #[serde(default)]
    #[schemars(range(max = 3000))]
    pub boost_ms: Option<u64>,
    /// How its threads are scheduled, where it has any.
    #[serde(default)]
    pub thread: ThreadPolicy,
    /// Instructions of one core processing beyond its priced memory operations, nanoseconds.
    pub core_ns: f64,
    /// Instructions of one callback that frees an object, nanoseconds.
    pub callback_ns: f64,
}

impl RcuRules {
    /// Fails if a preset combines incompatible rules.
    pub(crate) fn check(&self, preempt: Preempt) -> Result<(), Fault> {
        if self.preemptible && preempt != Preempt::Full {
            let problem = "needs `config.preempt = \"full\"`: other kernels do not preempt readers";
            return Err(Fault::new("rcu.preemptible", problem));
        }
        if self.boost_ms.is_some() && !self.preemptible {
            let problem = "needs `rcu.preemptible = true`: other readers keep their CPU";
            return Err(Fault::new("rcu.boost_ms", problem));
        }
        Ok(())
    }
}
