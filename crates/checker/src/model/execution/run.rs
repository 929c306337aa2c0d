//! Runs the tasks of an execution, one step at a time.

use super::place::{self, REGION};
use super::polls::Polls;
use super::region::TaskStack;
use super::saved::Saved;
use super::stack;
use super::tasks::{Status, Task, Tasks};
use super::{EXECUTION, Execution, JUDGES_CELLS, Routine, Stale, WEAKENS, with};
use crate::model::cycles::{Slots, served};
use crate::model::memory::{Kind, Memory, Storage};
use crate::model::narrative::{Narrative, Step};
use crate::model::orders::Orders;
use crate::model::scenario::{Body, End, Failure, Property, Scenario, Verdict};
use crate::model::schedule::Choice;
use convoy_sync::Wake;
use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use corosensei::stack::Stack;
use corosensei::{Coroutine, CoroutineResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

/// Parts of the second half of the steps that are allowed. An execution that is as long is a
/// livelock if it is fair in each of them: in one alone, the last step of another task may be what
/// would end it.
const WINDOWS: usize = 16;

/// Result of an execution.
pub(in crate::model) struct Outcome {
    pub(in crate::model) failure: Option<Failure>,
    pub(in crate::model) steps: Vec<Step>,
    /// Whether the search must begin again: the scenario uses `SeqCst`, which was not known.
    pub(in crate::model) again: bool,
}

/// A point of an execution at which the next step is chosen.
pub(in crate::model) struct Point<'a> {
    pub(in crate::model) choices: &'a [Choice],
    /// The task that ran last.
    pub(in crate::model) last: Option<usize>,
    pub(in crate::model) execution: &'a Execution,
    routines: &'a [Option<Routine>],
    step: usize,
}

impl Point<'_> {
    /// Saves the execution, in the memory of `old`, so that it can be restored. Returns `None` if
    /// its tasks share more than one object.
    pub(in crate::model) fn save(&self, old: Saved) -> Option<Saved> {
        old.with(self.execution, self.routines, self.last, self.step)
    }
}

/// Decides the order of the steps.
pub(in crate::model) trait Guide {
    /// Returns the next step, or `None` to abandon the execution.
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice>;

    /// Called when the execution has ended or was abandoned. Returns the point to continue from, if
    /// any.
    fn again(&mut self, _: Option<&Failure>, _: Close) -> Option<&Saved> {
        None
    }
}

/// How an execution was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Close {
    /// It ended, or it is known not to be possible, or it continues as one that was seen before.
    Ended,
    /// It was abandoned, and may be possible.
    Unjudged,
    /// It reached the step limit, and a fair scheduler or memory would have ended it.
    Endless,
}

impl<F: FnMut(&[Choice], Option<usize>) -> Option<Choice>> Guide for F {
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice> {
        self(point.choices, point.last)
    }
}

thread_local! {
    /// Memory for the routines of an execution. The next execution reuses it, since its address may
    /// be stored on the stacks, see [`state`].
    static ROUTINES: RefCell<Vec<Option<Routine>>> = const { RefCell::new(Vec::new()) };
}

fn routine(task: usize, body: Body, stack: TaskStack) -> Routine {
    Coroutine::with_stack(stack, move |yielder, ()| {
        with(|execution| execution.tasks[task].yielder.set(Some(core::ptr::from_ref(yielder))));
        body();
    })
}

