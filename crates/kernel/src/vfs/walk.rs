//! Path look-up. With `dcache = "dcache-lock"` one reference is taken and one given back for each
//! component; otherwise one is taken at the end.

use super::dentry::{Dentry, Inode};
use crate::rcu::state::Rcu;
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

impl World {
    /// Looks `path` up from `cwd`; the result carries a reference for [`World::put_path`].
    pub(crate) fn walk(&self, cwd: &Rc<Dentry>, path: &str) -> Sys<Rc<Dentry>> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let start = self.start(cwd, path);
        let at = self.steps(start, path, &mut 0)?;
        let at = self.follow_last(at)?;
        self.arrive(&at);
        Ok(at)
    }

    /// [`Self::walk`] to a name that is not followed if it is a symbolic link.
    pub(crate) fn walk_to_link(&self, cwd: &Rc<Dentry>, path: &str) -> Sys<Rc<Dentry>> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let start = self.start(cwd, path);
        let at = self.steps(start, path, &mut 0)?;
        self.arrive(&at);
        Ok(at)
    }

    /// Looks up the directory that `path` names something in; returns it, with a reference, and the
    /// last name.
    pub(crate) fn walk_to_parent<'a>(
        &self,
        cwd: &Rc<Dentry>,
        path: &'a str,
    ) -> Sys<(Rc<Dentry>, &'a str)> {
        let (at, name) = self.walk_above(cwd, path)?;
        self.arrive(&at);
        Ok((at, name))
    }

    /// [`Self::walk_to_parent`], which has not ended at the directory yet.
    pub(super) fn walk_above<'a>(
        &self,
        cwd: &Rc<Dentry>,
        path: &'a str,
    ) -> Sys<(Rc<Dentry>, &'a str)> {
        let trimmed = path.trim_end_matches('/');
        if trimmed.is_empty() {
            return Err(if path.is_empty() { Errno::ENOENT } else { Errno::EEXIST });
        }
        let (above, name) = match trimmed.rfind('/') {
            Some(slash) => (&trimmed[..=slash], &trimmed[slash + 1..]),
            None => ("", trimmed),
        };
        if name == "." || name == ".." {
            return Err(Errno::EINVAL);
        }
        let start = self.start(cwd, trimmed);
        let at = self.steps(start, above, &mut 0)?;
        let at = self.follow_last(at)?;
        if at.inode.is_directory() {
            Ok((at, name))
        } else {
            self.abandon(&at);
            Err(Errno::ENOTDIR)
        }
    }

    pub(super) fn start(&self, cwd: &Rc<Dentry>, path: &str) -> Rc<Dentry> {
        Here::pass(self.costs.walk_start);
        let at = Rc::clone(if path.starts_with('/') { &self.tree.root } else { cwd });
        self.enter(&at);
        at
    }

    /// All steps of `path` from `at` on; symbolic links on the way are followed, not the last one.
    /// `followed` counts them.
    pub(super) fn steps(&self, at: Rc<Dentry>, path: &str, followed: &mut u32) -> Sys<Rc<Dentry>> {
        let mut at = at;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.follow(at, followed)?;
            at = self.step(at, name)?;
        }
        Ok(at)
    }

    fn step(&self, at: Rc<Dentry>, name: &str) -> Sys<Rc<Dentry>> {
        Here::pass(self.costs.walk_component);
        if !at.inode.is_directory() {
            self.abandon(&at);
            return Err(Errno::ENOTDIR);
        }
        let next = match name {
            "." => return Ok(at),
            ".." => at.parent.borrow().upgrade(),
            _ => at.child(name),
        };
        let Some(next) = next else {
            if name == ".." {
                // The root is its own parent.
                return Ok(at);
            }
            self.miss(&at);
            return Err(Errno::ENOENT);
        };
        if Rc::ptr_eq(&next.inode.sb, &at.inode.sb) {
            self.advance(&at, &next);
        } else {
            self.climb(&at, &next);
        }
        let mounted = next.mounted.borrow().clone();
        let Some(mounted) = mounted else { return Ok(next) };
        self.descend(&next, &mounted);
        Ok(mounted)
    }

    /// The end of a walk with an uncached last name. tmpfs does not cache misses.
    fn miss(&self, directory: &Dentry) {
        if !directory.inode.sb.memory {
            return self.abandon(directory);
        }
        self.arrive(directory);
        self.sharing(&directory.inode.hot.lock, || self.allocate_dentry(directory));
        // The last reference to a name that does not exist frees it.
        self.vfs.names_of(directory, || directory.hot.name.write(0));
        self.put_path(directory);
    }

    /// Allocates a dentry in `directory`, for a miss and for the object that is created next. The
    /// caller holds the directory's `i_mutex`.
    pub(super) fn allocate_dentry(&self, directory: &Dentry) {
        Here::pass(self.costs.lookup_miss + self.costs.dentry_alloc);
        for _ in 0..self.vfs.listings_of_a_name() {
            self.vfs.names_of(directory, || directory.hot.name.write(0));
        }
    }

    /// The start of a walk at `at`: a reference, or a section in which nothing is freed and no
    /// mount changes.
    pub(super) fn enter(&self, at: &Dentry) {
        if self.vfs.rcu_walk() {
            self.sched.rcu.iter().for_each(Rcu::walk_begins);
            self.vfs.enter_section();
        } else {
            self.get_path(at);
        }
    }

    /// One step of a walk, in the cache and within a file system.
    pub(super) fn advance(&self, at: &Dentry, next: &Dentry) {
        next.look();
        if !self.vfs.rcu_walk() {
            next.hot.lock.hold(|| next.hot.count.get());
            self.dput(at);
        }
    }

    /// A step from one file system to another: up to the directory that it is mounted on.
    fn climb(&self, at: &Dentry, next: &Dentry) {
        if !self.vfs.rcu_walk() {
            self.vfs.mounts(|| self.get_path(next));
            self.put_path(at);
        }
    }

    /// A step from one file system to another: down to the root mounted at `at`.
    fn descend(&self, at: &Dentry, mounted: &Dentry) {
        if !self.vfs.rcu_walk() {
            self.cross(at, mounted);
        }
    }

    /// Replaces the reference to a directory by one to the root mounted on it.
    pub(super) fn cross(&self, at: &Dentry, mounted: &Dentry) {
        self.vfs.mounts(|| mounted.inode.sb.count_mount(1));
        self.vfs.dget(mounted);
        self.put_path(at);
    }

    /// The end of a walk at `at`, with a reference.
    pub(super) fn arrive(&self, at: &Dentry) {
        if self.vfs.rcu_walk() {
            self.get_path(at);
            self.vfs.leave_section();
            self.sched.rcu.iter().for_each(Rcu::walk_ends);
        }
    }

    /// The end of a walk that failed at `at`.
    pub(super) fn abandon(&self, at: &Dentry) {
        if self.vfs.rcu_walk() {
            self.vfs.leave_section();
            self.sched.rcu.iter().for_each(Rcu::walk_ends);
        } else {
            self.put_path(at);
        }
    }

    /// Takes another reference to a referenced name, and to its mount.
    pub(crate) fn get_path(&self, dentry: &Dentry) {
        dentry.inode.sb.count_mount(1);
        self.vfs.dget(dentry);
    }

    /// Drops the references of [`Self::get_path`].
    #[inline]
    pub(crate) fn put_path(&self, dentry: &Dentry) {
        self.dput(dentry);
        self.vfs.put_mount(&dentry.inode.sb);
    }

    /// [`Self::get_path`] of a name that was just found.
    pub(super) fn get_found_path(&self, dentry: &Dentry) {
        if self.vfs.rcu_walk() {
            self.get_path(dentry);
        } else {
            dentry.hot.lock.hold(|| self.get_path(dentry));
        }
    }

    /// Drops a reference to a name; the last reference to an unlinked name frees it.
    pub(super) fn dput(&self, dentry: &Dentry) {
        if self.vfs.dput(dentry) && !dentry.linked.get() {
            self.vfs.unlist_name(dentry);
            self.free_later(1);
            self.iput(&dentry.inode);
        }
    }

    /// Drops a dentry's reference to its inode; the last one frees a file without names.
    pub(crate) fn iput(&self, inode: &Inode) {
        if !inode.hot.head.count.put() {
            return;
        }
        inode.i_lock(|| ());
        self.vfs.list_inode(&inode.sb, false);
        if inode.hot.head.links.peek() == 0 {
            inode.evict(self, || inode.free_pages(self));
            inode.sb.count_inodes(-1);
            self.free_later(1);
        }
    }
}
