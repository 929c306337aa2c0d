//! The rules of the locks of names, inodes, mounts and open files that a kernel preset names.
//!
//! The paths state the data that they access; each rule determines the lock:
//!
//! | `[vfs]` | | in |
//! |---|---|---|
//! | `dcache` | names: walks, references, lists of names | `dcache.rs` |
//! | `mounts` | the table of mounts and their counts | `mounts.rs` |
//! | `open_files`, `inodes` | lists of open files and of inodes | `lists.rs` |
//! | `tmpfs_blocks` | blocks in use | `blocks.rs` |
//! | `page_lookup`, `lseek` | content of files | `data.rs` |
//! | `journal_state` | `j_state_lock` | `journal.rs` |
//! | `sync` | `fsync` of the journal | `journal.rs` |
//! | `commit` | the end of a transaction | `journal/commit.rs` |
//! | `buffers` | blocks of a journal | `journal/buffer.rs` |
//! | `disk` | the file system with a journal | `handles.rs`, `journal.rs` |
//! | `inode_lock` | the lock of an inode that sleeps | `dentry.rs` |
//! | `create` | `open` with `O_CREAT` | `open.rs` |

use schemars::JsonSchema;
use serde::Deserialize;

/// How the kernel locks names, inodes, mounts and open files; as up to 2.6.35 where the file says
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VfsRules {
    /// Names.
    pub dcache: DcacheLocks,
    /// Mounts.
    pub mounts: MountLocks,
    /// Lists of open files.
    pub open_files: OpenFileLocks,
    /// Inodes and their list.
    pub inodes: InodeLocks,
    /// Blocks of tmpfs in use.
    pub tmpfs_blocks: TmpfsBlocks,
    /// A page of a file that is there.
    pub page_lookup: PageLookup,
    /// `lseek` in a file.
    pub lseek: Seek,
    /// The state of a journal.
    pub journal_state: StateLocks,
    /// `fsync` on a journal.
    pub sync: SyncLocks,
    /// The end of a transaction of ext4.
    pub commit: CommitLocks,
    /// Blocks of a journal, if they are modelled separately: on ext4.
    pub buffers: BufferLocks,
    /// The file system with a journal.
    pub disk: DiskRules,
    /// What lists a directory of the root file system, on which `/bin` is.
    pub listing: Listing,
    /// The lock of an inode that sleeps.
    pub inode_lock: SleepingLock,
    /// `open` with `O_CREAT`.
    pub create: Create,
}

/// The lock of an inode that sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SleepingLock {
    /// `i_mutex`: up to 4.6.
    #[default]
    Mutex,
    /// `i_rwsem`, a reader/writer semaphore; readers of a directory and look-ups in it share it:
    /// since 4.7.
    Rwsem,
}

impl SleepingLock {
    /// Returns the name of the lock of a file.
    pub(super) fn name(self) -> &'static str {
        if self == Self::Mutex { "i_mutex" } else { "i_rwsem" }
    }
}

/// What `open` with `O_CREAT` does first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Create {
    /// Locks the directory: up to 6.11.
    #[default]
    Locks,
    /// Looks the name up, and locks the directory only if it does not exist, or must not: since
    /// 6.12 (commit e747e15156b7).
    Looks,
}

/// How names of a directory on a disk are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Listing {
    /// As `disk` does: ext4 sorts them by hash.
    #[default]
    OfDisk,
    /// As they lie: XFS, or a directory of ext4 without an index and of several blocks.
    InOrder,
}

/// How names are locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DcacheLocks {
    /// `dcache_lock` for all names; a walk takes the `d_lock` and the count of each component: up
    /// to 2.6.37.
    #[default]
    DcacheLock,
    /// A lock for each name; a walk neither locks nor counts before its end: 2.6.38 to 3.11.
    RcuWalk,
    /// The same, and counts are changed together with their unlocked lock: since 3.12.
    Lockref,
}

impl DcacheLocks {
    /// Whether walks only read, under RCU.
    pub(super) fn rcu_walk(self) -> bool {
        self != Self::DcacheLock
    }

    /// Name of the global lock.
    pub(super) fn lock_name(self) -> &'static str {
        if self.rcu_walk() { "rename_lock" } else { "dcache_lock" }
    }
}

