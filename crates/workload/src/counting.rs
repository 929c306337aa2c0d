//! A kernel that does nothing but count: for tests of jobs, and for `convoy list job-calls`.
//!
//! It keeps names, links, sizes, offsets and bytes in transit, but no content, so a job runs to its
//! end. A forked child runs immediately, in the same process. Time does not pass.

mod calls;
pub mod job;
mod names;

use std::collections::BTreeMap;

use crate::Errno;
use crate::api::{
    Exit, Fd, Image, Kernel, Open, Pid, Program, Query, Signal, SocketKind, Stat, Sys, Transfers,
};

/// Entries of one directory buffer.
const DIRECTORY_BUFFER_ENTRIES: usize = 32_768 / 32;
/// Id of the first process.
const FIRST_PID: Pid = 100;

/// The object of an open descriptor.
#[derive(Clone, Debug)]
enum File {
    /// An inode and the offset.
    Inode(usize, u64),
    /// The channel read from and the channel written to.
    Channel { read: Option<usize>, write: Option<usize> },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    size: u64,
    links: u32,
    directory: bool,
    /// Where a symbolic link leads.
    target: Option<String>,
}

/// The counting kernel.
#[derive(Clone, Debug)]
pub struct Counting {
    calls: BTreeMap<&'static str, u64>,
    units: BTreeMap<&'static str, u64>,
    bytes: u64,
    pages: u64,
    names: BTreeMap<String, usize>,
    inodes: Vec<Inode>,
    files: BTreeMap<Fd, File>,
    next_fd: Fd,
    /// Bytes in each channel.
    channels: Vec<usize>,
    working_directory: String,
    pid: Pid,
    last_pid: Pid,
    ended: Vec<(Pid, Exit)>,
    executed: bool,
    caught: u64,
    semaphores: BTreeMap<i32, i32>,
    segments: BTreeMap<i32, usize>,
    next_id: i32,
    heap: isize,
}

impl Default for Counting {
    fn default() -> Self {
        Self::new()
    }
}

impl Counting {
    /// A kernel with an empty root directory.
    pub fn new() -> Self {
        let root = Inode { links: 1, directory: true, ..Inode::default() };
        Self {
            calls: BTreeMap::new(),
            units: BTreeMap::new(),
            bytes: 0,
            pages: 0,
            names: BTreeMap::from([(String::new(), 0)]),
            inodes: vec![root],
            files: BTreeMap::new(),
            next_fd: 3,
            channels: Vec::new(),
            working_directory: String::new(),
            pid: FIRST_PID,
            last_pid: FIRST_PID,
            ended: Vec::new(),
            executed: false,
            caught: 0,
            semaphores: BTreeMap::new(),
            segments: BTreeMap::new(),
            next_id: 0,
            heap: 0,
        }
    }

    /// How often each system call was made since [`Self::reset`].
    pub fn calls(&self) -> &BTreeMap<&'static str, u64> {
        &self.calls
    }

    /// How many of each unit were done since [`Self::reset`].
    pub fn units(&self) -> &BTreeMap<&'static str, u64> {
        &self.units
    }

    /// Pages that programs touched for the first time since [`Self::reset`], including the files of
    /// their start: their minor page faults.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes that were read and written since [`Self::reset`].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets the counts, not the files.
    pub fn reset(&mut self) {
        (self.bytes, self.pages) = (0, 0);
        self.calls.clear();
        self.units.clear();
    }

    /// Number of leaked resources of a job: open descriptors, System V objects, heap, children not
    /// waited for.
    pub fn left_behind(&self) -> usize {
        let objects = self.files.len() + self.semaphores.len() + self.segments.len();
        objects + self.ended.len() + usize::from(self.heap != 0)
    }

    fn count(&mut self, call: &'static str) {
        self.count_all(&[call]);
    }

    fn count_all(&mut self, calls: &[&'static str]) {
        for call in calls {
            *self.calls.entry(call).or_default() += 1;
        }
    }

    fn new_inode(&mut self, directory: bool) -> usize {
        self.inodes.push(Inode { directory, ..Inode::default() });
        self.inodes.len() - 1
    }

    fn new_file(&mut self, file: File) -> Fd {
        let fd = self.next_fd;
        self.next_fd += 1;
        self.files.insert(fd, file);
        fd
    }

    fn new_id(&mut self) -> i32 {
        self.next_id += 1;
        self.next_id
    }

    /// Two descriptors on channels between them.
    fn new_pair(&mut self, both_ways: bool) -> (Fd, Fd) {
        let first = self.channels.len();
        self.channels.extend([0, 0]);
        let back = both_ways.then_some(first + 1);
        let read_end = self.new_file(File::Channel { read: Some(first), write: back });
        let write_end = self.new_file(File::Channel { read: back, write: Some(first) });
        (read_end, write_end)
    }
}

