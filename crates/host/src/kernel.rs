//! The [`Kernel`] of this machine: every method is the real system call.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use convoy_workload::Errno;
use convoy_workload::api::{
    Exit, Fd, Kernel, Open, Pid, Program, Query, ShellLine, Signal, SocketKind, Stat, Sys,
    Transfers,
};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use super::board::Board;
use super::family;
use super::inject::{Armed, Fault};
use super::sys::{self, Forked, Segment};
use super::workdir;
use convoy_os::clock;
use convoy_workload::jobs::Job;

/// The library's directory buffer, bytes.
const DIRECTORY_BUFFER: usize = 32 << 10;
/// Longest wait for a message over loopback. A datagram may be lost: the job then fails, it does
/// not hang.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Exit code of a forked child that panicked.
const PANICKED: i32 = 101;

/// The host kernel of one process.
#[derive(Debug)]
pub struct Host {
    /// Work directory: the scripts are there.
    directory: String,
    /// Where keys of objects are noted that must not outlive this process, and for which user.
    board: Option<(Rc<Board>, u32)>,
    /// A call that is to fail, to test what follows.
    armed: Option<Armed>,
    /// Open descriptors by number.
    files: Vec<Option<OwnedFd>>,
    segments: BTreeMap<i32, Segment>,
    /// What shared memory is copied to and from.
    copy: Vec<u8>,
    directory_buffer: Vec<MaybeUninit<u8>>,
}

impl Host {
    /// Returns a kernel with the scripts of the work directory `directory` as its programs.
    pub fn new(directory: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            board: None,
            armed: None,
            files: Vec::new(),
            segments: BTreeMap::new(),
            copy: Vec::new(),
            directory_buffer: vec![MaybeUninit::uninit(); DIRECTORY_BUFFER],
        }
    }

    /// The same, for user `user` of a load point.
    pub(crate) fn of_user(directory: &str, board: Rc<Board>, user: u32) -> Self {
        Self { board: Some((board, user)), ..Self::new(directory) }
    }

    /// Lets `fault` happen in its time.
    pub(crate) fn arm(&mut self, fault: Option<Fault>) {
        self.armed = fault.map(Fault::arm);
    }

    /// Notes that a run of `job` begins.
    pub(crate) fn begin(&mut self, job: Job) {
        if let Some(armed) = &mut self.armed {
            armed.begin(job);
        }
    }

    /// The injected error of `call`, if this is its time.
    fn injected(&self, call: &'static str) -> Sys<()> {
        self.armed.as_ref().map_or(Ok(()), |armed| armed.check(call))
    }

    fn keep(&mut self, file: OwnedFd) -> Fd {
        let fd = file.as_raw_fd();
        let index = fd as usize;
        if self.files.len() <= index {
            self.files.resize_with(index + 1, || None);
        }
        self.files[index] = Some(file);
        fd
    }

    fn file(&self, fd: Fd) -> Sys<&OwnedFd> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.files.get(index).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    fn keep_pair(&mut self, pair: (impl Into<OwnedFd>, impl Into<OwnedFd>)) -> (Fd, Fd) {
        (self.keep(pair.0.into()), self.keep(pair.1.into()))
    }

    fn note_segment(&self, key: Option<i32>) {
        if let Some((board, user)) = &self.board {
            board.slot(*user).note_segment(key);
        }
    }

    fn note_semaphore(&self, key: Option<i32>) {
        if let Some((board, user)) = &self.board {
            board.slot(*user).note_semaphore(key);
        }
    }
}

/// The kernel's number of a `rustix` error.
fn sys<T>(result: rustix::io::Result<T>) -> Sys<T> {
    result.map_err(|errno| Errno(errno.raw_os_error()))
}

/// The kernel's number of a `std` error.
fn std_sys<T>(result: std::io::Result<T>) -> Sys<T> {
    result.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::EIO.0)))
}

fn flags_of(open: Open) -> OFlags {
    let mut flags = match (open.read, open.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    flags.set(OFlags::CREATE, open.create);
    flags.set(OFlags::TRUNC, open.truncate);
    flags.set(OFlags::EXCL, open.exclusive);
    flags.set(OFlags::SYNC, open.sync);
    flags.set(OFlags::DIRECT, open.direct);
    // A program that a job executes must not inherit the job's files.
    flags | OFlags::CLOEXEC
}

fn number_of(signal: Signal) -> i32 {
    match signal {
        Signal::Usr2 => libc::SIGUSR2,
        Signal::Term => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    }
}

/// A connected TCP pair over loopback: the read end first.
fn tcp_pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let write_end = TcpStream::connect(listener.local_addr()?)?;
    let (read_end, _) = listener.accept()?;
    for end in [&read_end, &write_end] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    }
    Ok((read_end, write_end))
}

