//! Scenarios: small programs and their properties.

use convoy_sync::TaskId;

/// What a scenario promises, and an execution may violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Never more owners than the lock admits.
    Exclusion,
    /// No task sleeps forever beside a free unit.
    NoLostWakeup,
    /// Every task ends.
    NoDeadlock,
    /// Units are neither lost nor invented.
    UnitsKept,
    /// Nobody passes a task that waits.
    Fifo,
    /// A task that waits is passed, or woken in vain, only so often.
    NoStarvation,
    /// A signal ends a wait that admits it.
    Signals,
    /// A deadline ends a wait.
    Timeouts,
    /// What is freed after a grace period is not in use.
    GracePeriod,
    /// Every execution ends within the budget's steps.
    NoLivelock,
    /// No assertion of the lock itself fails.
    Assertions,
}

impl Property {
    /// The name, as printed in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::NoLostWakeup => "no-lost-wakeup",
            Self::NoDeadlock => "no-deadlock",
            Self::UnitsKept => "units-kept",
            Self::Fifo => "fifo",
            Self::NoStarvation => "no-starvation",
            Self::Signals => "signals",
            Self::Timeouts => "timeouts",
            Self::GracePeriod => "grace-period",
            Self::NoLivelock => "no-livelock",
            Self::Assertions => "assertions",
        }
    }
}

/// A violated property and what was seen.
pub type Failure = (Property, String);

/// How the tasks of an execution ended.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Tasks that sleep and that nothing will wake.
    pub asleep: Vec<TaskId>,
    /// Tasks that spin on a word that nobody will change.
    pub spinning: Vec<TaskId>,
}

/// The body of a task.
pub(super) type Body = Box<dyn FnOnce()>;
/// What [`Instance::verdict`] is asked at the end.
pub type Verdict = Box<dyn FnOnce(&End) -> Result<(), Failure>>;

/// What a scenario consists of, made anew for each execution.
pub struct Instance {
    /// Bodies of the tasks; a task's number is its place.
    pub tasks: Vec<Body>,
    /// Judges the end of an execution in which nothing failed before.
    pub verdict: Verdict,
}

/// A small program whose orders are explored.
pub struct Scenario {
    /// The name, part of schedule strings: no `:`.
    pub name: String,
    /// What it checks, beside that every execution ends and no assertion fails.
    pub checks: Vec<Property>,
    /// Makes the objects and tasks.
    pub build: Box<dyn Fn() -> Instance>,
}
