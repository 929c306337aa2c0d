//! One execution of a scenario: tasks are coroutines and run one step at a time, in an order that a
//! guide chooses.

pub(super) mod place;
mod polls;
mod region;
pub(super) mod run;
pub(super) mod saved;
mod stack;
pub(super) mod state;
pub(super) mod tasks;

use super::cycles::Slots;
use super::footprint::Footprint;
use super::memory::{Cell as Bits, Kind, Operation, Storage};
use super::narrative::{Narrative, Parts, Step};
use super::orders::Orders;
use super::scenario::{Failure, Property};
use super::schedule::Choice;
use convoy_sync::{LockEvent, Sleep, TaskId, Wake};
use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use core::panic::Location;
use corosensei::Coroutine;
use place::Placed;
use polls::Polls;
use region::TaskStack;
use state::State;
use std::rc::Rc;
use tasks::{Status, Task, Tasks};

type Routine = Coroutine<(), (), (), TaskStack>;

pub(super) struct Execution {
    pub(super) tasks: Tasks,
    current: Cell<Option<usize>>,
    sequence: Cell<u64>,
    /// Number of first values.
    values: Cell<usize>,
    failure: RefCell<Option<Failure>>,
    /// Coroutines are being unwound: operations neither suspend nor wait.
    aborting: Cell<bool>,
    /// Whether the condition of a spin depends on more than its word.
    asked: Cell<bool>,
    /// Whether the condition of a spin is being evaluated.
    evaluates: Cell<bool>,
    /// Whether every time limit that a lock sets itself has passed.
    pub(super) hurries: Cell<bool>,
    /// Memory that the platform keeps for the tasks.
    pub(super) memory: OnceCell<Box<dyn Any>>,
    /// The object that the tasks share, if they share nothing else.
    placed: Option<Placed>,
    /// The loops of the tasks that poll, if states are not remembered.
    polls: Option<RefCell<Polls>>,
    /// Memory beyond the words themselves.
    pub(super) storage: RefCell<Storage>,
    /// Whether the current step is one that sequentially consistent memory excludes.
    stale: Cell<Stale>,
    orders: Rc<Orders>,
    /// Of the second half of the steps that are allowed: what a fair scheduler owes nothing in the
    /// present part, and whether all parts were fair and had no stale step.
    tail: Cell<(Slots, bool)>,
    log: Option<RefCell<Narrative>>,
}

/// Ends a verdict that waits.
#[cold]
#[inline(never)]
fn refuse() -> ! {
    panic!("the lock waits at the end, when no other task runs: `try_acquire` must not")
}

/// Whether a step reads an old value, or writes before newer values or late.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stale {
    No,
    Reads { newest: u64 },
    Writes,
}

