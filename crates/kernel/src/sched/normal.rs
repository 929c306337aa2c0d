//! The interface between the scheduler and the classes of ordinary tasks (`SCHED_NORMAL`), which
//! share a CPU among its tasks.
//!
//! Real-time tasks come first ([`super::rt`]); whatever they leave goes to one [`Normal`] for each
//! CPU. The queue's lock is held for every call. Nothing here knows of other CPUs: where a task is
//! queued is decided by placement and balancing.

use super::task::Tcb;
use convoy_sync::TaskId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::rc::Rc;

/// How the ordinary tasks of one CPU share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Arrays of priorities, time slices and a bonus for sleepers (up to 2.6.22; as of 2.6.16).
    O1,
    /// The fair class as it came: a fair clock, and `wait_runtime` for each task (2.6.23).
    WaitRuntime,
    /// The fair class with virtual run times (2.6.24 to 6.5); its rules are in `[sched.cfs]`.
    Cfs,
    /// Earliest eligible virtual deadline first (from 6.6 on); its rules are in `[sched.eevdf]`.
    Eevdf,
}

/// Why a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// It was asleep.
    Woken,
    /// It moved from another CPU, or changed its class.
    Moved,
}

/// Why a task leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dequeue {
    /// It goes to sleep.
    Sleeps,
    /// It goes to another CPU or class, or has ended.
    Leaves,
}

/// The ordinary tasks of one CPU. *Queued* tasks wait; the running one is counted but not queued.
pub(crate) trait Normal {
    /// Counts `task` in and queues it at `now`.
    fn enqueue(&mut self, task: &Tcb, why: Enqueue, now: u64);

    /// Queues a new task. `parent` runs on this CPU and has just forked it.
    fn enqueue_new(&mut self, child: &Tcb, parent: Option<&Tcb>);

    /// Counts `task`, queued or running, out. `false` when it stays for a while although it sleeps.
    fn dequeue(&mut self, task: &Tcb, why: Dequeue) -> bool;

    /// Returns whether the running task must be charged before another task leaves: every kernel
    /// does so, but only here does the charge depend on the queued tasks.
    fn charges_before_dequeue(&self) -> bool {
        false
    }

    /// The running task waits again.
    fn put_back(&mut self, task: &Tcb);

    /// Takes `task`, which runs but has just been queued, from those that wait.
    fn take(&mut self, task: &Tcb);

    /// Takes the next task to run from those that wait. `tcb` finds the record of a task.
    fn pick(&mut self, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) -> Option<Rc<Tcb>>;

    /// Charges the running task up to `now`; returns whether it should yield the CPU.
    fn charge(&mut self, task: &Tcb, now: u64) -> bool;

    /// After [`Self::charge`] at the periodic tick: returns whether the running task should yield
    /// the CPU.
    fn tick(&mut self, task: &Tcb) -> bool;

    /// Whether `woken`, just queued here, preempts the running `current`, just charged.
    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool;

    /// Before [`Self::preempts`]: takes sleepers off that are still queued and would be picked now.
    fn drop_sleepers(&mut self, _current: &Tcb, _tcb: &dyn Fn(TaskId) -> Rc<Tcb>) {}

    /// The running task lets others go first (`sched_yield`).
    fn yield_turn(&mut self, _: &Tcb) {}

    /// Queued tasks, at most `most`, in the order in which the balancer examines them.
    fn candidates(&self, most: usize) -> Vec<TaskId>;

    /// Length of the slice of a task just picked, where a timer can end it.
    fn slice(&self, _: &Tcb) -> Option<u64> {
        None
    }

    /// Returns the virtual time; a migrated task keeps its distance to it.
    fn origin(&self) -> i64 {
        0
    }

    /// It is `now`: brings the averages of the queue up to date, where the class keeps any.
    fn update_clock(&mut self, _now: u64) {}

    /// `task`, which is not queued, leaves for another CPU, asleep or not.
    fn detach(&mut self, _task: &Tcb, _asleep: bool) {}

    /// Called when `task`, which is not queued, has moved here from another CPU.
    fn attach(&mut self, _task: &Tcb) {}

    /// Decaying average of the weight of the tasks of this CPU, as it was last brought up to date.
    fn load_average(&self) -> u64 {
        0
    }

    /// Decaying average of the share of time, of [`super::entity::WEIGHT`], in which one of its
    /// tasks ran. At `now` one is `running`.
    fn utilization(&self, _now: u64, _running: bool) -> u64 {
        0
    }

    /// Whether `task`, which a wakeup favours, counts as cache-hot for that.
    fn is_hot_buddy(&self, _task: TaskId) -> bool {
        false
    }

    /// A sleeper that is still queued has been woken: it becomes a task that wants the CPU again.
    fn requeue(&mut self, _: &Tcb) {
        unreachable!("this class dequeues every sleeper at once");
    }
}
