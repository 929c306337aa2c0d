//! Tournament tree over the CPUs: who acts next, and how far it may run before somebody else must.

/// One key (virtual time in picoseconds) for each CPU; `u64::MAX` is "nothing to do".
///
/// Ties go to the lower CPU number. All operations are O(log CPUs) without allocation; the tree
/// gives the earliest CPU and, for run-ahead, the earliest of the others.
#[derive(Debug)]
pub struct Tree {
    /// Number of leaves, a power of two.
    width: usize,
    keys: Vec<u64>,
    /// Winner (CPU) of each inner node; node 1 is the root, the children of `i` are `2i` and
    /// `2i+1`.
    winners: Vec<u32>,
}

impl Tree {
    /// A tree for `cpus` CPUs, all keys at "nothing to do".
    pub fn new(cpus: usize) -> Self {
        let width = cpus.next_power_of_two().max(2);
        let mut tree = Self { width, keys: vec![u64::MAX; width], winners: vec![0; width] };
        for node in (1..width).rev() {
            tree.winners[node] = tree.play(node);
        }
        tree
    }

    fn contender(&self, node: usize) -> u32 {
        if node >= self.width { (node - self.width) as u32 } else { self.winners[node] }
    }

    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.contender(2 * node), self.contender(2 * node + 1));
        if self.keys[left as usize] <= self.keys[right as usize] { left } else { right }
    }

    /// Key of `cpu`.
    #[inline]
    pub fn key(&self, cpu: usize) -> u64 {
        self.keys[cpu]
    }

    /// Sets the key of `cpu`.
    #[inline]
    pub fn set(&mut self, cpu: usize, key: u64) {
        self.keys[cpu] = key;
        let mut node = (self.width + cpu) >> 1;
        while node > 0 {
            let winner = self.play(node);
            self.winners[node] = winner;
            node >>= 1;
        }
    }

    /// The earliest CPU and its key.
    #[inline]
    pub fn first(&self) -> (usize, u64) {
        let cpu = self.winners[1] as usize;
        (cpu, self.keys[cpu])
    }

    /// The earliest CPU other than `cpu`, and its key.
    #[inline]
    pub fn first_other(&self, cpu: usize) -> (usize, u64) {
        let mut node = self.width + cpu;
        let mut best = (usize::MAX, u64::MAX);
        while node > 1 {
            let rival = self.contender(node ^ 1) as usize;
            let key = self.keys[rival];
            if key < best.1 || (key == best.1 && rival < best.0) {
                best = (rival, key);
            }
            node >>= 1;
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
