//! Single operations of the kernel, each many times in a row, as lmbench measures them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{Start, execute, finish, image, make_program, read_file, start, write_file};
use crate::api::{Fd, Kernel, Open, Program, Signal, SocketKind, Sys};
use crate::jobs::{JobError, call, check, write_all};

/// Bytes of a page, the granularity of a program's accesses.
const PAGE: usize = 4096;
/// Bytes of one write of the loops for bandwidths of pipes and sockets.
const PIPED: usize = 64 << 10;
/// Bytes of the larger file that is made and removed.
const SMALL_FILE: u64 = 10 << 10;
/// Bytes of a MB, as lmbench counts them.
const MB: f64 = 1_048_576.0;

/// A suite of loops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loops {
    /// Times that the whole suite is run.
    #[schemars(range(min = 1, max = 1000))]
    pub rounds: u32,
    /// Bytes of the file that is read again and again.
    pub file_bytes: u64,
    /// The program that some of them start.
    pub program: Start,
    /// The operations, in sequence.
    pub operations: Vec<Loop>,
}

/// One operation, and how often it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// The operation.
    pub call: Operation,
    /// Times in a row.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub times: u32,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `getpid`.
    Null,
    /// `read` of a byte.
    Read,
    /// `write` of a byte.
    Write,
    /// `stat` of a file.
    Stat,
    /// `open` and `close` of a file.
    Open,
    /// A handler for a signal.
    SignalInstall,
    /// A signal to oneself, which is caught.
    SignalCatch,
    /// A child that exits immediately.
    Fork,
    /// A child that becomes a program. On this machine it only continues as one.
    Exec,
    /// A child that becomes a shell with a script.
    Shell,
    /// A switch to another process: a byte there and back through two pipes, without the same calls
    /// by one process, per direction.
    ContextSwitch,
    /// A byte to another process and one back, through two pipes.
    PipeLatency,
    /// The same through two pairs of Unix sockets.
    SocketLatency,
    /// The same over UDP, to this machine.
    UdpLatency,
    /// The same over TCP, to this machine.
    TcpLatency,
    /// Two TCP sockets made, connected to each other and closed.
    Connect,
    /// 64 KiB to another process through a pipe.
    PipeBandwidth,
    /// The same through a pair of Unix sockets.
    SocketBandwidth,
    /// The same over TCP, to this machine.
    TcpBandwidth,
    /// A page of memory touched for the first time.
    Fault,
    /// An empty file made and removed.
    CreateDelete,
    /// A file of 10 KiB made and removed.
    CreateDelete10k,
    /// The file read to its end, from memory.
    Reread,
}

impl Operation {
    /// The name of its figure in reports, with the unit: microseconds of one, or MB per second.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Null => "null_us",
            Self::Read => "read_us",
            Self::Write => "write_us",
            Self::Stat => "stat_us",
            Self::Open => "open_us",
            Self::SignalInstall => "signal_install_us",
            Self::SignalCatch => "signal_catch_us",
            Self::Fork => "fork_us",
            Self::Exec => "exec_us",
            Self::Shell => "shell_us",
            Self::ContextSwitch => "context_switch_us",
            Self::PipeLatency => "pipe_us",
            Self::SocketLatency => "socket_us",
            Self::UdpLatency => "udp_us",
            Self::TcpLatency => "tcp_us",
            Self::Connect => "connect_us",
            Self::PipeBandwidth => "pipe_mb_s",
            Self::SocketBandwidth => "socket_mb_s",
            Self::TcpBandwidth => "tcp_mb_s",
            Self::Fault => "fault_us",
            Self::CreateDelete => "create_delete_us",
            Self::CreateDelete10k => "create_delete_10k_us",
            Self::Reread => "reread_mb_s",
        }
    }

    /// The figure of an operation that takes `ns`, on a file of `file_bytes`.
    fn figure(self, ns: f64, file_bytes: u64) -> f64 {
        let bytes = match self {
            Self::PipeBandwidth | Self::SocketBandwidth | Self::TcpBandwidth => PIPED as u64,
            Self::Reread => file_bytes,
            _ => return ns / 1e3,
        };
        bytes as f64 / MB / (ns / 1e9)
    }
}

