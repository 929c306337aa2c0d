//! Workloads that are not AIM7: programs of some shape, each a data file with its amounts, written
//! once against [`Kernel`].
//!
//! A workload first prepares its files, outside the measurement, and then runs from one process,
//! which waits for all the others.

mod bonnie;
mod dpunish;
mod faults;
mod find;
mod loops;
mod pipeline;
mod pmake;
mod scan;
mod script;
mod steps;

use convoy_catalogue::{Entry, Fault, Json, Shelf, WORKLOADS, parsed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Kernel;
use crate::jobs::JobError;

pub use bonnie::Bonnie;
pub use dpunish::Dpunish;
pub use faults::Faults;
pub use find::Find;
pub use loops::{Loop, Loops, Operation};
pub use pipeline::Pipeline;
pub use pmake::Pmake;
pub use scan::Scan;
pub use script::{Act, Script, Step};
pub use steps::Start;

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
    /// Page faults on all CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
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
    Faults(&'a Faults),
}

impl Entry for Workload {
    const SHELF: &'static Shelf = &WORKLOADS;

    #[inline(never)]
    fn parse(tree: Json) -> Result<Self, Fault> {
        parsed(tree)
    }

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
                 scan, loops, faults",
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
        let loops = self.loops.iter().map(Shape::Loops);
        let faults = self.faults.iter().map(Shape::Faults);
        programs.chain(bonnie).chain(scan).chain(loops).chain(faults)
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
            Shape::Faults(_) => Ok(()),
        })
    }

    /// Runs it, on a machine of `cpus` CPUs. Returns the figures of its loops by their keys.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn run<K: Kernel>(
        &self,
        k: &mut K,
        place: &Place,
        cpus: u32,
    ) -> Result<Vec<(&'static str, f64)>, JobError> {
        let Place { directory, volumes } = place;
        let mut figures = Vec::new();
        self.shapes().try_for_each(|shape| match shape {
            Shape::Find(find) => find.run(k, directory),
            Shape::Pmake(pmake) => pmake.run(k, directory, cpus),
            Shape::Script(script) => script.run(k, directory, cpus),
            Shape::Dpunish(dpunish) => dpunish.run(k, volumes),
            Shape::Pipeline(pipeline) => pipeline.run(k, directory),
            Shape::Bonnie(bonnie) => bonnie.run(k, directory),
            Shape::Scan(scan) => scan.run(k, directory),
            Shape::Loops(loops) => loops.run(k, directory).map(|measured| figures = measured),
            Shape::Faults(faults) => faults.run(k, cpus),
        })?;
        Ok(figures)
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
            Shape::Faults(faults) => faults.processes(cpus),
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

    /// Pages that it writes to at a rate that is its result; 0 where that is its time.
    pub fn faulted_pages(&self, cpus: u32) -> u64 {
        self.faults.as_ref().map_or(0, |faults| faults.pages(cpus))
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
            | Shape::Loops(_)
            | Shape::Faults(_) => 1,
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
