//! Loops that poll: a round that cannot end the loop is not repeated.
//!
//! A task that polls reads words, lets other tasks run first, and reads them again. Once it has
//! read the same values in two rounds and written nothing, it waits until one of the words changes,
//! or until no other task can run. So two waiters do not take turns for ever while the owner could
//! run. A round that reads the same old values again leads to no other state either, so it is not
//! offered. Where states are remembered, they end such loops.

use std::collections::BTreeMap;

/// A read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Read {
    address: usize,
    value: u64,
    /// How often the word had changed.
    changes: u64,
    is_stale: bool,
}

/// The reads of a task between two pauses, or since it wrote.
#[derive(Default)]
struct Poll {
    round: Vec<Read>,
    wrote: bool,
    before: Vec<Read>,
    /// Whether the round before repeated the one before it.
    repeated: bool,
}

/// See the module documentation.
pub(super) struct Polls {
    tasks: Vec<Poll>,
    changes: BTreeMap<usize, u64>,
}

impl Polls {
    pub(super) fn new(tasks: usize) -> Self {
        let tasks = (0..tasks).map(|_| Poll::default()).collect();
        Self { tasks, changes: BTreeMap::new() }
    }

    fn changes(&self, address: usize) -> u64 {
        self.changes.get(&address).copied().unwrap_or(0)
    }

    /// Records that `task` read `value`, and that this is old if `is_stale`.
    pub(super) fn read(&mut self, task: usize, address: usize, value: u64, is_stale: bool) {
        let changes = self.changes(address);
        self.tasks[task].round.push(Read { address, value, changes, is_stale });
    }

    /// Records that `task` changed a word.
    pub(super) fn write(&mut self, task: usize, address: usize) {
        self.change(address);
        let poll = &mut self.tasks[task];
        poll.wrote = true;
        poll.round.clear();
    }

    /// Records that other tasks may read another value.
    pub(super) fn change(&mut self, address: usize) {
        *self.changes.entry(address).or_default() += 1;
    }

    /// Ends a round of `task`.
    pub(super) fn pause(&mut self, task: usize) {
        let poll = &mut self.tasks[task];
        let round = std::mem::take(&mut poll.round);
        let repeats = round == poll.before && !round.iter().any(|read| read.is_stale);
        poll.repeated = repeats && !poll.wrote && !round.is_empty();
        poll.before = round;
        poll.wrote = false;
    }

    /// Returns whether the next round of `task`, which pauses, would be as the last two.
    pub(super) fn waits(&self, task: usize) -> bool {
        let Poll { repeated, before, .. } = &self.tasks[task];
        *repeated && before.iter().all(|read| self.changes(read.address) == read.changes)
    }

    /// Returns whether `task` would read the same in its round as in the one before, up to this
    /// `value`.
    pub(super) fn repeats(&self, task: usize, address: usize, value: u64) -> bool {
        let Poll { round, before, wrote, .. } = &self.tasks[task];
        let same =
            |(one, other): (&Read, &Read)| (one.address, one.value) == (other.address, other.value);
        let next = before.get(round.len()).map(|read| (read.address, read.value));
        !wrote && next == Some((address, value)) && round.iter().zip(before).all(same)
    }
}
