//! Waits in futex(2): which thread owns such a lock shows only when that thread wakes the waiter.
//! Until then the states of all other threads are kept, and then the owner's are taken from them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::layout::{ENDED_WORDS, FUTEX, KIND_SHIFT, N_HELD, N_LOCK, N_OWNER, N_SINCE};
use crate::looks::{Edge, Look, State, Wait};

/// Looks during one wait that are kept.
const LOOKS: usize = 50;

/// What threads did at one look.
type States = Rc<BTreeMap<u64, State>>;

/// Waits that had not ended at the last look, by their thread and begin.
#[derive(Default)]
pub(crate) struct Ended(BTreeMap<(u64, u64), (u64, Vec<States>)>);

impl Ended {
    /// Threads that waited.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u64> {
        self.0.keys().map(|(thread, _)| *thread)
    }

    /// Takes a thread's last waits that have ended, as its slot has them.
    pub(crate) fn take(&mut self, thread: u64, words: &[u64], look: &mut Look) {
        for words in words.chunks_exact(ENDED_WORDS).filter(|words| words[N_SINCE] != 0) {
            let Some((site, seen)) = self.0.remove(&(thread, words[N_SINCE])) else { continue };
            let (lock, held) = (words[N_LOCK], words[N_HELD]);
            let edge = Edge { lock, site, held, ..Edge::default() };
            for states in seen {
                if let Some(state) = states.get(&words[N_OWNER]) {
                    *look.owners.entry((edge, *state)).or_default() += 1;
                }
            }
        }
    }

    /// Those of these waits whose owner is not known.
    pub(crate) fn of(waits: &BTreeMap<u64, Wait>) -> impl Iterator<Item = &Wait> {
        let is_of = |wait: &&Wait| wait.edge.lock >> KIND_SHIFT == FUTEX && wait.owner == 0;
        waits.values().filter(is_of)
    }

    /// Adds what threads do now to these waits, and forgets all others.
    pub(crate) fn add(&mut self, waits: Vec<Wait>, states: &BTreeMap<u64, State>) {
        let mut now = BTreeMap::new();
        let mut shared = None;
        for wait in waits {
            let key = (wait.thread, wait.since);
            let (_, mut seen) = self.0.remove(&key).unwrap_or_default();
            if seen.len() < LOOKS {
                seen.push(Rc::clone(shared.get_or_insert_with(|| Rc::new(states.clone()))));
            }
            now.insert(key, (wait.edge.site, seen));
        }
        self.0 = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_shows_at_the_end_of_a_wait_is_looked_at_afterwards() {
        let edge = Edge { lock: 64 | FUTEX << KIND_SHIFT, site: 5, ..Edge::default() };
        let wait = Wait { thread: 1, since: 100, edge, ..Wait::default() };
        let (mut ended, mut look) = (Ended::default(), Look::default());
        assert_eq!(Ended::of(&BTreeMap::from([(1, wait)])).count(), 1);
        let states = |two: State| BTreeMap::from([(1, State::Waits(edge)), (2, two)]);
        ended.add(vec![wait], &states(State::Sleeps(230)));
        ended.add(vec![wait], &states(State::Sleeps(230)));
        ended.add(vec![wait], &states(State::Runs));
        // Another wait of the thread, and then this one.
        ended.take(1, &[99, 3, edge.lock, 7, 100, 2, edge.lock, 7], &mut look);
        let of = |state| look.owners.get(&(Edge { held: 7, ..edge }, state)).copied();
        assert_eq!((of(State::Sleeps(230)), of(State::Runs)), (Some(2), Some(1)));
        assert_eq!(ended.threads().count(), 0);
        ended.add(vec![wait], &states(State::Runs));
        ended.add(Vec::new(), &BTreeMap::new());
        assert_eq!(ended.threads().count(), 0);
    }
}
