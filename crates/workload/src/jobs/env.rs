//! The environment of a job, its errors, and the calls that most jobs make.

use crate::Errno;
use crate::api::{Exit, Fd, Kernel, Sys};
use crate::dialect::Dialect;

/// Block of the disk jobs, bytes.
pub const BLOCK_BYTES: usize = 1024;

/// The environment of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnv {
    /// Work directory, absolute.
    pub directory: String,
    /// The absolute path of the directory that `dir_rtns_1` and the shell jobs list; the fixture's
    /// if absent.
    pub listed: Option<String>,
    /// The original of the jobs.
    pub dialect: Dialect,
    /// Index of the user, from 0; part of the names of its temporary files.
    pub user: u32,
    /// Size of a user's file and of `tmpa.common`, KB.
    pub file_kb: u64,
    /// Seed of the run; random offsets and shuffles depend on it and on `user`.
    pub seed: u64,
    /// Every loop count is divided by this (and is at least one); 1 is AIM7's size.
    pub shrink: u32,
    /// How long `shell_rtns_2` sleeps, nanoseconds ([`Mix::shell_sleep_ns`](crate::mix::Mix)).
    pub shell_sleep_ns: u64,
    /// Whether the disk jobs call `sync` where re-aim's do without `-y`.
    pub sync: bool,
}

/// The time zone's file of the machine.
const ZONE: &str = "/etc/localtime";

impl JobEnv {
    /// User 0 of 1996 in `directory`, files of `file_kb` KB, full size, seed 1, no sleep, no
    /// `sync`.
    pub fn new(directory: impl Into<String>, file_kb: u64) -> Self {
        Self {
            directory: directory.into(),
            listed: None,
            dialect: Dialect::default(),
            user: 0,
            file_kb,
            seed: 1,
            shrink: 1,
            shell_sleep_ns: 0,
            sync: false,
        }
    }

    /// The path of `name` in the work directory.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The path of the directory that is listed.
    pub fn listed(&self) -> String {
        self.listed.clone().unwrap_or_else(|| self.path("bin"))
    }

    /// The path of the time zone's file: one for the whole machine where there is one `/bin`.
    pub fn zone(&self) -> String {
        if self.listed.is_some() { ZONE.to_owned() } else { self.path("localtime") }
    }

    /// The path of this user's temporary file of the given purpose.
    pub fn own_path(&self, purpose: &str) -> String {
        format!("{}/{purpose}.{}", self.directory, self.user)
    }

    /// The loop count to use where AIM7 has `full`.
    pub fn loops(&self, full: u64) -> u64 {
        (full / u64::from(self.shrink.max(1))).max(1)
    }
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A system call failed.
    #[error("{call}: {errno} ({})", errno.name())]
    Call {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The job cannot run here, for a reason outside of it.
    #[error("not available here: {call}: {errno} ({}); {cure}", errno.name())]
    Unavailable {
        /// The failed call.
        call: &'static str,
        /// Its error.
        errno: Errno,
        /// What to do.
        cure: &'static str,
    },
    /// A result was wrong.
    #[error("wrong result: {what}")]
    Wrong {
        /// The failed check.
        what: &'static str,
    },
    /// A command of the workfile ended with something else than 0.
    #[error("its command ended with {}", ending(*exit))]
    Command {
        /// How it ended.
        exit: Exit,
    },
    /// A command of the workfile did not end in its time, and was killed.
    #[error(
        "its command had not ended after {timeout_s} s; \
         give it longer in the workfile: <weight> <name> <n>s = <command>"
    )]
    Endless {
        /// The time it had, seconds.
        timeout_s: u32,
    },
    /// The unit represents a program's user time and cannot be run by a job.
    #[error("unit {unit} is charged by exec only")]
    NotRunnable {
        /// The unit.
        unit: &'static str,
    },
}

impl JobError {
    /// The system call that failed, if one did.
    pub fn call(&self) -> Option<&'static str> {
        match self {
            Self::Call { call, .. } | Self::Unavailable { call, .. } => Some(call),
            _ => None,
        }
    }

    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Call { errno, .. } | Self::Unavailable { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// How a command ended, in words; the two codes that shells give themselves are explained.
fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(126) => "exit code 126 (it cannot be executed)".to_owned(),
        Exit::Code(127) => "exit code 127 (there is no such command)".to_owned(),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// Adds the name of a system call to its error.
pub(crate) fn call<T>(name: &'static str, result: Sys<T>) -> Result<T, JobError> {
    result.map_err(|errno| JobError::Call { call: name, errno })
}

/// The `sync` of a disk job, where the run has one.
pub(crate) fn sync<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    if env.sync { call("sync", k.sync()) } else { Ok(()) }
}

/// `Ok` if `right`.
pub(crate) fn check(right: bool, what: &'static str) -> Result<(), JobError> {
    if right { Ok(()) } else { Err(JobError::Wrong { what }) }
}

/// Writes all of `buffer`; continues after short writes, and fails if a write makes no progress.
pub(crate) fn write_all<K: Kernel>(k: &mut K, fd: Fd, buffer: &[u8]) -> Result<(), JobError> {
    let mut done = 0;
    while done < buffer.len() {
        let written = call("write", k.write(fd, &buffer[done..]))?;
        check(written > 0, "write made no progress")?;
        done += written;
    }
    Ok(())
}

/// Reads until `buffer` is full; the end of the file before that is wrong.
pub(crate) fn read_all<K: Kernel>(k: &mut K, fd: Fd, buffer: &mut [u8]) -> Result<(), JobError> {
    let mut done = 0;
    while done < buffer.len() {
        let read = call("read", k.read(fd, &mut buffer[done..]))?;
        check(read > 0, "read met the end too early")?;
        done += read;
    }
    Ok(())
}
