//! Rests of a [`Quota`](super::Quota): its releases wake no waiter for a while after a waiter was
//! woken without acquiring.

use super::room::Within;
use super::settle::PATIENCE_NS;
use super::time::{is_past, ns_between, stamp};
use super::word::turn_ns;
use crate::lock::RawLock;
use crate::platform::{Atomic, Platform};
use crate::queue::Waiter;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Nanoseconds of the first rest of a waiter: four times the CPU time of a sleep and a fruitless
/// wakeup. Each further rest in the same wait is twice as long.
const REST_NS: u64 = 50_000;

/// Most rests in one wait: together they take seven eighths of the longest turn, after which the
/// lock is handed over.
const RESTS_MAX: u32 = 3;

/// Nanoseconds after a rest in which a release may wake the waiter before its timer does: several
/// short critical sections. A waiter whose timer expires finds the lock held, as a rule.
const TIMER_NS: u64 = 20_000;

impl<P: Platform, L: RawLock<P>> Within<P, L> {
    /// Returns whether releases wake no waiter now. One of the sleepers wakes up by itself later.
    pub(super) fn rests(&self) -> bool {
        // SeqCst pairs with the fence of `stop_rest`: either that task sees the unit that the
        // caller released, or this read sees that the rest is over.
        P::fence(SeqCst);
        // A hint, in the line of the length.
        let end = self.resting.peek();
        end != 0 && !P::is_late(is_past(end, stamp::<P>()))
    }

    /// Releases wake waiters again. The inner lock is held.
    pub(super) fn stop_rest(&self) {
        // Relaxed: a hint for releases; the inner lock orders it for the others.
        if self.resting.load(Relaxed) != 0 {
            self.resting.store(0, Relaxed);
            // SeqCst pairs with the fence of `rests`. Without it the caller may read the word as
            // before a release that still saw the rest and woke no task.
            P::fence(SeqCst);
        }
    }

    /// `waiter` was woken, has taken nothing for the `times`th time, and sleeps again: begins a
    /// rest and returns when the waiter must wake up by itself, or ends the rest that there may be.
    /// The inner lock is held.
    pub(super) fn rest(&self, waiter: &Waiter<P>, times: u32) -> Option<u64> {
        let ns = self.rest_ns(waiter, times);
        // A shorter one saves nothing.
        if ns < REST_NS / 2 || P::is_late(false) {
            self.stop_rest();
            return None;
        }
        let end = stamp::<P>().wrapping_add((ns >> 10) as u32);
        // 0 means that the lock does not rest. Relaxed: as in `stop_rest`.
        self.resting.store(end.max(1), Relaxed);
        waiter.since.set(end);
        Some(P::now() + ns + TIMER_NS)
    }

    /// Nanoseconds of that rest: it never outlasts the moment in which the lock may be handed to
    /// the first waiter.
    fn rest_ns(&self, waiter: &Waiter<P>, times: u32) -> u64 {
        if times > RESTS_MAX || waiter.urgent.get() || waiter.owed.get() {
            return 0;
        }
        let now = stamp::<P>();
        // Relaxed: the inner lock orders it.
        let turn = turn_ns(self.waiting.load(Relaxed));
        let claimed = PATIENCE_NS.saturating_sub(ns_between(self.claimed(), now));
        let due = turn.saturating_sub(ns_between(self.closed.get(), now)).max(claimed);
        due.min(REST_NS << (times - 1))
    }
}
