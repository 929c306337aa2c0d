//! `Model` as a platform: every operation on its words is a scheduling point.

use super::execution::{Execution, SOURCE, judges_cells, weakens, with};
use super::footprint::Footprint;
use super::memory::{Cell as Bits, Kind, Operation, bits};
use super::scenario::Property;
use convoy_sync::{
    Access, Atomic, Integer, LockEvent, Marks, Monitor, Platform, Sleep, TaskId, TellPart, Turn,
    Wake,
};
use core::cell::Cell;
use core::fmt::Display;
use core::panic::Location;
use core::sync::atomic::Ordering;

/// The checker's platform. Outside of an execution its operations are plain memory accesses.
#[derive(Clone, Copy, Debug)]
pub struct Model;

/// A word of the checker.
#[derive(Default)]
#[repr(transparent)]
pub struct Word<T>(Cell<T>);

impl<T> Word<T> {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// A scheduling point before an access of this kind.
    #[track_caller]
    fn access(&self, kind: Kind, order: Ordering) {
        let way = Way { bytes: size_of::<T>() as u8, kind, order, failure: order };
        access(self.address(), way, 0, Some(Location::caller()));
    }
}

/// Notes where the operation is, for the narrative.
#[track_caller]
fn note_source() {
    SOURCE.set(Some(Location::caller()));
}

/// An access without its place and values.
#[derive(Clone, Copy)]
struct Way {
    bytes: u8,
    kind: Kind,
    order: Ordering,
    failure: Ordering,
}

/// A scheduling point before an access, or an access without one. `place` is the operation in the
/// source of the lock. The arguments are passed in registers, so that they leave nothing on the
/// stack of the task.
#[inline(never)]
fn access(address: usize, way: Way, expected: u64, place: Option<&'static Location<'static>>) {
    let Way { bytes, kind, order, failure } = way;
    let word = Bits { address, bytes };
    match place.filter(|_| weakens()) {
        None => with(|execution| {
            execution.access(Operation { kind, word, order, expected, failure });
        }),
        Some(place) => with(|execution| {
            let next = Operation { kind, word, order, expected, failure };
            execution.access(execution.ordered(next, place));
        }),
    };
}

/// An access to the memory of a lock that is not atomic.
#[inline(never)]
fn touch(address: usize, kind: Kind, bytes: u64) {
    let order = Ordering::Relaxed;
    let word = Bits { address, bytes: 0 };
    with(|execution| {
        execution.access(Operation { kind, word, order, expected: bytes, failure: order });
    });
}

impl<T: Copy> Word<T> {
    /// Replaces the value by the result of `change`, and returns the previous value. A scheduling
    /// point is before it.
    #[track_caller]
    fn change(&self, change: impl Fn(T) -> T) -> T
    where
        T: Eq + Display,
    {
        note_source();
        let (old, new) = (self.0.get(), change(self.0.get()));
        self.0.set(new);
        with(|execution| {
            execution.settle(self.address(), bits(old), bits(new));
            execution.log(|e| match (e.place(self.address()), shown(old), shown(new)) {
                (place, old, new) if old == new => format!("leaves {place} = {old}"),
                (place, old, new) => format!("changes {place}: {old} -> {new}"),
            });
        });
        old
    }

    /// Returns the newest value. No step of the program.
    pub(super) fn newest(&self) -> T {
        self.0.get()
    }

    /// Adds to the word. Sequentially consistent, whatever orderings a search weakens: for words of
    /// scenarios.
    pub(crate) fn add(&self, value: T)
    where
        T: Integer + Display,
    {
        let order = Ordering::SeqCst;
        let bytes = size_of::<T>() as u8;
        let way = Way { bytes, kind: Kind::Modify, order, failure: order };
        access(self.address(), way, 0, None);
        self.change(|held| held.wrapping_add(value));
    }
}

/// Data that is not atomic, as that under a lock. Every access must happen after the earlier ones
/// that conflict with it, or [`Property::Visibility`] is violated.
#[derive(Default)]
pub struct Plain<T>(Cell<T>);

impl<T: Copy> Plain<T> {
    /// Returns data with this value.
    pub const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    /// Reads the data.
    #[track_caller]
    pub fn get(&self) -> T {
        self.access(Kind::Read);
        self.0.get()
    }

    /// Writes the data.
    #[track_caller]
    pub fn set(&self, value: T) {
        self.access(Kind::Write);
        self.0.set(value);
    }

    #[track_caller]
    fn access(&self, kind: Kind) {
        note_source();
        let address = core::ptr::from_ref(self).addr();
        let order = Ordering::Relaxed;
        access(address, Way { bytes: 0, kind, order, failure: order }, 0, None);
    }
}

