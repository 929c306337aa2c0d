//! What the locks are tried with: scenarios for the checker, locks that must be caught, and the
//! check that the binary runs.
//!
//! [`check_semaphore`] explores every [`Shape`] with one variant; [`replay`] tells one order step
//! by step. The variants named `busted-...` are wrong on purpose: a checker that does not catch
//! them proves nothing about the others.

#![forbid(unsafe_code)]

mod busted;
mod check;
mod locks;
mod script;
mod shapes;

pub use busted::{LoadThenStoreLock, LoseUnit, LostWakeup, NoopLock, UnfairTicketLock};
pub use check::{BUSTED, CheckError, Replay, Row, VARIANTS, check, check_semaphore, replay};
pub use convoy_machine::model::Budget;
pub use locks::{Binary, Exclusive, Raw, exclusion};
pub use script::{Shape, Step, scenario};
pub use shapes::SHAPES;
