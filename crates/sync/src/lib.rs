//! Locks generic over the platform they run on, and the native platform.
//!
//! | lock | for |
//! |---|---|
//! | [`TasLock`], [`TicketLock`] ([`SpinLock`]) | short sections of a kernel |
//! | [`AdaptiveLock`] | short sections of user space |
//! | [`Semaphore`] (by [`Handoff`], [`PublishedFix`] or [`Opportunistic`]) | a number of owners |
//! | [`ArchSemaphore`] | the same; the semaphore before the 2008 regression |
//! | [`Mutex`] | one owner that may sleep |
//! | [`SpinningMutex`] (by [`Compete`], [`LookFirst`], [`LookFirstAtLowLoad`] or [`LookFirstInTurn`]) | the same; waiters spin while the owner runs |
//! | [`RwLock`] | the spinning reader/writer lock of 2008 |
//! | [`RwSemaphore`] | the sleeping reader/writer lock of 2008 |
//!
//! No lock allocates. Waiting tasks are linked through records on their own stacks.

mod adaptive;
mod event;
mod lock;
mod mutex;
mod native;
mod platform;
mod queue;
mod rwlock;
mod rwsem;
mod semaphore;
mod spin;
mod spinners;
mod spinning;

pub use adaptive::{AdaptiveLock, AtMost, SpinLimit};
pub use event::LockEvent;
pub use lock::{Guard, IrqGuard, RawLock, WaitError};
pub use mutex::Mutex;
pub use native::{Native, Signals, spin_and_yield};
pub use platform::{Access, Atomic, Platform, Sleep, TaskId, Wake};
pub use rwlock::RwLock;
pub use rwsem::RwSemaphore;
pub use semaphore::{
    ArchSemaphore, Handoff, NativeSemaphore, Opportunistic, Policy, PublishedFix, RawSemaphore,
    Semaphore,
};
pub use spin::{SpinLock, TasLock, TicketLock};
pub use spinners::{AllAtOnce, InTurn, Spinners};
pub use spinning::{
    Compete, LookFirst, LookFirstAtLowLoad, LookFirstInTurn, SpinPolicy, SpinningMutex,
};
