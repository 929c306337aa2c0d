//! Locks for this machine's threads, and the same locks generic over the platform they run on.
//!
//! [`Mutex`], [`RwLock`], [`Condvar`] and [`Semaphore`] hold data and are used as those of
//! `parking_lot`: one `use` line is the change. [`future`] has those that async tasks wait for,
//! [`watched`] a mutex that counts its waits and sections. The locks inside of them, and those of
//! kernels, are generic: the same source runs on threads, on a virtual machine and under a
//! checker.
//!
//! | lock | for |
//! |---|---|
//! | [`TasLock`], [`TicketLock`] ([`SpinLock`]), [`QueuedLock`] | short sections of a kernel |
//! | [`AdaptiveLock`] | short sections of user space |
//! | [`kernel::Semaphore`] (by [`Handoff`], [`PublishedFix`] or [`Opportunistic`]) | a number of owners |
//! | [`Quota`] | user space: one owner or a number of them, fast and fair |
//! | [`ArchSemaphore`] | the same; the semaphore before the 2008 regression |
//! | [`kernel::Mutex`] (by [`NoSpin`], [`SpinOnOwner`], [`SpinReadFirst`], [`SpinAtLowLoad`] or [`SpinMcs`]) | one owner that may sleep; waiters may spin while it runs |
//! | [`kernel::RwLock`] | the spinning reader/writer lock of 2008 |
//! | [`RwSemaphore`] | the sleeping reader/writer lock of 2008 |
//! | [`Once`], [`Barrier`] | what is done once; a point that tasks pass together |
//! | [`rcu::Rcu`] | kernels: readers that take nothing, frees that wait for them |
//! | [`rcu::user`] | the same for this machine's threads |
//!
//! No lock allocates but RCU, for its lists. Waiting tasks are linked through records on their own
//! stacks.

mod adaptive;
mod barrier;
mod event;
mod face;
pub mod future;
mod list;
/// Locks whose names the locks of user space have here: those of kernels.
pub mod kernel {
    pub use crate::mutex::Mutex;
    pub use crate::rwlock::RwLock;
    pub use crate::semaphore::Semaphore;
}

mod lock;
mod mcs;
mod mutex;
mod native;
mod once;
mod platform;
mod queue;
mod queued;
mod quota;
pub mod rcu;
mod rwlock;
mod rwsem;
mod semaphore;
mod spin;
pub mod watched;

pub use adaptive::{AdaptiveLock, AtMost, SpinLimit};
pub use barrier::{Barrier, RawBarrier};
pub use event::LockEvent;
pub use face::{
    Condvar, Mutex, MutexGuard, Permit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
    poison,
};
pub use list::{Cancel, Lock, LockName, Promise};
pub use lock::{Guard, IrqGuard, RawLock, WaitError};
pub use mcs::{McsQueue, SpinQueue, Unqueued};
pub use mutex::{
    NoSpin, OwnerWord, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinPolicy, SpinReadFirst,
};
pub use native::{Native, Signals, spin_and_yield};
pub use once::{Once, RawOnce};
pub use platform::{Access, Atomic, Integer, Platform, Sleep, TaskId, Wake};
pub use queued::QueuedLock;
pub use quota::{
    Beside, NativeQuota, NativeQuotaCondvar, NativeQuotaRwLock, Quota, QuotaCondvar, QuotaRwLock,
    Room, Turn, Within,
};
pub use rwsem::RwSemaphore;
pub use semaphore::{
    ArchSemaphore, Handoff, NativeSemaphore, Opportunistic, Policy, PublishedFix, RawSemaphore,
};
pub use spin::{SpinLock, TasLock, TicketLock};

/// The example of the read-me.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
