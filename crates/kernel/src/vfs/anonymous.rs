//! Files without a name: pipes and sockets. Their names and inodes take the shared locks too.

use super::file::{File, Target};
use super::files::Files;
use super::locks::VfsLocks;
use crate::costs::{Costs, spend};
use crate::pipe::Pipe;
use crate::socket::Socket;
use convoy_machine::Here;
use convoy_workload::api::{Fd, SocketKind, Sys};
use std::rc::Rc;

impl VfsLocks {
    /// The dentry and inode of a new pipe or socket.
    pub(crate) fn make_anonymous(&self, costs: &Costs) {
        self.list_anonymous_inode(true);
        Here::pass(costs.dentry_alloc);
        // `d_alloc` and `d_instantiate`.
        for _ in 0..2 {
            self.anonymous_name();
        }
    }

    /// Their end. The name of a pipe has one reference: this is its last `dput` and `iput`.
    pub(super) fn free_anonymous(&self) {
        self.anonymous_name();
        self.list_anonymous_inode(false);
    }
}

impl Files {
    /// `pipe`: (read end, write end).
    pub(crate) fn pipe(&self) -> Sys<(Fd, Fd)> {
        self.room_for(2)?;
        let world = &*self.world;
        Here::pass(world.costs.pipe_create);
        world.vfs.make_anonymous(&world.costs);
        let pipe = Pipe::new(world.locks, 1, 1);
        let reader = File::new(Target::PipeRead(Rc::clone(&pipe)), true, false, 1);
        let writer = File::new(Target::PipeWrite(pipe), false, true, 1);
        Ok((self.install(reader), self.install(writer)))
    }

    /// A connected pair of sockets.
    pub(crate) fn sockets(&self, kind: SocketKind) -> Sys<(Fd, Fd)> {
        let world = &*self.world;
        self.room_for(if kind == SocketKind::Tcp { 3 } else { 2 })?;
        // TCP also makes a listening socket, and closes it.
        let made = if kind == SocketKind::Tcp { 3 } else { 2 };
        for _ in 0..made {
            spend(world.costs.socket_create);
            world.vfs.make_anonymous(&world.costs);
        }
        if kind == SocketKind::Tcp {
            spend(world.costs.tcp_connect);
            world.vfs.free_anonymous();
            // The file and the wait queue of the listening socket.
            world.free_later(2);
        }
        let (a, b) = Socket::pair(world.locks, kind);
        let file = |end| File::new(Target::Socket(end), true, true, 1);
        Ok((self.install(file(a)), self.install(file(b))))
    }
}
