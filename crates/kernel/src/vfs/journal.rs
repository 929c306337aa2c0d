//! The journal of a disk file system: handles, transactions, commit, checkpoint.
//!
//! A system call that changes metadata opens a *handle* with as many credits as it may change
//! blocks, and closes it when it is done. Handles join the running *transaction*. A kernel thread
//! commits it: it locks the transaction against new handles, waits for the open handles, writes the
//! files' data of the transaction (ordered mode), then its blocks to the journal, then the commit
//! record. The next transaction runs concurrently. A task that needs its changes on disk waits for
//! the commit of its transaction, together with all others in it.
//!
//! A transaction also ends when it has used a quarter of the journal, and when it is five seconds
//! old. Space in the journal is freed by writing the blocks of the oldest transaction in place.
//!
//! ## Locks
//!
//! `j_state_lock` guards which transaction runs and commits (a spinlock; a reader/writer lock since
//! 2.6.36), `t_handle_lock` the running transaction's counts, `j_list_lock` its lists of blocks.
//! Order: state, handle; list alone. On ext4 the counts are atomic and change under the read lock,
//! and a block is added to a list once per transaction.

mod buffer;
mod buffers;
mod checkpoint;
mod commit;
mod join;
mod log;

use super::labels::{Cache, Labels};
use super::rules::{DiskRules, StateLocks, SyncLocks, VfsRules};
use crate::base::Base;
use crate::block::Disk;
use crate::lock_rules::LockRules;
use crate::locks::{Count, Field, Guarded, Line, Mutex, ReadWrite, Spin, WaitQueue};
use crate::sched::kthread::Kthread;
use crate::sched::scheduler::Sched;
use buffer::Buffer;
use convoy_machine::{DiskTime, Here, Sim};
use core::cell::{Cell, RefCell};
pub(super) use log::Block;
use log::Log;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Oldest a transaction gets before it is committed, nanoseconds (`JBD_DEFAULT_MAX_COMMIT_AGE`).
const MAX_AGE_NS: u64 = 5_000_000_000;
/// Blocks with separate lines in memory; further ones share these lines.
const BUFFERS: usize = 64;
/// Most block groups, each with a lock and a bitmap.
const GROUPS: u64 = 16;

/// A journal's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// Blocks of the journal; a transaction holds a quarter of them.
    pub blocks: u32,
    /// The commit record is written together with the blocks, not after them
    /// (`journal_async_commit`).
    pub async_commit: bool,
    /// Block groups of the file system, 1 to 16: one for each 128 MiB.
    pub groups: u64,
    /// Files have a label outside of their inodes; see `vfs/labels.rs`. On ext4 only.
    pub labels: bool,
}

impl Default for JournalOptions {
    /// 32 MiB of journal, all groups.
    fn default() -> Self {
        Self { blocks: 8192, async_commit: false, groups: GROUPS, labels: false }
    }
}

/// Counters of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Handles opened.
    pub handles: u64,
    /// Of these, those that had to wait for a transaction to end.
    pub waited: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Blocks written to the journal.
    pub blocks: u64,
    /// Transactions written in place to make room.
    pub checkpoints: u64,
    /// Requests to the disk.
    pub requests: u64,
}

impl JournalStats {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            handles: self.handles + other.handles,
            waited: self.waited + other.waited,
            commits: self.commits + other.commits,
            blocks: self.blocks + other.blocks,
            checkpoints: self.checkpoints + other.checkpoints,
            requests: self.requests + other.requests,
        }
    }
}

struct Transaction {
    id: u64,
    /// Being committed: closed to new handles.
    locked: bool,
    /// Open handles.
    updates: u32,
    /// Credits of open handles.
    credits: u32,
    /// Blocks that handles have changed. A handle pays a credit for a block that is new here and
    /// returns the others when it closes; here its own new blocks count twice until then.
    metadata: BTreeSet<Block>,
    /// Pages of files that must be on disk before the commit record.
    data: BTreeSet<(u64, u64)>,
    expires_ns: u64,
}

impl Transaction {
    /// Reserved credits (`t_outstanding_credits`).
    fn outstanding(&self) -> u32 {
        self.credits + self.metadata.len() as u32
    }
}

