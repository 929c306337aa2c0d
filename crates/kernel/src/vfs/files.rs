//! The descriptors of a process, and the system calls on them.

use super::dentry::{Dentry, Kind};
use super::file::{File, Target};
use super::rules::Seek;
use crate::processes::Proc;
use crate::world::World;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::{Fd, Sys};
use core::cell::RefCell;
use std::rc::Rc;

/// The open files of one process (`files_struct`). The system calls on them are its functions,
/// each in the file of its subject.
pub(crate) struct Files {
    pub(super) world: Rc<World>,
    /// The process, which has the lock of the table.
    owner: Rc<Proc>,
    open: RefCell<Vec<Option<Rc<File>>>>,
}

impl Files {
    pub(crate) fn new(world: &Rc<World>, owner: &Rc<Proc>, open: Vec<Option<Rc<File>>>) -> Self {
        Self { world: Rc::clone(world), owner: Rc::clone(owner), open: RefCell::new(open) }
    }

    /// The files of the first process: the terminal, if there is one.
    pub(crate) fn first(world: &Rc<World>, owner: &Rc<Proc>) -> Self {
        let mut open = Vec::new();
        if world.options.terminal {
            open.resize(3, Some(world.tree.terminal_file()));
        }
        Self::new(world, owner, open)
    }

    /// The open files, for a child, with a reference to each.
    pub(crate) fn share(&self) -> Vec<Option<Rc<File>>> {
        let open = self.open.borrow().clone();
        open.iter().flatten().for_each(|file| file.get());
        open
    }

    /// Drops the references of [`Self::share`].
    pub(crate) fn put_shared(&self) {
        let open = self.open.borrow().clone();
        open.iter().flatten().for_each(|file| self.world.put_file(file));
    }

    /// The open file `fd`.
    #[inline]
    pub(super) fn file(&self, fd: Fd) -> Sys<Rc<File>> {
        self.owner.hot.table.unlocked().read();
        let files = self.open.borrow();
        usize::try_from(fd)
            .ok()
            .and_then(|fd| files.get(fd))
            .and_then(Clone::clone)
            .ok_or(Errno::EBADF)
    }

    /// Gives `file` the lowest free descriptor. The room was checked by [`Self::room_for`].
    pub(crate) fn install(&self, file: Rc<File>) -> Fd {
        self.owner.hot.table.hold(|table| {
            table.write(table.peek().wrapping_add(1));
            let mut files = self.open.borrow_mut();
            let fd = files.iter().position(Option::is_none).unwrap_or(files.len());
            if fd == files.len() {
                files.push(None);
            }
            files[fd] = Some(file);
            fd as Fd
        })
    }

    /// `EMFILE` unless `count` descriptors are free.
    pub(crate) fn room_for(&self, count: usize) -> Sys<()> {
        let open = self.open.borrow().iter().flatten().count();
        if open + count > self.world.options.open_files { Err(Errno::EMFILE) } else { Ok(()) }
    }

    /// `close`.
    pub(crate) fn close(&self, fd: Fd) -> Sys<()> {
        let file = self.owner.hot.table.hold(|table| {
            table.write(table.peek().wrapping_add(1));
            let index = usize::try_from(fd).ok()?;
            self.open.borrow_mut().get_mut(index)?.take()
        });
        let file = file.ok_or(Errno::EBADF)?;
        Here::pass(self.world.costs.close);
        self.world.put_file(&file);
        Ok(())
    }

    /// Closes all files, when the process exits.
    pub(crate) fn close_all(&self) {
        let files = self.open.take();
        for file in files.into_iter().flatten() {
            Here::pass(self.world.costs.close);
            self.world.put_file(&file);
        }
    }

    /// `read`.
    pub(crate) fn read(&self, fd: Fd, buffer: &mut [u8]) -> Sys<usize> {
        let file = self.file(fd)?;
        if !file.read {
            return Err(Errno::EBADF);
        }
        let world = &*self.world;
        match &file.target {
            Target::Inode(dentry) => match dentry.inode.kind {
                Kind::Regular => dentry.inode.read(world, &file, buffer),
                Kind::Directory => Err(Errno::EISDIR),
                // An end of a fifo is a pipe's; the name itself is never open.
                Kind::Fifo | Kind::Symlink => Err(Errno::EINVAL),
                // Nobody types on the terminal of a run.
                Kind::Null | Kind::Tty => {
                    Here::pass(world.costs.null_io);
                    Ok(0)
                }
            },
            Target::PipeRead(pipe) | Target::Fifo(_, pipe, false) => pipe.read(world, buffer),
            Target::PipeWrite(_) | Target::Fifo(_, _, true) => Err(Errno::EBADF),
            Target::Socket(socket) => socket.read(world, buffer),
        }
    }

    /// `write`.
    pub(crate) fn write(&self, fd: Fd, buffer: &[u8]) -> Sys<usize> {
        let file = self.file(fd)?;
        if !file.write {
            return Err(Errno::EBADF);
        }
        let world = &*self.world;
        match &file.target {
            Target::Inode(dentry) => match dentry.inode.kind {
                Kind::Regular => {
                    let written = dentry.inode.write(world, &file, buffer);
                    if file.sync.get() && written.is_ok() {
                        dentry.inode.sync(world);
                    }
                    written
                }
                Kind::Directory => Err(Errno::EISDIR),
                Kind::Fifo | Kind::Symlink => Err(Errno::EINVAL),
                Kind::Null => {
                    Here::pass(world.costs.null_io);
                    Ok(buffer.len())
                }
                Kind::Tty => {
                    world.terminal_ioctl();
                    Ok(buffer.len())
                }
            },
            Target::PipeWrite(pipe) | Target::Fifo(_, pipe, true) => pipe.write(world, buffer),
            Target::PipeRead(_) | Target::Fifo(_, _, false) => Err(Errno::EBADF),
            Target::Socket(socket) => socket.write(world, buffer),
        }
    }

    /// `fsync`.
    pub(crate) fn sync(&self, fd: Fd) -> Sys<()> {
        let file = self.file(fd)?;
        match &file.target {
            Target::Inode(dentry) => {
                dentry.inode.sync(&self.world);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// `lseek`.
    pub(crate) fn seek(&self, fd: Fd, offset: u64) -> Sys<u64> {
        let file = self.file(fd)?;
        match &file.target {
            Target::Inode(dentry) => match dentry.inode.kind {
                Kind::Regular | Kind::Directory => seek(&self.world, &file, dentry, offset),
                Kind::Null => Ok(0),
                Kind::Tty | Kind::Fifo | Kind::Symlink => Err(Errno::ESPIPE),
            },
            _ => Err(Errno::ESPIPE),
        }
    }
}

/// `lseek` to `offset`.
fn seek(world: &World, file: &File, dentry: &Dentry, offset: u64) -> Sys<u64> {
    if offset > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    let inode = &dentry.inode;
    let seek = || {
        Here::pass(world.costs.seek);
        if inode.is_directory() {
            world.vfs.names_of(dentry, || inode.hot.head.size.read());
        }
        file.hot.position.write(offset);
    };
    if world.vfs.rules.lseek == Seek::IMutex {
        world.under(&inode.hot.lock, seek);
    } else if inode.is_directory() && inode.sb.memory {
        world.sharing(&inode.hot.lock, seek);
    } else {
        seek();
    }
    Ok(offset)
}
