//! Waits in futex(2): the owner of such a lock is known only when it wakes a waiter. Until then the
//! states of all other threads are kept; the states of the owner are then selected from them.
//!
//! While threads wait, each release wakes one of them. So the owner at the time of a sample is the
//! thread that ends the first wait for that lock after the sample, not the thread that ends the
//! wait of a waiter that stays in the queue.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::layout::{EndedWait, FUTEX, KIND_SHIFT};
use crate::sampling::observations::Look;
use crate::sampling::thread_state::{Edge, State, Wait};

/// Maximum number of samples of a lock that are kept between two releases.
const LOOKS: usize = 50;

/// State of each thread at the time of one sample.
type States = Rc<BTreeMap<u64, State>>;

#[derive(Clone, Copy, Debug)]
struct End {
    /// The word that the thread waited at.
    word: u64,
    until: u64,
    owner: u64,
    lock: u64,
    held: u64,
}

impl End {
    /// Returns whether `state` may be a wait for the same lock. It is not known which lock a
    /// thread's word belongs to, so any wait at an unknown lock may be one.
    fn waits_too(&self, state: State) -> bool {
        let no_lock = FUTEX << KIND_SHIFT;
        let State::Waits(edge) = state else { return false };
        edge.lock == self.word || self.lock == no_lock && edge.lock >> KIND_SHIFT == FUTEX
    }
}

/// Waits that had not ended at the last sample.
#[derive(Default)]
pub(crate) struct Ended {
    /// The word of each wait, by its thread and the start of the wait.
    waits: BTreeMap<(u64, u64), u64>,
    /// Samples of each word since the last release of its lock, with the places where threads
    /// waited.
    looks: BTreeMap<u64, Vec<(States, Vec<u64>)>>,
    ends: Vec<End>,
}

impl Ended {
    pub(crate) fn threads(&self) -> impl Iterator<Item = u64> {
        self.waits.keys().map(|(thread, _)| *thread)
    }

    /// Takes from a thread's slot the waits that have ended.
    pub(crate) fn take(&mut self, thread: u64, waits: &[EndedWait]) {
        for wait in waits.iter().filter(|wait| wait.since != 0) {
            let Some(word) = self.waits.remove(&(thread, wait.since)) else { continue };
            let EndedWait { until, owner, lock, held, .. } = *wait;
            self.ends.push(End { word, until, owner, lock, held });
        }
    }

    /// Attributes the samples before the first end of a wait for each lock to the thread that owned
    /// the lock then. A thread that was itself waiting for the lock at the last sample acquired it
    /// later.
    pub(crate) fn settle(&mut self, look: &mut Look) {
        self.ends.sort_by_key(|end| (end.word, end.until));
        for ends in self.ends.chunk_by(|one, other| one.word == other.word) {
            let Some(looks) = self.looks.remove(&ends[0].word) else { continue };
            let Some((last, _)) = looks.last() else { continue };
            let waited = |end: &End| last.get(&end.owner).is_none_or(|state| end.waits_too(*state));
            let Some(end) = ends.iter().find(|end| !waited(end)) else { continue };
            for (states, sites) in &looks {
                let Some(state) = states.get(&end.owner).filter(|one| !end.waits_too(**one)) else {
                    continue;
                };
                for site in sites {
                    let edge =
                        Edge { lock: end.lock, site: *site, held: end.held, ..Edge::default() };
                    *look.owners.entry((edge, *state)).or_default() += 1;
                }
            }
        }
        self.ends.clear();
    }

    /// Returns the waits without a known owner.
    pub(crate) fn of(waits: &BTreeMap<u64, Wait>) -> impl Iterator<Item = &Wait> {
        waits.values().filter(|wait| wait.edge.lock >> KIND_SHIFT == FUTEX && wait.owner == 0)
    }

