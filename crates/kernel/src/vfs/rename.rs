//! `rename`: two names of one file system, one of which takes the place of the other.
//!
//! Locks, outermost first: `s_vfs_rename_mutex` of the file system if the directories differ, both
//! `i_mutex` (the ancestor's first), the `i_mutex` of a replaced file; then `d_move` under the lock
//! of all names and `rename_lock`, which are one since 2.6.38. A look-up that misses while a name
//! moves looks again in the kernel; here a miss is seen at one moment, under no lock that matters.

use super::dentry::{Dentry, Super};
use super::disk::Change;
use super::locks::VfsLocks;
use super::paths::Paths;
use crate::locks::{Field, Line, Mutex, Spin};
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

/// A name in a directory.
type Place<'a> = (&'a Rc<Dentry>, &'a str);

impl Super {
    fn rename_mutex(&self) -> &Mutex {
        let place = || {
            let mutex = Here::place(Line(self.locks.mutex()));
            mutex.name("s_vfs_rename_mutex");
            mutex
        };
        &self.renames.get_or_init(place).0
    }
}

impl VfsLocks {
    /// `rename_lock` where it is not the lock of all names.
    fn rename_lock(&self, spin: impl FnOnce() -> Spin) -> &Spin {
        let place = || {
            let lock = Here::place(Line(spin()));
            lock.name("rename_lock");
            lock
        };
        &self.renames.get_or_init(place).0
    }

    /// `d_move`: runs `body`, which moves `dentry` from the directory `from` to `to`.
    fn d_move(&self, dentry: &Dentry, from: &Dentry, to: &Dentry, body: impl FnOnce()) {
        let moves = || {
            dentry.d_lock(|| {
                dentry.hot.name.write(1);
                body();
            });
        };
        self.hot.names.hold(|| {
            if !self.rcu_walk() {
                let locks = dentry.inode.sb.locks;
                return self.rename_lock(|| locks.spin()).hold(moves);
            }
            from.hot
                .lock
                .hold(|| if core::ptr::eq(from, to) { moves() } else { to.hot.lock.hold(moves) });
        });
    }
}

impl Dentry {
    /// Whether this is `other` or a directory above it.
    fn is_above(self: &Rc<Self>, other: &Rc<Self>) -> bool {
        let above = |at: &Rc<Self>| at.parent.borrow().upgrade();
        core::iter::successors(Some(Rc::clone(other)), above).any(|at| Rc::ptr_eq(&at, self))
    }
}

impl World {
    /// Runs `body` with the names of both directories locked.
    fn lock_rename<R>(&self, from: &Rc<Dentry>, to: &Rc<Dentry>, body: impl FnOnce() -> R) -> R {
        if Rc::ptr_eq(from, to) {
            return self.under(&from.inode.hot.lock, body);
        }
        self.under(from.inode.sb.rename_mutex(), || {
            let (first, second) = if from.is_above(to) { (from, to) } else { (to, from) };
            self.under(&first.inode.hot.lock, || self.under(&second.inode.hot.lock, body))
        })
    }

    /// Moves the name `old` to `new`. The caller holds the locks of both directories.
    fn move_name(&self, old: Place<'_>, new: Place<'_>) -> Sys<()> {
        Here::pass(2 * self.costs.walk_component);
        let source = old.0.child(old.1).ok_or(Errno::ENOENT)?;
        self.vfs.dget_found(&source);
        let target = new.0.child(new.1);
        if let Some(target) = &target {
            self.vfs.dget_found(target);
        }
        let same = may_move(&source, target.as_ref(), old.0, new.0);
        if same == Ok(false) {
            self.replace_locked(&source, old, new, target.as_ref());
        }
        if let Some(target) = target {
            self.dput(&target);
        }
        self.dput(&source);
        same.map(|_| ())
    }

