//! Names and files: the dentry cache, the two file systems, open files.
//!
//! `/` is a disk-like file system whose files are all cached; `/tmp` is a tmpfs with a limit on its
//!   pages. On tmpfs a name holds a reference to its dentry as long as it exists, so `dput` of an
//!   existing name never takes
//! `dcache_lock`; elsewhere the last `dput` always does.

mod data;
mod dentry;
mod directory;
mod fifo;
mod file;
mod names;
mod walk;

pub(crate) use dentry::{Dentry, Inode, Kind, Super};
pub(crate) use file::{File, Target};

use crate::pages::PAGE;
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

/// The name space.
pub(crate) struct Tree {
    pub(crate) root: Rc<Dentry>,
    pub(crate) tty: Rc<Dentry>,
    tmpfs: Rc<Super>,
}

impl Tree {
    /// A tree with the files of the programs, the devices, and an empty tmpfs of `limit` pages on
    /// `/tmp`.
    pub(crate) fn new(limit: u64) -> Self {
        let disk = Super::new(false, None);
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
        let tmpfs = Super::new(true, Some(limit));
        let mount = root.child("tmp").expect("planted above");
        mount.mount(Inode::new(Kind::Directory, &tmpfs), &root);
        Self { root, tty, tmpfs }
    }

    /// Pages of the tmpfs in use.
    pub(crate) fn tmpfs_pages(&self) -> u64 {
        self.tmpfs.used_pages()
    }

    /// The controlling terminal as the first process has it open, as its files 0 to 2.
    pub(crate) fn terminal_file(&self) -> Rc<File> {
        File::new(Target::Inode(Rc::clone(&self.tty)), true, true, 3)
    }
}
