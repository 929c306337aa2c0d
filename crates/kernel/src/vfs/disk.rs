//! The file system with a journal: its inode data, the credits of each change, and the blocks that
//! it modifies.
//!
//! Credits are ext4's without quota. Inodes lie 32 to a block, each file in one piece.

use super::journal::Block;
use crate::costs::Costs;
use core::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Inodes of 128 bytes in a block of 4096.
const INODES_PER_BLOCK: u64 = 32;

/// Inode data of a disk file system.
#[derive(Debug, Default)]
pub(crate) struct OnDisk {
    pub(super) number: Cell<u64>,
    pub(super) group: Cell<u64>,
    /// Last transaction that changed it.
    pub(super) transaction: Cell<u64>,
    /// On ext4, the last transaction whose commit writes pages of it.
    pub(super) ordered: Cell<u64>,
    /// Its last time stamp.
    pub(super) stamp: Cell<Option<u64>>,
    /// On ext4, pages that have been written and are not on the disk.
    pub(super) dirty: RefCell<BTreeSet<u64>>,
    /// On ext4, how many of its first pages have blocks.
    pub(super) allocated: Cell<u64>,
}

impl OnDisk {
    pub(super) fn block(&self) -> Block {
        Block::Inode(self.number.get() / INODES_PER_BLOCK)
    }

    fn bitmap(&self) -> Block {
        Block::Bitmap(self.group.get())
    }
}

/// A change of metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A new inode and its name.
    Create,
    /// A further name.
    Link,
    /// A name less.
    Unlink,
    /// A name that moves.
    Rename,
    /// The time of the last write.
    Stamp,
    /// A page written that had a block already.
    OldPage,
    /// A page written that gets a block.
    NewPage,
    /// All blocks given back.
    Truncate,
    /// On ext4 with immediate allocation, an old page that extends the file.
    GrownPage,
    /// On ext4 with delayed allocation, a written page, or a page that extends the file.
    DelayedPage,
    /// On ext4, any other page written.
    Rewrite,
    /// On ext4, blocks found for pages.
    Allocate,
    /// On ext4, an inode that needs no more than its own block.
    Inode,
    /// On ext4, the inode and all its blocks given back.
    Evict,
}

impl Change {
    /// Credits: `EXT4_DATA_TRANS_BLOCKS` and relatives without quota; for pages and truncation,
    /// estimates for a contiguous file.
    pub(super) fn credits(self) -> u32 {
        match self {
            Self::Create => 42,
            Self::Link => 39,
            Self::Unlink => 126,
            Self::Rename => 68,
            Self::Stamp => 2,
            Self::OldPage | Self::NewPage | Self::GrownPage | Self::Allocate => 8,
            Self::Truncate => 12,
            Self::DelayedPage | Self::Rewrite => 1,
            Self::Inode => 3,
            Self::Evict => 33,
        }
    }

    /// Blocks that it changes of `inode` in the directory `parent`; a new inode gets the number
    /// `next`.
    pub(super) fn blocks(self, inode: &OnDisk, parent: &OnDisk, next: u64) -> Vec<Block> {
        let entries = Block::Entries(parent.number.get());
        match self {
            Self::Create => {
                let new = Block::Inode(next / INODES_PER_BLOCK);
                vec![entries, parent.block(), new, parent.bitmap()]
            }
            Self::Link | Self::Unlink | Self::Rename => {
                vec![entries, parent.block(), inode.block()]
            }
            Self::Stamp | Self::GrownPage | Self::DelayedPage | Self::Inode => vec![inode.block()],
            Self::OldPage | Self::Rewrite => Vec::new(),
            Self::NewPage | Self::Allocate | Self::Evict => {
                vec![inode.block(), inode.bitmap()]
            }
            Self::Truncate => vec![inode.block(), inode.bitmap(), Block::Super],
        }
    }

    /// Instructions beyond tmpfs's.
    pub(super) fn cost(self, costs: &Costs) -> u64 {
        match self {
            Self::Create => costs.disk_create,
            Self::Link => costs.disk_link,
            Self::Unlink => costs.disk_unlink,
            Self::Rename => costs.disk_link + costs.disk_unlink,
            Self::Truncate | Self::Evict => costs.disk_truncate,
            Self::Stamp
            | Self::OldPage
            | Self::NewPage
            | Self::GrownPage
            | Self::DelayedPage
            | Self::Rewrite
            | Self::Allocate
            | Self::Inode => 0,
        }
    }
}
