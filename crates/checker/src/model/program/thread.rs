//! Like `std::thread`.

use crate::model::{Model, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use core::sync::atomic::Ordering::{Acquire, Release};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Body = Box<dyn FnOnce()>;

/// A thread that may be spawned.
#[derive(Default)]
struct Slot {
    body: RefCell<Option<Body>>,
    begins: Word<u32>,
    ends: Word<u32>,
    /// Whether it may leave `park`.
    token: Word<u32>,
}

/// The threads of an execution.
pub(super) struct Threads {
    slots: Vec<Slot>,
    spawned: Cell<usize>,
}

thread_local! {
    static RUNNING: RefCell<Option<Rc<Threads>>> = const { RefCell::new(None) };
}

fn running() -> Rc<Threads> {
    RUNNING.with(|running| running.borrow().clone()).expect("a thread of a program calls it")
}

impl Threads {
    /// Returns the threads of the next execution, of which the first has been spawned.
    pub(super) fn new(count: usize) -> Rc<Self> {
        let slots = (0..count).map(|_| Slot::default()).collect();
        let threads = Rc::new(Self { slots, spawned: Cell::new(1) });
        RUNNING.set(Some(Rc::clone(&threads)));
        threads
    }

    pub(super) fn is_spawned(&self, thread: usize) -> bool {
        thread < self.spawned.get()
    }

    /// Executes the body that is spawned as thread `number`.
    pub(super) fn run(&self, number: usize) {
        let slot = &self.slots[number];
        Model::spin_until(&slot.begins, |begins| begins == 1);
        let body = slot.body.borrow_mut().take().expect("it was spawned");
        body();
        slot.ends.store(1, Release);
    }
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(usize);

impl Thread {
    /// Lets the thread leave [`park`], now or when it calls it next.
    #[track_caller]
    pub fn unpark(&self) {
        let threads = running();
        let token = &threads.slots[self.0].token;
        token.store(1, Release);
        Model::wake(&raw const *token, 1);
    }
}

/// A thread whose result can be waited for.
pub struct JoinHandle<T> {
    thread: Thread,
    result: Rc<RefCell<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended. Returns its result.
    ///
    /// # Errors
    ///
    /// Never: a thread that panics ends the execution, with a violation of
    /// [`Property::Assertions`](crate::Property::Assertions).
    #[expect(clippy::unnecessary_wraps, reason = "the signature of std")]
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        let threads = running();
        Model::spin_until(&threads.slots[self.thread.0].ends, |ends| ends == 1);
        Ok(self.result.borrow_mut().take().expect("the thread has ended"))
    }

    /// Returns the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// Starts a thread.
///
/// # Panics
///
/// If the program has more threads than [`Check::threads`](super::Check::threads).
#[track_caller]
pub fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    let threads = running();
    let number = threads.spawned.replace(threads.spawned.get() + 1);
    let slot = threads.slots.get(number).expect("`Check::threads` is at least their number");
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    Model::name(&slot.begins, "begin", |_| {});
    Model::name(&slot.ends, "end", |_| {});
    *slot.body.borrow_mut() = Some(Box::new(move || *place.borrow_mut() = Some(body())));
    slot.begins.store(1, Release);
    JoinHandle { thread: Thread(number), result }
}

/// Lets other threads run first.
pub fn yield_now() {
    Model::spin_hint();
}

/// Returns the calling thread.
pub fn current() -> Thread {
    Thread(Model::current() as usize)
}

/// Sleeps until another thread calls [`Thread::unpark`] for this one.
#[track_caller]
pub fn park() {
    let threads = running();
    let token = &threads.slots[current().0].token;
    while token.swap(0, Acquire) == 0 {
        Model::wait(token, 0, Sleep::Uninterruptible, None);
    }
}
