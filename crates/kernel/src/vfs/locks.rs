//! The locks of names, inodes, mounts and open files that all processes share.

use super::late::Late;
use super::rules::{InodeLocks, OpenFileLocks, VfsRules};
use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line, Spin};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::{Platform, RawLock};

/// The locks that every kernel has, whatever their use; each in a separate line.
#[repr(C)]
pub(crate) struct VfsHot {
    /// `dcache_lock`; `rename_lock`.
    pub(super) names: Line<Spin>,
    /// `files_lock`, `tty_files_lock`, and the head of the list it guards.
    pub(crate) files: Line<Guarded<Field<u32>>>,
    pub(super) mounts: Line<Spin>,
    pub(super) inodes: Line<Inodes>,
}

/// `inode_lock` or `inode_sb_list_lock`, `sb_lock` and the list heads share a line: they are plain
/// variables.
pub(super) struct Inodes {
    pub(super) list: Guarded<Field<u32>>,
    pub(super) superblocks: Spin,
}

impl VfsHot {
    /// In simulated memory.
    pub(crate) fn place(locks: LockRules, rules: VfsRules) -> Sim<Self> {
        let hot = Here::place(Self {
            names: Line(locks.spin()),
            files: Line(locks.guarded(Field::new(0))),
            mounts: Line(locks.spin()),
            inodes: Line(Inodes { list: locks.guarded(Field::new(0)), superblocks: locks.spin() }),
        });
        hot.names.name(rules.dcache.lock_name());
        hot.files.name(rules.open_files.lock_name());
        hot.mounts.name("vfsmount_lock");
        hot.inodes.list.name(rules.inodes.list_name());
        hot.inodes.superblocks.name("sb_lock");
        hot
    }
}

/// The locks of one CPU.
#[repr(C)]
pub(super) struct CpuLocks {
    pub(super) mounts: Line<Spin>,
    /// The lock of a list of open files, and its head.
    pub(super) files: Line<Guarded<Field<u32>>>,
}

/// The shared locks of the file systems, and what says which are taken.
pub(crate) struct VfsLocks {
    pub(crate) rules: VfsRules,
    pub(crate) hot: Sim<VfsHot>,
    /// By CPU, where a rule wants them.
    pub(super) cpus: Vec<Sim<CpuLocks>>,
    pub(super) inode_hash: Option<Sim<Line<Spin>>>,
    /// `rename_lock`, if it differs from the lock of all names.
    pub(super) renames: Late<Spin>,
}

impl VfsLocks {
    /// Returns the locks of a kernel with `rules` on `cpus` CPUs, around `hot`.
    pub(crate) fn new(rules: VfsRules, locks: LockRules, hot: Sim<VfsHot>, cpus: usize) -> Self {
        let cpu = |_| {
            let files = Line(locks.guarded(Field::new(0)));
            let cpu = Here::place(CpuLocks { mounts: Line(locks.spin()), files });
            cpu.mounts.name("vfsmount_lock");
            cpu.files.name("files_lglock");
            cpu
        };
        let by_cpu = rules.mounts.by_cpu() || rules.open_files == OpenFileLocks::PerCpu;
        Self {
            rules,
            hot,
            cpus: (0..if by_cpu { cpus } else { 0 }).map(cpu).collect(),
            renames: Late::new(),
            inode_hash: (rules.inodes != InodeLocks::InodeLock).then(|| {
                let lock = Here::place(Line(locks.spin()));
                lock.name("inode_hash_lock");
                lock
            }),
        }
    }

    /// Runs `body` with the locks of this CPU, without migrating, and its number.
    pub(super) fn on_this_cpu<R>(&self, body: impl FnOnce(&CpuLocks, usize) -> R) -> R {
        Smp::preempt_disable();
        let cpu = Here::cpu();
        let result = body(&self.cpus[cpu], cpu);
        Smp::preempt_enable();
        result
    }

    /// The global locks by name, and whether they are held.
    pub(crate) fn held(&self) -> [(&'static str, bool); 5] {
        let (hot, rules) = (&*self.hot, &self.rules);
        [
            (rules.dcache.lock_name(), hot.names.is_locked()),
            (rules.open_files.lock_name(), hot.files.is_locked()),
            ("vfsmount_lock", hot.mounts.is_locked()),
            (rules.inodes.list_name(), hot.inodes.list.is_locked()),
            ("sb_lock", hot.inodes.superblocks.is_locked()),
        ]
    }
}
