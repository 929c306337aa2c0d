//! Locks for tasks of different processes, in memory that the processes share.
//!
//! These locks consist of words only: a queue of records on the stacks of waiters, which the locks
//! of one process have, is useless to another process.
//!
//! | lock | for |
//! |---|---|
//! | [`Mutex`] | one owner; any task may acquire it when free, so heavy contention may starve one |
//! | [`Once`] | one-time initialisation for all processes together |
//! | [`Barrier`] | a point that tasks of any process pass together |
//!
//! Zeroed memory is an unlocked [`Mutex`] and an unstarted [`Once`]. A process that dies with a
//! lock keeps it, and the data may be half changed: the other processes are not informed.
//!
//! ```
//! use convoy_sync::{RawLock, shared};
//!
//! /// What processes share, at the start of a mapping.
//! #[repr(C)]
//! struct Counter {
//!     lock: shared::Mutex,
//!     value: std::cell::Cell<u64>,
//! }
//!
//! # let counter = Counter { lock: shared::Mutex::new(), value: std::cell::Cell::new(0) };
//! counter.lock.lock();
//! counter.value.set(counter.value.get() + 1);
//! counter.lock.unlock();
//! ```

use crate::adaptive::AdaptiveLock;
use crate::barrier::RawBarrier;
use crate::native::{Native, futex_wait, futex_wake};
use crate::once::RawOnce;
use crate::platform::{Platform, Sleep, TaskId, Wake};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};

/// Whether a futex is of one process; here it is not.
const REACH: i32 = 0;

/// This machine, with words that processes share: [`Native`] but for its sleeps, which no
/// [`Signals`](crate::Signals) end.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// A lock for one owner. See [the module](self).
pub type Mutex = AdaptiveLock<Shared>;

/// One-time initialisation. See [the module](self).
pub type Once = RawOnce<Shared>;

/// A point that a number of tasks pass together. See [the module](self).
pub type Barrier = RawBarrier<Shared>;

impl Platform for Shared {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = AtomicU32;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        Native::now()
    }

    #[inline(always)]
    fn spin_hint() {
        Native::spin_hint();
    }

    fn spin_until(word: &AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        Native::spin_until(word, done)
    }

    fn wait(word: &AtomicU32, expected: u32, _: Sleep, deadline: Option<u64>) -> Wake {
        let late = futex_wait(word, expected, deadline, REACH);
        if late { Wake::TimedOut } else { Wake::Woken }
    }

    fn wake(word: *const AtomicU32, count: usize) {
        futex_wake(word, count, REACH);
    }

    fn signal_pending(_: Sleep) -> bool {
        false
    }

    /// Of this process: no lock here keeps it.
    fn current() -> TaskId {
        Native::current()
    }

    fn cpu() -> u32 {
        Native::cpu()
    }

    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    crate::user_space!(unobserved);
}
