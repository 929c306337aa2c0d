//! Observations of a lock in the file of a process.

use crate::record::Waiters;

/// What is known of a lock that threads waited for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) waiters: Waiters,
    /// How often its owner gave it up, and others did.
    pub(crate) given: [u64; 2],
    /// The mutex of a condition; 0: none.
    pub(crate) mutex: u64,
}
