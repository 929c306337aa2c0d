//! Observations of a lock in the file of a process.

use crate::record::Waiters;

/// Observations of a lock for which threads waited.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) waiters: Waiters,
    /// Number of releases by its owner, and by other threads.
    pub(crate) given: [u64; 2],
    /// Address of the mutex of a condition, or 0.
    pub(crate) mutex: u64,
}
