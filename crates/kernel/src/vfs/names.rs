//! System calls on names: `link`, `unlink`, `mkdir`, `rmdir`, `stat`, `chdir`, `getcwd`, `sync`.

use super::dentry::{Dentry, Inode, Kind};
use super::disk::Change;
use super::paths::Paths;
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::{Stat, Sys};
use std::rc::Rc;

impl World {
    /// A new inode on the file system of `directory`.
    pub(super) fn new_inode(&self, directory: &Dentry, kind: Kind) -> Rc<Inode> {
        self.vfs.list_inode(&directory.inode.sb, true);
        directory.inode.sb.count_inodes(1);
        let inode = Inode::new(kind, &directory.inode.sb);
        inode.place_on_disk(self, &directory.inode);
        inode
    }

    /// `d_instantiate`: gives `inode` the name `name`. The caller holds the directory's `i_mutex`.
    pub(super) fn add_name(
        &self,
        directory: &Rc<Dentry>,
        name: &str,
        inode: Rc<Inode>,
    ) -> Rc<Dentry> {
        let dentry = directory.name(inode);
        self.vfs.tie(&dentry, || {
            dentry.hot.name.write(1);
            directory.inode.entries.borrow_mut().insert(name, Rc::clone(&dentry));
        });
        let size = &directory.inode.hot.head.size;
        size.write(size.peek() + 1);
        dentry
    }

    /// `d_delete`: takes the name away, and with it the reference that tmpfs holds for it. The
    /// caller holds the directory's `i_mutex` and a reference to `dentry`.
    fn remove_name(&self, directory: &Dentry, name: &str, dentry: &Dentry) {
        self.vfs.untie(dentry, || {
            dentry.linked.set(false);
            directory.inode.entries.borrow_mut().remove(name);
        });
        let size = &directory.inode.hot.head.size;
        size.write(size.peek() - 1);
        if dentry.inode.sb.memory || dentry.inode.is_directory() {
            self.dput(dentry);
        }
    }

    /// `sync`: walks the file systems and finds nothing to write.
    pub(crate) fn sync_all(&self) {
        self.vfs.read_lists(|| Here::pass(self.costs.sync));
        self.tree.journals().for_each(|journal| journal.commit_all());
    }

    /// `sync`, and 1 into `/proc/sys/vm/drop_caches`: of all files on disks nothing is in memory.
    pub(crate) fn drop_caches(&self) {
        self.sync_all();
        self.tree.files().iter().for_each(|inode| inode.forget(self));
    }
}

impl Paths {
    /// `link`.
    pub(crate) fn link(&self, old: &str, new: &str) -> Sys<()> {
        let world = &*self.world;
        let from = world.walk_to_link(&self.directory(), old)?;
        let parent = self.walk_to_parent(new);
        let result = parent.and_then(|(directory, name)| {
            let linked = world
                .under(&directory.inode.hot.lock, || self.link_here(&from.inode, &directory, name));
            world.put_path(&directory);
            linked
        });
        world.put_path(&from);
        result
    }

    fn link_here(&self, inode: &Rc<Inode>, directory: &Rc<Dentry>, name: &str) -> Sys<()> {
        let world = &*self.world;
        if directory.child(name).is_some() {
            return Err(Errno::EEXIST);
        }
        if inode.is_directory() || !Rc::ptr_eq(&inode.sb, &directory.inode.sb) {
            return Err(Errno::EPERM);
        }
        if !directory.linked.get() {
            return Err(Errno::ENOENT);
        }
        world.allocate_dentry(directory);
        world.under(&inode.hot.lock, || {
            Here::pass(world.costs.link);
            let links = &inode.hot.head.links;
            if links.peek() == 0 {
                // The last name went away while the path was walked.
                return Err(Errno::ENOENT);
            }
            inode.change(world, Change::Link, &directory.inode, || {
                inode.sb.count_inodes(0);
                links.write(links.peek() + 1);
                inode.hot.head.count.get();
                world.add_name(directory, name, Rc::clone(inode));
            });
            Ok(())
        })
    }

