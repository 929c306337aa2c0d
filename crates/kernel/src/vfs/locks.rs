//! The locks of names, inodes, mounts and open files, from version to version.
//!
//! The paths say what they touch; here stands which lock that takes:
//!
//! | | 2.6.16 | 2.6.36 | 2.6.38 | 3.2 | 3.12 |
//! |---|---|---|---|---|---|
//! | component of a walk | `d_lock`, count | | reads only | | |
//! | end of a walk | - | | `d_lock`, count | | count, if `d_lock` is free |
//! | mounts | `vfsmount_lock` | that of the CPU | | | reads only |
//! | count of a mount | one | | one for each CPU | | |
//! | last reference to a name | `dcache_lock` | | `d_lock` | | count, if `d_lock` is free |
//! | list of a directory's names | `dcache_lock` | | its `d_lock` | | |
//! | a name and its inode | `dcache_lock` | | `i_lock`, `d_lock` | | |
//! | list of inodes | `inode_lock` | | `inode_sb_list_lock` | not of pipes | |
//! | list of open files | `files_lock` | `files_lglock` of the CPU | | | none |
//! | blocks of tmpfs | `stat_lock` | count of the CPU | | | |
//! | path of a directory | `dcache_lock` | | `rename_lock` | | reads only |
//! | page of a file | `tree_lock` | its count | | | |
//! | `lseek` | `i_mutex` | | | nothing | |
//!
//! An empty field is as the one before it. Some locks came or went one or two versions from the
//! column that has them here: readers of `tree_lock` in 2.6.27, `inode_lock` in 2.6.39, the lists
//! of open files and `vfsmount_lock` in 3.13.

use super::dentry::{Dentry, Inode, Super};
use crate::locks::{Field, Guarded, Line, Spin};
use crate::preset::LockRules;
use crate::world::World;
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::{Access, Platform, RawLock};
use schemars::JsonSchema;
use serde::Deserialize;

/// How the kernel locks names, inodes, mounts and open files. See the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum VfsLocks {
    /// Global locks: up to 2.6.35.
    #[default]
    #[serde(rename = "2.6.16")]
    Global,
    /// Mounts and open files under locks of each CPU: 2.6.36 and 2.6.37.
    #[serde(rename = "2.6.36")]
    PerCpu,
    /// Walks that neither lock nor count, a lock for each name and inode: 2.6.38 to 3.1.
    #[serde(rename = "2.6.38")]
    RcuWalk,
    /// `lseek` in files without a lock: 3.2 to 3.11.
    #[serde(rename = "3.2")]
    FreeSeeks,
    /// Counts are changed together with their unlocked lock: since 3.12.
    #[serde(rename = "3.12")]
    Lockref,
}

impl VfsLocks {
    /// Names of the global locks: of names, of inodes, of files that are walked.
    pub(crate) fn global_names(self) -> [&'static str; 3] {
        match self {
            Self::Global => ["dcache_lock", "inode_lock", "files_lock"],
            Self::PerCpu => ["dcache_lock", "inode_lock", "tty_files_lock"],
            Self::RcuWalk | Self::FreeSeeks | Self::Lockref => {
                ["rename_lock", "inode_sb_list_lock", "tty_files_lock"]
            }
        }
    }
}

/// Tries to change a lockref before its lock is taken.
const LOCKREF_TRIES: usize = 100;

/// The locks that some kernels have and others do not.
pub(crate) struct LaterLocks {
    cpus: Vec<Sim<CpuLocks>>,
    inode_hash: Option<Sim<Line<Spin>>>,
}

/// The locks of one CPU.
#[repr(C)]
struct CpuLocks {
    mounts: Line<Spin>,
    /// The lock of a list of open files, and its head.
    files: Line<Guarded<Field<u32>>>,
}

impl LaterLocks {
    pub(crate) fn new(vfs: VfsLocks, locks: LockRules, cpus: usize) -> Self {
        let cpu = |_| {
            let files = Line(locks.guarded(Field::new(0)));
            let cpu = Here::place(CpuLocks { mounts: Line(locks.spin()), files });
            cpu.mounts.name("vfsmount_lock");
            cpu.files.name("files_lglock");
            cpu
        };
        let by_cpu = vfs >= VfsLocks::PerCpu && vfs < VfsLocks::Lockref;
        Self {
            cpus: (0..if by_cpu { cpus } else { 0 }).map(cpu).collect(),
            inode_hash: (vfs >= VfsLocks::RcuWalk).then(|| {
                let lock = Here::place(Line(locks.spin()));
                lock.name("inode_hash_lock");
                lock
            }),
        }
    }

