//! Scenarios: small programs and their properties.

use super::orders::Orders;
use convoy_sync::TaskId;
use std::cell::Cell;
use std::rc::Rc;

/// A property of a scenario, which an execution may violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// There are never more owners than the lock admits.
    Exclusion,
    /// No task sleeps forever while a unit is free.
    NoLostWakeup,
    /// Every task ends.
    NoDeadlock,
    /// Units are neither lost nor invented.
    UnitsKept,
    /// No task overtakes a waiter.
    Fifo,
    /// A waiter is overtaken, or woken without acquiring, only a bounded number of times.
    NoStarvation,
    /// A signal ends a wait that allows it.
    Signals,
    /// A deadline ends a wait.
    Timeouts,
    /// What earlier owners wrote is visible.
    Visibility,
    /// Objects freed after a grace period are not in use.
    GracePeriod,
    /// Every execution ends within the budget's steps.
    NoLivelock,
    /// No assertion of the lock itself fails.
    Assertions,
}

impl Property {
    /// Returns the name as printed in tables.
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
            Self::Visibility => "visibility",
            Self::GracePeriod => "grace-period",
            Self::NoLivelock => "no-livelock",
            Self::Assertions => "assertions",
        }
    }
}

/// A violated property and the observation.
pub type Failure = (Property, String);

/// How the tasks of an execution ended.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Tasks that sleep and that nothing will wake.
    pub asleep: Vec<TaskId>,
    /// Tasks that spin on a word that will not change.
    pub spinning: Vec<TaskId>,
}

/// The body of a task.
pub(super) type Body = Box<dyn FnOnce()>;
/// Judges the end of an execution.
pub type Verdict = Box<dyn Fn(&End) -> Result<(), Failure>>;

/// The state of a scenario, created for each execution.
pub struct Instance {
    /// Bodies of the tasks. A task's number is its index.
    pub tasks: Vec<Body>,
    /// Judges the end of an execution without an earlier failure.
    pub verdict: Verdict,
}

/// A small program with interleavings to explore.
pub struct Scenario {
    /// The name, part of schedule strings: no `:`.
    pub name: String,
    /// Properties that are checked in addition to termination and assertions.
    pub checks: Vec<Property>,
    /// Builds the objects and tasks.
    pub build: Box<dyn Fn() -> Instance>,
    /// Whether [`Platform::touch`](convoy_sync::Platform::touch) names data that is not atomic.
    pub(super) judges_cells: bool,
    /// Whether an execution had an operation of `SeqCst`.
    pub(super) sequential: Cell<bool>,
    /// The orderings of its executions.
    pub(super) orders: Rc<Orders>,
}

impl Scenario {
    /// Returns the scenario `name` with the instances that `build` returns.
    pub fn new(
        name: impl Into<String>,
        checks: impl Into<Vec<Property>>,
        build: impl Fn() -> Instance + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            checks: checks.into(),
            build: Box::new(build),
            judges_cells: true,
            sequential: Cell::new(false),
            orders: Rc::default(),
        }
    }

    /// Returns the same scenario, executed with `orders`.
    #[must_use]
    pub fn with_orders(self, orders: Rc<Orders>) -> Self {
        Self { orders, ..self }
    }

    /// Declares that [`Platform::touch`](convoy_sync::Platform::touch) names cache lines that also
    /// hold atomic words: such accesses need no order.
    #[must_use]
    pub fn with_shared_lines(self) -> Self {
        Self { judges_cells: false, ..self }
    }
}
