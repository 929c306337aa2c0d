//! Inputs of a simulation, as stored in JSON and records.

use convoy_catalogue::Source;
use convoy_kernel::FileSystem;
use convoy_workload::dialect::Dialect;
use serde::{Deserialize, Serialize};

use crate::virtual_run::VirtualRun;

/// The inputs of simulations that differ in their number of users only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Version of this form: fields are added, none changes its meaning.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// The kernel.
    pub kernel: Source,
    /// The machine.
    pub machine: Source,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The mix.
    pub mix: Source,
    /// The original of the jobs.
    pub dialect: Dialect,
    /// Jobs that one user runs.
    pub jobs_per_user: u32,
    /// Size of a user's file without its share of the pool, KB.
    pub file_kb: u64,
    /// Size that all users' files share, KB.
    pub pool_kb: u64,
    /// File system of the work directory: `tmpfs` or `journal`.
    pub file_system: String,
    /// Milliseconds of one request to the disk.
    pub disk_ms: f64,
    /// Start delay, seconds.
    pub start_delay_s: f64,
    /// Divisor of the loop counts of the jobs.
    pub shrink: u32,
    /// The seed.
    pub seed: u64,
}

impl Inputs {
    /// Returns the inputs of `run`, with the sources of its kernel and machine.
    pub fn of(run: &VirtualRun, kernel: &Source, machine: &Source) -> Self {
        let file_system = match run.file_system {
            FileSystem::Tmpfs => "tmpfs",
            FileSystem::Journal(_) => "journal",
        };
        Self {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel.clone(),
            machine: machine.clone(),
            cpus: run.machine.topology.cpus,
            mix: run.mix.source.clone(),
            dialect: run.mix.dialect,
            jobs_per_user: run.mix.jobs_per_user(),
            file_kb: run.mix.sizes.file_kb,
            pool_kb: run.mix.sizes.pool_kb,
            file_system: file_system.to_owned(),
            disk_ms: run.machine.disk.latency_ns / 1e6,
            start_delay_s: run.start_delay_ns as f64 / 1e9,
            shrink: run.shrink,
            seed: run.seed,
        }
    }
}
