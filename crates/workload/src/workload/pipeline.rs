//! Two programs and a pipe: the first reads a file and writes text, the second searches it, as in
//! `objdump -d vmlinux | grep mov > /dev/null`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{BUFFER, Start, execute, finish, image, make_program, read_file, start, work};
use crate::api::{Fd, Kernel};
use crate::jobs::{JobError, call, write_all};

/// Bytes of a page, the granularity of a program's accesses.
const PAGE: usize = 4096;

/// Amounts of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Bytes of the file that the first program reads.
    pub file_bytes: u64,
    /// Memory that it writes to beyond its start, KiB.
    #[schemars(range(min = 0, max = 4_194_304))]
    pub heap_kib: u32,
    /// Bytes that it writes, of which it buffers a page at a time.
    pub text_bytes: u64,
    /// One in this many is written, and the times are multiplied: all are alike.
    #[schemars(range(min = 1, max = 10_000))]
    pub share: u32,
    /// Loops of 12 additions that a page of text takes to write.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub loops_per_page: u64,
    /// The search of a page takes this fraction of them.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub search_divisor: u64,
    /// The program that writes.
    pub writer: Start,
    /// The program that searches.
    pub search: Start,
}

impl Pipeline {
    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        make_program(k, directory, "objdump", self.writer)?;
        make_program(k, directory, "grep", self.search)?;
        super::steps::write_file(k, &format!("{directory}/file"), self.file_bytes)
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        let (from, to) = call("pipe", k.pipe())?;
        let (this, place) = (self.clone(), directory.to_owned());
        start(k, move |k| {
            call("close", k.close(from))?;
            this.write(k, &place, to)
        })?;
        let (this, place) = (self.clone(), directory.to_owned());
        start(k, move |k| {
            call("close", k.close(to))?;
            execute(k, &image(&place, "grep", this.search))?;
            while call("read", k.read(from, &mut [0; BUFFER]))? > 0 {
                work(k, this.loops_per_page / this.search_divisor)?;
            }
            Ok(())
        })?;
        call("close", k.close(from))?;
        call("close", k.close(to))?;
        (0..2).try_for_each(|_| finish(k))
    }

    /// The first program.
    fn write<K: Kernel>(&self, k: &mut K, directory: &str, to: Fd) -> Result<(), JobError> {
        execute(k, &image(directory, "objdump", self.writer))?;
        read_file(k, &format!("{directory}/file"))?;
        let heap = self.heap_kib as usize * 1024;
        call("sbrk", k.sbrk(heap as isize))?;
        call("touch", k.touch_heap(heap, PAGE))?;
        for _ in 0..self.text_bytes / u64::from(self.share) / BUFFER as u64 {
            work(k, self.loops_per_page)?;
            write_all(k, to, &[b'x'; BUFFER])?;
        }
        Ok(())
    }
}
