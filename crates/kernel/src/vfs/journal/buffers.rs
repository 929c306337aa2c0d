//! Operations of a handle on blocks of metadata and on pages of files.

use super::{BUFFERS, Block, Journal};
use crate::base::Base;
use crate::costs::spend;
use crate::pages::PAGE;
use convoy_machine::Here;

impl Journal {
    /// Adds a block to the running transaction's list.
    pub(in crate::vfs) fn dirty(&self, base: &Base, block: Block) {
        self.dirty_and(base, block, || ());
    }

    /// [`Self::dirty`], with `then` when the block has been changed and is not yet said to be.
    pub(in crate::vfs) fn dirty_and(&self, base: &Base, block: Block, then: impl FnOnce()) {
        Here::pass(base.costs.journal_block);
        let mine = self.with_running(|running| running.metadata.contains(&block));
        if self.ext4() {
            self.own_copy(base, block);
            self.buffers[block.slot(BUFFERS)].change(base, self.rules.buffers, mine, then);
        } else {
            then();
        }
        if let Block::Bitmap(group) = block {
            let group = &self.hot.groups[(group % self.options.groups) as usize];
            group.hold(|bitmap| bitmap.update(|bits| bits.wrapping_add(1)));
        }
        if self.ext4() && self.with_running(|running| running.metadata.contains(&block)) {
            return;
        }
        self.hot.list.hold(|list| {
            list.update(|head| head.wrapping_add(1));
            self.with_running(|running| running.metadata.insert(block));
        });
    }

    /// A block of the transaction that is committing must not change: while it is being written it
    /// is waited for, before that the commit gets a copy.
    fn own_copy(&self, base: &Base, block: Block) {
        let written = || self.state.borrow().shadow.contains(&block);
        if written() {
            self.hot.shadow.wait(|| !written());
        } else if self.state.borrow_mut().committing.remove(&block) {
            spend(base.costs.copy(PAGE as usize));
        }
    }

    /// `journal_dirty_data`: page `page` of file `inode` must be on disk before the commit. For a
    /// caller with an open handle.
    pub(in crate::vfs) fn dirty_data(&self, inode: u64, page: u64) {
        self.hot.list.hold(|list| {
            list.update(|head| head.wrapping_add(1));
            self.with_running(|running| running.data.insert((inode, page)));
        });
    }

    /// `ext4_jbd2_file_inode`: as [`Self::dirty_data`], but the list has files, not pages, so only
    /// the first page of one in a transaction takes its lock. Returns the transaction.
    pub(in crate::vfs) fn order_data(&self, inode: u64, page: u64) -> u64 {
        let range = (inode, 0)..=(inode, u64::MAX);
        if self.with_running(|running| running.data.range(range).next().is_none()) {
            self.dirty_data(inode, page);
        }
        self.with_running(|running| {
            running.data.insert((inode, page));
            running.id
        })
    }

    /// `jbd2_journal_begin_ordered_truncate`: a file is to be cut whose pages the commit of
    /// transaction `ordered` writes, if that is not on the disk.
    pub(in crate::vfs) fn begin_truncate(&self, ordered: u64) {
        if ordered > self.state.borrow().committed {
            self.read_state(|| ());
            self.hot.list.hold(|_| ());
        }
    }

    /// Under the mutex of the list of orphans, as the superblock's list changes; `changed` is what
    /// ext4 changes for that, in the caller's handle.
    pub(in crate::vfs) fn orphan_list(&self, base: &Base, changed: &[Block]) {
        base.under(&self.hot.orphans, || {
            Here::pass(base.costs.journal_block);
            for &block in changed {
                self.dirty(base, block);
            }
        });
    }

    /// Writes pages of a file now.
    pub(in crate::vfs) fn write_pages(&self, base: &Base, pages: Vec<(u64, u64)>) {
        self.disk.write_pages(base, pages);
    }

    /// Writes the dirty pages of file `inode` now; they need no longer be written at the commit.
    pub(in crate::vfs) fn write_data(&self, base: &Base, inode: u64) {
        let pages = self.hot.list.hold(|list| {
            list.update(|head| head.wrapping_add(1));
            let mut state = self.state.borrow_mut();
            let Some(running) = state.running.as_mut() else { return Vec::new() };
            let range = (inode, 0)..=(inode, u64::MAX);
            let pages: Vec<_> = running.data.range(range).copied().collect();
            for page in &pages {
                running.data.remove(page);
            }
            pages
        });
        self.write_pages(base, pages);
    }

    /// A file's pages have been thrown away: they need not be written.
    pub(in crate::vfs) fn forget_data(&self, inode: u64) {
        let mut state = self.state.borrow_mut();
        if let Some(running) = state.running.as_mut() {
            running.data.retain(|&(file, _)| file != inode);
        }
    }

    /// A new inode gets its label, in its handle and under its directory's `i_mutex`: a block is
    /// made up in memory, found in the cache, and counted in.
    pub(in crate::vfs) fn label(&self, base: &Base) {
        let Some(labels) = &self.labels else { return };
        spend(base.costs.copy(PAGE as usize));
        labels.enter(false);
        self.dirty(base, Block::Label);
        labels.leave(false);
    }

    /// An inode that goes is counted out, in the handle that frees it.
    pub(in crate::vfs) fn unlabel(&self, base: &Base) {
        let Some(labels) = &self.labels else { return };
        labels.enter(true);
        self.dirty_and(base, Block::Label, || labels.leave(true));
    }
}