    /// `unlink` and `rmdir`.
    pub(crate) fn remove(&self, path: &str, directory_wanted: bool) -> Sys<()> {
        let world = &*self.world;
        let (directory, name) = self.walk_to_parent(path)?;
        let result = world.under(&directory.inode.hot.lock, || {
            Here::pass(world.costs.walk_component);
            let Some(victim) = directory.child(name) else { return Err(Errno::ENOENT) };
            world.vfs.dget_found(&victim);
            let removed = world.under(&victim.inode.hot.lock, || {
                victim.inode.change(world, Change::Unlink, &directory.inode, || {
                    self.remove_here(&directory, name, &victim, directory_wanted)?;
                    if victim.inode.hot.head.links.peek() == 0 {
                        victim.inode.orphan(world);
                    }
                    Ok(())
                })
            });
            removed.map_or_else(
                |errno| {
                    world.dput(&victim);
                    Err(errno)
                },
                |()| Ok(Rc::clone(&victim)),
            )
        });
        world.put_path(&directory);
        // The last reference frees the pages outside the directory's mutex.
        result.map(|victim| world.dput(&victim))
    }

    fn remove_here(
        &self,
        directory: &Dentry,
        name: &str,
        victim: &Dentry,
        directory_wanted: bool,
    ) -> Sys<()> {
        let world = &*self.world;
        let head = &victim.inode.hot.head;
        match (victim.inode.is_directory(), directory_wanted) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            (true, true) => {
                if victim.mounted.borrow().is_some() {
                    return Err(Errno::EPERM);
                }
                if !victim.inode.entries.borrow().is_empty() {
                    return Err(Errno::ENOTEMPTY);
                }
                Here::pass(world.costs.rmdir);
                head.links.write(0);
                let links = &directory.inode.hot.head.links;
                links.write(links.peek() - 1);
            }
            (false, false) => {
                Here::pass(world.costs.unlink);
                let links = head.links.peek() - 1;
                if links > 0 {
                    victim.inode.sb.count_inodes(0);
                }
                head.links.write(links);
            }
        }
        world.remove_name(directory, name, victim);
        Ok(())
    }

    /// `mkdir`.
    pub(crate) fn make_directory(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let (directory, name) = self.walk_to_parent(path)?;
        let result = world.under(&directory.inode.hot.lock, || {
            if directory.child(name).is_some() {
                return Err(Errno::EEXIST);
            }
            if !directory.linked.get() {
                return Err(Errno::ENOENT);
            }
            world.allocate_dentry(&directory);
            Here::pass(world.costs.mkdir);
            directory.inode.change(world, Change::Create, &directory.inode, || {
                world.add_name(&directory, name, world.new_inode(&directory, Kind::Directory));
                let links = &directory.inode.hot.head.links;
                links.write(links.peek() + 1);
            });
            Ok(())
        });
        world.put_path(&directory);
        result
    }

    /// `stat`.
    pub(crate) fn stat(&self, path: &str) -> Sys<Stat> {
        let world = &*self.world;
        let dentry = self.walk(path)?;
        Here::pass(world.costs.stat);
        let head = &dentry.inode.hot.head;
        let stat = Stat {
            size: head.size.read(),
            links: head.links.peek(),
            directory: dentry.inode.is_directory(),
        };
        world.put_path(&dentry);
        Ok(stat)
    }

    /// `chdir`.
    pub(crate) fn change_directory(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let dentry = self.walk(path)?;
        if !dentry.inode.is_directory() {
            world.put_path(&dentry);
            return Err(Errno::ENOTDIR);
        }
        Here::pass(world.costs.chdir);
        self.change(dentry);
        Ok(())
    }

    /// `getcwd`.
    pub(crate) fn working_directory(&self) {
        let world = &*self.world;
        let directory = self.directory();
        world.vfs.path_of(&directory, || {
            directory.hot.name.read();
            Here::pass(world.costs.getcwd);
        });
    }
}
