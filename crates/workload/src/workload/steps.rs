//! The steps that workloads share: files, programs and processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Exit, Image, Kernel, Open};
use crate::jobs::{JobError, call, check, write_all};
use crate::units;

/// Bytes of one read or write.
pub(crate) const BUFFER: usize = 4096;
/// Bytes that GNU grep and as read at a time.
pub(crate) const LARGE_BUFFER: usize = 32 << 10;

/// A program of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Pages of files that its start touches: text, libraries.
    #[schemars(range(min = 1, max = 100_000))]
    pub file_pages: u32,
    /// Pages of memory that it writes until then.
    #[schemars(range(min = 1, max = 100_000))]
    pub memory_pages: u32,
}

/// Writes a file of `bytes` bytes.
pub(crate) fn write_file<K: Kernel>(k: &mut K, path: &str, bytes: u64) -> Result<(), JobError> {
    let fd = call("creat", k.open(path, Open::CREAT))?;
    let mut left = bytes as usize;
    while left > 0 {
        let part = left.min(BUFFER);
        write_all(k, fd, &[b'x'; BUFFER][..part])?;
        left -= part;
    }
    call("close", k.close(fd))
}

/// Reads a file to its end, a block at a time.
pub(crate) fn read_file<K: Kernel>(k: &mut K, path: &str) -> Result<(), JobError> {
    read_in(k, path, BUFFER)
}

/// Reads a file to its end, `buffer` bytes at a time.
pub(crate) fn read_in<K: Kernel>(k: &mut K, path: &str, buffer: usize) -> Result<(), JobError> {
    let mut buffer = vec![0; buffer];
    let fd = call("open", k.open(path, Open::READ))?;
    while call("read", k.read(fd, &mut buffer))? > 0 {}
    call("close", k.close(fd))
}

/// Reads a file of `bytes` bytes with one call, as compilers do, without a read at its end.
pub(crate) fn read_whole<K: Kernel>(k: &mut K, path: &str, bytes: u64) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::READ))?;
    call("read", k.read(fd, &mut vec![0; bytes as usize]))?;
    call("close", k.close(fd))
}

/// Reads the names of a directory.
pub(crate) fn list<K: Kernel>(k: &mut K, path: &str) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::READ))?;
    while call("getdents", k.read_directory(fd))? > 0 {}
    call("close", k.close(fd))
}

/// `loops` of a program's own work.
pub(crate) fn work<K: Kernel>(k: &mut K, loops: u64) -> Result<(), JobError> {
    units::run(k, &units::ADD_INT, loops)
}

/// The image of the program `name`, made by [`make_program`].
pub(crate) fn image(directory: &str, name: &str, start: Start) -> (String, Start) {
    (format!("{directory}/{name}"), start)
}

/// Makes the file of a program.
pub(crate) fn make_program<K: Kernel>(
    k: &mut K,
    directory: &str,
    name: &str,
    start: Start,
) -> Result<(), JobError> {
    let path = format!("{directory}/{name}");
    write_file(k, &path, u64::from(start.file_pages) * BUFFER as u64)
}

/// This process becomes the program.
pub(crate) fn execute<K: Kernel>(
    k: &mut K,
    (path, start): &(String, Start),
) -> Result<(), JobError> {
    let Start { file_pages, memory_pages } = *start;
    call("execve", k.become_image(&Image { path, file_pages, memory_pages }))
}

/// Starts a process that does `body` and ends; what goes wrong in it is its exit status.
pub(crate) fn start<K: Kernel>(
    k: &mut K,
    body: impl FnOnce(&mut K) -> Result<(), JobError> + 'static,
) -> Result<(), JobError> {
    call("fork", k.fork(|child| i32::from(body(child).is_err()))).map(|_pid| ())
}

/// Waits for one process.
pub(crate) fn finish<K: Kernel>(k: &mut K) -> Result<(), JobError> {
    let (_, exit) = call("wait", k.wait())?;
    check(exit == Exit::Code(0), "a process of the workload failed")
}
