//! Path look-up: one reference taken and one given back for each component.

use super::dentry::Dentry;
use crate::api::Sys;
use crate::errno::Errno;
use crate::world::World;
use convoy_machine::Here;
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
            Ok((at, name))
        } else {
            self.put_path(&at);
            Err(Errno::ENOTDIR)
        }
    }

    fn start(&self, cwd: &Rc<Dentry>, path: &str) -> Rc<Dentry> {
        Here::pass(self.costs.walk_start);
        let at = Rc::clone(if path.starts_with('/') { &self.tree.root } else { cwd });
        at.get();
        at
    }

    fn step(&self, at: Rc<Dentry>, name: &str) -> Sys<Rc<Dentry>> {
        Here::pass(self.costs.walk_component);
        if !at.inode.is_directory() {
            self.put_path(&at);
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
            self.put_path(&at);
            return Err(Errno::ENOENT);
        };
        if Rc::ptr_eq(&next.inode.sb, &at.inode.sb) {
            next.hot.name.read();
            next.hot.lock.hold(|| next.hot.count.get());
            self.dput(&at);
        } else {
            // Out of a mount.
            self.globals.vfsmount.hold(|| next.get());
            self.put_path(&at);
        }
        Ok(next.cross(self))
    }

    /// The work for a name that is not in the cache. tmpfs caches no misses.
    fn miss(&self, directory: &Dentry) {
        if !directory.inode.sb.memory {
            return;
        }
        self.under(&directory.inode.hot.mutex, || self.allocate_dentry(directory));
        // The last reference to a name that does not exist frees it.
        self.globals.dcache.hold(|| directory.hot.name.write(0));
    }

    /// Allocates a dentry in `directory`, as a miss and as what is created next: `d_alloc` and the
    /// two parts of
    /// `d_add`, each under `dcache_lock`. The caller holds the directory's `i_mutex`.
    pub(super) fn allocate_dentry(&self, directory: &Dentry) {
        Here::pass(self.costs.lookup_miss + self.costs.dentry_alloc);
        for _ in 0..3 {
            self.globals.dcache.hold(|| directory.hot.name.write(0));
        }
    }
}
