//! The model checker: an exploring platform ([`model`]), scenarios for it, locks that must be
//! caught, and the check that the binary runs. It knows nothing of the virtual machine.
//!
//! [`subjects`] lists what can be checked, [`select`] picks from it by name, [`Subject::check`]
//! explores every scenario of one; [`replay`] tells one order step by step. The subjects named
//! `busted-...` are wrong on purpose: a checker that does not catch them proves nothing about the
//! others.

mod busted;
mod check;
pub mod model;
mod rcu;
mod script;
mod shapes;
mod visits;
mod zone;

pub use check::{CheckError, Replay, Row, Subject, replay, select, subjects};
pub use model::{Budget, Property};
pub use rcu::{Move, RCU_SHAPES, RcuShape, rcu_scenario};
pub use script::{Shape, Step, script};
pub use shapes::SHAPES;
pub use visits::{Irq, READERS, WRITERS, together, visits};
pub use zone::{Page, ZONE_SHAPES, ZoneShape, zone_scenario};
