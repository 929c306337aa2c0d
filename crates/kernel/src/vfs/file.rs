//! Open files: `open`, `close`, and the objects of open files.

use super::dentry::Dentry;
use super::readahead::state::Window;
use crate::locks::{Count, Field};
use crate::pipe::Pipe;
use crate::socket::Socket;
use convoy_machine::{Here, Sim};
use core::cell::Cell;
use std::rc::Rc;

/// The object of an open file.
pub(crate) enum Target {
    /// A name.
    Inode(Rc<Dentry>),
    /// The read end of a pipe.
    PipeRead(Rc<Pipe>),
    /// The write end of a pipe.
    PipeWrite(Rc<Pipe>),
    /// An end of a fifo: its name, its pipe, whether it is the write end.
    Fifo(Rc<Dentry>, Rc<Pipe>, bool),
    /// A socket.
    Socket(Rc<Socket>),
}

/// An open file, shared by the descriptors that `fork` copies.
pub(crate) struct File {
    pub(crate) target: Target,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// `O_SYNC`.
    pub(crate) sync: Cell<bool>,
    /// The CPU with the list of open files that contains it.
    pub(super) list: Cell<usize>,
    /// How far it has been read ahead.
    pub(super) ahead: Cell<Window>,
    pub(crate) hot: Sim<FileHot>,
}

/// `f_count` and `f_pos`.
pub(crate) struct FileHot {
    count: Count,
    pub(crate) position: Field<u64>,
}

impl File {
    /// An open file with `count` descriptors; takes over the reference to its target.
    pub(crate) fn new(target: Target, read: bool, write: bool, count: u32) -> Rc<Self> {
        let hot = FileHot { count: Count::new(count), position: Field::new(0) };
        Rc::new(Self {
            target,
            read,
            write,
            sync: Cell::new(false),
            list: Cell::new(0),
            ahead: Cell::default(),
            hot: Here::place(hot),
        })
    }

    /// One more descriptor.
    pub(crate) fn get(&self) {
        self.hot.count.get();
    }

    /// One descriptor fewer; whether none is left.
    pub(super) fn put(&self) -> bool {
        self.hot.count.put()
    }
}
