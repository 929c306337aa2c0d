//! The locks of the kernel's paths: the locks of `convoy-sync` on the virtual machine, with the
//! paths' interface.
//!
//! A lock is held for the length of a closure. Nothing is released by a destructor, so a task that
//! ends in the middle of a path, or a panic, never acts on a lock from an unwinding stack.

mod spin;
mod words;

pub(crate) use spin::{Queue, Spin, Unqueued};
pub(crate) use words::{Bits, Count, Field};

use crate::lock_rules::{LockRules, MutexPolicy, Rwlock, RwsemPolicy, Spinlock};
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{
    Atomic, HandoffRwSemaphore, NoSpin, Platform, QueuedLock, QueuedRwLock, RawLock, RwSemaphore,
    Sleep, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinOne, SpinReadFirst, SpinRwSemaphore, TasLock,
    TicketLock,
    kernel::{HandoffMutex, RwLock},
};
use core::ops::Deref;
use core::sync::atomic::Ordering::SeqCst;

/// A separate cache line for `T`.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

impl<T> Deref for Line<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A spinlock and the data that it protects.
pub(crate) struct Guarded<T, L = Spin> {
    lock: L,
    data: T,
}

impl<T> Guarded<T, Queue> {
    /// `data` under an unlocked lock.
    pub(crate) fn queued(data: T) -> Self {
        Self { lock: Queue::default(), data }
    }

    /// Reports the lock's name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        self.lock.name(name);
    }
}

impl<T> Guarded<T, Unqueued> {
    /// Reports the lock's name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        self.lock.name(name);
    }
}

impl<T> Guarded<T> {
    /// Reports the lock's name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        self.lock.name(name);
    }
}

impl<T, L: RawLock<Smp>> Guarded<T, L> {
    /// Runs `body` under the lock.
    #[inline]
    #[track_caller]
    pub(crate) fn hold<R>(&self, body: impl FnOnce(&T) -> R) -> R {
        self.lock.lock();
        let result = body(&self.data);
        self.lock.unlock();
        result
    }

    /// Runs `body` under the lock with interrupts disabled.
    #[inline]
    #[track_caller]
    pub(crate) fn hold_irq<R>(&self, body: impl FnOnce(&T) -> R) -> R {
        self.lock.lock_irqsave();
        let result = body(&self.data);
        self.lock.unlock_irqrestore(());
        result
    }

    /// Returns the protected data, for reading without the lock or by the owner.
    #[inline]
    pub(crate) fn unlocked(&self) -> &T {
        &self.data
    }

    /// Returns whether the lock is held.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

/// The locks of a kernel, unlocked.
impl LockRules {
    /// A spinlock.
    pub(crate) fn spin(self) -> Spin {
        match self.spinlock {
            Spinlock::Ticket => Spin::Ticket(TicketLock::default()),
            Spinlock::Plain => Spin::Plain(TasLock::default()),
            Spinlock::Queued => Spin::Queued(QueuedLock::default()),
        }
    }

    /// A spinlock without a queue of waiters; one with tickets where the kernel's queue.
    pub(crate) fn unqueued(self) -> Unqueued {
        match self.spinlock {
            Spinlock::Plain => Unqueued::Plain(TasLock::default()),
            Spinlock::Ticket | Spinlock::Queued => Unqueued::Ticket(TicketLock::default()),
        }
    }

    /// A spinlock that guards `data`.
    pub(crate) fn guarded<T>(self, data: T) -> Guarded<T> {
        Guarded { lock: self.spin(), data }
    }

    /// `data` under a spinlock without a queue of waiters, in the layout of kernels up to 4.1.
    pub(crate) fn guarded_unqueued<T>(self, data: T) -> Guarded<T, Unqueued> {
        Guarded { lock: self.unqueued(), data }
    }

    /// A mutex.
    pub(crate) fn mutex(self) -> Mutex {
        match self.mutex {
            MutexPolicy::Sleep => Mutex::Sleep(convoy_sync::kernel::Mutex::with_lock(self.spin())),
            MutexPolicy::Spin => Mutex::Spin(convoy_sync::kernel::Mutex::new()),
            MutexPolicy::SpinLookFirst => Mutex::SpinLookFirst(convoy_sync::kernel::Mutex::new()),
            MutexPolicy::SpinAtLowLoad => Mutex::SpinAtLowLoad(convoy_sync::kernel::Mutex::new()),
            MutexPolicy::SpinOne => Mutex::SpinOne(convoy_sync::kernel::Mutex::new()),
            MutexPolicy::SpinInTurn => Mutex::SpinInTurn(convoy_sync::kernel::Mutex::new()),
            MutexPolicy::HandOver => Mutex::HandOver(HandoffMutex::new()),
        }
    }

