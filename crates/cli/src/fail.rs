//! Failures and their exit codes, see docs/exit-codes.md.

use std::fmt::Display;
use std::process::ExitCode;

/// The command worked and found what it looked for.
pub(crate) const FINDING: u8 = 1;
const USAGE: u8 = 2;
const ENVIRONMENT: u8 = 3;

/// Why a command ends without doing what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command cannot be understood as given.
    pub(crate) fn usage(error: impl Display) -> Self {
        Self { code: USAGE, message: error.to_string() }
    }

    /// The machine refuses something.
    pub(crate) fn environment(error: impl Display) -> Self {
        Self { code: ENVIRONMENT, message: error.to_string() }
    }

    /// Prints the message in one line and gives the exit code.
    #[expect(clippy::print_stderr, reason = "messages go to standard error")]
    pub(crate) fn report(&self) -> ExitCode {
        let mut line = String::with_capacity(self.message.len());
        for part in self.message.lines() {
            let part = part.trim();
            if !line.is_empty() && !part.is_empty() {
                line.push_str("; ");
            }
            line.push_str(part);
        }
        eprintln!("convoy: {line}");
        ExitCode::from(self.code)
    }
}
