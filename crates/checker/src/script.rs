//! Scenarios as data: the calls of each task, and the conditions that must hold afterwards.

use crate::model::{End, Failure, Instance, Model, Plain, Property, Scenario};
use convoy_sync::{Cancel, Lock, Promise, TaskId};
use std::cell::Cell;

/// One call of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Acquires a unit.
    Down,
    /// Acquires a unit unless a signal arrives.
    Interruptible,
    /// Acquires a unit unless a fatal signal arrives.
    Killable,
    /// Acquires a unit unless the deadline passes, which may happen at any time.
    Timeout,
    /// Acquires a unit if one is free.
    Try,
    /// Releases a unit.
    Up,
    /// Releases a unit if the last attempt to acquire one succeeded.
    UpIfTaken,
    /// Sends a signal to a task.
    Interrupt(TaskId),
    /// Sends a fatal signal to a task.
    Kill(TaskId),
    /// The scheduler counts one more preempted critical section.
    Preempt,
    /// It counts one less.
    Resume,
}

/// A small program over one lock. It must be able to end: there is a unit for every `Down`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The name, part of schedule strings.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Number of units.
    pub units: u32,
    /// Number of units that are owned at the start, by no particular task.
    pub owned: u32,
    /// The calls of each task.
    pub tasks: &'static [&'static [Step]],
}

impl Shape {
    /// Returns whether a lock that promises `promises` can run this shape.
    pub fn suits(&self, promises: &[Promise]) -> bool {
        let has = |promise| promises.contains(&promise);
        // Any task may release a sleeping lock, but only the owner may release a spinlock.
        let owned_at_most = u32::from(has(Promise::Signals));
        (has(Promise::Units) || (self.units == 1 && self.owned <= owned_at_most))
            && (has(Promise::Signals) || !self.waits_for_signals())
            && (has(Promise::Timeouts) || !self.has(Step::Timeout))
            && (has(Promise::Monitored) || !self.has(Step::Preempt))
    }

    fn has(&self, step: Step) -> bool {
        self.tasks.iter().any(|steps| steps.contains(&step))
    }

    fn waits_for_signals(&self) -> bool {
        self.has(Step::Interruptible) || self.has(Step::Killable)
    }

    fn checks(&self) -> Vec<Property> {
        use Property::{Exclusion, NoDeadlock, NoLostWakeup, Signals, Timeouts, UnitsKept};
        let mut checks = vec![Exclusion, NoLostWakeup, NoDeadlock, UnitsKept];
        checks.extend(self.waits_for_signals().then_some(Signals));
        checks.extend(self.has(Step::Timeout).then_some(Timeouts));
        checks
    }
}

/// The lock and a ledger of its units.
struct Ledger<T> {
    lock: T,
    /// What the lock guards, if there is one unit.
    data: Option<Plain<u32>>,
    /// Name of the lock in the narrative.
    name: &'static str,
    /// The calls of each task.
    tasks: &'static [&'static [Step]],
    /// Units that existed at the start or were released. A release counts from its call.
    given: Cell<u32>,
    /// Units acquired, from the return of the call that acquired them.
    taken: Cell<u32>,
    /// The last step that each task started.
    steps: [Cell<Option<Step>>; TASKS],
    /// Tasks that were sent a signal, and tasks that were sent a fatal one: one bit for each.
    interrupted: Cell<u32>,
    killed: Cell<u32>,
}

/// Maximum number of tasks of a shape.
const TASKS: usize = 8;

impl<T: Lock> Ledger<T> {
    fn take(&self) {
        self.taken.set(self.taken.get() + 1);
        let (taken, given) = (self.taken.get(), self.given.get());
        if taken > given {
            let text = format!("{taken} units were taken of {given}");
            Model::fail(Property::Exclusion, text);
        }
        if let Some(data) = &self.data {
            // The same value, so that the data splits no state.
            data.set(data.get());
        }
    }

    fn take_unless(&self, cancel: Cancel) -> bool {
        self.lock.acquire_unless(cancel).is_ok()
    }

    fn give(&self) {
        self.given.set(self.given.get() + 1);
        self.lock.release();
    }

