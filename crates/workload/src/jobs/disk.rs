//! The disk jobs: 1 KB blocks, sequential and random, plain and `O_SYNC`.
//!
//! A user's file has `env.file_kb` blocks; the `sync_` jobs write half of them synchronously. As in
//! 1996 no job calls `sync`, unless the run asks for it: then the plain jobs call it at the places
//! where re-aim's do without `-y`. The buffered jobs of re-aim (`disk_b…`) are the plain ones and
//! never call it.

use crate::api::{Fd, Kernel, Open};

use super::{BLOCK_BYTES, JobEnv, JobError, call, read_all, sync, write_all};
use crate::dialect::Dialect;
use crate::draw::Lcg;
use crate::units;

fn blocks(env: &JobEnv) -> u64 {
    env.loops(env.file_kb)
}

fn half(env: &JobEnv) -> u64 {
    env.loops(env.file_kb / 2)
}

/// Makes this user's temporary file of `count` blocks; `flags` is [`Open::CREAT`] or its
/// synchronous form.
pub(super) fn write_file<K: Kernel>(
    k: &mut K,
    path: &str,
    flags: Open,
    count: u64,
) -> Result<(), JobError> {
    let fd = call("creat", k.open(path, flags))?;
    write_blocks(k, fd, count)?;
    call("close", k.close(fd))
}

fn write_blocks<K: Kernel>(k: &mut K, fd: Fd, count: u64) -> Result<(), JobError> {
    let block = [b'd'; BLOCK_BYTES];
    (0..count).try_for_each(|_| write_all(k, fd, &block))
}

/// The same job as re-aim's buffered one: it never calls `sync`.
fn buffered(env: &JobEnv) -> JobEnv {
    JobEnv { sync: false, ..env.clone() }
}

/// Moves `count` blocks at random offsets of the whole file of `count` blocks.
fn random_blocks<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    fd: Fd,
    count: u64,
    write: bool,
) -> Result<(), JobError> {
    units::run(k, &units::RANDOM_OFFSET, count)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut block = [b'r'; BLOCK_BYTES];
    for _ in 0..count {
        call("lseek", k.seek(fd, random.draw_below(count) * BLOCK_BYTES as u64))?;
        if write {
            write_all(k, fd, &block)?;
        } else {
            read_all(k, fd, &mut block)?;
        }
    }
    Ok(())
}

/// When a job removes the name of its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unlink {
    /// While it is open: the last `close` then frees the blocks.
    Open,
    /// After the last `close`.
    Closed,
}

/// Ends the work on the file at `path`.
fn finish<K: Kernel>(k: &mut K, fd: Fd, path: &str, unlink: Unlink) -> Result<(), JobError> {
    if unlink == Unlink::Open {
        call("unlink", k.unlink(path))?;
    }
    call("close", k.close(fd))?;
    if unlink == Unlink::Closed { call("unlink", k.unlink(path)) } else { Ok(()) }
}

/// Writes a file of `count` blocks, opens it with `flags`, reads or writes (as they say) at random
/// offsets, removes it.
fn random_job<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    count: u64,
    flags: Open,
    unlink: Unlink,
) -> Result<(), JobError> {
    let path = env.own_path("random");
    write_file(k, &path, Open::CREAT, count)?;
    sync(k, env)?;
    let fd = call("open", k.open(&path, flags))?;
    random_blocks(k, env, fd, count, flags.write)?;
    finish(k, fd, &path, unlink)?;
    sync(k, env)
}

pub(super) fn disk_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::READ, Unlink::Closed)
}

pub(super) fn disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::WRITE, Unlink::Open)
}

pub(super) fn disk_brr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, &buffered(env), blocks(env), Open::READ, Unlink::Open)
}

pub(super) fn disk_brw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_rw(k, &buffered(env))
}

pub(super) fn sync_disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let flags = Open::WRITE.synchronous();
    random_job(k, &buffered(env), half(env), flags, Unlink::Closed)
}

/// Reads the first blocks of the file at `path`.
fn read_file<K: Kernel>(k: &mut K, env: &JobEnv, path: &str) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::READ))?;
    call("lseek", k.seek(fd, 0))?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..blocks(env) {
        read_all(k, fd, &mut block)?;
    }
    call("close", k.close(fd))
}

