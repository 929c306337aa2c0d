//! Waits: the waiting threads of each lock, and the causes of their waits.

pub(crate) mod causes;
pub(crate) mod deferred;
pub(crate) mod futile;
pub(crate) mod sampling;
pub(crate) mod waiters;
pub(crate) mod wakers;