impl Loops {
    /// Makes its files in `directory`.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        make_program(k, directory, "hello", self.program)?;
        write_file(k, &format!("{directory}/file"), self.file_bytes)
    }

    /// Runs each loop in a process, which measures it as lmbench does: without its own start.
    /// Returns the key and the figure of each, of the last round.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn run<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
    ) -> Result<Vec<(&'static str, f64)>, JobError> {
        let mut figures = Vec::new();
        let (result, report) = call("pipe", k.pipe())?;
        for _ in 0..self.rounds {
            figures.clear();
            for &each in &self.operations {
                let (this, directory) = (self.clone(), directory.to_owned());
                start(k, move |k| {
                    execute(k, &image(&directory, "hello", this.program))?;
                    let ns = this.one(k, &directory, each)?;
                    write_all(k, report, &ns.to_le_bytes())
                })?;
                finish(k)?;
                let mut ns = [0; 8];
                call("read", k.read(result, &mut ns))?;
                let ns = u64::from_le_bytes(ns) as f64 / f64::from(each.times);
                figures.push((each.call.key(), each.call.figure(ns, self.file_bytes)));
            }
        }
        [result, report].into_iter().try_for_each(|fd| call("close", k.close(fd)))?;
        Ok(figures)
    }

    /// One of the loops: its time, nanoseconds.
    fn one<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        Loop { call: operation, times }: Loop,
    ) -> Result<u64, JobError> {
        match operation {
            Operation::PipeLatency => return ping_pong(k, K::pipe, times),
            Operation::SocketLatency => return ping_pong(k, unix, times),
            Operation::UdpLatency => return ping_pong(k, udp, times),
            Operation::TcpLatency => return ping_pong(k, tcp, times),
            Operation::ContextSwitch => return context_switch(k, times),
            Operation::PipeBandwidth => return through(k, K::pipe, times),
            Operation::SocketBandwidth => return through(k, unix, times),
            Operation::TcpBandwidth => return through(k, tcp, times),
            Operation::Fault => {
                let bytes = times as usize * PAGE;
                call("sbrk", k.sbrk(bytes as isize))?;
                let begin = k.now();
                call("touch", k.touch_heap(bytes, PAGE))?;
                return Ok(k.now() - begin);
            }
            Operation::SignalCatch => call("sigaction", k.catch(Signal::Usr2))?,
            _ => {}
        }
        let null = call("open", k.open("/dev/null", Open::READ_WRITE))?;
        let file = format!("{directory}/file");
        let begin = k.now();
        (0..times).try_for_each(|_| self.once(k, directory, operation, null, &file))?;
        let ns = k.now() - begin;
        let lost = operation == Operation::SignalCatch && k.caught() != u64::from(times);
        check(!lost, "a signal was not caught")?;
        call("close", k.close(null))?;
        Ok(ns)
    }

    /// One operation of a loop that has `/dev/null` open.
    fn once<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        operation: Operation,
        null: Fd,
        file: &str,
    ) -> Result<(), JobError> {
        match operation {
            Operation::Null => {
                k.pid();
                Ok(())
            }
            Operation::Read => call("read", k.read(null, &mut [0])).map(|_| ()),
            Operation::Write => write_all(k, null, &[0]),
            Operation::Stat => call("stat", k.stat(file)).map(|_| ()),
            Operation::Open => {
                let fd = call("open", k.open(file, Open::READ))?;
                call("close", k.close(fd))
            }
            Operation::SignalInstall => call("sigaction", k.catch(Signal::Usr2)),
            Operation::SignalCatch => {
                let own = k.pid();
                call("kill", k.kill(own, Signal::Usr2))
            }
            Operation::Fork => {
                start(k, |_| Ok(()))?;
                finish(k)
            }
            Operation::Exec => {
                let program = image(directory, "hello", self.program);
                start(k, move |k| execute(k, &program))?;
                finish(k)
            }
            Operation::Shell => {
                let directory = directory.to_owned();
                start(k, move |k| {
                    let errno = k.exec(Program::True, &directory);
                    Err(JobError::Call { call: "execve", errno })
                })?;
                finish(k)
            }
            Operation::CreateDelete | Operation::CreateDelete10k => {
                let path = format!("{directory}/new");
                let large = operation == Operation::CreateDelete10k;
                write_file(k, &path, if large { SMALL_FILE } else { 0 })?;
                call("unlink", k.unlink(&path))
            }
            Operation::Reread => read_file(k, file),
            Operation::Connect => {
                let (client, server) = call("socket", tcp(k))?;
                call("close", k.close(client))?;
                call("close", k.close(server))
            }
            Operation::ContextSwitch
            | Operation::PipeLatency
            | Operation::SocketLatency
            | Operation::UdpLatency
            | Operation::TcpLatency
            | Operation::PipeBandwidth
            | Operation::SocketBandwidth
            | Operation::TcpBandwidth
            | Operation::Fault => unreachable!("no loop that has /dev/null open"),
        }
    }
}

