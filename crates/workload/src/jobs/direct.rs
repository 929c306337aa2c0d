//! The direct disk jobs, `O_DIRECT`, past the page cache; and the asynchronous ones.
//!
//! The originals move 1 KB at a time, which many disks and file systems cannot do (`EINVAL`: they
//! take multiples of 4 KB). Here a job moves 1 KB where that is possible, else 4 KB at a time: the
//! same bytes in a quarter of the calls. A file system without `O_DIRECT` fails the job with what
//! to do about it.

use crate::Errno;
use crate::api::{Fd, Kernel, Open, Sys, Transfers};

use super::{JobEnv, JobError, call, check, sync};
use crate::draw::Lcg;
use crate::units;

/// Transfers that are tried, KB.
const TRANSFERS_KB: [usize; 2] = [1, 4];
/// Requests that the asynchronous jobs keep in flight.
const IN_FLIGHT: usize = 32;
/// Advice if direct input and output is not available.
const CURE: &str = "choose a file system with O_DIRECT with --dir";

/// Alignment that every file system accepts, bytes; also the longest transfer.
const ALIGNMENT: usize = 4096;

/// A buffer where every file system accepts it. On the heap: a stack of the virtual machine is
/// small, and its frames should not be aligned to a page.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(byte: u8) -> Self {
        let bytes = vec![byte; 2 * ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start }
    }

    /// The first `length` bytes.
    fn first(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length]
    }
}

fn open_direct<K: Kernel>(k: &mut K, path: &str, flags: Open) -> Result<Fd, JobError> {
    k.open(path, flags.direct()).map_err(|errno| match errno {
        Errno::EINVAL => JobError::Unavailable { call: "open with O_DIRECT", errno, cure: CURE },
        _ => JobError::Call { call: "open", errno },
    })
}

/// Moves the first block with `transfer`, which makes the system call `name` with a number of
/// bytes, and returns how many KB fit into one transfer here.
fn first_block<K: Kernel>(
    k: &mut K,
    name: &'static str,
    mut transfer: impl FnMut(&mut K, usize) -> Sys<usize>,
) -> Result<usize, JobError> {
    for kb in TRANSFERS_KB {
        match transfer(k, kb << 10) {
            Ok(moved) => {
                check(moved == kb << 10, "a direct transfer stopped short")?;
                return Ok(kb);
            }
            Err(Errno::EINVAL) => {}
            Err(errno) => return Err(JobError::Call { call: name, errno }),
        }
    }
    let errno = Errno::EINVAL;
    Err(JobError::Unavailable { call: "a direct transfer of 4 KB", errno, cure: CURE })
}

/// Makes this user's file of `kb` KB (rounded up to whole transfers); returns the KB of a transfer.
fn write_file<K: Kernel>(k: &mut K, path: &str, kb: u64) -> Result<usize, JobError> {
    let fd = open_direct(k, path, Open::CREAT)?;
    write_blocks(k, fd, kb)
}

/// Writes `kb` KB to `fd`, rounded up to whole transfers, and closes it.
fn write_blocks<K: Kernel>(k: &mut K, fd: Fd, kb: u64) -> Result<usize, JobError> {
    let mut buffer = Aligned::new(b'd');
    let unit = first_block(k, "write", |k, bytes| k.write(fd, buffer.first(bytes)))?;
    for _ in 1..kb.div_ceil(unit as u64) {
        let written = call("write", k.write(fd, buffer.first(unit << 10)))?;
        check(written == unit << 10, "a direct write stopped short")?;
    }
    call("close", k.close(fd))?;
    Ok(unit)
}

fn read_block<K: Kernel>(k: &mut K, fd: Fd, buffer: &mut [u8]) -> Result<(), JobError> {
    let read = call("read", k.read(fd, buffer))?;
    check(read == buffer.len(), "a direct read stopped short")
}

fn random_job<K: Kernel>(k: &mut K, env: &JobEnv, write: bool) -> Result<(), JobError> {
    let path = env.own_path("direct");
    let kb = env.loops(env.file_kb);
    let unit = write_file(k, &path, kb)?;
    sync(k, env)?;
    let count = kb.div_ceil(unit as u64);
    let fd = open_direct(k, &path, if write { Open::READ_WRITE } else { Open::READ })?;
    units::run(k, &units::RANDOM_OFFSET, count)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut buffer = Aligned::new(b'r');
    for _ in 0..count {
        let offset = random.draw_below(count) * ((unit << 10) as u64);
        call("lseek", k.seek(fd, offset))?;
        if write {
            let written = call("write", k.write(fd, buffer.first(unit << 10)))?;
            check(written == unit << 10, "a direct write stopped short")?;
        } else {
            read_block(k, fd, buffer.first(unit << 10))?;
        }
    }
    call("unlink", k.unlink(&path))?;
    call("close", k.close(fd))?;
    sync(k, env)
}

