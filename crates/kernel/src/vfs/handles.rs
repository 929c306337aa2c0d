//! Which handle of the journal each change of an inode opens. On tmpfs nothing of this happens.

use super::dentry::Inode;
use super::disk::Change;
use super::journal::{Block, Journal};
use crate::base::Base;
use crate::costs::spend;
use convoy_machine::Here;

/// Nanoseconds of one time stamp: ext3 keeps seconds.
const STAMP_NS: u64 = 1_000_000_000;

impl Inode {
    /// Allocates a new inode in `directory` on the disk, in an open handle: a file in its
    /// directory's group.
    pub(super) fn place_on_disk(&self, base: &Base, directory: &Self) {
        let Some(journal) = &self.sb.journal else { return };
        let (number, transaction) = journal.take_inode();
        self.disk.number.set(number);
        self.disk.transaction.set(transaction);
        journal.label(base);
        let own = self.is_directory();
        self.disk.group.set(if own { number } else { directory.disk.group.get() });
    }

    /// Runs `body`, which makes `change` to this inode in the directory `parent`, in a handle of
    /// the journal if the file system has one.
    pub(super) fn change<R>(
        &self,
        base: &Base,
        change: Change,
        parent: &Self,
        body: impl FnOnce() -> R,
    ) -> R {
        let Some(journal) = &self.sb.journal else { return body() };
        let cost = change.cost(&base.costs);
        let inside = journal.ext4();
        spend(if inside { 0 } else { cost });
        let blocks = change.blocks(&self.disk, &parent.disk, journal.next_inode());
        let (transaction, result) = journal.handle(base, change.credits(), &blocks, || {
            spend(if inside { cost } else { 0 });
            body()
        });
        // On ext4 what changes no block of metadata need not be committed (`i_sync_tid`).
        if !journal.ext4() || !blocks.is_empty() {
            self.disk.transaction.set(transaction);
        }
        result
    }

    /// The time stamp of a write, where it differs from the last.
    pub(super) fn stamp(&self, base: &Base) {
        let now = Here::now_ns() / STAMP_NS;
        if self.sb.journal.is_some() && self.disk.stamp.replace(Some(now)) != Some(now) {
            self.change(base, Change::Stamp, self, || ());
        }
    }

    /// One page of a write, which may be new to the file and the file may grow with it: `body`
    /// finds or adds it.
    pub(super) fn write_page<R>(
        &self,
        base: &Base,
        page: u64,
        new: bool,
        grows: bool,
        body: impl FnOnce() -> R,
    ) -> R {
        let Some(journal) = &self.sb.journal else { return body() };
        let ext4 = journal.ext4();
        let at_once = !ext4 || !self.sb.delays_blocks();
        let change = match (at_once, new) {
            (true, true) => Change::NewPage,
            (true, false) if ext4 && grows => Change::GrownPage,
            (true, false) => Change::OldPage,
            (false, _) if new || grows => Change::DelayedPage,
            (false, _) => Change::Rewrite,
        };
        self.change(base, change, self, || {
            let result = body();
            if !ext4 {
                journal.dirty_data(self.disk.number.get(), page);
                return result;
            }
            self.disk.dirty.borrow_mut().insert(page);
            if at_once {
                let allocated = &self.disk.allocated;
                allocated.set(allocated.get().max(page + 1));
                self.disk.ordered.set(journal.order_data(self.disk.number.get(), page));
            }
            result
        })
    }

    /// Cuts the file to nothing by `body`. During this the inode is on the list of orphans, in case
    /// of a crash.
    pub(super) fn truncate_blocks(&self, base: &Base, shrinks: bool, body: impl FnOnce()) {
        let Some(journal) = &self.sb.journal else { return body() };
        if !journal.ext4() {
            return self.free_blocks(base, body);
        }
        let list = [Block::Super, self.disk.block()];
        if shrinks {
            self.change(base, Change::Inode, self, || journal.orphan_list(base, &list));
            journal.begin_truncate(self.disk.ordered.get());
        }
        let change = if self.has_blocks(journal) { Change::Truncate } else { Change::Inode };
        self.change(base, change, self, || {
            journal.orphan_list(base, if shrinks { &[] } else { &list });
            body();
            journal.orphan_list(base, &list);
        });
        self.change(base, Change::Stamp, self, || ());
        if shrinks {
            journal.orphan_list(base, &[]);
        }
    }

    /// Frees a file without names; `body` frees its pages.
    pub(super) fn evict(&self, base: &Base, body: impl FnOnce()) {
        let Some(journal) = &self.sb.journal else { return body() };
        if !journal.ext4() {
            return self.free_blocks(base, body);
        }
        journal.begin_truncate(self.disk.ordered.get());
        let allocated = self.has_blocks(journal);
        self.change(base, Change::Evict, self, || {
            if allocated {
                journal.orphan_list(base, &[]);
            }
            body();
            journal.unlabel(base);
            journal.orphan_list(base, &[Block::Super]);
        });
    }

    /// The last name goes, in the handle of its removal: ext4 puts the inode on the list of
    /// orphans.
    pub(super) fn orphan(&self, base: &Base) {
        if let Some(journal) = self.sb.journal.as_ref().filter(|journal| journal.ext4()) {
            journal.orphan_list(base, &[Block::Super, self.disk.block()]);
        }
    }

    /// Whether it had blocks, and has none from now on.
    fn has_blocks(&self, journal: &Journal) -> bool {
        self.disk.dirty.borrow_mut().clear();
        journal.forget_data(self.disk.number.get());
        self.disk.allocated.replace(0) > 0
    }

    /// Frees all blocks by `body`, as ext3 does.
    fn free_blocks(&self, base: &Base, body: impl FnOnce()) {
        let Some(journal) = &self.sb.journal else { return body() };
        journal.orphan_list(base, &[]);
        self.change(base, Change::Truncate, self, body);
        journal.forget_data(self.disk.number.get());
        journal.orphan_list(base, &[]);
    }

    /// `fsync`: the file's pages, then, under its `i_mutex`, the commit of its last change.
    pub(crate) fn sync(&self, base: &Base) {
        let Some(journal) = &self.sb.journal else { return };
        if journal.ext4() {
            self.write_out(base, journal);
        } else {
            journal.write_data(base, self.disk.number.get());
        }
        base.under(&self.hot.lock, || journal.commit(self.disk.transaction.get()));
    }

    /// Finds blocks for the dirty pages that have none, and writes all. Pages that have theirs take
    /// a handle and change nothing in it (`ext4_da_writepages`).
    fn write_out(&self, base: &Base, journal: &Journal) {
        let pages = self.disk.dirty.take();
        let Some(last) = pages.last() else { return };
        let (before, after) = (self.disk.allocated.get(), last + 1);
        let change = if after > before { Change::Allocate } else { Change::OldPage };
        self.change(base, change, self, || self.disk.allocated.set(before.max(after)));
        let number = self.disk.number.get();
        journal.forget_data(number);
        journal.write_pages(base, pages.into_iter().map(|page| (number, page)).collect());
    }
}
