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
    /// Replace mutexes private to a process: spin, sleep, fair, fair:2ms or handoff
    ///
    /// Normal and adaptive mutexes. `spin`: waiters spin for 100 iterations, then sleep. `sleep`:
    /// they sleep immediately, as in glibc. `fair`: barging is bounded, by 5 ms or by the time
    /// behind the colon. `handoff`: the owner hands the lock to the thread that has waited longest.
    #[arg(long, value_name = "POLICY", value_parser = replacement, help_heading = HEADING)]
    mutex: Option<Replacement>,
    /// Replace semaphores private to a process
    #[arg(long, value_enum, value_name = "POLICY", help_heading = HEADING)]
    sem: Option<Semaphore>,
    /// Replace the mutexes of one site: `file.c:12`, a variable, or a function that creates or
    /// first acquires them, as `explain` prints it (repeatable)
    #[arg(long, value_name = "SITE=POLICY", value_parser = chosen)]
    #[arg(help_heading = HEADING)]
    lock: Vec<(String, String)>,
}

/// A policy for all mutexes, with the bound of `fair` in milliseconds if one was given.
#[derive(Clone, Copy, Debug)]
struct Replacement {
    policy: Mutex,
    bound_ms: Option<f64>,
}

impl Replacement {
    /// Returns the policy, with its bound as `write` writes milliseconds.
    fn text(self, write: impl Fn(f64) -> String) -> String {
        let bound = self.bound_ms.map(|ms| format!(":{}", write(ms)));
        name(Some(&self.policy)) + &bound.unwrap_or_default()
    }
}

/// A policy, or `fair:` and its bound.
fn replacement(text: &str) -> Result<Replacement, String> {
    /// A tenth of a time slice to the longest wait that a person calls an answer.
    const BOUNDS_MS: std::ops::RangeInclusive<f64> = 0.1..=1000.0;
    let Some(bound) = text.strip_prefix("fair:") else {
        return Ok(Replacement { policy: policy(text)?, bound_ms: None });
    };
    let ms = bound.strip_suffix("ms").and_then(|ms| ms.parse().ok());
    let ms = ms.filter(|ms| BOUNDS_MS.contains(ms));
    let ms = ms.ok_or("expected a bound between 0.1ms and 1000ms, such as fair:5ms")?;
    Ok(Replacement { policy: Mutex::Fair, bound_ms: Some(ms) })
}

fn policy(text: &str) -> Result<Mutex, String> {
    Mutex::from_str(text, false).map_err(|_| {
        let names = Mutex::value_variants().iter().map(|one| name(Some(one)));
        format!("unknown policy `{text}`; choose one of {}", names.collect::<Vec<_>>().join(", "))
    })
}

/// A place and a policy.
fn chosen(text: &str) -> Result<(String, String), String> {
    let (site, policy) =
        text.rsplit_once('=').filter(|(site, _)| !site.is_empty()).ok_or("expected SITE=POLICY")?;
    Ok((site.to_owned(), name(Some(&self::policy(policy)?))))
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
        let mutex = self.mutex.map(|mutex| mutex.text(|ms| format!("{:.0}", ms * 1e6)));
        let mutex = mutex.unwrap_or_default();
        for (key, value) in [("CONVOY_MUTEX", mutex), ("CONVOY_SEM", self.sem()), (RANGES, ranges)]
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

    /// Policy of mutexes, with its bound; empty if they are not replaced.
    pub(crate) fn mutex(&self) -> String {
        self.mutex.map(|mutex| mutex.text(|ms| format!("{ms}ms"))).unwrap_or_default()
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
