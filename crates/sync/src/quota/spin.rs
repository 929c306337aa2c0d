//! How a task that does not sleep waits for a [`Quota`].

use super::room::{Room, Within};
use super::settle::Cause;
use super::word::{CLOSED, FLAGS, Quota, UNIT};
use crate::lock::RawLock as _;
use crate::platform::{Atomic, Platform};
use crate::queue::Waiter;
use core::sync::atomic::Ordering::Relaxed;

/// Nanoseconds for which a task spins before it sleeps, at most: twice the cost of a sleep and a
/// wakeup in CPU time, here and on the CPU of the task that wakes it. A task that sleeps next to
/// computing threads also waits for a CPU.
pub(super) const SPIN_NS: u64 = 16_000;

/// Nanoseconds for which the first waiter spins once it has closed the lock, at most: longer,
/// because the lock idles for a wakeup if it sleeps. Once in a turn, of which it is a twentieth.
const CLOSED_NS: u64 = 20_000;

/// Nanoseconds for which a task lets the only waiter, to which the lock was handed, wake up and
/// leave: a slow wakeup. If it slept instead, the lock would idle for a second wakeup.
const GIVE_WAY_NS: u64 = 50_000;

impl<P: Platform, R: Room<P>, const S: u32> Quota<P, R, S> {
    /// Takes a unit that the flags in `allowed` do not keep from this task. Spins for it for at
    /// most `longest` nanoseconds, or less if earlier spins of the task failed. Returns whether it
    /// took a unit.
    pub(super) fn compete(&self, allowed: u32, longest: u64) -> bool {
        // Relaxed: taking the unit is what orders.
        if self.take(self.word.load(Relaxed), allowed) {
            return true;
        }
        self.spin_adaptively(allowed, longest)
    }

    /// Spins as long as the success of the task's last spins suggests, up to `longest` nanoseconds,
    /// for a unit that the flags in `allowed` do not keep from it.
    fn spin_adaptively(&self, allowed: u32, longest: u64) -> bool {
        let mut turn = P::turn();
        let ns = turn.spin_ns(longest);
        let taken = ns > 0 && {
            let mut now = P::now();
            let back = turn.stands_back_ns(now);
            if back > 0 {
                now += back;
                P::stand_back(now);
            }
            let taken = self.spin(allowed, |free| P::spin_for(&self.word, now + ns, free));
            turn.spun(if taken && back == 0 { P::now() } else { 0 }, taken);
            taken
        };
        P::set_turn(turn);
        taken
    }

    /// While the lock is closed for its only waiter: takes the unit that it leaves, if the flags in
    /// `allowed` alone do not keep it from this task.
    pub(super) fn give_way(&self, allowed: u32) -> bool {
        // Relaxed: hints; taking the unit is what orders.
        let is_closed = self.word.load(Relaxed) & CLOSED != 0;
        if !is_closed || self.room.queue().waiting.load(Relaxed) != 1 {
            return false;
        }
        let until = P::now() + GIVE_WAY_NS;
        self.spin(allowed, |free| P::give_way(&self.word, until, free))
    }

    /// Takes a unit that `look` has seen, which ends when its time is over.
    fn spin(&self, allowed: u32, look: impl Fn(&dyn Fn(u32) -> bool) -> u32) -> bool {
        let free = |word: u32| word >= UNIT && word & FLAGS & !allowed == 0;
        loop {
            let seen = look(&free);
            if !free(seen) {
                return false;
            }
            if self.take(seen, allowed) {
                return true;
            }
        }
    }

    /// The first waiter was summoned and has taken nothing: closes the lock for all others if that
    /// is due, and competes again before it sleeps. The inner lock is held before and after.
    pub(super) fn insist(&self, room: &Within<P, R::Inner>, waiter: &Waiter<P>) -> bool {
        if !self.closes(room, waiter, Cause::InVain) {
            return false;
        }
        let sleeper = self.settle(room, Cause::Change);
        room.unlock(sleeper);
        // It runs: the owner's next release is its own.
        let taken = self.spin_adaptively(FLAGS, CLOSED_NS);
        room.inner.lock();
        taken
    }
}
