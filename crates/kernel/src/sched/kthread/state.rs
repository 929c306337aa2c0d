//! State of a kernel thread.

use crate::sched::task::{Policy, State, Tcb};
use convoy_sync::TaskId;
use core::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// All kernel threads, and what each of them will do until it starts.
pub(crate) type Kthreads<W> = BTreeMap<TaskId, (Rc<Kthread>, Option<W>)>;

/// A kernel thread.
pub struct Kthread {
    pub(super) name: String,
    pub(super) tcb: Rc<Tcb>,
    pub(super) policy: Policy,
    pub(super) should_stop: Cell<bool>,
    pub(super) should_park: Cell<bool>,
    pub(super) parked: Cell<bool>,
    pub(super) ended: Cell<bool>,
    /// The task that waits in `kthread_park` or `kthread_stop`.
    pub(super) waiter: Cell<Option<TaskId>>,
}

impl Kthread {
    /// The kernel thread that the task of `tcb` is.
    pub(super) fn new(name: &str, tcb: Rc<Tcb>, policy: Policy) -> Self {
        Self {
            name: name.to_owned(),
            tcb,
            policy,
            should_stop: Cell::new(false),
            should_park: Cell::new(false),
            parked: Cell::new(false),
            ended: Cell::new(false),
            waiter: Cell::new(None),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its task.
    pub fn task(&self) -> TaskId {
        self.tcb.id
    }

    /// How it is scheduled.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether it runs or waits for a CPU.
    pub fn is_runnable(&self) -> bool {
        self.tcb.state.get() == State::Running
    }

    /// Returns whether its body was requested to return.
    pub fn should_stop(&self) -> bool {
        self.should_stop.get()
    }

    /// Returns whether it was requested to call `kthread_parkme`.
    pub fn should_park(&self) -> bool {
        self.should_park.get()
    }
}
