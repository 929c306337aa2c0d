//! What can go wrong on the host, each with its cure. All are errors of the environment.

use std::path::PathBuf;

use convoy_workload::Errno;

use convoy_workload::jobs::JobError;
use convoy_workload::record::Cause;
use convoy_workload::users::counted;

/// Where a load point failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The user, from 1.
    pub user: Option<u32>,
    /// The job.
    pub job: Option<&'static str>,
    /// The system call.
    pub call: Option<String>,
    /// The error.
    pub errno: Option<Errno>,
}

/// A limit that is too low.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {need}, has {have} ({cure})")]
pub struct Shortage {
    /// What there is too little of.
    pub what: &'static str,
    /// The users' requirement.
    pub need: u64,
    /// What there is.
    pub have: u64,
    /// The command that cures it.
    pub cure: String,
}

/// Why a run on the host ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No directory can be made to work in.
    #[error(
        "cannot make a work directory in {}: {source}; \
         name one that is writable and has room with --dir",
        path.display()
    )]
    WorkDirectory {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The jobs execute scripts of the work directory.
    #[error("programs cannot be executed in {} (noexec); name another with --dir", path.display())]
    NoPrograms {
        /// The directory.
        path: PathBuf,
    },
    /// The work directory is full.
    #[error(
        "no space left in {} ({what}); \
         free some, use fewer users, or name another with --dir",
        path.display()
    )]
    NoSpace {
        /// The directory that the work directory was in.
        path: PathBuf,
        /// Which job or step met it.
        what: String,
        /// The same for programs.
        at: At,
    },
    /// The limits of this machine or session are too low for this number of users.
    #[error(
        "there is not enough for {}: {}; cure this, use fewer users, or try --force",
        counted(*users),
        list(shortages)
    )]
    Limits {
        /// The users.
        users: u32,
        /// The limits that are too low.
        shortages: Vec<Shortage>,
    },
    /// The point finished, but without its whole load.
    #[error("the load point of {} failed: {}", counted(*users), cause.text)]
    Point {
        /// The users.
        users: u32,
        /// The first failure.
        cause: Cause,
    },
    /// The fixtures cannot be made.
    #[error(
        "cannot prepare a work directory in {}: {source}; {}",
        path.display(),
        prepare_cure(source)
    )]
    Prepare {
        /// The directory that the work directory was in.
        path: PathBuf,
        /// Why.
        source: JobError,
    },
    /// A user cannot be started.
    #[error(
        "cannot start user {user} of {users}: {errno} ({}); \
         use fewer users or raise the process limit (ulimit -u, pids.max)",
        errno.name()
    )]
    Fork {
        /// The user, from 1.
        user: u32,
        /// All of them.
        users: u32,
        /// Why.
        errno: Errno,
    },
    /// A limit of the system ended a job.
    #[error("user {user}: {what}; {cure}")]
    Limit {
        /// The user, from 1.
        user: u32,
        /// Job, call and error.
        what: String,
        /// What to raise.
        cure: &'static str,
        /// The same for programs.
        at: At,
    },
    /// An interrupt or a termination signal came.
    #[error("interrupted; what the run made has been removed, start it again to repeat")]
    Interrupted,
    /// The process that supervises the users was killed.
    #[error("the supervisor of the users was killed; check for memory pressure (dmesg) and repeat")]
    Supervisor,
    /// A system call of the run control failed.
    #[error(
        "{call}: {errno} ({}); check the limits of this session (ulimit -a) and repeat",
        errno.name()
    )]
    System {
        /// The call.
        call: &'static str,
        /// Why.
        errno: Errno,
    },
    /// No user finished.
    #[error(
        "no user of {} came to its end: killed; check for memory pressure (dmesg) and use fewer \
         users",
        counted(*users)
    )]
    AllLost {
        /// The users.
        users: u32,
    },
}

impl HostError {
    /// Whether it is the load point that failed, so that others may succeed; otherwise the run.
    pub fn is_of_point(&self) -> bool {
        !matches!(self, Self::Interrupted | Self::WorkDirectory { .. } | Self::NoPrograms { .. })
    }

