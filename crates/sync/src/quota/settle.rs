//! When a task passes the queue of a [`Quota`], and the end of a critical section of its inner
//! lock: the flags, which waiter is summoned, and when the lock is closed for all but the first.

use super::room::{Room, Sleeper, Within};
use super::time::{ns_between, stamp};
use super::turn::{Phase, UNBOUNDED_NS};
use super::word::{ARRIVAL_NS, CLOSED, FLAGS, QUEUED, Quota, SHORT, UNIT, turn_ns};
use crate::event::LockEvent;
use crate::lock::RawLock as _;
use crate::platform::{Atomic, Platform};
use crate::queue::Waiter;
use core::sync::atomic::Ordering::Relaxed;

/// Nanoseconds at the front of the queue before which a waiter is handed nothing: twice a slow
/// wakeup. A shorter wait costs its task less than the handoff costs all others.
pub(super) const PATIENCE_NS: u64 = 100_000;

/// Nanoseconds at the front of the queue after which no task passes it, even if the first waiter
/// was woken and only waits for a CPU: half of the time slice that it waits for next to a computing
/// thread. If no task passed it for all of that slice, the lock would idle for it.
const OVERDUE_NS: u64 = 2_000_000;

/// Why a critical section of the inner lock ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A waiter arrived, left, or sleeps again.
    Change,
    /// A waiter with an expired turn arrived: the first sleeper is summoned instead.
    Turn,
    /// A unit was released: the first sleeper is summoned, alone if that is due.
    Unit,
    /// The first waiter was summoned and acquired nothing.
    InVain,
    /// The first waiter is overdue, whether it sleeps or not.
    Overdue,
}

/// Action of a task that finds the lock held or the queue not empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Takes a unit past the queue if it can.
    Competes,
    /// The same, and its turn ends soon: the first sleeper is summoned.
    Ends,
    /// Queues, since its turn is over.
    Yields,
    /// Queues, since the first waiter is overdue.
    Overdue,
}

impl<P: Platform, R: Room<P>, const S: u32> Quota<P, R, S> {
    /// Whether the task may take a unit past the queue.
    pub(super) fn entry(&self) -> Entry {
        // Relaxed: a hint, as is the length.
        if self.word.load(Relaxed) & QUEUED == 0 {
            return Entry::Competes;
        }
        let mut turn = P::turn();
        if turn.skips() {
            P::set_turn(turn);
            return Entry::Competes;
        }
        let room = self.room.queue();
        let now = P::now();
        let stamp = (now >> 10) as u32;
        let waits = ns_between(room.arrived(), stamp) >= self.room.bound_ns();
        // Relaxed, as above.
        let quota = if waits { turn_ns(room.waiting.load(Relaxed)) } else { UNBOUNDED_NS };
        let phase = turn.meet(quota, ARRIVAL_NS, now);
        P::set_turn(turn);
        if P::is_late(waits && ns_between(room.claimed(), stamp) >= OVERDUE_NS) {
            return Entry::Overdue;
        }
        match phase {
            Phase::On => Entry::Competes,
            Phase::Ends => Entry::Ends,
            Phase::Over => Entry::Yields,
        }
    }

    /// Summons the first sleeper while the turn of the calling task continues.
    pub(super) fn announce(&self) {
        let room = self.room.queue();
        room.inner.lock();
        // If waiters are woken without acquiring, the next one would be, too, while the turn
        // continues.
        let is_vain = room.fewer.get() > 0;
        let sleeper = self.settle(room, if is_vain { Cause::Change } else { Cause::Turn });
        room.unlock(sleeper);
    }

    /// Returns whether `waiter` has waited long enough to get the lock while it sleeps.
    pub(super) fn has_waited_long(&self, waiter: &Waiter<P>) -> bool {
        ns_between(waiter.arrived.get(), stamp::<P>()) >= self.room.bound_ns() / 4
    }

