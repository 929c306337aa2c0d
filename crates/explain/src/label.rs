//! Names of simulated tasks for readers.

use core::fmt;

/// Name of a task for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Process number, 0 for none.
    pub pid: u32,
    /// The kind of task, such as `user`.
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

    /// Returns the label of a new task that `self` created.
    pub(crate) fn child(self) -> Self {
        match self.kind {
            "user" | "child" => Self { pid: 0, kind: "child", ..self },
            _ => Self { pid: 0, kind: "process", number: 0 },
        }
    }

    /// Returns the name that the kernels' tools show.
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
