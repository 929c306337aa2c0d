//! One cell of an experiment with one seed: its resolved inputs, their hash, and what executing it
//! gives.
//!
//! A simulation is a pure function of its inputs, so its outcome may be kept under their hash and
//! taken from there. A measurement is kept in the same way, so that an interrupted sweep can
//! continue.

mod command;
mod disks;
mod host;
mod locks;
mod outcome;
mod sim;
mod work;
mod zone;

use std::collections::BTreeMap;
use std::ops::Deref;

use serde_json::{Value, json};

pub use command::CommandJob;
pub use disks::Disks;
pub use host::HostJob;
pub use locks::LocksJob;
pub(crate) use outcome::sha256;
pub use outcome::{Cell, JobError, Listener, Outcome, Part, Recorded};
pub use sim::{SimInputs, SimJob};
pub use work::WorkJob;
pub use zone::ZoneJob;

use crate::experiment::{Inputs, Target};

/// Version of [`Outcome`] and of the inputs of a cell's hash.
pub const SCHEMA: u32 = 1;

/// A cell with its inputs resolved.
#[derive(Clone, Debug)]
pub enum Job {
    /// AIM7 on the virtual kernel.
    Sim(Box<SimJob>),
    /// A lock loop.
    Locks(Box<LocksJob>),
    /// Pages in a loop.
    Zone(Box<ZoneJob>),
    /// A workload on the virtual kernel.
    Work(Box<WorkJob>),
    /// AIM7 on this machine.
    Host(Box<HostJob>),
    /// A command on this machine.
    Command(Box<CommandJob>),
}

impl Job {
    /// The cell of `target` with these inputs.
    ///
    /// # Errors
    /// [`JobError`]: a preset, a mix or an input.
    pub fn new(target: Target, inputs: &Inputs) -> Result<Self, JobError> {
        Ok(match target {
            Target::Sim => Self::Sim(Box::new(SimJob::new(inputs)?)),
            Target::Locks => Self::Locks(Box::new(LocksJob::new(inputs)?)),
            Target::Zone => Self::Zone(Box::new(ZoneJob::new(inputs)?)),
            Target::Work => Self::Work(Box::new(WorkJob::new(inputs)?)),
            Target::Host => Self::Host(Box::new(HostJob::new(inputs)?)),
            Target::Command => Self::Command(Box::new(CommandJob::new(inputs)?)),
        })
    }

    /// Returns whether it measures this machine and so has to run alone.
    pub fn measures(&self) -> bool {
        self.cpus().is_none()
    }

    /// The same load on this machine; pages and workloads are on a virtual one only.
    #[must_use]
    pub fn native(&self) -> Self {
        match self {
            Self::Sim(job) => Self::Host(Box::new(HostJob::of(job))),
            Self::Locks(job) => Self::Locks(Box::new(job.native())),
            _ => self.clone(),
        }
    }

    /// AIM7 on the virtual kernel, if it is that.
    pub fn sim(&self) -> Option<&SimJob> {
        match self {
            Self::Sim(job) => Some(job),
            _ => None,
        }
    }

    /// Where it is executed.
    pub fn target(&self) -> Target {
        match self {
            Self::Sim(_) => Target::Sim,
            Self::Locks(_) => Target::Locks,
            Self::Zone(_) => Target::Zone,
            Self::Work(_) => Target::Work,
            Self::Host(_) => Target::Host,
            Self::Command(_) => Target::Command,
        }
    }

    /// All that decides its outcome, presets and mix by the hashes of their content. Equal content
    /// has an equal hash on every machine.
    pub fn content(&self) -> Value {
        let parts: BTreeMap<&str, &str> =
            self.parts().iter().map(|part| (part.kind, part.source.hash.as_str())).collect();
        let (target, inputs) = (self.target(), self.settings());
        json!({ "schema": SCHEMA, "target": target, "parts": parts, "inputs": inputs })
    }

    /// SHA-256 of [`Job::content`], hexadecimal.
    pub fn hash(&self) -> String {
        sha256(&self.content().to_string())
    }
}

impl Deref for Job {
    type Target = dyn Cell;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Sim(job) => &**job,
            Self::Locks(job) => &**job,
            Self::Zone(job) => &**job,
            Self::Work(job) => &**job,
            Self::Host(job) => &**job,
            Self::Command(job) => &**job,
        }
    }
}