/// What `j_state_lock` and `t_handle_lock` guard.
#[derive(Default)]
struct State {
    running: Option<Transaction>,
    last_id: u64,
    /// Transaction with a requested commit.
    requested: u64,
    /// Last transaction that is on disk.
    committed: u64,
    /// The committed transactions in the journal, oldest first.
    log: Log,
    /// Blocks of the transaction that is committing and not yet being written.
    committing: BTreeSet<Block>,
    /// Blocks that are being written to the journal.
    shadow: BTreeSet<Block>,
}

/// Counts of the running transaction where they are atomic.
#[derive(Default)]
struct Counts {
    credits: Count,
    updates: Count,
    handles: Count,
}

enum StateLock {
    Spin(Spin),
    ReadWrite(ReadWrite),
}

#[repr(C)]
struct Hot {
    groups: [Line<Guarded<Field<u32>>>; GROUPS as usize],
    state: Line<StateLock>,
    handle: Line<Guarded<Field<u32>>>,
    counts: Line<Counts>,
    list: Line<Guarded<Field<u32>>>,
    /// Tasks that wait for a block to be written.
    shadow: Line<WaitQueue>,
    /// Tasks that wait for a locked transaction to be replaced.
    unlocked: Line<WaitQueue>,
    /// The commit, which waits for open handles.
    updates: Line<WaitQueue>,
    /// The commit thread, which waits for work.
    wanted: Line<WaitQueue>,
    /// Tasks that wait for a commit.
    done: Line<WaitQueue>,
    checkpoint: Line<Mutex>,
    /// The list of inodes that are being truncated or removed, in the superblock.
    orphans: Line<Mutex>,
}

/// A journal, with its disk.
pub(crate) struct Journal {
    hot: Sim<Hot>,
    /// Blocks in memory, if they are modelled separately: on ext4.
    buffers: Vec<Sim<Buffer>>,
    state: RefCell<State>,
    options: JournalOptions,
    rules: VfsRules,
    pub(super) labels: Option<Labels>,
    disk: Rc<Disk>,
    kthread: RefCell<Option<Rc<Kthread>>>,
    stats: Cell<JournalStats>,
    next_inode: Cell<u64>,
}

impl Journal {
    /// A journal of `kernel` on the machine's `disk`.
    pub(crate) fn new(
        sched: &Sched,
        rules: VfsRules,
        locks: LockRules,
        disk: &DiskTime,
        options: JournalOptions,
        labels: Option<&Rc<Sim<Cache>>>,
    ) -> Rc<Self> {
        let state = match rules.journal_state {
            StateLocks::Spinlock => StateLock::Spin(locks.spin()),
            StateLocks::ReadWrite => StateLock::ReadWrite(locks.read_write()),
        };
        let counted = || Line(locks.guarded(Field::new(0)));
        let queue = || Line(WaitQueue::new());
        let hot = Hot {
            state: Line(state),
            handle: counted(),
            counts: Line::default(),
            list: counted(),
            shadow: queue(),
            unlocked: queue(),
            updates: queue(),
            wanted: queue(),
            done: queue(),
            checkpoint: Line(locks.mutex()),
            orphans: Line(locks.mutex()),
            groups: core::array::from_fn(|_| counted()),
        };
        let hot = Here::place(hot);
        match &*hot.state {
            StateLock::Spin(lock) => lock.name("j_state_lock"),
            StateLock::ReadWrite(lock) => lock.name("j_state_lock"),
        }
        hot.handle.name("t_handle_lock");
        hot.list.name("j_list_lock");
        hot.checkpoint.name("j_checkpoint_mutex");
        hot.orphans.name("s_orphan_lock");
        hot.groups.iter().for_each(|group| group.name("group lock"));
        let buffer = |_| Here::place(Buffer::new());
        let several = if rules.disk == DiskRules::Ext4 { BUFFERS } else { 0 };
        let several = several + usize::from(labels.is_some());
        Rc::new(Self {
            hot,
            buffers: (0..several).map(buffer).collect(),
            state: RefCell::default(),
            options,
            rules,
            labels: labels.map(Labels::new),
            disk: Disk::new(sched, disk),
            kthread: RefCell::default(),
            stats: Cell::default(),
            next_inode: Cell::new(1),
        })
    }

