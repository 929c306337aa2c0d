//! [`SpinRwSemaphore`]: the sleeping reader/writer lock of Linux 3.16 to 5.1, whose writers spin
//! while a writer runs, and steal. [`WriterSpin`] has the rules that changed in between.
//!
//! Use it to model those kernels, and where critical sections are short and writers many. Readers
//! never spin; they starve if writers keep arriving.
//!
//! ## States
//!
//! `count` is the sum of these contributions, in two's complement; the queue is guarded by the
//! inner lock.
//!
//! | contribution | of |
//! |---|---|
//! | 1 | each reader, and each task that is about to find out that it is none |
//! | `WRITER` = -2^16 + 1 | the writer, and each task that is about to find out that it is none |
//! | `WAITING` = -2^16 | the queue, if it is not empty |
//!
//! | `owner` | meaning |
//! |---|---|
//! | a task | that writer, a hint for spinners |
//! | readers | readers, or free since the last of them released it; with [`Spin50`] only |
//! | none | free, or readers with [`Spin316`], or a writer for a moment |
//!
//! ## Transitions
//!
//! ```text
//! read     count += 1; negative: count -= 1, queue, sleep until granted
//! write    count += WRITER; if that makes anything but WRITER: undo, spin, queue
//! spin     if a writer is visible and runs, or with `Spin50` no reader is visible: in turn, while
//!          that holds; take 0 or WAITING by adding WRITER; ends when the CPU is wanted
//! queue    the first in count adds WAITING; woken: WAITING -> WRITER (+ WAITING if others queue)
//! unlock   take the contribution back; negative, and no task active: wake; with `Spin50` not if a
//!          task spins and another one has the inner lock
//! wake     first is a writer: wake it, it stays queued     first are readers: grant all of them
//! ```
//!
//! ## Invariants
//!
//! - I1 A writer owns the lock alone.
//! - I2 While the inner lock is free, `WAITING` is part of `count` exactly when the queue is not
//!   empty.
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
//! Newcomers that write, and spinners, take the lock past all queued tasks without limit. Readers
//! wait behind queued tasks. The queue is in arrival order, readers in a row together.
//!
//! ## Cost
//!
//! 64 bytes with the ticket lock. Uncontended: one locked operation each to acquire and to release.
//!
//! ## Lineage
//!
//! Linux 3.16, kernel/locking/rwsem-xadd.c: spinning of commit 4fc828e24cd9, not while readers own
//! the lock from commit 37e9562453b8 on; stealing from 3.10. [`Spin50`] adds commits 1a99367023f6
//! and 9198f6edfd9c (4.1: spinners stay without an owner, and after it changes), 59aabfc7e959 (4.2:
//! no wakeup while a task spins), 19c5d690e416 (4.8: readers are owners) and 925b9cd1b89a (4.20:
//! each reader writes the owner). Differences: the halves of `count` have 16 bits, as on 32-bit
//! machines, so at most 32767 tasks can be readers concurrently; readers in a row are granted by
//! one operation each instead of one for all; a woken writer tries again under the inner lock, not
//! before it; the queue of spinners is `SpinnerQueue`, or with [`Spin50`] `McsQueue`, which no
//! spinner leaves before its turn.

mod rules;

use crate::event::LockEvent;
use crate::lock::{RawLock, locks_by};
use crate::platform::{Access, Atomic, Platform, Sleep, TaskId};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
pub use rules::{Spin50, Spin316, WriterQueue, WriterSpin};

const READER: u32 = 1;
const ACTIVE: u32 = 0xffff;
const WAITING: u32 = 0xffff_0000;
const WRITER: u32 = WAITING + READER;
/// No task: the owner of a lock without a writer.
const NOBODY: TaskId = TaskId::MAX;
/// Readers: the owner of a lock that a reader was the last to acquire.
const READERS: TaskId = TaskId::MAX - 1;

/// Returns whether the queue or a writer contributes to `count`.
fn negative(count: u32) -> bool {
    count.cast_signed() < 0
}

