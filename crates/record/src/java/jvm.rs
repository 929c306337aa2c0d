//! Thread dumps of a running `HotSpot` process, by the protocol of `jcmd` and `jstack`.
//!
//! A Java virtual machine opens its socket when it receives SIGQUIT and finds a file of a certain
//! name. Without the file it prints a dump on the program's standard output, and without a handler
//! the signal ends the process. So everything is checked first.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid};
use rustix::process::{geteuid, pidfd_open, pidfd_send_signal};

use crate::java::perf_data::PerfData;
use crate::launch::directory::{open_directory, open_file};

/// Why there is no dump.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// It is no Java process, or has ended.
    Java,
    /// It is still starting, or another tool is attaching to it.
    Yet(&'static str),
    /// It must not be asked.
    Never(String),
}

/// A Java virtual machine that can be asked for dumps.
#[derive(Debug)]
pub(crate) struct Jvm {
    pid: u32,
    status: Status,
    /// The directory of its socket: `/tmp`, as the process sees it.
    directory: OwnedFd,
    data: File,
    process: OwnedFd,
    /// The beginning of a request, once the version is known.
    begin: Option<&'static str>,
}

/// Maximum number of threads of a process that is dumped: 0.1 ms for each, with deep stacks.
const THREADS: u64 = 500;
const MANY: &str = "it has more than 500 threads, which a dump would stop for long";
/// Maximum size of the memory of a process whose heap is searched for owners of locks, in KiB. The
/// search stops all threads for 2 to 5 ms for each megabyte of objects.
const SMALL: u64 = 24 << 10;
/// Maximum size of a dump and of the counters in bytes.
const LONGEST: u64 = 64 << 20;
/// How long the file that explains the signal stays at most. A process that reads the signal later
/// would print a dump.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks for the socket.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Requests of version 1, and of version 2 with an answer that is complete before it is sent.
/// Otherwise newer machines keep all threads stopped until the answer has been read.
const PLAIN: &str = "1\0threaddump\0";
const BUFFERED: &str = "threaddump streaming=0\0";

impl Jvm {
    /// Checks that the process is a Java virtual machine that handles the signal.
    pub(crate) fn find(pid: u32) -> Result<Self, No> {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let maps = file("maps").map_err(|_| No::Java)?;
        if !maps.lines().any(|line| line.ends_with("/libjvm.so")) {
            return Err(No::Java);
        }
        let own = geteuid();
        let status = Status::of(pid).ok_or(No::Java)?;
        if status.uid != own.as_raw() && !own.is_root() {
            return Err(never("it belongs to another user"));
        }
        if !status.handles_quit {
            return Err(No::Yet("it does not handle SIGQUIT (-Xrs)"));
        }
        if status.threads > THREADS {
            return Err(never(MANY));
        }
        let root = format!("/proc/{pid}/root");
        let number = format!("/{}", status.inner);
        let is_data = |line: &&str| line.contains("/hsperfdata_") && line.ends_with(&number);
        let path = maps.lines().find(is_data).and_then(|line| Some(&line[line.find('/')?..]));
        let path = path.ok_or(No::Yet(
            "it publishes no counters (-XX:-UsePerfData, or a user without a name)",
        ))?;
        let data = open_file(Path::new(&(root.clone() + path)));
        let is_its = |data: &File| data.metadata().is_ok_and(|found| found.uid() == status.uid);
        let data = data.filter(is_its).ok_or_else(|| never("its counters cannot be read"))?;
        permits(&counters(&data).ok_or(No::Yet("it is starting"))?)?;
        let directory = open_directory(Path::new(&(root + "/tmp")));
        let directory = directory.map_err(|_| never("its /tmp cannot be opened"))?;
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(No::Java)?;
        let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|_| No::Java)?;
        Ok(Self { pid, status, directory, data, process, begin: None })
    }

    /// Returns the expected time for which a dump stops the threads, in seconds.
    pub(crate) fn expected_s(&self) -> f64 {
        1e-4 * self.status.threads as f64
    }

    /// Takes a dump. Returns the text, and the time for which threads were stopped in seconds.
    pub(crate) fn dump(&mut self) -> Result<(String, f64), No> {
        self.status = Status::of(self.pid).ok_or(No::Java)?;
        if self.status.threads > THREADS {
            return Err(never(MANY));
        }
        self.open()?;
        let begin = match self.begin {
            Some(begin) => begin,
            None => self.version()?,
        };
        self.begin = Some(begin);
        let argument = if self.status.memory_kib <= SMALL { "-l" } else { "" };
        let words = format!("{begin}{argument}\0\0\0");
        let request = if begin == PLAIN { words } else { format!("2\0{}\0{words}", words.len()) };
        let (before, start) = (counters(&self.data), Instant::now());
        let text = self.ask(&request)?;
        let took_s = start.elapsed().as_secs_f64();
        let stopped = |data: &Option<PerfData>| data.as_ref()?.stopped_s();
        let stopped_s = stopped(&counters(&self.data)).zip(stopped(&before));
        let text = text.strip_prefix("0\n").ok_or_else(|| never("it refused a thread dump"))?;
        Ok((text.to_owned(), stopped_s.map_or(took_s, |(after, before)| after - before)))
    }

    /// Returns the request for dumps that this machine understands.
    fn version(&self) -> Result<&'static str, No> {
        let answer = self.ask("1\0getversion\0options\0\0\0")?;
        let is_newer = answer.starts_with("0\n2") && answer.contains("streaming");
        Ok(if is_newer { BUFFERED } else { PLAIN })
    }

    fn socket(&self) -> String {
        format!(".java_pid{}", self.status.inner)
    }

    /// Returns whether the socket of the machine exists.
    fn is_open(&self) -> bool {
        let found = sys::statat(&self.directory, self.socket(), AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::Socket
                && found.st_uid == self.status.uid
        })
    }

    /// Makes the machine open its socket.
    fn open(&self) -> Result<(), No> {
        if self.is_open() {
            return Ok(());
        }
        if !self.status.handles_quit || self.status.is_stopped {
            return Err(No::Yet("it is stopped, or does not handle SIGQUIT"));
        }
        let _explains = Explains::new(&self.directory, &self.status)?;
        pidfd_send_signal(&self.process, Signal::QUIT).map_err(|_| No::Java)?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.is_open() {
                return Ok(());
            }
            let mut ends = [PollFd::new(&self.process, PollFlags::IN)];
            if poll(&mut ends, Some(&POLL)).is_ok_and(|count| count > 0) {
                return Err(No::Java);
            }
        }
        Err(never("it did not answer for 10 s"))
    }

    /// Sends a request and returns the answer.
    fn ask(&self, request: &str) -> Result<String, No> {
        // A path by the open directory cannot lead elsewhere, and fits into an address.
        let path = format!("/proc/self/fd/{}/{}", self.directory.as_raw_fd(), self.socket());
        let mut stream = UnixStream::connect(path).map_err(|_| never("its socket is closed"))?;
        let peer = rustix::net::sockopt::socket_peercred(&stream);
        if !peer.is_ok_and(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs() == self.pid) {
            return Err(never("its socket belongs to another process"));
        }
        let mut answer = Vec::new();
        let timed = stream.set_read_timeout(Some(PATIENCE));
        let sent = timed.and_then(|()| stream.write_all(request.as_bytes()));
        let read = sent.and_then(|()| stream.take(LONGEST).read_to_end(&mut answer));
        match read {
            Ok(length) if length > 0 => Ok(String::from_utf8_lossy(&answer).into_owned()),
            _ if !Path::new(&format!("/proc/{}", self.pid)).exists() => Err(No::Java),
            _ => Err(never("it did not answer")),
        }
    }
}

