//! Which handle of the journal each change of an inode opens. On tmpfs nothing of this happens.

use super::dentry::Inode;
use super::disk::Change;
use crate::base::Base;
use crate::costs::spend;
use convoy_machine::Here;

/// Nanoseconds of one time stamp: ext3 keeps seconds.
const STAMP_NS: u64 = 1_000_000_000;

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
