//! What `up` does while tasks wait, and when a waiter may leave: the policies of a semaphore.

use crate::platform::Platform;
use crate::queue::{Queue, Waiter};
use core::cell::Cell;

/// The state protected by the inner lock of a semaphore.
#[repr(C)]
pub struct State<P: Platform> {
    /// Free units.
    pub(super) count: Cell<u32>,
    /// Waiters that were woken and have not taken the inner lock since (`Opportunistic` only).
    in_flight: Cell<u32>,
    pub(super) queue: Queue<P>,
}

impl<P: Platform> State<P> {
    pub(super) const fn new(count: u32) -> Self {
        Self { count: Cell::new(count), in_flight: Cell::new(0), queue: Queue::new() }
    }

    fn add_unit(&self) {
        let count = self.count.get().checked_add(1);
        self.count.set(count.expect("a semaphore holds at most 2^32 - 1 units"));
    }

    /// Lets `waiter` take a free unit, if there is one.
    ///
    /// # Safety
    ///
    /// The inner lock is held and `waiter` is linked.
    unsafe fn take_free(&self, waiter: &Waiter<P>) -> bool {
        let count = self.count.get();
        if count > 0 {
            self.count.set(count - 1);
            // SAFETY: the contract is this function's own.
            unsafe { self.queue.remove(waiter) };
        }
        count > 0
    }
}

/// What happens to the unit that was released.
pub enum Returned<'a, P: Platform> {
    /// It is in the count, and no waiter has to be woken.
    Kept,
    /// It belongs to this waiter, which was unlinked.
    Given(&'a Waiter<P>),
    /// It is in the count, and this waiter should look.
    Wake(&'a Waiter<P>),
}

/// A policy of [`Semaphore`](super::Semaphore). The three of this module are the only ones.
pub trait Policy: Rules {
    /// The name on the command line and in reports.
    const NAME: &'static str;
}

/// The two decisions. Not nameable outside this crate.
pub trait Rules: Sized + 'static {
    /// Handles a released unit.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock, and keeps it as long as it uses the result.
    unsafe fn returned<P: Platform>(state: &State<P>) -> Returned<'_, P>;

    /// Called when `waiter` has run: returns whether it now owns a unit, and then is not linked any
    /// more.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock; `waiter` was pushed and is linked unless granted.
    unsafe fn claim<P: Platform>(state: &State<P>, waiter: &Waiter<P>) -> bool;
}

/// Direct hand-off: the first waiter owns the unit from the moment of `up`, running or not.
///
/// Linux 2.6.26-rc1 and today. Fair, and the cause of the 2008 collapse.
#[derive(Clone, Copy, Debug)]
pub struct Handoff;

impl Policy for Handoff {
    const NAME: &'static str = "handoff";
}

impl Rules for Handoff {
    unsafe fn returned<P: Platform>(state: &State<P>) -> Returned<'_, P> {
        // SAFETY: the contract is this function's own.
        if let Some(waiter) = unsafe { state.queue.front() } {
            // SAFETY: the waiter was just found in the queue, under the inner lock.
            unsafe { state.queue.remove(waiter) };
            waiter.granted.set(true);
            Returned::Given(waiter)
        } else {
            state.add_unit();
            Returned::Kept
        }
    }

    unsafe fn claim<P: Platform>(_: &State<P>, waiter: &Waiter<P>) -> bool {
        waiter.granted.get()
    }
}

/// The patch published on 8 May 2008, faithfully, **with its hole**. Do not use it.
///
/// `up` wakes the first waiter and leaves it linked. If a second `up` comes before that waiter has
/// run, it wakes the same one again. With a count above 1 two units are then free, the head takes
/// one without waking the next, and the second waiter sleeps although a unit is free until some
/// later `up`. Alternating binary use is not affected: the count never exceeds 1. The checker finds
/// the hole; see `convoy check semaphore`.
#[derive(Clone, Copy, Debug)]
pub struct PublishedFix;

impl Policy for PublishedFix {
    const NAME: &'static str = "published-fix";
}

impl Rules for PublishedFix {
    unsafe fn returned<P: Platform>(state: &State<P>) -> Returned<'_, P> {
        state.add_unit();
        // SAFETY: the contract is this function's own.
        unsafe { state.queue.front() }.map_or(Returned::Kept, Returned::Wake)
    }

    unsafe fn claim<P: Platform>(state: &State<P>, waiter: &Waiter<P>) -> bool {
        // SAFETY: the contract is this function's own; nothing grants in this policy.
        unsafe { state.take_free(waiter) }
    }
}

/// Opportunistic locking without the bug, the default: wake one waiter, let any task take the unit.
///
/// `up` wakes the first waiter that still sleeps, unless as many waiters are in flight as there are
/// free units: these will take the units. Invariant I3 of the module says why no wake-up is lost,
/// cancelled and timed-out waiters included.
#[derive(Clone, Copy, Debug)]
pub struct Opportunistic;

impl Policy for Opportunistic {
    const NAME: &'static str = "opportunistic";
}

impl Rules for Opportunistic {
    unsafe fn returned<P: Platform>(state: &State<P>) -> Returned<'_, P> {
        state.add_unit();
        let in_flight = state.in_flight.get();
        if in_flight >= state.count.get() {
            return Returned::Kept;
        }
        // At most `in_flight` waiters are passed on the way to the first sleeping one.
        // SAFETY: the contract is this function's own.
        let Some(waiter) = (unsafe { state.queue.find(|waiter| !waiter.is_woken()) }) else {
            return Returned::Kept;
        };
        state.in_flight.set(in_flight + 1);
        Returned::Wake(waiter)
    }

    unsafe fn claim<P: Platform>(state: &State<P>, waiter: &Waiter<P>) -> bool {
        if waiter.is_woken() {
            state.in_flight.set(state.in_flight.get() - 1);
        }
        // SAFETY: the contract is this function's own; nothing grants in this policy.
        unsafe { state.take_free(waiter) }
    }
}
