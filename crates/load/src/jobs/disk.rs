//! The disk jobs: 1 KB blocks, sequential and random, plain and `O_SYNC`.
//!
//! A user's file has `env.file_kb` blocks; the `sync_` jobs use half of them. As in 1996 no job
//! calls `sync`: the buffered jobs of re-aim (`disk_b…`), which differ from the plain ones by not
//! calling it, are here the plain ones. Only `disk_brd` differs from `disk_rd`: it reads a file of
//! its own, as re-aim's do, not the shared one.

use convoy_kernel::api::{Fd, Kernel, Open};

use super::{BLOCK_BYTES, JobEnv, JobError, call, read_all, write_all};
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
    let block = [b'd'; BLOCK_BYTES];
    for _ in 0..count {
        write_all(k, fd, &block)?;
    }
    call("close", k.close(fd))
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
    let fd = call("open", k.open(&path, flags))?;
    random_blocks(k, env, fd, count, access)?;
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))
}

pub(super) fn disk_rr<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::READ, Access::Read)
}

pub(super) fn disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, blocks(env), Open::READ_WRITE, Access::Write)
}

pub(super) fn sync_disk_rw<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    random_job(k, env, half(env), Open::READ_WRITE.synchronous(), Access::ReadWrite)
}

pub(super) fn disk_rd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let fd = call("open", k.open(&env.path("tmpa.common"), Open::READ))?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..blocks(env) {
        read_all(k, fd, &mut block)?;
    }
    call("close", k.close(fd))
}

#[inline(never)]
pub(super) fn disk_brd<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("read");
    write_file(k, &path, Open::CREAT, blocks(env))?;
    let fd = call("open", k.open(&path, Open::READ))?;
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..blocks(env) {
        read_all(k, fd, &mut block)?;
    }
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))
}

/// Reads a random block and writes the next one: as in the original nothing seeks back, so the
/// file may grow by a block.
#[inline(never)]
pub(super) fn sync_disk_update<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let (path, count) = (env.own_path("update"), half(env));
    write_file(k, &path, Open::CREAT, count)?;
    let fd = call("open", k.open(&path, Open::READ_WRITE.synchronous()))?;
    units::run(k, &units::RANDOM_OFFSET, count)?;
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..count {
        call("lseek", k.seek(fd, random.draw_below(count) * BLOCK_BYTES as u64))?;
        read_all(k, fd, &mut block)?;
        write_all(k, fd, &block)?;
    }
    call("close", k.close(fd))?;
    call("unlink", k.unlink(&path))
}

pub(super) fn disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("write");
    write_file(k, &path, Open::CREAT, blocks(env))?;
    call("unlink", k.unlink(&path))
}

pub(super) fn sync_disk_wrt<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("write");
    write_file(k, &path, Open::CREAT.synchronous(), half(env))?;
    call("unlink", k.unlink(&path))
}

pub(super) fn disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    copy_common(k, env, blocks(env), Open::CREAT)
}

pub(super) fn sync_disk_cp<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    copy_common(k, env, half(env), Open::CREAT.synchronous())
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
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..count {
        read_all(k, from, &mut block)?;
        write_all(k, to, &block)?;
    }
    call("close", k.close(from))?;
    call("close", k.close(to))?;
    call("unlink", k.unlink(&path))
}