/// Returns whether a writer may take it past the queue.
fn is_free(count: u32) -> bool {
    count == 0 || count == WAITING
}

/// Which waiters a wake is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    First,
    FirstReaders,
}

/// The sleeping reader/writer lock whose writers spin. See the module documentation.
#[repr(C)]
pub struct SpinRwSemaphore<P: Platform, L: RawLock<P> = TicketLock<P>, R: WriterSpin<P> = Spin316> {
    count: P::AtomicU32,
    owner: P::AtomicU32,
    lock: L,
    sleepers: Queue<P>,
    spinners: R::Spinners,
}

// SAFETY: the queues are used only while their inner locks are held; the words are atomics of the
// platform, which are `Sync` by the bound.
unsafe impl<P: Platform<AtomicU32: Sync>, L: RawLock<P> + Sync, R: WriterSpin<P>> Sync
    for SpinRwSemaphore<P, L, R>
{
}
// SAFETY: a lock that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform<AtomicU32: Send>, L: RawLock<P> + Send, R: WriterSpin<P>> Send
    for SpinRwSemaphore<P, L, R>
{
}

impl<P: Platform, L: RawLock<P> + Default, R: WriterSpin<P>> Default for SpinRwSemaphore<P, L, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, L: RawLock<P> + Default, R: WriterSpin<P>> SpinRwSemaphore<P, L, R> {
    /// Returns an unlocked lock.
    pub fn new() -> Self {
        Self::with_lock(L::default())
    }
}

impl<P: Platform, L: RawLock<P>, R: WriterSpin<P>> SpinRwSemaphore<P, L, R> {
    /// Returns an unlocked lock around `lock`, its inner lock, which is free.
    pub fn with_lock(lock: L) -> Self {
        Self {
            count: P::AtomicU32::new(0),
            owner: P::AtomicU32::new(NOBODY),
            lock,
            sleepers: Queue::new(),
            spinners: R::Spinners::new(),
        }
    }