/// A connected UDP pair over loopback.
fn udp_pair() -> std::io::Result<(UdpSocket, UdpSocket)> {
    let read_end = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let write_end = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    read_end.connect(write_end.local_addr()?)?;
    write_end.connect(read_end.local_addr()?)?;
    read_end.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    Ok((read_end, write_end))
}

impl Kernel for Host {
    fn user(&mut self, _unit: &'static str, _count: u64, body: impl FnOnce()) {
        body();
    }

    fn open(&mut self, path: &str, flags: Open) -> Sys<Fd> {
        self.injected("open")?;
        let mode = Mode::from_raw_mode(0o600);
        Ok(self.keep(sys(rustix::fs::open(path, flags_of(flags), mode))?))
    }

    fn close(&mut self, fd: Fd) -> Sys<()> {
        self.file(fd)?;
        drop(self.files[fd as usize].take());
        Ok(())
    }

    fn read(&mut self, fd: Fd, buffer: &mut [u8]) -> Sys<usize> {
        self.injected("read")?;
        sys(rustix::io::read(self.file(fd)?, buffer))
    }

    fn write(&mut self, fd: Fd, buffer: &[u8]) -> Sys<usize> {
        self.injected("write")?;
        sys(rustix::io::write(self.file(fd)?, buffer))
    }

    fn seek(&mut self, fd: Fd, offset: u64) -> Sys<u64> {
        sys(rustix::fs::seek(self.file(fd)?, SeekFrom::Start(offset)))
    }

    fn link(&mut self, old: &str, new: &str) -> Sys<()> {
        self.injected("link")?;
        sys(rustix::fs::link(old, new))
    }

    fn symlink(&mut self, target: &str, path: &str) -> Sys<()> {
        sys(rustix::fs::symlink(target, path))
    }

    fn rename(&mut self, old: &str, new: &str) -> Sys<()> {
        sys(rustix::fs::rename(old, new))
    }

    fn unlink(&mut self, path: &str) -> Sys<()> {
        sys(rustix::fs::unlink(path))
    }

    fn stat(&mut self, path: &str) -> Sys<Stat> {
        let stat = sys(rustix::fs::stat(path))?;
        Ok(Stat {
            size: stat.st_size as u64,
            links: stat.st_nlink as u32,
            directory: rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir(),
        })
    }

