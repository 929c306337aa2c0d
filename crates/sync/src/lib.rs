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
//! | [`TasLock`], [`TicketLock`] ([`SpinLock`]), [`QueuedLock`], [`ReciprocatingLock`], [`CnaLock`] | short sections of a kernel |
//! | [`AdaptiveLock`] | short sections of user space |
//! | [`FutexHandoff`] | programs that are to show what handing over costs |
//! | [`kernel::Semaphore`] (by [`Handoff`], [`PublishedFix`] or [`Opportunistic`]) | a number of owners |
//! | [`Quota`] | user space: one owner or a number of them, fast and fair |
//! | [`ArchSemaphore`] | the same; the semaphore before the 2008 regression |
//! | [`kernel::Mutex`] (by [`NoSpin`], [`SpinOnOwner`], [`SpinReadFirst`], [`SpinAtLowLoad`], [`SpinOne`] or [`SpinMcs`]) | one owner that may sleep; waiters may spin while it runs |
//! | [`kernel::HandoffMutex`] | the same from 2017 on, whose sleepers are not passed for good |
//! | [`kernel::RwLock`] | the spinning reader/writer lock of 2008 |
//! | [`QueuedRwLock`] | that of 2015, whose waiters queue |
//! | [`RwSemaphore`] | the sleeping reader/writer lock of 2008 |
//! | [`SpinRwSemaphore`] | that of 2014, whose writers spin and steal |
//! | [`Once`], [`Barrier`] | what is done once; a point that tasks pass together |
//! | [`shared::Mutex`] | tasks of several processes |
//! | [`rcu::Rcu`] | kernels: readers that take nothing, frees that wait for them |
//! | [`rcu::user`] | the same for this machine's threads |
//!
//! Without the feature `std`, which is on unless one says otherwise, only what is generic is left,
//! in `no_std` and without an allocator: a kernel or a firmware implements [`Platform`].
//!
//! | feature | adds |
//! |---|---|
//! | `std` (default) | everything for threads: the locks with data, async locks, RCU, [`Native`] |
//! | `lock_api` | the traits of that crate on the inner locks |
//!
//! No lock allocates but RCU, for its lists. Waiting tasks are linked through records on their own
//! stacks.

#![cfg_attr(not(any(feature = "std", test)), no_std)]

mod adaptive;
mod barrier;
mod cna;
mod event;
#[cfg(feature = "std")]
mod face;
#[cfg(feature = "std")]
pub mod future;
/// The locks of the GNU C library, as programs have them before another lock is put in their place.
/// Its mutex is [`AdaptiveLock`] without looks.
pub mod glibc {
    mod rwlock;
    mod semaphore;
    mod spin;

    pub use rwlock::RwLock;
    pub use semaphore::Semaphore;
    pub use spin::SpinLock;
}

mod handover;
mod list;
/// Locks whose names the locks of user space have here: those of kernels.
pub mod kernel {
    pub use crate::mutex::{HandoffMutex, Mutex};
    pub use crate::rwlock::RwLock;
    pub use crate::semaphore::Semaphore;
}

mod lock;
mod mcs;
mod mutex;
#[cfg(feature = "std")]
mod native;
mod once;
mod osq;
mod platform;
mod queue;
mod queued;
mod quota;
#[cfg(feature = "std")]
pub mod rcu;
mod reciprocating;
mod rwlock;
mod rwlock_queued;
mod rwsem;
mod rwsem_spin;
mod semaphore;
#[cfg(feature = "std")]
pub mod shared;
mod spin;
mod unsignalled;
#[cfg(feature = "std")]
pub mod watched;

pub use adaptive::{AdaptiveLock, AtMost, SpinLimit};
#[cfg(feature = "std")]
pub use barrier::Barrier;
pub use barrier::RawBarrier;
pub use cna::CnaLock;
pub use event::LockEvent;
#[cfg(feature = "std")]
pub use face::{
    Condvar, Mutex, MutexGuard, Permit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
    poison,
};
pub use handover::{FutexHandoff, Handover};
pub use list::{LockName, Promise};
pub use lock::{Cancel, Guard, IrqGuard, Lock, RawLock, TellPart, WaitError};
pub use mcs::{McsQueue, OneSpinner, SpinQueue, Unqueued};
pub use mutex::{
    NoSpin, OwnerWord, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinOne, SpinPolicy, SpinReadFirst,
};
#[cfg(feature = "std")]
pub use native::{LOOKS_BEFORE_YIELD, Native, Signals, spin_and_yield};
#[cfg(feature = "std")]
pub use once::Once;
pub use once::RawOnce;
pub use platform::{
    Access, Atomic, Integer, LOOKS_PER_CLOCK, Platform, Sleep, TaskId, Wake, spin_by_clock,
    yield_by_clock,
};
pub use queued::QueuedLock;
#[cfg(feature = "std")]
pub use quota::{Beside, NativeQuota, NativeQuotaCondvar, NativeQuotaRwLock};
pub use quota::{ByPackage, Quota, QuotaCondvar, QuotaRwLock, Room, Turn, Within};
pub use reciprocating::ReciprocatingLock;
pub use rwlock_queued::QueuedRwLock;
pub use rwsem::RwSemaphore;
pub use rwsem_spin::{Spin50, Spin316, SpinRwSemaphore, WriterQueue, WriterSpin};
#[cfg(feature = "std")]
pub use semaphore::NativeSemaphore;
pub use semaphore::{ArchSemaphore, Handoff, Opportunistic, Policy, PublishedFix, RawSemaphore};
pub use spin::{SpinLock, TasLock, TicketLock};
pub use unsignalled::NoSignals;

#[cfg(test)]
use convoy_watchdog as _;

/// The example of the read-me.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
