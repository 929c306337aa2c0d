//! The disk jobs: 1 KB blocks, sequential and random, plain and `O_SYNC`.
//!
//! A user's file has `env.file_kb` blocks; the `sync_` jobs write half of them synchronously. As in
//! 1996 no job calls `sync`, unless the run asks for it: then the plain jobs call it at the places
//! where re-aim's do without `-y`. The buffered jobs of re-aim (`disk_b…`) are the plain ones and
//! never call it. `disk_rd` reads the shared file, as in 1996; re-aim's writes a file of its own
//! first.

use crate::api::{Fd, Kernel, Open};

use super::{BLOCK_BYTES, JobEnv, JobError, call, read_all, sync, write_all};
use crate::draw::Lcg;
use crate::units;

/// What is done at each random offset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    ReadWrite,
}

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

/// `count` blocks at random offsets of the whole file of `count` blocks.
fn random_blocks<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    fd: Fd,
    count: u64,
    access: Access,
) -> Result<(), JobError> {
    units::run(k, &units::RANDOM_OFFSET, count)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut block = [b'r'; BLOCK_BYTES];
    for _ in 0..count {
        let offset = random.draw_below(count) * BLOCK_BYTES as u64;
        if access != Access::Write {
            call("lseek", k.seek(fd, offset))?;
            read_all(k, fd, &mut block)?;
        }
        if access != Access::Read {
            call("lseek", k.seek(fd, offset))?;
            write_all(k, fd, &block)?;
        }
    }
    Ok(())
}

/// Writes a file of `count` blocks, opens it with `flags`, works at random offsets, removes it.
fn random_job<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    count: u64,
    flags: Open,
    access: Access,
) -> Result<(), JobError> {
    let path = env.own_path("random");
    write_file(k, &path, Open::CREAT, count)?;
    sync(k, env)?;
    let fd = call("open", k.open(&path, flags))?;
    random_blocks(k, env, fd, count, access)?;
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))?;
    sync(k, env)
}

pub(super) fn disk_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::READ, Access::Read)
}

pub(super) fn disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::READ_WRITE, Access::Write)
}

pub(super) fn disk_brr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_rr(k, &buffered(env))
}

pub(super) fn disk_brw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_rw(k, &buffered(env))
}

pub(super) fn sync_disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let flags = Open::READ_WRITE.synchronous();
    random_job(k, &buffered(env), half(env), flags, Access::ReadWrite)
}

pub(super) fn disk_rd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    sync(k, env)?;
    let fd = call("open", k.open(&env.path("tmpa.common"), Open::READ))?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..blocks(env) {
        read_all(k, fd, &mut block)?;
    }
    call("close", k.close(fd))?;
    sync(k, env)
}

pub(super) fn disk_brd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_rd(k, &buffered(env))
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

pub(super) fn disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("write");
    let fd = call("creat", k.open(&path, Open::CREAT))?;
    sync(k, env)?;
    write_blocks(k, fd, blocks(env))?;
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))?;
    sync(k, env)
}

pub(super) fn disk_bwrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_wrt(k, &buffered(env))
}

pub(super) fn sync_disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("write");
    write_file(k, &path, Open::CREAT.synchronous(), half(env))?;
    call("unlink", k.unlink(&path))
}

pub(super) fn disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    sync(k, env)?;
    copy_common(k, env, blocks(env), Open::CREAT)
}

pub(super) fn disk_bcp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    disk_cp(k, &buffered(env))
}

pub(super) fn sync_disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    copy_common(k, &buffered(env), half(env), Open::CREAT.synchronous())
}

fn copy_common<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    count: u64,
    flags: Open,
) -> Result<(), JobError> {
    let path = env.own_path("copy");
    let from = call("open", k.open(&env.path("tmpa.common"), Open::READ))?;
    let to = call("creat", k.open(&path, flags))?;
    sync(k, env)?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..count {
        read_all(k, from, &mut block)?;
        write_all(k, to, &block)?;
    }
    call("close", k.close(from))?;
    call("close", k.close(to))?;
    call("unlink", k.unlink(&path))?;
    sync(k, env)
}
