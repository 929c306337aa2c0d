//! The use of one condition by a program.

use std::collections::{BTreeMap, BTreeSet};

/// A pool: a condition whose tokens each thread takes, keeps for some time and returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    /// Its condition, by the index among the locks of the process.
    pub(crate) lock: usize,
    /// Its condition, by the index that steps use.
    pub(crate) condition: usize,
    /// Number of tokens; `None` if threads waited too rarely to tell.
    pub(crate) units: Option<u32>,
    /// Tokens taken at any time: mean over the run, with the time for which their owners waited for
    /// a CPU or for a lock, and without it.
    pub(crate) taken: [f64; 2],
}

/// How a condition is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    pub(super) waits: u64,
    pub(super) late: u64,
    /// Waits that were repeated immediately.
    pub(super) vain: u64,
    pub(super) signals: u64,
    /// Signals that wake all waiters.
    pub(super) broadcasts: u64,
    /// Sites that signal it.
    pub(super) signallers: BTreeSet<usize>,
    /// Signals per pass in the whole run, if the number of calls of all sites is known: windows
    /// over-represent threads that do little at a time.
    pub(super) share: Option<f64>,
    /// Sites of critical sections that wait for it, with the class of the thread.
    pub(super) sites: BTreeSet<(u64, usize)>,
    /// In these critical sections, the number of waits before and after the first signal of the
    /// section.
    pub(super) order: BTreeMap<(u64, usize), [u64; 2]>,
    /// Critical sections that began there.
    pub(super) passes: u64,
    /// Whether the thread that takes its token also returns it: a flag that the program uses as a
    /// lock.
    pub(super) is_lock: bool,
    /// Pairs of successive passes and signals of one thread that alternate, and pairs that do not.
    pub(super) turns: [u64; 2],
}

impl Use {
    /// Returns whether each critical section takes tokens that signals bring.
    pub(super) fn is_counted(&self) -> bool {
        /// Share of passes that wait above which waiting is the purpose of a pass.
        const ALL: f64 = 0.8;
        /// Repeated waits per successful wait above which waiters look for a token.
        const VAIN: f64 = 0.2;
        let share = self.share();
        let is_told = self.waits as f64 > ALL * self.passes as f64;
        // A thread that waits again after a futile wakeup looks for something that a signal brings.
        let is_looking = self.vain as f64 > VAIN * self.waits as f64;
        // If each signal wakes one thread and all passes wait, each pass still takes one token, and
        // a signal before the wait is not lost.
        let is_some = is_looking || !is_told || self.broadcasts == 0;
        self.waits > self.late && (self.is_lock || is_some && (0.5..2.0).contains(&share))
    }

    /// Returns the number of signals per pass.
    pub(super) fn share(&self) -> f64 {
        self.share.unwrap_or(self.signals as f64 / self.passes.max(1) as f64)
    }

    /// Returns whether the critical sections of a class at a site wait after they have signalled.
    pub(super) fn is_late(&self, at: (u64, usize)) -> bool {
        self.order.get(&at).is_some_and(|[early, late]| late > early)
    }

    /// Marks the condition as a lock if its passes and signals mostly alternate within one thread.
    pub(super) fn learn_turns(&mut self) {
        /// Minimum share of pairs that alternate.
        const MOST: f64 = 0.8;
        let [own, other] = self.turns.map(|count| count as f64);
        self.is_lock |= own > 10.0 && own > MOST * (own + other);
    }
}
