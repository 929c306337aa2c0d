//! The host target: real processes, real system calls.
//!
//! [`Host`] is the kernel of this machine; [`run`](run::run) runs the load points of an experiment.

mod board;
mod costs;
mod error;
mod kernel;
mod point;
pub mod run;
mod supervisor;
pub(crate) mod sys;
mod workdir;

pub use error::HostError;
pub use kernel::Host;
pub use run::{HostRun, Progress};
