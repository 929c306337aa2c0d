//! Locks that tasks of an async runtime wait for: [`Mutex`] and [`Semaphore`].
//!
//! Whoever waits is a future and takes no thread. They need no runtime of a certain kind, and a
//! wait that is dropped, as by a timeout or by `select!`, leaves nothing behind and loses nothing.

mod mutex;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
