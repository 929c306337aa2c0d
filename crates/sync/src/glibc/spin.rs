//! [`SpinLock`]: `pthread_spinlock_t` of the GNU C library.
//!
//! Use it to replay programs that have it. Do not use it where there are more threads than CPUs: an
//! owner that is preempted stops all others for a time slice, and they spend theirs spinning.
//!
//! ## States
//!
//! | word | meaning |
//! |---|---|
//! | 0 | unlocked |
//! | 1 | locked |
//!
//! ## Transitions
//!
//! ```text
//! lock    0 -> 1, otherwise spin until 0, again        unlock  1 -> 0
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//!
//! ## Memory ordering
//!
//! The release store of `unlock` pairs with the acquire exchange of `lock`.
//!
//! ## Progress and fairness
//!
//! Some task always gets the lock, in no order. A waiter never yields its CPU and never sleeps.
//!
//! ## Cost
//!
//! 4 bytes. Uncontended: one exchange and one store. Contended: each change of owner moves the line
//! to every spinning CPU.
//!
//! ## Lineage
//!
//! `pthread_spin_lock` of the GNU C library. What differs from
//! [`TasLock`](crate::TasLock) is that it spins on in user mode, where that one yields.

use crate::event::LockEvent;
use crate::lock::{locks_by, tell_taken};
use crate::platform::{Atomic, Platform};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// The spinlock that spins forever. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct SpinLock<P: Platform> {
    word: P::AtomicU32,
}

impl<P: Platform> Default for SpinLock<P> {
    fn default() -> Self {
        Self { word: Atomic::new(UNLOCKED) }
    }
}

impl<P: Platform> SpinLock<P> {
    /// Acquires the lock if it is free. Returns whether it did.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        let taken = self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok();
        tell_taken::<P>(self, taken)
    }

    /// Acquires the lock.
    #[inline]
    pub fn lock(&self) {
        while !self.try_lock() {
            P::happened(LockEvent::Contended, self);
            // Relaxed, as below: the exchange is what orders.
            while P::spin_for(&self.word, u64::MAX, |word| word == UNLOCKED) != UNLOCKED {
                P::pause_for(&self.word, |word| word == UNLOCKED);
            }
        }
    }

    /// Releases the lock.
    #[inline]
    pub fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // 1 -> 0. Release pairs with the acquire in `try_lock`.
        self.word.store(UNLOCKED, Release);
    }
}

locks_by! { [P: Platform] SpinLock<P>, lock try_lock unlock {} }
