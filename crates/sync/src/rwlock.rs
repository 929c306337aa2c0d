//! [`RwLock`]: the unfair spinning reader/writer lock of the kernels of 2008.
//!
//! Use it only to model those kernels (`tasklist_lock`): readers starve writers.
//!
//! ## States
//!
//! | word | meaning |
//! |---|---|
//! | 0 | unlocked |
//! | n < 2^31 | n readers, or tasks that are about to find out that they are none |
//! | 2^31 + n | one writer, and n readers about to step back |
//!
//! ## Transitions
//!
//! ```text
//! read     += 1; writer there: -= 1, spin until no writer, again      unlock: -= 1
//! write    0 -> 2^31; otherwise spin until 0, again                   unlock: -= 2^31
//! ```
//!
//! ## Invariants
//!
//! - I1 While a task is between `write` and `write_unlock`, no other is between any pair.
//!
//! ## Memory ordering
//!
//! The release operations of both unlocks pair with the acquire operations that take the lock.
//! Readers release as well: a writer must not see its own writes overtaken by their reads.
//!
//! ## Progress and fairness
//!
//! None for writers while readers overlap; some task always proceeds.
//!
//! ## Cost
//!
//! 4 bytes. Uncontended: one locked operation each to acquire and release; every reader moves the
//! line.
//!
//! ## Lineage
//!
//! Linux 2.6.25 x86 `rwlock_t`. Difference: a writer that fails changes nothing, where the kernel's
//! subtracts its bias and adds it back.

use crate::event::LockEvent;
use crate::platform::{Atomic, Platform};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WRITER: u32 = 1 << 31;

/// The spinning reader/writer lock. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct RwLock<P: Platform> {
    state: P::AtomicU32,
}

impl<P: Platform<AtomicU32 = AtomicU32>> RwLock<P> {
    /// An unlocked lock.
    pub const fn native() -> Self {
        Self { state: AtomicU32::new(0) }
    }
}

impl<P: Platform> Default for RwLock<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> RwLock<P> {
    /// An unlocked lock.
    pub fn new() -> Self {
        Self { state: P::AtomicU32::new(0) }
    }

    /// Takes the lock for reading.
    #[inline]
    pub fn read(&self) {
        P::preempt_disable();
        // += 1. Acquire pairs with the release in `write_unlock`.
        while self.state.fetch_add(1, Acquire) & WRITER != 0 {
            // -= 1, back to what it was. Relaxed: nothing was done under the lock.
            self.state.fetch_sub(1, Relaxed);
            P::spin_until(&self.state, |state| state & WRITER == 0);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Releases a read lock.
    #[inline]
    pub fn read_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 1. Release pairs with the acquire in `write`.
        let state = self.state.fetch_sub(1, Release);
        debug_assert!(state & !WRITER != 0, "a read lock that nobody holds was given back");
        P::preempt_enable();
    }

    /// Takes the lock for writing if it is free; returns whether it was.
    pub fn try_write(&self) -> bool {
        P::preempt_disable();
        // 0 -> 2^31. Acquire pairs with the release in both unlocks.
        let taken = self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok();
        if taken {
            P::happened(LockEvent::Acquired, self);
        } else {
            P::preempt_enable();
        }
        taken
    }

    /// Takes the lock for writing.
    #[inline]
    pub fn write(&self) {
        P::preempt_disable();
        // 0 -> 2^31. Acquire pairs with the release in both unlocks.
        while self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_err() {
            P::spin_until(&self.state, |state| state == 0);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Releases the write lock.
    #[inline]
    pub fn write_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 2^31; readers may be stepping back at this moment. Release pairs with the acquire in
        // `read` and `write`.
        let state = self.state.fetch_sub(WRITER, Release);
        debug_assert!(state & WRITER != 0, "a write lock that nobody holds was given back");
        P::preempt_enable();
    }

    /// [`Self::read`] with interrupts disabled.
    #[inline]
    pub fn read_irqsave(&self) -> P::IrqFlags {
        let flags = P::irq_save();
        self.read();
        flags
    }

    /// Releases a lock acquired by [`Self::read_irqsave`].
    #[inline]
    pub fn read_unlock_irqrestore(&self, flags: P::IrqFlags) {
        // See `RawLock::unlock_irqrestore` for the extra guard.
        P::preempt_disable();
        self.read_unlock();
        P::irq_restore(flags);
        P::preempt_enable();
    }

    /// [`Self::write`] with interrupts disabled.
    #[inline]
    pub fn write_irqsave(&self) -> P::IrqFlags {
        let flags = P::irq_save();
        self.write();
        flags
    }

    /// Releases a lock acquired by [`Self::write_irqsave`].
    #[inline]
    pub fn write_unlock_irqrestore(&self, flags: P::IrqFlags) {
        // See `RawLock::unlock_irqrestore` for the extra guard.
        P::preempt_disable();
        self.write_unlock();
        P::irq_restore(flags);
        P::preempt_enable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_writer_is_alone() {
        static LOCK: RwLock<Native> = RwLock::native();
        let (writers, readers) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    LOCK.write();
                    assert_eq!(writers.fetch_add(1, Ordering::Relaxed), 0);
                    assert_eq!(readers.load(Ordering::Relaxed), 0);
                    writers.fetch_sub(1, Ordering::Relaxed);
                    LOCK.write_unlock();
                }
            });
            scope.spawn(|| {
                for _ in 0..200 {
                    LOCK.read_irqsave();
                    readers.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(writers.load(Ordering::Relaxed), 0);
                    readers.fetch_sub(1, Ordering::Relaxed);
                    LOCK.read_unlock_irqrestore(());
                }
            });
        });
        LOCK.write_irqsave();
        LOCK.write_unlock_irqrestore(());
        LOCK.read();
        LOCK.read();
        LOCK.read_unlock();
        LOCK.read_unlock();
        assert_eq!(LOCK.state.load(Ordering::Relaxed), 0);
    }
}
