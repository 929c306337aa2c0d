//! The host target: real processes, real system calls.
//!
//! [`Host`] is the kernel of this machine; [`run`](run::run) runs the load points of an experiment.

pub mod aim9;
mod board;
mod child;
pub mod clock;
mod costs;
mod error;
mod family;
mod groups;
mod hooks;
mod identity;
pub mod inject;
mod kernel;
mod limits;
mod point;
pub mod repeat;
pub mod run;
mod summary;
mod supervisor;
mod surroundings;
mod sys;
mod workdir;

pub use child::{ChildUsage, wait_with_usage};
pub use error::{At, HostError};
pub use hooks::Hooks;
pub use identity::describe_host;
pub use kernel::Host;
pub use limits::Shortage;
pub use run::{Finished, HostRun, Progress};
pub use surroundings::Surroundings;
pub use sys::aio::Engine;
pub use sys::bpf;
pub use sys::pthread;
pub use sys::samples;

/// Catches SIGINT, SIGTERM and SIGHUP while it lives, so that a long command can end in order.
#[derive(Debug)]
pub struct Interrupts(
    #[expect(dead_code, reason = "its drop restores the handlers")] sys::InterruptGuard,
);

impl Interrupts {
    /// Catches them from now on.
    pub fn catch() -> Self {
        Self(sys::InterruptGuard::new())
    }

    /// Whether one has come.
    #[expect(clippy::unused_self, reason = "the flag means something only while they are caught")]
    pub fn pending(&self) -> bool {
        sys::interrupted()
    }
}
