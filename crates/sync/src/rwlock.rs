//! [`RwLock`]: the unfair spinning reader/writer lock of the kernels of 2008.
//!
//! Use it only to model those kernels (`tasklist_lock`): readers starve writers.
//!
//! ## States
//!
//! | word | meaning |
//! |---|---|
//! | 0 | unlocked |
//! | n < 2^20 | n readers, some of which may be about to undo a failed attempt |
//! | k 2^20 + n | also k writers: at most one owns the lock, the others undo their attempts |
//!
//! ## Transitions
//!
//! ```text
//! read     += 1;    a writer was there: -= 1,    spin until no writer, again   unlock: -= 1
//! write    += 2^20; it was not 0:       -= 2^20, spin until 0, again           unlock: -= 2^20
//! ```
//!
//! ## Invariants
//!
//! - I1 While a task is between `write` and `write_unlock`, no other is between any pair: the
//!   writer has found 0, and until it subtracts its 2^20 every other attempt finds it and fails.
//!
//! ## Memory ordering
//!
//! The release operations of both unlocks pair with the acquire operations that take the lock.
//! Readers release as well: a writer must not see its own writes overtaken by their reads.
//!
//! ## Progress and fairness
//!
//! None for writers while readers overlap. A failed attempt can make others fail: a reader that
//! adds between the two steps of a failing writer steps back although only readers own the lock.
//! Some task always proceeds, because tasks try again only once they have seen no writer, or 0, and
//! the first that then adds succeeds.
//!
//! ## Cost
//!
//! 4 bytes. Uncontended: one locked operation each to acquire and release; every reader moves the
//! line. A failed attempt takes two locked operations, which move the line as well.
//!
//! ## Lineage
//!
//! x86 `rwlock_t` of Linux 2.6.25 to 3.x (`arch/x86/include/asm/spinlock.h`,
//! `arch/x86/lib/rwlock.S`), which counts down from its bias where this one counts up from 0:
//! `read_lock` is `lock dec`, and `lock inc` after a failure; `write_lock` is `lock sub`, and `lock
//! add` after a failure. The bias is 2^20, as in 3.x for up to 2048 CPUs; it was 2^24 before.

use crate::event::LockEvent;
use crate::lock::{attempt, irq_restore, irq_save};
use crate::platform::{Atomic, Platform};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Added by a writer, see Lineage: readers fit below it, and 2^12 - 1 writers together above.
const WRITER: u32 = 1 << 20;
/// Set while a writer owns the lock, or undoes its attempt.
const WRITERS: u32 = !(WRITER - 1);

/// The spinning reader/writer lock. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct RwLock<P: Platform> {
    state: P::AtomicU32,
}

impl<P: Platform> Default for RwLock<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> RwLock<P> {
    /// Returns an unlocked lock.
    pub fn new() -> Self {
        Self { state: P::AtomicU32::new(0) }
    }

    /// Acquires the lock for reading.
    #[inline]
    pub fn read(&self) {
        P::preempt_disable();
        // += 1. Acquire pairs with the release in `write_unlock`.
        while self.state.fetch_add(1, Acquire) & WRITERS != 0 {
            // Undo. Relaxed: nothing was done under the lock.
            self.state.fetch_sub(1, Relaxed);
            P::spin_until(&self.state, |state| state & WRITERS == 0);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Releases a read lock.
    #[inline]
    pub fn read_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 1. Release pairs with the acquire in `write`.
        let state = self.state.fetch_sub(1, Release);
        debug_assert!(state & !WRITERS != 0, "a read lock was released that is not held");
        P::preempt_enable();
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn try_write(&self) -> bool {
        attempt::<P>(self, || self.attempt_write())
    }

    /// Acquires the lock for writing.
    #[inline]
    pub fn write(&self) {
        P::preempt_disable();
        while !self.attempt_write() {
            P::spin_until(&self.state, |state| state == 0);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Makes one attempt to write. A failed attempt leaves the word unchanged, after two changes.
    #[inline]
    fn attempt_write(&self) -> bool {
        // += 2^20. Acquire pairs with the release in both unlocks.
        let free = self.state.fetch_add(WRITER, Acquire) == 0;
        if !free {
            // Undo. Relaxed: nothing was done under the lock.
            self.state.fetch_sub(WRITER, Relaxed);
        }
        free
    }

    /// Releases the write lock.
    #[inline]
    pub fn write_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 2^20; others may undo their attempts at this moment. Release pairs with the acquire in
        // `read` and `write`.
        let state = self.state.fetch_sub(WRITER, Release);
        debug_assert!(state & WRITERS != 0, "a write lock was released that is not held");
        P::preempt_enable();
    }

    /// [`Self::write`] with interrupts disabled.
    #[inline]
    pub fn write_irqsave(&self) -> P::IrqFlags {
        irq_save::<P>(|| self.write())
    }

    /// Releases a lock acquired by [`Self::write_irqsave`].
    #[inline]
    pub fn write_unlock_irqrestore(&self, flags: P::IrqFlags) {
        irq_restore::<P>(flags, || self.write_unlock());
    }
}
