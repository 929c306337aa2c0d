//! [`Mutex`]: the sleeping mutex of Linux 2.6.25.
//!
//! Use it for sections that may sleep. It does not spin on a running owner; that came with 2.6.29:
//! [`SpinningMutex`](crate::SpinningMutex).
//!
//! ## States
//!
//! | word | meaning | kernel's number |
//! |---|---|---|
//! | 0 | unlocked | 1 |
//! | 1 | locked, nobody waits | 0 |
//! | 2 | locked, somebody may wait | negative |
//!
//! The queue is guarded by the inner lock. The numbers differ from the kernel's so that the
//! all-zero image is unlocked.
//!
//! ## Transitions
//!
//! ```text
//! lock     0 -> 1                      otherwise queue; any -> 2, owner if it was 0, else sleep
//!          owner from the slow path:   2 -> 1 if the queue is empty after leaving it
//! unlock   1 -> 0                      otherwise, under the inner lock: 2 -> 0, wake the first
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 While a record is linked and the inner lock is free, the word is 2, or 0 or 1 with a woken
//!   waiter on its way to make it 2 again.
//! - I3 A waiter's record is linked from its `push` until it removes it.
//!
//! ## Memory ordering
//!
//! The release operations of `unlock` pair with the acquire operations that take the lock.
//!
//! ## Progress and fairness
//!
//! Waiters are woken in arrival order; a running task may take the mutex before the woken one.
//!
//! ## Cost
//!
//! 24 bytes and the inner lock. Uncontended: one locked operation each to take and to give back.
//!
//! ## Lineage
//!
//! Linux 2.6.25, kernel/mutex.c. Difference: a newcomer that fails does not change the word before
//! it holds the inner lock; the kernel's decrement does, which costs its owner an empty slow path.

use crate::event::LockEvent;
use crate::lock::{RawLock, WaitError};
use crate::native::Native;
use crate::platform::{Access, Atomic, Platform, Sleep};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// The sleeping mutex. See the module documentation.
#[repr(C)]
pub struct Mutex<P: Platform, L: RawLock<P> = TicketLock<P>> {
    state: P::AtomicU32,
    lock: L,
    queue: Queue<P>,
}

// SAFETY: `queue` is used only while `lock` is held; `state` is an atomic of the platform, which is
// `Sync` by the bound.
unsafe impl<P: Platform, L: RawLock<P> + Sync> Sync for Mutex<P, L> where P::AtomicU32: Sync {}
// SAFETY: a mutex that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, L: RawLock<P> + Send> Send for Mutex<P, L> where P::AtomicU32: Send {}

impl Mutex<Native, crate::AdaptiveLock<Native>> {
    /// An unlocked mutex of user space: its inner lock may sleep.
    pub const fn native() -> Self {
        let state = AtomicU32::new(UNLOCKED);
        Self { state, lock: crate::AdaptiveLock::<Native>::new(), queue: Queue::new() }
    }
}

impl<P: Platform, L: RawLock<P>> Default for Mutex<P, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, L: RawLock<P>> Mutex<P, L> {
    /// An unlocked mutex.
    pub fn new() -> Self {
        Self { state: P::AtomicU32::new(UNLOCKED), lock: L::new(), queue: Queue::new() }
    }

    /// Takes the mutex; sleeps until it can.
    #[inline]
    pub fn lock(&self) {
        let taken = self.lock_common(Sleep::Uninterruptible);
        debug_assert!(taken.is_ok(), "nothing ends this wait but the mutex");
    }

    /// Takes the mutex; any signal ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_interruptible(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Interruptible)
    }

    /// Takes the mutex; a fatal signal ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_killable(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Killable)
    }

    /// Takes the mutex if it is free; returns whether it was.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        let taken = self.state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok();
        if taken {
            P::event(LockEvent::Acquired, self, P::current());
        }
        taken
    }

    /// Whether somebody holds the mutex; a snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.state.load(Relaxed) != UNLOCKED
    }

    #[inline]
    fn lock_common(&self, sleep: Sleep) -> Result<(), WaitError> {
        if self.try_lock() { Ok(()) } else { self.lock_slow(sleep) }
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, sleep: Sleep) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        self.lock.lock();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { self.queue.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        let result = loop {
            // any -> 2, owner if it was 0. Acquire pairs with the release in `unlock`.
            if self.state.swap(CONTENDED, Acquire) == UNLOCKED {
                break Ok(());
            }
            if P::signal_pending(sleep) {
                break Err(WaitError::Interrupted);
            }
            waiter.prepare();
            self.lock.unlock();
            waiter.sleep(sleep, None);
            self.lock.lock();
        };
        let passed = !waiter.is_first();
        // SAFETY: the inner lock is held, and nobody else removes records here (I3).
        unsafe { self.queue.remove(&waiter) };
        if result.is_ok() {
            if passed {
                P::event(LockEvent::Stolen, self, waiter.task);
            }
            P::event(LockEvent::Acquired, self, waiter.task);
            if self.queue.is_empty() {
                // 2 -> 1: nobody waits. Relaxed: the owner alone may do this, and it releases
                // later.
                self.state.store(LOCKED, Relaxed);
            }
        } else {
            P::event(LockEvent::Interrupted, self, waiter.task);
        }
        self.lock.unlock();
        result
    }

    /// Gives the mutex back.
    #[inline]
    pub fn unlock(&self) {
        P::event(LockEvent::Released, self, P::current());
        // 1 -> 0. Release pairs with the acquire of the next owner.
        if self.state.compare_exchange(LOCKED, UNLOCKED, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        self.lock.lock();
        // 2 -> 0. Release pairs with the acquire of the next owner.
        self.state.store(UNLOCKED, Release);
        P::touch(&self.queue, Access::Read);
        // SAFETY: the inner lock is held.
        let front = unsafe { self.queue.front() };
        if let Some(waiter) = front.filter(|waiter| waiter.rouse()) {
            P::event(LockEvent::Woken, self, waiter.task);
        }
        self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdaptiveLock;
    use crate::native::Signals;
    use std::cell::Cell;

    static MUTEX: Mutex<Native, AdaptiveLock<Native>> = Mutex::native();

    struct Shared(Cell<u32>);
    // SAFETY: the test uses the cell only while it holds the mutex.
    unsafe impl Sync for Shared {}

    #[test]
    fn threads_exclude_each_other() {
        static TOTAL: Shared = Shared(Cell::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        MUTEX.lock();
                        let total = &TOTAL;
                        total.0.set(total.0.get() + 1);
                        MUTEX.unlock();
                    }
                });
            }
        });
        assert_eq!(TOTAL.0.get(), 2000);
        assert!(!MUTEX.is_locked());
    }

    #[test]
    fn a_signal_ends_a_wait() {
        let mutex = Mutex::<Native>::new();
        assert!(mutex.try_lock() && !mutex.try_lock());
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let mutex = &mutex;
            let waiter = scope.spawn(move || {
                send.send(Signals::of_this_thread()).unwrap();
                (mutex.lock_interruptible(), mutex.lock_killable())
            });
            let signals = receive.recv().unwrap();
            signals.interrupt();
            signals.kill();
            let interrupted = Err(WaitError::Interrupted);
            assert_eq!(waiter.join().unwrap(), (interrupted, interrupted));
        });
        mutex.unlock();
        assert!(!mutex.is_locked());
    }
}
