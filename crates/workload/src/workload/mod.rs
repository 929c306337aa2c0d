//! Workloads that are not AIM7: programs of some shape, each a data file with its amounts, written
//! once against [`Kernel`].
//!
//! A workload first prepares its files, outside the measurement, and then runs from one process,
//! which waits for all the others.

mod bonnie;
mod dpunish;
mod find;
mod loops;
mod pipeline;
mod pmake;
mod scan;
mod script;

use convoy_catalogue::{Entry, Fault, Shelf, WORKLOADS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Exit, Image, Kernel, Open};
use crate::jobs::{JobError, call, check, write_all};
use crate::units;

pub use bonnie::Bonnie;
pub use dpunish::Dpunish;
pub use find::Find;
pub use loops::{Loop, Loops, Operation};
pub use pipeline::Pipeline;
pub use pmake::Pmake;
pub use scan::Scan;
pub use script::{Act, Script, Step};

/// Bytes of one read or write.
const BUFFER: usize = 4096;
/// Bytes that GNU grep and as read at a time.
const LARGE_BUFFER: usize = 32 << 10;

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

/// A workload: one of its tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Searches in parallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
    /// A parallel build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmake: Option<Pmake>,
    /// Shell scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// Look-ups and renames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpunish: Option<Dpunish>,
    /// Two programs and a pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Files created, checked and removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bonnie: Option<Bonnie>,
    /// A file read from the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// Single operations of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<Loops>,
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
}

/// Where a workload works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A directory.
    pub directory: String,
    /// A directory on each of its file systems, [`Workload::file_systems`] of them; several on one
    /// file system if there are fewer.
    pub volumes: Vec<String>,
}

