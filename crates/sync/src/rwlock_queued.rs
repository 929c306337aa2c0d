//! [`QueuedRwLock`]: the spinning reader/writer lock of Linux 4.2, whose waiters queue.
//!
//! Use it like [`kernel::RwLock`](crate::kernel::RwLock), where many CPUs contend: waiters form one
//! queue, and readers do not starve a writer. Not for a lock that interrupt handlers acquire for
//! reading: the kernel's lock lets them pass the queue, this one does not.
//!
//! ## States
//!
//! | `count` | meaning |
//! |---|---|
//! | low byte 0 | no writer |
//! | low byte 1 (`WAITING`) | the first in the queue is a writer that waits for readers to leave |
//! | low byte 255 (`LOCKED`) | a writer owns it |
//! | rest, times 256 | readers, and tasks about to find out that they are none |
//!
//! ## Transitions
//!
//! ```text
//! read     += 256; low byte not 0: -= 256, queue, += 256, spin until it is not 255, leave queue
//! write    0 -> 255; otherwise queue; 0 -> 255, or low byte 0 -> 1, spin until 1 -> 255, leave
//! unlock   -= 256, or -= 255
//! ```
//!
//! ## Invariants
//!
//! - I1 A writer owns the lock alone.
//! - I2 Only the task that holds the inner lock sets `WAITING` or waits for the count.
//!
//! ## Memory ordering
//!
//! The release operations of both unlocks pair with the acquire operations that take the lock.
//!
//! ## Progress and fairness
//!
//! First come, first served in the queue; readers that arrive while no writer is first pass it, and
//! a writer may take a free lock past it.
//!
//! ## Cost
//!
//! 8 bytes with the ticket lock, 24 with the queued one. Uncontended: one locked operation each to
//! acquire and to release. A contended acquisition has two more, of the inner lock.
//!
//! ## Lineage
//!
//! Linux 4.2, kernel/locking/qrwlock.c (first in 3.16, commit 70af2f8a4f48, in which the reader at
//! the head waits before it counts itself in, not after). Differences: interrupt handlers queue
//! like all tasks; the unlock of a writer is a locked operation, not a store of one byte.

use crate::event::LockEvent;
use crate::lock::{RawLock, attempt, irq_restore, irq_save, locks_by};
use crate::platform::{Atomic, Platform};
use crate::spin::TicketLock;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WAITING: u32 = 1;
const LOCKED: u32 = 0xff;
const WRITERS: u32 = 0xff;
const READER: u32 = 0x100;

/// The queued reader/writer spinlock. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct QueuedRwLock<P: Platform, L: RawLock<P> = TicketLock<P>> {
    count: P::AtomicU32,
    queue: L,
    platform: core::marker::PhantomData<fn() -> P>,
}

impl<P: Platform, L: RawLock<P> + Default> Default for QueuedRwLock<P, L> {
    fn default() -> Self {
        Self::with_lock(L::default())
    }
}

impl<P: Platform, L: RawLock<P>> QueuedRwLock<P, L> {
    /// Returns an unlocked lock whose waiters queue at `queue`, which is free.
    pub fn with_lock(queue: L) -> Self {
        Self { count: P::AtomicU32::new(0), queue, platform: core::marker::PhantomData }
    }

    /// Acquires the lock for reading.
    #[inline]
    pub fn read(&self) {
        P::preempt_disable();
        // += 256. Acquire pairs with the release in `write_unlock`.
        if self.count.fetch_add(READER, Acquire) & WRITERS != 0 {
            self.read_slow();
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self) {
        // -= 256, back to the previous value. Relaxed: nothing was done under the lock.
        self.count.fetch_sub(READER, Relaxed);
        P::happened(LockEvent::Contended, self);
        self.queue.lock();
        // += 256: no writer can become the owner from here on. Acquire pairs with the release in
        // `write_unlock`, if no writer owns it now.
        if self.count.fetch_add(READER, Acquire) & WRITERS == LOCKED {
            // The acquire of `spin_until` pairs with that release.
            P::spin_until(&self.count, |count| count & WRITERS != LOCKED);
        }
        self.queue.unlock();
    }

    /// Releases a lock acquired for reading.
    #[inline]
    pub fn read_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 256. Release pairs with the acquire in `write`.
        let count = self.count.fetch_sub(READER, Release);
        debug_assert!(count >= READER, "a read lock that nobody holds was given back");
        P::preempt_enable();
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn try_write(&self) -> bool {
        attempt::<P>(self, || self.take_free(0))
    }

    /// `from` -> 255.
    #[inline]
    fn take_free(&self, from: u32) -> bool {
        // Acquire pairs with the releases in both unlocks.
        self.count.compare_exchange(from, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Acquires the lock for writing.
    #[inline]
    pub fn write(&self) {
        P::preempt_disable();
        if !self.take_free(0) {
            self.write_slow();
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) {
        P::happened(LockEvent::Contended, self);
        self.queue.lock();
        // Relaxed: the look orders nothing.
        if self.count.load(Relaxed) != 0 || !self.take_free(0) {
            self.announce();
            while !self.take_free(WAITING) {
                P::spin_until(&self.count, |count| count == WAITING);
            }
        }
        self.queue.unlock();
    }

    /// First in the queue: low byte 0 -> 1, which keeps new readers out.
    fn announce(&self) {
        loop {
            let count = P::spin_until(&self.count, |count| count & WRITERS == 0);
            // Relaxed: only taking the lock orders.
            if self.count.compare_exchange(count, count | WAITING, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Releases a lock acquired for writing.
    #[inline]
    pub fn write_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // -= 255. Release pairs with the acquire in `read` and `write`.
        let count = self.count.fetch_sub(LOCKED, Release);
        debug_assert!(count & WRITERS == LOCKED, "a write lock that nobody holds was given back");
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

locks_by! {
    [P: Platform, L: RawLock<P> + Default + 'static] QueuedRwLock<P, L>,
        write try_write write_unlock / read read_unlock {}
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::native::Native;

    #[test]
    fn a_reader_that_comes_after_a_waiting_writer_queues_behind_it() {
        let lock = QueuedRwLock::<Native, TicketLock<Native>>::default();
        let entered = std::sync::atomic::AtomicBool::new(false);
        lock.read();
        // Like a writer that has reached the head of the queue.
        lock.queue.lock();
        lock.announce();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock.read();
                // Relaxed, as below: one flag.
                entered.store(true, Relaxed);
                lock.read_unlock();
            });
            while !lock.queue.is_contended() {
                assert!(!entered.load(Relaxed), "it went past the writer");
                std::thread::yield_now();
            }
            lock.read_unlock();
            // Relaxed: as above.
            assert!(lock.take_free(WAITING) && !entered.load(Relaxed));
            lock.queue.unlock();
            lock.write_unlock();
        });
        // Relaxed: the thread was waited for.
        assert!(entered.load(Relaxed));
    }
}
