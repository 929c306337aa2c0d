//! The lists of all inodes and of all open files.

use super::dentry::Super;
use super::locks::VfsLocks;
use crate::locks::{Field, Guarded};
use schemars::JsonSchema;
use serde::Deserialize;

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
    /// There are no lists: since 3.13.
    None,
}

impl OpenFileLocks {
    /// Name of the global lock, which guards the files of terminals in every kernel.
    pub(super) fn lock_name(self) -> &'static str {
        if self == Self::FilesLock { "files_lock" } else { "tty_files_lock" }
    }
}

fn change(list: &Guarded<Field<u32>>) {
    list.hold(|list| list.write(list.peek().wrapping_add(1)));
}

impl VfsLocks {
    /// Puts an inode of `sb` on the list of all, or takes it off.
    pub(super) fn list_inode(&self, sb: &Super, on: bool) {
        self.list_any_inode(on);
        if let Some(lock) = &self.inode_hash
            && !sb.memory
        {
            lock.hold(|| ());
        }
    }

    /// The same with the inode of a pipe or socket.
    pub(crate) fn list_anonymous_inode(&self, on: bool) {
        if self.rules.inodes != InodeLocks::SplitUnlistedPipes {
            self.list_any_inode(on);
        }
    }

    fn list_any_inode(&self, on: bool) {
        let by = if on { 1 } else { u32::MAX };
        self.hot.inodes.list.hold(|list| list.write(list.peek().wrapping_add(by)));
    }

    /// Reads the lists of superblocks and of inodes, with `between` in between.
    pub(super) fn read_lists(&self, between: impl FnOnce()) {
        let inodes = &self.hot.inodes;
        inodes.superblocks.hold(|| inodes.list.unlocked().read());
        between();
        inodes.list.hold(Field::read);
    }

    /// Puts a file on a list of open files, and returns whose.
    pub(super) fn list_file(&self) -> usize {
        match self.rules.open_files {
            OpenFileLocks::FilesLock => change(&self.hot.files),
            OpenFileLocks::PerCpu => {
                return self.on_this_cpu(|locks, cpu| {
                    change(&locks.files);
                    cpu
                });
            }
            OpenFileLocks::None => (),
        }
        0
    }

    /// Takes it off that list.
    pub(super) fn unlist_file(&self, list: usize) {
        match self.rules.open_files {
            OpenFileLocks::FilesLock => change(&self.hot.files),
            OpenFileLocks::PerCpu => change(&self.cpus[list].files),
            OpenFileLocks::None => (),
        }
    }
}