    fn play(&self, task: usize) {
        let mut taken = false;
        Model::name(&self.lock, self.name, T::parts);
        for &step in self.tasks[task] {
            Model::call(step.name(self.name == "semaphore"));
            self.steps[task].set(Some(step));
            match step {
                Step::Down => {
                    self.lock.acquire();
                    taken = true;
                }
                Step::Interruptible => taken = self.take_unless(Cancel::Signal),
                Step::Killable => taken = self.take_unless(Cancel::Kill),
                // The checker decides when the deadline fires. The number only says that a deadline
                // is set.
                Step::Timeout => taken = self.take_unless(Cancel::After(1)),
                Step::Try => taken = self.lock.try_acquire(),
                Step::Up => self.give(),
                Step::UpIfTaken if taken => self.give(),
                Step::UpIfTaken => {}
                Step::Interrupt(to) => {
                    Model::interrupt(to);
                    self.interrupted.set(self.interrupted.get() | 1 << to);
                }
                Step::Kill(to) => {
                    Model::kill(to);
                    self.killed.set(self.killed.get() | 1 << to);
                }
                Step::Preempt => Model::preempts(true),
                Step::Resume => Model::preempts(false),
            }
            if step.takes() && taken {
                self.take();
            }
        }
    }

    /// Returns the property that is violated if `task` sleeps at the end, if any.
    fn cancelled(&self, task: TaskId) -> Option<Property> {
        let killed = self.killed.get() & 1 << task != 0;
        let interrupted = self.interrupted.get() & 1 << task != 0;
        match self.steps[task as usize].get()? {
            Step::Timeout => Some(Property::Timeouts),
            Step::Interruptible if killed || interrupted => Some(Property::Signals),
            Step::Killable if killed => Some(Property::Signals),
            _ => None,
        }
    }

    /// Checks the final state, in which no task can continue.
    fn verdict(&self, end: &End) -> Result<(), Failure> {
        if !end.spinning.is_empty() {
            let text = format!("tasks {:?} spin forever", end.spinning);
            return Err((Property::NoDeadlock, text));
        }
        let expected = self.given.get() - self.taken.get();
        if !end.asleep.is_empty() && expected > 0 {
            let text = format!("tasks {:?} sleep although units are free: {expected}", end.asleep);
            return Err((Property::NoLostWakeup, text));
        }
        if let Some(property) = end.asleep.iter().find_map(|&task| self.cancelled(task)) {
            let text = format!("tasks {:?} sleep though their wait should end", end.asleep);
            return Err((property, text));
        }
        if !end.asleep.is_empty() {
            let text = format!("tasks {:?} sleep forever", end.asleep);
            return Err((Property::NoDeadlock, text));
        }
        let waiters = self.lock.waiters();
        // One unit more than expected is enough to prove an error.
        let free = (0..=expected).take_while(|_| self.lock.try_acquire()).count();
        if free != expected as usize || waiters != 0 {
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

    fn name(self, semaphore: bool) -> &'static str {
        let [of_semaphore, of_lock] = match self {
            Self::Down => ["down", "lock"],
            Self::Interruptible => ["down_interruptible", "lock_interruptible"],
            Self::Killable => ["down_killable", "lock_killable"],
            Self::Timeout => ["down_timeout", "lock_timeout"],
            Self::Try => ["down_trylock", "trylock"],
            Self::Up | Self::UpIfTaken => ["up", "unlock"],
            Self::Interrupt(_) => ["interrupt"; 2],
            Self::Kill(_) => ["kill"; 2],
            Self::Preempt => ["preempt"; 2],
            Self::Resume => ["resume"; 2],
        };
        if semaphore { of_semaphore } else { of_lock }
    }
}

/// Returns the scenario `name`: `shape` on locks of type `T`. The narrative calls the lock `lock`.
pub fn script<T: Lock>(name: String, lock: &'static str, shape: &Shape) -> Scenario {
    let Shape { units, owned, tasks, .. } = *shape;
    Scenario::new(name, shape.checks(), move || {
        let ledger = Ledger {
            lock: T::with_units(units),
            data: (units == 1).then(Plain::default),
            name: lock,
            tasks,
            given: Cell::new(units),
            taken: Cell::new(owned),
            steps: [const { Cell::new(None) }; TASKS],
            interrupted: Cell::new(0),
            killed: Cell::new(0),
        };
        (0..owned).for_each(|_| ledger.lock.acquire());
        Instance::of(ledger, tasks.len(), Ledger::play, Ledger::verdict)
    })
}
