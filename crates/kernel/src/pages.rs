//! Sets of page numbers: which pages of a file or of a heap exist.

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// A set of page numbers that starts at 0 and is dense.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    words: Vec<u64>,
}

impl Pages {
    /// Whether `page` is in the set.
    #[inline]
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.words.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Adds `page`; whether it was new.
    pub(crate) fn insert(&mut self, page: u64) -> bool {
        let word = (page / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (page % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Adds all of `others`.
    pub(crate) fn insert_all(&mut self, others: &Self) {
        if self.words.len() < others.words.len() {
            self.words.resize(others.words.len(), 0);
        }
        for (word, other) in self.words.iter_mut().zip(&others.words) {
            *word |= other;
        }
    }

    /// Takes `page` out; whether it was in the set.
    pub(crate) fn remove(&mut self, page: u64) -> bool {
        let there = self.contains(page);
        if there {
            self.words[(page / 64) as usize] &= !(1 << (page % 64));
        }
        there
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Nodes of a tree of these pages with 64 entries each, without holes; page 0 alone needs none
    /// (`radix_tree_extend`).
    pub(crate) fn tree_nodes(&self) -> u32 {
        let used = self.words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        if used == 0 || used == 1 && self.words[0] == 1 {
            return 0;
        }
        let (mut level, mut nodes) = (used, used);
        while level > 1 {
            level = level.div_ceil(64);
            nodes += level;
        }
        nodes as u32
    }

    /// Removes `first` and all after it; returns how many.
    pub(crate) fn remove_from(&mut self, first: u64) -> u32 {
        let word = (first / 64) as usize;
        let mut removed = 0;
        if let Some(held) = self.words.get_mut(word) {
            let keep = (1u64 << (first % 64)) - 1;
            removed += (*held & !keep).count_ones();
            *held &= keep;
            removed += self.words[word + 1..].iter().map(|word| word.count_ones()).sum::<u32>();
            self.words.truncate(word + 1);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_a_node_for_64_pages_and_for_64_nodes() {
        let mut pages = Pages::default();
        assert_eq!(pages.tree_nodes(), 0);
        for (page, nodes) in [(0, 0), (1, 1), (63, 1), (64, 3), (4095, 65), (4096, 68)] {
            pages.insert(page);
            assert_eq!(pages.tree_nodes(), nodes, "up to page {page}");
        }
    }

    #[test]
    fn insertion_and_truncation_count_exactly() {
        let mut pages = Pages::default();
        for page in [0, 1, 63, 64, 200] {
            assert!(pages.insert(page));
            assert!(!pages.insert(page));
        }
        assert_eq!(pages.remove_from(300), 0);
        assert_eq!(pages.remove_from(64), 2);
        assert_eq!((pages.count(), pages.remove(63), pages.remove(63)), (3, true, false));
        let mut more = Pages::default();
        more.insert(63);
        pages.insert_all(&more);
        assert!(pages.contains(63) && !pages.contains(64) && !pages.contains(200));
        assert_eq!(pages.remove_from(1), 2);
        assert_eq!(pages.remove_from(0), 1);
        assert_eq!(pages.remove_from(0), 0);
    }
}
