//! What the locks are tried with: scenarios for the checker, locks that must be caught, and the
//! check that the binary runs.
//!
//! [`check_semaphore`] explores every [`Shape`] with one variant, [`check_zone`] every
//! [`ZoneShape`]; [`replay`] tells one order step by step. The variants named `busted-...` are
//! wrong on purpose: a checker that does not catch them proves nothing about the others.

#![forbid(unsafe_code)]

mod busted;
mod check;
mod locks;
mod script;
mod shapes;
mod zone;

pub use busted::{
    LoadThenStoreLock, LoseUnit, LostWakeup, NoopLock, SilentWaiter, UnfairTicketLock,
};
pub use check::{
    BUSTED, CheckError, LOCKS, Replay, Row, VARIANTS, ZONE_VARIANTS, check, check_lock,
    check_semaphore, check_zone, replay,
};
pub use convoy_machine::model::Budget;
pub use locks::{Binary, Exclusive, Irq, Raw, exclusion};
pub use script::{Shape, Step, scenario};
pub use shapes::SHAPES;
pub use zone::{Page, ZONE_SHAPES, ZoneShape, zone_scenario};
