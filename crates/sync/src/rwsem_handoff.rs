//! [`HandoffRwSemaphore`]: the sleeping reader/writer lock of Linux from 5.11 on. Writers spin and
//! steal, also for a short time while readers own it; readers steal; a waiter that has waited for
//! 4 ms is handed the lock.
//!
//! Use it to model those kernels: their directories, address spaces and lists of mappings.
//!
//! ## States
//!
//! `count` is the sum of these contributions; the queue is guarded by the inner lock.
//!
//! | contribution | of |
//! |---|---|
//! | `WRITER` | the writer that owns the lock |
//! | `WAITERS` | the queue, if it is not empty |
//! | `HANDOFF` | the first waiter, if it has waited too long |
//! | `READER` | each reader, and each task that is trying to become one |
//!
//! | `owner` | meaning |
//! |---|---|
//! | a task | that writer, a hint for spinners |
//! | readers | readers, or free since the last of them released it |
//! | readers, no spinning | the same, and a writer has spun for them without success |
//! | none | free, or a writer for a moment |
//!
//! ## Transitions
//!
//! ```text
//! read     count += READER; no other contribution: owned. Otherwise
//!          no WRITER, no HANDOFF, and not behind readers: owned; the first also grants all readers
//!          else count -= READER, queue, sleep until granted
//! write    0 -> WRITER; otherwise spin, then queue
//! spin     in turn, while the owner is none or a running writer, or readers for at most 10 us and
//!          0.5 us for each; without HANDOFF, owners: count += WRITER; ends when the CPU is wanted
//! queue    the first adds WAITERS; woken: without owners, and not against another's HANDOFF: own
//!          it; after 4 ms: add HANDOFF, and then spin before each sleep
//! unlock   take the contribution back; WAITERS, and no owner left: wake
//! wake     first is a writer: wake it, it stays queued
//!          first is a reader: grant all readers of the queue, at most 256, and remove HANDOFF;
//!          if a writer has stolen the lock and the reader has waited for 4 ms, add HANDOFF
//! ```
//!
//! ## Invariants
//!
//! - I1 A writer owns the lock alone.
//! - I2 While the inner lock is free, `WAITERS` is part of `count` exactly when the queue is not
//!   empty, and `HANDOFF` only if it is.
//! - I3 If the queue is not empty and no task owns the lock, a task is on its way to wake the
//!   first, or is awake and tries to own it.
//! - I4 A reader's record is linked until it is granted, a writer's until it owns the lock.
//!
//! ## Memory ordering
//!
//! Releases on `count` pair with the acquire operations on it that take the lock; a granted reader
//! acquires through its record. `owner` orders nothing.
//!
//! ## Progress and fairness
//!
//! Newcomers that write, and spinners, pass queued tasks until the first has waited for 4 ms.
//! Readers pass queued tasks only when they find the lock free, or as the second of two readers.
//! Queued readers own the lock together, wherever they are in the queue.
//!
//! ## Cost
//!
//! 56 bytes with the ticket lock. Uncontended: one locked operation each to acquire and to release.
//!
//! ## Lineage
//!
//! Linux 6.18, kernel/locking/rwsem.c: commits 4f23dbc1e657 (5.3, handoff), 7d43f1ce9dd0 (5.3,
//! spinning for readers), d3681e269fff (5.3, all readers of the queue), 1a728dff855a (5.11, readers
//! steal). Differences: 4 ms are measured and not counted in ticks; a real-time task is not handed
//! the lock sooner; preemption is possible between acquiring the lock and writing the owner; the
//! readers that a writer's arrival wakes are woken before the inner lock is released.

mod spin;
mod wake;

use crate::event::LockEvent;
use crate::lock::{RawLock, locks_by};
use crate::osq::SpinnerQueue;
use crate::platform::{Atomic, Platform, Sleep, TaskId};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const WRITER: u32 = 1;
const WAITERS: u32 = 2;
const HANDOFF: u32 = 4;
const READER: u32 = 8;
/// Contributions of owners.
const OWNERS: u32 = !(WAITERS | HANDOFF);

/// No task: the owner of a lock without an owner.
const NOBODY: TaskId = TaskId::MAX;
/// Readers: the owner of a lock that a reader was the last to acquire.
const READERS: TaskId = TaskId::MAX - 1;
/// The same, and writers do not spin for them.
const SLOW_READERS: TaskId = TaskId::MAX - 2;