/// Largest number of tasks that have marks of critical sections, with the task that sets up and
/// judges.
const MARKED_TASKS: usize = 16;

/// Memory of the monitor of critical sections.
struct Marked {
    preempted: Word<u32>,
    marks: [Marks<Word<u32>>; MARKED_TASKS],
}

/// Formats a value for the narrative. A 64-bit number that counts down from 0 is shown as negative.
fn shown(value: impl Display) -> String {
    let text = value.to_string();
    match text.parse::<u64>() {
        Ok(wide) if wide > i64::MAX as u64 => (wide as i64).to_string(),
        _ => text,
    }
}

impl<T: Integer + Display> Atomic<T> for Word<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }
    #[track_caller]
    fn load(&self, order: Ordering) -> T {
        self.access(Kind::Load, order);
        note_source();
        let value = self.0.get();
        with(|execution| {
            execution.settle(self.address(), bits(value), bits(value));
            execution.log(|e| format!("reads {} = {}", e.place(self.address()), shown(value)));
        });
        value
    }
    #[track_caller]
    fn peek(&self) -> T {
        let is_load = with(|execution| !execution.ask() && execution.is_weak()).unwrap_or(false);
        if is_load { self.load(Ordering::Relaxed) } else { self.0.get() }
    }
    #[track_caller]
    fn store(&self, value: T, order: Ordering) {
        self.access(Kind::Store, order);
        self.change(|_| value);
    }
    #[track_caller]
    fn modify(&self, order: Ordering, change: impl Fn(T) -> T) -> T {
        self.access(Kind::Modify, order);
        self.change(change)
    }
    #[track_caller]
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        let bytes = size_of::<T>() as u8;
        let way = Way { bytes, kind: Kind::Exchange, order: success, failure };
        access(self.address(), way, bits(current), Some(Location::caller()));
        let held = self.change(|held| if held == current { new } else { held });
        if held == current { Ok(held) } else { Err(held) }
    }
    // The defaults of these would have their own place as that of the operation.
    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T {
        self.modify(order, |_| value)
    }
    #[track_caller]
    fn fetch_add(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_add(value))
    }
    #[track_caller]
    fn fetch_sub(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_sub(value))
    }
    #[track_caller]
    fn fetch_or(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held | value)
    }
    #[track_caller]
    fn fetch_and(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held & value)
    }
}

impl Model {
    /// Blocks until `done` holds for the value of `word`. Returns that value.
    #[track_caller]
    fn wait_until(word: &Word<u32>, order: Ordering, done: impl Fn(u32) -> bool) -> u32 {
        let ready = || done(word.0.get());
        let next = Operation::new(Kind::Await, Bits::of(word), order);
        if with(|execution| execution.spin(next, &ready)).is_none() {
            assert!(ready(), "no other task runs outside of an execution");
        }
        note_source();
        let value = word.0.get();
        with(|execution| {
            execution.settle(word.address(), bits(value), bits(value));
            execution.log(|e| format!("spins until {} = {value}", e.place(word.address())));
        });
        value
    }

    /// Blocks until `word` is 0, and makes it 1 in the same step.
    #[track_caller]
    pub(super) fn take(word: &Word<u32>) {
        let ready = || word.0.get() == 0;
        let next = Operation::new(Kind::Modify, Bits::of(word), Ordering::Acquire);
        with(|execution| execution.spin(next, &ready));
        word.change(|_| 1);
    }

    /// Sends `task` a signal that ends interruptible waits. A scheduling point.
    pub fn interrupt(task: TaskId) {
        Self::signal(task, false);
    }

    /// Sends `task` a signal that also ends killable waits. A scheduling point.
    pub fn kill(task: TaskId) {
        Self::signal(task, true);
    }

    fn signal(task: TaskId, fatal: bool) {
        with(|execution| {
            execution.point(Footprint::EVERYTHING);
            execution.signal(task, fatal);
            execution.log(|_| format!("sends a signal to task {task}"));
        });
    }

    /// A scheduling point that depends on every other step.
    pub fn point() {
        with(|execution| execution.point(Footprint::EVERYTHING));
    }

    /// Makes the scheduler want the CPU of `task` for another task from now on. A scheduling point.
    pub fn want_cpu_of(task: TaskId) {
        Self::point();
        with(|execution| execution.want_cpu_of(task));
    }

