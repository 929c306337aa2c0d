//! The tasks of an execution: how each continues, what they wait for, and how they ended.

use super::place::{Words, copy_from, copy_to};
use super::stack::{CLEARED, below, clear};
use crate::model::footprint::Footprint;
use crate::model::memory::Operation;
use crate::model::scenario::{End, Failure, Property};
use convoy_sync::{Sleep, TaskId, Wake};
use core::cell::Cell;
use corosensei::Yielder;
use std::mem::MaybeUninit;
use std::ops::Deref;

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    /// Waits for its predicate.
    Spinning,
    /// Lets other tasks run first.
    Pausing,
    Asleep,
    Done,
}

#[derive(Clone)]
pub(in crate::model) struct Task {
    pub(super) status: Cell<Status>,
    /// Valid while `Spinning`: it points into the task's suspended stack.
    pub(super) predicate: Cell<Option<&'static dyn Fn() -> bool>>,
    pub(super) yielder: Cell<Option<*const Yielder<(), ()>>>,
    /// Memory that the next step of the task accesses.
    pub(super) next: Cell<Footprint>,
    /// What that step does to memory.
    pub(super) operation: Cell<Operation>,
    pub(super) asleep_on: Cell<usize>,
    /// Sequence number of the sleep: wakeups are first come, first served.
    pub(super) asleep_since: Cell<u64>,
    pub(super) sleep: Cell<Sleep>,
    pub(super) deadline: Cell<bool>,
    pub(super) wake: Cell<Wake>,
    pub(super) interrupted: Cell<bool>,
    pub(super) killed: Cell<bool>,
    /// Whether the scheduler wants its CPU for another task.
    pub(super) unwanted: Cell<bool>,
    /// How many times the task has disabled preemption without enabling it again, and the same for
    /// interrupts.
    pub(super) disabled: Cell<(i32, i32)>,
    /// The call that the task is executing, for the narrative.
    pub(super) call: Cell<&'static str>,
    /// The limit and the base of the stack.
    pub(super) stack: (usize, usize),
    /// Where the stack was suspended.
    pub(super) frame: Cell<usize>,
}

/// The tasks of an execution, by their numbers.
pub(in crate::model) struct Tasks(pub(super) &'static [Task]);

impl Deref for Tasks {
    type Target = [Task];

    fn deref(&self) -> &[Task] {
        self.0
    }
}

impl Task {
    pub(super) fn new(stack: (usize, usize)) -> Self {
        Self {
            status: Cell::new(Status::Ready),
            predicate: Cell::new(None),
            yielder: Cell::new(None),
            next: Cell::new(Footprint::NOTHING),
            operation: Cell::new(Operation::NOTHING),
            asleep_on: Cell::new(0),
            asleep_since: Cell::new(0),
            sleep: Cell::new(Sleep::Uninterruptible),
            deadline: Cell::new(false),
            wake: Cell::new(Wake::Woken),
            interrupted: Cell::new(false),
            killed: Cell::new(false),
            unwanted: Cell::new(false),
            disabled: Cell::new((0, 0)),
            call: Cell::new(""),
            stack,
            frame: Cell::new(stack.1),
        }
    }

    /// Restores the state of the task from `saved`.
    pub(super) fn put(&self, saved: &Self) {
        macro_rules! put {
            ($($field:ident)+) => { $(self.$field.set(saved.$field.get());)+ };
        }
        put!(status predicate yielder next operation asleep_on asleep_since sleep deadline wake);
        put!(interrupted killed unwanted disabled call frame);
    }

    pub(super) fn pending(&self, sleep: Sleep) -> bool {
        match sleep {
            Sleep::Uninterruptible => false,
            Sleep::Interruptible => self.interrupted.get() || self.killed.get(),
            Sleep::Killable => self.killed.get(),
        }
    }

    pub(super) fn rouse(&self, wake: Wake) {
        self.wake.set(wake);
        self.status.set(Status::Ready);
    }

    /// Returns the lowest address of its stack that the suspended task uses.
    pub(super) fn low(&self) -> usize {
        (self.frame.get() & !15) - below()
    }

    /// Returns the number of words on the stack of the suspended task.
    pub(super) fn height(&self) -> usize {
        (self.stack.1 - self.low()) / 8
    }

    /// Clears the memory below the stack of the task, which was just suspended.
    pub(super) fn clear_below(&self) {
        clear(self.low() - CLEARED, CLEARED);
    }

    /// Appends the words on the stack of the suspended task to `words`.
    pub(super) fn save_stack(&self, words: &mut Words) {
        copy_from(self.low(), self.height(), words);
    }

    /// Overwrites the stack with the first of `words`, clears the memory below it as when the task
    /// was suspended, and returns the rest.
    pub(super) fn put_stack<'a>(&self, words: &'a [MaybeUninit<u64>]) -> &'a [MaybeUninit<u64>] {
        let (own, rest) = words.split_at(self.height());
        self.clear_below();
        copy_to(self.low(), own);
        rest
    }
}

impl Tasks {
    /// Wakes up to `count` sleepers of `word`, the longest asleep first, and returns one bit for
    /// each. Allocates nothing, because an address of the heap would stay on the stack of the task.
    pub(in crate::model) fn wake(&self, word: usize, count: usize) -> u64 {
        let mut woken = 0;
        for _ in 0..count.min(self.len()) {
            let sleepers = self.with(Status::Asleep);
            let sleepers = sleepers.filter(|&task| self[task].asleep_on.get() == word);
            let Some(first) = sleepers.min_by_key(|&task| self[task].asleep_since.get()) else {
                break;
            };
            self[first].rouse(Wake::Woken);
            woken |= 1 << first;
        }
        woken
    }

    pub(in crate::model) fn is_blocked(&self, task: TaskId) -> bool {
        matches!(self[task as usize].status.get(), Status::Spinning | Status::Asleep)
    }

    pub(in crate::model) fn is_asleep(&self, task: TaskId) -> bool {
        self[task as usize].status.get() == Status::Asleep
    }

    /// Returns whether `task` is on a CPU: each task has its own CPU until it sleeps or ends.
    pub(in crate::model) fn runs(&self, task: TaskId) -> bool {
        let task = self.get(task as usize);
        task.is_some_and(|task| !matches!(task.status.get(), Status::Asleep | Status::Done))
    }

    /// Returns the number of tasks that can continue or spin.
    pub(in crate::model) fn runnable(&self) -> u32 {
        let all = 0..self.len() as TaskId;
        all.filter(|&task| self.runs(task)).count() as u32
    }

    /// Fails if a task ended with preemption or interrupts still disabled.
    pub(super) fn balanced(&self) -> Result<(), Failure> {
        let done = self.iter().filter(|task| task.status.get() == Status::Done);
        let mut left = done.map(|task| task.disabled.get());
        let Some((preempt, irq)) = left.find(|&left| left != (0, 0)) else { return Ok(()) };
        let text =
            format!("a task ends with preemption disabled {preempt}, interrupts {irq} times");
        Err((Property::Assertions, text))
    }

    /// Returns how the tasks ended.
    pub(super) fn end(&self) -> End {
        let [asleep, spinning] = [Status::Asleep, Status::Spinning]
            .map(|status| self.with(status).map(|task| task as TaskId).collect());
        End { asleep, spinning }
    }

    /// Returns the tasks with this status, in order.
    pub(super) fn with(&self, status: Status) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |&task| self[task].status.get() == status)
    }

    /// Returns whether the choices depend on the task that ran last.
    pub(in crate::model) fn has_pause(&self) -> bool {
        self.iter().any(|task| task.status.get() == Status::Pausing)
    }
}
