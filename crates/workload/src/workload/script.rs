//! Shell scripts: storms of short programs, about one script per CPU, each in a separate directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{
    BUFFER, Start, execute, finish, image, list, make_program, read_file, start, work,
};
use crate::api::{Kernel, Open};
use crate::errno::Errno;
use crate::jobs::{JobError, call, check, write_all};

/// Bytes of a page, the granularity of a program's accesses.
const PAGE: usize = 4096;

/// Amounts of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Scripts at a time, for each CPU.
    #[schemars(range(min = 0, max = 1000))]
    pub per_cpu: u32,
    /// Additional concurrent scripts, independent of the number of CPUs.
    #[schemars(range(min = 0, max = 10_000))]
    pub fixed: u32,
    /// Times that each does all its steps.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rounds: u32,
    /// Files that are there before it begins, for all scripts.
    #[schemars(range(min = 0, max = 100_000))]
    pub sources: u32,
    /// Bytes of one of them.
    pub source_bytes: u64,
    /// Loops of 12 additions in a unit of work.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub loops_per_unit: u64,
    /// The shell.
    pub shell: Start,
    /// The steps, in sequence.
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Times it is done in a row.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub times: u32,
    /// The program of the step, in a new process each time; if absent, the shell itself acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Start>,
    /// Its actions.
    pub acts: Vec<Act>,
}

/// One thing that a program does. A name has the number of the time appended to it and lies in the
/// directory of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Act {
    /// Makes a directory.
    Make(String),
    /// Reads the source of that number to its end.
    Source,
    /// Reads a file to its end.
    Read(String),
    /// Writes a new file.
    Write {
        /// Its name.
        name: String,
        /// Bytes of one write.
        block: u64,
        /// How many writes.
        blocks: u64,
    },
    /// Calls `stat` on a file.
    Stat(String),
    /// Looks for a file that is not there.
    Miss(String),
    /// Reads the names of a directory.
    List(String),
    /// Removes a file.
    Remove(String),
    /// Memory that it writes to beyond its start, KiB.
    Heap(u32),
    /// Units of user-mode work.
    Work(u64),
}

impl Script {
    /// Scripts on `cpus` CPUs.
    pub(super) fn instances(&self, cpus: u32) -> u32 {
        self.per_cpu * cpus + self.fixed
    }

    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        make_program(k, directory, "sh", self.shell)?;
        for (step, number) in self.steps.iter().zip(0..) {
            if let Some(program) = step.program {
                make_program(k, directory, &format!("p{number}"), program)?;
            }
        }
        (0..self.sources).try_for_each(|source| {
            super::steps::write_file(k, &format!("{directory}/f{source}"), self.source_bytes)
        })
    }

    pub(super) fn run<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        cpus: u32,
    ) -> Result<(), JobError> {
        for instance in 0..self.instances(cpus) {
            let (this, directory) = (self.clone(), directory.to_owned());
            start(k, move |k| this.shell(k, &directory, instance))?;
        }
        (0..self.instances(cpus)).try_for_each(|_| finish(k))
    }

    /// One script.
    fn shell<K: Kernel>(&self, k: &mut K, directory: &str, instance: u32) -> Result<(), JobError> {
        execute(k, &image(directory, "sh", self.shell))?;
        let own = format!("{directory}/i{instance}");
        call("mkdir", k.mkdir(&own))?;
        for _ in 0..self.rounds {
            for (at, step) in self.steps.iter().enumerate() {
                for time in 0..step.times {
                    self.step(k, directory, &own, at, time)?;
                }
            }
        }
        Ok(())
    }

    /// Step `at`, for the `time`th time.
    fn step<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        own: &str,
        at: usize,
        time: u32,
    ) -> Result<(), JobError> {
        let source = format!("{directory}/f{}", time % self.sources.max(1));
        let Some(program) = self.steps[at].program else {
            return self.act(k, &source, own, at, time);
        };
        let (this, own) = (self.clone(), own.to_owned());
        let program = image(directory, &format!("p{at}"), program);
        start(k, move |k| {
            execute(k, &program)?;
            this.act(k, &source, &own, at, time)
        })?;
        finish(k)
    }

    /// Executes the actions of the program of step `at`.
    fn act<K: Kernel>(
        &self,
        k: &mut K,
        source: &str,
        own: &str,
        at: usize,
        time: u32,
    ) -> Result<(), JobError> {
        let path = |name: &str| format!("{own}/{name}{time}");
        self.steps[at].acts.iter().try_for_each(|act| match act {
            Act::Make(name) => call("mkdir", k.mkdir(&path(name))),
            Act::Source => read_file(k, source),
            Act::Read(name) => read_file(k, &path(name)),
            Act::Write { name, block, blocks } => write_blocks(k, &path(name), *block, *blocks),
            Act::Stat(name) => call("stat", k.stat(&path(name))).map(|_| ()),
            Act::Miss(name) => {
                let there = k.stat(&path(name)) != Err(Errno::ENOENT);
                check(!there, "a file is there that should not be")
            }
            Act::List(name) => list(k, &path(name)),
            Act::Remove(name) => call("unlink", k.unlink(&path(name))),
            Act::Heap(kib) => {
                let bytes = *kib as usize * 1024;
                call("sbrk", k.sbrk(bytes as isize))?;
                call("touch", k.touch_heap(bytes, PAGE))
            }
            Act::Work(units) => work(k, units * self.loops_per_unit),
        })
    }
}

/// Writes a file of `blocks` blocks.
fn write_blocks<K: Kernel>(k: &mut K, path: &str, block: u64, blocks: u64) -> Result<(), JobError> {
    let buffer = vec![b'x'; (block as usize).max(BUFFER)];
    let fd = call("creat", k.open(path, Open::CREAT))?;
    (0..blocks).try_for_each(|_| write_all(k, fd, &buffer[..block as usize]))?;
    call("close", k.close(fd))
}
