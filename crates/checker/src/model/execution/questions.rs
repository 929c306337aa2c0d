//! Queries of scenarios and locks about the tasks of an execution, and how the tasks ended.

use super::{Execution, Status};
use crate::model::scenario::{End, Failure, Property};
use convoy_sync::TaskId;

impl Execution {
    pub(in crate::model) fn is_blocked(&self, task: TaskId) -> bool {
        matches!(self.tasks[task as usize].status.get(), Status::Spinning | Status::Asleep)
    }

    pub(in crate::model) fn is_asleep(&self, task: TaskId) -> bool {
        self.tasks[task as usize].status.get() == Status::Asleep
    }

    /// Returns whether `task` is on a CPU: each task has its own CPU until it sleeps or ends.
    pub(in crate::model) fn runs(&self, task: TaskId) -> bool {
        let task = self.tasks.get(task as usize);
        task.is_some_and(|task| !matches!(task.status.get(), Status::Asleep | Status::Done))
    }

    /// Returns the number of tasks that can continue or spin.
    pub(in crate::model) fn runnable(&self) -> u32 {
        let all = 0..self.tasks.len() as TaskId;
        all.filter(|&task| self.runs(task)).count() as u32
    }

    /// Fails if a task ended with preemption or interrupts still disabled.
    pub(super) fn balanced(&self) -> Result<(), Failure> {
        let done = self.tasks.iter().filter(|task| task.status.get() == Status::Done);
        let mut left = done.map(|task| task.disabled.get());
        let Some((preempt, irq)) = left.find(|&left| left != (0, 0)) else { return Ok(()) };
        let text =
            format!("a task ends with preemption disabled {preempt}, interrupts {irq} times");
        Err((Property::Assertions, text))
    }

    /// Returns how the tasks ended.
    pub(super) fn end(&self) -> End {
        let with = |status| {
            let tasks = 0..self.tasks.len();
            let wanted = tasks.filter(|&task| self.tasks[task].status.get() == status);
            wanted.map(|task| task as TaskId).collect()
        };
        End { asleep: with(Status::Asleep), spinning: with(Status::Spinning) }
    }
}
