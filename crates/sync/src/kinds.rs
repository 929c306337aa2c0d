//! How a task sleeps, why it wakes, and how it accesses memory.

/// How a task sleeps: which signals end the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// No signal ends it (`TASK_UNINTERRUPTIBLE`).
    Uninterruptible,
    /// Any pending signal ends it (`TASK_INTERRUPTIBLE`).
    Interruptible,
    /// Only a fatal signal ends it (`TASK_KILLABLE`).
    Killable,
}

/// Why [`Platform::wait`](crate::Platform::wait) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Woken, or the word did not hold the expected value. May be spurious.
    Woken,
    /// A signal that the [`Sleep`] admits is pending.
    Interrupted,
    /// The deadline has passed.
    TimedOut,
}

/// Access of a caller to a range of memory, see [`Platform::touch`](crate::Platform::touch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Starts to use it as private memory of this task: its lines are taken as owned by this CPU,
    /// at no cost. Stack records are touched so, because their last user is an accident of stack
    /// depth.
    Fresh,
}

/// Identity of a task on its platform; dense small numbers on `Smp` and `Model`.
pub type TaskId = u32;
