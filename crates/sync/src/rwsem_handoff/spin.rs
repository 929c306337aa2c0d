//! Writers of a [`HandoffRwSemaphore`] that spin.

use super::{HANDOFF, HandoffRwSemaphore, NOBODY, OWNERS, READER, READERS, SLOW_READERS, WRITER};
use crate::lock::RawLock;
use crate::platform::{Atomic, Platform, TaskId};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// How long a writer spins for readers, and more for each of at most 30 (`rwsem_rspin_threshold`),
/// nanoseconds.
const READER_SPIN_NS: u64 = 10_000;
const EACH_READER_NS: u64 = 500;
const READERS_MAX: u32 = 30;

/// The owner, as a spinner finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nobody,
    Writer,
    Readers,
    /// Spinning is useless.
    Hopeless,
}

impl<P: Platform, L: RawLock<P>> HandoffRwSemaphore<P, L> {
    /// Spins if that promises the lock soon. Returns whether it acquired the lock.
    pub(super) fn spin(&self) -> bool {
        P::preempt_disable();
        let taken = self.may_spin() && self.spinners.at_head(|| self.spin_at_head()) == Some(true);
        P::preempt_enable();
        taken
    }

    /// Spins on the owner of a lock that is to be handed to the caller. Returns whether it was
    /// released just now.
    pub(super) fn spin_once(&self) -> bool {
        P::preempt_disable();
        let seen = self.spin_on_owner();
        P::preempt_enable();
        seen == Seen::Nobody
    }

    /// Acquires the lock past the queue if no task owns it and it is handed to none. Returns
    /// whether it did.
    pub(super) fn steal(&self) -> bool {
        // Relaxed: the look orders nothing.
        let mut count = self.count.load(Relaxed);
        while count & (OWNERS | HANDOFF) == 0 {
            // Acquire pairs with the releases in `up_read` and `up_write`.
            match self.count.compare_exchange(count, count | WRITER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Returns whether a writer may queue as a spinner.
    fn may_spin(&self) -> bool {
        // Relaxed: a hint.
        let owner = self.owner.load(Relaxed);
        !P::need_resched()
            && match owner {
                NOBODY | READERS => true,
                SLOW_READERS => false,
                task => P::on_cpu(task),
            }
    }

    /// Spins while a writer owns it and runs.
    fn spin_on_owner(&self) -> Seen {
        // Relaxed: a hint.
        let owner = self.owner.load(Relaxed);
        if owner >= SLOW_READERS {
            return seen(owner);
        }
        let runs = || P::on_cpu(owner) && !P::need_resched();
        match P::spin_until(&self.owner, |now| now != owner || !runs()) {
            now if now != owner => seen(now),
            // The owner may have released and acquired it again.
            _ if runs() => Seen::Writer,
            _ => Seen::Hopeless,
        }
    }

    /// Spins as the first of the spinners. Returns whether it acquired the lock.
    fn spin_at_head(&self) -> bool {
        // The end of the time for which this writer spins for readers.
        let mut limit = None;
        loop {
            let seen = self.spin_on_owner();
            if seen == Seen::Hopeless {
                return false;
            }
            if self.steal() {
                return true;
            }
            limit = (seen == Seen::Readers).then(|| limit.unwrap_or_else(|| self.limit()));
            if seen != Seen::Writer && P::need_resched() {
                return false;
            }
            // Relaxed: a hint.
            let owner = self.owner.load(Relaxed);
            let done = |count: u32| {
                count & (OWNERS | HANDOFF) == 0 || self.owner.peek() != owner || P::need_resched()
            };
            if let Some(until) = limit {
                if !done(P::spin_for(&self.count, until, done)) {
                    self.spin_no_more();
                    return false;
                }
            } else if owner == NOBODY {
                // The lock is just being acquired or released, or handed to a waiter.
                P::spin_until(&self.count, done);
            }
        }
    }

    /// Returns when a writer that starts now stops to spin for the readers.
    fn limit(&self) -> u64 {
        // Relaxed: a hint.
        let readers = (self.count.load(Relaxed) / READER).min(READERS_MAX);
        P::now() + READER_SPIN_NS + EACH_READER_NS * u64::from(readers)
    }

    /// Writers do not spin for the readers that own the lock.
    fn spin_no_more(&self) {
        // Relaxed: a hint. If it fails they have released it.
        let _readers = self.owner.compare_exchange(READERS, SLOW_READERS, Relaxed, Relaxed);
    }

    /// Writers may spin again: no reader owns the lock.
    pub(super) fn spin_again(&self) {
        // Relaxed: a hint.
        if self.owner.load(Relaxed) == SLOW_READERS {
            // Relaxed, as above. If it fails a writer owns the lock.
            let _writer = self.owner.compare_exchange(SLOW_READERS, READERS, Relaxed, Relaxed);
        }
    }
}

/// The owner by its word; a task counts as a writer that runs.
fn seen(owner: TaskId) -> Seen {
    match owner {
        NOBODY => Seen::Nobody,
        READERS => Seen::Readers,
        SLOW_READERS => Seen::Hopeless,
        _ => Seen::Writer,
    }
}
