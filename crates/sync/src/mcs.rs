//! [`McsQueue`]: the queue of Mellor-Crummey and Scott in which waiters of a
//! [`Mutex`](crate::kernel::Mutex) spin one after the other, as the kernel's `mspin_lock`.
//!
//! [`Unqueued`] has no queue: all waiters spin concurrently. [`OneSpinner`] lets one waiter spin;
//! the others sleep. Use the queue where many CPUs would read one cache line: only its head reads
//! the mutex, each other spinner reads a separate line. Not where a spinner may lose its CPU: a
//! queued spinner cannot leave, so those behind it wait for its next turn on a CPU.
//!
//! ## States
//!
//! | `tail` | `locked` of a node | `linked` of a node | meaning |
//! |---|---|---|---|
//! | 0 | – | – | no task spins |
//! | a node | 0 | 0 | the node's task arrived last and waits to be the head |
//! | the same or later | 0 | 1 | it waits, and `next` names its successor |
//! | the same or later | 1, or it found 0 | 0 or 1 | its task is the head |
//!
//! ## Transitions
//!
//! ```text
//! lock     tail: any -> me    if it was 0 I am the head; else prev.next = me, prev.linked = 1
//!                             and spin until my `locked` is 1
//! unlock   linked is 0:       tail: me -> 0, or a task arrived: spin until linked is 1
//!          linked is 1:       next.locked = 1
//! ```
//!
//! ## Invariants
//!
//! - S1 At most one task is the head.
//! - S2 A node whose task has not left is alive; a task leaves only when `tail` no longer names it
//!   and no task is about to write its `next`.
//!
//! ## Memory ordering
//!
//! The release store to `locked` pairs with the acquire of the spinner; the release store to
//! `linked` with the acquire that reads it, so `next` is seen; each exchange of `tail` with the
//! previous one, so a node is seen initialised.
//!
//! ## Progress and fairness
//!
//! First come, first served, but a head that stops spinning without the mutex queues again at the
//! tail.
//!
//! ## Cost
//!
//! 8 bytes in the mutex and a cache line on each spinner's stack. One locked operation to lock, one
//! to unlock if no task follows, one transfer of a line to hand on.
//!
//! ## Lineage
//!
//! Linux 3.10, `mspin_lock` in kernel/mutex.c (commit 2bd2c92cf07c). Difference: a separate flag
//! says that `next` is set. From 3.15 on members may leave their queue, which this one does not
//! support.

use crate::platform::{Access, Atomic, Platform};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// No node: `tail` of an empty queue.
const NOBODY: usize = 0;
const NO: u32 = 0;
const YES: u32 = 1;

/// How waiters that spin share a mutex.
pub trait SpinQueue<P: Platform> {
    /// Whether spinners queue. If they do, a waiter whose owner is not running does not start to
    /// spin.
    const QUEUE: bool = false;

    /// Returns a queue without spinners.
    fn new() -> Self;

    /// Returns whether the caller may begin to spin. If so, [`Self::leave`] follows.
    #[inline]
    fn enter(&self) -> bool {
        true
    }

    /// Called when the caller has stopped spinning.
    #[inline]
    fn leave(&self) {}

    /// Runs `body` when the caller may spin.
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R;
}

/// Without spinning.
impl<P: Platform> SpinQueue<P> for () {
    fn new() -> Self {}

    #[inline]
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// All waiters spin concurrently, as up to 3.9. The alignment keeps the rest of the mutex in one
/// line.
#[repr(align(32))]
#[derive(Debug)]
pub struct Unqueued;

impl<P: Platform> SpinQueue<P> for Unqueued {
    fn new() -> Self {
        Self
    }

    #[inline]
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// One spinner at a time; a waiter that arrives while it spins does not start to spin. Which of
/// several becomes the spinner orders nothing, and a second one would only load the line that it
/// reads.
#[repr(C)]
pub struct OneSpinner<P: Platform> {
    spinner: P::AtomicU32,
}

impl<P: Platform> SpinQueue<P> for OneSpinner<P> {
    fn new() -> Self {
        Self { spinner: P::AtomicU32::new(NO) }
    }

