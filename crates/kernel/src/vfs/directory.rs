//! Reading directories.

use super::dentry::{Dentry, Inode};
use super::entries::size_in_buffer;
use super::file::{File, Target};
use super::files::Files;
use super::rules::{DiskRules, Listing};
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::{Fd, Sys};
use std::rc::Rc;

/// The C library's buffer, bytes.
const BUFFER: usize = 32 << 10;
/// `.` and `..`.
const DOTS: usize = 2;

impl World {
    /// `getdents`, under `i_mutex`, or as a reader of `i_rwsem`.
    fn read_entries(&self, file: &File, directory: &Dentry) -> usize {
        let inode = &directory.inode;
        self.sharing(&inode.hot.lock, || {
            Here::pass(self.costs.getdents);
            let position = file.hot.position.read();
            let count = fits(inode, position as usize);
            let sorted = !inode.sb.memory && self.sorts(inode);
            for _ in 0..count {
                self.vfs.pass_entry(directory);
                if sorted {
                    // The allocation of its node is a place to preempt, under the mutex.
                    self.sched.might_sleep();
                    Here::compute(self.costs.disk_entry + self.costs.getdents_entry);
                } else {
                    Here::pass(self.costs.getdents_entry);
                }
            }
            file.hot.position.write(position + count as u64);
            count
        })
    }
}

impl World {
    /// Whether names of `directory` are sorted by hash as they are read.
    fn sorts(&self, directory: &Inode) -> bool {
        let rules = self.vfs.rules;
        let in_order = directory.sb.journal.is_none() && rules.listing == Listing::InOrder;
        rules.disk == DiskRules::Ext4 && !in_order
    }
}

/// How many entries from number `first` on fit into the buffer; numbers 0 and 1 are `.` and `..`.
fn fits(inode: &Inode, first: usize) -> usize {
    let entries = inode.entries.borrow();
    let all = entries.len() + DOTS;
    if first >= all {
        return 0;
    }
    if first == 0 && entries.bytes() + DOTS * size_in_buffer("..") <= BUFFER {
        return all;
    }
    let names = [".", ".."].into_iter().chain(entries.names().map(|name| &**name));
    let mut left = BUFFER;
    let mut count = 0;
    for name in names.skip(first) {
        let bytes = size_in_buffer(name);
        if bytes > left {
            break;
        }
        left -= bytes;
        count += 1;
    }
    count
}

impl Files {
    /// The names in an open directory, as the program has them in its buffer.
    pub(crate) fn names(&self, fd: Fd) -> Sys<Vec<Rc<str>>> {
        let file = self.file(fd)?;
        match &file.target {
            Target::Inode(dentry) => Ok(dentry.inode.entries.borrow().names().cloned().collect()),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// `getdents` on an open directory.
    pub(crate) fn read_directory(&self, fd: Fd) -> Sys<usize> {
        let file = self.file(fd)?;
        match &file.target {
            Target::Inode(dentry) if dentry.inode.is_directory() => {
                Ok(self.world.read_entries(&file, dentry))
            }
            _ => Err(Errno::ENOTDIR),
        }
    }
}
