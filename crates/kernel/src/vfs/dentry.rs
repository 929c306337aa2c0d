//! Superblocks, inodes and dentries, and their reference counts.

use super::blocks::{BlockCount, Clusters};
use super::disk::OnDisk;
use super::entries::Entries;
use super::journal::Journal;
use super::late::Late;
use super::readahead::state::Cold;
use super::rules::{DiskRules, InodeLocks, SleepingLock, TmpfsBlocks, VfsRules};
use crate::lock_rules::LockRules;
use crate::locks::{Count, Field, Guarded, InodeLock, Line, Mutex, ReadWrite, Spin};
use crate::pages::Pages;
use crate::pipe::Pipe;
use convoy_machine::{Here, Sim};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Groups of pages of one file that share a `struct page` line.
pub(crate) const PAGE_LINES: usize = 4;

/// A mounted file system.
pub(crate) struct Super {
    /// Whether names pin their dentries and misses are not cached: tmpfs.
    pub(crate) memory: bool,
    limit: Option<u64>,
    /// Pages in use of one with a limit, where `stat_lock` does not guard them.
    blocks: Option<BlockCount>,
    /// Blocks and inodes in use of one of ext4.
    clusters: Option<Clusters>,
    pub(crate) journal: Option<Rc<Journal>>,
    pub(super) locks: LockRules,
    /// `s_vfs_rename_mutex`.
    pub(super) renames: Late<Mutex>,
    pub(super) vfs: VfsRules,
    /// `mnt_pcp`: the counts of the mount by CPU, in kernels that walk under RCU.
    pub(super) mounts: Vec<Sim<Line<Field<i32>>>>,
    pub(super) hot: Sim<SuperHot>,
}

pub(super) struct SuperHot {
    /// `mnt_count`: every path walk and every open file counts here, unless each CPU has a count.
    pub(super) mount: Line<Count>,
    /// tmpfs's `stat_lock` with the numbers it guards.
    stat: Line<Guarded<Field<u64>>>,
}

impl Super {
    pub(crate) fn new(
        memory: bool,
        limit: Option<u64>,
        journal: Option<Rc<Journal>>,
        vfs: VfsRules,
        locks: LockRules,
        cpus: usize,
    ) -> Rc<Self> {
        let hot = SuperHot {
            // Mounted, and used by what the first process is born with.
            mount: Line(Count::new(3)),
            stat: Line(locks.guarded(Field::new(0))),
        };
        let hot = Here::place(hot);
        hot.stat.name("tmpfs stat_lock");
        let counts = if vfs.mounts.counts_by_cpu() { cpus } else { 0 };
        let mounts = (0..counts).map(|_| Here::place(Line(Field::new(0)))).collect();
        let on_ext4 = journal.is_some() && vfs.disk == DiskRules::Ext4;
        let clusters = limit.filter(|_| on_ext4).map(|limit| Clusters::new(locks, cpus, limit));
        let counted = limit.is_some() && !on_ext4 && vfs.tmpfs_blocks == TmpfsBlocks::PerCpu;
        let blocks = counted.then(|| BlockCount::new(locks, cpus));
        let renames = Late::new();
        Rc::new(Self { memory, limit, blocks, clusters, journal, locks, renames, vfs, mounts, hot })
    }