/// The kind of work, and its amount.
enum Shape<'a> {
    Find(&'a Find),
    Pmake(&'a Pmake),
    Script(&'a Script),
    Dpunish(&'a Dpunish),
    Pipeline(&'a Pipeline),
    Bonnie(&'a Bonnie),
    Scan(&'a Scan),
    Loops(&'a Loops),
}

impl Entry for Workload {
    const SHELF: &'static Shelf = &WORKLOADS;

    fn check(&self) -> Result<(), Fault> {
        let ordered = |[low, high]: [u32; 2]| low <= high;
        if let Some(find) = &self.find
            && !(ordered(find.files) && ordered(find.directories) && find.bytes[0] <= find.bytes[1])
        {
            return Err(Fault::new("find", "the smaller one of two numbers comes first"));
        }
        match self.shapes().count() {
            1 => Ok(()),
            _ => Err(Fault::new(
                "find",
                "a workload has one of the tables find, pmake, script, dpunish, pipeline, bonnie, \
                 scan, loops",
            )),
        }
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

impl Workload {
    fn shapes(&self) -> impl Iterator<Item = Shape<'_>> {
        let find = self.find.iter().map(Shape::Find);
        let script = self.script.iter().map(Shape::Script);
        let dpunish = self.dpunish.iter().map(Shape::Dpunish);
        let pipeline = self.pipeline.iter().map(Shape::Pipeline);
        let pmake = self.pmake.iter().map(Shape::Pmake);
        let programs = find.chain(pmake).chain(script).chain(dpunish).chain(pipeline);
        let bonnie = self.bonnie.iter().map(Shape::Bonnie);
        let scan = self.scan.iter().map(Shape::Scan);
        programs.chain(bonnie).chain(scan).chain(self.loops.iter().map(Shape::Loops))
    }

    /// Creates its files, in the directories of `place`, which exist.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn prepare<K: Kernel>(&self, k: &mut K, place: &Place) -> Result<(), JobError> {
        let Place { directory, volumes } = place;
        self.shapes().try_for_each(|shape| match shape {
            Shape::Find(find) => find.prepare(k, directory),
            Shape::Pmake(pmake) => pmake.prepare(k, directory),
            Shape::Script(script) => script.prepare(k, directory),
            Shape::Dpunish(dpunish) => dpunish.prepare(k, volumes),
            Shape::Pipeline(pipeline) => pipeline.prepare(k, directory),
            Shape::Bonnie(bonnie) => bonnie.prepare(k, directory),
            Shape::Scan(scan) => scan.prepare(k, directory),
            Shape::Loops(loops) => loops.prepare(k, directory),
        })
    }

    /// Runs it, on a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn run<K: Kernel>(&self, k: &mut K, place: &Place, cpus: u32) -> Result<(), JobError> {
        let Place { directory, volumes } = place;
        self.shapes().try_for_each(|shape| match shape {
            Shape::Find(find) => find.run(k, directory),
            Shape::Pmake(pmake) => pmake.run(k, directory, cpus),
            Shape::Script(script) => script.run(k, directory, cpus),
            Shape::Dpunish(dpunish) => dpunish.run(k, volumes),
            Shape::Pipeline(pipeline) => pipeline.run(k, directory),
            Shape::Bonnie(bonnie) => bonnie.run(k, directory),
            Shape::Scan(scan) => scan.run(k, directory),
            Shape::Loops(loops) => loops.run(k, directory),
        })
    }

    /// Processes that exist at a time, at most.
    pub fn processes(&self, cpus: u32) -> u32 {
        let of = |shape| match shape {
            Shape::Find(find) => 2 * find.instances + 1,
            Shape::Pmake(pmake) => 2 * pmake.jobs_per_cpu * cpus + 1,
            Shape::Script(script) => 2 * script.instances(cpus),
            Shape::Dpunish(dpunish) => dpunish.processes,
            Shape::Pipeline(_) | Shape::Loops(_) => 3,
            Shape::Bonnie(bonnie) => bonnie.instances,
            Shape::Scan(_) => 1,
        };
        self.shapes().map(of).sum()
    }

    /// File systems that it works in.
    pub fn file_systems(&self) -> u32 {
        self.dpunish.as_ref().map_or(1, |dpunish| dpunish.file_systems)
    }

    /// Whether they are on a disk, as opposed to in memory.
    pub fn on_disk(&self) -> bool {
        self.bonnie.is_some() || self.scan.is_some()
    }

    /// Bytes that it reads from the disk at a rate that is its result; 0 where that is its time.
    pub fn scanned_bytes(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.bytes)
    }

    /// Returns the ratio of the workload to the executed part, by which its times are multiplied.
    pub fn scale(&self) -> u32 {
        let of = |shape| match shape {
            Shape::Dpunish(dpunish) => dpunish.share,
            Shape::Pmake(pmake) => pmake.share,
            Shape::Pipeline(pipeline) => pipeline.share,
            Shape::Find(_)
            | Shape::Script(_)
            | Shape::Bonnie(_)
            | Shape::Scan(_)
            | Shape::Loops(_) => 1,
        };
        self.shapes().map(of).product()
    }

    /// Makes the amount of work that was fitted `factor` times as much.
    pub fn multiply_work(&mut self, factor: f64) {
        let times = |amount: u64| (amount as f64 * factor).round() as u64;
        if let Some(find) = &mut self.find {
            find.loops_per_file = times(find.loops_per_file);
        }
        if let Some(pmake) = &mut self.pmake {
            pmake.loops_per_line = times(pmake.loops_per_line);
        }
        if let Some(script) = &mut self.script {
            script.loops_per_unit = times(script.loops_per_unit);
        }
        if let Some(dpunish) = &mut self.dpunish {
            dpunish.renames = times(u64::from(dpunish.renames)).max(1) as u32;
        }
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.loops_per_page = times(pipeline.loops_per_page);
        }
        if let Some(bonnie) = &mut self.bonnie {
            bonnie.files = times(u64::from(bonnie.files)).max(1) as u32;
        }
    }
}

/// Writes a file of `bytes` bytes.
fn write_file<K: Kernel>(k: &mut K, path: &str, bytes: u64) -> Result<(), JobError> {
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
fn read_file<K: Kernel>(k: &mut K, path: &str) -> Result<(), JobError> {
    read_in(k, path, BUFFER)
}

/// Reads a file to its end, `buffer` bytes at a time.
fn read_in<K: Kernel>(k: &mut K, path: &str, buffer: usize) -> Result<(), JobError> {
    let mut buffer = vec![0; buffer];
    let fd = call("open", k.open(path, Open::READ))?;
    while call("read", k.read(fd, &mut buffer))? > 0 {}
    call("close", k.close(fd))
}

/// Reads a file of `bytes` bytes with one call, as compilers do, without a read at its end.
fn read_whole<K: Kernel>(k: &mut K, path: &str, bytes: u64) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::READ))?;
    call("read", k.read(fd, &mut vec![0; bytes as usize]))?;
    call("close", k.close(fd))
}

/// Reads the names of a directory.
fn list<K: Kernel>(k: &mut K, path: &str) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::READ))?;
    while call("getdents", k.read_directory(fd))? > 0 {}
    call("close", k.close(fd))
}

/// `loops` of a program's own work.
fn work<K: Kernel>(k: &mut K, loops: u64) -> Result<(), JobError> {
    units::run(k, &units::ADD_INT, loops)
}

/// The image of the program `name`, made by [`make_program`].
fn image(directory: &str, name: &str, start: Start) -> (String, Start) {
    (format!("{directory}/{name}"), start)
}

/// Makes the file of a program.
fn make_program<K: Kernel>(
    k: &mut K,
    directory: &str,
    name: &str,
    start: Start,
) -> Result<(), JobError> {
    let path = format!("{directory}/{name}");
    write_file(k, &path, u64::from(start.file_pages) * BUFFER as u64)
}

/// This process becomes the program.
fn execute<K: Kernel>(k: &mut K, (path, start): &(String, Start)) -> Result<(), JobError> {
    let Start { file_pages, memory_pages } = *start;
    call("execve", k.become_image(&Image { path, file_pages, memory_pages }))
}

/// Starts a process that does `body` and ends; what goes wrong in it is its exit status.
fn start<K: Kernel>(
    k: &mut K,
    body: impl FnOnce(&mut K) -> Result<(), JobError> + 'static,
) -> Result<(), JobError> {
    call("fork", k.fork(|child| i32::from(body(child).is_err()))).map(|_pid| ())
}

/// Waits for one process.
fn finish<K: Kernel>(k: &mut K) -> Result<(), JobError> {
    let (_, exit) = call("wait", k.wait())?;
    check(exit == Exit::Code(0), "a process of the workload failed")
}