    /// Makes one critical section count as preempted, or as running again, whichever is marked. A
    /// scheduling point.
    ///
    /// # Panics
    ///
    /// Outside of an execution.
    pub fn preempts(preempts: bool) {
        let monitor = Self::monitor(Self::current()).expect("a task calls it");
        // SeqCst: every operation is sequentially consistent here.
        if preempts {
            monitor.preempted.fetch_add(1, Ordering::SeqCst);
        } else {
            monitor.preempted.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Lets every time limit that a lock sets itself expire, for all tasks.
    pub fn hurry() {
        with(|execution| execution.hurries.set(true));
    }

    /// The calling task uses an object at `place` that was dropped. Ends the execution.
    #[track_caller]
    pub(super) fn used_after_drop<T>(place: &T) {
        note_source();
        let address = core::ptr::from_ref(place).addr();
        with(|execution| {
            let text = |e: &Execution| format!("accesses {}, which was dropped", e.place(address));
            execution.log(text);
            execution.fail(Property::GracePeriod, text(execution));
        });
    }

    /// Drops the data at `place`: all accesses must have happened before.
    pub(super) fn end<T>(place: *const T) {
        if !std::thread::panicking() {
            touch(place.addr(), Kind::Drop, 0);
        }
    }

    /// Ends a reference that `count` counts. With `Acquire`, the ends of all others are visible.
    pub(super) fn leave(count: &Word<u32>, order: Ordering) {
        let way = Way { bytes: 4, kind: Kind::Leave, order, failure: order };
        if !std::thread::panicking() {
            access(count.address(), way, 0, None);
        }
    }

    /// Declares that the word or data at `place` is in no use any more: its memory may be used
    /// again.
    pub(super) fn forget<T>(place: *const T) {
        let start = place.addr();
        with(|execution| execution.storage.borrow_mut().forget(start..start + 1));
    }

    /// Writes the first value of a word or of data that has no place yet. Returns the number of the
    /// write, or 0 if its order does not matter.
    pub(super) fn begin() -> usize {
        let number = with(Execution::begin_value).unwrap_or(0);
        if number != 0 {
            touch(number, Kind::Write, 0);
        }
        number
    }

    /// Needs the first value at `place`, the write of which has this number.
    #[track_caller]
    pub(super) fn needs_first<T>(place: *const T, number: usize) {
        note_source();
        touch(place.addr(), Kind::First, number as u64);
    }

    /// Clears the pending signals of the calling task.
    pub fn clear_signals() {
        with(Execution::clear_signals);
    }

    /// Records that the calling task saw `property` violated, and ends the execution.
    pub fn fail(property: Property, text: String) {
        with(|execution| execution.fail(property, text));
    }

    /// Sets the call that the calling task executes from now on, for the narrative.
    pub fn call(call: &'static str) {
        with(|execution| execution.call(call));
    }

    /// Names `object`, and its words as reported by `parts` with their offsets, for the narrative.
    /// Called by a task.
    pub fn name<T>(object: &T, name: &'static str, parts: fn(&mut TellPart<'_>)) {
        let start = core::ptr::from_ref(object).addr();
        with(|execution| execution.name(start, size_of::<T>(), name, parts));
    }

    /// Returns whether `task` sleeps.
    pub fn is_asleep(task: TaskId) -> bool {
        with(|execution| execution.tasks.is_asleep(task)).unwrap_or(false)
    }

    /// Returns whether `task` sleeps or spins on a word.
    pub fn is_blocked(task: TaskId) -> bool {
        with(|execution| execution.tasks.is_blocked(task)).unwrap_or(false)
    }
}

impl Platform for Model {
    type AtomicU8 = Word<u8>;
    type AtomicU32 = Word<u32>;
    type AtomicUsize = Word<usize>;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        // The explorer decides when deadlines fire. An advancing clock would split each state that
        // is reached at two times.
        1
    }

    #[track_caller]
    fn fence(order: Ordering) {
        let way = Way { bytes: 0, kind: Kind::Fence, order, failure: order };
        access(0, way, 0, Some(Location::caller()));
    }

    fn spin_hint() {
        with(Execution::pause);
    }

    #[track_caller]
    fn spin_for(word: &Word<u32>, _: u64, _: impl Fn(u32) -> bool) -> u32 {
        // The time may pass before any other task has run.
        word.load(Ordering::Relaxed)
    }

    /// Returns true for every other pair of tasks, independent of the clock, or for every task
    /// after [`Model::hurry`].
    fn is_late(_: bool) -> bool {
        Self::current() & 2 != 0 || with(|execution| execution.hurries.get()).unwrap_or(false)
    }

    /// Returns the turn of a visitor for task 0, a turn that is over for tasks 1 and 5, and a turn
    /// that is ending for tasks 3 and 7.
    fn turn() -> Turn {
        match Self::current() {
            0 => Turn::visiting(Self::now()),
            1 | 5 => Turn::over(Self::now()),
            3 | 7 => Turn::ending(Self::now()),
            _ => Turn::default(),
        }
    }

