//! The jobs of AIM7, each written once against [`Kernel`].
//!
//! A job is a function of a kernel and a [`JobEnv`]; it keeps nothing between two runs. Calls,
//! bytes and loop counts follow AIM7 1.1 (1996) or re-aim 7, depending on [`JobEnv::dialect`],
//! without their defects: random offsets cover the whole file, and jobs do not depend on the
//! programs installed on the host, do not sleep, and always terminate. docs/aim7-jobs.md lists what
//! each does.

mod direct;
mod disk;
mod files;
mod ipc;
mod operations;
mod process;
mod user;

pub use operations::Operations;

use crate::Errno;
use crate::api::{Exit, Fd, Kernel, Sys};
use crate::command::Command;
use crate::dialect::Dialect;
use convoy_catalogue::suggest::nearest;
use serde::{Deserialize, Serialize};

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
fn sync<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
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

macro_rules! jobs {
    ($($variant:ident = $name:literal, $function:path, $about:literal;)+) => {
        /// A job of AIM7, or a command of a workfile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Job {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)+
            /// A command of the workfile.
            #[serde(untagged)]
            Command(Command),
        }

        impl Job {
            /// Every job of AIM7, by name.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Name in workfiles; re-aim's spelling.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ Self::Command(own) => own.name() }
            }

            /// Describes one run.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)+ Self::Command(own) => own.line() }
            }

            /// Runs the job once.
            ///
            /// # Errors
            /// The first system call that fails, or a wrong result.
            pub fn run<K: Kernel>(self, k: &mut K, env: &JobEnv) -> Result<(), JobError> {
                match self {
                    $(Self::$variant => $function(k, env),)+
                    Self::Command(own) => own.run(k, env),
                }
            }
        }
    };
}

