//! The directory of a process, from which its paths are looked up.

use super::dentry::Dentry;
use crate::world::World;
use convoy_workload::api::Sys;
use core::cell::RefCell;
use std::rc::Rc;

/// The name space as one process sees it (`fs_struct`). The system calls on paths are its
/// functions, each in the file of its subject.
pub(crate) struct Paths {
    pub(super) world: Rc<World>,
    directory: RefCell<Rc<Dentry>>,
}

impl Paths {
    /// The paths of the first process.
    pub(crate) fn first(world: &Rc<World>) -> Self {
        let directory = RefCell::new(Rc::clone(&world.tree.root));
        Self { world: Rc::clone(world), directory }
    }

    /// The paths of a child, with references of its own to its directory.
    pub(crate) fn copy(&self) -> Self {
        let directory = self.directory();
        self.world.get_path(&directory);
        Self { world: Rc::clone(&self.world), directory: RefCell::new(directory) }
    }

    /// Drops the references of [`Self::copy`].
    pub(crate) fn release(&self) {
        self.change(Rc::clone(&self.world.tree.root));
    }

    /// Changes the directory, to which the caller has references, and drops those of the last one.
    pub(super) fn change(&self, directory: Rc<Dentry>) {
        let old = self.directory.replace(directory);
        self.world.put_path(&old);
    }

    pub(crate) fn directory(&self) -> Rc<Dentry> {
        self.directory.borrow().clone()
    }

    /// [`World::walk`] from the directory.
    pub(crate) fn walk(&self, path: &str) -> Sys<Rc<Dentry>> {
        self.world.walk(&self.directory(), path)
    }

    /// [`World::walk_to_parent`] from the directory.
    pub(super) fn walk_to_parent<'a>(&self, path: &'a str) -> Sys<(Rc<Dentry>, &'a str)> {
        self.world.walk_to_parent(&self.directory(), path)
    }
}
