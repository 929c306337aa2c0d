//! The host target: real processes, real system calls.
//!
//! [`Host`] is the kernel of this machine; [`run`](run::run) runs the load points of an experiment.

mod board;
mod costs;
mod error;
mod family;
mod identity;
pub mod inject;
mod kernel;
mod limits;
mod point;
pub mod repeat;
pub mod run;
mod stop;
mod summary;
mod supervisor;
mod sys;
mod workdir;

pub use error::{At, HostError, Shortage};
pub use identity::describe_host;
pub use kernel::Host;
pub use run::{Finished, HostRun, Progress};
pub use sys::aio::Engine;

/// Runs `body` on this machine's kernel, in a fresh directory that is removed afterwards.
///
/// # Errors
/// [`HostError`], if no directory can be made.
pub fn in_work_directory<T>(body: impl FnOnce(&mut Host, &str) -> T) -> Result<T, HostError> {
    let directory = workdir::WorkDir::new(None)?;
    let name = directory.name();
    Ok(body(&mut Host::new(&name), &name))
}