/// A waiter that has waited for longer asks for a handoff (`RWSEM_WAIT_TIMEOUT`), microseconds.
const PATIENCE_US: u32 = 4000;

/// The sleeping reader/writer lock with handoff. See the module documentation.
#[repr(C)]
pub struct HandoffRwSemaphore<P: Platform, L: RawLock<P> = TicketLock<P>> {
    count: P::AtomicU32,
    owner: P::AtomicU32,
    lock: L,
    sleepers: Queue<P>,
    spinners: SpinnerQueue<P>,
}

// SAFETY: the queues are used only while their inner locks are held; the words are atomics of the
// platform, which are `Sync` by the bound.
unsafe impl<P: Platform<AtomicU32: Sync>, L: RawLock<P> + Sync> Sync for HandoffRwSemaphore<P, L> {}
// SAFETY: a lock that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform<AtomicU32: Send>, L: RawLock<P> + Send> Send for HandoffRwSemaphore<P, L> {}

impl<P: Platform, L: RawLock<P> + Default> Default for HandoffRwSemaphore<P, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, L: RawLock<P> + Default> HandoffRwSemaphore<P, L> {
    /// Returns an unlocked lock.
    pub fn new() -> Self {
        Self {
            count: P::AtomicU32::new(0),
            owner: P::AtomicU32::new(NOBODY),
            lock: L::default(),
            sleepers: Queue::new(),
            spinners: SpinnerQueue::new(),
        }
    }
}