impl Kernel for Counting {
    fn user(&mut self, unit: &'static str, count: u64, _body: impl FnOnce()) {
        *self.units.entry(unit).or_default() += count;
    }

    fn open(&mut self, path: &str, flags: Open) -> Sys<Fd> {
        self.count("open");
        let inode = match self.find(path) {
            Ok(_) if flags.create && flags.exclusive => return Err(Errno::EEXIST),
            Ok(inode) => inode,
            Err(Errno::ENOENT) if flags.create => {
                let inode = self.new_inode(false);
                self.enter(&self.resolve(path)?, inode)?;
                inode
            }
            Err(errno) => return Err(errno),
        };
        if flags.truncate {
            self.inodes[inode].size = 0;
        }
        Ok(self.new_file(File::Inode(inode, 0)))
    }

    fn close(&mut self, fd: Fd) -> Sys<()> {
        self.count("close");
        self.files.remove(&fd).map(drop).ok_or(Errno::EBADF)
    }

    fn read(&mut self, fd: Fd, buffer: &mut [u8]) -> Sys<usize> {
        self.count("read");
        let read = match self.files.get_mut(&fd).ok_or(Errno::EBADF)? {
            File::Inode(inode, offset) => {
                let left = self.inodes[*inode].size.saturating_sub(*offset);
                let read = left.min(buffer.len() as u64);
                *offset += read;
                read as usize
            }
            File::Channel { read, .. } => {
                let channel = read.ok_or(Errno::EBADF)?;
                let read = self.channels[channel].min(buffer.len());
                self.channels[channel] -= read;
                read
            }
        };
        self.bytes += read as u64;
        Ok(read)
    }

    fn write(&mut self, fd: Fd, buffer: &[u8]) -> Sys<usize> {
        self.count("write");
        self.bytes += buffer.len() as u64;
        match self.files.get_mut(&fd).ok_or(Errno::EBADF)? {
            File::Inode(inode, offset) => {
                *offset += buffer.len() as u64;
                let size = &mut self.inodes[*inode].size;
                *size = (*size).max(*offset);
            }
            File::Channel { write, .. } => {
                self.channels[write.ok_or(Errno::EBADF)?] += buffer.len();
            }
        }
        Ok(buffer.len())
    }

    fn seek(&mut self, fd: Fd, to: u64) -> Sys<u64> {
        self.count("lseek");
        match self.files.get_mut(&fd).ok_or(Errno::EBADF)? {
            File::Inode(_, offset) => *offset = to,
            File::Channel { .. } => return Err(Errno::ESPIPE),
        }
        Ok(to)
    }

    fn link(&mut self, old: &str, new: &str) -> Sys<()> {
        self.count("link");
        let inode = *self.names.get(&self.place(old)?).ok_or(Errno::ENOENT)?;
        self.enter(new, inode)
    }

    fn symlink(&mut self, target: &str, path: &str) -> Sys<()> {
        self.count("symlink");
        let link = self.new_inode(false);
        self.inodes[link].target = Some(target.to_owned());
        self.enter(path, link)
    }

    fn rename(&mut self, old: &str, new: &str) -> Sys<()> {
        self.count("rename");
        let inode = self.names.remove(&self.place(old)?).ok_or(Errno::ENOENT)?;
        self.inodes[inode].links -= 1;
        let new = self.place(new)?;
        self.names.remove(&new);
        self.enter(&new, inode)
    }

