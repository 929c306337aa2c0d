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
    /// Of a kernel thread its priority, as the kernels' tools show it.
    pub thread: Option<u8>,
}

/// The priority of a task of nice level 0 in the output of kernels.
const PRIORITY: u8 = 120;
/// The number of a kernel thread that has none.
const NO_NUMBER: u32 = u32::MAX;

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            "idle" => write!(f, "idle task of CPU {}", self.number),
            "user" => write!(f, "user {}", self.number),
            "child" => write!(f, "a child of user {} (pid {})", self.number, self.pid),
            _ if self.thread.is_some() => f.write_str(&self.comm()),
            kind => f.write_str(kind),
        }
    }
}

impl Label {
    pub(crate) const UNKNOWN: Self = Self { pid: 0, kind: "task", number: 0, thread: None };

    pub(crate) fn idle(cpu: usize) -> Self {
        Self { kind: "idle", number: cpu as u32, ..Self::UNKNOWN }
    }

    /// Returns the label of a kernel thread.
    pub(crate) fn kthread(kind: &'static str, number: Option<u32>, priority: u8) -> Self {
        let number = number.unwrap_or(NO_NUMBER);
        Self { kind, number, thread: Some(priority), ..Self::UNKNOWN }
    }

    /// Returns the priority that the kernels' tools show.
    pub(crate) fn priority(self) -> i32 {
        i32::from(self.thread.unwrap_or(PRIORITY))
    }

    /// Returns the label of a new task that `self` created.
    pub(crate) fn child(self) -> Self {
        match self.kind {
            "user" | "child" => Self { pid: 0, kind: "child", ..self },
            _ => Self { kind: "process", ..Self::UNKNOWN },
        }
    }

    /// Returns the name that the kernels' tools show.
    pub(crate) fn comm(self) -> String {
        match self.kind {
            "idle" => format!("swapper/{}", self.number),
            "user" => format!("user-{}", self.number),
            "child" => format!("child-{}", self.number),
            kind if self.thread.is_some() && self.number != NO_NUMBER => {
                format!("{kind}{}", self.number)
            }
            kind => kind.to_owned(),
        }
    }
}