impl<P: Platform, L: RawLock<P>> HandoffRwSemaphore<P, L> {
    /// Acquires the lock for reading, blocking until it is available.
    #[inline]
    pub fn down_read(&self) {
        // count += READER. Acquire pairs with the release in `up_write`.
        let count = self.count.fetch_add(READER, Acquire).wrapping_add(READER);
        if count & (WRITER | WAITERS | HANDOFF) == 0 {
            self.own_as_reader();
        } else {
            self.read_slow(count);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Acquires the lock for writing, spinning or blocking until it is available.
    #[inline]
    pub fn down_write(&self) {
        if !self.take_free() {
            self.write_slow();
        }
        self.own();
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn down_write_trylock(&self) -> bool {
        let taken = self.take_free();
        if taken {
            self.own();
        }
        taken
    }

    /// 0 -> WRITER.
    #[inline]
    fn take_free(&self) -> bool {
        // Acquire pairs with the releases in `up_read` and `up_write`.
        self.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    #[inline]
    fn own(&self) {
        // Relaxed: a hint for spinners.
        self.owner.store(P::current(), Relaxed);
        P::happened(LockEvent::Acquired, self);
    }

    /// Readers own the lock; that writers do not spin for them stays.
    #[inline]
    fn own_as_reader(&self) {
        // Relaxed: a hint for spinners.
        let slow = self.owner.load(Relaxed) == SLOW_READERS;
        // Relaxed, as above.
        self.owner.store(if slow { SLOW_READERS } else { READERS }, Relaxed);
    }

    /// Releases a lock acquired for reading.
    #[inline]
    pub fn up_read(&self) {
        P::happened(LockEvent::Released, self);
        // count -= READER. Release pairs with the acquire of the next writer; acquire because this
        // task may wake it for readers that released before.
        let count = self.count.fetch_sub(READER, AcqRel).wrapping_sub(READER);
        if count & (OWNERS | WAITERS) == WAITERS {
            self.spin_again();
            self.wake();
        }
    }

    /// Releases a lock acquired for writing.
    #[inline]
    pub fn up_write(&self) {
        P::happened(LockEvent::Released, self);
        // Relaxed: a hint for spinners.
        self.owner.store(NOBODY, Relaxed);
        // count -= WRITER. Release pairs with the acquire of the next owner.
        if self.count.fetch_sub(WRITER, Release) & WAITERS != 0 {
            self.wake();
        }
    }

    /// Returns whether a task owns the lock, or tries to read; a snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.count.load(Relaxed) & OWNERS != 0
    }

    /// Adds the calling task, which saw `count` after it had counted itself as a reader.
    #[cold]
    #[inline(never)]
    fn read_slow(&self, count: u32) {
        // Relaxed: a hint.
        let owner = self.owner.load(Relaxed);
        let first = count / READER == 1;
        // A constant stream of readers would starve the first waiter.
        let follows = matches!(owner, READERS | SLOW_READERS) && !first && count & WRITER == 0;
        if !follows && count & (WRITER | HANDOFF) == 0 {
            self.own_as_reader();
            if first && count & WAITERS != 0 {
                self.share();
            }
            return;
        }
        P::happened(LockEvent::Contended, self);
        let waiter = new_waiter(true);
        let flags = self.lock.lock_irqsave();
        let alone = self.sleepers.is_empty();
        // Acquire pairs with the release in `up_write`.
        if alone && self.count.load(Acquire) & WRITER == 0 {
            self.lock.unlock_irqrestore(flags);
            return self.own_as_reader();
        }
        // SAFETY: the inner lock is held; the record stays on this stack until the grant has
        // removed it, which `sleep_until_woken` waits for.
        unsafe { self.sleepers.push(&waiter) };
        waiter.prepare();
        // Removes this reader's contribution, and adds the queue's. Acquire pairs with the
        // releases, because a lock found free is granted below.
        let change = READER.wrapping_neg().wrapping_add(if alone { WAITERS } else { 0 });
        let count = self.count.fetch_add(change, Acquire).wrapping_add(change);
        let roused = self.rouse_if_free(count);
        self.lock.unlock_irqrestore(flags);
        roused.wake();
        waiter.sleep_until_woken();
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) {
        P::happened(LockEvent::Contended, self);
        if self.spin() {
            return;
        }
        let waiter = new_waiter(false);
        let flags = self.lock.lock_irqsave();
        // SAFETY: the inner lock is held; the record stays on this stack until `take_queued`
        // removes it.
        unsafe { self.sleepers.push(&waiter) };
        if waiter.is_first() {
            // Relaxed: only taking the lock orders.
            self.count.fetch_or(WAITERS, Relaxed);
        } else {
            // Relaxed, as above.
            self.rouse_if_free(self.count.load(Relaxed)).wake();
        }
        while !self.take_queued(&waiter) {
            waiter.prepare();
            let asked = waiter.owed.get();
            self.lock.unlock_irqrestore(flags);
            if !(asked && self.spin_once()) {
                waiter.sleep(Sleep::Uninterruptible, None);
            }
            self.lock.lock_irqsave();
        }
        self.lock.unlock_irqrestore(flags);
    }

    /// Under the inner lock, with the writer `waiter` queued: acquires the lock if no task owns it
    /// and it is handed to no other waiter, or asks for a handoff after a long wait. Returns
    /// whether it acquired the lock, and removed `waiter`.
    fn take_queued(&self, waiter: &Waiter<P>) -> bool {
        // SAFETY: the inner lock is held until the end of this function, here and below.
        let first = unsafe { self.sleepers.front() }.unwrap_or(waiter);
        let alone = self.sleepers.is_single();
        // Relaxed: the look orders nothing.
        let mut count = self.count.load(Relaxed);
        loop {
            let asked = count & HANDOFF != 0;
            if asked && first.owed.get() && !waiter.is_first() {
                return false;
            }
            let free = count & OWNERS == 0;
            if !free && (asked || !is_late(waiter)) {
                return false;
            }
            let next = match (free, alone) {
                (false, _) => count | HANDOFF,
                (true, false) => (count | WRITER) & !HANDOFF,
                (true, true) => WRITER,
            };
            // Acquire pairs with the releases in `up_read` and `up_write`.
            match self.count.compare_exchange(count, next, Acquire, Relaxed) {
                Ok(_) if free => break,
                Ok(_) => {
                    first.owed.set(true);
                    return false;
                }
                Err(now) => count = now,
            }
        }
        if !waiter.is_first() {
            P::event(LockEvent::Stolen, self, waiter.task);
        }
        // SAFETY: no other task removes a writer's record (I4).
        unsafe { self.sleepers.remove(waiter) };
        true
    }
}

/// The time in microseconds, which wraps.
fn now_us<P: Platform>() -> u32 {
    (P::now() / 1000) as u32
}

/// Returns a record of the calling task that waits from now on.
fn new_waiter<P: Platform>(reader: bool) -> Waiter<P> {
    let waiter = Waiter::new(reader);
    waiter.since.set(now_us::<P>());
    waiter
}

/// Returns whether `waiter` has waited long enough to ask for a handoff.
fn is_late<P: Platform>(waiter: &Waiter<P>) -> bool {
    P::is_late(now_us::<P>().wrapping_sub(waiter.since.get()) > PATIENCE_US)
}

locks_by! {
    [P: Platform, L: RawLock<P> + Default] HandoffRwSemaphore<P, L>,
        down_write down_write_trylock up_write / down_read up_read {}
}

#[cfg(test)]
mod tests;