/// Reads the shared file; re-aim's job writes a private file and reads that.
pub(super) fn disk_rd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    if env.dialect == Dialect::Original {
        sync(k, env)?;
        read_file(k, env, &env.path("tmpa.common"))?;
        return sync(k, env);
    }
    let path = env.own_path("read");
    write_file(k, &path, Open::CREAT, blocks(env))?;
    sync(k, env)?;
    read_file(k, env, &path)?;
    sync(k, env)?;
    call("unlink", k.unlink(&path))
}

/// Reads the shared file.
pub(super) fn disk_brd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    read_file(k, env, &env.path("tmpa.common"))
}

/// Reads a random block and writes the next one: as in the original nothing seeks back, so the
/// file may grow by a block.
#[inline(never)]
pub(super) fn sync_disk_update<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let (path, count) = (env.own_path("update"), blocks(env));
    write_file(k, &path, Open::CREAT, count)?;
    let fd = call("open", k.open(&path, Open::READ_WRITE.synchronous()))?;
    let updates = half(env);
    units::run(k, &units::RANDOM_OFFSET, updates)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..updates {
        call("lseek", k.seek(fd, random.draw_below(count) * BLOCK_BYTES as u64))?;
        read_all(k, fd, &mut block)?;
        write_all(k, fd, &block)?;
    }
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))
}

/// Creates a file with `flags`, writes `count` blocks, removes it.
fn write_job<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    count: u64,
    flags: Open,
    unlink: Unlink,
) -> Result<(), JobError> {
    let path = env.own_path("write");
    let fd = call("creat", k.open(&path, flags))?;
    sync(k, env)?;
    write_blocks(k, fd, count)?;
    finish(k, fd, &path, unlink)?;
    sync(k, env)
}

pub(super) fn disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    write_job(k, env, blocks(env), Open::CREAT, Unlink::Open)
}

pub(super) fn disk_bwrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_wrt(k, &buffered(env))
}

pub(super) fn sync_disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let flags = Open::CREAT.synchronous();
    write_job(k, &buffered(env), half(env), flags, Unlink::Closed)
}

/// The copy has no name while its blocks are written in 1996, and loses it before the last `close`
/// in re-aim, which asks a second time for what is gone by then.
pub(super) fn disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    sync(k, env)?;
    let path = env.own_path("copy");
    let (from, to) = open_copy(k, env, &path, Open::CREAT)?;
    let nameless_first = env.dialect == Dialect::Original;
    if nameless_first {
        call("unlink", k.unlink(&path))?;
    }
    sync(k, env)?;
    copy_blocks(k, from, to, blocks(env))?;
    if !nameless_first {
        call("unlink", k.unlink(&path))?;
    }
    call("close", k.close(from))?;
    call("close", k.close(to))?;
    if !nameless_first {
        let _gone = k.unlink(&path);
    }
    sync(k, env)
}

/// Only re-aim has it: the name goes after the last block is written in either dialect.
pub(super) fn disk_bcp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_cp(k, &JobEnv { dialect: Dialect::Reaim, ..buffered(env) })
}

pub(super) fn sync_disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("copy");
    let (from, to) = open_copy(k, env, &path, Open::CREAT.synchronous())?;
    copy_blocks(k, from, to, half(env))?;
    call("close", k.close(from))?;
    finish(k, to, &path, Unlink::Closed)
}

/// The shared file at its start, and a new file at `path`.
fn open_copy<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    path: &str,
    flags: Open,
) -> Result<(Fd, Fd), JobError> {
    let from = call("open", k.open(&env.path("tmpa.common"), Open::READ))?;
    let to = call("creat", k.open(path, flags))?;
    Ok((from, to))
}

fn copy_blocks<K: Kernel>(k: &mut K, from: Fd, to: Fd, count: u64) -> Result<(), JobError> {
    call("lseek", k.seek(from, 0))?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..count {
        read_all(k, from, &mut block)?;
        write_all(k, to, &block)?;
    }
    Ok(())
}
