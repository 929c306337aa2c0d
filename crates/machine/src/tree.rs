//! Tournament tree over the CPUs: who acts next, and how far it may run before somebody else must.

use core::cell::Cell;
use core::hint::select_unpredictable;

/// One key (virtual time in picoseconds) for each CPU; `u64::MAX` is "nothing to do".
///
/// Ties go to the lower CPU number. All operations are O(log CPUs) without allocation; the tree
/// gives the earliest CPU and, for run-ahead, the earliest of the others.
#[derive(Debug)]
pub struct Tree {
    /// Number of leaves, a power of two.
    width: usize,
    /// Node 1 is the root, the children of `i` are `2i` and `2i+1`, the leaf of CPU `c` is
    /// `width + c`. Each node is the winner below it, key and CPU, so that a match reads two
    /// neighbours and nothing else. Left of two neighbours are the lower CPUs, so equal keys need
    /// no look at the CPU.
    nodes: Box<[Cell<(u64, u32)>]>,
}

impl Tree {
    /// A tree for `cpus` CPUs, all keys at "nothing to do".
    pub fn new(cpus: usize) -> Self {
        let width = cpus.next_power_of_two().max(2);
        let first = |node: usize| (node << (width.ilog2() - node.max(1).ilog2())) - width;
        let nodes = (0..2 * width).map(|node| match node {
            0 => Cell::new((u64::MAX, 0)),
            _ => Cell::new((u64::MAX, first(node) as u32)),
        });
        Self { width, nodes: nodes.collect() }
    }

    /// Key of `cpu`.
    #[inline]
    pub fn key(&self, cpu: usize) -> u64 {
        self.nodes[self.width + cpu].get().0
    }

    /// Sets the key of `cpu`.
    #[inline]
    pub fn set(&self, cpu: usize, key: u64) {
        let mut node = self.width + cpu;
        let mut winner = (key, cpu as u32);
        self.nodes[node].set(winner);
        while node > 1 {
            winner = Self::match_of(winner, self.nodes[node ^ 1].get(), node);
            node >>= 1;
            self.nodes[node].set(winner);
        }
    }

    /// The winner of `own`, which comes from `node`, and `rival`, which comes from its neighbour.
    #[inline(always)]
    fn match_of(own: (u64, u32), rival: (u64, u32), node: usize) -> (u64, u32) {
        // Nobody could predict who wins: no branch.
        let wins = rival.0 < own.0 || (rival.0 == own.0 && node & 1 == 1);
        (select_unpredictable(wins, rival.0, own.0), select_unpredictable(wins, rival.1, own.1))
    }

    /// The earliest CPU and its key.
    #[inline]
    pub fn first(&self) -> (usize, u64) {
        let (key, cpu) = self.nodes[1].get();
        (cpu as usize, key)
    }

    /// The earliest CPU other than `cpu`, and its key.
    #[inline]
    pub fn first_other(&self, cpu: usize) -> (usize, u64) {
        let mut node = self.width + cpu;
        let mut best = self.nodes[node ^ 1].get();
        while node > 3 {
            node >>= 1;
            best = Self::match_of(best, self.nodes[node ^ 1].get(), node);
        }
        (best.1 as usize, best.0)
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
                let (first, at) = tree.first();
                assert_eq!((at, first), scan);
                let other = (0..cpus).filter(|&c| c != first).map(|c| (tree.key(c), c)).min();
                if let Some((at, rival)) = other.filter(|o| o.0 != u64::MAX) {
                    assert_eq!(tree.first_other(first), (rival, at));
                }
            }
        }
    }
}
