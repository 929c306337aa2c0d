//! [`McsQueue`]: the queue of Mellor-Crummey and Scott in which waiters of a
//! [`Mutex`](crate::kernel::Mutex) spin one after the other, as the kernel's `mspin_lock`.
//!
//! [`Unqueued`] is nothing: all spin at once. [`OneSpinner`] lets one spin and sends the others to
//! sleep. Use the queue where many CPUs would look at one line:
//! only its head looks at the mutex, the others each at a line of their own. Not where a spinner
//! may lose its CPU: whoever is queued cannot leave, so those behind it wait for its next turn on a
//! CPU.
//!
//! ## States
//!
//! | `tail` | `locked` of a node | `linked` of a node | meaning |
//! |---|---|---|---|
//! | 0 | – | – | nobody spins |
//! | a node | 0 | 0 | the node's task came last and waits to be the head |
//! | the same or later | 0 | 1 | it waits, and `next` says who comes after it |
//! | the same or later | 1, or it found 0 | 0 or 1 | its task is the head |
//!
//! ## Transitions
//!
//! ```text
//! lock     tail: any -> me    if it was 0 I am the head; else prev.next = me, prev.linked = 1
//!                             and spin until my `locked` is 1
//! unlock   linked is 0:       tail: me -> 0, or somebody came: spin until linked is 1
//!          linked is 1:       next.locked = 1
//! ```
//!
//! ## Invariants
//!
//! - S1 At most one task is the head.
//! - S2 A node whose task has not left is alive; a task leaves only when `tail` no longer names it
//!   and nobody is about to write its `next`.
//!
//! ## Memory ordering
//!
//! The release store to `locked` pairs with the acquire of the spinner; the release store to
//! `linked` with the acquire that reads it, so `next` is seen; the exchange of `tail` with the one
//! before it, so a node is seen initialised.
//!
//! ## Progress and fairness
//!
//! First come, first served, but a head that gave up without the mutex queues again at the tail.
//!
//! ## Cost
//!
//! 8 bytes in the mutex and a line on each spinner's stack. One locked operation to lock, one to
//! unlock when nobody follows, one transfer of a line to hand on.
//!
//! ## Lineage
//!
//! Linux 3.10, `mspin_lock` in kernel/mutex.c (commit 2bd2c92cf07c). Difference: a flag beside
//! `next` says that it is set. From 3.15 on members may leave their queue; that is not here.

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
    /// Whether they queue. A waiter whose owner does not run then does not even begin.
    const QUEUE: bool = false;

    /// Nobody spins.
    fn new() -> Self;

    /// Whether the caller may begin to spin; if so, [`Self::leave`] follows.
    #[inline]
    fn enter(&self) -> bool {
        true
    }

    /// The caller spins no more.
    #[inline]
    fn leave(&self) {}

    /// Runs `body` when the caller may spin.
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R;
}

/// Nobody ever spins.
impl<P: Platform> SpinQueue<P> for () {
    fn new() -> Self {}

    #[inline]
    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// All spin at once, up to 3.9. Its alignment keeps the rest of the mutex in one line.
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

/// One at a time; who comes while it spins does not even begin. Which of several is the one orders
/// nothing, and a second one would do no harm but to the line it looks at.
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

/// A spinner in the queue; a line of its own.
#[repr(C, align(64))]
struct Node<P: Platform> {
    locked: P::AtomicU32,
    linked: P::AtomicU32,
    /// Written by the one that comes next, before it sets `linked`.
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
    /// Whether nobody spins; a snapshot.
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
            // me -> 0: nobody came. Release pairs with the next one's exchange.
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
