//! The file system with a journal: which change of the name space or of a file opens a handle of
//! how many credits, and which blocks it changes. On tmpfs nothing of this happens.
//!
//! Credits are those of ext4 without quota. Inodes lie 32 to a block, each file in one piece.

use super::dentry::Inode;
use super::journal::Block;
use crate::base::Base;
use crate::costs::{Costs, spend};
use convoy_machine::Here;
use core::cell::Cell;

/// Inodes of 128 bytes in a block of 4096.
const INODES_PER_BLOCK: u64 = 32;
/// Nanoseconds of one time stamp: ext3 keeps seconds.
const STAMP_NS: u64 = 1_000_000_000;

/// What a disk file system knows of an inode.
#[derive(Debug, Default)]
pub(crate) struct OnDisk {
    number: Cell<u64>,
    group: Cell<u64>,
    /// Last transaction that changed it.
    transaction: Cell<u64>,
    /// Its last time stamp.
    stamp: Cell<Option<u64>>,
}

impl OnDisk {
    fn block(&self) -> Block {
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
    /// The time of the last write.
    Stamp,
    /// A page written that had a block already.
    OldPage,
    /// A page written that gets a block.
    NewPage,
    /// All blocks given back.
    Truncate,
}

impl Change {
    /// Credits: `EXT4_DATA_TRANS_BLOCKS` and relatives without quota; those of pages and truncation
    /// are estimates for a file in one piece.
    fn credits(self) -> u32 {
        match self {
            Self::Create => 42,
            Self::Link => 39,
            Self::Unlink => 126,
            Self::Stamp => 2,
            Self::OldPage | Self::NewPage => 8,
            Self::Truncate => 12,
        }
    }

    /// Blocks that it changes of `inode` in the directory `parent`; a new inode gets the number
    /// `next`.
    fn blocks(self, inode: &OnDisk, parent: &OnDisk, next: u64) -> Vec<Block> {
        let entries = Block::Entries(parent.number.get());
        match self {
            Self::Create => {
                let new = Block::Inode(next / INODES_PER_BLOCK);
                vec![entries, parent.block(), new, parent.bitmap()]
            }
            Self::Link | Self::Unlink => vec![entries, parent.block(), inode.block()],
            Self::Stamp => vec![inode.block()],
            Self::OldPage => Vec::new(),
            Self::NewPage => vec![inode.block(), inode.bitmap()],
            Self::Truncate => vec![inode.block(), inode.bitmap(), Block::Super],
        }
    }

    /// Instructions beyond tmpfs's.
    fn cost(self, costs: &Costs) -> u64 {
        match self {
            Self::Create => costs.disk_create,
            Self::Link => costs.disk_link,
            Self::Unlink => costs.disk_unlink,
            Self::Truncate => costs.disk_truncate,
            Self::Stamp | Self::OldPage | Self::NewPage => 0,
        }
    }
}

impl Inode {
    /// Gives a new inode in `directory` its place on the disk, in an open handle: a file in its
    /// directory's group.
    pub(super) fn place_on_disk(&self, directory: &Self) {
        let Some(journal) = &self.sb.journal else { return };
        let (number, transaction) = journal.take_inode();
        self.disk.number.set(number);
        self.disk.transaction.set(transaction);
        let own = self.is_directory();
        self.disk.group.set(if own { number } else { directory.disk.group.get() });
    }
}

impl Inode {
    /// Runs `body`, which makes `change` to this inode in the directory `parent`, in a handle of the
    /// journal if the file system has one.
    pub(super) fn change<R>(
        &self,
        base: &Base,
        change: Change,
        parent: &Self,
        body: impl FnOnce() -> R,
    ) -> R {
        let Some(journal) = &self.sb.journal else { return body() };
        spend(change.cost(&base.costs));
        let blocks = change.blocks(&self.disk, &parent.disk, journal.next_inode());
        let (transaction, result) = journal.handle(base, change.credits(), &blocks, body);
        self.disk.transaction.set(transaction);
        result
    }

    /// The time stamp of a write, where it differs from the last.
    pub(super) fn stamp(&self, base: &Base) {
        let now = Here::now_ns() / STAMP_NS;
        if self.sb.journal.is_some() && self.disk.stamp.replace(Some(now)) != Some(now) {
            self.change(base, Change::Stamp, self, || ());
        }
    }

    /// One page of a write: `body` finds or adds it.
    pub(super) fn write_page<R>(
        &self,
        base: &Base,
        page: u64,
        new: bool,
        body: impl FnOnce() -> R,
    ) -> R {
        let change = if new { Change::NewPage } else { Change::OldPage };
        self.change(base, change, self, || {
            let result = body();
            if let Some(journal) = &self.sb.journal {
                journal.dirty_data(self.disk.number.get(), page);
            }
            result
        })
    }

    /// Gives back all blocks of a file by `body`. The inode is on the list of orphans meanwhile, in
    /// case the machine stops.
    pub(super) fn truncate_blocks(&self, base: &Base, body: impl FnOnce()) {
        let Some(journal) = &self.sb.journal else { return body() };
        journal.orphan_list(base);
        self.change(base, Change::Truncate, self, body);
        journal.forget_data(self.disk.number.get());
        journal.orphan_list(base);
    }

    /// `fsync`: the file's pages, then, under its `i_mutex`, the commit of its last change.
    pub(crate) fn sync(&self, base: &Base) {
        let Some(journal) = &self.sb.journal else { return };
        journal.write_data(base, self.disk.number.get());
        base.under(&self.hot.mutex, || journal.commit(self.disk.transaction.get()));
    }
}
