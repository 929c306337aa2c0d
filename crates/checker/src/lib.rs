//! The model checker: an exploring platform ([`model`]), scenarios for it, locks that must be
//! caught, and the check that the binary runs. It knows nothing of the virtual machine.
//!
//! [`check_semaphore`] explores every [`Shape`] with one variant, [`check_zone`] every
//! [`ZoneShape`]; [`replay`] tells one order step by step. The variants named `busted-...` are
//! wrong on purpose: a checker that does not catch them proves nothing about the others.

mod busted;
mod check;
mod locks;
pub mod model;
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
pub use locks::{Binary, Exclusive, Irq, Raw, exclusion};
pub use model::Budget;
pub use script::{Shape, Step, scenario};
pub use shapes::SHAPES;
pub use zone::{Page, ZONE_SHAPES, ZoneShape, zone_scenario};
