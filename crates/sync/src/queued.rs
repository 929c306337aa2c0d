//! [`QueuedLock`]: a spinlock whose waiters queue, each looking at a line of its own.
//!
//! Use it as [`TicketLock`](crate::TicketLock), where many CPUs wait at once. Not where a waiter
//! may lose its CPU: those behind it wait for its next turn on one.
//!
//! ## States
//!
//! | `locked` | queue | meaning |
//! |---|---|---|
//! | 0 | empty | free |
//! | 1 | empty | held, nobody waits |
//! | 1 | somebody | held; the head of the queue looks at `locked`, the others at their nodes |
//! | 0 | somebody | just released: the head takes it next |
//!
//! ## Transitions
//!
//! ```text
//! lock     queue empty and locked: 0 -> 1; else queue, be the head, wait for 0, 0 -> 1, leave
//! unlock   locked: 1 -> 0
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 A task that finds somebody in the queue does not take the lock before them.
//!
//! ## Memory ordering
//!
//! The release store of `unlock` pairs with the acquire exchange that takes the lock. The queue
//! orders nothing for the section; its own orderings are those of [`McsQueue`].
//!
//! ## Progress and fairness
//!
//! First come, first served, with one exception: who saw an empty queue may still take the lock
//! when others have queued meanwhile. It came before them, and does so once.
//!
//! ## Cost
//!
//! 16 bytes and a line on each waiter's stack. Uncontended: one look and one locked operation in
//! one line, one plain store to give back. Contended: a hand-over moves the line to the head of the
//! queue alone, and another one wakes the next head.
//!
//! ## Lineage
//!
//! Linux 4.2, `queued_spin_lock_slowpath` in kernel/locking/qspinlock.c (commit a33fda35e3a7).
//! Difference: the queue has a word of its own instead of half of one, from which the exception
//! follows, and there is no bit for the first waiter alone.

use crate::event::LockEvent;
use crate::lock::RawLock;
use crate::mcs::{McsQueue, SpinQueue};
use crate::platform::{Atomic, Platform};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// See the module documentation.
#[repr(C)]
pub struct QueuedLock<P: Platform> {
    locked: P::AtomicU32,
    queue: McsQueue<P>,
}

impl<P: Platform> QueuedLock<P> {
    /// 0 -> 1; whether it was 0.
    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
    }
}

impl<P: Platform> Default for QueuedLock<P> {
    fn default() -> Self {
        Self { locked: P::AtomicU32::new(UNLOCKED), queue: McsQueue::new() }
    }
}

impl<P: Platform> RawLock<P> for QueuedLock<P> {
    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        if !self.queue.is_empty() || !self.take() {
            P::happened(LockEvent::Contended, self);
            self.queue.at_head(|| {
                loop {
                    P::spin_until(&self.locked, |locked| locked == UNLOCKED);
                    if self.take() {
                        break;
                    }
                }
            });
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        P::preempt_disable();
        let taken = self.queue.is_empty() && self.take();
        if taken {
            P::happened(LockEvent::Acquired, self);
        } else {
            P::preempt_enable();
        }
        taken
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // 1 -> 0. Release pairs with the acquire in `take`.
        self.locked.store(UNLOCKED, Release);
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.locked.load(Relaxed) == LOCKED
    }

    #[inline]
    fn is_contended(&self) -> bool {
        !self.queue.is_empty()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::native::Native;

    #[test]
    fn nobody_passes_the_queue_though_the_lock_is_free() {
        let lock = QueuedLock::<Native>::default();
        let entered = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Who is at the head of the queue has not taken the lock yet.
            lock.queue.at_head(|| {
                assert!(!lock.try_lock(), "an attempt passes it");
                scope.spawn(|| {
                    lock.lock();
                    // Relaxed, as below: one flag.
                    entered.store(true, Relaxed);
                    lock.unlock();
                });
                // It may not have come yet; it must not have passed.
                for _ in 0..1000 {
                    std::thread::yield_now();
                }
                assert!(!entered.load(Relaxed), "a newcomer passes it");
            });
        });
        // Relaxed: the thread was waited for.
        assert!(entered.load(Relaxed) && lock.try_lock());
    }
}
