//! Activities of owners while no thread waits for their locks. Samples catch few waits where each
//! is short. But they catch the same critical sections in proportion to their length, which shows
//! in which calls their owners sleep, for example.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::{KIND_SHIFT, MUTEX, SEMAPHORE, WRITE};
use crate::sampling::owners::Found;
use crate::sampling::thread_state::{Edge, State, Wait};

/// Maximum number of sampled locks. Each costs a read of the program's memory, which takes some
/// microseconds of the milliseconds between two samples.
const LOCKS: usize = 32;

/// Owners of locks that threads waited for at the time of an earlier sample.
#[derive(Default)]
pub(crate) struct Holding {
    /// The locks, with the kind of the waiting call.
    locks: BTreeSet<u64>,
    /// Observed activities of owners, by lock and acquiring place. The waiting place of these edges
    /// is not known.
    pub(crate) seen: BTreeMap<(Edge, State), u64>,
}

/// Returns the locks that threads wait for, with the kind of the waiting call.
fn wanted(waits: &BTreeMap<u64, Wait>) -> BTreeSet<u64> {
    waits.values().map(|wait| wait.edge.lock).collect()
}

impl Holding {
    /// Returns the owners of all locks except those that threads wait for, which are counted
    /// separately.
    pub(crate) fn owners(
        &self,
        waits: &BTreeMap<u64, Wait>,
        owner: impl Fn(u64) -> Option<Found>,
    ) -> Vec<(u64, Found)> {
        let wanted = wanted(waits);
        self.locks.difference(&wanted).filter_map(|lock| Some((*lock, owner(*lock)?))).collect()
    }

    /// Counts the activities of these owners, provided that they still own the locks after their
    /// states were read.
    pub(crate) fn add(
        &mut self,
        waits: &BTreeMap<u64, Wait>,
        owners: &[(u64, Found)],
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
    use crate::sampling::owners::Owner;

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
            holding.add(waits, &owners, owner, &states);
            holding.seen.get(&(Edge { held: 5, ..edge }, State::Sleeps(75))).copied()
        };
        assert_eq!(look(&BTreeMap::new()), None, "no thread has waited for it yet");
        assert_eq!((look(&waits), look(&waits)), (None, None), "waits count elsewhere");
        assert_eq!((look(&BTreeMap::new()), look(&BTreeMap::new())), (Some(1), Some(2)));
    }
}
