//! The tasks of a recorded run in their current state.

use crate::chain::Path;
use crate::label::Label;
use convoy_machine::Leave;
use convoy_sync::TaskId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Running,
    /// On a run queue since this time.
    Runnable(u64),
    Asleep(u64),
    Dead,
}

/// A lock, and the time since which it is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) lock: u32,
    pub(crate) at: u64,
    /// Acquired by the scheduler for a switch: the next task releases it.
    pub(crate) passes: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) label: Label,
    pub(crate) job: &'static str,
    pub(crate) call: Option<&'static str>,
    pub(crate) place: Place,
    pub(crate) leaving: Leave,
    /// CPU on which it runs or whose run queue it is in.
    pub(crate) cpu: usize,
    /// Locks that it waits for, the innermost last.
    pub(crate) waits: Vec<Since>,
    pub(crate) holds: Vec<Since>,
    /// The lock that was handed off to it while it slept, and when. `None` once it runs.
    pub(crate) granted: Option<Since>,
    /// The task that handed off the lock.
    pub(crate) giver: Label,
    pub(crate) path: Path,
    /// Account of the lock's owner at the time when this task went to sleep.
    pub(crate) owner_then: [u64; 4],
}

impl Task {
    pub(crate) fn new(label: Label) -> Self {
        Self {
            label,
            job: "",
            call: None,
            place: Place::Dead,
            leaving: Leave::Runnable,
            cpu: 0,
            waits: Vec::new(),
            holds: Vec::new(),
            granted: None,
            giver: Label::UNKNOWN,
            path: Path::default(),
            owner_then: [0; 4],
        }
    }

    /// Returns a new task that `self` created.
    pub(crate) fn child(&self, cpu: usize, at: u64) -> Self {
        Self {
            job: self.job,
            place: Place::Runnable(at),
            cpu,
            path: self.path,
            ..Self::new(self.label.child())
        }
    }

    /// Returns the lock that it waits for, or that it was given and cannot use yet.
    pub(crate) fn lock(&self) -> Option<u32> {
        self.waits.last().or(self.granted.as_ref()).map(|since| since.lock)
    }
}

/// All tasks by their number on the machine.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<Task>);

impl Tasks {
    pub(crate) fn at(&mut self, id: TaskId) -> &mut Task {
        let index = id as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, Task::new(Label::UNKNOWN));
        }
        &mut self.0[index]
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.0.get(id as usize)
    }

    pub(crate) fn label(&self, id: TaskId) -> Label {
        self.get(id).map_or(Label::UNKNOWN, |task| task.label)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.0.iter_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.0.iter().enumerate().map(|(id, task)| (id as TaskId, task))
    }
}
