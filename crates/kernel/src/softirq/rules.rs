//! The vectors, and the rules by which they run, `[softirq]` of a preset.

use schemars::JsonSchema;
use serde::Deserialize;

/// A vector, named as `/proc/softirqs` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Vector {
    /// Tasklets of high priority.
    Hi,
    /// Expired timers.
    Timer,
    /// Network, sending.
    NetTx,
    /// Network, receiving.
    NetRx,
    /// Completion of block requests.
    Block,
    /// Polled completion, 2.6.32 to 4.4.
    BlockIopoll,
    /// The same since 4.5.
    IrqPoll,
    /// Tasklets.
    Tasklet,
    /// Load balancing.
    Sched,
    /// High-resolution timers.
    Hrtimer,
    /// Read-copy-update.
    Rcu,
}

impl Vector {
    /// The name in `/proc/softirqs`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hi => "HI",
            Self::Timer => "TIMER",
            Self::NetTx => "NET_TX",
            Self::NetRx => "NET_RX",
            Self::Block => "BLOCK",
            Self::BlockIopoll => "BLOCK_IOPOLL",
            Self::IrqPoll => "IRQ_POLL",
            Self::Tasklet => "TASKLET",
            Self::Sched => "SCHED",
            Self::Hrtimer => "HRTIMER",
            Self::Rcu => "RCU",
        }
    }
}

/// How one version of the kernel runs software interrupts; the default is 2.6.25's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SoftirqRules {
    /// The vectors in the order in which they run and are printed.
    pub vectors: Vec<Vector>,
    /// Passes before the rest is left to `ksoftirqd` (`MAX_SOFTIRQ_RESTART`).
    #[schemars(range(min = 1, max = 1000))]
    pub passes: u32,
    /// No further pass after this many milliseconds, rounded up to ticks, or when a task wants the
    /// CPU: 2 since 3.9. 0 is no limit.
    #[schemars(range(min = 0, max = 1000))]
    pub limit_ms: u64,
    /// A runnable `ksoftirqd` keeps the end of an interrupt from running anything but HI and
    /// TASKLET: 4.9 to 6.4.
    pub defer_to_ksoftirqd: bool,
    /// Nice value of `ksoftirqd`: 19 in 2.6.16, 0 in 3.0.
    #[schemars(range(min = -20, max = 19))]
    pub ksoftirqd_nice: i8,
    /// Every software interrupt runs in the `ksoftirqd` of its CPU, with `SCHED_FIFO` 1, and none
    /// at the end of an interrupt: the -rt patches.
    pub threaded: bool,
}

impl Default for SoftirqRules {
    fn default() -> Self {
        use Vector::{Block, Hi, Hrtimer, NetRx, NetTx, Rcu, Sched, Tasklet, Timer};
        Self {
            vectors: vec![Hi, Timer, NetTx, NetRx, Block, Tasklet, Sched, Hrtimer, Rcu],
            passes: 10,
            limit_ms: 0,
            defer_to_ksoftirqd: false,
            ksoftirqd_nice: 0,
            threaded: false,
        }
    }
}