/// A pair of connected Unix sockets, of which one direction is used.
fn unix<K: Kernel>(k: &mut K) -> Sys<(Fd, Fd)> {
    k.sockets(SocketKind::UnixStream)
}

/// The same over UDP.
fn udp<K: Kernel>(k: &mut K) -> Sys<(Fd, Fd)> {
    k.sockets(SocketKind::Udp)
}

/// The same over TCP.
fn tcp<K: Kernel>(k: &mut K) -> Sys<(Fd, Fd)> {
    k.sockets(SocketKind::Tcp)
}

/// A byte there and back, `times` times, through two channels: nanoseconds.
fn ping_pong<K: Kernel>(
    k: &mut K,
    channel: fn(&mut K) -> Sys<(Fd, Fd)>,
    times: u32,
) -> Result<u64, JobError> {
    let (from_parent, to_child) = call("channel", channel(k))?;
    let (from_child, to_parent) = call("channel", channel(k))?;
    start(k, move |k| {
        for _ in 0..times {
            call("read", k.read(from_parent, &mut [0]))?;
            write_all(k, to_parent, &[0])?;
        }
        Ok(())
    })?;
    let begin = k.now();
    for _ in 0..times {
        write_all(k, to_child, &[0])?;
        call("read", k.read(from_child, &mut [0]))?;
    }
    let ns = k.now() - begin;
    finish(k)?;
    [from_parent, to_child, from_child, to_parent]
        .into_iter()
        .try_for_each(|fd| call("close", k.close(fd)))?;
    Ok(ns)
}

/// Half of `times` round trips, without the calls that they consist of: nanoseconds.
fn context_switch<K: Kernel>(k: &mut K, times: u32) -> Result<u64, JobError> {
    let (from, to) = call("pipe", k.pipe())?;
    let begin = k.now();
    for _ in 0..2 * times {
        write_all(k, to, &[0])?;
        call("read", k.read(from, &mut [0]))?;
    }
    let calls = k.now() - begin;
    [from, to].into_iter().try_for_each(|fd| call("close", k.close(fd)))?;
    Ok(ping_pong(k, K::pipe, times)?.saturating_sub(calls) / 2)
}

/// [`PIPED`] bytes to another process through a channel, `times` times: nanoseconds.
fn through<K: Kernel>(
    k: &mut K,
    channel: fn(&mut K) -> Sys<(Fd, Fd)>,
    times: u32,
) -> Result<u64, JobError> {
    let (source, sink) = call("channel", channel(k))?;
    start(k, move |k| {
        call("close", k.close(sink))?;
        let mut buffer = vec![0; PIPED];
        while call("read", k.read(source, &mut buffer))? > 0 {}
        Ok(())
    })?;
    call("close", k.close(source))?;
    let buffer = vec![b'x'; PIPED];
    let begin = k.now();
    (0..times).try_for_each(|_| write_all(k, sink, &buffer))?;
    let ns = k.now() - begin;
    call("close", k.close(sink))?;
    finish(k)?;
    Ok(ns)
}