    /// A reader/writer semaphore.
    pub(crate) fn rwsem(self) -> RwSem {
        match self.rwsem {
            RwsemPolicy::Grant => RwSem::Grant(RwSemaphore::with_lock(self.spin())),
            RwsemPolicy::Spin => RwSem::Spin(SpinRwSemaphore::new()),
            RwsemPolicy::HandOver => RwSem::HandOver(HandoffRwSemaphore::new()),
        }
    }

    /// A reader/writer spinlock.
    pub(crate) fn read_write(self) -> ReadWrite {
        match self.rwlock {
            Rwlock::Counter => ReadWrite::Counter(RwLock::new()),
            Rwlock::Queued => ReadWrite::Queued(QueuedRwLock::default()),
        }
    }
}

/// A reader/writer spinlock, of the kind that the kernel was built with.
pub(crate) enum ReadWrite {
    Counter(RwLock<Smp>),
    Queued(QueuedRwLock<Smp>),
}

/// Calls the same method of either kind.
macro_rules! either_kind {
    ($rw:expr, $lock:ident => $call:expr) => {
        match $rw {
            ReadWrite::Counter($lock) => $call,
            ReadWrite::Queued($lock) => $call,
        }
    };
}

impl ReadWrite {
    /// Reports its name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        either_kind!(self, lock => Here::name(lock, name));
    }

    /// Runs `body` as a reader.
    #[inline]
    #[track_caller]
    pub(crate) fn read<R>(&self, body: impl FnOnce() -> R) -> R {
        Here::taking();
        either_kind!(self, lock => lock.read());
        let result = body();
        either_kind!(self, lock => lock.read_unlock());
        result
    }

    /// Runs `body` alone.
    #[inline]
    #[track_caller]
    pub(crate) fn write<R>(&self, body: impl FnOnce() -> R) -> R {
        Here::taking();
        either_kind!(self, lock => lock.write());
        let result = body();
        either_kind!(self, lock => lock.write_unlock());
        result
    }

    /// Runs `body` alone, with interrupts disabled.
    #[inline]
    #[track_caller]
    pub(crate) fn write_irq<R>(&self, body: impl FnOnce() -> R) -> R {
        Here::taking();
        either_kind!(self, lock => lock.write_irqsave());
        let result = body();
        either_kind!(self, lock => lock.write_unlock_irqrestore(()));
        result
    }
}

/// Runs `$body` with `$lock` being the lock of whatever policy.
macro_rules! of_any {
    ($mutex:expr, $lock:ident => $body:expr) => {
        match $mutex {
            Mutex::Sleep($lock) => $body,
            Mutex::Spin($lock) => $body,
            Mutex::SpinLookFirst($lock) => $body,
            Mutex::SpinAtLowLoad($lock) => $body,
            Mutex::SpinOne($lock) => $body,
            Mutex::SpinInTurn($lock) => $body,
            Mutex::HandOver($lock) => $body,
        }
    };
}

/// A mutex that sleeps, of the preset's policy.
pub(crate) enum Mutex {
    Sleep(convoy_sync::kernel::Mutex<Smp, NoSpin, Spin>),
    Spin(convoy_sync::kernel::Mutex<Smp, SpinOnOwner>),
    SpinLookFirst(convoy_sync::kernel::Mutex<Smp, SpinReadFirst>),
    SpinAtLowLoad(convoy_sync::kernel::Mutex<Smp, SpinAtLowLoad>),
    SpinOne(convoy_sync::kernel::Mutex<Smp, SpinOne>),
    SpinInTurn(convoy_sync::kernel::Mutex<Smp, SpinMcs>),
    HandOver(HandoffMutex<Smp>),
}

/// One line for every policy, so that the policy does not affect the layout of adjacent data.
const _: () = assert!(size_of::<Mutex>() == 64);

impl Mutex {
    /// Reports its name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        of_any!(self, lock => Here::name(lock, name));
    }

    /// Runs `body` under the mutex.
    #[inline]
    pub(crate) fn hold<R>(&self, body: impl FnOnce() -> R) -> R {
        of_any!(self, lock => lock.lock());
        let result = body();
        of_any!(self, lock => lock.unlock());
        result
    }

    /// Returns whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        of_any!(self, lock => lock.is_locked())
    }
}