    /// Returns whether from now on only the first waiter may take a unit (I5).
    pub(super) fn closes(
        &self,
        room: &Within<P, R::Inner>,
        first: &Waiter<P>,
        cause: Cause,
    ) -> bool {
        if first.owed.get() {
            return true;
        }
        let ns_since = |then: u32| ns_between(then, stamp::<P>());
        let due = match cause {
            Cause::Change | Cause::Turn => false,
            Cause::Unit if first.is_woken() => false,
            // A sleeper that no release has woken for as long waits for a long critical section: it
            // would find the lock taken. After a short one it closes the lock when it runs.
            Cause::Unit if !P::is_late(ns_since(first.since.get()) >= PATIENCE_NS) => false,
            Cause::Unit | Cause::InVain => {
                // Relaxed: the inner lock orders it.
                let turn = turn_ns(room.waiting.load(Relaxed));
                let now = stamp::<P>();
                let waited = ns_between(room.claimed(), now) >= PATIENCE_NS
                    && (cause == Cause::InVain || self.has_waited_long(first));
                P::is_late(waited) && P::is_late(ns_between(room.closed.get(), now) >= turn)
            }
            Cause::Overdue => P::is_late(ns_since(room.claimed()) >= OVERDUE_NS),
        };
        if due {
            first.owe();
            room.closed.set(stamp::<P>());
        }
        due
    }

    /// The last step under the inner lock: brings the flags up to date, and summons the first
    /// sleeper if that is the cause or a unit is free for it (I2, I3).
    pub(super) fn settle(&self, room: &Within<P, R::Inner>, cause: Cause) -> Sleeper<P> {
        let mut woken = None;
        let mut summon = matches!(cause, Cause::Turn | Cause::Unit | Cause::Overdue);
        // SAFETY: the inner lock is held.
        let first = unsafe { room.queue.front() };
        let closed = first.filter(|first| self.closes(room, first, cause));
        loop {
            let sleeper = if closed.is_some() {
                closed.filter(|first| !first.is_woken())
            } else {
                // SAFETY: the inner lock is held.
                let next = unsafe { room.queue.find(|waiter| !waiter.is_woken()) };
                next.filter(|waiter| room.has_place(waiter, S))
            };
            if let Some(waiter) = sleeper.filter(|_| summon) {
                P::event(LockEvent::Woken, self, waiter.task);
                room.summoned.set(room.summoned.get() + 1);
                room.summons.set(stamp::<P>());
                // SAFETY: it was found in the queue, under the inner lock.
                woken = unsafe { Waiter::rouse(waiter.into()) };
                summon = false;
                continue;
            }
            let mut flags = if first.is_some() { QUEUED } else { 0 };
            flags |= if sleeper.is_some() { SHORT } else { 0 };
            flags |= if closed.is_some() { CLOSED } else { 0 };
            // Relaxed: the flags change under the inner lock only, and order nothing.
            let mut word = self.word.load(Relaxed);
            if word & FLAGS != flags {
                // Relaxed, as above: the units are seen as of the change.
                word = self.word.fetch_add(flags.wrapping_sub(word & FLAGS), Relaxed);
            }
            if flags & SHORT == 0 || word < UNIT || woken.is_some() {
                return woken;
            }
            summon = true;
        }
    }

    /// Called after a unit was released while `SHORT` was set.
    #[cold]
    #[inline(never)]
    pub(super) fn up_slow(&self) {
        if P::interrupts_queue() {
            P::postpone_wakeup();
            return;
        }
        self.pass_on();
    }

    /// Summons a waiter for a released unit, if there is one: called by a release, also after a
    /// postponed wakeup. Uses the lock only while a task waits for it (I6): the unit may have been
    /// the last thing that kept the lock's memory.
    pub fn pass_on(&self) {
        let room = self.room.queue();
        room.inner.lock();
        let sleeper = if room.queue.is_empty() { None } else { self.settle(room, Cause::Unit) };
        room.unlock(sleeper);
    }
}
