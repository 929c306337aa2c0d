//! The system calls a job may make: one trait, two kernels.
//!
//! A job is written once against [`Kernel`]. The host target (crate `convoy-host`) makes real
//! system calls in real processes; the virtual target (crate `convoy-kernel`) runs the paths of the
//! kernel that a preset names, on the virtual machine. The only state of a job is its arguments and
//! its kernel objects.

use crate::errno::Errno;

/// Result of a system call.
pub type Sys<T> = Result<T, Errno>;
/// File descriptor.
pub type Fd = i32;
/// Process id.
pub type Pid = i32;

/// Flags of [`Kernel::open`]; a plain set of booleans so that both kernels translate it once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are the independent bits of open(2)")]
pub struct Open {
    /// `O_WRONLY`/`O_RDWR` as opposed to `O_RDONLY`.
    pub write: bool,
    /// `O_RDWR`/`O_RDONLY` as opposed to `O_WRONLY`.
    pub read: bool,
    /// `O_CREAT`.
    pub create: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
    /// `O_EXCL`.
    pub exclusive: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_DIRECT`.
    pub direct: bool,
}

impl Open {
    /// `O_RDONLY`.
    pub const READ: Self = Self {
        write: false,
        read: true,
        create: false,
        truncate: false,
        exclusive: false,
        sync: false,
        direct: false,
    };
    /// `O_WRONLY`.
    pub const WRITE: Self = Self { write: true, read: false, ..Self::READ };
    /// `O_RDWR`.
    pub const READ_WRITE: Self = Self { write: true, ..Self::READ };
    /// `O_WRONLY|O_CREAT|O_TRUNC`, what `creat` does.
    pub const CREAT: Self = Self { create: true, truncate: true, ..Self::WRITE };

    /// The same flags and `O_SYNC`.
    #[must_use]
    pub const fn synchronous(self) -> Self {
        Self { sync: true, ..self }
    }

    /// The same flags and `O_DIRECT`.
    #[must_use]
    pub const fn direct(self) -> Self {
        Self { direct: true, ..self }
    }
}

/// Result of [`Kernel::stat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes.
    pub size: u64,
    /// Number of names.
    pub links: u32,
    /// Whether it is a directory.
    pub directory: bool,
}

/// The socket pairs the mixes use; both ends live in the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// TCP over loopback: listen on port 0, connect, accept, `TCP_NODELAY` on both.
    Tcp,
    /// UDP over loopback, two bound sockets connected to each other.
    Udp,
    /// `socketpair(AF_UNIX, SOCK_STREAM)`.
    UnixStream,
    /// `socketpair(AF_UNIX, SOCK_DGRAM)`.
    UnixDatagram,
}

/// The signals the jobs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGUSR2`, caught by a counting handler.
    Usr2,
    /// `SIGTERM`, default action.
    Term,
    /// `SIGKILL`.
    Kill,
}

impl Signal {
    /// Its number on Linux.
    pub const fn number(self) -> u32 {
        match self {
            Self::Kill => 9,
            Self::Usr2 => 12,
            Self::Term => 15,
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It called `_exit` with this code.
    Code(i32),
    /// This signal number ended it.
    Signal(i32),
}

/// The programs a job may run. Each kernel knows where its image is: the host has fixtures in the
/// work directory, the virtual kernel has their system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A shell script that does nothing and is found by its `#!` line: `exec_test` of 1996 runs
    /// five of them.
    True,
    /// A script that runs `ls -l DIRECTORY > /dev/null`: `exec_test` of re-aim runs five of them.
    List,
    /// `system("script DIRECTORY")` with that script: the shell jobs.
    SystemList,
}

/// A program of a workload, see [`Kernel::become_image`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Its file.
    pub path: &'a str,
    /// Pages of files that its start touches.
    pub file_pages: u32,
    /// Pages of memory that it writes until then.
    pub memory_pages: u32,
}

