//! Fault injection, to test how a run handles failures: an environment variable makes a system call
//! of one job fail.
//!
//! `CONVOY_INJECT=<error>@<job>:<n>` lets the calls that can give that error fail in the n-th run
//! of that job, in every user; n is 1 or more. The calls are not made; a job that tries again fails
//! again. docs/aim7.md lists the errors.

use convoy_workload::Errno;
use convoy_workload::api::Sys;

use convoy_workload::jobs::Job;

/// The variable.
pub const VARIABLE: &str = "CONVOY_INJECT";

/// An error that can be injected, and the calls that it is injected into.
struct Injectable {
    name: &'static str,
    errno: Errno,
    calls: &'static [&'static str],
}

const INJECTABLE: &[Injectable] = &[
    Injectable {
        name: "enospc",
        errno: Errno::ENOSPC,
        calls: &["write", "open", "mkdir", "link", "shmget", "semget"],
    },
    Injectable { name: "emfile", errno: Errno::EMFILE, calls: &["open", "pipe", "socket"] },
    Injectable { name: "enomem", errno: Errno::ENOMEM, calls: &["sbrk", "fork", "shmget"] },
    Injectable { name: "eaddrinuse", errno: Errno::EADDRINUSE, calls: &["socket"] },
    Injectable { name: "eagain", errno: Errno::EAGAIN, calls: &["fork"] },
    Injectable { name: "eio", errno: Errno::EIO, calls: &["read", "write"] },
];

/// A fault that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    errno: Errno,
    calls: &'static [&'static str],
    job: Job,
    run: u32,
}

/// The fault of one user, and how near it is.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    fault: Fault,
    runs: u32,
    /// Whether the calls that can fail do.
    due: bool,
}

/// A fault that makes no sense. A usage error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{VARIABLE}={text}: {problem}; write <error>@<job>:<n>, for example enospc@disk_wrt:2, with \
     one of the errors enospc, emfile, enomem, eaddrinuse, eagain, eio"
)]
pub struct FaultError {
    text: String,
    problem: String,
}

impl Fault {
    /// Parses the value of [`VARIABLE`].
    ///
    /// # Errors
    /// [`FaultError`].
    pub fn parse(text: &str) -> Result<Self, FaultError> {
        Self::read(text).map_err(|problem| FaultError { text: text.to_owned(), problem })
    }

    /// [`Self::parse`], with a description of the problem as the error.
    fn read(text: &str) -> Result<Self, String> {
        let (error, rest) = text.split_once('@').ok_or("it contains no @")?;
        let (job, run) = rest.split_once(':').unwrap_or((rest, "1"));
        let found = INJECTABLE.iter().find(|known| known.name.eq_ignore_ascii_case(error));
        let found = found.ok_or_else(|| format!("\"{error}\" cannot be injected"))?;
        let job = Job::parse(job).ok_or_else(|| format!("no job called \"{job}\""))?;
        let run = run.parse().ok().filter(|run| *run > 0);
        let run = run.ok_or("the run is not a number from 1")?;
        Ok(Self { errno: found.errno, calls: found.calls, job, run })
    }

    pub(super) fn arm(self) -> Armed {
        Armed { fault: self, runs: 0, due: false }
    }
}

impl Armed {
    /// Notes that a run of `job` begins.
    pub(super) fn begin(&mut self, job: Job) {
        self.runs += u32::from(job == self.fault.job);
        self.due = job == self.fault.job && self.runs == self.fault.run;
    }

    /// The injected error, if `call` is to fail.
    pub(super) fn check(&self, call: &str) -> Sys<()> {
        let fails = self.due && self.fault.calls.contains(&call);
        if fails { Err(self.fault.errno) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_comes_in_the_run_and_the_call_it_names() {
        let mut armed = Fault::parse("ENOSPC@disk_wrt:2").expect("valid").arm();
        armed.begin(Job::DiskWrt);
        assert_eq!(armed.check("write"), Ok(()));
        armed.begin(Job::AddInt);
        assert_eq!(armed.check("write"), Ok(()));
        armed.begin(Job::DiskWrt);
        assert_eq!(armed.check("read"), Ok(()));
        assert_eq!(armed.check("write"), Err(Errno::ENOSPC));
        assert_eq!(armed.check("write"), Err(Errno::ENOSPC), "as often as it is tried");
        armed.begin(Job::DiskWrt);
        assert_eq!(armed.check("write"), Ok(()));
    }

    #[test]
    fn nonsense_is_named_with_the_cure() {
        for text in ["", "enospc", "enospc@", "exxx@disk_wrt:1", "eio@none:1", "eio@disk_rd:0"] {
            let error = Fault::parse(text).expect_err(text).to_string();
            assert!(error.contains("CONVOY_INJECT=") && error.contains("enospc@disk_wrt:2"));
        }
        assert_eq!(Fault::parse("eio@disk_rd").map(|fault| fault.run), Ok(1));
    }
}