/// A reader/writer semaphore, of the preset's policy.
pub(crate) enum RwSem {
    Grant(RwSemaphore<Smp, Spin>),
    Spin(SpinRwSemaphore<Smp>),
    HandOver(HandoffRwSemaphore<Smp>),
}

/// As with [`Mutex`].
const _: () = assert!(size_of::<RwSem>() == 64);

/// Calls the same method of each policy.
macro_rules! of_either {
    ($rwsem:expr, $lock:ident => $call:expr) => {
        match $rwsem {
            RwSem::Grant($lock) => $call,
            RwSem::Spin($lock) => $call,
            RwSem::HandOver($lock) => $call,
        }
    };
}

impl RwSem {
    /// Reports its name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        of_either!(self, lock => Here::name(lock, name));
    }

    /// Runs `body` as a reader.
    #[inline]
    pub(crate) fn read<R>(&self, body: impl FnOnce() -> R) -> R {
        of_either!(self, lock => lock.down_read());
        let result = body();
        of_either!(self, lock => lock.up_read());
        result
    }

    /// Runs `body` alone.
    #[inline]
    pub(crate) fn write<R>(&self, body: impl FnOnce() -> R) -> R {
        of_either!(self, lock => lock.down_write());
        let result = body();
        of_either!(self, lock => lock.up_write());
        result
    }
}

/// A lock that sleeps.
pub(crate) trait Sleeping {
    /// Runs `body` alone.
    fn alone<R>(&self, body: impl FnOnce() -> R) -> R;
}

impl Sleeping for Mutex {
    #[inline]
    fn alone<R>(&self, body: impl FnOnce() -> R) -> R {
        self.hold(body)
    }
}

impl<T: Sleeping> Sleeping for Line<T> {
    #[inline]
    fn alone<R>(&self, body: impl FnOnce() -> R) -> R {
        self.0.alone(body)
    }
}

/// The lock of an inode that sleeps: `i_mutex`, or `i_rwsem` in a separate line.
pub(crate) enum InodeLock {
    Mutex(Mutex),
    RwSem(Sim<Line<RwSem>>),
}

/// As with [`Mutex`].
const _: () = assert!(size_of::<InodeLock>() == 64);

impl Sleeping for InodeLock {
    #[inline]
    fn alone<R>(&self, body: impl FnOnce() -> R) -> R {
        match self {
            Self::Mutex(lock) => lock.hold(body),
            Self::RwSem(lock) => lock.write(body),
        }
    }
}

impl InodeLock {
    /// Reports its name to the recorder.
    pub(crate) fn name(&self, name: &'static str) {
        match self {
            Self::Mutex(lock) => lock.name(name),
            Self::RwSem(lock) => lock.name(name),
        }
    }

    /// Runs `body` together with other readers, if there can be several.
    #[inline]
    pub(crate) fn share<R>(&self, body: impl FnOnce() -> R) -> R {
        match self {
            Self::Mutex(lock) => lock.hold(body),
            Self::RwSem(lock) => lock.read(body),
        }
    }
}

/// Tasks that wait for something to become true: a count of what happened, in simulated memory.
pub(crate) struct WaitQueue(Word<u32>);

impl WaitQueue {
    pub(crate) fn new() -> Self {
        Self(Word::new(0))
    }

    /// Sleeps until `ready`.
    pub(crate) fn wait(&self, ready: impl Fn() -> bool) {
        loop {
            let seen = self.0.load(SeqCst);
            if ready() {
                return;
            }
            Smp::wait(&self.0, seen, Sleep::Uninterruptible, None);
        }
    }

    /// Returns the argument of [`Self::sleep`]; called before the caller releases the lock of its
    /// condition (`prepare_to_wait`).
    pub(crate) fn prepare(&self) -> u32 {
        self.0.load(SeqCst)
    }

    /// Sleeps until something happened since [`Self::prepare`] returned `seen`.
    pub(crate) fn sleep(&self, seen: u32) {
        Smp::wait(&self.0, seen, Sleep::Uninterruptible, None);
    }

    /// Wakes all waiters, which check their condition again.
    pub(crate) fn wake_all(&self) {
        self.0.fetch_add(1, SeqCst);
        Smp::wake(&raw const self.0, usize::MAX);
    }

    /// Lets the first that waits look again.
    pub(crate) fn wake_one(&self) {
        self.0.fetch_add(1, SeqCst);
        Smp::wake(&raw const self.0, 1);
    }
}
