//! Waiting for callbacks, and for grace periods that do not wait for ticks.

use crate::{Atomic, Platform, Sleep};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Tries of an expedited grace period before an ordinary one has to do.
const TRIES: u32 = 10;

/// Waits until all callbacks are through that were queued before (`rcu_barrier`). Its user makes it
/// [join](Self::join) the list of each CPU, with a callback that [leaves](Self::leave); leaves once
/// itself, and waits. Callbacks of a CPU are in order, so those before are through as well.
#[derive(Debug)]
pub struct Barrier<P: Platform> {
    /// Callbacks that have not come, and the user while it joins.
    left: P::AtomicU32,
}

impl<P: Platform> Default for Barrier<P> {
    fn default() -> Self {
        Self { left: Atomic::new(1) }
    }
}

impl<P: Platform> Barrier<P> {
    /// Counts one more callback.
    pub fn join(&self) {
        // Relaxed: the user's own one keeps the count above zero.
        self.left.fetch_add(1, Relaxed);
    }

    /// One callback has run, or the user has joined all lists.
    pub fn leave(&self) {
        // AcqRel: the waiter sees the writes of the callbacks, through the last one to leave.
        if self.left.fetch_sub(1, AcqRel) == 1 {
            P::wake(&raw const self.left, usize::MAX);
        }
    }

    /// Returns whether all have left.
    pub fn is_over(&self) -> bool {
        // Acquire pairs with `leave`.
        self.left.load(Acquire) == 0
    }

    /// Sleeps until all have left.
    pub fn wait(&self) {
        loop {
            // Acquire pairs with `leave`.
            let left = self.left.load(Acquire);
            if left == 0 {
                return;
            }
            P::wait(&self.left, left, Sleep::Uninterruptible, None);
        }
    }
}

/// Expedited grace periods of a flavour with readers that disable preemption: each CPU is made to
/// switch to a task that only reports this (`synchronize_sched_expedited`). A task that finds that
/// another one has done this in the meantime skips it.
#[derive(Debug)]
pub struct Expedited<P: Platform> {
    /// Those that have been asked for, and the highest of these numbers that is done.
    asked: P::AtomicU32,
    done: P::AtomicU32,
}

impl<P: Platform> Default for Expedited<P> {
    fn default() -> Self {
        Self { asked: Atomic::new(0), done: Atomic::new(0) }
    }
}

impl<P: Platform> Expedited<P> {
    /// Waits for a grace period. `stop` makes each CPU pass through a quiescent state, or returns
    /// false because another task is doing so; then `pause` is called with the number of the
    /// attempt. Returns false after ten failed attempts: the caller needs an ordinary grace period.
    pub fn wait(&self, mut stop: impl FnMut() -> bool, mut pause: impl FnMut(u32)) -> bool {
        // AcqRel: a task that sees this number, and stops the CPUs afterwards, comes after the
        // unlinking by the number's owner.
        let first = self.asked.fetch_add(1, AcqRel).wrapping_add(1);
        let mut covered = first;
        for number in 1.. {
            if stop() {
                break;
            }
            if number == TRIES {
                return false;
            }
            pause(number);
            // Acquire pairs with `finish`: the CPUs were stopped after this one had asked.
            if Self::reached(self.done.load(Acquire), first) {
                return true;
            }
            // Acquire: all tasks that asked until here are served by the next stop.
            covered = self.asked.load(Acquire);
        }
        self.finish(covered);
        true
    }

    /// Marks all that were asked for up to `covered` as done.
    fn finish(&self, covered: u32) {
        // Acquire, and AcqRel for the next task that reads it.
        let mut done = self.done.load(Acquire);
        while !Self::reached(done, covered) {
            // Relaxed: the loop checks again after a failure.
            match self.done.compare_exchange(done, covered, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(held) => done = held,
            }
        }
    }

    fn reached(done: u32, number: u32) -> bool {
        done.wrapping_sub(number).cast_signed() >= 0
    }
}