    /// Runs `body` with the locks of this CPU, which it keeps meanwhile, and its number.
    fn on_this_cpu<R>(&self, body: impl FnOnce(&CpuLocks, usize) -> R) -> R {
        Smp::preempt_disable();
        let cpu = Here::cpu();
        let result = body(&self.cpus[cpu], cpu);
        Smp::preempt_enable();
        result
    }
}

/// Changes a count beside its unlocked lock by `try_once`, which says `None` when somebody else was
/// faster. `None` if that did not work, or the lock is held.
fn unlocked<R>(lock: &Spin, try_once: impl Fn() -> Option<R>) -> Option<R> {
    let step = |_| if lock.is_locked() { Some(None) } else { try_once().map(Some) };
    (0..LOCKREF_TRIES).find_map(step).flatten()
}

impl Super {
    /// Adds `by` to the count of the mount, this CPU's if each has one.
    fn count_mount(&self, by: i32) {
        match &self.mounts[..] {
            [] if by > 0 => self.hot.mount.get(),
            [] => {
                self.hot.mount.put();
            }
            of_cpus => {
                Smp::preempt_disable();
                of_cpus[Here::cpu()].update(|count| count + by);
                Smp::preempt_enable();
            }
        }
    }
}

impl Inode {
    /// Runs `body` under `i_lock`, where the kernel has it.
    pub(super) fn i_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        match &self.lock {
            Some(lock) => lock.hold(body),
            None => body(),
        }
    }

    /// Takes a reference to page `page` of the file.
    pub(super) fn get_page(&self, page: u64) {
        let line = self.page_line(page);
        if self.sb.vfs >= VfsLocks::PerCpu {
            line.get();
        } else {
            self.hot.tree_lock.read(|| line.get());
        }
    }
}

impl Dentry {
    /// What a look-up reads of a name that it compares.
    pub(super) fn look(&self) {
        match &self.lookup {
            Some(apart) => apart.read(),
            None => self.hot.name.read(),
        };
    }

    /// Runs `body` under `d_lock`, with a new sequence count for walks.
    fn d_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        self.hot.lock.hold(|| {
            if let Some(apart) = &self.lookup {
                apart.update(|sequence| sequence.wrapping_add(1));
            }
            body()
        })
    }
}

impl World {
    fn has(&self, since: VfsLocks) -> bool {
        self.vfs >= since
    }

    /// Looks a mount up by `body`.
    fn mounts<R>(&self, body: impl FnOnce() -> R) -> R {
        if !self.has(VfsLocks::PerCpu) {
            self.globals.vfsmount.hold(body)
        } else if !self.has(VfsLocks::Lockref) {
            self.later.on_this_cpu(|locks, _| locks.mounts.hold(body))
        } else {
            body()
        }
    }

    /// The start of a walk at `at`: a reference, or a section in which nothing is freed and no
    /// mount changes.
    pub(super) fn enter(&self, at: &Dentry) {
        if !self.has(VfsLocks::RcuWalk) {
            self.get_path(at);
        } else if !self.has(VfsLocks::Lockref) {
            Smp::preempt_disable();
            self.later.cpus[Here::cpu()].mounts.lock();
        }
    }

    /// One step of a walk, in the cache and within a file system.
    pub(super) fn advance(&self, at: &Dentry, next: &Dentry) {
        next.look();
        if !self.has(VfsLocks::RcuWalk) {
            next.hot.lock.hold(|| next.hot.count.get());
            self.dput(at);
        }
    }

    /// A step from one file system to another: up to the directory that it is mounted on.
    pub(super) fn climb(&self, at: &Dentry, next: &Dentry) {
        if !self.has(VfsLocks::RcuWalk) {
            self.mounts(|| self.get_path(next));
            self.put_path(at);
        }
    }

