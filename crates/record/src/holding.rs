//! What owners do while no thread waits for their locks. A look sees few waits where each is short,
//! but it sees the same sections as often as they are long: what their owners sleep in, for
//! example.

use std::collections::{BTreeMap, BTreeSet};

use crate::holders::Found;
use crate::layout::{KIND_SHIFT, MUTEX, SEMAPHORE, WRITE};
use crate::states::{Edge, State, Wait};

/// Locks that are looked at: each takes a read of the memory of the program, some microseconds of
/// the milliseconds between two looks.
const LOCKS: usize = 32;

/// Owners of locks that threads waited for at an earlier look.
#[derive(Default)]
pub(crate) struct Holding {
    /// With the kind of the waiting call.
    locks: BTreeSet<u64>,
    /// What owners were seen doing, by the lock and where they had acquired it; the waiting place
    /// of these edges is not known.
    pub(crate) seen: BTreeMap<(Edge, State), u64>,
}

/// The locks that threads wait for, with the kind of the waiting call.
fn wanted(waits: &BTreeMap<u64, Wait>) -> BTreeSet<u64> {
    waits.values().map(|wait| wait.edge.lock).collect()
}

impl Holding {
    /// The owners of all locks but those that threads wait for, which count apart.
    pub(crate) fn owners(
        &self,
        waits: &BTreeMap<u64, Wait>,
        owner: impl Fn(u64) -> Option<Found>,
    ) -> Vec<(u64, Found)> {
        let wanted = wanted(waits);
        let others = self.locks.difference(&wanted);
        others.filter_map(|lock| Some((*lock, owner(*lock)?))).collect()
    }

    /// Counts what these owners do, if they are owners after that was read as well.
    pub(crate) fn add(
        &mut self,
        (waits, owners): (&BTreeMap<u64, Wait>, &[(u64, Found)]),
        owner: impl Fn(u64) -> Option<Found>,
        states: &BTreeMap<u64, State>,
    ) {
        for (lock, found) in owners {
            let (one, Some([site, detail])) = found else { continue };
            let state = states.get(&one.thread).filter(|_| owner(*lock) == Some(*found));
            let Some(state) = state else { continue };
            let (held, held_detail) = (*site, *detail);
            let edge = Edge { lock: *lock, held, held_detail, ..Edge::default() };
            *self.seen.entry((edge, *state)).or_default() += 1;
        }
        let has_owner = |lock: &u64| [MUTEX, WRITE, SEMAPHORE].contains(&(lock >> KIND_SHIFT));
        let room = LOCKS.saturating_sub(self.locks.len());
        self.locks.extend(wanted(waits).into_iter().filter(has_owner).take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holders::Owner;

    #[test]
    fn owners_are_seen_while_no_thread_waits() {
        let lock = 64 | MUTEX << KIND_SHIFT;
        let edge = Edge { lock, ..Edge::default() };
        let owner = |_| Some((Owner { thread: 7, is_free: false }, Some([5, 0])));
        let states = BTreeMap::from([(7, State::Sleeps(75))]);
        let waits = BTreeMap::from([(8, Wait { thread: 8, edge, ..Wait::default() })]);
        let mut holding = Holding::default();
        let mut look = |waits: &BTreeMap<u64, Wait>| {
            let owners = holding.owners(waits, owner);
            holding.add((waits, &owners), owner, &states);
            holding.seen.get(&(Edge { held: 5, ..edge }, State::Sleeps(75))).copied()
        };
        assert_eq!(look(&BTreeMap::new()), None, "no thread has waited for it yet");
        assert_eq!((look(&waits), look(&waits)), (None, None), "waits count elsewhere");
        assert_eq!((look(&BTreeMap::new()), look(&BTreeMap::new())), (Some(1), Some(2)));
    }
}
