//! The jobs of AIM7, each written once against [`Kernel`].
//!
//! A job is a function of a kernel and a [`JobEnv`]; it keeps nothing between two runs. Calls,
//! bytes and loop counts follow AIM7 1.1 (1996) or re-aim 7, depending on [`JobEnv::dialect`],
//! without their defects: random offsets cover the whole file, and jobs do not depend on the
//! programs installed on the host, do not sleep, and always terminate. `convoy list
//! job-calls` prints the calls of each.

mod direct;
mod disk;
mod env;
mod files;
mod ipc;
mod process;
mod user;

pub use env::{BLOCK_BYTES, JobEnv, JobError};
pub(crate) use env::{call, check, read_all, sync, write_all};

use crate::api::Kernel;
use crate::command::Command;
use convoy_catalogue::suggest::nearest;
use serde::{Deserialize, Serialize};

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
        matches!(
            self,
            Self::SyncDiskCp
                | Self::SyncDiskRw
                | Self::SyncDiskUpdate
                | Self::SyncDiskWrt
                | Self::DiskAioRr
                | Self::DiskAioRw
                | Self::DiskAiodioRr
                | Self::DiskAiodioRw
                | Self::DiskBcp
                | Self::DiskBrd
                | Self::DiskBrr
                | Self::DiskBrw
                | Self::DiskBwrt
                | Self::DiskCp
                | Self::DiskDioCp
                | Self::DiskDioRd
                | Self::DiskDioRr
                | Self::DiskDioRw
                | Self::DiskDioWrt
                | Self::DiskRd
                | Self::DiskRr
                | Self::DiskRw
                | Self::DiskWrt
        )
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
