//! Counts of one job.

use super::Counting;
use crate::api::Kernel as _;
use crate::jobs::{Job, JobEnv, JobError, call};
use crate::user::setup;

/// Returns a kernel with the fixtures of the jobs and no counts.
///
/// # Errors
/// Fails if a fixture cannot be made.
pub fn prepared(env: &JobEnv) -> Result<Counting, JobError> {
    let mut kernel = Counting::new();
    call("mkdir", kernel.mkdir(&env.directory))?;
    setup(&mut kernel, env)?;
    kernel.reset();
    Ok(kernel)
}

/// Returns the counts of one run of `job`.
///
/// # Errors
/// Fails as the job does.
pub fn run_of(job: Job, env: &JobEnv) -> Result<Counting, JobError> {
    let mut kernel = prepared(env)?;
    job.run(&mut kernel, env)?;
    Ok(kernel)
}