    fn mkdir(&mut self, path: &str) -> Sys<()> {
        self.injected("mkdir")?;
        sys(rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)))
    }

    fn rmdir(&mut self, path: &str) -> Sys<()> {
        sys(rustix::fs::rmdir(path))
    }

    fn chdir(&mut self, path: &str) -> Sys<()> {
        sys(rustix::process::chdir(path))
    }

    fn read_directory(&mut self, fd: Fd) -> Sys<usize> {
        let mut buffer = std::mem::take(&mut self.directory_buffer);
        let result = self.file(fd).and_then(|file| {
            let mut directory = RawDir::new(file, &mut buffer);
            let mut entries = 0;
            // The iterator calls `getdents` when its buffer is empty: once, at the first entry.
            while let Some(entry) = directory.next() {
                sys(entry)?;
                entries += 1;
                if directory.is_buffer_empty() {
                    break;
                }
            }
            Ok(entries)
        });
        self.directory_buffer = buffer;
        result
    }

    fn forget(&mut self, path: &str) -> Sys<()> {
        let file = sys(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))?;
        sys(rustix::fs::fsync(&file))?;
        sys(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed))
    }

    fn sync(&mut self) -> Sys<()> {
        rustix::fs::sync();
        Ok(())
    }

    fn asynchronous(&mut self, fd: Fd, transfers: &Transfers<'_>) -> Sys<()> {
        sys::aio::transfer(self.file(fd)?, transfers)
    }

    fn pipe(&mut self) -> Sys<(Fd, Fd)> {
        self.injected("pipe")?;
        let pair = sys(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC))?;
        Ok(self.keep_pair(pair))
    }

    fn make_fifo(&mut self, path: &str) -> Sys<()> {
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600));
        sys(rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0))
    }

    fn open_fifo(&mut self, path: &str) -> Sys<(Fd, Fd)> {
        let open = |flags| sys(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()));
        let read_end = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        let write_end = open(OFlags::WRONLY)?;
        sys(rustix::fs::fcntl_setfl(&read_end, OFlags::empty()))?;
        Ok(self.keep_pair((read_end, write_end)))
    }

    fn sockets(&mut self, kind: SocketKind) -> Sys<(Fd, Fd)> {
        self.injected("socket")?;
        Ok(match kind {
            SocketKind::Tcp => {
                let pair = std_sys(tcp_pair())?;
                self.keep_pair(pair)
            }
            SocketKind::Udp => {
                let pair = std_sys(udp_pair())?;
                self.keep_pair(pair)
            }
            SocketKind::UnixStream => {
                let pair = std_sys(UnixStream::pair())?;
                self.keep_pair(pair)
            }
            SocketKind::UnixDatagram => {
                let pair = std_sys(UnixDatagram::pair())?;
                self.keep_pair(pair)
            }
        })
    }

    fn shm_create(&mut self, bytes: usize) -> Sys<i32> {
        self.injected("shmget")?;
        let segment = Segment::create(bytes, |key| self.note_segment(key))?;
        let id = segment.id();
        self.segments.insert(id, segment);
        Ok(id)
    }

    fn shm_copy(&mut self, id: i32, offset: usize, bytes: usize, write: bool) -> Sys<()> {
        self.copy.resize(bytes, b's');
        self.segments.get(&id).ok_or(Errno::EINVAL)?.copy(offset, &mut self.copy, write)
    }

    fn shm_remove(&mut self, id: i32) -> Sys<()> {
        self.segments.remove(&id).ok_or(Errno::EINVAL)?.remove()?;
        self.note_segment(None);
        Ok(())
    }

    fn sem_create(&mut self, value: i32) -> Sys<i32> {
        self.injected("semget")?;
        sys::create_semaphore(value, |key| self.note_semaphore(key))
    }

    fn sem_op(&mut self, id: i32, delta: i32) -> Sys<()> {
        sys::semaphore_operation(id, delta)
    }

    fn sem_remove(&mut self, id: i32) -> Sys<()> {
        sys::remove_semaphore(id)?;
        self.note_semaphore(None);
        Ok(())
    }

    fn sbrk(&mut self, delta: isize) -> Sys<()> {
        self.injected("sbrk")?;
        sys::sbrk(delta).map(drop)
    }

    fn touch_heap(&mut self, bytes: usize, stride: usize) -> Sys<()> {
        sys::touch_heap(bytes, stride)
    }

    fn pid(&mut self) -> Pid {
        rustix::process::getpid().as_raw_nonzero().get()
    }

    fn kill(&mut self, pid: Pid, signal: Signal) -> Sys<()> {
        sys::kill(pid, number_of(signal))
    }

    fn catch(&mut self, signal: Signal) -> Sys<()> {
        sys::catch(number_of(signal))
    }

    fn caught(&mut self) -> u64 {
        sys::caught()
    }

    fn fork(&mut self, child: impl FnOnce(&mut Self) -> i32 + 'static) -> Sys<Pid> {
        self.injected("fork")?;
        match sys::fork()? {
            Forked::Parent(pid) => Ok(pid),
            Forked::Child => {
                // A panic must not unwind into the copy of the parent's frames.
                let body = std::panic::AssertUnwindSafe(|| child(self));
                sys::exit_now(std::panic::catch_unwind(body).unwrap_or(PANICKED))
            }
        }
    }

    fn exec(&mut self, program: Program, argument: &str) -> Errno {
        let mut command = match program {
            Program::True => Command::new(format!("{}/{}", self.directory, workdir::TRUE_SCRIPT)),
            Program::List => {
                let script = format!("{}/{}", self.directory, workdir::LIST_SCRIPT);
                let mut command = Command::new(script);
                command.arg(argument);
                command
            }
            Program::SystemList => {
                // What `system("script directory")` executes; the names travel as arguments, so no
                // character of them means anything to the shell.
                let mut command = Command::new("/bin/sh");
                let script = format!("{}/{}", self.directory, workdir::LIST_SCRIPT);
                command.args(["-c", "\"$0\" \"$1\"", &script, argument]);
                command
            }
        };
        Errno(command.stderr(Stdio::null()).exec().raw_os_error().unwrap_or(Errno::EINVAL.0))
    }

    fn wait(&mut self) -> Sys<(Pid, Exit)> {
        let ended = sys::wait_any(true)?.ok_or(Errno::ECHILD)?;
        Ok((ended.pid, ended.exit))
    }

    fn command(&mut self, line: &ShellLine<'_>) -> Sys<Option<Exit>> {
        self.injected("fork")?;
        family::run(line)
    }

    fn query(&mut self, query: Query) -> Sys<()> {
        match query {
            Query::WorkingDirectory => {
                sys(rustix::process::getcwd(Vec::new()))?;
            }
            Query::Ids => {
                let _ids = (
                    rustix::process::getuid(),
                    rustix::process::geteuid(),
                    rustix::process::getgid(),
                    rustix::process::getegid(),
                    rustix::process::getpid(),
                    rustix::process::getppid(),
                    sys::process_group(),
                );
                sys::groups()?;
            }
            Query::UserDatabase => sys::user_database(),
            Query::System => {
                sys::times();
                let _uname = rustix::system::uname();
            }
            Query::Terminal => {
                let input = std::io::stdin();
                // Standard input need not be a terminal: the calls are what counts.
                let _terminal = rustix::termios::isatty(&input);
                let _name = rustix::termios::ttyname(&input, Vec::new());
            }
        }
        Ok(())
    }

    fn now(&mut self) -> u64 {
        clock::monotonic_ns()
    }

    fn sleep(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}