    /// A step from one file system to another: down to what is mounted at `at`.
    pub(super) fn descend(&self, at: &Dentry, mounted: &Dentry) {
        if !self.has(VfsLocks::RcuWalk) {
            self.cross(at, mounted);
        }
    }

    /// Replaces the reference to a directory by one to what is mounted on it.
    pub(super) fn cross(&self, at: &Dentry, mounted: &Dentry) {
        self.mounts(|| mounted.inode.sb.count_mount(1));
        self.dget(mounted);
        self.put_path(at);
    }

    /// The end of a walk at `at`, with a reference.
    pub(super) fn arrive(&self, at: &Dentry) {
        if self.has(VfsLocks::RcuWalk) {
            at.inode.sb.count_mount(1);
            self.dget(at);
            self.leave_section();
        }
    }

    /// The end of a walk that came to nothing at `at`.
    pub(super) fn abandon(&self, at: &Dentry) {
        if self.has(VfsLocks::RcuWalk) {
            self.leave_section();
        } else {
            self.put_path(at);
        }
    }

    fn leave_section(&self) {
        if !self.has(VfsLocks::Lockref) {
            self.later.cpus[Here::cpu()].mounts.unlock();
            Smp::preempt_enable();
        }
    }

    /// Takes a reference to a name that somebody refers to, and to its mount.
    pub(crate) fn get_path(&self, dentry: &Dentry) {
        dentry.inode.sb.count_mount(1);
        self.dget(dentry);
    }

    /// Gives back what [`Self::get_path`] took.
    #[inline]
    pub(crate) fn put_path(&self, dentry: &Dentry) {
        self.dput(dentry);
        let sb = &dentry.inode.sb;
        if self.has(VfsLocks::RcuWalk) {
            // In case it is being unmounted.
            self.mounts(|| sb.count_mount(-1));
        } else {
            sb.count_mount(-1);
        }
    }

    /// [`Self::get_path`] of a name that was just found.
    pub(super) fn get_found_path(&self, dentry: &Dentry) {
        if self.has(VfsLocks::RcuWalk) {
            self.get_path(dentry);
        } else {
            dentry.hot.lock.hold(|| self.get_path(dentry));
        }
    }

    /// Takes a reference to a name that somebody refers to.
    fn dget(&self, dentry: &Dentry) {
        if self.has(VfsLocks::RcuWalk) {
            self.dget_found(dentry);
        } else {
            dentry.hot.count.get();
        }
    }

    /// Takes a reference to a name that was just found.
    pub(super) fn dget_found(&self, dentry: &Dentry) {
        let (lock, count) = (&dentry.hot.lock, &dentry.hot.count);
        let counted = self.has(VfsLocks::Lockref)
            && unlocked(lock, || count.try_get().then_some(())).is_some();
        if !counted {
            lock.hold(|| count.get());
        }
    }

    /// Gives back a reference to a name.
    pub(crate) fn dput(&self, dentry: &Dentry) {
        let (lock, count) = (&dentry.hot.lock, &dentry.hot.count);
        let last = if self.has(VfsLocks::Lockref) {
            unlocked(lock, || count.try_put()).unwrap_or_else(|| lock.hold(|| count.put()))
        } else if self.has(VfsLocks::RcuWalk) {
            lock.hold(|| count.put())
        } else if count.put_unless_last() {
            false
        } else {
            self.globals.dcache.hold(|| {
                let last = count.put();
                lock.hold(|| ());
                last
            })
        };
        if last && !dentry.linked.get() {
            self.unlist_name(dentry);
            self.sched.free_rcu();
            self.iput(&dentry.inode);
        }
    }

    /// `dentry_kill`: takes a name that is gone off its directory's list.
    fn unlist_name(&self, dentry: &Dentry) {
        if !self.has(VfsLocks::RcuWalk) {
            // Done, under `dcache_lock`.
            return;
        }
        dentry.inode.i_lock(|| {
            if let Some(directory) = dentry.parent.upgrade() {
                directory.hot.lock.hold(|| dentry.hot.lock.hold(|| directory.hot.name.write(0)));
            }
        });
    }

