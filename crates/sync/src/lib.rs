//! Locks for this machine's threads, and the same locks generic over the platform they run on.
//!
//! [`Mutex`], [`RwLock`], [`Condvar`] and [`Semaphore`] hold data and are used like the types of
//! `parking_lot`: only a `use` line changes. [`future`] has locks for async tasks. The locks
//! inside of them, and the locks of kernels, are generic: the same source runs on threads, on a
//! virtual machine and under a checker.
//!
//! | lock | for |
//! |---|---|
//! | [`TasLock`], [`TicketLock`] ([`SpinLock`]) | short critical sections of a kernel |
//! | [`QueuedLock`], [`ReciprocatingLock`], [`CnaLock`] | the same |
//! | [`AdaptiveLock`] | short critical sections of user space |
//! | [`FlexGuard`] | user space whose scheduler counts preempted critical sections |
//! | [`Extended`] | another lock, whose owner is preempted a little later |
//! | [`FutexHandoff`] | demonstrating the cost of handoff in a program |
//! | [`kernel::Semaphore`] | a number of owners |
//! | [`Quota`] | user space: one owner or a number of them, fast and fair |
//! | [`ArchSemaphore`] | the same; the semaphore before the 2008 regression |
//! | [`kernel::Mutex`] | one owner that may sleep; waiters may spin while it runs |
//! | [`kernel::HandoffMutex`] | the same from 2017 on: sleepers are not starved |
//! | [`kernel::RwLock`] | the spinning reader/writer lock of 2008 |
//! | [`QueuedRwLock`] | the spinning reader/writer lock of 2015, whose waiters queue |
//! | [`RwSemaphore`] | the sleeping reader/writer lock of 2008 |
//! | [`SpinRwSemaphore`] | the sleeping reader/writer lock of 2014, whose writers spin and steal |
//! | [`HandoffRwSemaphore`] | the same from 2020 on: waiters are not starved, readers steal |
//! | [`Once`], [`Barrier`] | one-time initialisation; a point that tasks pass together |
//! | [`shared::Mutex`] | tasks of several processes |
//! | [`rcu::Rcu`] | kernels: readers acquire nothing, and frees wait for readers |
//!
//! Policies of [`kernel::Semaphore`]: [`Handoff`], [`PublishedFix`], [`Opportunistic`].
//! Policies of [`kernel::Mutex`]: [`NoSpin`], [`SpinOnOwner`], [`SpinReadFirst`],
//! [`SpinAtLowLoad`], [`SpinOne`], [`SpinMcs`].
//! Without the feature `std`, which is enabled by default, only the generic part is left, in
//! `no_std` and without an allocator: a kernel or a firmware implements [`Platform`].
//!
//! | feature | adds |
//! |---|---|
//! | `std` (default) | everything for threads: the locks with data, async locks, RCU, [`Native`] |
//! | `lock_api` | the traits of that crate on the inner locks |
//!
//! The locks do not allocate, except RCU for its lists and the locks of [`future`] for their queue.
//! Waiting tasks are linked through records on their own stacks.

#![cfg_attr(not(any(feature = "std", test)), no_std)]

mod adaptive;
mod barrier;
mod cna;
mod event;
mod extended;
#[cfg(feature = "std")]
mod face;
mod flexguard;
#[cfg(feature = "std")]
pub mod future;
/// The locks of the GNU C library, which programs use before Convoy replaces them. Its mutex is
/// [`AdaptiveLock`] without spinning.
pub mod glibc {
    mod rwlock;
    mod semaphore;
    mod spin;

    pub use rwlock::RwLock;
    pub use semaphore::Semaphore;
    pub use spin::SpinLock;
}

mod handover;
mod kinds;
mod list;
/// Kernel locks that share their names with user-space locks of this crate.
pub mod kernel {
    pub use crate::mutex::{HandoffMutex, Mutex};
    pub use crate::rwlock::RwLock;
    pub use crate::semaphore::Semaphore;
}

mod lock;
mod mcs;
mod monitor;
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
mod rwsem_handoff;
mod rwsem_spin;
mod semaphore;
#[cfg(feature = "std")]
pub mod shared;
mod spin;
mod unsignalled;

pub use adaptive::{AdaptiveLock, AtMost, SpinLimit};
#[cfg(feature = "std")]
pub use barrier::Barrier;
pub use barrier::RawBarrier;
pub use cna::CnaLock;
pub use event::LockEvent;
pub use extended::Extended;
#[cfg(feature = "std")]
pub use face::{
    Condvar, Mutex, MutexGuard, Permit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
    poison,
};
pub use flexguard::FlexGuard;
pub use handover::{FutexHandoff, Handover};
pub use list::{LockName, Promise};
pub use lock::{Cancel, Guard, IrqGuard, Lock, RawLock, TellPart, WaitError};
pub use mcs::{McsQueue, OneSpinner, SpinQueue, Unqueued};
pub use monitor::{Marks, Monitor};
pub use mutex::{
    NoSpin, OwnerWord, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinOne, SpinPolicy, SpinReadFirst,
};
#[cfg(feature = "std")]
pub use native::{LOOKS_BEFORE_YIELD, Native, Signals, spin_and_yield};
#[cfg(feature = "std")]
pub use once::Once;
pub use once::RawOnce;
pub use platform::{
    Access, Atomic, Integer, LOOKS_PER_CLOCK, LOOKS_PER_OTHER, Platform, Sleep, TaskId, Wake,
    spin_by_clock, yield_by_clock,
};
pub use queued::QueuedLock;
pub use quota::{BOUND_NS, Quota, QuotaCondvar, QuotaRwLock, Room, Turn, Within};
#[cfg(feature = "std")]
pub use quota::{Beside, NativeQuota, NativeQuotaCondvar, NativeQuotaRwLock};
pub use reciprocating::ReciprocatingLock;
pub use rwlock_queued::QueuedRwLock;
pub use rwsem::RwSemaphore;
pub use rwsem_handoff::HandoffRwSemaphore;
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
