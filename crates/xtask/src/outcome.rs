//! The result of a developer command.

use std::process::Command;

use anyhow::Context;

use crate::stage::{Ending, shown};

/// The result of a developer command; docs/exit-codes.md lists the codes.
pub(crate) enum Outcome {
    Done,
    Finding,
    Usage,
}

impl Outcome {
    /// Runs a command that has the exit codes of this program.
    pub(crate) fn of(command: &mut Command) -> anyhow::Result<Self> {
        let status = command.status().with_context(|| shown(command))?;
        Ok(match status.code() {
            Some(0) => Self::Done,
            Some(2) => Self::Usage,
            _ => Self::Finding,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_of_scripts_are_passed_on() {
        let outcome = |code| Outcome::of(Command::new("sh").args(["-c", code])).unwrap();
        assert!(matches!(outcome("exit 0"), Outcome::Done));
        assert!(matches!(outcome("exit 1"), Outcome::Finding));
        assert!(matches!(outcome("exit 2"), Outcome::Usage));
    }

    #[test]
    fn predictions_have_known_columns() {
        let script = crate::root().join("benches/predictions.py");
        match Outcome::of(Command::new(script).arg("--check")) {
            Ok(outcome) => assert!(matches!(outcome, Outcome::Done)),
            Err(error) => println!("skipped without Python: {error:#}"),
        }
    }
}