    #[track_caller]
    fn spin_until(word: &Word<u32>, done: impl Fn(u32) -> bool) -> u32 {
        Self::wait_until(word, Ordering::Acquire, done)
    }

    #[track_caller]
    fn spin_until_either(word: &Word<u32>, other: &Word<u32>, done: impl Fn(u32, u32) -> bool) {
        Self::spin_until(word, |value| done(value, other.peek()));
    }

    /// [`Model::preempts`] changes the count: the tasks of a scenario decide when a critical
    /// section is preempted.
    fn monitor<'a>(task: TaskId) -> Option<Monitor<'a, Word<u32>>> {
        let marked = with(|execution| {
            let memory = execution.memory.get_or_init(|| {
                let marks = core::array::from_fn(|_| Marks::new(Word::default));
                Box::new(Marked { preempted: Word::default(), marks })
            });
            memory.downcast_ref::<Marked>().map(core::ptr::from_ref)
        });
        // SAFETY: the execution owns the memory, and ends after its tasks.
        let marked = unsafe { &*marked.flatten()? };
        Some(Monitor { preempted: &marked.preempted, marks: &marked.marks[task as usize] })
    }

    #[track_caller]
    fn pause_for(word: &Word<u32>, worthwhile: impl Fn(u32) -> bool) {
        Self::wait_until(word, Ordering::Relaxed, worthwhile);
    }
    #[track_caller]
    fn wait(word: &Word<u32>, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake {
        word.access(Kind::Compare, Ordering::Relaxed);
        note_source();
        if word.0.get() != expected {
            with(|execution| {
                execution.log(|e| format!("does not sleep, {} changed", e.place(word.address())));
            });
            return Wake::Woken;
        }
        with(|execution| {
            execution.log(|e| format!("sleeps on {}", e.place(word.address())));
            let wake = execution.sleep(word.address(), sleep, deadline.is_some());
            execution.log(|_| format!("runs again: {wake:?}"));
            wake
        })
        .unwrap_or(Wake::Woken)
    }

    #[track_caller]
    fn wake(word: *const Word<u32>, count: usize) {
        let word = word.addr();
        let order = Ordering::Relaxed;
        access(word, Way { bytes: 4, kind: Kind::Wake, order, failure: order }, 0, None);
        note_source();
        with(|execution| {
            let woken = execution.tasks.wake(word, count);
            execution.log(|e| {
                let tasks: Vec<_> = (0..64).filter(|task| woken & 1 << task != 0).collect();
                match tasks.as_slice() {
                    [] => format!("wakes no task on {}", e.place(word)),
                    tasks => format!("wakes task {tasks:?}"),
                }
            });
        });
    }

    fn signal_pending(sleep: Sleep) -> bool {
        with(|execution| execution.signal_pending(sleep)).unwrap_or(false)
    }

    fn current() -> TaskId {
        with(Execution::current).unwrap_or(0)
    }

    fn cpu() -> u32 {
        Self::current()
    }

    fn package() -> u32 {
        Self::current() % 2
    }

    fn on_cpu(task: TaskId) -> bool {
        with(|execution| {
            execution.ask();
            execution.tasks.runs(task)
        })
        .unwrap_or(true)
    }

    fn need_resched() -> bool {
        with(Execution::need_resched).unwrap_or(false)
    }

    /// Returns the number of tasks that can continue, as if all shared one CPU. A scheduling point.
    fn runnable_here() -> u32 {
        Self::point();
        with(|execution| execution.tasks.runnable()).unwrap_or(1)
    }

    fn irq_save() {
        with(|execution| execution.disable(0, 1));
    }

    fn irq_restore((): ()) {
        with(|execution| execution.disable(0, -1));
    }

    fn preempt_disable() {
        with(|execution| execution.disable(1, 0));
    }

    fn preempt_enable() {
        with(|execution| execution.disable(-1, 0));
    }

    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    /// An access to data that is not atomic: the protocol of the lock must order it. Skipped under
    /// sequential consistency, which orders all accesses.
    #[inline(always)]
    #[track_caller]
    fn touch<T: ?Sized>(start: &T, access: Access) {
        if !judges_cells() {
            return;
        }
        note_source();
        let kind = match access {
            Access::Read => Kind::Read,
            Access::Write => Kind::Write,
            Access::Fresh => Kind::Fresh,
        };
        touch(core::ptr::from_ref(start).cast::<()>().addr(), kind, size_of_val(start) as u64);
    }

    fn event<T: ?Sized>(event: LockEvent, lock: &T, task: TaskId) {
        let lock = core::ptr::from_ref(lock).cast::<()>().addr();
        with(|execution| execution.log_event(event, lock, task));
    }
}
