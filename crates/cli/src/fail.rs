//! Failures and their exit codes, see docs/exit-codes.md.

use crate::look;
use convoy_lab::job::JobError;
use convoy_lab::virtual_end::VirtualError;
use convoy_measure::MeasureError;
use convoy_report::middle;
use convoy_store::StoreError;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, ErrorKind};

/// The command worked and found what it looked for.
pub(crate) const FINDING: u8 = 1;
/// The command line or an input is wrong.
pub(crate) const USAGE: u8 = 2;
const ENVIRONMENT: u8 = 3;
/// A program exists but cannot be executed; as in a shell.
const NOT_EXECUTABLE: u8 = 126;
/// A program does not exist; as in a shell.
const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command; as in a shell.
pub(crate) const BY_SIGNAL: i32 = 128;
/// Characters of a word and of a message, so that no argument fills the terminal.
const LONGEST_WORD: usize = 400;
const LONGEST: usize = 4000;

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

    /// A program cannot be started.
    pub(crate) fn start(program: &OsStr, error: &io::Error) -> Self {
        let (code, cure) = match error.kind() {
            ErrorKind::NotFound => (NOT_FOUND, "is the name right?"),
            ErrorKind::WouldBlock => {
                (ENVIRONMENT, "no further process is allowed (ulimit -u, pids.max)")
            }
            ErrorKind::OutOfMemory => (ENVIRONMENT, "there is too little memory"),
            ErrorKind::ArgumentListTooLong => {
                (ENVIRONMENT, "the arguments and the environment are too long")
            }
            _ => (NOT_EXECUTABLE, "is it a program, and executable?"),
        };
        let name = program.to_string_lossy();
        Self { code, message: format!("cannot start `{name}`: {error}; {cure}") }
    }

    /// An interrupt came when `done` parts of the work had finished and been printed.
    pub(crate) fn interrupted(done: usize) -> Self {
        Self::environment(if done == 0 {
            format!("interrupted before anything had finished{}; start it again", so_far())
        } else {
            "interrupted; what had finished is printed, start it again for all".to_owned()
        })
    }

    /// Exit code of the command: after an interrupt, the code of a shell.
    pub(crate) fn code(&self) -> u8 {
        match convoy_os::interrupt() {
            Some(signal) if self.code == ENVIRONMENT => (BY_SIGNAL + signal) as u8,
            _ => self.code,
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The line that is printed.
    pub(crate) fn line(&self) -> String {
        look::plain(&format!("convoy: {}", bounded(&one_line(&self.message)))).into_owned()
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        match error {
            MeasureError::Request(_) => Self::usage(error),
            MeasureError::Machine(_) => Self::environment(error),
            MeasureError::Setting { name, problem } => Self::usage(format!("--{name}: {problem}")),
            MeasureError::Different(ref all) => {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                Self::usage(format!("{error} (--across {})", names.join(",")))
            }
            MeasureError::Failed { text, missing } => {
                let text = format!("{text} (--ignore-failure)");
                if missing { Self::usage(text) } else { Self::environment(text) }
            }
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Virtual(VirtualError::HostOnly { .. }) => Self::usage(error),
            _ => Self::environment(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        MeasureError::from(error).into()
    }
}

/// What the running simulations know, for a message about their interruption.
pub(crate) fn so_far() -> String {
    let known = convoy_lab::live::estimates();
    if known.is_empty() { String::new() } else { format!("; so far {}", known.join(" and ")) }
}

/// Shortens very long words of a message in the middle, and then the message.
fn bounded(message: &str) -> String {
    let words: Vec<String> = message.split(' ').map(|word| middle(word, LONGEST_WORD)).collect();
    middle(&words.join(" "), LONGEST)
}

/// The lines of a message as one, without the excerpts of the file that a parser draws.
fn one_line(message: &str) -> String {
    fn drawn(part: &str) -> bool {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        rest.starts_with('|')
    }
    let mut line = String::with_capacity(message.len());
    for part in message.lines().map(str::trim).filter(|part| !part.is_empty() && !drawn(part)) {
        if line.ends_with([':', '.']) {
            line.push(' ');
        } else if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let toml = "x.toml: TOML parse error at line 3, column 1\n  |\n3 | hitt = 4.0\n  | ^^^^\n\
                    unknown field `hitt`\n";
        assert_eq!(
            one_line(toml),
            "x.toml: TOML parse error at line 3, column 1; unknown field `hitt`"
        );
        assert_eq!(
            one_line("not provided:\n  <LOCK>\n\nUsage: x"),
            "not provided: <LOCK>; Usage: x"
        );
        assert_eq!(one_line("one"), "one");
    }

    #[test]
    fn an_argument_of_any_length_is_echoed_in_part() {
        let long = Failure::usage(format!("\"{}\" is no number", "9".repeat(300_000))).line();
        assert!(long.len() < 500 && long.ends_with("9\" is no number"), "{long}");
        let spaced = Failure::usage("9 ".repeat(300_000)).line();
        assert!(spaced.chars().count() < 5000, "{spaced}");
    }
}
