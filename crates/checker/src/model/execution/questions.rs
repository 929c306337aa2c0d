//! What scenarios and locks ask of an execution about its tasks.

use super::{Execution, Status};
use convoy_sync::TaskId;

impl Execution {
    pub(in crate::model) fn is_blocked(&self, task: TaskId) -> bool {
        matches!(self.tasks[task as usize].status.get(), Status::Spinning | Status::Asleep)
    }

    pub(in crate::model) fn is_asleep(&self, task: TaskId) -> bool {
        self.tasks[task as usize].status.get() == Status::Asleep
    }

    /// Whether `task` is on a CPU: it has one to itself until it sleeps or ends.
    pub(in crate::model) fn runs(&self, task: TaskId) -> bool {
        let task = self.tasks.get(task as usize);
        task.is_some_and(|task| !matches!(task.status.get(), Status::Asleep | Status::Done))
    }

    /// Tasks that can go on or spin.
    pub(in crate::model) fn runnable(&self) -> u32 {
        let all = 0..self.tasks.len() as TaskId;
        all.filter(|&task| self.runs(task)).count() as u32
    }
}
