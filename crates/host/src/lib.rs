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
mod stop;
mod summary;
mod supervisor;
mod surroundings;
mod sys;
mod workdir;

pub use child::{ChildUsage, wait_with_usage};
pub use error::{At, HostError, Shortage};
pub use hooks::Hooks;
pub use identity::{describe_host, threads_per_core};
pub use kernel::Host;
pub use run::{Finished, HostRun, Progress};
pub use surroundings::Surroundings;
pub use sys::aio::Engine;
pub use sys::as_started;
pub use sys::bpf;
pub use sys::pthread;
pub use sys::samples;

use sys::relay::RelayGuard;

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

/// Catches what people and supervisors send to a command that runs another one, while it lives.
pub struct Relay(#[expect(dead_code, reason = "its drop restores the actions")] RelayGuard);

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Relay")
    }
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the terminal sent it: then all of the terminal's foreground has it.
    pub by_terminal: bool,
}

impl Relay {
    /// Catches them from now on: `SIGINT`, `SIGQUIT`, `SIGTERM`, `SIGHUP`, `SIGUSR1`, `SIGUSR2`,
    /// except those that are ignored.
    pub fn catch() -> Self {
        Self(RelayGuard::new())
    }

    /// The next one.
    #[expect(clippy::unused_self, reason = "there are none unless they are caught")]
    pub fn next(&self) -> Option<Arrived> {
        let (signal, by_terminal) = sys::relay::arrived()?;
        Some(Arrived { signal, by_terminal })
    }
}