    /// Acquires the lock for reading, blocking until it is available.
    #[inline]
    pub fn down_read(&self) {
        // count += 1. Acquire pairs with the release in `up_write`.
        if negative(self.count.fetch_add(READER, Acquire).wrapping_add(READER)) {
            self.read_slow();
        }
        if R::READERS_OWN {
            // Relaxed: a hint for spinners.
            self.owner.store(READERS, Relaxed);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Acquires the lock for writing, spinning or blocking until it is available.
    #[inline]
    pub fn down_write(&self) {
        // count += WRITER. Acquire pairs with the releases in `up_read` and `up_write`.
        if self.count.fetch_add(WRITER, Acquire) != 0 {
            self.write_slow();
        }
        self.own();
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn down_write_trylock(&self) -> bool {
        // 0 -> WRITER. Acquire pairs with the releases in `up_read` and `up_write`.
        let taken = self.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok();
        if taken {
            self.own();
        }
        taken
    }

    #[inline]
    fn own(&self) {
        // Relaxed: a hint for spinners.
        self.owner.store(P::current(), Relaxed);
        P::happened(LockEvent::Acquired, self);
    }

    /// Releases a lock acquired for reading.
    #[inline]
    pub fn up_read(&self) {
        P::happened(LockEvent::Released, self);
        // count -= 1. Release pairs with the acquire of the next writer; acquire because this task
        // may wake it for readers that released before.
        let count = self.count.fetch_sub(READER, AcqRel).wrapping_sub(READER);
        if negative(count) && count & ACTIVE == 0 {
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
        let count = self.count.fetch_sub(WRITER, Release).wrapping_sub(WRITER);
        if negative(count) {
            self.wake();
        }
    }

    /// Returns whether a task owns the lock, or tries to; a snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.count.load(Relaxed) & ACTIVE != 0
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self) {
        let waiter = Waiter::new(true);
        let flags = self.lock.lock_irqsave();
        let alone = self.sleepers.is_empty();
        // SAFETY: the inner lock is held; the record stays on this stack until the grant has
        // removed it, which `sleep_until_woken` waits for.
        unsafe { self.sleepers.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        waiter.prepare();
        // Removes this reader's contribution, and adds the queue's. Acquire pairs with the
        // releases, because a lock found free is granted below.
        let change = READER.wrapping_neg().wrapping_add(if alone { WAITING } else { 0 });
        let count = self.count.fetch_add(change, Acquire).wrapping_add(change);
        let readers_only = alone && count.cast_signed() > WAITING.cast_signed();
        if count == WAITING || readers_only {
            self.wake_locked(Whom::First);
        }
        self.lock.unlock_irqrestore(flags);
        waiter.sleep_until_woken();
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) {
        // Removes this writer's contribution. Relaxed: nothing was done under the lock.
        self.count.fetch_sub(WRITER, Relaxed);
        P::happened(LockEvent::Contended, self);
        P::preempt_disable();
        let taken = self.spin();
        P::preempt_enable();
        if taken {
            return;
        }
        if R::READERS_OWN {
            // Pairs with the fence in `wake`.
            P::fence(SeqCst);
        }
        let waiter = Waiter::new(false);
        let flags = self.lock.lock_irqsave();
        let alone = self.sleepers.is_empty();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { self.sleepers.push(&waiter) };
        if alone {
            // The queue counts. Relaxed: only taking the lock orders.
            self.count.fetch_add(WAITING, Relaxed);
        } else if self.count.load(Relaxed).cast_signed() > WAITING.cast_signed() {
            // Readers own the lock: those in front of the queue may join them.
            self.wake_locked(Whom::FirstReaders);
        }
        while !self.take_queued() {
            waiter.prepare();
            self.lock.unlock_irqrestore(flags);
            waiter.sleep(Sleep::Uninterruptible, None);
            self.lock.lock_irqsave();
        }
        if !waiter.is_first() {
            P::event(LockEvent::Stolen, self, waiter.task);
        }
        // SAFETY: the inner lock is held, and no other task removes a writer's record (I4).
        unsafe { self.sleepers.remove(&waiter) };
        if self.sleepers.is_empty() {
            // The queue counts no more. Relaxed: as above.
            self.count.fetch_sub(WAITING, Relaxed);
        }
        self.lock.unlock_irqrestore(flags);
    }

    /// Under the inner lock, with the caller queued: WAITING -> WAITING + WRITER.
    fn take_queued(&self) -> bool {
        // Relaxed: the look orders nothing. Acquire pairs with the releases in `up_read` and
        // `up_write`.
        self.count.load(Relaxed) == WAITING
            && self
                .count
                .compare_exchange(WAITING, WAITING.wrapping_add(WRITER), Acquire, Relaxed)
                .is_ok()
    }

    /// Acquires the lock past the queue if no task owns it. Returns whether it did.
    fn steal(&self) -> bool {
        // Relaxed: the look orders nothing.
        let mut count = self.count.load(Relaxed);
        while is_free(count) {
            let with = count.wrapping_add(WRITER);
            // count += WRITER. Acquire pairs with the releases in `up_read` and `up_write`.
            match self.count.compare_exchange(count, with, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Spins while that promises the lock soon. Returns whether it acquired the lock.
    fn spin(&self) -> bool {
        // Relaxed: a hint.
        let owner = self.owner.load(Relaxed);
        let promising = match owner {
            // Readers may own it, and no spinner can watch them.
            NOBODY => R::READERS_OWN,
            READERS => false,
            task => P::on_cpu(task),
        };
        promising
            && !P::need_resched()
            && self.spinners.run_at_head(|| self.spin_at_head()).unwrap_or(false)
    }

    fn spin_at_head(&self) -> bool {
        loop {
            // Relaxed: a hint.
            let owner = self.owner.load(Relaxed);
            if owner == READERS || (owner != NOBODY && !self.spin_on_owner(owner)) {
                return false;
            }
            if self.steal() {
                return true;
            }
            if owner == NOBODY && P::need_resched() {
                return false;
            }
            // The lock is just being acquired or released, or readers own it.
            P::spin_until(&self.count, |count| {
                is_free(count) || self.owner.peek() != NOBODY || P::need_resched()
            });
        }
    }

    /// Spins while the writer `task` owns it and runs. Returns whether to spin further: if no
    /// writer seems to own it, or if another writer may.
    fn spin_on_owner(&self, task: TaskId) -> bool {
        let left = |now| !P::on_cpu(task) || now != task || P::need_resched();
        match P::spin_until(&self.owner, left) {
            NOBODY => true,
            READERS => false,
            // The owner may have released and acquired it again.
            now => R::READERS_OWN && (now != task || (P::on_cpu(task) && !P::need_resched())),
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        if R::READERS_OWN {
            // Pairs with the fence in `write_slow`: a spinner that is seen sees the release, or one
            // that sleeps has left the queue before and is not seen.
            P::fence(SeqCst);
        }
        if self.spinners.is_used() {
            // The spinner takes the lock, or reads its state under the inner lock before it sleeps.
            let flags = P::irq_save();
            if self.lock.try_lock() {
                self.wake_locked(Whom::First);
                self.lock.unlock();
            }
            return P::irq_restore(flags);
        }
        let flags = self.lock.lock_irqsave();
        self.wake_locked(Whom::First);
        self.lock.unlock_irqrestore(flags);
    }

    /// Under the inner lock: wakes the first writer, or makes owners of the first readers.
    fn wake_locked(&self, whom: Whom) {
        P::touch(&self.sleepers, Access::Read);
        // SAFETY: the inner lock is held until the end of this function, here and below.
        let Some(first) = (unsafe { self.sleepers.front() }) else { return };
        if !first.reader {
            // SAFETY: it was found in the queue, under the inner lock.
            if whom == Whom::First && unsafe { Waiter::wake(first.into()) } {
                P::event(LockEvent::Woken, self, first.task);
            }
            return;
        }
        if !self.admit() {
            return;
        }
        // One is admitted; the others in the row add themselves.
        let mut admitted = true;
        // SAFETY: as above.
        while let Some(waiter) = unsafe { self.sleepers.front() }.filter(|waiter| waiter.reader) {
            // SAFETY: the waiter was just found in the queue, under the inner lock.
            unsafe { self.sleepers.remove(waiter) };
            let own = if admitted { 0 } else { READER };
            let queue = if self.sleepers.is_empty() { WAITING.wrapping_neg() } else { 0 };
            admitted = false;
            if own.wrapping_add(queue) != 0 {
                // Acquire for the waiter, whose record passes it on.
                self.count.fetch_add(own.wrapping_add(queue), Acquire);
            }
            if R::READERS_OWN {
                // Relaxed: a hint for spinners.
                self.owner.store(READERS, Relaxed);
            }
            P::event(LockEvent::Handoff, self, waiter.task);
            // SAFETY: it was found in the queue, under the inner lock.
            unsafe { Waiter::wake(waiter.into()) };
        }
    }

    /// Under the inner lock, readers being first in the queue: counts one in, unless a writer owns
    /// the lock, which will wake them.
    fn admit(&self) -> bool {
        loop {
            // count += 1. Acquire pairs with the release in `up_write`.
            let before = self.count.fetch_add(READER, Acquire);
            if before.cast_signed() >= WAITING.cast_signed() {
                return true;
            }
            // A writer has stolen it, or is about to find out that it has not. Relaxed: nothing was
            // done under the lock.
            let count = self.count.fetch_sub(READER, Relaxed).wrapping_sub(READER);
            if count & ACTIVE != 0 {
                return false;
            }
        }
    }
}

locks_by! {
    [P: Platform, L: RawLock<P> + Default, R: WriterSpin<P>] SpinRwSemaphore<P, L, R>,
        down_write down_write_trylock up_write / down_read up_read {}
}