    fn unlink(&mut self, path: &str) -> Sys<()> {
        self.count("unlink");
        let path = self.place(path)?;
        let inode = *self.names.get(&path).ok_or(Errno::ENOENT)?;
        if self.inodes[inode].directory {
            return Err(Errno::EISDIR);
        }
        self.inodes[inode].links -= 1;
        self.names.remove(&path);
        Ok(())
    }

    fn stat(&mut self, path: &str) -> Sys<Stat> {
        self.count("stat");
        let Inode { size, links, directory, .. } = self.inodes[self.find(path)?];
        Ok(Stat { size, links, directory })
    }

    fn mkdir(&mut self, path: &str) -> Sys<()> {
        self.count("mkdir");
        let inode = self.new_inode(true);
        self.enter(path, inode)
    }

    fn rmdir(&mut self, path: &str) -> Sys<()> {
        self.count("rmdir");
        let path = self.place(path)?;
        let inode = *self.names.get(&path).ok_or(Errno::ENOENT)?;
        if !self.inodes[inode].directory {
            return Err(Errno::ENOTDIR);
        }
        let inside = format!("{path}/");
        if self.names.keys().any(|name| name.starts_with(&inside)) {
            return Err(Errno::ENOTEMPTY);
        }
        self.names.remove(&path);
        Ok(())
    }

    fn chdir(&mut self, path: &str) -> Sys<()> {
        self.count("chdir");
        let inode = self.find(path)?;
        if !self.inodes[inode].directory {
            return Err(Errno::ENOTDIR);
        }
        self.working_directory = self.resolve(path)?;
        Ok(())
    }

    fn read_directory(&mut self, fd: Fd) -> Sys<usize> {
        self.count("getdents");
        let Some(File::Inode(inode, offset)) = self.files.get(&fd).cloned() else {
            return Err(Errno::EBADF);
        };
        let path = self.names.iter().find(|(_, other)| **other == inode);
        let inside = format!("{}/", path.ok_or(Errno::ENOENT)?.0);
        let direct = |name: &&String| {
            name.strip_prefix(&inside).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        };
        // Two more: the directory itself and its parent.
        let entries = self.names.keys().filter(direct).count() + 2;
        let filled = entries.saturating_sub(offset as usize).min(DIRECTORY_BUFFER_ENTRIES);
        self.files.insert(fd, File::Inode(inode, offset + filled as u64));
        Ok(filled)
    }

    fn forget(&mut self, path: &str) -> Sys<()> {
        self.count_all(&["open", "fsync", "fadvise", "close"]);
        self.find(path).map(|_| ())
    }

    fn sync(&mut self) -> Sys<()> {
        self.count("sync");
        Ok(())
    }

    fn asynchronous(&mut self, fd: Fd, transfers: &Transfers<'_>) -> Sys<()> {
        self.files.get(&fd).ok_or(Errno::EBADF)?;
        *self.calls.entry("(asynchronous request)").or_default() += transfers.offsets.len() as u64;
        Ok(())
    }

    fn pipe(&mut self) -> Sys<(Fd, Fd)> {
        self.count("pipe");
        Ok(self.new_pair(false))
    }

    fn make_fifo(&mut self, path: &str) -> Sys<()> {
        self.count("mknod");
        let inode = self.new_inode(false);
        self.enter(path, inode)
    }

    fn open_fifo(&mut self, path: &str) -> Sys<(Fd, Fd)> {
        self.count_all(&["open", "open", "fcntl"]);
        self.find(path)?;
        Ok(self.new_pair(false))
    }

    fn sockets(&mut self, kind: SocketKind) -> Sys<(Fd, Fd)> {
        self.count_all(calls::of_sockets(kind));
        Ok(self.new_pair(true))
    }

    fn shm_create(&mut self, bytes: usize) -> Sys<i32> {
        self.count_all(&["shmget", "shmat"]);
        let id = self.new_id();
        self.segments.insert(id, bytes);
        Ok(id)
    }