/// A file written, then as many random blocks with 32 requests in flight.
fn asynchronous_job<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    write: bool,
    direct: bool,
) -> Result<(), JobError> {
    let path = env.own_path("async");
    let kb = env.loops(env.file_kb);
    let (unit, mut flags) = if direct {
        (write_file(k, &path, kb)?, Open::READ_WRITE.direct())
    } else {
        super::disk::write_file(k, &path, Open::CREAT, kb)?;
        (1, Open::READ_WRITE)
    };
    flags.write = write;
    let fd = call("open", k.open(&path, flags))?;
    let count = kb.div_ceil(unit as u64);
    units::run(k, &units::RANDOM_OFFSET, count)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let block = (unit << 10) as u64;
    let offsets: Vec<u64> = (0..count).map(|_| random.draw_below(count) * block).collect();
    let transfers = Transfers { offsets: &offsets, bytes: unit << 10, write, depth: IN_FLIGHT };
    let moved = k.asynchronous(fd, &transfers).map_err(|errno| match errno {
        Errno::ENOSYS | Errno::EPERM => {
            let cure = "allow io_uring or io_submit (seccomp profile, kernel.io_uring_disabled)";
            JobError::Unavailable { call: "asynchronous input and output", errno, cure }
        }
        _ => JobError::Call { call: "asynchronous input and output", errno },
    });
    moved.and(call("close", k.close(fd))).and(call("unlink", k.unlink(&path)))
}

#[inline(never)]
pub(super) fn disk_aio_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    asynchronous_job(k, env, false, false)
}

#[inline(never)]
pub(super) fn disk_aio_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    asynchronous_job(k, env, true, false)
}

#[inline(never)]
pub(super) fn disk_aiodio_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    asynchronous_job(k, env, false, true)
}

#[inline(never)]
pub(super) fn disk_aiodio_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    asynchronous_job(k, env, true, true)
}

#[inline(never)]
pub(super) fn disk_dio_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, false)
}

#[inline(never)]
pub(super) fn disk_dio_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, true)
}

#[inline(never)]
pub(super) fn disk_dio_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("direct");
    let fd = open_direct(k, &path, Open::CREAT)?;
    sync(k, env)?;
    write_blocks(k, fd, env.loops(env.file_kb))?;
    call("unlink", k.unlink(&path))?;
    sync(k, env)
}

/// Whole transfers of `tmpa.common` are read; the rest of it, less than 4 KB, is not.
#[inline(never)]
pub(super) fn disk_dio_rd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let fd = open_direct(k, &env.path("tmpa.common"), Open::READ)?;
    let kb = env.loops(env.file_kb);
    let mut buffer = Aligned::new(0);
    call("lseek", k.seek(fd, 0))?;
    // A file shorter than every transfer has none to read.
    if kb >= TRANSFERS_KB[1] as u64 {
        let unit = first_block(k, "read", |k, bytes| k.read(fd, buffer.first(bytes)))?;
        for _ in 1..kb / unit as u64 {
            read_block(k, fd, buffer.first(unit << 10))?;
        }
    }
    call("close", k.close(fd))?;
    sync(k, env)
}

/// Whole transfers of `tmpa.common` are copied; the rest of it, less than 4 KB, is not.
#[inline(never)]
pub(super) fn disk_dio_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("direct");
    let from = open_direct(k, &env.path("tmpa.common"), Open::READ)?;
    let to = open_direct(k, &path, Open::CREAT)?;
    sync(k, env)?;
    call("lseek", k.seek(from, 0))?;
    let kb = env.loops(env.file_kb);
    let mut buffer = Aligned::new(0);
    if kb >= TRANSFERS_KB[1] as u64 {
        // What one block of the source takes, the target takes too: both lie in one directory.
        let unit = first_block(k, "read", |k, bytes| k.read(from, buffer.first(bytes)))?;
        for block in 0..kb / unit as u64 {
            if block > 0 {
                read_block(k, from, buffer.first(unit << 10))?;
            }
            let written = call("write", k.write(to, buffer.first(unit << 10)))?;
            check(written == unit << 10, "a direct write stopped short")?;
        }
    }
    call("unlink", k.unlink(&path))?;
    call("close", k.close(from))?;
    call("close", k.close(to))?;
    sync(k, env)
}
