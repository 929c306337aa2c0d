//! [`CnaLock`]: a queued spinlock that stays on a package for a while.
//!
//! Use it as [`QueuedLock`](crate::QueuedLock) on machines with several packages, where the line of
//! the lock and the data that it guards are slow to move between them. Not where a waiter may lose
//! its CPU: those behind it wait for its next turn on one.
//!
//! ## States
//!
//! | `held` | `tail` | meaning |
//! |---|---|---|
//! | 0 or 1 | 0 | no task waits; the lock is free or owned |
//! | 0 or 1 | a node | the node's task arrived last; the head of the queue waits for `held` = 0 |
//!
//! `aside` is a second queue, of waiters on other packages that were passed.
//!
//! ## Transitions
//!
//! ```text
//! lock     held: 0 -> 1 if tail is 0
//!          else tail: any -> me, wait until I am the head, then held: 0 -> 1, and choose a head:
//!            no task behind me:  tail: me -> last of aside, its first is the head; or me -> 0
//!            one on my package:  move the waiters before it to the end of aside, it is the head
//!            none, or PASSES in a row: put aside before the queue, its first is the head
//! unlock   held: 1 -> 0
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`; `held` is 1 while it is.
//! - I2 At most one task is the head, and it alone uses `aside` and the count of passes.
//! - I3 A node is alive while it is in a queue: its task spins until it is the head.
//! - I4 The last node of `aside` has no successor.
//!
//! ## Memory ordering
//!
//! The release store of `unlock` pairs with the acquire exchange that takes the lock. The next head
//! acquires, through its `locked`, the writes that the previous head released; `linked` makes
//! `next` visible.
//!
//! ## Progress and fairness
//!
//! A waiter is passed by at most [`PASSES`] waiters of one package in a row, after which the queue
//! `aside` is served first. A newcomer may pass the queue in the instant between the exchange that
//! empties it and the next arrival.
//!
//! ## Cost
//!
//! 40 bytes, and a cache line on the stack of each waiter. Costs as much as the queued spinlock,
//! plus a scan of the waiters up to the first one on the same package.
//!
//! ## Lineage
//!
//! Dice and Kogan, "Compact NUMA-aware Locks", `EuroSys` 2019; the patches for `qspinlock` of 2019
//! to 2021 by Kogan, which Linux did not take. Difference: there a random number ends the stay on a
//! package, here a count.

use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart, attempt};
use crate::platform::{Access, Atomic, Platform};
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const NOBODY: usize = 0;
const NO: u32 = 0;
const YES: u32 = 1;

/// Heads in a row from one package while others wait aside.
const PASSES: u32 = 64;

/// A waiter in a queue.
type Link<P> = NonNull<Node<P>>;
/// A queue: its first and its last node.
type Chain<P> = Option<(Link<P>, Link<P>)>;

/// See the module documentation.
#[repr(C)]
pub struct CnaLock<P: Platform> {
    held: P::AtomicU32,
    passes: Cell<u32>,
    tail: P::AtomicUsize,
    aside: Cell<Chain<P>>,
}

// SAFETY: only the head uses the cells (I2), and its predecessor made it the head by a release
// store; the words are atomics of the platform.
unsafe impl<P: Platform> Sync for CnaLock<P> where P::AtomicU32: Sync {}
// SAFETY: a lock that can be moved has no waiters, so `aside` is empty.
unsafe impl<P: Platform> Send for CnaLock<P> where P::AtomicU32: Send {}

/// A waiter, on a separate cache line.
#[repr(C, align(64))]
struct Node<P: Platform> {
    /// Whether it is the head.
    locked: P::AtomicU32,
    /// Whether `next` is set.
    linked: P::AtomicU32,
    next: Cell<Option<NonNull<Self>>>,
    package: u32,
}

impl<P: Platform> Node<P> {
    /// Returns the successor, if that has linked itself.
    fn follower(&self) -> Option<NonNull<Self>> {
        // Acquire pairs with the release in `link`.
        if self.linked.load(Acquire) == YES { self.next.get() } else { None }
    }

    fn link(&self, next: NonNull<Self>) {
        self.next.set(Some(next));
        // Release pairs with the acquire in `follower`.
        self.linked.store(YES, Release);
    }
}

/// Returns a node in one of the queues.
fn node<'a, P: Platform>(node: Link<P>) -> &'a Node<P> {
    // SAFETY: the caller is the head or has just arrived behind it, so the node's task spins (I3).
    unsafe { node.as_ref() }
}

impl<P: Platform> CnaLock<P> {
    /// 0 -> 1. Returns whether the lock was free.
    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        self.held.compare_exchange(NO, YES, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn lock_slow(&self) {
        P::happened(LockEvent::Contended, self);
        let word = || P::AtomicU32::new(NO);
        let me =
            Node { locked: word(), linked: word(), next: Cell::new(None), package: P::package() };
        P::touch(&me, Access::Fresh);
        // any -> me. Acquire and release: pairs with the exchanges before and after it.
        let before = self.tail.swap(core::ptr::from_ref(&me).expose_provenance(), AcqRel);
        if let Some(before) = NonNull::new(core::ptr::with_exposed_provenance_mut(before)) {
            node::<P>(before).link(NonNull::from(&me));
            P::spin_until_is(&me.locked, YES);
        }
        while !self.take() {
            P::spin_until_is(&self.held, NO);
        }
        self.leave(&me);
    }

    /// Leaves the queue as its head.
    fn leave(&self, me: &Node<P>) {
        let aside = self.aside.get();
        let Some(next) = me.follower().or_else(|| self.last(me, aside)) else { return };
        let others = self.passes.get() < PASSES;
        let Some((before, head)) = Self::on_package(next, me.package).filter(|_| others) else {
            self.aside.set(None);
            self.passes.set(0);
            let Some((first, last)) = aside else { return Self::wake(next) };
            node(last).link(next);
            return Self::wake(first);
        };
        if let Some(before) = before {
            // Relaxed: the next head acquires it with the rest.
            node(before).linked.store(NO, Relaxed);
            let first = aside.map_or(next, |(first, last)| {
                node(last).link(next);
                first
            });
            self.aside.set(Some((first, before)));
        }
        // This is a pass only while other waiters are aside.
        self.passes.set(if self.aside.get().is_some() { self.passes.get() + 1 } else { 0 });
        Self::wake(head);
    }

    /// Leaves if no task is linked behind `me`: the waiters aside become the queue. Returns the
    /// task that arrived in the meantime, if one did.
    fn last(&self, me: &Node<P>, aside: Chain<P>) -> Option<Link<P>> {
        let mine = core::ptr::from_ref(me).expose_provenance();
        let tail = aside.map_or(NOBODY, |(_, last)| last.as_ptr().expose_provenance());
        // The cells are of the next head once the tail is another one.
        self.aside.set(None);
        self.passes.set(0);
        // me -> the last aside, or 0. Release pairs with the next arrival's exchange.
        if self.tail.compare_exchange(mine, tail, Release, Relaxed).is_ok() {
            if let Some((first, _)) = aside {
                Self::wake(first);
            }
            return None;
        }
        self.aside.set(aside);
        P::spin_until_is(&me.linked, YES);
        me.next.get()
    }

    /// Returns the first waiter from `next` on that is on `package`, and its predecessor unless
    /// that is `me`. Searches only as far as waiters are linked.
    fn on_package(next: Link<P>, package: u32) -> Option<(Option<Link<P>>, Link<P>)> {
        let (mut before, mut waiter) = (None, next);
        while node(waiter).package != package {
            before = Some(waiter);
            waiter = node(waiter).follower()?;
        }
        Some((before, waiter))
    }

    /// Makes the task of `head` the head.
    fn wake(head: Link<P>) {
        // Release pairs with the acquire of the spinner.
        node(head).locked.store(YES, Release);
    }
}

impl<P: Platform> Default for CnaLock<P> {
    fn default() -> Self {
        let (held, tail) = (P::AtomicU32::new(NO), P::AtomicUsize::new(NOBODY));
        Self { held, passes: Cell::new(0), tail, aside: Cell::new(None) }
    }
}

impl<P: Platform> RawLock<P> for CnaLock<P> {
    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        // Relaxed: a hint; taking the lock is what orders.
        if self.tail.load(Relaxed) != NOBODY || !self.take() {
            self.lock_slow();
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Relaxed, as above.
        attempt::<P>(self, || self.tail.load(Relaxed) == NOBODY && self.take())
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // Release pairs with the acquire in `take`.
        self.held.store(NO, Release);
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.held.load(Relaxed) == YES
    }

    #[inline]
    fn is_contended(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.tail.load(Relaxed) != NOBODY
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("held"));
        tell(offset_of!(Self, tail), format_args!("tail"));
    }
}
