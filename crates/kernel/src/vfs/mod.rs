//! Names and files: the dentry cache, the two file systems, open files.
//!
//! `/` is a disk-like file system with all files cached; `/tmp` is a tmpfs with a limit on its
//! pages, or a file system on a disk with a journal. On tmpfs an existing name holds a reference to
//! its dentry, so `dput` of such a name never drops the last reference; elsewhere it may. What that
//! and all other steps lock, by the rules of the preset, says [`rules`].

mod anonymous;
mod blocks;
mod data;
mod dcache;
mod dentry;
mod directory;
mod disk;
mod entries;
mod fifo;
mod file;
mod files;
mod handles;
mod journal;
mod labels;
mod late;
mod links;
mod lists;
mod locks;
mod mounts;
mod names;
mod open;
mod paths;
mod readahead;
mod rename;
pub(crate) mod rules;
mod walk;

pub(crate) use dentry::{Dentry, Inode, Kind, Super};
pub(crate) use file::{File, Target};
pub(crate) use files::Files;
pub use journal::{JournalOptions, JournalStats};
pub(crate) use locks::{VfsHot, VfsLocks};
pub(crate) use paths::Paths;
pub use rules::{
    BufferLocks, CommitLocks, Create, DcacheLocks, DiskRules, InodeLocks, Listing, MountLocks,
    OpenFileLocks, PageLookup, Seek, SleepingLock, StateLocks, SyncLocks, TmpfsBlocks, VfsRules,
};

use crate::base::Base;
use crate::lock_rules::LockRules;
use crate::pages::PAGE;
use crate::sched::scheduler::Sched;
use convoy_machine::Preset;
use journal::Journal;
use std::rc::Rc;

/// Files of the root file system that the kernel's programs use: name and length in bytes.
const PROGRAM_FILES: [(&str, u64); 8] = [
    ("bin/sh", 800 << 10),
    ("bin/ls", 100 << 10),
    ("bin/true.sh", 32),
    ("bin/list.sh", 64),
    ("lib/libc.so", 1400 << 10),
    ("lib/libtermcap.so", 16 << 10),
    ("etc/passwd", 2048),
    ("etc/group", 1024),
];

/// File system on `/tmp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystem {
    /// A memory file system.
    #[default]
    Tmpfs,
    /// A file system on a disk, with a journal for its metadata.
    Journal(JournalOptions),
}

/// The name space.
pub(crate) struct Tree {
    pub(crate) root: Rc<Dentry>,
    pub(crate) tty: Rc<Dentry>,
    /// The file system on `/tmp`, and the other work file systems.
    volumes: Vec<Rc<Super>>,
}

/// Where the work file system number `index` is mounted: `/tmp`, `/t1`, `/t2`.
#[must_use]
pub fn volume_path(index: usize) -> String {
    if index == 0 { "/tmp".to_owned() } else { format!("/t{index}") }
}

impl Tree {
    /// A tree with the files of the programs, the devices, and on `/tmp` an empty file system of
    /// `limit` pages, the first of `volumes` alike.
    pub(crate) fn new(
        sched: &Sched,
        rules: VfsRules,
        locks: LockRules,
        machine: &Preset,
        limit: u64,
        on_tmp: FileSystem,
        volumes: usize,
    ) -> Self {
        let cpus = machine.topology.cpus;
        let mount = |memory, limit, journal| Super::new(memory, limit, journal, rules, locks, cpus);
        let disk = mount(false, None, None);
        let root = Dentry::root(Inode::new(Kind::Directory, &disk), None);
        for name in ["bin", "lib", "etc", "dev", "proc", "tmp"] {
            root.plant(name, Inode::new(Kind::Directory, &disk));
        }
        for (path, bytes) in PROGRAM_FILES {
            let (directory, name) = path.split_once('/').expect("one directory and a name");
            let file = Inode::new(Kind::Regular, &disk);
            file.fill(bytes, bytes.div_ceil(PAGE));
            root.child(directory).expect("planted above").plant(name, file);
        }
        let devices = root.child("dev").expect("planted above");
        devices.plant("null", Inode::new(Kind::Null, &disk));
        let tty = devices.plant("tty", Inode::new(Kind::Tty, &disk));
        let labels = match on_tmp {
            FileSystem::Journal(options) if options.labels && rules.disk == DiskRules::Ext4 => {
                Some(labels::Cache::place(locks))
            }
            FileSystem::Journal(_) | FileSystem::Tmpfs => None,
        };
        let volume = || match on_tmp {
            FileSystem::Tmpfs => mount(true, Some(limit), None),
            FileSystem::Journal(options) => {
                let journal =
                    Journal::new(sched, rules, locks, &machine.disk, options, labels.as_ref());
                mount(false, Some(limit), Some(journal))
            }
        };
        let volumes: Vec<Rc<Super>> = (0..volumes).map(|_| volume()).collect();
        for (index, volume) in volumes.iter().enumerate() {
            let name = &volume_path(index)[1..];
            let place = root
                .child(name)
                .unwrap_or_else(|| root.plant(name, Inode::new(Kind::Directory, &disk)));
            place.mount(Inode::new(Kind::Directory, volume), &root);
        }
        Self { root, tty, volumes }
    }

    /// The journals of the work file systems, if they have any.
    pub(crate) fn journals(&self) -> impl Iterator<Item = &Rc<Journal>> {
        self.volumes.iter().filter_map(|volume| volume.journal.as_ref())
    }

    /// All files that have a name, on all file systems.
    fn files(&self) -> Vec<Rc<Inode>> {
        let mut files = Vec::new();
        let mut left = vec![Rc::clone(&self.root)];
        while let Some(at) = left.pop() {
            let mounted = at.mounted.borrow().clone();
            let at = mounted.unwrap_or(at);
            if at.inode.is_directory() {
                left.extend(at.inode.entries.borrow().dentries().cloned());
            } else {
                files.push(Rc::clone(&at.inode));
            }
        }
        files
    }

    /// Pages in use of the work file systems.
    pub(crate) fn tmpfs_pages(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.used_pages()).sum()
    }

    /// Starts the threads of the work file systems; for the first process.
    pub(crate) fn mount(&self, base: &Rc<Base>) {
        self.journals().for_each(|journal| journal.mount(base));
    }

    /// Writes dirty data and ends the file system.
    pub(crate) fn unmount(&self, base: &Base) {
        self.journals().for_each(|journal| journal.unmount(base));
    }

    /// The controlling terminal as the first process has it open, as its files 0 to 2.
    pub(crate) fn terminal_file(&self) -> Rc<File> {
        File::new(Target::Inode(Rc::clone(&self.tty)), true, true, 3)
    }
}

#[cfg(test)]
pub(crate) mod tests;
