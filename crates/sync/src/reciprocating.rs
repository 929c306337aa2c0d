//! [`ReciprocatingLock`]: a spinlock whose waiters push themselves on a stack, and are served a
//! stack at a time.
//!
//! Use it as [`QueuedLock`](crate::QueuedLock), where many CPUs wait: each waiter spins on a
//! separate line, an arrival is one exchange, and a release writes one line. Not where waiters must
//! be served in order of arrival, and not where a waiter may lose its CPU: those behind it wait for
//! its next turn on one.
//!
//! ## States
//!
//! | `arrivals` | meaning |
//! |---|---|
//! | 0 | free |
//! | 1 | owned; no task has arrived since the owner's segment began |
//! | a node | owned; the node is the last arrival, or the owner's that found the lock free |
//!
//! A *segment* is a stack of waiters that was detached from `arrivals`. `next` is the node that the
//! owner serves next, `end` the value of `arrivals` when the segment began, both 0 or 1 or a node.
//!
//! ## Transitions
//!
//! ```text
//! lock     arrivals: 0 -> 1              next = 0, end = 1
//!          arrivals: any -> me           before was 0: next = 0, end = me
//!                                        else spin until my gate opens with `end`; next = before,
//!                                        but if before is 1 or `end`: next = 0, end = 1
//! unlock   next > 0:                     open the gate of `next` with `end`
//!          else arrivals: end -> 0
//!          or, if others have arrived:   arrivals: last -> 1, open the gate of `last` with `end`
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`; it alone uses `next` and `end`.
//! - I2 A node whose gate is closed is alive, because its task spins on it. `end` is compared and
//!   never dereferenced: its task has left.
//! - I3 `arrivals` is 0 only while no task owns the lock or waits.
//!
//! ## Memory ordering
//!
//! The release store to a gate pairs with the acquire of its spinner, the release exchange that
//! frees the lock with the acquire exchanges of `lock`. An exchange of `arrivals` that finds a node
//! pairs with the exchange that put it there.
//!
//! ## Progress and fairness
//!
//! The last arrival of a segment is served first. A task that arrives while a segment is served
//! joins the next one, so each other task passes a waiter at most once, and no task acquires the
//! lock past the waiters.
//!
//! ## Cost
//!
//! 24 bytes and a line on the stack of each waiter. Uncontended: one locked operation to acquire
//! and one to release. Contended: one to acquire, and a store to release, except for one exchange
//! in each segment.
//!
//! ## Lineage
//!
//! Dice and Kogan, "Reciprocating Locks", `PPoPP` 2025. Differences: the first attempt is a
//! compare-exchange, `next` and `end` are in the lock instead of in the caller, and a gate is a
//! flag next to the value that it passes on.

use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart, attempt};
use crate::platform::{Access, Atomic, Platform};
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const FREE: usize = 0;
/// The lock is owned, and no task has arrived.
const EMPTY: usize = 1;
/// No task is next.
const NOBODY: usize = 0;

/// See the module documentation.
#[repr(C)]
pub struct ReciprocatingLock<P: Platform> {
    arrivals: P::AtomicUsize,
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: the cells are used by the owner only (I1); the word is an atomic of the platform.
unsafe impl<P: Platform> Sync for ReciprocatingLock<P> where P::AtomicUsize: Sync {}

/// A waiter, on a separate cache line.
#[repr(C, align(64))]
struct Node<P: Platform> {
    gate: P::AtomicU32,
    /// Written before the gate opens.
    end: Cell<usize>,
}

impl<P: Platform> ReciprocatingLock<P> {
    /// 0 -> 1. Returns whether the lock was free.
    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        let taken = self.arrivals.compare_exchange(FREE, EMPTY, Acquire, Relaxed).is_ok();
        if taken {
            self.next.set(NOBODY);
            self.end.set(EMPTY);
        }
        taken
    }

    /// Arrives, and waits for the lock.
    #[cold]
    fn lock_slow(&self) {
        P::happened(LockEvent::Contended, self);
        let me = Node::<P> { gate: P::AtomicU32::new(0), end: Cell::new(EMPTY) };
        P::touch(&me, Access::Fresh);
        let mine = core::ptr::from_ref(&me).expose_provenance();
        // Acquire pairs with the release in `unlock`; release makes the node visible.
        let before = self.arrivals.swap(mine, AcqRel);
        if before == FREE {
            self.next.set(NOBODY);
            return self.end.set(mine);
        }
        P::spin_until_is(&me.gate, 1);
        let end = me.end.get();
        let is_last = before == EMPTY || before == end;
        self.next.set(if is_last { NOBODY } else { before });
        self.end.set(if is_last { EMPTY } else { end });
    }

    /// Makes the task of the node at `address` the owner.
    fn open(address: usize, end: usize) {
        let node: *const Node<P> = core::ptr::with_exposed_provenance(address);
        // SAFETY: its task spins on the gate (I2), and may leave once it is open; the node is not
        // used afterwards.
        let node = unsafe { &*node };
        node.end.set(end);
        // Release pairs with the acquire of the spinner.
        node.gate.store(1, Release);
    }
}

impl<P: Platform> Default for ReciprocatingLock<P> {
    fn default() -> Self {
        let (next, end) = (Cell::new(NOBODY), Cell::new(EMPTY));
        Self { arrivals: P::AtomicUsize::new(FREE), next, end }
    }
}

impl<P: Platform> RawLock<P> for ReciprocatingLock<P> {
    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        if !self.take() {
            self.lock_slow();
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        attempt::<P>(self, || self.take())
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        let (next, end) = (self.next.get(), self.end.get());
        if next != NOBODY {
            Self::open(next, end);
            return P::preempt_enable();
        }
        // Release pairs with the acquire exchanges of `lock`.
        if self.arrivals.compare_exchange(end, FREE, Release, Relaxed).is_err() {
            // Acquire pairs with the exchange of the last arrival. No release: a task that finds
            // the stack empty follows no pointer, and waits until its gate is opened.
            let last = self.arrivals.swap(EMPTY, Acquire);
            Self::open(last, end);
        }
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.arrivals.load(Relaxed) != FREE
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("arrivals"));
        tell(offset_of!(Self, next), format_args!("next"));
        tell(offset_of!(Self, end), format_args!("end"));
    }
}
