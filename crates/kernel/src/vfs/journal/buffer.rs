//! A block of metadata in memory and its locks (`struct buffer_head`, `struct journal_head`).

use super::super::rules::BufferLocks;
use crate::base::Base;
use crate::locks::{Bits, Field, Line, WaitQueue};
use core::cell::Cell;

/// Lock of the journal's data of the block (`BH_JournalHead`).
const KNOWN: u32 = 1;
/// Lock of the block's transaction (`BH_State`).
const STATE: u32 = 1 << 1;
/// Lock for changing or writing it (`BH_Lock`): the sleeping lock.
const BUFFER: u32 = 1 << 2;

/// State of a block in memory that a handle changes.
pub(super) struct Buffer {
    /// `b_state`, flags and locks.
    bits: Line<Bits>,
    /// Which transaction has it.
    head: Line<Field<u32>>,
    data: Line<Field<u32>>,
    /// Tasks that sleep for [`BUFFER`].
    waiting: Line<WaitQueue>,
    sleepers: Cell<u32>,
}

impl Buffer {
    pub(super) fn new() -> Self {
        let field = || Line(Field::new(0));
        Self {
            bits: Line(Bits::default()),
            head: field(),
            data: field(),
            waiting: Line(WaitQueue::new()),
            sleepers: Cell::new(0),
        }
    }

    /// A handle asks for write access, changes the block and says so
    /// (`jbd2_journal_get_write_access`, `jbd2_journal_dirty_metadata`). `mine` says whether the
    /// handle's transaction has the block; `then` runs between the two.
    pub(super) fn change(&self, base: &Base, locks: BufferLocks, mine: bool, then: impl FnOnce()) {
        let look = locks == BufferLocks::LookFirst && mine;
        if look {
            self.look();
        } else {
            self.get_access(base);
        }
        self.data.update(|content| content.wrapping_add(1));
        then();
        if look {
            self.look();
        } else {
            self.refer();
            self.bits.hold(STATE, || ());
            self.refer();
        }
    }

    /// The commit moves the block from list to list: `body` runs under the lock of its state.
    pub(super) fn refile(&self, body: impl FnOnce()) {
        self.bits.hold(STATE, || {
            self.head.update(|list| list.wrapping_add(1));
            body();
        });
    }

    /// The commit asks whether a block that is to be written in place has been written. It has not
    /// if the running transaction has it, `mine`; otherwise the block says so itself.
    pub(super) fn ask(&self, mine: bool) {
        self.head.read();
        if !mine {
            self.bits.read();
        }
    }

    /// Finds that the transaction has the block, without a lock.
    fn look(&self) {
        self.bits.read();
        self.head.read();
    }

    /// Takes or drops a reference to the journal's data of the block.
    fn refer(&self) {
        self.bits.hold(KNOWN, || self.head.update(|references| references.wrapping_add(1)));
    }

    fn get_access(&self, base: &Base) {
        self.refer();
        self.lock(base);
        self.bits.lock(STATE);
        self.unlock();
        self.bits.unlock(STATE);
        self.refer();
    }

    /// `lock_buffer`: sleeps while it is locked.
    fn lock(&self, base: &Base) {
        base.sched.might_sleep();
        while !self.bits.try_lock(BUFFER) {
            self.sleepers.set(self.sleepers.get() + 1);
            self.waiting.wait(|| !self.bits.is_locked(BUFFER));
            self.sleepers.set(self.sleepers.get() - 1);
        }
    }

    fn unlock(&self) {
        self.bits.clear(BUFFER);
        if self.sleepers.get() > 0 {
            self.waiting.wake_one();
        }
    }
}
