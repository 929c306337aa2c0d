//! Single operations of the kernel, each many times in a row, as lmbench measures them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{Start, execute, finish, image, make_program, read_file, start, write_file};
use crate::api::{Fd, Kernel, Open, Signal};
use crate::jobs::{JobError, call, check, write_all};

/// Bytes of a page, the granularity of a program's accesses.
const PAGE: usize = 4096;
/// Bytes of one write of the loop for the bandwidth of a pipe.
const PIPED: usize = 64 << 10;

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
    /// A child that becomes a program.
    Exec,
    /// A byte to another process and one back, through two pipes.
    PipeLatency,
    /// 64 KiB to another process through a pipe.
    PipeBandwidth,
    /// A page of memory touched for the first time.
    Fault,
    /// An empty file made and removed.
    CreateDelete,
    /// The file read to its end, from memory.
    Reread,
}

impl Loops {
    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        make_program(k, directory, "hello", self.program)?;
        write_file(k, &format!("{directory}/file"), self.file_bytes)
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        for _ in 0..self.rounds {
            for &each in &self.operations {
                // Each is a program of its own.
                let (this, directory) = (self.clone(), directory.to_owned());
                start(k, move |k| {
                    execute(k, &image(&directory, "hello", this.program))?;
                    this.one(k, &directory, each)
                })?;
                finish(k)?;
            }
        }
        Ok(())
    }

    /// One of the loops.
    fn one<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        Loop { call: operation, times }: Loop,
    ) -> Result<(), JobError> {
        match operation {
            Operation::PipeLatency => return ping_pong(k, times),
            Operation::PipeBandwidth => return through_a_pipe(k, times),
            Operation::Fault => {
                let bytes = times as usize * PAGE;
                call("sbrk", k.sbrk(bytes as isize))?;
                return call("touch", k.touch_heap(bytes, PAGE));
            }
            Operation::SignalCatch => call("sigaction", k.catch(Signal::Usr2))?,
            _ => {}
        }
        let null = call("open", k.open("/dev/null", Open::READ_WRITE))?;
        let file = format!("{directory}/file");
        (0..times).try_for_each(|_| self.once(k, directory, operation, null, &file))?;
        let lost = operation == Operation::SignalCatch && k.caught() != u64::from(times);
        check(!lost, "a signal was not caught")?;
        call("close", k.close(null))
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
            Operation::CreateDelete => {
                let path = format!("{directory}/new");
                write_file(k, &path, 0)?;
                call("unlink", k.unlink(&path))
            }
            Operation::Reread => read_file(k, file),
            Operation::PipeLatency | Operation::PipeBandwidth | Operation::Fault => {
                unreachable!("no loop that has /dev/null open")
            }
        }
    }
}

/// A byte there and back, `times` times.
fn ping_pong<K: Kernel>(k: &mut K, times: u32) -> Result<(), JobError> {
    let (from_parent, to_child) = call("pipe", k.pipe())?;
    let (from_child, to_parent) = call("pipe", k.pipe())?;
    start(k, move |k| {
        for _ in 0..times {
            call("read", k.read(from_parent, &mut [0]))?;
            write_all(k, to_parent, &[0])?;
        }
        Ok(())
    })?;
    for _ in 0..times {
        write_all(k, to_child, &[0])?;
        call("read", k.read(from_child, &mut [0]))?;
    }
    finish(k)?;
    [from_parent, to_child, from_child, to_parent]
        .into_iter()
        .try_for_each(|fd| call("close", k.close(fd)))
}

/// [`PIPED`] bytes to another process, `times` times.
fn through_a_pipe<K: Kernel>(k: &mut K, times: u32) -> Result<(), JobError> {
    let (from, to) = call("pipe", k.pipe())?;
    start(k, move |k| {
        call("close", k.close(to))?;
        let mut buffer = vec![0; PIPED];
        while call("read", k.read(from, &mut buffer))? > 0 {}
        Ok(())
    })?;
    call("close", k.close(from))?;
    let buffer = vec![b'x'; PIPED];
    (0..times).try_for_each(|_| write_all(k, to, &buffer))?;
    call("close", k.close(to))?;
    finish(k)
}
