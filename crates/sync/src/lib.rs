//! Locks generic over the platform they run on, and the native platform.
//!
//! | lock | for |
//! |---|---|
//! | [`TasLock`], [`TicketLock`] ([`SpinLock`]) | short sections of a kernel |
//! | [`AdaptiveLock`] | short sections of user space |
//! | [`Semaphore`] (by [`Handoff`], [`PublishedFix`] or [`Opportunistic`]) | a number of owners |
//! | [`Quota`] | user space: one owner or a number of them, fast and fair |
//! | [`ArchSemaphore`] | the same; the semaphore before the 2008 regression |
//! | [`Mutex`] (by [`NoSpin`], [`SpinOnOwner`], [`SpinReadFirst`], [`SpinAtLowLoad`] or [`SpinMcs`]) | one owner that may sleep; waiters may spin while it runs |
//! | [`RwLock`] | the spinning reader/writer lock of 2008 |
//! | [`RwSemaphore`] | the sleeping reader/writer lock of 2008 |
//! | [`rcu::Rcu`] | readers that take nothing, frees that wait for them |
//!
//! No lock allocates but RCU, for its lists. Waiting tasks are linked through records on their own
//! stacks.

mod adaptive;
mod event;
mod list;
mod lock;
mod mcs;
mod mutex;
mod native;
mod platform;
mod queue;
mod quota;
pub mod rcu;
mod rwlock;
mod rwsem;
mod semaphore;
mod spin;

pub use adaptive::{AdaptiveLock, AtMost, SpinLimit};
pub use event::LockEvent;
pub use list::{Cancel, Lock, LockName, Promise};
pub use lock::{Guard, IrqGuard, RawLock, WaitError};
pub use mcs::{McsQueue, SpinQueue, Unqueued};
pub use mutex::{
    Mutex, NoSpin, OwnerWord, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinPolicy, SpinReadFirst,
};
pub use native::{Native, Signals, spin_and_yield};
pub use platform::{Access, Atomic, Integer, Platform, Sleep, TaskId, Wake};
pub use quota::{NativeQuota, Quota, Turn};
pub use rwlock::RwLock;
pub use rwsem::RwSemaphore;
pub use semaphore::{
    ArchSemaphore, Handoff, NativeSemaphore, Opportunistic, Policy, PublishedFix, RawSemaphore,
    Semaphore,
};
pub use spin::{SpinLock, TasLock, TicketLock};
