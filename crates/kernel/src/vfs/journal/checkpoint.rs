//! Making room in the journal.

use super::{Block, Journal};
use crate::base::Base;

impl Journal {
    /// For a task that found too little space: writes the blocks of the oldest transaction in
    /// place, unless others have made room by then.
    pub(super) fn make_room(&self, base: &Base) {
        if !self.ext4() {
            base.under(&self.hot.checkpoint, || {
                if self.read_state(|| self.lacks_space(&self.state.borrow())) {
                    self.write_oldest(base);
                    self.write_state(|| self.move_tail(0));
                }
            });
            return;
        }
        // `__jbd2_log_wait_for_space`.
        let lacks = || self.lacks_space(&self.state.borrow());
        if !self.write_state(lacks) {
            return;
        }
        base.under(&self.hot.checkpoint, || {
            if self.write_state(|| self.hot.list.hold(|_| lacks())) && !self.clean_tail(base, 0) {
                self.write_oldest(base);
                self.clean_tail(base, 0);
            }
        });
        self.write_state(|| ());
    }

    /// Writes the blocks of the oldest transaction in place. One that a later transaction has
    /// changed is on the disk when that one is.
    fn write_oldest(&self, base: &Base) {
        while let Some(id) = self.hot.list.hold(|_| self.holder_of_oldest()) {
            self.request(id);
            if !self.read_state(|| self.state.borrow().committed >= id) {
                self.hot.done.wait(|| self.state.borrow().committed >= id);
            }
        }
        let Some(blocks) = self.state.borrow().log.oldest() else { return };
        self.disk().write_pages(base, blocks.into_iter().map(Block::place));
        self.hot.list.hold(|_| self.state.borrow_mut().log.oldest_written());
        self.count(|stats| stats.checkpoints += 1);
    }

    /// A transaction that is not on the disk and has a block of the oldest one in the journal.
    fn holder_of_oldest(&self) -> Option<u64> {
        let state = self.state.borrow();
        let blocks = state.log.oldest()?;
        let running = state.running.as_ref()?;
        let has = |block: &Block| running.metadata.contains(block);
        (self.ext4() && blocks.iter().any(has)).then_some(running.id)
    }

    fn move_tail(&self, least: u32) -> bool {
        self.state.borrow_mut().log.move_tail(least)
    }

    /// Moves the tail of the journal, and writes so, if that frees `least` blocks; returns whether
    /// it did (`jbd2_journal_get_log_tail`, `jbd2_update_log_tail`).
    pub(super) fn clean_tail(&self, base: &Base, least: u32) -> bool {
        let behind = || self.hot.list.hold(|_| self.state.borrow().log.left_behind());
        let moves = self.read_state(behind) >= least.max(1);
        if moves {
            // The superblock of the journal.
            self.disk().write_pages(base, [(u64::MAX, 0)]);
            self.write_state(|| self.move_tail(least));
        }
        moves
    }
}
