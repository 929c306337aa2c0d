//! [`RwSemaphore`]: the sleeping reader/writer lock of the kernels of 2008, first in first out.
//!
//! Use it to model those kernels (`mmap_sem`, the IPC tables). Like every hand-off lock it makes
//! tasks wait for owners that are not running.
//!
//! ## States
//!
//! The word; the queue is guarded by the inner lock.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 (`WRITER`) | a writer owns the lock |
//! | 1 (`WAITING`) | the fast paths are closed: a task waits or is about to |
//! | 2.. | number of readers |
//!
//! ## Transitions
//!
//! ```text
//! read     neither bit: readers += 1             otherwise slow path
//! write    0 -> WRITER                           otherwise slow path
//! slow     set WAITING; admissible and queue empty: own, restore WAITING; else queue, sleep
//! unlock   readers -= 1, or clear WRITER; no owner left and WAITING: grant
//! grant    front writer: set WRITER, unlink       front readers: readers += n, unlink them all
//!          queue empty now: clear WAITING
//! ```
//!
//! ## Invariants
//!
//! - I1 A writer owns the lock alone.
//! - I2 While the inner lock is free, `WAITING` is set exactly when the queue is not empty.
//! - I3 If the queue is not empty, the lock is owned, or the task that made it free is on its way
//!   to `grant`: it saw `WAITING`, and while `WAITING` is set only the slow paths make a task an
//!   owner.
//! - I4 A record is linked from its `push` until the grant removes it.
//!
//! ## Memory ordering
//!
//! Releases pair with the acquire operations that take the lock. A granted task acquires through
//! its state word, which the granter wrote after acquiring the lock word itself.
//!
//! ## Progress and fairness
//!
//! Arrival order in the queue, readers in a row together; a task that is still on its way to the
//! queue may be passed by the fast paths. Waits cannot be cancelled.
//!
//! ## Cost
//!
//! 24 bytes and the inner lock. Uncontended: one locked operation each to acquire and to release; a
//! reader that joins other readers needs two on a line that it owns after the first.
//!
//! ## Lineage
//!
//! Linux 2.6.25, lib/rwsem.c. Difference: the kernel counts waiters with a bias added by an
//! unconditional exchange-and-add; here newcomers compare and exchange, so that the word has no
//! transient states.

use crate::event::LockEvent;
use crate::lock::{RawLock, locks_by, tell_taken};
use crate::platform::{Access, Atomic, Platform};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const WRITER: u32 = 1;
const WAITING: u32 = 2;
const READER: u32 = 4;

/// The sleeping reader/writer lock. See the module documentation.
#[repr(C)]
pub struct RwSemaphore<P: Platform, L: RawLock<P> = TicketLock<P>> {
    state: P::AtomicU32,
    lock: L,
    queue: Queue<P>,
}

// SAFETY: `queue` is used only while `lock` is held; `state` is an atomic of the platform, which is
// `Sync` by the bound.
unsafe impl<P: Platform<AtomicU32: Sync>, L: RawLock<P> + Sync> Sync for RwSemaphore<P, L> {}
// SAFETY: a lock that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform<AtomicU32: Send>, L: RawLock<P> + Send> Send for RwSemaphore<P, L> {}

impl<P: Platform, L: RawLock<P> + Default> Default for RwSemaphore<P, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, L: RawLock<P> + Default> RwSemaphore<P, L> {
    /// Returns an unlocked lock.
    pub fn new() -> Self {
        Self::with_lock(L::default())
    }
}

impl<P: Platform, L: RawLock<P>> RwSemaphore<P, L> {
    /// Returns an unlocked lock around `lock`, its inner lock, which is free.
    pub fn with_lock(lock: L) -> Self {
        Self { state: P::AtomicU32::new(0), lock, queue: Queue::new() }
    }