/// Executes `scenario` in the order that `guide` decides, and again from each point to which
/// `guide` returns. Returns the outcome of the last execution.
pub(in crate::model) fn run(
    scenario: &Scenario,
    memory: Memory,
    steps: usize,
    narrate: bool,
    guide: &mut dyn Guide,
) -> Outcome {
    // This may change registers that the first frames of a task store.
    silence_panics();
    assert!(EXECUTION.get().is_null(), "one execution runs at a time");
    // Words are created outside of any execution. They get their names once an execution exists.
    let instance = (scenario.build)();
    let mut routines = ROUTINES.take();
    let stacks = REGION.with(|region| region.stacks(instance.tasks.len()));
    let bounds = stacks.iter().map(|stack| (stack.limit().get(), stack.base().get()));
    let tasks = Tasks(REGION.with(|region| region.tasks(bounds.map(Task::new))));
    for ((task, body), stack) in instance.tasks.into_iter().enumerate().zip(stacks) {
        stack::clear_used(tasks[task].stack.1);
        routines.push(Some(routine(task, body, stack)));
    }
    let placed = place::take();
    let execution = Execution {
        tasks,
        current: Cell::new(None),
        sequence: Cell::default(),
        values: Cell::default(),
        failure: RefCell::new(None),
        aborting: Cell::new(false),
        asked: Cell::new(false),
        evaluates: Cell::new(false),
        hurries: Cell::new(false),
        memory: OnceCell::new(),
        polls: placed.is_none().then(|| RefCell::new(Polls::new(routines.len()))),
        placed,
        storage: RefCell::new(Storage::new(memory, routines.len(), scenario.sequential.get())),
        stale: Cell::new(Stale::No),
        orders: Rc::clone(&scenario.orders),
        tail: Cell::new((0, true)),
        log: narrate.then(RefCell::default),
    };
    let execution = REGION.with(|region| region.execution(execution));
    EXECUTION.set(&raw const *execution);
    set_gates(scenario, memory);
    // The steps of a task before its first visible operation are invisible to other tasks.
    for task in 0..routines.len() {
        advance(&execution, &mut routines, task);
    }
    let mut from = (None, 0);
    let begin_again = || execution.storage.borrow().lacks_record();
    while !begin_again() {
        let close = drive(&execution, &mut routines, from, steps, guide);
        if close == Some(Close::Ended) {
            judge(&execution, &instance.verdict);
        }
        if begin_again() {
            break;
        }
        let is_judged = execution.storage.borrow().is_judged();
        let close = if is_judged { close.unwrap_or(Close::Ended) } else { Close::Unjudged };
        let again = guide.again(execution.failure.borrow().as_ref(), close);
        let Some(saved) = again else { break };
        from = saved.restore(&execution, &mut routines);
    }
    execution.aborting.set(true);
    for (task, routine) in routines.iter_mut().enumerate() {
        if let Some(mut routine) = routine.take() {
            execution.current.set(Some(task));
            routine.force_unwind();
        }
    }
    EXECUTION.set(core::ptr::null());
    WEAKENS.set(false);
    JUDGES_CELLS.set(false);
    let again = begin_again();
    scenario.sequential.set(scenario.sequential.get() || again);
    let narrative = execution.log.as_ref().map(RefCell::take);
    routines.clear();
    ROUTINES.set(routines);
    let steps = narrative.map_or_else(Vec::new, Narrative::steps);
    Outcome { failure: execution.failure.take(), steps, again }
}

/// Sets what the operations of the running execution do beyond their access.
fn set_gates(scenario: &Scenario, memory: Memory) {
    WEAKENS.set(!matches!(*scenario.orders, Orders::Source));
    JUDGES_CELLS.set(scenario.judges_cells && memory != Memory::Sc);
}

/// Runs the verdict on an execution that has ended.
fn judge(execution: &Execution, verdict: &Verdict) {
    execution.current.set(None);
    if execution.failure.borrow().is_some() {
        return;
    }
    let end = execution.tasks.end();
    let result =
        catch_unwind(AssertUnwindSafe(|| verdict(&end).and_then(|()| execution.tasks.balanced())));
    *execution.failure.borrow_mut() =
        result.unwrap_or_else(|panic| Err(stuck(&end, &*panic))).err();
}

/// Returns the failure of a verdict that panicked: its inner lock is held forever, or it waits.
fn stuck(end: &End, panic: &(dyn Any + Send)) -> Failure {
    if end.spinning.is_empty() && end.asleep.is_empty() {
        return (Property::NoDeadlock, message(panic));
    }
    let text = format!("tasks {:?} spin and {:?} sleep forever", end.spinning, end.asleep);
    (Property::NoDeadlock, text)
}