    #[inline]
    fn enter(&self) -> bool {
        // Relaxed: only taking the mutex orders. The look spares the line an exclusive fetch.
        self.spinner.load(Relaxed) == NO
            && self.spinner.compare_exchange(NO, YES, Relaxed, Relaxed).is_ok()
    }

    #[inline]
    fn leave(&self) {
        // Relaxed: as above.
        self.spinner.store(NO, Relaxed);
    }

    #[inline]
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// One after the other. See the module documentation.
#[repr(C)]
pub struct McsQueue<P: Platform> {
    tail: P::AtomicUsize,
}

/// A spinner in the queue, on a separate cache line.
#[repr(C, align(64))]
struct Node<P: Platform> {
    locked: P::AtomicU32,
    linked: P::AtomicU32,
    /// Written by the successor, before it sets `linked`.
    next: Cell<Option<NonNull<Self>>>,
}

impl<P: Platform> SpinQueue<P> for McsQueue<P> {
    const QUEUE: bool = true;

    fn new() -> Self {
        Self { tail: P::AtomicUsize::new(NOBODY) }
    }

    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        let me = Node::new();
        P::touch(&me, Access::Fresh);
        self.lock(&me);
        let result = body();
        self.unlock(&me);
        result
    }
}

impl<P: Platform> Node<P> {
    fn new() -> Self {
        Self { locked: P::AtomicU32::new(NO), linked: P::AtomicU32::new(NO), next: Cell::new(None) }
    }
}

impl<P: Platform> McsQueue<P> {
    /// Returns whether no task spins; a snapshot.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.tail.load(Relaxed) == NOBODY
    }

    /// Runs `body` as the head. Returns whether the queue was empty afterwards.
    pub(crate) fn pass(&self, body: impl FnOnce()) -> bool {
        let me = Node::new();
        P::touch(&me, Access::Fresh);
        self.lock(&me);
        body();
        self.unlock(&me)
    }

    fn lock(&self, me: &Node<P>) {
        let mine = core::ptr::from_ref(me).expose_provenance();
        // any -> me. Acquire and release: pairs with the exchanges before and after it.
        let prev = self.tail.swap(mine, AcqRel);
        let Some(prev) = NonNull::new(core::ptr::with_exposed_provenance_mut(prev)) else {
            return;
        };
        let prev: NonNull<Node<P>> = prev;
        // SAFETY: its task has not left: it waits in `unlock` for `linked`, which is set below
        // (S2). Its node may end as soon as it sees that, and is not used afterwards.
        let prev = unsafe { prev.as_ref() };
        prev.next.set(Some(NonNull::from(me)));
        // Release pairs with the acquire in `unlock`.
        prev.linked.store(YES, Release);
        P::spin_until_is(&me.locked, YES);
    }

    /// Leaves the queue. Returns whether it was empty then.
    fn unlock(&self, me: &Node<P>) -> bool {
        let mine = core::ptr::from_ref(me).expose_provenance();
        // Acquire pairs with the release in `lock`.
        if me.linked.load(Acquire) == NO {
            // me -> 0: no task arrived. Release pairs with the next task's exchange.
            if self.tail.compare_exchange(mine, NOBODY, Release, Relaxed).is_ok() {
                return true;
            }
            P::spin_until_is(&me.linked, YES);
        }
        let next = me.next.get();
        debug_assert!(next.is_some(), "`next` is set before `linked`");
        if let Some(next) = next {
            // SAFETY: its task has not left: it waits to be the head, which it is from here on
            // (S2), after which its node may end and is not used.
            let next = unsafe { next.as_ref() };
            // Release pairs with the acquire of the spinner.
            next.locked.store(YES, Release);
        }
        false
    }
}