fn never(reason: &str) -> No {
    No::Never(reason.to_owned())
}

fn counters(data: &File) -> Option<PerfData> {
    let length = data.metadata().ok()?.len().min(LONGEST);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    data.read_exact_at(&mut bytes, 0).ok()?;
    PerfData::parse(&bytes)
}

/// Returns whether the machine has started and lets other processes attach.
fn permits(data: &PerfData) -> Result<(), No> {
    let arguments = [data.text("java.rt.vmArgs"), data.text("java.rt.vmFlags")];
    let has =
        |flag: &str| arguments.iter().any(|text| text.split_whitespace().any(|word| word == flag));
    if has("-Xrs") || has("-XX:+ReduceSignalUsage") {
        return Err(never("it was started with -Xrs"));
    }
    let capabilities = data.text("sun.rt.jvmCapabilities");
    if data.number("sun.rt.createVmEndTime").is_none_or(|time| time <= 0) || capabilities.is_empty()
    {
        return Err(No::Yet("it is starting"));
    }
    if !capabilities.starts_with('1') || has("-XX:+DisableAttachMechanism") {
        return Err(never("it was started with -XX:+DisableAttachMechanism"));
    }
    Ok(())
}

/// Fields of `/proc/PID/status`.
#[derive(Debug)]
struct Status {
    /// Process ID in its own namespace.
    inner: u32,
    uid: u32,
    gid: u32,
    threads: u64,
    /// Private memory in use, in KiB.
    memory_kib: u64,
    handles_quit: bool,
    is_stopped: bool,
}

impl Status {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim())
        };
        // Real, effective, saved, and of the file system.
        let effective = |name: &str| field(name)?.split_whitespace().nth(1)?.parse().ok();
        let caught = u64::from_str_radix(field("SigCgt")?, 16).ok()?;
        let memory = field("RssAnon")?.split(' ').next()?;
        Some(Self {
            inner: field("NSpid")?.split_whitespace().next_back()?.parse().ok()?,
            uid: effective("Uid")?,
            gid: effective("Gid")?,
            threads: field("Threads")?.parse().ok()?,
            memory_kib: memory.parse().ok()?,
            handles_quit: caught & (1 << (Signal::QUIT.as_raw() - 1)) != 0,
            is_stopped: field("State")?.starts_with(['T', 't', 'Z', 'X']),
        })
    }
}

/// The file that tells a machine to open its socket. It is removed when dropped.
struct Explains<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl<'a> Explains<'a> {
    fn new(directory: &'a OwnedFd, status: &Status) -> Result<Self, No> {
        let name = format!(".attach_pid{}", status.inner);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = sys::openat(directory, &name, flags | OFlags::NOFOLLOW, Mode::RUSR);
        let file = file.map_err(|error| match error {
            rustix::io::Errno::EXIST => No::Yet("another tool is attaching to it"),
            _ => never("its /tmp cannot be written"),
        })?;
        let found = Self { directory, name };
        // The machine accepts a file of its own user only.
        if geteuid().as_raw() != status.uid {
            let owner = (Uid::from_raw(status.uid), Gid::from_raw(status.gid));
            sys::fchown(&file, Some(owner.0), Some(owner.1))
                .map_err(|_| never("its /tmp cannot be written"))?;
        }
        Ok(found)
    }
}

impl Drop for Explains<'_> {
    fn drop(&mut self) {
        let _removed_already = sys::unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}
