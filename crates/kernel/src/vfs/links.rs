//! Symbolic links: `symlink`, and following a link in a path walk.
//!
//! A short target lies in the inode. A walk that reaches a link reads it, releases the link and
//! continues from the link's directory, or from the root; reading the link does not take a lock.
//! What later kernels do without references they do without any here, too. Not here: the time of
//! the last access, which a link gets once a second.

use super::dentry::{Dentry, Kind};
use super::paths::Paths;
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

/// Links of one walk, at most.
pub(super) const MOST: u32 = 40;

impl Dentry {
    /// Returns the target of a symbolic link.
    fn target(&self) -> String {
        let content = self.inode.content.borrow();
        String::from_utf8(content.clone().unwrap_or_default()).expect("made from a string")
    }

    pub(super) fn is_link(&self) -> bool {
        self.inode.kind == Kind::Symlink
    }
}

impl World {
    /// Returns `at`, or its target if it is a symbolic link.
    pub(super) fn follow(&self, at: Rc<Dentry>, followed: &mut u32) -> Sys<Rc<Dentry>> {
        let mut at = at;
        while at.is_link() {
            *followed += 1;
            if *followed > MOST {
                self.abandon(&at);
                return Err(Errno::ELOOP);
            }
            Here::pass(self.costs.walk_start);
            let target = at.target();
            let from = self.leave_link(&at, &target);
            at = self.steps(from, &target, followed)?;
        }
        Ok(at)
    }

    /// [`Self::follow`] at the end of a walk.
    pub(super) fn follow_last(&self, at: Rc<Dentry>) -> Sys<Rc<Dentry>> {
        self.follow(at, &mut 0)
    }

    /// Releases a link and returns the start of its target path.
    fn leave_link(&self, link: &Rc<Dentry>, target: &str) -> Rc<Dentry> {
        let above = link.parent.borrow().upgrade().expect("a link has a directory");
        if !target.starts_with('/') {
            self.advance(link, &above);
            return above;
        }
        let root = Rc::clone(&self.tree.root);
        if !self.vfs.rcu_walk() {
            self.get_path(&root);
            self.put_path(link);
        }
        root
    }

    /// Follows a link for `open` with `O_CREAT`, which has found the link itself and drops its
    /// reference: returns the directory from which the target is looked up, and the target.
    pub(super) fn target_of(&self, link: &Rc<Dentry>) -> (Rc<Dentry>, String) {
        let above = link.parent.borrow().upgrade().expect("a link has a directory");
        let target = link.target();
        self.put_path(link);
        (above, target)
    }
}

impl Paths {
    /// `symlink`.
    pub(crate) fn symlink(&self, target: &str, path: &str) -> Sys<()> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        let world = &*self.world;
        let (directory, name) = self.walk_to_parent(path)?;
        let made = self.create_new(&directory, name, Kind::Symlink).map(|link| {
            link.inode.hot.head.size.write(target.len() as u64);
            link.inode.content.replace(Some(target.as_bytes().to_vec()));
            world.put_path(&link);
        });
        world.put_path(&directory);
        made
    }
}
