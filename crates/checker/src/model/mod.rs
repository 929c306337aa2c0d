//! `Model`: the checker as a lock's platform.
//!
//! A [`Scenario`] builds the objects and the bodies of a few tasks. [`explore`] runs it repeatedly,
//! each time in another order, and searches for a violated property. [`replay`] runs it once in the
//! order of a schedule string and prints every step.
//!
//! # Explored orders
//!
//! Tasks are coroutines of one thread. There is a scheduling point before
//! each atomic operation and each `wait`, `wake` and `spin_until`; code between two scheduling
//! points belongs to the earlier step. A task that spins or sleeps does not run until the word that
//! it waits for allows it, so a spinning task costs no steps. A deadline may fire at any time while
//! its task sleeps. A signal is sent by a task of the scenario ([`Model::interrupt`]), hence also
//! at any time.
//!
//! The search has four parts, each with a share of the budget.
//!
//! 1. Depth-first with at most 0, 1 and 2 *preemptions* (switches away from a task that could
//!    continue): most errors need no more, and the first violation found has the fewest possible.
//! 2. Depth-first without a bound, but only one of the orders that differ by exchanging independent
//!    steps (sleep sets). If it finishes within its share, every order has been covered.
//! 3. Depth-first with more preemptions.
//! 4. Randomly prioritised schedules (PCT: Burckhardt and others, ASPLOS 2010), which reach deep
//!    orders that the other parts missed.
//!
//! If the tasks share one object and nothing else ([`Instance::of`]), an order is abandoned at a
//! state from which everything was executed. A state consists of that object and the stacks of the
//! tasks. With a bound, the state must have been reached with at least as many preemptions left.
//! Without one, the steps that were asleep then and are not now are executed (Godefroid, 1996),
//! since the sleep set records which other orders are covered.
//!
//! # Memory models
//!
//! These searches are sequentially consistent. [`explore_weak`] explores what the orderings of the
//! source admit beyond that, with growing bounds on preemptions and on *stale* steps: those that
//! read an old value, or write before newer ones or late. See [`Memory`]. Data that is not atomic
//! is [`Plain`].
//!
//! # Properties
//!
//! See [`Property`] for the list. A failing order is shortened before it is reported.

mod cycles;
mod drawing;
mod execution;
mod explore;
mod footprint;
mod instance;
mod memory;
mod narrative;
mod orders;
mod platform;
pub mod program;
mod retrace;
mod scenario;
mod schedule;
mod search;
mod shorten;
mod table;

pub use drawing::drawing;
pub use explore::{Budget, Report, Told, Violation, explore, explore_states, explore_weak, replay};
pub(crate) use explore::{FEW_BOUNDS, explore_few};
pub use memory::Memory;
pub use narrative::Step;
pub(crate) use narrative::tell;
pub use orders::{Order, Orders, Part, Site, Weaker};
pub use platform::{Model, Plain, Word};
pub use scenario::{End, Failure, Instance, Property, Scenario, Verdict};
pub use schedule::{Schedule, ScheduleError};

#[cfg(test)]
mod tests;
