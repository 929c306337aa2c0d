//! Locks that tasks of an async runtime wait for: [`Mutex`] and [`Semaphore`].
//!
//! Waiters are futures and do not block threads. They need no runtime of a certain kind, and a wait
//! that is dropped, as by a timeout or by `select!`, leaves nothing behind and loses nothing.

mod mutex;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
