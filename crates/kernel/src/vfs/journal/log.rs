//! The space of the journal: committed transactions with blocks that have not been written in place
//! yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Additional blocks of a transaction in the journal: descriptor and commit record.
const BESIDE_BLOCKS: u32 = 2;

/// A block of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Block {
    /// Of an inode.
    Inode(u64),
    /// Entries of a directory.
    Entries(u64),
    /// Bitmap of a group of blocks, and the group's descriptor.
    Bitmap(u64),
    /// The superblock.
    Super,
    /// The labels of files.
    Label,
}

impl Block {
    /// Which of `slots` places it has in memory: the superblock and the bitmap one each,
    /// directories a quarter, inodes the rest, and the labels one more.
    pub(super) fn slot(self, slots: usize) -> usize {
        let quarter = slots as u64 / 4;
        let slot = match self {
            Self::Super => 0,
            Self::Bitmap(_) => 1,
            Self::Label => slots as u64,
            Self::Entries(directory) => 2 + directory % (quarter - 2),
            Self::Inode(number) => quarter + number % (slots as u64 - quarter),
        };
        slot as usize
    }

    /// Where it lies: an area of the disk and a number in it. Only neighbours in the table of
    /// inodes are adjacent; the rest is scattered.
    pub(super) fn place(self) -> (u64, u64) {
        match self {
            Self::Inode(number) => (0, number),
            Self::Entries(directory) => (1, 2 * directory),
            Self::Bitmap(group) => (2, 2 * group),
            Self::Super => (3, 0),
            Self::Label => (4, 0),
        }
    }
}

/// The journal's space. A block that a later transaction wrote again need not be written in place
/// for the earlier one, and the oldest transaction is removed when it has no blocks left.
#[derive(Default)]
pub(super) struct Log {
    /// Blocks in the journal, and blocks that are still to be written in place, by transaction.
    transactions: VecDeque<(u32, u32)>,
    /// Number of the first of them.
    first: u64,
    /// The last transaction that wrote a block.
    home: BTreeMap<Block, u64>,
    /// Blocks of the journal in use.
    pub(super) used: u32,
    /// Of these, blocks before the oldest transaction: free when the journal's tail moves.
    left_behind: u32,
}

impl Log {
    pub(super) fn push(&mut self, blocks: &BTreeSet<Block>) {
        let own = self.first + self.transactions.len() as u64;
        let count = blocks.len() as u32;
        self.transactions.push_back((count + BESIDE_BLOCKS, count));
        self.used += count + BESIDE_BLOCKS;
        for &block in blocks {
            if let Some(earlier) = self.home.insert(block, own) {
                self.transactions[(earlier - self.first) as usize].1 -= 1;
            }
        }
        self.drop_written();
    }

    /// Blocks of the oldest transaction that are to be written in place.
    pub(super) fn oldest(&self) -> Option<Vec<Block>> {
        self.transactions.front()?;
        let of_oldest = self.home.iter().filter(|&(_, &home)| home == self.first);
        Some(of_oldest.map(|(&block, _)| block).collect())
    }

    /// Blocks that are still to be written in place for some transaction.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.home.keys().copied()
    }

    /// The blocks of the oldest transaction have been written in place.
    pub(super) fn oldest_written(&mut self) {
        let oldest = self.first;
        self.home.retain(|_, &mut home| home != oldest);
        if let Some(front) = self.transactions.front_mut() {
            front.1 = 0;
        }
        self.drop_written();
    }

    /// Blocks that [`Self::move_tail`] would free.
    pub(super) fn left_behind(&self) -> u32 {
        self.left_behind
    }

    /// Moves the tail of the journal to the oldest transaction, if that frees `least` blocks;
    /// returns whether it did.
    pub(super) fn move_tail(&mut self, least: u32) -> bool {
        let moves = self.left_behind >= least.max(1);
        if moves {
            self.used -= core::mem::take(&mut self.left_behind);
        }
        moves
    }

    fn drop_written(&mut self) {
        while let Some(&(blocks, 0)) = self.transactions.front() {
            self.transactions.pop_front();
            self.first += 1;
            self.left_behind += blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_later_transactions_wrote_again_is_not_written_for_the_oldest() {
        let mut log = Log::default();
        assert_eq!(log.oldest(), None);
        let blocks = |blocks: &[Block]| blocks.iter().copied().collect();
        let (bitmap, [one, two, nine]) = (Block::Bitmap(0), [1, 2, 9].map(Block::Inode));
        log.push(&blocks(&[nine, bitmap, two, one]));
        assert_eq!(log.oldest(), Some(vec![one, two, nine, bitmap]), "neighbours together");
        log.push(&blocks(&[two]));
        assert_eq!(log.oldest(), Some(vec![one, nine, bitmap]));
        assert_eq!(log.used, 9);
        log.oldest_written();
        assert_eq!((log.oldest(), log.used), (Some(vec![two]), 9), "the tail has not moved");
        assert!(!log.move_tail(7) && log.move_tail(6) && !log.move_tail(0));
        assert_eq!(log.used, 3);
        log.oldest_written();
        assert!(log.move_tail(0));
        assert_eq!((log.oldest(), log.used), (None, 0));
    }
}
