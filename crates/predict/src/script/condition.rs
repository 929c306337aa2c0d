//! The use of one condition by a program.

use std::collections::{BTreeMap, BTreeSet};

/// How a condition is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    pub(super) waits: u64,
    pub(super) late: u64,
    /// Waits that began again at once.
    pub(super) vain: u64,
    pub(super) signals: u64,
    /// Of the signals, those that wake all.
    pub(super) broadcasts: u64,
    /// Sites that signal it.
    pub(super) signallers: BTreeSet<usize>,
    /// Signals of the whole run for each pass, if the calls of all sites are known: windows show
    /// more of threads that do little at once.
    pub(super) share: Option<f64>,
    /// Sites of sections that wait for it, with the class of the thread.
    pub(super) sites: BTreeSet<(u64, usize)>,
    /// Of these sections, waits before the first signal of the section, and after one.
    pub(super) order: BTreeMap<(u64, usize), [u64; 2]>,
    /// Sections that began there.
    pub(super) passes: u64,
    /// Whether who takes it gives it up: a flag that the program has made a lock of.
    pub(super) is_lock: bool,
    /// Passes and signals of one thread in turn, and not.
    pub(super) turns: [u64; 2],
}

impl Use {
    /// Whether each section takes what a signal brings.
    pub(super) fn is_counted(&self) -> bool {
        /// Of the passes, those that wait where a wait is what a pass is for.
        const ALL: f64 = 0.8;
        /// Waits that began again, of those that ended with what they were for.
        const VAIN: f64 = 0.2;
        let share = self.share();
        let is_told = self.waits as f64 > ALL * self.passes as f64;
        // A thread that is woken in vain and waits again looks for something that a signal brings.
        let is_looking = self.vain as f64 > VAIN * self.waits as f64;
        // Each signal wakes one thread: if all passes wait, each still takes what one signal
        // brings, and a signal before the wait is not lost.
        let is_some = is_looking || !is_told || self.broadcasts == 0;
        self.waits > self.late && (self.is_lock || is_some && (0.5..2.0).contains(&share))
    }

    /// Signals for each pass.
    pub(super) fn share(&self) -> f64 {
        self.share.unwrap_or(self.signals as f64 / self.passes.max(1) as f64)
    }

    /// Whether the sections of a class at a site wait after they have signalled.
    pub(super) fn is_late(&self, at: (u64, usize)) -> bool {
        self.order.get(&at).is_some_and(|[early, late]| late > early)
    }

    /// Notes which thread signals it: the thread that passed, in turn, or others.
    pub(super) fn learn_turns(&mut self) {
        /// Of both together, those in turn at least.
        const MOST: f64 = 0.8;
        let [own, other] = self.turns.map(|count| count as f64);
        self.is_lock |= own > 10.0 && own > MOST * (own + other);
    }
}
