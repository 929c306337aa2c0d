//! A second door to the checker, for code that is written against the standard library: types like
//! the ones in `std::sync::atomic`, `std::sync`, `std::thread`, `std::hint` and `std::cell`. A
//! crate is checked by switching one import.
//!
//! ```
//! use convoy_checker::program::{cell::UnsafeCell, check, sync::Arc, thread};
//! use convoy_checker::program::sync::atomic::{AtomicBool, Ordering};
//!
//! let published = check(|| {
//!     let shared = Arc::new((AtomicBool::new(false), UnsafeCell::new(0)));
//!     let other = Arc::clone(&shared);
//!     let writer = thread::spawn(move || {
//!         other.1.with_mut(|data| unsafe { *data = 1 });
//!         other.0.store(true, Ordering::Relaxed); // not Release
//!     });
//!     if shared.0.load(Ordering::Acquire) {
//!         shared.1.with(|data| unsafe { assert_eq!(*data, 1) });
//!     }
//!     writer.join().unwrap();
//! });
//! assert_eq!(published.unwrap_err().property, convoy_checker::Property::Visibility);
//! ```
//!
//! Differences from the standard library: threads are coroutines of one thread, so that
//! [`thread::spawn`] does not demand `Send`, and the types are not `Sync`; a `static` cannot hold
//! them, since each execution begins with new ones; `UnsafeCell` gives its pointer to a closure, as
//! in loom, since an access must have an end.

mod arc;
pub mod cell;
mod first;
pub mod futex;
pub mod sync;
pub mod thread;

/// Like `std::hint`.
pub mod hint {
    use crate::model::Model;
    use convoy_sync::Platform;

    /// Lets other threads run first.
    pub fn spin_loop() {
        Model::spin_hint();
    }
}

use super::explore::{FEW_BOUNDS, NO_BOUNDS, explore_few};
use super::{
    Budget, End, Failure, Instance, Memory, Property, Report, Scenario, Schedule, ScheduleError,
    drawing, explore, explore_weak,
};
use std::rc::Rc;
use thread::Threads;

/// The part of the budget in which all executions are tried before those within bounds.
const AT_ONCE: u64 = 4;

/// Name of the scenario in schedules.
const NAME: &str = "program";

/// Bounds of a check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The largest number of threads, with the first one. At most 16.
    pub threads: usize,
    /// The memory model. Of every other model than [`Memory::Sc`], executions without a preemption
    /// are explored first, then all of them within a quarter of the budget, and then
    /// [`Memory::Sc`] and the model with growing bounds.
    pub memory: Memory,
    /// Limits of each search.
    pub budget: Budget,
}

impl Default for Check {
    /// Four threads, what the orderings admit, and the default budget.
    fn default() -> Self {
        Self { threads: 4, memory: Memory::C11, budget: Budget::default() }
    }
}

/// What was explored without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Executions.
    pub executions: u64,
    /// Whether these were all there are, up to the exchange of independent steps.
    pub exhaustive: bool,
    /// Otherwise the number of preemptions up to which all were executed.
    pub preemptions: Option<u32>,
    /// The same for stale steps. `None` for any number.
    pub stale: Option<u32>,
}

/// An execution that breaks a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {text}\n{drawing}\nThis execution again: \
     convoy_checker::program::replay(\"{schedule}\", || ...)",
    .property.name()
)]
pub struct BrokenProgram {
    /// The violated property.
    pub property: Property,
    /// The observation at the end.
    pub text: String,
    /// The steps as a table, see [`drawing`].
    pub drawing: String,
    /// Schedule string that replays the execution.
    pub schedule: String,
}

/// Returns the scenario of a program.
fn scenario(threads: usize, body: impl Fn() + 'static) -> Scenario {
    let body = Rc::new(body);
    Scenario::new(NAME, [], move || {
        let running = Threads::new(threads);
        let first = Rc::clone(&body);
        let mut tasks: Vec<Box<dyn FnOnce()>> = vec![Box::new(move || first())];
        tasks.extend((1..threads).map(|number| -> Box<dyn FnOnce()> {
            let running = Rc::clone(&running);
            Box::new(move || running.run(number))
        }));
        Instance { tasks, verdict: Box::new(move |end| verdict(&running, end)) }
    })
}

/// Fails if a thread waits at the end.
fn verdict(running: &Threads, end: &End) -> Result<(), Failure> {
    let mut waiting = [end.spinning.as_slice(), end.asleep.as_slice()].concat();
    waiting.retain(|&task| running.is_spawned(task as usize));
    if waiting.is_empty() {
        return Ok(());
    }
    Err((Property::NoDeadlock, format!("threads {waiting:?} wait for ever")))
}

impl Check {
    /// Explores the executions of a program, whose first thread calls `body`.
    ///
    /// # Errors
    ///
    /// Returns the first execution found that violates a property: a race on an
    /// [`UnsafeCell`](cell::UnsafeCell), a failed assertion, a deadlock or a livelock.
    pub fn explore(&self, body: impl Fn() + 'static) -> Result<Checked, BrokenProgram> {
        let scenario = scenario(self.threads, body);
        let mut report = Report::new();
        let mut executions = 0;
        if self.memory != Memory::Sc {
            // Most races need no preemption, and many programs have few executions.
            let all = Budget { executions: self.budget.executions / AT_ONCE, ..self.budget };
            for (few, budget) in [(&FEW_BOUNDS[0], self.budget), (&NO_BOUNDS, all)] {
                if report.violation.is_none() && !report.complete {
                    report = explore_few(&scenario, self.memory, budget, false, few);
                    executions += report.explored;
                }
            }
        }
        if report.violation.is_none() && !report.complete {
            report = explore(&scenario, self.budget);
            executions += report.explored;
            if report.violation.is_none() && self.memory != Memory::Sc {
                report = explore_weak(&scenario, self.memory, self.budget, false);
                executions += report.explored;
            }
        }
        let Report { complete: exhaustive, preemptions, stale, violation, .. } = report;
        match violation {
            None => Ok(Checked { executions, exhaustive, preemptions, stale }),
            Some(violation) => Err(BrokenProgram {
                property: violation.property,
                text: violation.text,
                drawing: drawing(&violation.steps),
                schedule: violation.schedule.to_string(),
            }),
        }
    }

    /// Executes a program once in the order of a schedule string. Returns the violation, if there
    /// is one.
    ///
    /// # Errors
    ///
    /// Fails if the string cannot be parsed or does not fit the program.
    pub fn replay(
        &self,
        schedule: &str,
        body: impl Fn() + 'static,
    ) -> Result<Option<BrokenProgram>, ScheduleError> {
        let parsed: Schedule = schedule.parse()?;
        let (steps, failure) = super::replay(&scenario(self.threads, body), &parsed)?;
        Ok(failure.map(|(property, text)| BrokenProgram {
            property,
            text,
            drawing: drawing(&steps),
            schedule: schedule.to_owned(),
        }))
    }
}

/// Explores the executions of a program with [`Check::default`].
///
/// # Errors
///
/// See [`Check::explore`].
pub fn check(body: impl Fn() + 'static) -> Result<Checked, BrokenProgram> {
    Check::default().explore(body)
}

/// Executes a program once in the order of a schedule string, with [`Check::default`].
///
/// # Errors
///
/// See [`Check::replay`].
pub fn replay(
    schedule: &str,
    body: impl Fn() + 'static,
) -> Result<Option<BrokenProgram>, ScheduleError> {
    Check::default().replay(schedule, body)
}
