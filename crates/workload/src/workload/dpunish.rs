//! Look-ups and renames in parallel, in several file systems: what stresses the cache of names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{finish, start, write_file};
use crate::api::Kernel;
use crate::errno::Errno;
use crate::jobs::{JobError, call};

/// Amounts of such a storm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dpunish {
    /// Processes, whatever the CPUs.
    #[schemars(range(min = 1, max = 10_000))]
    pub processes: u32,
    /// File systems in memory; each has two directories, and the processes are spread over them.
    #[schemars(range(min = 1, max = 64))]
    pub file_systems: u32,
    /// Files that each process renames, one after the other, from one directory to the other.
    #[schemars(range(min = 1, max = 100_000))]
    pub files: u32,
    /// Look-ups between two renames, of files of all processes in that file system.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub lookups: u32,
    /// Renames of each process.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub renames: u32,
    /// One in this many renames is executed, and the times are multiplied: all renames are alike.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub share: u32,
}

/// The file system of a process, and its number among those that work there.
fn place(volumes: &[String], process: u32) -> (&str, u32) {
    let count = volumes.len() as u32;
    (&volumes[(process % count) as usize], process / count)
}

/// Names are looked up in an order that no cache expects, the same in each run (xorshift).
fn next(random: &mut u32) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    *random
}

/// A file, from the root of its file system.
fn path(directory: u32, process: u32, file: u32) -> String {
    format!("d{directory}/p{process}f{file}")
}

impl Dpunish {
    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, volumes: &[String]) -> Result<(), JobError> {
        for volume in volumes {
            for directory in 0..2 {
                call("mkdir", k.mkdir(&format!("{volume}/d{directory}")))?;
            }
        }
        for process in 0..self.processes {
            let (volume, number) = place(volumes, process);
            for file in 0..self.files {
                write_file(k, &format!("{volume}/{}", path(0, number, file)), 0)?;
            }
        }
        Ok(())
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, volumes: &[String]) -> Result<(), JobError> {
        for process in 0..self.processes {
            let (this, volumes) = (self.clone(), volumes.to_vec());
            start(k, move |k| this.process(k, &volumes, process))?;
        }
        (0..self.processes).try_for_each(|_| finish(k))
    }

    /// One process.
    fn process<K: Kernel>(
        &self,
        k: &mut K,
        volumes: &[String],
        process: u32,
    ) -> Result<(), JobError> {
        let (volume, number) = place(volumes, process);
        let beside = self.processes.div_ceil(volumes.len() as u32);
        // Walks from here on meet no mount and no directory that all processes share.
        call("chdir", k.chdir(volume))?;
        let mut random = 0x2007 + process;
        for turn in 0..(self.renames / self.share).max(1) {
            let (file, there) = (turn % self.files, turn / self.files % 2);
            for _ in 0..self.lookups {
                let chosen = next(&mut random);
                let looked = chosen / beside % self.files;
                // Where its own file is. That of another process may have moved on, or not yet.
                let moved = u32::from(looked < file);
                match k.stat(&path(there ^ moved, chosen % beside, looked)) {
                    Ok(_) | Err(Errno::ENOENT) => {}
                    Err(errno) => return call("stat", Err(errno)),
                }
            }
            let (old, new) = (path(there, number, file), path(1 - there, number, file));
            call("rename", k.rename(&old, &new))?;
        }
        Ok(())
    }
}
