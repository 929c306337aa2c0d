//! Real-time tasks of one CPU: first-in first-out by priority.
//!
//! `kernel/sched_rt.c`. The queue's lock is held for every call. The shared state of real-time
//! tasks is in [`super::rt_root`], their migration in [`super::rt_move`].

use super::rt_limit::RtLimit;
use super::rt_root::Sharing;
use super::task::Tcb;
use convoy_sync::TaskId;
use core::cmp::Reverse;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Rules of real-time tasks, `[sched.rt]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RtRules {
    /// Shared state of real-time tasks.
    pub sharing: Sharing,
    /// How long real-time tasks may keep ordinary ones from a CPU.
    pub limit: RtLimit,
}

/// The real-time tasks of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Those that wait, best priority first and then in their order.
    waiting: BTreeMap<(Reverse<u8>, i64), TaskId>,
    /// How many of each priority, the running one included.
    counts: BTreeMap<u8, u64>,
    /// How many may run on another CPU, the running one included.
    migratory: u64,
    head: i64,
    tail: i64,
}

impl Queue {
    /// Best priority, the running task included.
    pub(crate) fn best(&self) -> Option<u8> {
        self.counts.last_key_value().map(|(&priority, _)| priority)
    }

    /// Whether other CPUs could help: more than one task, and one of them may move.
    pub(crate) fn overloaded(&self) -> bool {
        self.migratory > 0 && self.counts.values().sum::<u64>() > 1
    }

    fn insert(&mut self, task: &Tcb, at_tail: bool) {
        let priority = task.rt_priority().expect("a real-time task");
        let place = if at_tail { &mut self.tail } else { &mut self.head };
        *place += if at_tail { 1 } else { -1 };
        let key = (Reverse(priority), *place);
        self.waiting.insert(key, task.id);
        task.rt.key.set(Some(key));
    }

    /// Counts `task` in, at the tail of its list.
    pub(crate) fn enqueue(&mut self, task: &Tcb) {
        let priority = task.rt_priority().expect("a real-time task");
        *self.counts.entry(priority).or_default() += 1;
        self.migratory += u64::from(!task.bound.get());
        task.entity.on_queue.set(true);
        self.insert(task, true);
    }

    /// Counts it out.
    pub(crate) fn dequeue(&mut self, task: &Tcb) {
        let priority = task.rt_priority().expect("a real-time task");
        if let Some(key) = task.rt.key.take() {
            self.waiting.remove(&key);
        }
        let count = self.counts.get_mut(&priority).expect("it is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&priority);
        }
        self.migratory -= u64::from(!task.bound.get());
        task.entity.on_queue.set(false);
    }

    /// The running task waits again: first of its list.
    pub(crate) fn put_back(&mut self, task: &Tcb) {
        self.insert(task, false);
    }

    /// Takes the next task to run from those that wait; [`Self::picked`] follows.
    pub(crate) fn pick(&mut self) -> Option<TaskId> {
        self.waiting.pop_first().map(|(_, task)| task)
    }

    /// Takes `task`, which runs, from those that wait.
    pub(crate) fn take(&mut self, task: &Tcb) {
        if let Some(key) = task.rt.key.take() {
            self.waiting.remove(&key);
        }
    }

    /// `task` has been taken from those that wait.
    pub(crate) fn picked(task: &Tcb) {
        task.rt.key.set(None);
    }

    /// The best waiting task that `may` go elsewhere.
    pub(crate) fn pushable(&self, may: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        self.waiting.values().copied().find(|&task| may(task))
    }
}
