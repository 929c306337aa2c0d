//! The body of one user, the same lines on every kernel.

use crate::api::Kernel;

use crate::fixture;
use crate::jobs::{Job, JobEnv, JobError, call};

/// One finished run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDone {
    /// The job.
    pub job: Job,
    /// How long it took, nanoseconds by the kernel's clock.
    pub ns: u64,
    /// How it ended.
    pub result: Result<(), JobError>,
}

/// Whether the user continues after a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next job of its order.
    Continue,
    /// Not at all: the environment is broken.
    Stop,
}

/// Runs the jobs of `order` once, in that order, and calls `log` for each. Returns how many
/// succeeded.
pub fn user_main<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    order: &[Job],
    mut log: impl FnMut(&JobDone) -> Next,
) -> u64 {
    let mut succeeded = 0;
    for &job in order {
        let start = k.now();
        let result = job.run(k, env);
        let done = JobDone { job, ns: k.now().saturating_sub(start), result };
        succeeded += u64::from(done.result.is_ok());
        if log(&done) == Next::Stop {
            break;
        }
    }
    succeeded
}

/// Makes the files of a load point in the work directory, which must exist and be empty.
///
/// # Errors
/// The first system call that fails.
pub fn setup<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    call("chdir", k.chdir(&env.directory))?;
    fixture::make_tree(k, env)?;
    fixture::make_common(k, env)
}
