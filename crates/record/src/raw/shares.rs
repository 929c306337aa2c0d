//! Attributes waits in futex(2) to the places that held the lock.
//!
//! The program knows only which thread ended a wait. A queued thread waits for all owners before
//! that one, so the wait time of a place for a lock is divided in proportion to the samples of the
//! owners, if there are enough samples.

use std::collections::BTreeMap;

use crate::layout::{self, FUTEX, KIND_SHIFT};
use crate::sampling::observations::Look;
use crate::sampling::thread_state::Edge;

/// Minimum number of samples to divide the time: with fewer, an owner that holds the lock for a
/// tenth of the time may be missing.
const ENOUGH: u64 = 20;

type Key = (u64, u64, u64);

/// Ticks of waits, by lock, waiting place and holding place.
#[derive(Default)]
pub(crate) struct Shares {
    /// By the thread that ended the waits.
    ended: BTreeMap<Key, u64>,
    /// By the owner at the time of each sample; empty if there are too few samples.
    seen: BTreeMap<Key, u64>,
}

impl Shares {
    pub(crate) fn of(edges: &[layout::Edge], look: &Look) -> Self {
        let mut ended: BTreeMap<Key, u64> = BTreeMap::new();
        let mut ticks: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let is_futex = |lock: u64| lock != u64::MAX && lock >> KIND_SHIFT == FUTEX;
        for edge in edges.iter().filter(|edge| is_futex(edge.lock)) {
            for sum in [
                ended.entry((edge.lock, edge.site, edge.held)).or_default(),
                ticks.entry((edge.lock, edge.site)).or_default(),
            ] {
                *sum = sum.saturating_add(edge.ticks);
            }
        }
        let mut looks: BTreeMap<Key, u64> = BTreeMap::new();
        let mut sums: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for ((edge, _), count) in look.owners.iter().filter(|((edge, _), _)| is_futex(edge.lock)) {
            *looks.entry((edge.lock, edge.site, edge.held)).or_default() += count;
            *sums.entry((edge.lock, edge.site)).or_default() += count;
        }
        let enough = |key: &Key| sums.get(&(key.0, key.1)).copied().filter(|sum| *sum >= ENOUGH);
        let share = |key: &Key| {
            let looks = looks.get(key).copied().unwrap_or(0) as f64;
            let ticks = ticks.get(&(key.0, key.1)).copied().unwrap_or(0) as f64;
            Some((*key, (ticks * looks / enough(key)? as f64) as u64))
        };
        let seen = ended.keys().chain(looks.keys()).filter_map(share).collect();
        Self { ended, seen }
    }

    /// Returns the ticks to attribute to `edge`, which ended waits of `ticks`.
    pub(crate) fn ticks(&self, edge: &Edge, ticks: u64) -> u64 {
        let key = (edge.lock, edge.site, edge.held);
        match (self.seen.get(&key), self.ended.get(&key)) {
            (Some(seen), Some(ended)) if *ended > 0 => {
                (*seen as f64 * (ticks as f64 / *ended as f64)) as u64
            }
            _ => ticks,
        }
    }

    /// Returns the ticks of `edge` if its owners were only sampled and ended no wait. Returns zero
    /// the second time.
    pub(crate) fn rest(&mut self, edge: &Edge) -> u64 {
        let key = (edge.lock, edge.site, edge.held);
        let is_known = self.ended.get(&key).is_some_and(|ticks| *ticks > 0);
        if is_known { 0 } else { self.seen.remove(&key).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Part as _;
    use crate::sampling::thread_state::State;

    #[test]
    fn time_is_divided_by_the_looks_at_owners() {
        let lock = 64 | FUTEX << KIND_SHIFT;
        let edge = |held| Edge { lock, site: 5, held, ..Edge::default() };
        let mut edges = <[layout::Edge; 2]>::zeroed();
        for (edge, (held, ticks)) in edges.iter_mut().zip([(1, 900), (2, 100)]) {
            (edge.lock, edge.site, edge.held, edge.ticks) = (lock, 5, held, ticks);
        }
        let mut look = Look::default();
        let few = Shares::of(&*edges, &look);
        assert_eq!((few.ticks(&edge(1), 900), few.ticks(&edge(2), 100)), (900, 100));
        for (held, count) in [(1, 3), (2, 24), (3, 3)] {
            look.owners.insert((edge(held), State::Runs), count);
        }
        let mut shares = Shares::of(&*edges, &look);
        assert_eq!((shares.ticks(&edge(1), 450), shares.ticks(&edge(2), 100)), (50, 800));
        assert_eq!(
            (shares.rest(&edge(2)), shares.rest(&edge(3)), shares.rest(&edge(3))),
            (0, 100, 0)
        );
    }
}
