//! Tournament tree over the CPUs: who acts next, and how far it may run before somebody else must.

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
    /// neighbours and nothing else.
    nodes: Vec<(u64, u32)>,
}

impl Tree {
    /// A tree for `cpus` CPUs, all keys at "nothing to do".
    pub fn new(cpus: usize) -> Self {
        let width = cpus.next_power_of_two().max(2);
        let mut nodes = vec![(u64::MAX, 0); 2 * width];
        for cpu in 0..width {
            nodes[width + cpu].1 = cpu as u32;
        }
        for node in (1..width).rev() {
            nodes[node] = nodes[2 * node];
        }
        Self { width, nodes }
    }

    /// Key of `cpu`.
    #[inline]
    pub fn key(&self, cpu: usize) -> u64 {
        self.nodes[self.width + cpu].0
    }

    /// Sets the key of `cpu`.
    #[inline]
    pub fn set(&mut self, cpu: usize, key: u64) {
        let mut node = self.width + cpu;
        let mut winner = (key, cpu as u32);
        self.nodes[node] = winner;
        while node > 1 {
            let rival = self.nodes[node ^ 1];
            if rival < winner {
                winner = rival;
            }
            node >>= 1;
            self.nodes[node] = winner;
        }
    }

    /// The earliest CPU and its key.
    #[inline]
    pub fn first(&self) -> (usize, u64) {
        let (key, cpu) = self.nodes[1];
        (cpu as usize, key)
    }

    /// The earliest CPU other than `cpu`, and its key.
    #[inline]
    pub fn first_other(&self, cpu: usize) -> (usize, u64) {
        let mut node = self.width + cpu;
        let mut best = (u64::MAX, u32::MAX);
        while node > 1 {
            best = best.min(self.nodes[node ^ 1]);
            node >>= 1;
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
            let mut tree = Tree::new(cpus);
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
