//! `convoy with`: runs an unmodified program with replacement locks.

use crate::fail::Failure;
use clap::{Args, ValueEnum};
use convoy_record::launch;
use convoy_record::sites::{RANGES, Sites};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Replacement policy for a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mutex {
    /// Barging is allowed; waiters spin for 100 iterations, then sleep.
    Spin,
    /// Barging is allowed; waiters sleep immediately, as in glibc.
    Sleep,
    /// Barging is allowed, but bounded in time.
    Fair,
    /// The owner hands the lock to the thread that has waited longest.
    Handoff,
}

/// Replacement policy for a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Semaphore {
    /// The poster hands its unit to the thread that has waited longest.
    Handoff,
}

/// Heading of the flags in the help.
const HEADING: &str = "Locks instead of libc's";

/// Locks that replace libc's.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Policies {
    /// Replace normal and adaptive mutexes private to a process
    #[arg(long, value_enum, value_name = "POLICY", help_heading = HEADING)]
    mutex: Option<Mutex>,
    /// Replace semaphores private to a process
    #[arg(long, value_enum, value_name = "POLICY", help_heading = HEADING)]
    sem: Option<Semaphore>,
    /// Replace the mutexes of one site: `file.c:12`, a variable, or a function that creates or
    /// first acquires them, as `explain` prints it (repeatable)
    #[arg(long, value_name = "SITE=POLICY", value_parser = chosen)]
    #[arg(help_heading = HEADING)]
    lock: Vec<(String, String)>,
}

/// A place and a policy.
fn chosen(text: &str) -> Result<(String, String), String> {
    let (site, policy) =
        text.rsplit_once('=').filter(|(site, _)| !site.is_empty()).ok_or("expected SITE=POLICY")?;
    let policy = Mutex::from_str(policy, false).map_err(|_| {
        let names = Mutex::value_variants().iter().map(|one| name(Some(one)));
        format!("unknown policy `{policy}`; choose one of {}", names.collect::<Vec<_>>().join(", "))
    })?;
    Ok((site.to_owned(), name(Some(&policy))))
}

impl Policies {
    /// Passes the policies to the object in `program`; places are found in the files of the
    /// program.
    pub(crate) fn set(&self, command: &mut Command, program: &OsStr) -> Result<(), Failure> {
        let ranges = if self.lock.is_empty() {
            String::new()
        } else {
            let found = Sites::of(program).and_then(|sites| sites.ranges(&self.lock));
            found.map_err(Failure::usage)?
        };
        for (key, value) in
            [("CONVOY_MUTEX", self.mutex()), ("CONVOY_SEM", self.sem()), (RANGES, ranges)]
        {
            command.env_remove(key);
            if !value.is_empty() {
                command.env(key, value);
            }
        }
        Ok(())
    }

    /// Places with a separate policy.
    pub(crate) fn locks(&self) -> &[(String, String)] {
        &self.lock
    }

    /// Policy of mutexes; empty if they are not replaced.
    pub(crate) fn mutex(&self) -> String {
        name(self.mutex.as_ref())
    }

    /// Policy of semaphores; empty if they are not replaced.
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
    /// The replacement policies.
    #[command(flatten)]
    policies: Policies,
    /// The program and its arguments, after `--`
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// The command: becomes the program.
pub(crate) fn run(args: &With) -> Result<ExitCode, Failure> {
    let policies = &args.policies;
    if policies.mutex.is_none() && policies.sem.is_none() && policies.lock.is_empty() {
        return Err(Failure::usage(
            "say what to put in place: --mutex POLICY, --sem POLICY or --lock SITE=POLICY",
        ));
    }
    if let Some(reason) = launch::refusal(&args.words[0]) {
        return Err(Failure::usage(format!("nothing would change: {reason}")));
    }
    let mut command = launch::command(&args.words, &launch::object()?);
    policies.set(&mut command, &args.words[0])?;
    convoy_os::as_started(&mut command);
    let error = command.exec();
    Err(Failure::start(&args.words[0], &error))
}
