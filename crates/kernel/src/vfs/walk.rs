//! Path look-up. Up to 2.6.37 one reference is taken and one given back for each component; later
//! one is taken at the end.

use super::dentry::Dentry;
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
        let mut at = self.start(cwd, path);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.step(at, name)?;
        }
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
        let mut at = self.start(cwd, trimmed);
        for name in above.split('/').filter(|name| !name.is_empty()) {
            at = self.step(at, name)?;
        }
        if at.inode.is_directory() {
            self.arrive(&at);
            Ok((at, name))
        } else {
            self.abandon(&at);
            Err(Errno::ENOTDIR)
        }
    }

    fn start(&self, cwd: &Rc<Dentry>, path: &str) -> Rc<Dentry> {
        Here::pass(self.costs.walk_start);
        let at = Rc::clone(if path.starts_with('/') { &self.tree.root } else { cwd });
        self.enter(&at);
        at
    }

    fn step(&self, at: Rc<Dentry>, name: &str) -> Sys<Rc<Dentry>> {
        Here::pass(self.costs.walk_component);
        if !at.inode.is_directory() {
            self.abandon(&at);
            return Err(Errno::ENOTDIR);
        }
        let next = match name {
            "." => return Ok(at),
            ".." => at.parent.upgrade(),
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

    /// The end of a walk whose last name is not in the cache. tmpfs caches no misses.
    fn miss(&self, directory: &Dentry) {
        if !directory.inode.sb.memory {
            return self.abandon(directory);
        }
        self.arrive(directory);
        self.under(&directory.inode.hot.mutex, || self.allocate_dentry(directory));
        // The last reference to a name that does not exist frees it.
        self.names_of(directory, || directory.hot.name.write(0));
        self.put_path(directory);
    }

    /// Allocates a dentry in `directory`, as a miss and as what is created next. The caller holds
    /// the directory's `i_mutex`.
    pub(super) fn allocate_dentry(&self, directory: &Dentry) {
        Here::pass(self.costs.lookup_miss + self.costs.dentry_alloc);
        for _ in 0..self.listings_of_a_name() {
            self.names_of(directory, || directory.hot.name.write(0));
        }
    }
}
