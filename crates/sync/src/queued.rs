//! [`QueuedLock`]: a spinlock whose waiters queue, each spinning on a separate cache line.
//!
//! Use it like [`TicketLock`](crate::TicketLock), where many CPUs wait concurrently. Not where a
//! waiter may lose its CPU: those behind it wait for its next turn on one.
//!
//! ## States
//!
//! `word` has flags; `held` is 1 while a task that has queued owns the lock, 0 otherwise.
//!
//! | flag | meaning |
//! |---|---|
//! | `LOCKED` | a task owns the lock |
//! | `PENDING` | one waiter outside the queue takes the lock next |
//! | `QUEUED` | tasks queue, or a task that has queued owns the lock |
//!
//! ## Transitions
//!
//! ```text
//! lock     word: 0 -> LOCKED
//!          LOCKED -> LOCKED + PENDING     wait for the owner, then PENDING -> LOCKED
//!          anything else: queue, add QUEUED, at the head wait for QUEUED alone and held = 0, then
//!          held: 0 -> 1; the last of the queue then removes QUEUED, adds LOCKED, and held: 1 -> 0
//! unlock   held: 1 -> 0, or if it is 0 remove LOCKED
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`. While it is, `LOCKED` is set or `held` is
//!   1.
//! - I2 While `PENDING` or `QUEUED` is set, no newcomer adds `LOCKED`.
//! - I3 `held` is written by the owner and by the head of the queue that becomes the owner, and is
//!   1 only while `QUEUED` is set or the owner removes it.
//!
//! ## Memory ordering
//!
//! The release operations of `unlock` pair with the acquire operations that add `LOCKED` and with
//! the acquire of the reads that precede the others. The queue orders nothing for the critical
//! section; [`McsQueue`] describes its orderings.
//!
//! ## Progress and fairness
//!
//! First come, first served, with one exception: newcomers may pass the queue between the exchange
//! that makes a task its head and the addition of `QUEUED`, and between the removal of `QUEUED` by
//! the last one and its addition by the next.
//!
//! ## Cost
//!
//! 16 bytes and a line on each queued waiter's stack. Uncontended: one locked operation to acquire
//! and one to release. Contended: a hand-over moves the line to the head of the queue alone, by two
//! plain stores, and another one wakes the next head. A single waiter does not queue, and
//! only the line moves.
//!
//! ## Lineage
//!
//! Linux 4.2, `queued_spin_lock_slowpath` in kernel/locking/qspinlock.c (commits a33fda35e3a7 and
//! c1fb159db9f2, the pending bit). Differences: there flags and the end of the queue share one
//! word, and the owner stores to a byte of it. Here the end of the queue and `held`, which replaces
//! that byte after tasks have queued, are separate words on the same line. The exception follows
//! from this. The release is a locked operation if no task has queued.

use crate::event::LockEvent;
use crate::lock::{RawLock, attempt};
use crate::mcs::{McsQueue, SpinQueue};
use crate::platform::{Atomic, Platform};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LOCKED: u32 = 1;
const PENDING: u32 = 2;
const QUEUED: u32 = 4;

/// See the module documentation.
#[repr(C)]
pub struct QueuedLock<P: Platform> {
    word: P::AtomicU32,
    held: P::AtomicU32,
    queue: McsQueue<P>,
}

impl<P: Platform> QueuedLock<P> {
    /// 0 -> LOCKED. Returns the flags that prevented it.
    #[inline]
    fn take(&self) -> Result<u32, u32> {
        // Acquire pairs with the release in `unlock`.
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed)
    }

    #[cold]
    fn lock_slow(&self, seen: u32) {
        P::happened(LockEvent::Contended, self);
        if seen == LOCKED && self.lock_pending() {
            return;
        }
        if self.queue.pass(|| self.take_at_head()) {
            // -QUEUED, +LOCKED. Relaxed: the head has acquired; the owner stays the same.
            self.word.fetch_sub(QUEUED - LOCKED, Relaxed);
            // Release: a task that sees it sees LOCKED.
            self.held.store(0, Release);
        }
    }

    /// Waits outside the queue if no other task waits. Returns whether it acquired the lock.
    fn lock_pending(&self) -> bool {
        // Acquire pairs with the release in `unlock`, if the lock is free already.
        let before = self.word.fetch_or(PENDING, Acquire);
        if before & (PENDING | QUEUED) != 0 {
            if before & PENDING == 0 {
                // Others queue: they are served first. Relaxed: a flag that orders nothing.
                self.word.fetch_and(!PENDING, Relaxed);
            }
            return false;
        }
        if before & LOCKED != 0 {
            // The acquire of the last look pairs with the release in `unlock`.
            P::spin_until(&self.word, |word| word & LOCKED == 0);
        }
        // PENDING -> LOCKED: no other task adds LOCKED while PENDING is set (I2), and a head of the
        // queue waits for it. Relaxed: the operations above have acquired.
        self.word.fetch_sub(PENDING - LOCKED, Relaxed);
        true
    }

    /// As the head of the queue: held: 0 -> 1.
    fn take_at_head(&self) {
        let is_free = |word: u32| word & (LOCKED | PENDING) == 0;
        loop {
            // The acquires of the last looks pair with the releases in `unlock`. The last one of
            // the queue before may still remove the flag.
            let word = P::spin_until(&self.word, |word| is_free(word) || word & QUEUED == 0);
            if word & QUEUED == 0 {
                // Relaxed: a flag that orders nothing.
                self.word.fetch_or(QUEUED, Relaxed);
                continue;
            }
            P::spin_until_is(&self.held, 0);
            // The last one of the queue before may have become LOCKED before `held` was 0. If not,
            // QUEUED keeps newcomers out from here on. Relaxed: the look before has acquired.
            let word = self.word.load(Relaxed);
            if is_free(word) && word & QUEUED != 0 {
                // Relaxed: the looks have acquired. Only the head may write (I3).
                return self.held.store(1, Relaxed);
            }
        }
    }
}

impl<P: Platform> Default for QueuedLock<P> {
    fn default() -> Self {
        let word = || P::AtomicU32::new(0);
        Self { word: word(), held: word(), queue: McsQueue::new() }
    }
}

impl<P: Platform> RawLock<P> for QueuedLock<P> {
    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        if let Err(seen) = self.take() {
            self.lock_slow(seen);
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        attempt::<P>(self, || self.take().is_ok())
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // Relaxed: only the owner and those that become it write `held` (I3).
        if self.held.load(Relaxed) == 1 {
            // Release pairs with the acquire of the next head.
            self.held.store(0, Release);
        } else {
            // -LOCKED. Release pairs with the acquire operations that add it.
            self.word.fetch_sub(LOCKED, Release);
        }
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.word.load(Relaxed) & LOCKED != 0 || self.held.load(Relaxed) == 1
    }

    #[inline]
    fn is_contended(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.word.load(Relaxed) & PENDING != 0 || !self.queue.is_empty()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::native::Native;

    #[test]
    fn newcomers_do_not_pass_a_waiter_though_the_lock_is_free() {
        let lock = QueuedLock::<Native>::default();
        let entered = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The owner has left, and the first waiter has not acquired the lock yet. Relaxed, as
            // below: one word, and one flag.
            lock.word.store(PENDING, Relaxed);
            assert!(!lock.try_lock(), "an attempt passes it");
            scope.spawn(|| {
                lock.lock();
                // Relaxed, as above.
                entered.store(true, Relaxed);
                lock.unlock();
            });
            // It may not have come yet; it must not have passed.
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            // Relaxed, as above.
            assert!(!entered.load(Relaxed), "a newcomer passes it");
            // Relaxed, as above.
            lock.word.fetch_sub(PENDING - LOCKED, Relaxed);
            lock.unlock();
        });
        // Relaxed: the thread was waited for.
        assert!(entered.load(Relaxed) && lock.try_lock());
        // Relaxed, as above.
        assert_eq!(lock.word.load(Relaxed), LOCKED, "no flag stays behind");
    }
}
