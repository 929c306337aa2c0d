//! The tasks of a recorded run: their names for readers, and their current state.

use crate::chain::Path;
use convoy_machine::Leave;
use convoy_sync::TaskId;
use core::fmt;

/// Name of a task for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Process number, 0 for none.
    pub pid: u32,
    /// Such as `user`.
    pub kind: &'static str,
    /// Number among its kind.
    pub number: u32,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            "idle" => write!(f, "idle task of CPU {}", self.number),
            "user" => write!(f, "user {}", self.number),
            "child" => write!(f, "a child of user {} (pid {})", self.number, self.pid),
            "kernel thread" => write!(f, "kernel thread {}", self.number),
            kind => f.write_str(kind),
        }
    }
}

impl Label {
    pub(crate) const UNKNOWN: Self = Self { pid: 0, kind: "task", number: 0 };

    pub(crate) fn idle(cpu: usize) -> Self {
        Self { pid: 0, kind: "idle", number: cpu as u32 }
    }

    /// The label of a new task of `self`.
    fn child(self) -> Self {
        match self.kind {
            "user" | "child" => Self { pid: 0, kind: "child", ..self },
            _ => Self { pid: 0, kind: "process", number: 0 },
        }
    }

    /// Its name as the kernels' tools show it.
    pub(crate) fn comm(self) -> String {
        match self.kind {
            "idle" => format!("swapper/{}", self.number),
            "user" => format!("user-{}", self.number),
            "child" => format!("child-{}", self.number),
            "kernel thread" => format!("kthread-{}", self.number),
            kind => kind.to_owned(),
        }
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Running,
    /// On a run queue since this time.
    Runnable(u64),
    Asleep(u64),
    Dead,
}

/// A lock and the time since when it is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) lock: u32,
    pub(crate) at: u64,
    /// Acquired by the scheduler for a switch: the next task releases it.
    pub(crate) passes: bool,
}

/// A task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) label: Label,
    pub(crate) job: &'static str,
    pub(crate) call: Option<&'static str>,
    pub(crate) place: Place,
    pub(crate) leaving: Leave,
    /// CPU on which it runs or whose run queue it is in.
    pub(crate) cpu: usize,
    /// Locks it waits for, the innermost last.
    pub(crate) waits: Vec<Since>,
    pub(crate) holds: Vec<Since>,
    /// The lock that was given to it while it slept, and when; until it runs.
    pub(crate) granted: Option<Since>,
    /// The task that handed it over.
    pub(crate) giver: Label,
    pub(crate) path: Path,
    /// The account of the owner of the lock for which it went to sleep.
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

    /// A new task made by `self`.
    pub(crate) fn child(&self, cpu: usize, at: u64) -> Self {
        Self {
            job: self.job,
            place: Place::Runnable(at),
            cpu,
            path: self.path,
            ..Self::new(self.label.child())
        }
    }

    /// The lock that it waits for, or that it was given and cannot use yet.
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
