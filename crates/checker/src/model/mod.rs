//! `Model`: the checker as a lock's platform.
//!
//! A [`Scenario`] builds the objects and the bodies of a few tasks. [`explore`] runs it again and
//! again, each time in another order, and looks for a violated property; [`replay`] runs it once in
//! the order that a schedule string names and tells every step.
//!
//! # Explored orders
//!
//! Tasks are coroutines of one thread, and memory is sequentially consistent: what the memory
//! orderings of a lock allow beyond that is not seen here. A scheduling point lies before each
//! atomic operation and each `wait`, `wake` and `spin_until`; what lies between two of them belongs
//! to the step before. A task that spins or sleeps is not run before the word it waits for says so,
//! so a spinning task costs no steps. A deadline may fire at any time while its task sleeps. A
//! signal is sent by a task of the scenario ([`Model::interrupt`]), hence at any time as well.
//!
//! The search has four parts, each with a share of the budget.
//!
//! 1. Depth-first with at most 0, 1 and 2 *preemptions* (switches away from a task that could go
//!    on): most errors need no more, and what is found first has as few as possible.
//! 2. Depth-first without a bound, but only one of the orders that differ by exchanging independent
//!    steps (sleep sets). If it ends within its share, every order has been covered.
//! 3. Depth-first with more preemptions.
//! 4. Randomly prioritised schedules (PCT: Burckhardt and others, ASPLOS 2010), which reach deep
//!    orders that are left over.
//!
//! Where the tasks share one object and nothing else ([`Instance::of`]), an order is abandoned at a
//! state from which everything was executed. A state is that object and the stacks of the tasks.
//! With a bound, it was met with as many preemptions left; without one, what was asleep then and is
//! not now is executed (Godefroid, 1996), since the sleep set says what other orders cover.
//!
//! # Properties
//!
//! [`Property`] lists it. A failing order is shortened before it is reported.

mod execution;
mod explore;
mod footprint;
mod instance;
mod narrative;
mod platform;
mod scenario;
mod schedule;
mod search;
mod shorten;

pub use explore::{Budget, Report, Told, Violation, explore, explore_states, replay};
pub use platform::{Model, Word};
pub use scenario::{End, Failure, Instance, Property, Scenario, Verdict};
pub use schedule::{Schedule, ScheduleError};

#[cfg(test)]
mod tests;
