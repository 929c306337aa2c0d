//! Errors of predictions.

use convoy_catalogue::CatalogueError;
use convoy_runs::virtual_end::VirtualError;

/// Errors that prevent a prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The record has several kinds of mutexes.
    #[error(
        "the program was recorded with --lock, so that its mutexes are of several kinds; record \
         it without --lock"
    )]
    SeveralLocks,
    /// The record has only contended acquisitions.
    #[error(
        "the record has only acquisitions that had to wait (--contended), so the work between \
         them is not known; record the program again without --contended"
    )]
    OnlyContended,
    /// The record was imported.
    #[error(
        "the record was imported from {tool}, which does not record the work between \
         acquisitions; record the program with convoy record"
    )]
    Imported {
        /// The tool.
        tool: String,
    },
    /// The record has counts or times that are impossible in a recording.
    #[error(
        "the record is damaged: it has more acquisitions than can be counted, or times longer than \
         the recording; record the program again"
    )]
    Damaged,
    /// No lock was acquired.
    #[error("no lock was acquired, so no lock limits the program{}", because(.beyond.as_deref()))]
    NoLock {
        /// The verdict of the account, if threads waited for something other than a lock.
        beyond: Option<String>,
    },
    /// The throughput of the replay of the record did not settle within its limit of work.
    #[error(
        "the replay of the record has no steady throughput within the work that a simulation may \
         take, so nothing follows for other CPUs or locks"
    )]
    Unsteady,
    /// A preset cannot be loaded.
    #[error(transparent)]
    Preset(#[from] CatalogueError),
    /// A kernel price of the machine preset is unknown.
    #[error("{machine}: {problem}")]
    Costs {
        /// The machine.
        machine: String,
        /// The error.
        problem: String,
    },
    /// A simulation failed.
    #[error(transparent)]
    Virtual(VirtualError),
}

impl From<VirtualError> for PredictError {
    fn from(error: VirtualError) -> Self {
        match error {
            VirtualError::OperationLimit { .. } => Self::Unsteady,
            error => Self::Virtual(error),
        }
    }
}

fn because(beyond: Option<&str>) -> String {
    beyond.map(|text| format!(": {text}")).unwrap_or_default()
}
