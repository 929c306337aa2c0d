//! Who of the waiters of a [`SpinningMutex`](crate::SpinningMutex) spins: all at once, or each in
//! its turn, in a queue as of Mellor-Crummey and Scott.
//!
//! [`AllAtOnce`] is nothing. Use [`InTurn`] where many CPUs would look at one line: only the first
//! of its queue looks at the mutex, the others each at a line of their own. Not where a spinner may
//! lose its CPU: whoever is queued cannot leave, so those behind it wait for its next turn on a
//! CPU.
//!
//! ## States
//!
//! | `last` | `turn` of a record | `linked` of a record | meaning |
//! |---|---|---|---|
//! | 0 | – | – | nobody spins |
//! | a record | 0 | 0 | the record's task came last and waits for its turn |
//! | the same or later | 0 | 1 | it waits, and `next` says who comes after it |
//! | the same or later | 1, or it found 0 | 0 or 1 | it is its task's turn |
//!
//! ## Transitions
//!
//! ```text
//! enter    last: any -> me    if it was 0 my turn begins; else before.next = me, before.linked = 1
//!                             and spin until my turn is 1
//! leave    linked is 0:       last: me -> 0, or somebody came: spin until linked is 1
//!          linked is 1:       next.turn = 1
//! ```
//!
//! ## Invariants
//!
//! - S1 At most one task has its turn.
//! - S2 A record whose task has not left is alive; a task leaves only when `last` no longer names
//!   it and nobody is about to write its `next`.
//!
//! ## Memory ordering
//!
//! The release store to `turn` pairs with the acquire of the spinner; the release store to `linked`
//! with the acquire that reads it, so `next` is seen; the exchange of `last` with the one before
//! it, so a record is seen initialised.
//!
//! ## Progress and fairness
//!
//! Turns come in the order of arrival, but a turn that came to nothing ends at the tail.
//!
//! ## Cost
//!
//! 8 bytes in the mutex and a line on each spinner's stack. One turn: one locked operation to
//! enter, one to leave when nobody follows, one transfer of a line to hand on.
//!
//! ## Lineage
//!
//! Linux 3.10, `mspin_lock` in kernel/mutex.c (commit 2bd2c92cf07c). Difference: a flag beside
//! `next` says that it is set. From 3.15 on members may leave their queue; that is not here.

use crate::platform::{Access, Atomic, Platform};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// No record: `last` of an empty queue.
const NOBODY: usize = 0;
const NO: u32 = 0;
const YES: u32 = 1;

/// How waiters that spin share a mutex.
pub trait Spinners<P: Platform> {
    /// Whether they queue. A waiter whose owner does not run then does not even begin.
    const QUEUE: bool;

    /// Nobody spins.
    fn new() -> Self;

    /// Runs `turn` when the caller may spin.
    fn in_turn<R>(&self, turn: impl FnOnce() -> R) -> R;
}

/// All spin at once, up to 3.9. Its alignment keeps the rest of the mutex in one line.
#[repr(align(32))]
#[derive(Debug)]
pub struct AllAtOnce;

impl<P: Platform> Spinners<P> for AllAtOnce {
    const QUEUE: bool = false;

    fn new() -> Self {
        Self
    }

    #[inline]
    fn in_turn<R>(&self, turn: impl FnOnce() -> R) -> R {
        turn()
    }
}

/// One after the other. See the module documentation.
#[repr(C)]
pub struct InTurn<P: Platform> {
    last: P::AtomicUsize,
}

/// A spinner in the queue; a line of its own.
#[repr(C, align(64))]
struct Spinner<P: Platform> {
    turn: P::AtomicU32,
    linked: P::AtomicU32,
    /// Written by the one that comes next, before it sets `linked`.
    next: Cell<Option<NonNull<Self>>>,
}

impl<P: Platform> Spinners<P> for InTurn<P> {
    const QUEUE: bool = true;

    fn new() -> Self {
        Self { last: P::AtomicUsize::new(NOBODY) }
    }

    fn in_turn<R>(&self, turn: impl FnOnce() -> R) -> R {
        let me = Spinner {
            turn: P::AtomicU32::new(NO),
            linked: P::AtomicU32::new(NO),
            next: Cell::new(None),
        };
        P::touch(&me, Access::Fresh);
        self.enter(&me);
        let result = turn();
        self.leave(&me);
        result
    }
}

impl<P: Platform> InTurn<P> {
    fn enter(&self, me: &Spinner<P>) {
        let mine = core::ptr::from_ref(me).expose_provenance();
        // any -> me. Acquire and release: pairs with the exchanges before and after it.
        let before = self.last.swap(mine, AcqRel);
        let Some(before) = NonNull::new(core::ptr::with_exposed_provenance_mut(before)) else {
            return;
        };
        let before: NonNull<Spinner<P>> = before;
        // SAFETY: its task has not left: it waits in `leave` for `linked`, which is set below (S2).
        // Its record may end as soon as it sees that, and is not used afterwards.
        let before = unsafe { before.as_ref() };
        before.next.set(Some(NonNull::from(me)));
        // Release pairs with the acquire in `leave`.
        before.linked.store(YES, Release);
        P::spin_until(&me.turn, |turn| turn == YES);
    }

    fn leave(&self, me: &Spinner<P>) {
        let mine = core::ptr::from_ref(me).expose_provenance();
        // Acquire pairs with the release in `enter`.
        if me.linked.load(Acquire) == NO {
            // me -> 0: nobody came. Release pairs with the next one's exchange.
            if self.last.compare_exchange(mine, NOBODY, Release, Relaxed).is_ok() {
                return;
            }
            P::spin_until(&me.linked, |linked| linked == YES);
        }
        let next = me.next.get();
        debug_assert!(next.is_some(), "`next` is set before `linked`");
        if let Some(next) = next {
            // SAFETY: its task has not left: it waits for the turn given here (S2), after which its
            // record may end and is not used.
            let next = unsafe { next.as_ref() };
            // Release pairs with the acquire of the spinner.
            next.turn.store(YES, Release);
        }
    }
}
