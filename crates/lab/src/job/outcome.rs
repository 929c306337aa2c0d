//! Outcomes of cells, their presets, and reasons why a cell has none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

use convoy_catalogue::{CatalogueError, Source};
use convoy_kernel::KernelPreset;
use convoy_machine::Recorder;
use convoy_workload::load::MixError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::bulk::BulkUse;

/// Result of one execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Numbers by metric, without metrics that are not finite.
    pub metrics: BTreeMap<String, f64>,
    /// Schedule hash of a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_hash: Option<String>,
    /// The first job that failed, with its cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Outcome {
    /// The outcome with these numbers.
    pub fn of<'a>(metrics: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let finite = metrics.into_iter().filter(|(_, value)| value.is_finite());
        let metrics = finite.map(|(key, value)| (key.to_owned(), value)).collect();
        Self { metrics, ..Self::default() }
    }

    /// One number.
    pub fn metric(&self, key: &str) -> Option<f64> {
        self.metrics.get(key).copied()
    }
}

/// What hears of everything that happens on a virtual machine.
pub type Listener = Rc<RefCell<dyn Recorder>>;

/// Result of a recorded execution.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The same as without a recorder.
    pub outcome: Outcome,
    /// Bulk operations of the page allocator, zone by zone, where a kernel counts them.
    pub bulk: Vec<BulkUse>,
}

/// The cell of a target. Cells outside of virtual machines lack CPUs, kernels and events.
pub trait Cell {
    /// Executes it on the thread that calls.
    ///
    /// # Errors
    /// [`JobError`].
    fn run(&self) -> Result<Outcome, JobError>;

    /// Its seed; of a measurement, its round.
    fn seed(&self) -> u64;

    /// Returns the inputs that determine its outcome, except for its presets and its mix.
    fn settings(&self) -> Value;

    /// The presets it uses.
    fn parts(&self) -> &[Part] {
        &[]
    }

    /// CPUs of its virtual machine; `None` on this machine.
    fn cpus(&self) -> Option<usize> {
        None
    }

    /// The kernel preset that it runs on, if it has one.
    fn kernel(&self) -> Option<&KernelPreset> {
        None
    }

    /// Runs a workload or a loop over pages again and reports all events to `recorder`; `None` for
    /// all other cells.
    ///
    /// # Errors
    /// [`JobError`].
    fn record(&self, _recorder: Listener) -> Option<Result<Recorded, JobError>> {
        None
    }
}

/// Errors of executing a cell.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A preset cannot be loaded.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A mix cannot be loaded.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// An input is missing or makes no sense here.
    #[error("{key}: {problem}")]
    Input {
        /// The input.
        key: String,
        /// The problem, and the accepted values.
        problem: String,
    },
    /// The simulation failed.
    #[error(transparent)]
    Virtual(#[from] crate::virtual_end::VirtualError),
    /// The measurement of a lock failed.
    #[error(transparent)]
    Native(#[from] crate::native::NativeError),
    /// The load on this machine failed.
    #[error(transparent)]
    Host(#[from] convoy_host::HostError),
    /// A command failed, or did not print a number.
    #[error("`{line}`: {problem}")]
    Command {
        /// The command line.
        line: String,
        /// What happened.
        problem: String,
    },
    /// The CPUs cannot be chosen.
    #[error(transparent)]
    Cpus(#[from] convoy_os::clock::CpusError),
}

impl JobError {
    /// The input `key` makes no sense here.
    pub fn input(key: &str, problem: impl Display) -> Self {
        Self::Input { key: key.to_owned(), problem: problem.to_string() }
    }
}

/// A preset that a cell uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its kind.
    pub kind: &'static str,
    /// Its source.
    pub source: Source,
    /// Its content.
    pub content: Value,
}

/// SHA-256 of a text, hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hash, byte| {
        let _infallible = write!(hash, "{byte:02x}");
        hash
    })
}
