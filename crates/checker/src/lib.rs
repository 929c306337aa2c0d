//! The model checker: an exploring platform ([`model`]), scenarios for it, broken locks that it
//! must catch, and the check that the binary runs. It does not depend on the virtual machine.
//!
//! [`subjects`] lists the locks, [`select`] selects by name, [`Subject::check`] explores every
//! scenario of a lock, and [`replay`] prints one interleaving step by step. The subjects named
//! `busted-...` are deliberately wrong: a checker that does not catch them proves nothing about the
//! others.
//!
//! # Checking your own lock
//!
//! Write the lock over [`Platform`](convoy_sync::Platform), implement [`Lock`](convoy_sync::Lock),
//! and check it on [`Model`](model::Model) in a test. The same source runs on threads with
//! [`Native`](convoy_sync::Native). The crate `examples/own-lock` in the source tree does this.
//!
//! ```
//! use convoy_checker::{Budget, Property, Subject, model::Model};
//! use convoy_sync::{Atomic, Lock, Platform, Sleep};
//! use std::sync::atomic::Ordering::SeqCst;
//!
//! struct Hasty<P: Platform>(P::AtomicU32);
//!
//! impl<P: Platform> Lock for Hasty<P> {
//!     fn with_units(_: u32) -> Self {
//!         Self(P::AtomicU32::new(0))
//!     }
//!     fn acquire(&self) {
//!         while self.0.swap(1, SeqCst) == 1 {
//!             P::wait(&self.0, 1, Sleep::Uninterruptible, None);
//!         }
//!     }
//!     fn try_acquire(&self) -> bool {
//!         self.0.swap(1, SeqCst) == 0
//!     }
//!     fn release(&self) {
//!         self.0.store(0, SeqCst); // without waking a waiter
//!     }
//! }
//!
//! let hasty = Subject::of::<Hasty<Model>>("hasty", &[]);
//! let broken = hasty.sound(Budget::default()).unwrap_err();
//! assert_eq!(broken.property, Property::NoLostWakeup);
//! assert_eq!(hasty.replay(&broken.schedule).unwrap().violation.unwrap().0, broken.property);
//! ```

mod busted;
mod check;
pub mod model;
mod orderings;
mod rcu;
mod script;
mod shapes;
mod starvation;
mod subject;
mod upgrades;
mod visits;
mod zone;

pub use check::{replay, select, subjects};
pub use model::{Budget, Memory, Order, Part, Property, Site, drawing, program};
pub use orderings::{
    Broken as BrokenOrder, Exhausted, Job, Operation, Ordered, Weakening, operations, violated_with,
};
pub use rcu::{Move, RCU_SHAPES, RcuShape, rcu_scenario};
pub use script::{Shape, Step, script};
pub use shapes::SHAPES;
pub use starvation::starvation;
pub use subject::{Broken, CheckError, Replay, Row, Subject, Weak};
pub use visits::{Irq, READERS, WRITERS, together, visits};
pub use zone::{Page, ZONE_SHAPES, ZoneShape, zone_scenario};

/// Runs the example of the README as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