    /// [`Self::replace`] under the `i_mutex` of a file that loses its name, or with a new name.
    fn replace_locked(
        &self,
        source: &Rc<Dentry>,
        old: Place<'_>,
        new: Place<'_>,
        target: Option<&Rc<Dentry>>,
    ) {
        let Some(lost) = target else {
            self.allocate_dentry(new.0);
            self.replace(source, old, new, None);
            // What was allocated has the old name now, which is nobody's: its last reference.
            return self.vfs.names_of(old.0, || old.0.hot.name.write(0));
        };
        self.under(&lost.inode.hot.lock, || self.replace(source, old, new, target));
        if lost.inode.sb.memory || lost.inode.is_directory() {
            self.dput(lost);
        }
    }

    /// The name `source` goes from `old` to `new`, in the place of `target`.
    fn replace(
        &self,
        source: &Rc<Dentry>,
        old: Place<'_>,
        new: Place<'_>,
        target: Option<&Rc<Dentry>>,
    ) {
        let ((from, old_name), (to, new_name)) = (old, new);
        Here::pass(self.costs.rename);
        source.inode.change(self, Change::Rename, &to.inode, || {
            if let Some(target) = target {
                self.lose_name(target, to);
            }
            self.vfs.d_move(source, from, to, || {
                from.inode.entries.borrow_mut().remove(old_name);
                count(&from.inode.hot.head.size, -1);
                to.inode.entries.borrow_mut().insert(new_name, Rc::clone(source));
                count(&to.inode.hot.head.size, i64::from(target.is_none()));
                source.parent.replace(Rc::downgrade(to));
            });
            if source.inode.is_directory() && !Rc::ptr_eq(from, to) {
                count_links(from, -1);
                count_links(to, 1);
            }
        });
    }

    /// `target`, in `directory`, loses its name to another file.
    fn lose_name(&self, target: &Dentry, directory: &Dentry) {
        target.linked.set(false);
        if target.inode.is_directory() {
            target.inode.hot.head.links.write(0);
            count_links(directory, -1);
        } else {
            count_links(target, -1);
            if target.inode.hot.head.links.peek() == 0 {
                target.inode.orphan(self);
            }
        }
    }
}

/// Adds `by` to the number of names in a directory.
fn count(names: &Field<u64>, by: i64) {
    names.write(names.peek().wrapping_add_signed(by));
}

fn count_links(dentry: &Dentry, by: i32) {
    let links = &dentry.inode.hot.head.links;
    links.write(links.peek().wrapping_add_signed(by));
}

/// Whether the move is none, since both names are of one file; or why it must not be.
fn may_move(
    source: &Rc<Dentry>,
    target: Option<&Rc<Dentry>>,
    from: &Rc<Dentry>,
    to: &Rc<Dentry>,
) -> Sys<bool> {
    if source.is_above(to) {
        return Err(Errno::EINVAL);
    }
    let Some(target) = target else {
        return if to.linked.get() { Ok(false) } else { Err(Errno::ENOENT) };
    };
    if target.is_above(from) {
        return Err(Errno::ENOTEMPTY);
    }
    match (source.inode.is_directory(), target.inode.is_directory()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        (true, true) if !target.inode.entries.borrow().is_empty() => Err(Errno::ENOTEMPTY),
        _ => Ok(Rc::ptr_eq(&source.inode, &target.inode)),
    }
}

impl Paths {
    /// `rename`.
    pub(crate) fn rename(&self, old: &str, new: &str) -> Sys<()> {
        let world = &*self.world;
        let (from, old_name) = self.walk_to_parent(old)?;
        let result = self.walk_to_parent(new).and_then(|(to, new_name)| {
            let moved = if Rc::ptr_eq(&from.inode.sb, &to.inode.sb) {
                let moves = || world.move_name((&from, old_name), (&to, new_name));
                world.lock_rename(&from, &to, moves)
            } else {
                Err(Errno::EXDEV)
            };
            world.put_path(&to);
            moved
        });
        world.put_path(&from);
        result
    }
}
