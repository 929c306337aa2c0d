//! The lists of all inodes and of all open files.

use super::dentry::Super;
use super::locks::VfsLocks;
use super::rules::{InodeLocks, OpenFileLocks};
use crate::locks::{Field, Guarded};

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

    /// Adds a file to a list of open files, and returns the CPU of the list.
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
