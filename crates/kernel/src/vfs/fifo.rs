//! Fifos: pipes with a name.

use super::dentry::Kind;
use super::file::{File, Target};
use super::paths::Paths;
use crate::pipe::Pipe;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

impl Paths {
    /// `mkfifo`.
    pub(crate) fn make_fifo(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let (directory, name) = self.walk_to_parent(path)?;
        let made = self.create_new(&directory, name, Kind::Fifo);
        world.put_path(&directory);
        made.map(|dentry| world.put_path(&dentry))
    }

    /// `open` of one end of a fifo that does not wait for the other: `ENXIO` for a write end
    /// without a reader.
    pub(crate) fn open_fifo(&self, path: &str, writer: bool) -> Sys<Rc<File>> {
        let world = &*self.world;
        Here::pass(world.costs.open);
        let dentry = self.walk(path)?;
        let pipe = world.under(&dentry.inode.hot.lock, || {
            if dentry.inode.kind != Kind::Fifo {
                return Err(Errno::EINVAL);
            }
            let open = dentry.inode.pipe.borrow().upgrade();
            let pipe = open.unwrap_or_else(|| {
                Here::pass(world.costs.pipe_create);
                Pipe::of_fifo(world.locks)
            });
            pipe.open_end(writer)?;
            dentry.inode.pipe.replace(Rc::downgrade(&pipe));
            Ok(pipe)
        });
        let pipe = pipe.inspect_err(|_| world.put_path(&dentry))?;
        let list = world.vfs.list_file();
        let file = File::new(Target::Fifo(dentry, pipe, writer), !writer, writer, 1);
        file.list.set(list);
        Ok(file)
    }
}
