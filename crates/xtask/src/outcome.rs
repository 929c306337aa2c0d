//! The result of a developer command.

use crate::stage::Ending;

/// The result of a developer command; docs/exit-codes.md lists the codes.
pub(crate) enum Outcome {
    Done,
    Finding,
    Usage,
}

impl Outcome {
    /// Returns the outcome as the ending of a stage.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Done => Ending::Passed,
            Self::Finding | Self::Usage => Ending::Failed,
        }
    }
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Passed => Self::Done,
            _ => Self::Finding,
        }
    }
}
