//! `open` and `close`.

use super::dentry::{Dentry, Inode, Kind};
use super::disk::Change;
use super::file::{File, Target};
use super::links;
use super::paths::Paths;
use super::rules::Create;
use crate::pipe::Pipe;
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::{Open, Sys};
use std::rc::Rc;

impl World {
    /// One descriptor fewer; the last one closes the file.
    pub(crate) fn put_file(&self, file: &File) {
        if !file.put() {
            return;
        }
        self.free_later(1);
        match &file.target {
            Target::Inode(dentry) => {
                if dentry.inode.kind == Kind::Tty {
                    self.terminal.release(self);
                }
                self.vfs.unlist_file(file.list.get());
                self.put_path(dentry);
            }
            Target::PipeRead(pipe) => self.close_pipe(pipe, false),
            Target::PipeWrite(pipe) => self.close_pipe(pipe, true),
            Target::Fifo(dentry, pipe, writer) => {
                pipe.close_end(self, *writer);
                pipe.free(self);
                self.vfs.unlist_file(file.list.get());
                self.put_path(dentry);
            }
            Target::Socket(socket) => {
                socket.close(self);
                self.vfs.free_anonymous();
                // Its wait queue (`sock_destroy_inode`).
                self.free_later(1);
            }
        }
    }

    /// Closes one end of a pipe without a name.
    fn close_pipe(&self, pipe: &Pipe, writer: bool) {
        pipe.close_end(self, writer);
        self.vfs.free_anonymous();
        if pipe.free(self) {
            // Its inode (`i_callback`).
            self.free_later(1);
        }
    }
}

impl Paths {
    /// `open`.
    pub(crate) fn open(&self, path: &str, flags: Open) -> Sys<Rc<File>> {
        let world = &*self.world;
        Here::pass(world.costs.open);
        let dentry = if flags.create {
            self.open_or_create(&self.directory(), path, 0, flags)?
        } else {
            self.walk(path)?
        };
        if let Err(errno) = self.may_open(&dentry.inode, flags) {
            world.put_path(&dentry);
            return Err(errno);
        }
        let list = world.vfs.list_file();
        let file = File::new(Target::Inode(dentry), flags.read, flags.write, 1);
        file.list.set(list);
        file.sync.set(flags.sync);
        Ok(file)
    }

    /// Checks and prepares the opened object: truncation, the driver's `open`.
    fn may_open(&self, inode: &Inode, flags: Open) -> Sys<()> {
        let world = &*self.world;
        match inode.kind {
            Kind::Directory if flags.write || flags.create => Err(Errno::EISDIR),
            Kind::Directory => Ok(()),
            // Opened by `open_fifo`.
            Kind::Fifo => Err(Errno::ENXIO),
            // Followed before.
            Kind::Symlink => Err(Errno::ELOOP),
            Kind::Regular => {
                if flags.truncate && flags.write {
                    world.under(&inode.hot.lock, || {
                        Here::pass(world.costs.truncate);
                        inode.truncate(world);
                    });
                }
                Ok(())
            }
            Kind::Null => {
                world.open_null();
                Ok(())
            }
            Kind::Tty => world.terminal.open(world),
        }
    }

    /// The part of `open` with `O_CREAT`; `vfs.create` decides whether it locks the directory of a
    /// name that exists. `links` led here.
    fn open_or_create(
        &self,
        cwd: &Rc<Dentry>,
        path: &str,
        links: u32,
        flags: Open,
    ) -> Sys<Rc<Dentry>> {
        if links > links::MOST {
            return Err(Errno::ELOOP);
        }
        let world = &*self.world;
        let (directory, name) = world.walk_above(cwd, path)?;
        let dentry = match self.look_first(&directory, name, flags) {
            Some(found) => found,
            None => self.create_locked(&directory, name, flags)?,
        };
        if dentry.is_link() {
            let (above, target) = world.target_of(&dentry);
            return self.open_or_create(&above, &target, links + 1, flags);
        }
        let mounted = dentry.mounted.borrow().clone();
        let Some(mounted) = mounted else { return Ok(dentry) };
        world.cross(&dentry, &mounted);
        Ok(mounted)
    }

    /// The end of a walk at the name `name` of `directory`, if it exists and the kernel looks
    /// first.
    fn look_first(&self, directory: &Dentry, name: &str, flags: Open) -> Option<Rc<Dentry>> {
        let world = &*self.world;
        if world.vfs.rules.create == Create::Locks || flags.exclusive {
            return None;
        }
        Here::pass(world.costs.walk_component);
        let found = directory.child(name)?;
        world.advance(directory, &found);
        world.arrive(&found);
        Some(found)
    }

    /// The end of a walk at `directory`: its file `name`, which is created if it does not exist,
    /// under the lock of the directory.
    fn create_locked(&self, directory: &Rc<Dentry>, name: &str, flags: Open) -> Sys<Rc<Dentry>> {
        let world = &*self.world;
        world.arrive(directory);
        let result = world.under(&directory.inode.hot.lock, || {
            Here::pass(world.costs.walk_component);
            match directory.child(name) {
                Some(_) if flags.exclusive => Err(Errno::EEXIST),
                Some(found) => {
                    found.look();
                    world.get_found_path(&found);
                    Ok(found)
                }
                None => self.create(directory, name, Kind::Regular),
            }
        });
        world.put_path(directory);
        result
    }

    /// Makes a fifo or symbolic link `name` under the directory's `i_mutex`, with a reference for
    /// the caller.
    ///
    /// # Errors
    /// `EEXIST`, and the errors of [`Self::create`].
    pub(super) fn create_new(
        &self,
        directory: &Rc<Dentry>,
        name: &str,
        kind: Kind,
    ) -> Sys<Rc<Dentry>> {
        let world = &*self.world;
        world.under(&directory.inode.hot.lock, || {
            Here::pass(world.costs.walk_component);
            match directory.child(name) {
                Some(_) => Err(Errno::EEXIST),
                None => self.create(directory, name, kind),
            }
        })
    }

    /// Creates an empty file, fifo or symbolic link `name`, with a reference for the caller, which
    /// holds the directory's `i_mutex`.
    pub(super) fn create(&self, directory: &Rc<Dentry>, name: &str, kind: Kind) -> Sys<Rc<Dentry>> {
        let world = &*self.world;
        if !directory.linked.get() {
            return Err(Errno::ENOENT);
        }
        world.allocate_dentry(directory);
        Here::pass(world.costs.creat);
        let dentry = directory.inode.change(world, Change::Create, &directory.inode, || {
            world.add_name(directory, name, world.new_inode(directory, kind))
        });
        world.get_path(&dentry);
        Ok(dentry)
    }
}