/// How mounts are locked and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MountLocks {
    /// One `vfsmount_lock`, one count: up to 2.6.35.
    #[default]
    VfsmountLock,
    /// A lock of each CPU, one count: 2.6.36 and 2.6.37.
    PerCpu,
    /// A lock and a count of each CPU: 2.6.38 to 3.12.
    PerCpuCounts,
    /// Readers only check a sequence count; a count per CPU: since 3.13.
    Seqlock,
}

impl MountLocks {
    /// Whether each CPU has a lock.
    pub(super) fn by_cpu(self) -> bool {
        matches!(self, Self::PerCpu | Self::PerCpuCounts)
    }

    /// Whether each CPU has a count.
    pub(super) fn counts_by_cpu(self) -> bool {
        matches!(self, Self::PerCpuCounts | Self::Seqlock)
    }
}

/// How inodes and their list are locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InodeLocks {
    /// `inode_lock` for all: up to 2.6.38.
    #[default]
    InodeLock,
    /// `inode_sb_list_lock`, `inode_hash_lock` for inodes on a disk, and an `i_lock` for each:
    /// 2.6.39 to 3.1.
    Split,
    /// The same, and the inodes of pipes and sockets are on no list: since 3.2.
    SplitUnlistedPipes,
}

impl InodeLocks {
    /// Name of the lock of the list.
    pub(super) fn list_name(self) -> &'static str {
        if self == Self::InodeLock { "inode_lock" } else { "inode_sb_list_lock" }
    }
}

/// How the lists of open files are locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OpenFileLocks {
    /// `files_lock`, one list: up to 2.6.35.
    #[default]
    FilesLock,
    /// A list and a lock of each CPU: 2.6.36 to 3.12.
    PerCpu,
    /// No lists: since 3.13.
    None,
}

impl OpenFileLocks {
    /// Name of the global lock, which guards the files of terminals in every kernel.
    pub(super) fn lock_name(self) -> &'static str {
        if self == Self::FilesLock { "files_lock" } else { "tty_files_lock" }
    }
}

/// How blocks of tmpfs in use are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TmpfsBlocks {
    /// Under `stat_lock`: up to 2.6.35.
    #[default]
    StatLock,
    /// By each CPU, in batches: since 2.6.36.
    PerCpu,
}

/// How a page of a file that is there gets one more user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PageLookup {
    /// Under the `tree_lock` of its file, shared with other readers: up to 2.6.26.
    #[default]
    TreeLock,
    /// By its count alone: since 2.6.27.
    Lockless,
}

/// What `lseek` in a file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Seek {
    /// The file's `i_mutex`: up to 3.1.
    #[default]
    IMutex,
    /// Nothing, but in directories of a memory file system: since 3.2.
    Lockless,
}

/// What `j_state_lock` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateLocks {
    /// A spinlock: up to 2.6.35.
    #[default]
    Spinlock,
    /// A reader/writer lock: since 2.6.36.
    ReadWrite,
}

/// How `fsync` finds out whether the file's transaction is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncLocks {
    /// It looks, under `j_state_lock`, shared if that can be: since 3.10.
    #[default]
    Look,
    /// It first requests the commit under the same lock, alone: ext4 up to 3.9.
    Request,
}

/// What ext4's commit does with `j_state_lock` when the handles of its transaction are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommitLocks {
    /// Holds it while it looks through all blocks in the journal: up to 4.20.
    #[default]
    Held,
    /// Releases it for that time: since 5.0.
    Released,
}

/// How a block of metadata is locked by a handle that changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferLocks {
    /// Each time: the block's sleeping lock, its state's lock, and the journal's data of it: up to
    /// 4.1.
    #[default]
    EachTime,
    /// Not if the running transaction has the block already: since 4.2.
    LookFirst,
}

/// Which file system has the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskRules {
    /// ext3 on jbd, as in 2.6.25: a page gets its block as it is written, and the commit waits for
    /// the page.
    #[default]
    Ext3,
    /// ext4 on jbd2, as in 3.7: pages get blocks when they are written out; counts of a transaction
    /// are atomic; a task that changes a block that is being written to the journal sleeps.
    Ext4,
}
