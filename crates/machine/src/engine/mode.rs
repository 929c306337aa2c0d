//! The modes of a CPU, and the ends of a run.

/// State of a CPU, for the accounting of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// User-mode work of a task.
    User,
    /// Kernel work.
    System,
    /// Spinning on a lock word.
    Spin,
    /// Interrupt handlers.
    Interrupt,
    /// Nothing to run.
    Idle,
}

impl Mode {
    /// Every mode, in the order of [`CpuTimes`].
    pub const ALL: [Self; 5] = [Self::User, Self::System, Self::Spin, Self::Interrupt, Self::Idle];
}

/// Picoseconds by [`Mode`], indexed by `Mode as usize`.
pub type CpuTimes = [u64; 5];

/// Why [`Machine::run`](crate::Machine::run) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// [`Here::stop`](crate::Here::stop) was called.
    Stopped,
    /// Deadlock. No CPU will make progress: all tasks have exited, or they wait or spin for each
    /// other; or some tasks wait for each other in a cycle while others work.
    Quiescent,
    /// CPUs use memory and no task makes progress.
    Livelock,
    /// As many memory operations as [`Machine::limit_operations`] allows.
    ///
    /// [`Machine::limit_operations`]: crate::Machine::limit_operations
    OperationLimit,
    /// The next event lies beyond the limit on virtual time.
    TimeLimit,
}
