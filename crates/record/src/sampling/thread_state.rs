//! The sampled state of a thread, and its wait.

use crate::sampling::owners::Found;
use crate::sampling::syscall_file::Call;

/// A waiting place and a holding place, as the words of the file encode them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// The lock with the kind of the waiting call.
    pub(crate) lock: u64,
    pub(crate) site: u64,
    /// The holding call, with its kind.
    pub(crate) held: u64,
    pub(crate) detail: u64,
    pub(crate) held_detail: u64,
}

/// Observed state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Runs,
    /// Like [`Self::Runs`], but since the last sample the thread has given up its CPU voluntarily
    /// and was not preempted: it slept and was woken.
    Woken,
    Faults,
    /// In the system call of this number.
    Sleeps(i64),
    /// In a recorded wait.
    Waits(Edge),
    /// The lock is free, and its waiter has not run yet.
    Free,
}

impl From<Call> for State {
    fn from(call: Call) -> Self {
        match call {
            Call::Running => Self::Runs,
            Call::Faulting => Self::Faults,
            Call::Asleep { number, .. } => Self::Sleeps(number),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) thread: u64,
    pub(crate) edge: Edge,
    /// Start of the wait, in ticks.
    pub(crate) since: u64,
    pub(crate) owner: u64,
    pub(crate) owner_ended: bool,
    /// Whether the lock had no owner.
    pub(crate) is_free: bool,
    /// Observed duration, in seconds.
    pub(crate) seen_s: f64,
    pub(crate) is_timed: bool,
}

impl Wait {
    /// Updates the owner to the current one.
    pub(crate) fn take(&mut self, found: Option<Found>) {
        let Some((owner, held)) = found else { return };
        self.is_free = owner.is_free;
        if let Some([site, detail]) = held {
            (self.edge.held, self.edge.held_detail) = (site, detail);
        } else if self.owner != owner.thread && !owner.is_free {
            (self.edge.held, self.edge.held_detail) = (0, 0);
        }
        self.owner = owner.thread;
    }
}
