//! Tournament tree over the CPUs: the CPU that acts next, and how far it may run before another CPU
//! has to act.

use core::cell::Cell;
use core::hint::select_unpredictable;

/// A CPU and the time at which it acts, in picoseconds, packed so that one comparison orders them:
/// by time, and at the same time by CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u128);

impl Turn {
    /// No CPU, never.
    pub(crate) const NEVER: Self = Self(u128::MAX);

    /// `cpu` acts at `at`.
    #[inline]
    pub(crate) const fn new(at: u64, cpu: usize) -> Self {
        Self((at as u128) << 64 | cpu as u128)
    }

    /// When.
    #[inline]
    pub(crate) const fn at(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The CPU.
    #[inline]
    pub(crate) const fn cpu(self) -> usize {
        self.0 as usize
    }

    /// The earlier of two. Branchless, since the outcome is unpredictable.
    #[inline(always)]
    #[must_use]
    pub(crate) fn earlier(self, other: Self) -> Self {
        select_unpredictable(other.0 < self.0, other, self)
    }
}

/// Children of a node. They fill one cache line of the host, and the matches of a node are not
/// written as a loop, for which compilers would emit branches.
const WAYS: usize = 4;

/// Four neighbours.
#[derive(Debug)]
#[repr(align(64))]
struct Node([Cell<Turn>; WAYS]);

impl Node {
    fn at(&self, place: usize) -> &Cell<Turn> {
        &self.0[place % WAYS]
    }

    /// Returns the earliest turn except for the turn at `place`.
    #[inline(always)]
    fn first_other(&self, place: usize) -> Turn {
        let other = |distance| self.at(place ^ distance).get();
        other(1).earlier(other(2)).earlier(other(3))
    }
}

/// One key (virtual time in picoseconds) for each CPU; `u64::MAX` is "nothing to do".
///
/// Ties go to the lower CPU number. All operations are O(log CPUs) without allocation; the tree
/// returns the earliest CPU and, for run-ahead, the earliest of the others.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The place of CPU 0. Place `p` is in node `p / WAYS`, and has the winner of node `p + 1` if
    /// that exists.
    leaves: usize,
    nodes: Box<[Node]>,
    /// The winner of node 0.
    first: Cell<Turn>,
}

impl Tree {
    /// A tree for `cpus` CPUs, all keys at "nothing to do".
    pub(crate) fn new(cpus: usize) -> Self {
        // Nodes above the last level, and on it.
        let (mut above, mut last) = (0, 1);
        while last * WAYS < cpus {
            above += last;
            last *= WAYS;
        }
        let node = || Node(core::array::from_fn(|_| Cell::new(Turn::NEVER)));
        let nodes = (0..above + last).map(|_| node()).collect();
        let tree = Self { leaves: above * WAYS, nodes, first: Cell::new(Turn::NEVER) };
        (0..cpus).for_each(|cpu| tree.set(cpu, u64::MAX));
        tree
    }

    /// Key of `cpu`.
    #[inline]
    pub(crate) fn key(&self, cpu: usize) -> u64 {
        let place = self.leaves + cpu;
        self.nodes[place / WAYS].at(place).get().at()
    }

    /// Sets the key of `cpu`.
    #[inline(always)]
    pub(crate) fn set(&self, cpu: usize, key: u64) {
        let mut place = self.leaves + cpu;
        let mut winner = self.enter(place, Turn::new(key, cpu));
        while place >= WAYS {
            place = place / WAYS - 1;
            winner = self.enter(place, winner);
        }
        self.first.set(winner);
    }

    /// Sets `place` to `turn`; returns the winner of the node.
    #[inline(always)]
    fn enter(&self, place: usize, turn: Turn) -> Turn {
        let node = &self.nodes[place / WAYS];
        node.at(place).set(turn);
        turn.earlier(node.first_other(place))
    }

    /// The earliest CPU and its key.
    #[inline]
    pub(crate) fn first(&self) -> Turn {
        self.first.get()
    }

    /// The earliest CPU other than `cpu`, and its key.
    #[inline]
    pub(crate) fn first_other(&self, cpu: usize) -> Turn {
        let mut place = self.leaves + cpu;
        let mut best = self.nodes[place / WAYS].first_other(place);
        while place >= WAYS {
            place = place / WAYS - 1;
            best = best.earlier(self.nodes[place / WAYS].first_other(place));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_linear_scan() {
        for cpus in [1, 2, 3, 4, 7, 64, 100] {
            let tree = Tree::new(cpus);
            let mut state = 12345_u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let cpu = (state >> 33) as usize % cpus;
                let key = (state >> 20) % 16;
                tree.set(cpu, if key == 15 { u64::MAX } else { key });
                let scan = (0..cpus).map(|c| (tree.key(c), c)).min().unwrap();
                let first = tree.first();
                assert_eq!((first.at(), first.cpu()), scan);
                let others = (0..cpus).filter(|&c| c != first.cpu());
                let other = others.map(|c| (tree.key(c), c)).min();
                if let Some((at, rival)) = other.filter(|o| o.0 != u64::MAX) {
                    assert_eq!(tree.first_other(first.cpu()), Turn::new(at, rival));
                }
            }
        }
    }
}
