//! Errors of predictions.

use convoy_catalogue::CatalogueError;
use convoy_runs::virtual_end::VirtualError;

/// Errors that prevent a prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
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
    /// The record has no process.
    #[error("the record has no process; record the program again")]
    Empty,
    /// The throughput of the replay of the record did not settle within its limit of work.
    #[error("the replay of the record has no steady throughput within its limit of work")]
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
