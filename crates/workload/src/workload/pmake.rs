//! A parallel build: make starts compilers, as many at a time as it may, and then the linker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{
    LARGE_BUFFER, Start, execute, finish, image, make_program, read_file, read_in, read_whole,
    start, work, write_file,
};
use crate::api::Kernel;
use crate::errno::Errno;
use crate::jobs::{JobError, call, check};

/// Parts in which the heap of a compiler grows.
const PARTS: u64 = 16;
/// Bytes of a page, the granularity of a compiler's accesses.
const PAGE: usize = 4096;

/// Amounts of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pmake {
    /// Compilers at a time, for each CPU.
    #[schemars(range(min = 1, max = 1000))]
    pub jobs_per_cpu: u32,
    /// Lines of each source, in the order in which make starts them: the order of the list, dealt
    /// out so that long ones are neither first nor last.
    pub lines: Vec<u32>,
    /// Sources of each of these sizes.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub sources_of_each: u32,
    /// One in this many is compiled, and the times are multiplied: all are alike.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub share: u32,
    /// Bytes of a line.
    #[schemars(range(min = 1, max = 10_000))]
    pub bytes_per_line: u64,
    /// Headers, each read for each source.
    #[schemars(range(min = 0, max = 100_000))]
    pub headers: u32,
    /// Of these, those behind a symbolic link to their directory, as `asm` of a kernel is.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub linked_headers: u32,
    /// Bytes of a header.
    pub header_bytes: u64,
    /// Heap of a compiler, KiB.
    #[schemars(range(min = 0, max = 4_194_304))]
    pub compiler_kib: u32,
    /// Bytes of an object for each line of its source.
    pub object_bytes_per_line: u64,
    /// Loops of 12 additions that one line takes.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub loops_per_line: u64,
    /// Work of make before it starts a compiler, in lines.
    pub make_lines: u32,
    /// Work of the linker, in lines.
    pub link_lines: u32,
    /// The program make.
    pub make: Start,
    /// The compiler driver.
    pub driver: Start,
    /// The compiler itself.
    pub compiler: Start,
    /// The assembler.
    pub assembler: Start,
    /// The linker.
    pub linker: Start,
}

fn one() -> u32 {
    1
}

impl Pmake {
    /// Lines of each source that is compiled.
    fn sources(&self) -> Vec<u32> {
        self.lines.repeat((self.sources_of_each / self.share).max(1) as usize)
    }

    /// Path of header number `header`.
    fn header(&self, directory: &str, header: u32) -> String {
        let behind = if header < self.linked_headers { "/asm" } else { "" };
        format!("{directory}{behind}/h{header}")
    }

    fn programs(&self) -> [(&'static str, Start); 5] {
        [
            ("make", self.make),
            ("gcc", self.driver),
            ("cc1", self.compiler),
            ("as", self.assembler),
            ("ld", self.linker),
        ]
    }

    /// Numbers of the sources in the order in which make starts them: names say nothing of sizes,
    /// so every fifth of the list comes next.
    fn order(&self) -> impl Iterator<Item = usize> {
        let count = self.sources().len();
        (0..5).flat_map(move |first| (first..count).step_by(5))
    }

    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        for (name, start) in self.programs() {
            make_program(k, directory, name, start)?;
        }
        if self.linked_headers > 0 {
            call("mkdir", k.mkdir(&format!("{directory}/asm-i386")))?;
            call("symlink", k.symlink("asm-i386", &format!("{directory}/asm")))?;
        }
        for header in 0..self.headers {
            write_file(k, &self.header(directory, header), self.header_bytes)?;
        }
        for (source, &lines) in self.sources().iter().enumerate() {
            let bytes = u64::from(lines) * self.bytes_per_line;
            write_file(k, &format!("{directory}/c{source}"), bytes)?;
        }
        Ok(())
    }

    pub(super) fn run<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        cpus: u32,
    ) -> Result<(), JobError> {
        let (this, directory) = (self.clone(), directory.to_owned());
        start(k, move |k| this.build(k, &directory, cpus))?;
        finish(k)
    }

    /// make.
    fn build<K: Kernel>(&self, k: &mut K, directory: &str, cpus: u32) -> Result<(), JobError> {
        execute(k, &image(directory, "make", self.make))?;
        self.user(k, self.make_lines)?;
        for header in 0..self.headers {
            // Once for all sources: make remembers.
            call("stat", k.stat(&self.header(directory, header)))?;
        }
        for source in 0..self.sources().len() {
            call("stat", k.stat(&format!("{directory}/c{source}")))?;
            let made = k.stat(&format!("{directory}/o{source}")) != Err(Errno::ENOENT);
            check(!made, "an object is there that should not be")?;
        }
        let mut running = 0;
        for source in self.order() {
            if running == self.jobs_per_cpu * cpus {
                finish(k)?;
                running -= 1;
            }
            let (this, directory) = (self.clone(), directory.to_owned());
            start(k, move |k| this.compile(k, &directory, source))?;
            running += 1;
        }
        (0..running).try_for_each(|_| finish(k))?;
        let (this, directory) = (self.clone(), directory.to_owned());
        start(k, move |k| this.link(k, &directory))?;
        finish(k)
    }

    /// The driver: compiler, assembler.
    fn compile<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        source: usize,
    ) -> Result<(), JobError> {
        execute(k, &image(directory, "gcc", self.driver))?;
        let lines = self.lines[source % self.lines.len()];
        let bytes = u64::from(lines) * self.object_bytes_per_line;
        let (this, place) = (self.clone(), directory.to_owned());
        start(k, move |k| {
            execute(k, &image(&place, "cc1", this.compiler))?;
            let text = u64::from(lines) * this.bytes_per_line;
            read_whole(k, &format!("{place}/c{source}"), text)?;
            for header in 0..this.headers {
                read_whole(k, &this.header(&place, header), this.header_bytes)?;
            }
            this.translate(k, lines)?;
            // Text of the assembler is about twice its object.
            write_file(k, &format!("{place}/s{source}"), 2 * bytes)
        })?;
        finish(k)?;
        let (this, place) = (self.clone(), directory.to_owned());
        start(k, move |k| {
            execute(k, &image(&place, "as", this.assembler))?;
            read_in(k, &format!("{place}/s{source}"), LARGE_BUFFER)?;
            write_file(k, &format!("{place}/o{source}"), bytes)
        })?;
        finish(k)?;
        call("unlink", k.unlink(&format!("{directory}/s{source}")))
    }

    /// The compiler's own work, during which its heap grows.
    fn translate<K: Kernel>(&self, k: &mut K, lines: u32) -> Result<(), JobError> {
        let bytes = self.compiler_kib as usize * 1024 / PARTS as usize;
        for _ in 0..PARTS {
            call("sbrk", k.sbrk(bytes as isize))?;
            call("touch", k.touch_heap(bytes, PAGE))?;
            work(k, u64::from(lines) * self.loops_per_line / PARTS)?;
        }
        Ok(())
    }

    fn link<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        execute(k, &image(directory, "ld", self.linker))?;
        let mut bytes = 0;
        for (source, &lines) in self.sources().iter().enumerate() {
            read_file(k, &format!("{directory}/o{source}"))?;
            bytes += u64::from(lines) * self.object_bytes_per_line;
        }
        self.user(k, self.link_lines)?;
        write_file(k, &format!("{directory}/library"), bytes)
    }

    /// The work of `lines` lines.
    fn user<K: Kernel>(&self, k: &mut K, lines: u32) -> Result<(), JobError> {
        work(k, u64::from(lines) * self.loops_per_line)
    }
}
