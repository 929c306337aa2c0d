//! [`AdaptiveLock`]: a short lock for user space: spins a little, then sleeps.
//!
//! Use it where a kernel would use a spinlock but the holder may be preempted: as the inner lock of
//! the native semaphores. Do not use it in interrupt handlers or under a spinlock: it sleeps.
//!
//! ## States
//!
//! | word | meaning |
//! |---|---|
//! | 0 | unlocked |
//! | 1 | locked, no task sleeps |
//! | 2 | locked, tasks may sleep |
//!
//! ## Transitions
//!
//! ```text
//! lock    0 -> 1        after spinning: any -> 2, owner if it was 0, else sleep while 2
//!         after a wait at a condition: as after spinning
//! unlock  1 -> 0        2 -> 0 and wake sleepers: one, or two of an inner lock
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 While a task sleeps, the word is 2, or a woken task is on its way to set it to 2 again. The
//!   word may be 2 without sleepers; that error costs one needless wake-up.
//!
//! ## Memory ordering
//!
//! The release swap of `unlock` pairs with the acquire operations that take the lock.
//!
//! ## Progress and fairness
//!
//! The first task that finds the lock free acquires it; sleepers may be passed. With short critical
//! sections a sleeper acquires it soon, because an owner that is about to sleep has released it.
//!
//! A task that has slept leaves the word at 2, so each sleeper is woken by a task that slept before
//! it. If each of them wakes one sleeper, and must wait for a CPU before it can do so, the wakeups
//! form a chain: of 2000 threads that arrived while the owner was off its CPU, most were still in
//! the chain after 400 ms, although the lock was free nearly all the time. If each wakes two, their
//! number doubles with every step.
//!
//! ## Cost
//!
//! 4 bytes. Uncontended: one compare-exchange, one swap. Contended: at most [`LOOKS`] reads of the
//! word, then one system call to sleep and one to be woken.
//!
//! ## Lineage
//!
//! Drepper, "Futexes are tricky", 2011, third mutex; spinning as in the Rust standard library.

use crate::event::LockEvent;
use crate::lock::{RawLock, tell_taken};
use crate::platform::{Atomic, Platform, Sleep};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Reads of the word before a waiter sleeps: about a microsecond, the longest critical section of a
/// semaphore's inner lock. The Rust standard library uses the same number for its futex mutex.
const LOOKS: u32 = 100;

/// How often a waiter reads the word before it sleeps, and how many sleepers a release wakes.
pub trait SpinLimit: Copy + 'static {
    /// Sleepers that a release wakes. If it wakes more than one, all but the first find the lock
    /// taken, unless critical sections are shorter than the wait for a CPU, as under an inner lock.
    const WAKES: usize = 1;

    /// Returns the number of reads of the word before a waiter sleeps.
    fn looks(self) -> u32;
}

/// The limit of an inner lock: spins for about a microsecond, and wakes two sleepers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Short;

impl SpinLimit for Short {
    const WAKES: usize = 2;

    #[inline]
    fn looks(self) -> u32 {
        LOOKS
    }
}

/// Spins for this many reads of the word.
#[derive(Clone, Copy, Debug)]
pub struct AtMost(pub u32);

impl Default for AtMost {
    fn default() -> Self {
        Self(LOOKS)
    }
}

impl SpinLimit for AtMost {
    #[inline]
    fn looks(self) -> u32 {
        self.0
    }
}

/// The lock that spins a little and then sleeps. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct AdaptiveLock<P: Platform, S = Short> {
    state: P::AtomicU32,
    limit: S,
}

impl<P: Platform<AtomicU32 = AtomicU32>> AdaptiveLock<P> {
    /// Returns an unlocked lock.
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(UNLOCKED), limit: Short }
    }
}

impl<P: Platform, S: SpinLimit> AdaptiveLock<P, S> {
    /// Returns an unlocked lock with a spin limit.
    pub fn with_limit(limit: S) -> Self {
        Self { state: P::AtomicU32::new(UNLOCKED), limit }
    }

    /// Spins while the word is 1, up to the limit, so it stops as soon as other tasks sleep.
    /// Returns the last value seen.
    fn look(&self) -> u32 {
        // Only taking the lock orders.
        P::spin_looks(&self.state, self.limit.looks(), |state| state != LOCKED).unwrap_or(LOCKED)
    }

    #[cold]
    fn lock_slow(&self) {
        P::happened(LockEvent::Contended, self);
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        if self.look() == UNLOCKED
            && self.state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
        {
            return;
        }
        self.acquire_contended();
    }

    fn acquire_contended(&self) {
        // any -> 2, owner if it was 0: a task that has slept cannot know whether others still
        // sleep, so it leaves the word at 2 (I2). Acquire pairs with the release in `unlock`.
        while self.state.swap(CONTENDED, Acquire) != UNLOCKED {
            P::wait(&self.state, CONTENDED, Sleep::Uninterruptible, None);
        }
    }
}

impl<P: Platform> AdaptiveLock<P, AtMost> {
    /// Acquires the lock after a wait at a condition, as glibc does (`__pthread_mutex_cond_lock`):
    /// other threads may wait for the lock since the same broadcast, so the word becomes 2 in any
    /// case and the release makes a system call.
    pub(crate) fn lock_again(&self) {
        self.acquire_contended();
        P::happened(LockEvent::Acquired, self);
    }
}

impl<P: Platform, S: SpinLimit + Default> Default for AdaptiveLock<P, S> {
    fn default() -> Self {
        Self::with_limit(S::default())
    }
}

impl<P: Platform, S: SpinLimit> RawLock<P> for AdaptiveLock<P, S> {
    #[inline]
    fn lock(&self) {
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        if self.state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow();
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        let taken = self.state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok();
        tell_taken::<P>(self, taken)
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // 1 -> 0 or 2 -> 0. Release pairs with the acquire of the next owner.
        if self.state.swap(UNLOCKED, Release) == CONTENDED {
            P::wake(&raw const self.state, S::WAKES);
        }
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.state.load(Relaxed) != UNLOCKED
    }
}