/// Identity queries of `misc_rtns_1`, each one library call of the original job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `getcwd`.
    WorkingDirectory,
    /// `getuid`, `geteuid`, `getgid`, `getegid`, `getgroups`, `getpid`, `getppid`, `getpgrp`.
    Ids,
    /// `getpwnam`, `getpwuid`, `getgrgid`: the user database.
    UserDatabase,
    /// `times`, `uname`.
    System,
    /// `isatty(0)` and `ttyname(0)`.
    Terminal,
}

/// What [`Kernel::command`] runs.
#[derive(Clone, Copy, Debug)]
pub struct ShellLine<'a> {
    /// The shell's input.
    pub line: &'a str,
    /// Where it starts.
    pub directory: &'a str,
    /// Which user runs it, from 0.
    pub user: u32,
    /// How long it may take, seconds.
    pub timeout_s: u32,
}

/// What [`Kernel::asynchronous`] moves.
#[derive(Clone, Copy, Debug)]
pub struct Transfers<'a> {
    /// Where in the file, one for each transfer.
    pub offsets: &'a [u64],
    /// Bytes of each.
    pub bytes: usize,
    /// To the file, as opposed to from it.
    pub write: bool,
    /// Transfers in flight at most, at least 1.
    pub depth: usize,
}

/// A kernel as a job sees it. One value per process; after [`Kernel::fork`] the child has its own.
///
/// Errors are [`Errno`]s of the call's manual page. Buffers are real on both kernels; the virtual
/// one keeps lengths exactly and bytes as its documentation says.
pub trait Kernel: Sized {
    /// User-mode work. The host runs `body`; the virtual kernel charges the calibrated cost of
    /// `count` units called `unit` to the task instead, at the speed of its machine. `unit` must be
    /// an entry of the calibration.
    fn user(&mut self, unit: &'static str, count: u64, body: impl FnOnce());

    /// `open`.
    fn open(&mut self, path: &str, flags: Open) -> Sys<Fd>;
    /// `close`.
    fn close(&mut self, fd: Fd) -> Sys<()>;
    /// `read`; 0 is end of file.
    fn read(&mut self, fd: Fd, buffer: &mut [u8]) -> Sys<usize>;
    /// `write`.
    fn write(&mut self, fd: Fd, buffer: &[u8]) -> Sys<usize>;
    /// `lseek(fd, offset, SEEK_SET)`.
    fn seek(&mut self, fd: Fd, offset: u64) -> Sys<u64>;
    /// `link`.
    fn link(&mut self, old: &str, new: &str) -> Sys<()>;
    /// `symlink`: `path` leads to `target`, which need not exist.
    fn symlink(&mut self, target: &str, path: &str) -> Sys<()>;
    /// `rename`.
    fn rename(&mut self, old: &str, new: &str) -> Sys<()>;
    /// `unlink`.
    fn unlink(&mut self, path: &str) -> Sys<()>;
    /// `stat`.
    fn stat(&mut self, path: &str) -> Sys<Stat>;
    /// `mkdir`.
    fn mkdir(&mut self, path: &str) -> Sys<()>;
    /// `rmdir`.
    fn rmdir(&mut self, path: &str) -> Sys<()>;
    /// `chdir`.
    fn chdir(&mut self, path: &str) -> Sys<()>;
    /// `getdents` on an open directory: fills one library buffer (32 KiB), returns the number of
    /// entries, 0 at end.
    fn read_directory(&mut self, fd: Fd) -> Sys<usize>;
    /// `fsync` of a file and `posix_fadvise(POSIX_FADV_DONTNEED)`: drops the cached pages, so that
    /// the next read is from the disk. Files of a memory file system stay.
    fn forget(&mut self, path: &str) -> Sys<()>;
    /// `sync`.
    fn sync(&mut self) -> Sys<()>;

    /// Makes all transfers, in any order and several at a time; waits for all. Contents do not
    /// matter. `ENOSYS` where there is no asynchronous I/O, as on the virtual kernels.
    fn asynchronous(&mut self, fd: Fd, transfers: &Transfers<'_>) -> Sys<()>;

    /// `pipe`: (read end, write end).
    fn pipe(&mut self) -> Sys<(Fd, Fd)>;
    /// `mkfifo`.
    fn make_fifo(&mut self, path: &str) -> Sys<()>;
    /// Opens both ends of the fifo at `path` in this process: the read end with `O_NONBLOCK`, which
    /// needs no writer, then the write end; `O_NONBLOCK` is cleared. (read end, write end).
    fn open_fifo(&mut self, path: &str) -> Sys<(Fd, Fd)>;
    /// A connected pair of sockets, see [`SocketKind`].
    fn sockets(&mut self, kind: SocketKind) -> Sys<(Fd, Fd)>;

    /// `shmget` of a new segment under a key of the process, and `shmat`: returns the id.
    fn shm_create(&mut self, bytes: usize) -> Sys<i32>;
    /// The user program copies `bytes` in or out of the attached segment, at `offset`.
    fn shm_copy(&mut self, id: i32, offset: usize, bytes: usize, write: bool) -> Sys<()>;
    /// `shmdt` and `shmctl(IPC_RMID)`.
    fn shm_remove(&mut self, id: i32) -> Sys<()>;
    /// `semget` of one new semaphore under a key of the process, and `semctl(SETVAL)`.
    fn sem_create(&mut self, value: i32) -> Sys<i32>;
    /// `semop` with one operation that adds `delta`; waits while the value would become negative.
    fn sem_op(&mut self, id: i32, delta: i32) -> Sys<()>;
    /// `semctl(IPC_RMID)`.
    fn sem_remove(&mut self, id: i32) -> Sys<()>;

    /// `sbrk(delta)`, bytes; negative shrinks.
    fn sbrk(&mut self, delta: isize) -> Sys<()>;
    /// The user program writes one byte every `stride` bytes over the `bytes` at the end of the
    /// heap.
    fn touch_heap(&mut self, bytes: usize, stride: usize) -> Sys<()>;

    /// `getpid`.
    fn pid(&mut self) -> Pid;
    /// `kill`.
    fn kill(&mut self, pid: Pid, signal: Signal) -> Sys<()>;
    /// `signal(signal, counting handler)`; the count starts at 0. As in 1996 the handler installs
    /// itself again with `signal`: each delivery is a `rt_sigaction` and a `rt_sigreturn` more.
    fn catch(&mut self, signal: Signal) -> Sys<()>;
    /// How often the handler of [`Kernel::catch`] has run in this process.
    fn caught(&mut self) -> u64;

    /// `fork`; the child runs `child` and exits with its result.
    fn fork(&mut self, child: impl FnOnce(&mut Self) -> i32 + 'static) -> Sys<Pid>;
    /// `execve`; returns only on failure. `argument` is the directory of the
    /// scripts that list one.
    fn exec(&mut self, program: Program, argument: &str) -> Errno;
    /// `execve` of a program that is a description instead of an image: the calling code continues
    /// as that program, with an empty heap. On the host, where it already has an image, it just
    /// continues.
    fn become_image(&mut self, _image: &Image<'_>) -> Sys<()> {
        Ok(())
    }
    /// `wait`: the next child that ended; `ECHILD` when there is none.
    fn wait(&mut self) -> Sys<(Pid, Exit)>;

    /// Lets `/bin/sh` run a line with the user's number, from 1, in `CONVOY_USER` and without
    /// standard input and output, waits for its end, and ends whatever it started and left
    /// behind. `None`: its time was over. `ENOSYS` where no programs exist, as on the virtual
    /// kernels.
    fn command(&mut self, _line: &ShellLine<'_>) -> Sys<Option<Exit>> {
        Err(Errno::ENOSYS)
    }

    /// The calls behind one library query.
    fn query(&mut self, query: Query) -> Sys<()>;

    /// Monotonic time in nanoseconds; virtual time on the virtual kernel.
    fn now(&mut self) -> u64;
    /// Sleeps for `ns` nanoseconds.
    fn sleep(&mut self, ns: u64);
}