    /// Runs `body`, which reads or changes the list of the names in `directory`.
    pub(crate) fn names_of<R>(&self, directory: &Dentry, body: impl FnOnce() -> R) -> R {
        if self.has(VfsLocks::RcuWalk) {
            directory.hot.lock.hold(body)
        } else {
            self.globals.dcache.hold(body)
        }
    }

    /// How often a new name is put on a list that is locked: `d_alloc` and the two parts of
    /// `d_add`, of which later only the first one meets others.
    pub(super) fn listings_of_a_name(&self) -> usize {
        if self.has(VfsLocks::RcuWalk) { 1 } else { 3 }
    }

    /// The lock of a name that has no directory, whose own locks nobody else wants.
    pub(crate) fn anonymous_name(&self) {
        if !self.has(VfsLocks::RcuWalk) {
            self.globals.dcache.hold(|| ());
        }
    }

    /// Runs `body`, which ties `dentry` to its inode.
    pub(super) fn tie<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        if self.has(VfsLocks::RcuWalk) {
            dentry.inode.i_lock(|| dentry.d_lock(body))
        } else {
            self.globals.dcache.hold(body)
        }
    }

    /// Runs `body`, which unties `dentry` from its inode, after it was hidden from look-ups.
    pub(super) fn untie<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        let hide = || dentry.hot.name.write(0);
        if self.has(VfsLocks::RcuWalk) {
            dentry.inode.i_lock(|| {
                dentry.d_lock(|| {
                    hide();
                    body()
                })
            })
        } else {
            self.globals.dcache.hold(|| {
                dentry.hot.lock.hold(hide);
                body()
            })
        }
    }

    /// Puts an inode of `sb` on the list of all, or takes it off.
    pub(super) fn list_inode(&self, sb: &Super, on: bool) {
        self.list_any_inode(on);
        if let Some(lock) = &self.later.inode_hash
            && !sb.memory
        {
            lock.hold(|| ());
        }
    }

    /// The same with the inode of a pipe or socket.
    pub(crate) fn list_anonymous_inode(&self, on: bool) {
        if !self.has(VfsLocks::FreeSeeks) {
            self.list_any_inode(on);
        }
    }

    fn list_any_inode(&self, on: bool) {
        let by = if on { 1 } else { u32::MAX };
        self.globals.inode.list.hold(|list| list.write(list.peek().wrapping_add(by)));
    }

    /// Puts a file on a list of open files, and returns whose.
    pub(super) fn list_file(&self) -> usize {
        if !self.has(VfsLocks::PerCpu) {
            change_list(&self.globals.files);
            0
        } else if !self.has(VfsLocks::Lockref) {
            self.later.on_this_cpu(|locks, cpu| {
                change_list(&locks.files);
                cpu
            })
        } else {
            0
        }
    }

    /// Takes it off that list.
    pub(super) fn unlist_file(&self, list: usize) {
        if !self.has(VfsLocks::PerCpu) {
            change_list(&self.globals.files);
        } else if !self.has(VfsLocks::Lockref) {
            change_list(&self.later.cpus[list].files);
        }
    }

    /// Runs `body`, which follows the parents of `dentry`.
    pub(super) fn path_of<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        let names = &self.globals.dcache;
        if self.has(VfsLocks::Lockref) {
            Smp::touch(&names.0, Access::Read);
            body()
        } else if self.has(VfsLocks::RcuWalk) {
            names.hold(|| self.mounts(|| dentry.hot.lock.hold(body)))
        } else {
            names.hold(|| self.mounts(body))
        }
    }

    /// Passes an entry of the open directory `dentry`; disk file systems of later kernels keep
    /// entries elsewhere than in the cache of names.
    pub(super) fn pass_entry(&self, dentry: &Dentry) {
        if !self.has(VfsLocks::RcuWalk) || dentry.inode.sb.memory {
            self.names_of(dentry, || ());
        }
    }

    /// Whether `lseek` takes the `i_mutex` of `inode`.
    pub(super) fn seek_locks(&self, inode: &Inode) -> bool {
        !self.has(VfsLocks::FreeSeeks) || inode.is_directory() && inode.sb.memory
    }
}

fn change_list(list: &Guarded<Field<u32>>) {
    list.hold(|list| list.write(list.peek().wrapping_add(1)));
}