    /// The error as the cause of the failure of a load point.
    pub fn cause(&self) -> Cause {
        let at = match self {
            Self::NoSpace { at, .. } | Self::Limit { at, .. } => at.clone(),
            Self::Prepare { source, .. } => At {
                call: source.call().map(str::to_owned),
                errno: source.errno(),
                ..At::default()
            },
            Self::Fork { user, errno, .. } => At {
                user: Some(*user),
                call: Some("fork".to_owned()),
                errno: Some(*errno),
                ..At::default()
            },
            Self::System { call, errno } => {
                At { call: Some((*call).to_owned()), errno: Some(*errno), ..At::default() }
            }
            Self::Point { cause, .. } => return cause.clone(),
            _ => At::default(),
        };
        at.cause(self.to_string())
    }
}

impl At {
    /// Returns the cause at this place, described by `text`.
    pub(super) fn cause(self, text: String) -> Cause {
        Cause {
            user: self.user,
            job: self.job.map(str::to_owned),
            call: self.call.filter(|call| !call.is_empty()),
            errno: self.errno.map(|errno| match errno.name() {
                "E?" => errno.0.to_string(),
                name => name.to_owned(),
            }),
            text,
        }
    }
}

/// The cure of a fixture that cannot be made.
fn prepare_cure(source: &JobError) -> &'static str {
    let limit = source.call().zip(source.errno()).and_then(|(call, errno)| limit_cure(call, errno));
    limit.unwrap_or("name another with --dir")
}

/// The shortages in one line.
fn list(shortages: &[Shortage]) -> String {
    shortages.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The cure of a limit that a job met, or `None` if the error is the job's own.
///
/// Such an error will meet every user: the load point is stopped, because its figures would mean
/// nothing.
pub(super) fn limit_cure(call: &str, errno: Errno) -> Option<&'static str> {
    match (call, errno) {
        (_, Errno::EMFILE) => Some("raise the limit of open files (ulimit -n)"),
        (_, Errno::ENFILE) => Some("raise fs.file-max or use fewer users"),
        ("semget", Errno::ENOSPC) => {
            Some("raise kernel.sem (its fourth number) or use fewer users")
        }
        ("shmget", Errno::ENOSPC) => Some("raise kernel.shmmni or use fewer users"),
        ("fork", Errno::EAGAIN) => Some("use fewer users or raise the process limit (ulimit -u)"),
        (_, Errno::EFBIG) => Some("raise the limit of file sizes (ulimit -f)"),
        (_, Errno::ENOMEM) => Some("use fewer users or free memory"),
        _ => None,
    }
}

/// Whether the work directory is full.
pub(super) fn is_full(call: &str, errno: Errno) -> bool {
    const EDQUOT: Errno = Errno(libc::EDQUOT);
    !matches!(call, "semget" | "shmget") && matches!(errno, Errno::ENOSPC | EDQUOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_directory_is_told_from_exhausted_ids() {
        assert!(is_full("write", Errno::ENOSPC) && is_full("creat", Errno(libc::EDQUOT)));
        assert!(!is_full("semget", Errno::ENOSPC));
        assert!(
            limit_cure("semget", Errno::ENOSPC).is_some_and(|cure| cure.contains("kernel.sem"))
        );
        assert!(limit_cure("write", Errno::ENOSPC).is_none());
        assert!(limit_cure("read", Errno::EAGAIN).is_none());
    }

    #[test]
    fn errors_are_one_line_with_a_cure() {
        let what = "disk_wrt: write".to_owned();
        let at = At { user: Some(2), job: Some("disk_wrt"), ..At::default() };
        let full = HostError::NoSpace { path: "/w".into(), what, at };
        let cause = full.cause();
        assert_eq!((cause.user, cause.job.as_deref()), (Some(2), Some("disk_wrt")));
        assert!(cause.text.contains("no space left"));
        let fork = HostError::Fork { user: 3, users: 9, errno: Errno::EAGAIN };
        for text in [full.to_string(), fork.to_string(), HostError::Interrupted.to_string()] {
            assert!(text.contains(';') && !text.contains('\n'), "{text}");
        }
    }
}
