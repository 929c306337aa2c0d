//! Jobs of the user's own: a command of a workfile that runs as a job, as AIM7's `aim_1` to `aim_3`
//! were meant to.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::api::{Exit, Kernel, ShellLine};
use crate::jobs::{Job, JobEnv, JobError, call};

/// Time that a command has where the workfile states none, seconds.
pub const TIMEOUT_S: u32 = 600;
/// Longest time that a workfile may state, seconds: a day.
pub const LONGEST_TIMEOUT_S: u32 = 86_400;
/// Longest name, characters: it is the heading of a table's row.
const LONGEST_NAME: usize = 32;

/// A command as a job. Jobs are `Copy`, so the description is leaked, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Command(&'static Written);

/// A command as a workfile or a record has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The job's name.
    pub name: String,
    /// The command line of the shell.
    pub command: String,
    /// How long it may take, seconds.
    pub timeout_s: u32,
}

/// A command that cannot be a job. A usage error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No name for a job.
    #[error(
        "\"{0}\" is no name for a job; use at most {LONGEST_NAME} letters, digits, _, - and ., \
         a letter first"
    )]
    Name(String),
    /// A job of AIM7 has that name.
    #[error("{0} is a job of AIM7; give your command another name")]
    Taken(String),
    /// Nothing to run.
    #[error("{0} has no command; write one after the =")]
    Nothing(String),
    /// No time, or more than a day.
    #[error("{0} may take {1} s; give it 1 to {LONGEST_TIMEOUT_S} s")]
    Timeout(String, u32),
}

/// Every command that this process has seen, so that the same one twice is kept once.
static KNOWN: Mutex<BTreeSet<&'static Written>> = Mutex::new(BTreeSet::new());

impl Command {
    /// The command as a job.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn new(written: Written) -> Result<Self, CommandError> {
        let Written { name, command, timeout_s } = &written;
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
            && name.len() <= LONGEST_NAME;
        if !is_name {
            return Err(CommandError::Name(name.clone()));
        }
        if Job::parse(name).is_some() {
            return Err(CommandError::Taken(name.clone()));
        }
        if command.trim().is_empty() {
            return Err(CommandError::Nothing(name.clone()));
        }
        if !(1..=LONGEST_TIMEOUT_S).contains(timeout_s) {
            return Err(CommandError::Timeout(name.clone(), *timeout_s));
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(&written) {
            return Ok(Self(same));
        }
        let kept: &'static Written = Box::leak(Box::new(written));
        known.insert(kept);
        Ok(Self(kept))
    }

    /// The job's name.
    pub const fn name(self) -> &'static str {
        self.0.name.as_str()
    }

    /// The command line of the shell.
    pub const fn line(self) -> &'static str {
        self.0.command.as_str()
    }

    /// How long it may take, seconds.
    pub const fn timeout_s(self) -> u32 {
        self.0.timeout_s
    }

    /// Runs it once, in the directory and for the user of `env`. It does not have loops to shrink.
    ///
    /// # Errors
    /// [`JobError::Command`] unless it ends with 0, [`JobError::Endless`] if it does not end.
    pub fn run<K: Kernel>(self, k: &mut K, env: &JobEnv) -> Result<(), JobError> {
        let line = ShellLine {
            line: self.line(),
            directory: &env.directory,
            user: env.user,
            timeout_s: self.timeout_s(),
        };
        match call("fork", k.command(&line))? {
            Some(Exit::Code(0)) => Ok(()),
            Some(exit) => Err(JobError::Command { exit }),
            None => Err(JobError::Endless { timeout_s: self.timeout_s() }),
        }
    }
}

impl From<Command> for Written {
    fn from(command: Command) -> Self {
        command.0.clone()
    }
}

impl TryFrom<Written> for Command {
    type Error = CommandError;

    fn try_from(written: Written) -> Result<Self, CommandError> {
        Self::new(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, command: &str, timeout_s: u32) -> Written {
        Written { name: name.to_owned(), command: command.to_owned(), timeout_s }
    }

    #[test]
    fn the_same_command_is_kept_once_and_comes_back_from_a_record() {
        let job = Job::Command(Command::new(written("aim_1", "true", 5)).expect("valid"));
        let text = serde_json::to_string(&[(job, 10), (Job::AddInt, 1)]).expect("serializable");
        assert!(text.ends_with("[\"add_int\",1]]"), "{text}");
        let again: [(Job, u32); 2] = serde_json::from_str(&text).expect("valid");
        assert_eq!(again[0].0, job);
        assert!(std::ptr::eq(job.name(), again[0].0.name()));
    }

    #[test]
    fn what_is_no_command_is_named() {
        fn error(name: &str, command: &str, s: u32) -> CommandError {
            Command::new(written(name, command, s)).expect_err("wrong")
        }
        assert!(matches!(error("1st", "true", 1), CommandError::Name(_)));
        assert!(matches!(error("a b", "true", 1), CommandError::Name(_)));
        assert!(matches!(error(&"x".repeat(33), "true", 1), CommandError::Name(_)));
        assert!(matches!(error("creat-clo", "true", 1), CommandError::Taken(_)));
        assert!(matches!(error("mine", " ", 1), CommandError::Nothing(_)));
        assert!(matches!(error("mine", "true", 0), CommandError::Timeout(..)));
    }
}