    /// Returns whether it is ext4's.
    pub(super) fn ext4(&self) -> bool {
        self.rules.disk == DiskRules::Ext4
    }

    /// Its disk.
    pub(super) fn disk(&self) -> &Rc<Disk> {
        &self.disk
    }

    /// Returns its counters.
    pub(crate) fn stats(&self) -> JournalStats {
        JournalStats { requests: self.disk.requests(), ..self.stats.get() }
    }

    fn count(&self, change: impl FnOnce(&mut JournalStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Number of the inode that is made next.
    pub(super) fn next_inode(&self) -> u64 {
        self.next_inode.get()
    }

    /// Takes the next number, in an open handle; also returns the transaction.
    pub(super) fn take_inode(&self) -> (u64, u64) {
        let number = self.next_inode.replace(self.next_inode.get() + 1);
        (number, self.with_running(|running| running.id))
    }

    /// Runs `body` under `j_state_lock`, shared with other readers if it is a read-write lock.
    fn read_state<R>(&self, body: impl FnOnce() -> R) -> R {
        match &*self.hot.state {
            StateLock::Spin(lock) => lock.hold(body),
            StateLock::ReadWrite(lock) => lock.read(body),
        }
    }

    fn write_state<R>(&self, body: impl FnOnce() -> R) -> R {
        match &*self.hot.state {
            StateLock::Spin(lock) => lock.hold(body),
            StateLock::ReadWrite(lock) => lock.write(body),
        }
    }

    /// Most credits of one transaction.
    fn most(&self) -> u32 {
        self.options.blocks / 4
    }

    /// Runs `body` in a handle of `credits` blocks that will change `blocks`. May sleep before
    /// `body`. Returns the transaction with the result.
    pub(super) fn handle<R>(
        self: &Rc<Self>,
        base: &Base,
        credits: u32,
        blocks: &[Block],
        body: impl FnOnce() -> R,
    ) -> (u64, R) {
        let id = self.start(base, credits);
        let result = body();
        for &block in blocks {
            self.dirty(base, block);
        }
        self.stop(base, credits);
        (id, result)
    }

    fn with_running<R>(&self, change: impl FnOnce(&mut Transaction) -> R) -> R {
        change(self.state.borrow_mut().running.as_mut().expect("a handle of it is open"))
    }

    /// Closes a handle.
    fn stop(&self, base: &Base, credits: u32) {
        Here::pass(base.costs.journal_handle);
        let leave = || {
            self.with_running(|running| {
                running.credits -= credits;
                running.updates -= 1;
                running.updates == 0 && running.locked
            })
        };
        let last = match self.rules.disk {
            DiskRules::Ext3 => self.hot.handle.hold(|updates| {
                updates.update(|count| count - 1);
                leave()
            }),
            DiskRules::Ext4 => {
                self.hot.counts.credits.put();
                self.hot.counts.updates.put();
                leave()
            }
        };
        if last {
            self.hot.updates.wake_all();
        }
    }

    /// `log_start_commit`: asks for the commit of transaction `id`.
    fn request(&self, id: u64) {
        self.write_state(|| {
            let new = {
                let mut state = self.state.borrow_mut();
                let new = state.requested < id;
                state.requested = state.requested.max(id);
                new
            };
            if new {
                self.hot.wanted.wake_all();
            }
        });
    }

    /// Waits until transaction `id` is on disk.
    pub(super) fn commit(&self, id: u64) {
        let done = || self.state.borrow().committed >= id;
        if self.rules.sync == SyncLocks::Look && self.read_state(done) {
            return;
        }
        self.request(id);
        if self.rules.sync == SyncLocks::Look || !self.read_state(done) {
            self.hot.done.wait(done);
        }
    }

    /// Waits until everything up to now is on disk.
    pub(super) fn commit_all(&self) {
        let id = self.read_state(|| self.state.borrow().last_id);
        self.commit(id);
    }
}
