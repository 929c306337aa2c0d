//! [`SpinnerQueue`]: a queue of spinners that may leave it, as the kernel's `osq_lock`.
//!
//! Use it where waiters that hold no CPU for themselves spin one after the other: only the head
//! reads the lock, each other spinner reads a separate line, and a spinner whose CPU is wanted
//! leaves from the middle. [`McsQueue`](crate::McsQueue) is smaller, and its members cannot leave.
//!
//! ## States
//!
//! | record | meaning |
//! |---|---|
//! | in no queue | its task does not spin |
//! | first | its task is the head |
//! | behind others, asleep | its task spins until its predecessor leaves |
//! | behind others, woken | does not occur while the inner lock is free |
//!
//! ## Transitions
//!
//! ```text
//! enter    queue; if others were there spin until first, or until the CPU is wanted: then unlink
//! leave    unlink; notify the new head
//! ```
//!
//! ## Invariants
//!
//! - O1 At most one task is the head: the first record, once its task has been notified or was
//!   alone.
//! - O2 A record is linked from `enter` to `leave`, or to the end of an `enter` that failed.
//!
//! ## Memory ordering
//!
//! The inner lock orders the records. The word that notifies the next head pairs a release with an
//! acquire, for nothing but the record.
//!
//! ## Progress and fairness
//!
//! First come, first served among spinners that stay.
//!
//! ## Cost
//!
//! 24 bytes in the lock and a line on each spinner's stack. Two locked operations on the line of
//! the lock to enter and one to leave; a hand-over moves one more line.
//!
//! ## Lineage
//!
//! Linux 3.15 to 3.16, `osq_lock` in `kernel/locking/mcs_spinlock.c` (commit fb0527bd5ea9).
//! Difference: that queue is linked without a lock through records that belong to CPUs and are
//! never freed; here records are on stacks, which another task must not access after they are left,
//! so a ticket lock guards the links. The line of the lock moves twice for each spinner that
//! arrives; the kernel's moves once.

use crate::lock::RawLock;
use crate::platform::Platform;
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;

/// See the module documentation.
#[repr(C)]
pub struct SpinnerQueue<P: Platform> {
    lock: TicketLock<P>,
    queue: Queue<P>,
}

impl<P: Platform> SpinnerQueue<P> {
    /// Returns a queue without spinners.
    pub(crate) fn new() -> Self {
        Self { lock: TicketLock::default(), queue: Queue::new() }
    }

    /// Runs `body` as the head. Returns `None` if the CPU was wanted before that.
    pub(crate) fn at_head<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let me = Waiter::new(false);
        if !self.enter(&me) {
            return None;
        }
        let result = body();
        self.lock.lock();
        // SAFETY: the inner lock is held, and the record is linked until here (O2).
        unsafe { self.queue.remove(&me) };
        // SAFETY: the inner lock is held.
        let next = unsafe { self.queue.front() };
        if let Some(next) = next {
            // SAFETY: it was found in the queue, under the inner lock. It spins: no task sleeps.
            let _spins = unsafe { Waiter::rouse(next.into()) };
        }
        self.lock.unlock();
        Some(result)
    }

    fn enter(&self, me: &Waiter<P>) -> bool {
        self.lock.lock();
        // SAFETY: the inner lock is held; the record stays on the stack of `at_head` until it is
        // removed there or below.
        unsafe { self.queue.push(me) };
        let first = me.is_first();
        if !first {
            me.prepare();
        }
        self.lock.unlock();
        if first || me.spin_until_woken(P::need_resched) {
            return true;
        }
        self.lock.lock();
        let told = me.is_woken();
        if !told {
            // SAFETY: the inner lock is held, and no other task removes this record (O2).
            unsafe { self.queue.remove(me) };
        }
        self.lock.unlock();
        told
    }
}
