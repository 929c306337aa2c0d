//! The result of a developer command.

use std::process::Command;

use anyhow::{Context, bail};

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
            Some(1) => Self::Finding,
            Some(2) => Self::Usage,
            _ => bail!("{}: {status}", shown(command)),
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
        let [done, finding, usage] = ["exit 0", "exit 1", "exit 2"]
            .map(|script| Outcome::of(Command::new("sh").args(["-c", script])).unwrap());
        assert!(matches!(done, Outcome::Done));
        assert!(matches!(finding, Outcome::Finding));
        assert!(matches!(usage, Outcome::Usage));
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
