//! What a task knows of memory, or passes on with a write.

use std::rc::Rc;

/// For each word the newest write that happened before, and the same for other data. Positions are
/// in the modification order of the word.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// For each word.
    pub(super) seen: Vec<u32>,
    /// For each access to data that is not atomic: its number.
    pub(super) data: Vec<u32>,
    /// For each task the number of its events that happened before, if events are recorded.
    pub(super) clock: Vec<u32>,
}

/// Raises each entry of `to` to that of `from`.
fn raise_all(to: &mut Vec<u32>, from: &[u32]) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    for (to, &from) in to.iter_mut().zip(from) {
        *to = (*to).max(from);
    }
}

/// Raises one entry.
pub(super) fn raise(entries: &mut Vec<u32>, place: usize, to: u32) {
    if entries.len() <= place {
        entries.resize(place + 1, 0);
    }
    entries[place] = entries[place].max(to);
}

/// Returns whether no entry of `of` is above that of `than`.
fn is_below(of: &[u32], than: &[u32]) -> bool {
    of.iter().enumerate().all(|(place, &entry)| entry <= than.get(place).copied().unwrap_or(0))
}

/// Joins `other` into `view`.
pub(super) fn join(view: &mut Rc<View>, other: &Rc<View>) {
    if Rc::ptr_eq(view, other) || other.is_below(view) {
        return;
    }
    if view.is_below(other) {
        *view = Rc::clone(other);
        return;
    }
    let view = Rc::make_mut(view);
    raise_all(&mut view.seen, &other.seen);
    raise_all(&mut view.data, &other.data);
    raise_all(&mut view.clock, &other.clock);
}

impl View {
    fn is_below(&self, other: &Self) -> bool {
        is_below(&self.seen, &other.seen)
            && is_below(&self.data, &other.data)
            && is_below(&self.clock, &other.clock)
    }

    /// Returns the position of the newest write to the word number `place`.
    pub(super) fn position(&self, place: usize) -> u32 {
        self.seen.get(place).copied().unwrap_or(0)
    }

    /// Returns the number of events of `task` that happened before.
    pub(super) fn events(&self, task: usize) -> u32 {
        self.clock.get(task).copied().unwrap_or(0)
    }
}