jobs! {
    AddDouble = "add_double", user::add_double,
        "1,500,000 loops of 12 dependent f64 additions";
    AddFloat = "add_float", user::add_float,
        "1,000,000 loops of 12 dependent f32 additions";
    AddInt = "add_int", user::add_int,
        "5,000,000 loops of 12 dependent i32 additions";
    AddLong = "add_long", user::add_long,
        "5,000,000 loops of 12 dependent i64 additions";
    AddShort = "add_short", user::add_short,
        "2,000,000 loops of 12 dependent i16 additions";
    ArrayRtns = "array_rtns", user::array_rtns,
        "20 linear systems of order 5 to 100";
    BrkTest = "brk_test", process::brk_test,
        "1000 × {sbrk −64 KB, 16 × sbrk +4 KB}";
    CreatClo = "creat_clo", files::creat_clo,
        "1000 × {creat, close} of one name, one unlink";
    DgramPipe = "dgram_pipe", ipc::dgram_pipe,
        "99 messages through a Unix datagram pair, written and read back";
    DirRtns1 = "dir_rtns_1", files::dir_rtns_1,
        "10,000 directory entries read, with rewinds";
    DiskAioRr = "disk_aio_rr", direct::disk_aio_rr,
        "a file written, then as many random 1 KB reads, 32 in flight";
    DiskAioRw = "disk_aio_rw", direct::disk_aio_rw,
        "a file written, then as many random 1 KB writes, 32 in flight";
    DiskAiodioRr = "disk_aiodio_rr", direct::disk_aiodio_rr,
        "as `disk_aio_rr` with `O_DIRECT`";
    DiskAiodioRw = "disk_aiodio_rw", direct::disk_aiodio_rw,
        "as `disk_aio_rw` with `O_DIRECT`";
    DiskBcp = "disk_bcp", disk::disk_bcp,
        "as `disk_cp`, without `sync` in any case";
    DiskBrd = "disk_brd", disk::disk_brd,
        "as `disk_rd`, without `sync` in any case";
    DiskBrr = "disk_brr", disk::disk_brr,
        "as `disk_rr`, without `sync` in any case";
    DiskBrw = "disk_brw", disk::disk_brw,
        "as `disk_rw`, without `sync` in any case";
    DiskBwrt = "disk_bwrt", disk::disk_bwrt,
        "as `disk_wrt`, without `sync` in any case";
    DiskCp = "disk_cp", disk::disk_cp,
        "tmpa.common copied in 1 KB blocks, copy removed";
    DiskDioCp = "disk_dio_cp", direct::disk_dio_cp,
        "tmpa.common copied with `O_DIRECT`, copy removed";
    DiskDioRd = "disk_dio_rd", direct::disk_dio_rd,
        "tmpa.common read with `O_DIRECT`";
    DiskDioRr = "disk_dio_rr", direct::disk_dio_rr,
        "a file written, then as many random reads, both with `O_DIRECT`";
    DiskDioRw = "disk_dio_rw", direct::disk_dio_rw,
        "a file written, then as many random writes, both with `O_DIRECT`";
    DiskDioWrt = "disk_dio_wrt", direct::disk_dio_wrt,
        "a file written with `O_DIRECT`, removed";
    DiskRd = "disk_rd", disk::disk_rd,
        "tmpa.common read in 1 KB blocks";
    DiskRr = "disk_rr", disk::disk_rr,
        "a file written, then as many random 1 KB reads";
    DiskRw = "disk_rw", disk::disk_rw,
        "a file written, then as many random 1 KB writes";
    DiskSrc = "disk_src", files::disk_src,
        "a list of 100 names read; 57 of them looked up, 43 made and removed";
    DiskWrt = "disk_wrt", disk::disk_wrt,
        "a file written in 1 KB blocks, removed";
    DivDouble = "div_double", user::div_double,
        "250,000 loops of 12 dependent f64 divisions";
    DivFloat = "div_float", user::div_float,
        "250,000 loops of 12 dependent f32 divisions";
    DivInt = "div_int", user::div_int,
        "75,000 loops of 12 dependent i32 divisions";
    DivLong = "div_long", user::div_long,
        "75,000 loops of 12 dependent i64 divisions";
    DivShort = "div_short", user::div_short,
        "75,000 loops of 12 dependent i16 divisions";
    ExecTest = "exec_test", process::exec_test,
        "5 × {fork, exec of a script, wait until no child is left}";
    FifoTest = "fifo_test", ipc::fifo_test,
        "99 messages through a pipe with a name, written and read back";
    ForkTest = "fork_test", process::fork_test,
        "100 × {fork, _exit, wait until no child is left}";
    FunCal = "fun_cal", user::fun_cal,
        "512,000 calls through a pointer without arguments";
    FunCal1 = "fun_cal1", user::fun_cal1,
        "512,000 calls through a pointer with one argument";
    FunCal15 = "fun_cal15", user::fun_cal15,
        "512,000 calls through a pointer with fifteen arguments";
    FunCal2 = "fun_cal2", user::fun_cal2,
        "512,000 calls through a pointer with two arguments";
    JmpTest = "jmp_test", user::jmp_test,
        "1000 non-local exits out of ten frames";
    LinkTest = "link_test", files::link_test,
        "8 names of one file; 63 × {unlink, link}; all removed";
    MatrixRtns = "matrix_rtns", user::matrix_rtns,
        "100 products of a vector and a 4x4 matrix";
    MemRtns1 = "mem_rtns_1", user::mem_rtns_1,
        "30,000 allocations and frees";
    MemRtns2 = "mem_rtns_2", user::mem_rtns_2,
        "100 × six block operations";
    MiscRtns1 = "misc_rtns_1", process::misc_rtns_1,
        "10 × identity, user database, system and terminal queries";
    MulDouble = "mul_double", user::mul_double,
        "1,000,000 loops of 12 dependent f64 multiplications";
    MulFloat = "mul_float", user::mul_float,
        "1,000,000 loops of 12 dependent f32 multiplications";
    MulInt = "mul_int", user::mul_int,
        "20,000 loops of 12 dependent i32 multiplications";
    MulLong = "mul_long", user::mul_long,
        "20,000 loops of 12 dependent i64 multiplications";
    MulShort = "mul_short", user::mul_short,
        "25,000 loops of 12 dependent i16 multiplications";
    NewRaph = "new_raph", user::new_raph,
        "200 roots by Newton's method";
    NumRtns1 = "num_rtns_1", user::num_rtns_1,
        "100 × 12 mathematical functions";
    PageTest = "page_test", process::page_test,
        "100 × {sbrk −64 KB, 16 × {sbrk +4 KB, touch it}}";
    PipeCpy = "pipe_cpy", ipc::pipe_cpy,
        "99 messages through a pipe, written and read back";
    RamCopy = "ram_copy", user::ram_copy,
        "64 copies of 1 B to 64 KB at alignments 0 to 7 (re-aim: 100)";
    Series1 = "series_1", user::series_1,
        "100 Taylor sums of the sine";
    SharedMemory = "shared_memory", ipc::shared_memory,
        "100 × {copy in, copy out} of 2 KB (re-aim: 64 KB) under a System V semaphore";
    ShellRtns1 = "shell_rtns_1", process::shell_rtns,
        "a script that lists a directory, through the shell";
    ShellRtns2 = "shell_rtns_2", process::shell_rtns_2,
        "the first shell job again (re-aim's sleeps for 5 s, this one only if asked to)";
    ShellRtns3 = "shell_rtns_3", process::shell_rtns,
        "the first shell job again";
    Sieve = "sieve", user::sieve,
        "5 sieves over 1,000,000 flags";
    SignalTest = "signal_test", process::signal_test,
        "1000 signals to itself, caught and counted";
    SortRtns1 = "sort_rtns_1", user::sort_rtns_1,
        "2 × {three sorts of 10,000 integers, 2,000 searches}";
    StreamPipe = "stream_pipe", ipc::stream_pipe,
        "99 messages through a Unix stream pair, written and read back";
    StringRtns = "string_rtns", user::string_rtns,
        "100 rounds of string functions, a `stat` of the time zone in each";
    SyncDiskCp = "sync_disk_cp", disk::sync_disk_cp,
        "half of tmpa.common copied to a synchronous file";
    SyncDiskRw = "sync_disk_rw", disk::sync_disk_rw,
        "half a file written, then as many random synchronous 1 KB writes";
    SyncDiskUpdate = "sync_disk_update", disk::sync_disk_update,
        "a file written, then half as many random blocks read, the next written, `O_SYNC`";
    SyncDiskWrt = "sync_disk_wrt", disk::sync_disk_wrt,
        "half a file written synchronously";
    TcpTest = "tcp_test", ipc::tcp_test,
        "89 messages over TCP loopback, written and read back";
    TrigRtns = "trig_rtns", user::trig_rtns,
        "10,000 × 10 trigonometric functions";
    UdpTest = "udp_test", ipc::udp_test,
        "99 messages over UDP loopback, written and read back";
}