    /// Counts `pages` more pages; `ENOSPC` above the limit.
    pub(crate) fn charge(&self, pages: u64) -> Sys<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        if let Some(clusters) = &self.clusters {
            return if clusters.claim(pages as i64) { Ok(()) } else { Err(Errno::ENOSPC) };
        }
        if let Some(blocks) = &self.blocks {
            let room = limit as i64 - pages as i64;
            return if blocks.at_most(room) {
                blocks.add(pages as i64);
                Ok(())
            } else {
                Err(Errno::ENOSPC)
            };
        }
        self.hot.stat.hold(|used| {
            let now = used.read() + pages;
            if now > limit {
                return Err(Errno::ENOSPC);
            }
            used.write(now);
            Ok(())
        })
    }

    /// Counts `pages` pages fewer.
    pub(crate) fn uncharge(&self, pages: u64) {
        if let Some(clusters) = &self.clusters {
            clusters.release(pages as i64);
        } else if let Some(blocks) = &self.blocks {
            blocks.add(-(pages as i64));
        } else if self.limit.is_some() {
            self.hot.stat.hold(|used| used.write(used.peek() - pages));
        }
    }

    /// Adds `change` to the number of inodes; tmpfs also counts names of files, with a change of 0
    /// here.
    pub(crate) fn count_inodes(&self, change: i64) {
        if let Some(clusters) = &self.clusters {
            if change != 0 {
                clusters.count_inodes(change);
            }
        } else if self.limit.is_some() {
            self.hot.stat.hold(|used| used.write(used.peek()));
        }
    }

    /// Whether pages of ext4 get their blocks when they are written out, not as they are written.
    pub(super) fn delays_blocks(&self) -> bool {
        self.clusters.as_ref().is_none_or(Clusters::delays)
    }

    /// Pages in use.
    pub(crate) fn used_pages(&self) -> u64 {
        if let Some(clusters) = &self.clusters {
            return clusters.peek();
        }
        self.blocks.as_ref().map_or_else(|| self.hot.stat.unlocked().peek(), BlockCount::peek)
    }
}

/// Type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Regular,
    /// `/dev/null`.
    Null,
    /// `/dev/tty`, the controlling terminal.
    Tty,
    /// A pipe with a name.
    Fifo,
    /// A symbolic link.
    Symlink,
}

/// An inode.
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    pub(crate) sb: Rc<Super>,
    pub(crate) hot: Sim<InodeHot>,
    /// `i_lock`, since 2.6.38.
    pub(super) lock: Option<Sim<Line<Spin>>>,
    pub(super) disk: OnDisk,
    /// Names in a directory.
    pub(crate) entries: RefCell<Entries<Dentry>>,
    /// Pages of a file that exist.
    pub(crate) pages: RefCell<Pages>,
    /// Frames of written pages; the files of the installed system have none.
    pub(crate) frames: RefCell<Vec<u32>>,
    /// Pages that only the disk has, if there are any.
    pub(super) cold: RefCell<Option<Box<Cold>>>,
    /// The pipe of a fifo while an end of it is open.
    pub(crate) pipe: RefCell<Weak<Pipe>>,
    /// Bytes of a small file; `None` once it has been larger than [`super::data::KEPT_BYTES`].
    pub(crate) content: RefCell<Option<Vec<u8>>>,
}

/// The part of an inode in simulated memory.
#[repr(C)]
pub(crate) struct InodeHot {
    /// `struct page` of the file's pages: counts and lock bits.
    pub(crate) pages: [Line<Count>; PAGE_LINES],
    /// What every look-up reads.
    pub(crate) head: Line<InodeHead>,
    /// `i_mutex` or `i_rwsem`.
    pub(crate) lock: Line<InodeLock>,
    /// `tree_lock` of the file's pages.
    pub(crate) tree_lock: Line<ReadWrite>,
}

/// Size and counts of an inode.
pub(crate) struct InodeHead {
    pub(crate) size: Field<u64>,
    pub(crate) links: Field<u32>,
    /// `i_count`: dentries that refer to it.
    pub(crate) count: Count,
}

impl Inode {
    /// A new inode without a name: not priced.
    pub(crate) fn new(kind: Kind, sb: &Rc<Super>) -> Rc<Self> {
        let links = if kind == Kind::Directory { 2 } else { 1 };
        let head =
            InodeHead { size: Field::new(0), links: Field::new(links), count: Count::new(1) };
        let hot = InodeHot {
            head: Line(head),
            lock: Line(match sb.vfs.inode_lock {
                SleepingLock::Mutex => InodeLock::Mutex(sb.locks.mutex()),
                SleepingLock::Rwsem => InodeLock::RwSem(Here::place(Line(sb.locks.rwsem()))),
            }),
            tree_lock: Line(sb.locks.read_write()),
            pages: core::array::from_fn(|_| Line(Count::new(1))),
        };
        let hot = Here::place(hot);
        // The two names of lockdep: they nest, and are held for different times.
        let directory = kind == Kind::Directory;
        hot.lock.name(if directory { "i_mutex_dir_key" } else { sb.vfs.inode_lock.name() });
        hot.tree_lock.name("tree_lock");
        Rc::new(Self {
            kind,
            sb: Rc::clone(sb),
            hot,
            lock: (sb.vfs.inodes != InodeLocks::InodeLock).then(|| {
                let lock = Here::place(Line(sb.locks.spin()));
                lock.name("i_lock");
                lock
            }),
            disk: OnDisk::default(),
            entries: RefCell::default(),
            pages: RefCell::default(),
            frames: RefCell::default(),
            cold: RefCell::default(),
            pipe: RefCell::default(),
            content: RefCell::new(Some(Vec::new())),
        })
    }

