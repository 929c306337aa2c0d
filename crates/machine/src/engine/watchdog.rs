//! The watchdog: reports simulated code that does not make progress, instead of waiting forever or
//! crashing.
//!
//! *Progress* is work ([`Engine::compute`](super::Engine::compute)) of a task that is not idle,
//! outside interrupts, and the start or end of a task. Without progress for [`PATIENCE`] of virtual
//! time the CPUs idle or spin; without progress for [`OPERATIONS`] memory operations tasks
//! livelock.
//!
//! Tasks that wait for each other in a cycle are found while others work: each has waited for
//! [`PATIENCE`] for a lock that only the next task owns. A waiting owner does not release its lock,
//! so no task of the cycle makes progress. (A task with a deadline might; but waits with a deadline
//! are shorter.)
//!
//! It only observes every action of the engine, the count of memory operations, and the start of
//! work. It sets no limits on running ahead, so it does not change the schedule of a run that makes
//! progress.

use super::ledger::Ledger;
use super::mode::Outcome;
use core::cell::Cell;

/// Picoseconds of virtual time without progress: 10 s, beyond every sleep that nothing interrupts.
const PATIENCE: u64 = 10_000_000_000_000;
/// Memory operations without progress: some seconds of the host, and far beyond what 1024 CPUs
/// need for one turn each of a contended lock.
const OPERATIONS: u64 = 1 << 27;

/// The last progress, the limits of the run, and when they are checked next.
pub(crate) struct Watchdog {
    at: Cell<u64>,
    operations: Cell<u64>,
    /// Memory operations until [`Self::check_operations`]; not positive when that is reached.
    left: Cell<i64>,
    /// When [`Self::judge_time`] is due.
    pub(super) check_at: Cell<u64>,
    /// The number of memory operations at which [`Self::judge_operations`] is due.
    check_operations: Cell<u64>,
    /// Limit on memory operations.
    most_operations: Cell<u64>,
    /// Limit on virtual time of the present run.
    pub(super) until: Cell<u64>,
    /// Why the run was ended, if it was.
    pub(super) verdict: Cell<Option<Outcome>>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            at: Cell::new(0),
            operations: Cell::new(0),
            left: Cell::new(OPERATIONS as i64),
            check_at: Cell::new(PATIENCE),
            check_operations: Cell::new(OPERATIONS),
            most_operations: Cell::new(u64::MAX),
            until: Cell::new(u64::MAX),
            verdict: Cell::new(None),
        }
    }
}

impl Watchdog {
    /// Starts a run that ends at `until`. Returns whether only the limit of the last run ended it.
    pub(super) fn start(&self, until: u64) -> bool {
        self.until.set(until);
        let limited = self.verdict.get() == Some(Outcome::TimeLimit);
        if limited {
            self.verdict.set(None);
        }
        limited
    }

    /// Memory operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.check_operations.get().wrapping_sub(self.left.get() as u64)
    }

    /// Counts `more` memory operations. Returns whether [`Self::judge_operations`] is due.
    #[inline(always)]
    pub(super) fn count(&self, more: u64) -> bool {
        let left = self.left.get() - more as i64;
        self.left.set(left);
        left <= 0
    }

    /// [`Self::judge_operations`] is due at this number of operations.
    fn judge_at(&self, operations: u64) {
        let done = self.operations();
        self.check_operations.set(operations);
        self.left.set(operations.wrapping_sub(done) as i64);
    }

    /// Records progress at `now`.
    #[inline]
    pub(crate) fn progress(&self, now: u64) {
        self.at.set(now);
        self.operations.set(self.operations());
    }

    /// Records why the run is ended, unless there is a reason already.
    pub(super) fn end(&self, verdict: Outcome) {
        self.verdict.set(self.verdict.get().or(Some(verdict)));
    }

    /// Ends runs after this many memory operations in all.
    pub(crate) fn limit_operations(&self, most: u64) {
        self.most_operations.set(most);
        self.judge_at(self.check_operations.get().min(most));
    }

    /// Judges the time without progress at `now`. `expects` returns whether the operating system
    /// expects an event.
    pub(super) fn judge_time(
        &self,
        now: u64,
        ledger: &Ledger,
        expects: impl FnOnce() -> bool,
    ) -> Option<Outcome> {
        let mut verdict = None;
        if now.saturating_sub(self.at.get()) >= PATIENCE {
            if expects() {
                self.at.set(now);
            } else {
                verdict = Some(Outcome::Quiescent);
            }
        }
        let circle = ledger.circle(now.saturating_sub(PATIENCE));
        self.check_at.set(self.at.get().saturating_add(PATIENCE));
        verdict.or(circle.then_some(Outcome::Quiescent))
    }

    /// Judges the memory operations without progress, and their limit.
    pub(super) fn judge_operations(&self) -> Option<Outcome> {
        let operations = self.operations();
        if operations >= self.most_operations.get() {
            return Some(Outcome::OperationLimit);
        }
        let next = self.operations.get() + OPERATIONS;
        if operations >= next {
            return Some(Outcome::Livelock);
        }
        self.judge_at(next.min(self.most_operations.get()));
        None
    }
}