impl Job {
    /// The job called `name`; AIM7's `creat-clo` is re-aim's `creat_clo`.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.replace('-', "_");
        Self::ALL.iter().copied().find(|job| job.name() == name)
    }

    /// Why it runs on this machine only and on no virtual kernel; `None` if it runs on both.
    pub const fn host_only(self) -> Option<&'static str> {
        match self {
            Self::Command(_) => Some("commands run on a real machine only"),
            _ if self.is_asynchronous() => Some("the virtual kernels have no asynchronous I/O"),
            _ => None,
        }
    }

    /// Returns whether it has many transfers in flight.
    pub const fn is_asynchronous(self) -> bool {
        matches!(self, Self::DiskAioRr | Self::DiskAioRw | Self::DiskAiodioRr | Self::DiskAiodioRw)
    }

    /// Whether the originals hand it one of the work directories, in turn.
    pub const fn takes_directory(self) -> bool {
        self.depends_on_file_size()
            || matches!(
                self,
                Self::CreatClo
                    | Self::LinkTest
                    | Self::DiskSrc
                    | Self::SharedMemory
                    | Self::Command(_)
            )
    }

    /// Whether its work depends on the size of a user's file.
    pub const fn depends_on_file_size(self) -> bool {
        // Then, and only then, so does the number of its operations.
        self.operations(2).count != self.operations(4).count
    }
}

/// Returns the job with the name most similar to `name`.
pub(crate) fn nearest_job(name: &str) -> Option<Job> {
    nearest(name, Job::ALL.iter().map(|job| job.name())).and_then(Job::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_unique_and_parse() {
        assert!(Job::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name()));
        for job in Job::ALL {
            assert_eq!(Job::parse(job.name()), Some(*job));
        }
        assert_eq!(Job::parse("creat-clo"), Some(Job::CreatClo));
        assert_eq!(Job::parse("add-int"), Some(Job::AddInt));
        assert_eq!(Job::parse("addint"), None);
    }

    #[test]
    fn loops_shrink_but_never_to_nothing() {
        let mut env = JobEnv::new("/w", 10);
        (env.user, env.shrink) = (3, 100);
        assert_eq!(env.loops(1000), 10);
        assert_eq!(env.loops(5), 1);
        assert_eq!(env.own_path("tmp"), "/w/tmp.3");
        env.shrink = 0;
        assert_eq!(env.loops(7), 7);
    }
}