    fn shm_copy(&mut self, id: i32, offset: usize, bytes: usize, _write: bool) -> Sys<()> {
        let length = *self.segments.get(&id).ok_or(Errno::EINVAL)?;
        if offset + bytes > length { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn shm_remove(&mut self, id: i32) -> Sys<()> {
        self.count_all(&["shmdt", "shmctl"]);
        self.segments.remove(&id).map(drop).ok_or(Errno::EINVAL)
    }

    fn sem_create(&mut self, value: i32) -> Sys<i32> {
        self.count_all(&["semget", "semctl"]);
        let id = self.new_id();
        self.semaphores.insert(id, value);
        Ok(id)
    }

    fn sem_op(&mut self, id: i32, delta: i32) -> Sys<()> {
        self.count("semop");
        let value = self.semaphores.get_mut(&id).ok_or(Errno::EINVAL)?;
        // Nobody else could raise it: a real kernel would wait for ever.
        if *value + delta < 0 {
            return Err(Errno::EAGAIN);
        }
        *value += delta;
        Ok(())
    }

    fn sem_remove(&mut self, id: i32) -> Sys<()> {
        self.count("semctl");
        self.semaphores.remove(&id).map(drop).ok_or(Errno::EINVAL)
    }

    fn sbrk(&mut self, delta: isize) -> Sys<()> {
        self.count("brk");
        self.heap += delta;
        if self.heap < 0 { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    fn touch_heap(&mut self, bytes: usize, stride: usize) -> Sys<()> {
        self.pages += bytes.div_ceil(stride.max(4096)) as u64;
        if bytes as isize > self.heap { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn pid(&mut self) -> Pid {
        self.count("getpid");
        self.pid
    }

    fn kill(&mut self, pid: Pid, signal: Signal) -> Sys<()> {
        self.count("kill");
        if pid != self.pid || signal != Signal::Usr2 {
            return Err(Errno::ESRCH);
        }
        // The handler installs itself again and returns.
        self.count_all(&["rt_sigaction", "rt_sigreturn"]);
        self.caught += 1;
        Ok(())
    }

    fn catch(&mut self, _signal: Signal) -> Sys<()> {
        self.count("rt_sigaction");
        self.caught = 0;
        Ok(())
    }

    fn caught(&mut self) -> u64 {
        self.caught
    }

    fn fork(&mut self, child: impl FnOnce(&mut Self) -> i32 + 'static) -> Sys<Pid> {
        self.count("fork");
        self.last_pid += 1;
        let (parent, pid) = (self.pid, self.last_pid);
        let (waiting, files) = (std::mem::take(&mut self.ended), self.files.clone());
        let executed = std::mem::take(&mut self.executed);
        self.pid = pid;
        let code = child(self);
        self.files = files;
        // A program that was executed ends with 0; what the child left unwaited goes to nobody.
        let code = if self.executed { 0 } else { code };
        self.count("exit");
        self.pid = parent;
        self.executed = executed;
        self.ended = waiting;
        self.ended.push((pid, Exit::Code(code)));
        Ok(pid)
    }

    fn exec(&mut self, program: Program, _argument: &str) -> Errno {
        self.count("execve");
        self.count(match program {
            Program::True => "(shell on a script)",
            Program::List => "(script, ls -l)",
            Program::SystemList => "(shell -c, script, ls -l)",
        });
        self.executed = true;
        Errno(0)
    }

    fn become_image(&mut self, image: &Image<'_>) -> Sys<()> {
        self.count("execve");
        self.pages += u64::from(image.file_pages + image.memory_pages);
        self.find(image.path).map(|_| ())
    }

    fn wait(&mut self) -> Sys<(Pid, Exit)> {
        self.count("wait4");
        if self.ended.is_empty() { Err(Errno::ECHILD) } else { Ok(self.ended.remove(0)) }
    }

    fn query(&mut self, query: Query) -> Sys<()> {
        self.count_all(calls::of_query(query));
        Ok(())
    }

    fn now(&mut self) -> u64 {
        0
    }

    fn sleep(&mut self, _ns: u64) {
        self.count("nanosleep");
    }
}