    /// Stores the current states of threads for these waits, and drops all others. The flag of a
    /// wait says that it has not ended since the sample. If a wait for a lock has ended, the lock
    /// may have changed hands, so its sample is not kept.
    pub(crate) fn add(&mut self, waits: &[(Wait, bool)], states: &BTreeMap<u64, State>) {
        self.waits = BTreeMap::new();
        let mut sites: BTreeMap<u64, (bool, Vec<u64>)> = BTreeMap::new();
        for (wait, lasts) in waits {
            let word = wait.edge.lock;
            self.waits.insert((wait.thread, wait.since), word);
            let (all_last, sites) = sites.entry(word).or_insert((true, Vec::new()));
            *all_last &= lasts;
            sites.push(wait.edge.site);
        }
        self.looks.retain(|word, _| sites.contains_key(word));
        let mut shared = None;
        for (word, (_, sites)) in sites.into_iter().filter(|(_, (all_last, _))| *all_last) {
            let seen = self.looks.entry(word).or_default();
            if seen.len() < LOOKS {
                let states = shared.get_or_insert_with(|| Rc::new(states.clone()));
                seen.push((Rc::clone(states), sites));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 64 | FUTEX << KIND_SHIFT;

    fn wait(thread: u64, site: u64) -> Wait {
        let edge = Edge { lock: LOCK, site, ..Edge::default() };
        Wait { thread, since: 100 + thread, edge, ..Wait::default() }
    }

    fn end(thread: u64, until: u64, owner: u64) -> EndedWait {
        EndedWait { since: 100 + thread, until, owner, lock: LOCK, held: owner * 10 }
    }

    fn count(look: &Look, site: u64, owner: u64, state: State) -> Option<u64> {
        let edge = Edge { lock: LOCK, site, held: owner * 10, ..Edge::default() };
        look.owners.get(&(edge, state)).copied()
    }

    #[test]
    fn an_owner_that_shows_at_the_end_of_a_wait_is_looked_at_afterwards() {
        let waits = [(wait(1, 5), true)];
        assert_eq!(Ended::of(&BTreeMap::from([(1, waits[0].0)])).count(), 1);
        let (mut ended, mut look) = (Ended::default(), Look::default());
        let states = |two| BTreeMap::from([(1, State::Waits(waits[0].0.edge)), (2, two)]);
        ended.add(&waits, &states(State::Sleeps(230)));
        ended.add(&waits, &states(State::Sleeps(230)));
        ended.add(&waits, &states(State::Runs));
        // Another wait of the thread, and then this one.
        let other = EndedWait { since: 99, until: 100, owner: 3, lock: LOCK, held: 7 };
        ended.take(1, &[other, end(1, 200, 2)]);
        ended.settle(&mut look);
        let of = |state| count(&look, 5, 2, state);
        assert_eq!((of(State::Sleeps(230)), of(State::Runs)), (Some(2), Some(1)));
        assert_eq!(look.owners.len(), 2);
        assert_eq!(ended.threads().count(), 0);
        ended.add(&waits, &states(State::Runs));
        ended.add(&[], &BTreeMap::new());
        assert_eq!((ended.threads().count(), ended.looks.len()), (0, 0));
    }

    #[test]
    fn the_owner_is_the_one_that_releases_first_and_not_the_one_that_wakes_a_waiter_last() {
        // Threads 1 and 3 wait for 2, which sleeps; 1 gets the lock from it, and 3 from 1.
        let waits = [(wait(1, 5), true), (wait(3, 6), true)];
        let mut states: BTreeMap<u64, State> =
            waits.iter().map(|(wait, _)| (wait.thread, State::Waits(wait.edge))).collect();
        states.insert(2, State::Sleeps(75));
        let (mut ended, mut look) = (Ended::default(), Look::default());
        ended.add(&waits, &states);
        ended.take(3, &[end(3, 210, 1)]);
        ended.take(1, &[end(1, 200, 2)]);
        ended.settle(&mut look);
        assert_eq!(count(&look, 5, 2, State::Sleeps(75)), Some(1));
        assert_eq!(count(&look, 6, 2, State::Sleeps(75)), Some(1));
        assert_eq!(look.owners.len(), 2);
    }

    #[test]
    fn a_look_during_which_the_lock_changed_hands_does_not_count() {
        let waits = [(wait(1, 5), false), (wait(3, 6), true)];
        let states = BTreeMap::from([(2, State::Runs)]);
        let (mut ended, mut look) = (Ended::default(), Look::default());
        ended.add(&waits, &states);
        ended.take(3, &[end(3, 210, 2)]);
        ended.settle(&mut look);
        assert!(look.owners.is_empty(), "{:?}", look.owners);
    }
}