    /// Acquires the lock for reading, blocking until it is available.
    #[inline]
    pub fn down_read(&self) {
        if !self.down_read_trylock() {
            self.down_slow(true);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Acquires the lock for writing, blocking until it is available.
    #[inline]
    pub fn down_write(&self) {
        if !self.take_free() {
            self.down_slow(false);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn down_write_trylock(&self) -> bool {
        tell_taken::<P>(self, self.take_free())
    }

    #[inline]
    fn take_free(&self) -> bool {
        // 0 -> WRITER. Acquire pairs with the releases in `up_read` and `up_write`.
        self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    #[inline]
    fn down_read_trylock(&self) -> bool {
        // The first guess is right if no task owns the lock or waits, and saves a read of the line.
        let mut state = 0;
        while state & (WRITER | WAITING) == 0 {
            // readers += 1. Acquire pairs with the release in `up_write`.
            match self.state.compare_exchange(state, state + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn down_slow(&self, reader: bool) {
        let waiter = Waiter::new(reader);
        let flags = self.lock.lock_irqsave();
        // Closes the fast paths. Acquire pairs with the releases in `up_read` and `up_write`, for
        // the case that the lock is free.
        let state = self.state.fetch_or(WAITING, Acquire);
        let free = if reader { state & WRITER == 0 } else { state & !WAITING == 0 };
        if free && self.queue.is_empty() {
            let own = if reader { READER } else { WRITER };
            // WAITING -> own. Relaxed: the acquire is done, and no task passes WAITING (I3).
            self.state.fetch_add(own.wrapping_sub(WAITING), Relaxed);
            self.lock.unlock_irqrestore(flags);
            return;
        }
        // SAFETY: the inner lock is held; the record stays on this stack until the grant has
        // removed it, which `sleep_until_woken` waits for.
        unsafe { self.queue.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        waiter.prepare();
        self.lock.unlock_irqrestore(flags);
        waiter.sleep_until_woken();
    }

    /// Releases a lock acquired for reading.
    #[inline]
    pub fn up_read(&self) {
        P::happened(LockEvent::Released, self);
        // readers -= 1. Release pairs with the acquire of the next writer; acquire because this
        // task may pass the lock on for readers that released before it.
        let state = self.state.fetch_sub(READER, AcqRel) - READER;
        if state == WAITING {
            self.grant();
        }
    }

    /// Releases a lock acquired for writing.
    #[inline]
    pub fn up_write(&self) {
        P::happened(LockEvent::Released, self);
        // WRITER is cleared. Release pairs with the acquire of the next owner.
        if self.state.fetch_sub(WRITER, Release) & WAITING != 0 {
            self.grant();
        }
    }

    /// Returns whether a task owns the lock; a snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.state.load(Relaxed) & !WAITING != 0
    }

    /// Makes the front writer, or all front readers, owners of a lock that is free and `WAITING`.
    #[cold]
    #[inline(never)]
    fn grant(&self) {
        let flags = self.lock.lock_irqsave();
        P::touch(&self.queue, Access::Write);
        // Relaxed: under the inner lock; the read-modify-writes below acquire. Another task may
        // have acquired the lock between the release and the inner lock, own it by now, and grant
        // it again later.
        let state = self.state.load(Relaxed);
        if state & WRITER != 0 {
            return self.lock.unlock_irqrestore(flags);
        }
        let mut owned = state & !WAITING != 0;
        // SAFETY: the inner lock is held until the end of this function.
        while let Some(waiter) = unsafe { self.queue.front() } {
            if owned && !waiter.reader {
                break;
            }
            // SAFETY: the waiter was just found in the queue, under the inner lock.
            unsafe { self.queue.remove(waiter) };
            let (own, reader) = if waiter.reader { (READER, true) } else { (WRITER, false) };
            let own = if self.queue.is_empty() { own.wrapping_sub(WAITING) } else { own };
            // Own it for the waiter, and open the fast paths behind the last one. AcqRel: acquires
            // what former owners released, for the waiter, whose state word passes it on.
            self.state.fetch_add(own, AcqRel);
            P::event(LockEvent::Handoff, self, waiter.task);
            // SAFETY: it was found in the queue, under the inner lock.
            unsafe { Waiter::wake(waiter.into()) };
            owned = true;
            if !reader {
                break;
            }
        }
        self.lock.unlock_irqrestore(flags);
    }
}

locks_by! {
    [P: Platform, L: RawLock<P> + Default] RwSemaphore<P, L>,
        down_write down_write_trylock up_write / down_read up_read {}
}