/// Returns the text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Runs steps until no task can continue. `from` starts after this task and step. Returns how the
/// execution ended, or `None` if it was abandoned.
fn drive(
    execution: &Execution,
    routines: &mut [Option<Routine>],
    from: (Option<usize>, usize),
    steps: usize,
    guide: &mut dyn Guide,
) -> Option<Close> {
    let (mut last, first) = from;
    let mut choices = Vec::new();
    for step in first..steps {
        let failed = execution.failure.borrow().is_some();
        let possible = execution.storage.borrow_mut().is_possible(failed);
        execution.choices(last, &mut choices);
        let ends = failed || choices.is_empty();
        if !possible || ends && !execution.storage.borrow_mut().is_possible(true) {
            *execution.failure.borrow_mut() = None;
            return None;
        }
        if ends {
            return Some(Close::Ended);
        }
        let choices = choices.as_slice();
        let point = Point { choices, last, execution, routines, step };
        let choice = guide.choose(&point)?;
        let task = choice.task();
        if step >= steps / 2 {
            let (mut slots, mut fair) = execution.tail.get();
            if (step - steps / 2).is_multiple_of((steps / 2 / WINDOWS).max(1)) {
                fair &= step == steps / 2 || slots == Slots::MAX;
                slots = 0;
            }
            fair &= !choice.is_stale();
            execution.tail.set((slots | served(choices, choice), fair));
        }
        if choice.is_flush() {
            execution.current.set(Some(task));
            execution.log(|_| "its oldest delayed store becomes visible".to_owned());
            execution.flush(task);
            continue;
        }
        if choice.is_deadline() {
            execution.tasks[task].rouse(Wake::TimedOut);
            execution.current.set(Some(task));
            execution.log(|_| "its deadline fires".to_owned());
        } else {
            execution.begin(task, choice.variant());
        }
        advance(execution, routines, task);
        last = Some(task);
    }
    if !execution.storage.borrow_mut().is_possible(true) {
        return None;
    }
    if !execution.tail.get().1 {
        return Some(Close::Endless);
    }
    let text = format!("no end after {steps} steps");
    execution.failure.borrow_mut().get_or_insert((Property::NoLivelock, text));
    Some(Close::Ended)
}

/// Runs `task` up to its next scheduling point. A coroutine that has ended keeps its stack, because
/// a search may return to an earlier point.
fn advance(execution: &Execution, routines: &mut [Option<Routine>], task: usize) {
    let Some(routine) = &mut routines[task] else { return };
    execution.current.set(Some(task));
    execution.sequence.set(execution.sequence.get() + 1);
    let suspended = &execution.tasks[task];
    let mut resumed = catch_unwind(AssertUnwindSafe(|| routine.resume(())));
    while matches!(resumed, Ok(CoroutineResult::Yield(()))) {
        let (limit, low) = (suspended.stack.0, suspended.low());
        execution.storage.borrow_mut().forget(limit..low);
        suspended.clear_below();
        if !suspended.operation.get().is_immediate() {
            return;
        }
        if !immediate(execution, task) {
            // The execution has failed.
            return;
        }
        resumed = catch_unwind(AssertUnwindSafe(|| routine.resume(())));
    }
    match resumed {
        Ok(_) => {}
        Err(panic) => {
            let text = message(&*panic);
            execution.failure.borrow_mut().get_or_insert((Property::Assertions, text));
        }
    }
    let (limit, base) = suspended.stack;
    let mut storage = execution.storage.borrow_mut();
    storage.forget(limit..base);
    storage.end(task);
    suspended.status.set(Status::Done);
}

/// Lets the panics of tasks print nothing: they are violations, which are found many times while
/// one is shortened, and reported once.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !with(|execution| execution.current.get().is_some()).unwrap_or(false) {
                before(panic);
            }
        }));
    });
}

/// Executes an operation of `task` that needs no scheduling point. Returns whether it is possible.
fn immediate(execution: &Execution, task: usize) -> bool {
    let operation = execution.tasks[task].operation.get();
    if execution.storage.borrow_mut().immediate(task, operation) {
        return true;
    }
    let verb = match operation.kind {
        Kind::First => "accesses",
        Kind::Read => "reads",
        Kind::Drop => "drops",
        _ => "writes",
    };
    let place = execution.place(operation.word.address);
    let missing =
        if operation.kind == Kind::First { "its first value" } else { "an earlier access" };
    let text = format!("task {task} {verb} {place}, and {missing} is not visible to it");
    execution.log(|_| format!("{verb} {place}: {missing} is not visible"));
    execution.failure.borrow_mut().get_or_insert((Property::Visibility, text));
    false
}