    /// Sets the length of a file of the root file system; its content is zeros.
    pub(super) fn fill(&self, bytes: u64, pages: u64) {
        self.hot.head.size.poke(bytes);
        let mut present = self.pages.borrow_mut();
        for page in 0..pages {
            present.insert(page);
        }
        self.content.replace(None);
    }

    /// The `struct page` of page `page`, and its neighbours.
    pub(super) fn page_line(&self, page: u64) -> &Count {
        &self.hot.pages[page as usize % PAGE_LINES]
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// A name in the dentry cache. Every name that exists has one.
pub(crate) struct Dentry {
    pub(crate) inode: Rc<Inode>,
    pub(crate) parent: RefCell<Weak<Dentry>>,
    pub(crate) hot: Sim<DentryHot>,
    /// Sequence count and what else a walk reads, since 2.6.38 not in the line of lock and count.
    pub(super) lookup: Option<Sim<Line<Field<u32>>>>,
    /// Root of the file system mounted here.
    pub(crate) mounted: RefCell<Option<Rc<Dentry>>>,
    /// The name exists.
    pub(crate) linked: Cell<bool>,
}

/// The part of a dentry in simulated memory: one line, as in the kernel.
pub(crate) struct DentryHot {
    pub(crate) lock: Spin,
    pub(crate) count: Count,
    /// Name, hash chain, list of children.
    pub(crate) name: Field<u32>,
}

impl Dentry {
    fn new(inode: Rc<Inode>, parent: Weak<Self>, count: u32) -> Rc<Self> {
        let lock = inode.sb.locks.spin();
        let hot = DentryHot { lock, count: Count::new(count), name: Field::new(0) };
        let hot = Here::place(hot);
        hot.lock.name("d_lock");
        let apart = inode.sb.vfs.dcache.rcu_walk();
        let lookup = apart.then(|| Here::place(Line(Field::new(0))));
        Rc::new(Self {
            inode,
            parent: RefCell::new(parent),
            hot,
            lookup,
            mounted: RefCell::default(),
            linked: Cell::new(true),
        })
    }

    /// The root of a file system that is mounted below `parent`.
    pub(super) fn root(inode: Rc<Inode>, parent: Option<&Rc<Self>>) -> Rc<Self> {
        // The mount refers to it, and the first process works in the first one.
        Self::new(inode, parent.map(Rc::downgrade).unwrap_or_default(), 2)
    }

    /// A dentry for a new name in `self`: pinned by the name on tmpfs, by its entries if it is a
    /// directory.
    pub(super) fn name(self: &Rc<Self>, inode: Rc<Inode>) -> Rc<Self> {
        let count = match inode.kind {
            Kind::Directory | Kind::Null => 1,
            // /dev is a memory file system as well; the first process has the terminal open.
            Kind::Tty => 2,
            Kind::Regular | Kind::Fifo | Kind::Symlink => u32::from(inode.sb.memory),
        };
        Self::new(inode, Rc::downgrade(self), count)
    }

    /// Adds a name without a price: while the tree is built.
    pub(super) fn plant(self: &Rc<Self>, name: &str, inode: Rc<Inode>) -> Rc<Self> {
        let dentry = self.name(inode);
        self.inode.entries.borrow_mut().insert(name, Rc::clone(&dentry));
        dentry
    }

    /// The name `name` in this directory, without a price.
    pub(crate) fn child(&self, name: &str) -> Option<Rc<Self>> {
        self.inode.entries.borrow().get(name).cloned()
    }

    /// Mounts the file system of `inode` here; `..` from it leads to `parent`.
    pub(super) fn mount(&self, inode: Rc<Inode>, parent: &Rc<Self>) {
        self.mounted.replace(Some(Self::root(inode, Some(parent))));
    }
}
