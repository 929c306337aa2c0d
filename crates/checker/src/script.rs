//! Semaphore scenarios as data: what each task calls, and what must hold afterwards.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_sync::{RawSemaphore, TaskId};
use std::cell::Cell;
use std::rc::Rc;

/// One call of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `down`.
    Down,
    /// `down_interruptible`.
    Interruptible,
    /// `down_killable`.
    Killable,
    /// `down_timeout`; the deadline may fire at any time.
    Timeout,
    /// `down_trylock`.
    Try,
    /// `up`.
    Up,
    /// `up` if the last attempt to take a unit succeeded.
    UpIfTaken,
    /// Sends a signal to a task.
    Interrupt(TaskId),
    /// Sends a fatal signal to a task.
    Kill(TaskId),
}

/// A small program over one semaphore. It must be able to end: there is a unit for every `Down`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The name, part of schedule strings.
    pub name: &'static str,
    /// What it looks at, in a few words.
    pub about: &'static str,
    /// Units there are.
    pub units: u32,
    /// Units that are owned at the start, by nobody in particular.
    pub owned: u32,
    /// What each task calls.
    pub tasks: &'static [&'static [Step]],
}

/// The semaphore and the ledger of units beside it.
struct Ledger<S> {
    semaphore: S,
    /// Units there were and units that came: an `up` counts from its call.
    given: Cell<u32>,
    /// Units taken, from the return of the call that took them.
    taken: Cell<u32>,
}

impl<S: RawSemaphore> Ledger<S> {
    fn take(&self) {
        self.taken.set(self.taken.get() + 1);
        let (taken, given) = (self.taken.get(), self.given.get());
        if taken > given {
            let text = format!("{taken} units were taken of {given}");
            Model::fail(Property::Exclusion, text);
        }
    }

    fn give(&self) {
        self.given.set(self.given.get() + 1);
        self.semaphore.up();
    }

    fn play(&self, steps: &[Step]) {
        let mut taken = false;
        Model::name(&self.semaphore, "semaphore", S::parts);
        for &step in steps {
            Model::call(step.name());
            let semaphore = &self.semaphore;
            match step {
                Step::Down => {
                    semaphore.down();
                    taken = true;
                }
                Step::Interruptible => taken = semaphore.down_interruptible().is_ok(),
                Step::Killable => taken = semaphore.down_killable().is_ok(),
                // The checker decides when the deadline fires; the number says only that there
                // is one.
                Step::Timeout => taken = semaphore.down_timeout(1).is_ok(),
                Step::Try => taken = semaphore.down_trylock(),
                Step::Up => self.give(),
                Step::UpIfTaken if taken => self.give(),
                Step::UpIfTaken => {}
                Step::Interrupt(task) => Model::interrupt(task),
                Step::Kill(task) => Model::kill(task),
            }
            if step.takes() && taken {
                self.take();
            }
        }
    }

    /// Nobody runs any more: what must hold now.
    fn verdict(&self, end: &End) -> Result<(), Failure> {
        if !end.spinning.is_empty() {
            let text = format!("tasks {:?} spin forever", end.spinning);
            return Err((Property::NoDeadlock, text));
        }
        let free = self.semaphore.free_units();
        let expected = self.given.get() - self.taken.get();
        if !end.asleep.is_empty() && expected > 0 {
            let text = format!("tasks {:?} sleep beside free units: {expected}", end.asleep);
            return Err((Property::NoLostWakeup, text));
        }
        if !end.asleep.is_empty() {
            let text = format!("tasks {:?} sleep forever", end.asleep);
            return Err((Property::NoDeadlock, text));
        }
        let waiters = self.semaphore.waiters();
        if free != expected || waiters != 0 {
            let text = format!("{free} units are free instead of {expected}, {waiters} tasks wait");
            return Err((Property::UnitsKept, text));
        }
        Ok(())
    }
}

impl Step {
    fn takes(self) -> bool {
        matches!(
            self,
            Self::Down | Self::Interruptible | Self::Killable | Self::Timeout | Self::Try
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Interruptible => "down_interruptible",
            Self::Killable => "down_killable",
            Self::Timeout => "down_timeout",
            Self::Try => "down_trylock",
            Self::Up | Self::UpIfTaken => "up",
            Self::Interrupt(_) => "interrupt",
            Self::Kill(_) => "kill",
        }
    }
}

/// `shape` played on semaphores of type `S`, under the name `variant`.
pub fn scenario<S: RawSemaphore>(variant: &str, shape: &Shape) -> Scenario {
    let Shape { units, owned, tasks, .. } = *shape;
    let build = move || {
        let ledger = Rc::new(Ledger {
            semaphore: S::with_count(units),
            given: Cell::new(units),
            taken: Cell::new(owned),
        });
        (0..owned).for_each(|_| ledger.semaphore.down());
        let body = |steps: &'static [Step]| -> Box<dyn FnOnce()> {
            let ledger = Rc::clone(&ledger);
            Box::new(move || ledger.play(steps))
        };
        let tasks = tasks.iter().map(|steps| body(steps)).collect();
        Instance { tasks, verdict: Box::new(move |end| ledger.verdict(end)) }
    };
    Scenario { name: format!("{variant}/{}", shape.name), build: Box::new(build) }
}
