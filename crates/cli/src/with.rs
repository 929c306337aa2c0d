//! `convoy with`: an unmodified program under locks of ours.

use crate::fail::Failure;
use clap::{Args, ValueEnum};
use convoy_record::launch;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// What stands in place of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mutex {
    /// Free for whoever comes first; waiters look 100 times, then sleep.
    Spin,
    /// Free for whoever comes first; waiters sleep at once, as in glibc.
    Sleep,
    /// Free for whoever comes first; who has gone past others for long enough waits behind them.
    Fair,
    /// The releaser makes it over to the one that waits longest.
    Handoff,
}

/// What stands in place of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Semaphore {
    /// The poster makes its unit over to the one that waits longest.
    Handoff,
}

/// Locks in place of those of libc.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Locks in place of those of libc")]
pub(crate) struct Policies {
    /// Mutexes, normal and adaptive ones of one process
    #[arg(long, value_enum, value_name = "POLICY")]
    mutex: Option<Mutex>,
    /// Semaphores of one process
    #[arg(long, value_enum, value_name = "POLICY")]
    sem: Option<Semaphore>,
}

impl Policies {
    /// Tells the object in the program.
    pub(crate) fn set(&self, command: &mut Command) {
        for (key, name) in [("CONVOY_MUTEX", self.mutex()), ("CONVOY_SEM", self.sem())] {
            command.env_remove(key);
            if !name.is_empty() {
                command.env(key, name);
            }
        }
    }

    /// What stands in place of a mutex; empty: nothing.
    pub(crate) fn mutex(&self) -> String {
        name(self.mutex.as_ref())
    }

    /// What stands in place of a semaphore; empty: nothing.
    pub(crate) fn sem(&self) -> String {
        name(self.sem.as_ref())
    }
}

fn name(value: Option<&impl ValueEnum>) -> String {
    let name = value.and_then(ValueEnum::to_possible_value);
    name.map_or_else(String::new, |one| one.get_name().to_owned())
}

/// `convoy with`.
#[derive(Debug, Args)]
pub(crate) struct With {
    /// What stands in place of what.
    #[command(flatten)]
    policies: Policies,
    /// The program and its arguments, after `--`
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// The command: becomes the program.
pub(crate) fn run(args: &With) -> Result<ExitCode, Failure> {
    if args.policies.mutex.is_none() && args.policies.sem.is_none() {
        return Err(Failure::usage("say what to put in place: --mutex POLICY or --sem POLICY"));
    }
    if let Some(reason) = launch::refusal(&args.words[0]) {
        return Err(Failure::usage(format!("nothing would change: {reason}")));
    }
    let mut command = launch::command(&args.words, &launch::object()?);
    args.policies.set(&mut command);
    let error = command.exec();
    Err(cannot_start(&args.words[0], &error))
}

/// Why a program does not start.
pub(crate) fn cannot_start(word: &OsString, error: &std::io::Error) -> Failure {
    let name = word.to_string_lossy();
    let missing = [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind());
    let text = format!("cannot start `{name}`: {error}; is the name right, is it a program?");
    if missing { Failure::usage(text) } else { Failure::environment(text) }
}