thread_local! {
    /// Where the operation is in the source that is executed or was suspended last.
    pub(super) static SOURCE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    static EXECUTION: Cell<*const Execution> = const { Cell::new(core::ptr::null()) };
    /// Whether the running execution weakens orderings of the source.
    static WEAKENS: Cell<bool> = const { Cell::new(false) };
    /// Whether the running execution checks the accesses that
    /// [`Platform::touch`](convoy_sync::Platform::touch) announces.
    static JUDGES_CELLS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the running execution weakens orderings of the source. Other searches skip the
/// work that this needs: each call of [`with`] is one more chance for an address to reach the stack
/// of a task.
#[inline(always)]
pub(super) fn weakens() -> bool {
    WEAKENS.get()
}

/// Returns whether the running execution checks accesses to the memory of locks that is not atomic.
/// Others skip that, for the same reason.
#[inline(always)]
pub(super) fn judges_cells() -> bool {
    JUDGES_CELLS.get()
}

/// Runs `action` on the running execution and returns its result, or `None` outside of an
/// execution. Leaves no data of the checker on the stack or in caller-saved registers: later frames
/// would keep it, and the checker's addresses differ between processes.
#[inline(always)]
pub(super) fn with<R>(action: impl FnOnce(&Execution) -> R) -> Option<R> {
    let result = within(action);
    stack::clear_below();
    stack::forget_registers();
    result
}

/// [`with`], in a separate stack frame.
#[inline(never)]
fn within<R>(action: impl FnOnce(&Execution) -> R) -> Option<R> {
    let execution = EXECUTION.get();
    if execution.is_null() {
        return None;
    }
    // SAFETY: the pointer is set only during `run`, which owns the execution.
    Some(action(unsafe { &*execution }))
}

impl Execution {
    fn here(&self) -> Option<&Task> {
        self.current.get().map(|task| &self.tasks[task])
    }

    /// A scheduling point of the running task, before a step that touches `next`.
    pub(super) fn point(&self, next: Footprint) {
        self.suspend(next, Operation::NOTHING);
    }

    /// A scheduling point of the running task, before an access.
    pub(super) fn access(&self, next: Operation) {
        let word = next.word.address;
        let footprint = match next.kind {
            Kind::Load => Footprint::read(word),
            // No other task has to be able to run before it.
            _ if next.is_immediate() => Footprint::NOTHING,
            _ => Footprint::write(word),
        };
        if !next.is_immediate() || self.is_weak() {
            self.suspend(footprint, next);
        }
    }

    /// Returns `next`, which is written at `place`, with the orderings of this execution.
    pub(super) fn ordered(&self, next: Operation, place: &'static Location<'static>) -> Operation {
        // Set-up and verdict run alone, so no ordering counts there.
        if self.current.get().is_none() { next } else { self.orders.applied(next, place) }
    }

    /// Ends the access of the current step, which read `old` and left `new`.
    pub(super) fn settle(&self, address: usize, old: u64, new: u64) {
        self.storage.borrow_mut().finish();
        let (Some(polls), Some(task)) = (&self.polls, self.current.get()) else { return };
        if old == new {
            let is_stale = self.stale.get() != Stale::No;
            polls.borrow_mut().read(task, address, old, is_stale);
        } else {
            polls.borrow_mut().write(task, address);
        }
    }

    /// Returns a number for the first value of a word, odd and thus not an address; 0 outside of
    /// tasks and where memory is sequentially consistent.
    pub(super) fn begin_value(&self) -> usize {
        if self.current.get().is_none() || !self.is_weak() || self.aborting.get() {
            return 0;
        }
        self.values.set(self.values.get() + 1);
        2 * self.values.get() - 1
    }

    /// Makes the oldest delayed store of `task` visible.
    fn flush(&self, task: usize) {
        let mut storage = self.storage.borrow_mut();
        if let (Some(polls), Some(word)) = (&self.polls, storage.buffered(task)) {
            polls.borrow_mut().change(word);
        }
        storage.flush(task);
    }

    /// Returns whether `task`, which pauses, waits for a change of what it polls.
    fn waits(&self, task: usize) -> bool {
        self.polls.as_ref().is_some_and(|polls| polls.borrow().waits(task))
    }

    /// Returns whether a stale step that reads the value in its word repeats a round of a loop.
    fn repeats(&self, task: usize, word: Bits) -> bool {
        let polls = self.polls.as_ref();
        polls.is_some_and(|polls| polls.borrow().repeats(task, word.address, word.get()))
    }

    fn suspend(&self, next: Footprint, operation: Operation) {
        let Some(task) = self.here() else { return };
        if self.aborting.get() {
            return;
        }
        task.next.set(next);
        task.operation.set(operation);
        let yielder = task.yielder.get().expect("a running task has set its yielder");
        // SAFETY: the yielder lives as long as the coroutine's body, which is running.
        stack::suspend(unsafe { &*yielder }, &task.frame);
    }

    /// Blocks the running task until `ready` holds; it then continues with its next step.
    pub(super) fn spin(&self, next: Operation, ready: &dyn Fn() -> bool) {
        let Some(task) = self.here() else {
            return if ready() {
            } else {
                refuse()
            };
        };
        self.asked.set(false);
        self.evaluates.set(true);
        ready();
        self.evaluates.set(false);
        let word = match next.kind {
            Kind::Await => Footprint::read(next.word.address),
            _ => Footprint::write(next.word.address),
        };
        let seen = if self.asked.get() { Footprint::EVERYTHING } else { word };
        // SAFETY: only the lifetime changes; the predicate is forgotten before this function ends.
        let ready: &'static dyn Fn() -> bool = unsafe { core::mem::transmute(ready) };
        task.predicate.set(Some(ready));
        task.status.set(Status::Spinning);
        self.suspend(seen, next);
        task.predicate.set(None);
        task.status.set(Status::Ready);
    }

    /// Lets every other runnable task run first.
    pub(super) fn pause(&self) {
        if let Some(task) = self.here() {
            task.status.set(Status::Pausing);
            if let (Some(polls), Some(task)) = (&self.polls, self.current.get()) {
                polls.borrow_mut().pause(task);
            }
            self.point(Footprint::EVERYTHING);
            task.status.set(Status::Ready);
        }
    }

    /// Puts the running task to sleep on `word` unless a signal is pending. Returns why the sleep
    /// ended.
    pub(super) fn sleep(&self, word: usize, sleep: Sleep, deadline: bool) -> Wake {
        let Some(task) = self.here() else { refuse() };
        if task.pending(sleep) {
            return Wake::Interrupted;
        }
        if self.aborting.get() {
            return Wake::Woken;
        }
        self.sequence.set(self.sequence.get() + 1);
        task.asleep_on.set(word);
        task.asleep_since.set(self.sequence.get());
        task.sleep.set(sleep);
        task.deadline.set(deadline);
        task.status.set(Status::Asleep);
        self.point(Footprint::write(word));
        task.wake.get()
    }

    /// Makes a signal pending for `task`.
    pub(super) fn signal(&self, task: TaskId, fatal: bool) {
        let task = &self.tasks[task as usize];
        if fatal { &task.killed } else { &task.interrupted }.set(true);
        if task.status.get() == Status::Asleep && task.pending(task.sleep.get()) {
            task.rouse(Wake::Interrupted);
        }
    }

    pub(super) fn clear_signals(&self) {
        if let Some(task) = self.here() {
            task.interrupted.set(false);
            task.killed.set(false);
        }
    }

    pub(super) fn signal_pending(&self, sleep: Sleep) -> bool {
        self.here().is_some_and(|task| task.pending(sleep))
    }

    /// Makes the scheduler want the CPU of `task` for another task from now on.
    pub(super) fn want_cpu_of(&self, task: TaskId) {
        self.tasks[task as usize].unwanted.set(true);
    }

    pub(super) fn need_resched(&self) -> bool {
        self.here().is_some_and(|task| task.unwanted.get())
    }

    /// Records that the running task disables preemption or interrupts (1) or enables them again
    /// (-1).
    pub(super) fn disable(&self, preemption: i32, interrupts: i32) {
        if let Some(task) = self.here() {
            let (preempt, irq) = task.disabled.get();
            task.disabled.set((preempt + preemption, irq + interrupts));
        }
    }

    pub(super) fn current(&self) -> TaskId {
        // Set-up and verdict run as an additional task.
        self.current.get().unwrap_or(self.tasks.len()) as TaskId
    }

    /// Records that the condition of a spin depends on more than its word; called each time before
    /// the condition can return early. Returns whether a condition is being evaluated.
    pub(super) fn ask(&self) -> bool {
        self.asked.set(true);
        self.evaluates.get()
    }

    /// Records a failure and does not return.
    pub(super) fn fail(&self, property: Property, text: String) {
        self.failure.borrow_mut().get_or_insert((property, text));
        while !self.aborting.get() && self.current.get().is_some() {
            self.point(Footprint::EVERYTHING);
        }
    }

    /// Returns whether memory is weaker than sequentially consistent.
    pub(super) fn is_weak(&self) -> bool {
        !self.storage.borrow().is_sequential()
    }

    pub(super) fn call(&self, call: &'static str) {
        if let Some(task) = self.here() {
            task.call.set(call);
        }
    }

    /// Names an object and the parts at some offsets in it.
    pub(super) fn name(&self, start: usize, bytes: usize, name: &'static str, parts: Parts) {
        if let Some(log) = &self.log {
            log.borrow_mut().name(start, bytes, name, parts);
        }
    }

    pub(super) fn log(&self, text: impl FnOnce(&Self) -> String) {
        if let (Some(log), Some(here)) = (&self.log, self.here()) {
            let text = text(self);
            let stale = self.stale.replace(Stale::No);
            let note = match stale {
                Stale::No => None,
                Stale::Reads { newest } => Some(format!("(stale: the newest is {newest})")),
                Stale::Writes => Some("(stale: other tasks may see it late)".to_owned()),
            };
            let (task, call, is_stale) = (self.current(), here.call.get(), stale != Stale::No);
            let source = SOURCE.take().map(|place| (place.file(), place.line()));
            log.borrow_mut().step(Step { task, call, text, note, is_stale, source });
        }
    }

    pub(super) fn log_event(&self, event: LockEvent, lock: usize, task: TaskId) {
        if let (Some(log), Some(here)) = (&self.log, self.here()) {
            log.borrow_mut().event(self.current(), here.call.get(), event, lock, task);
        }
    }

    /// Returns the name of the object at `address`, for the narrative.
    pub(super) fn place(&self, address: usize) -> String {
        let named = self.log.as_ref().and_then(|log| log.borrow().place(address));
        let owner = self.tasks.iter().position(|task| {
            let (limit, base) = task.stack;
            (limit..base).contains(&address)
        });
        let state = || owner.map(|task| format!("the state of task {task}"));
        named.or_else(state).unwrap_or_else(|| match &self.log {
            Some(log) => format!("word {}", log.borrow_mut().unnamed(address)),
            None => "a word".to_owned(),
        })
    }

    fn can_run(&self, task: usize, last: Option<usize>) -> bool {
        let here = &self.tasks[task];
        match here.status.get() {
            Status::Ready => true,
            Status::Spinning => {
                let ready = here.predicate.get().expect("a spinning task has a predicate");
                // The condition is evaluated on behalf of its task.
                let last = self.current.replace(Some(task));
                self.evaluates.set(true);
                let holds = ready();
                self.evaluates.set(false);
                self.current.set(last);
                holds
            }
            Status::Pausing => last != Some(task) && !self.waits(task),
            Status::Asleep | Status::Done => false,
        }
    }

    /// Collects every choice: runs before deadlines, tasks in order.
    fn choices(&self, last: Option<usize>, into: &mut Vec<Choice>) {
        into.clear();
        let mut storage = self.storage.borrow_mut();
        for task in 0..self.tasks.len() {
            let waiting = &self.tasks[task];
            if waiting.status.get() == Status::Spinning || self.can_run(task, last) {
                let next = waiting.operation.get();
                storage.variants(task, next, |variant| {
                    let repeats = variant > 0 && self.repeats(task, next.word);
                    if !repeats && self.can_run(task, last) {
                        into.push(Choice::variant_of(task, variant));
                    }
                });
            }
        }
        if into.is_empty() {
            // Only pausing tasks are left: no other task can go first.
            into.extend(self.tasks.with(Status::Pausing).map(Choice::run));
        }
        let timed = self.tasks.with(Status::Asleep).filter(|&at| self.tasks[at].deadline.get());
        into.extend(timed.map(Choice::deadline));
        let delayed = (0..self.tasks.len()).filter(|&task| storage.buffered(task).is_some());
        into.extend(delayed.map(Choice::flush));
        if into.iter().any(|choice| choice.is_flush()) {
            // A task that polls would do so for ever while a store is delayed.
            into.retain(|choice| {
                choice.is_flush() || self.tasks[choice.task()].status.get() != Status::Pausing
            });
        }
        if into.iter().all(|choice| choice.is_stale()) {
            // A spin that only an old value ends goes on for ever once it reads the newest.
            into.clear();
        }
    }

    /// Returns whether the step of `choice` may write to an atomic word.
    pub(super) fn writes(&self, choice: Choice) -> bool {
        let kind = self.tasks[choice.task()].operation.get().kind;
        choice.is_flush() || !matches!(kind, Kind::Load | Kind::Await | Kind::Nothing)
    }

    /// Returns the memory that `choice` accesses.
    pub(super) fn touched(&self, choice: Choice) -> Footprint {
        let delayed = self.storage.borrow().buffered(choice.task());
        match delayed {
            Some(word) if choice.is_flush() => Footprint::write(word),
            // It may empty the buffer.
            Some(_) => Footprint::EVERYTHING,
            None => self.tasks[choice.task()].next.get(),
        }
    }

    /// Prepares memory for the step of `task`.
    fn begin(&self, task: usize, variant: usize) {
        let next = self.tasks[task].operation.get();
        let newest = if variant > 0 { next.word.get() } else { 0 };
        if !self.storage.borrow_mut().begin(task, next, variant) {
            let place = self.place(next.word.address);
            let text = format!("task {task} accesses {place}, whose first value is not visible");
            self.failure.borrow_mut().get_or_insert((Property::Visibility, text));
        }
        self.stale.set(match (variant, next.kind) {
            (0, _) => Stale::No,
            (_, Kind::Store) => Stale::Writes,
            _ => Stale::Reads { newest },
        });
    }

    /// Returns the address of the object that the tasks share.
    pub(super) fn object(&self) -> *const () {
        self.placed.as_ref().map_or(core::ptr::null(), |placed| placed.start.cast_const().cast())
    }

    /// Returns the state if the tasks share only one object. Pass the task that ran last only where
    /// it makes a difference.
    pub(super) fn state(&self, last: Option<usize>) -> Option<State> {
        let other = last.map_or(0, |last| 1 + last as u64) << 1 | u64::from(self.hurries.get());
        let storage = self.storage.borrow();
        self.placed.as_ref().map(|placed| state::state(placed, &self.tasks, &storage, other))
    }
}
