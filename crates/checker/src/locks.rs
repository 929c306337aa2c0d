//! Scenarios for locks of one owner, and for reader/writer locks.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_sync::{
    Mutex, Platform, RawLock, RawSemaphore, RwLock, RwSemaphore, SpinPolicy, SpinningMutex, TaskId,
};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

/// A lock as the scenarios use it: one owner, or several readers.
pub trait Exclusive: 'static {
    /// An unlocked lock.
    fn unlocked() -> Self;
    /// Takes the lock; `reader` asks for a shared one where the lock has such a thing.
    fn enter(&self, reader: bool);
    /// Gives back what [`Self::enter`] took.
    fn leave(&self, reader: bool);
    /// Whether readers may be inside together.
    const SHARES: bool = false;
}

/// A [`RawLock`] as [`Exclusive`].
#[derive(Debug)]
pub struct Raw<P, L>(L, PhantomData<fn() -> P>);

impl<P: Platform, L: RawLock<P>> Exclusive for Raw<P, L> {
    fn unlocked() -> Self {
        Self(L::new(), PhantomData)
    }
    fn enter(&self, _: bool) {
        self.0.lock();
    }
    fn leave(&self, _: bool) {
        self.0.unlock();
    }
}

/// A [`RawLock`] that is taken with interrupts disabled, as [`Exclusive`].
#[derive(Debug)]
pub struct Irq<P, L>(L, PhantomData<fn() -> P>);

impl<P: Platform<IrqFlags = ()>, L: RawLock<P>> Exclusive for Irq<P, L> {
    fn unlocked() -> Self {
        Self(L::new(), PhantomData)
    }
    fn enter(&self, _: bool) {
        self.0.lock_irqsave();
    }
    fn leave(&self, _: bool) {
        self.0.unlock_irqrestore(());
    }
}

/// A semaphore of one unit as [`Exclusive`].
#[derive(Debug)]
pub struct Binary<S>(S);

impl<S: RawSemaphore> Exclusive for Binary<S> {
    fn unlocked() -> Self {
        Self(S::with_count(1))
    }
    fn enter(&self, _: bool) {
        self.0.down();
    }
    fn leave(&self, _: bool) {
        self.0.up();
    }
}

impl<P: Platform, L: RawLock<P>> Exclusive for Mutex<P, L> {
    fn unlocked() -> Self {
        Self::new()
    }
    fn enter(&self, _: bool) {
        self.lock();
    }
    fn leave(&self, _: bool) {
        self.unlock();
    }
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P>> Exclusive for SpinningMutex<P, S, L> {
    fn unlocked() -> Self {
        Self::new()
    }
    fn enter(&self, _: bool) {
        self.lock();
    }
    fn leave(&self, _: bool) {
        self.unlock();
    }
}

impl<P: Platform> Exclusive for RwLock<P> {
    const SHARES: bool = true;
    fn unlocked() -> Self {
        Self::new()
    }
    fn enter(&self, reader: bool) {
        if reader { self.read() } else { self.write() }
    }
    fn leave(&self, reader: bool) {
        if reader { self.read_unlock() } else { self.write_unlock() }
    }
}

impl<P: Platform, L: RawLock<P>> Exclusive for RwSemaphore<P, L> {
    const SHARES: bool = true;
    fn unlocked() -> Self {
        Self::new()
    }
    fn enter(&self, reader: bool) {
        if reader { self.down_read() } else { self.down_write() }
    }
    fn leave(&self, reader: bool) {
        if reader { self.up_read() } else { self.up_write() }
    }
}

struct Room<E> {
    lock: E,
    owners: Cell<u32>,
    readers: Cell<u32>,
    /// For each task: who was blocked in `enter` when it came, and has not entered since.
    ahead: RefCell<Vec<Vec<TaskId>>>,
    entering: RefCell<Vec<bool>>,
}

impl<E: Exclusive> Room<E> {
    fn visit(&self, task: usize, reader: bool, fifo: bool) {
        Model::name(&self.lock, "lock", Vec::new);
        Model::call(if reader { "read" } else { "lock" });
        if fifo {
            let entering = self.entering.borrow().clone();
            let blocked = (0..entering.len()).filter(|&other| entering[other] && other != task);
            let ids = blocked.map(|other| other as TaskId).filter(|&id| Model::is_blocked(id));
            self.ahead.borrow_mut()[task] = ids.collect();
        }
        self.entering.borrow_mut()[task] = true;
        self.lock.enter(reader);
        self.entering.borrow_mut()[task] = false;
        for list in self.ahead.borrow_mut().iter_mut() {
            list.retain(|&other| other as usize != task);
        }
        let passed = self.ahead.borrow()[task].clone();
        if !passed.is_empty() {
            Model::fail(Property::Fifo, format!("task {task} passed the waiting tasks {passed:?}"));
        }
        self.inside(reader);
        Model::call(if reader { "read unlock" } else { "unlock" });
        self.lock.leave(reader);
    }

    fn inside(&self, reader: bool) {
        let shared = reader && E::SHARES;
        let count = if shared { &self.readers } else { &self.owners };
        count.set(count.get() + 1);
        // Others may run here.
        Model::point();
        let (owners, readers) = (self.owners.get(), self.readers.get());
        if owners > 1 || (owners == 1 && readers > 0) {
            let text = format!("{owners} owners and {readers} readers are inside together");
            Model::fail(Property::Exclusion, text);
        }
        count.set(count.get() - 1);
    }
}

/// Tasks that enter and leave a lock, `readers[t][i]` telling how task `t` enters for the `i`th
/// time; `fifo` demands that nobody passes a task that is blocked in the lock.
pub fn exclusion<E: Exclusive>(
    name: &str,
    visits: &'static [&'static [bool]],
    fifo: bool,
) -> Scenario {
    let build = move || {
        let room = Rc::new(Room {
            lock: E::unlocked(),
            owners: Cell::new(0),
            readers: Cell::new(0),
            ahead: RefCell::new(vec![Vec::new(); visits.len()]),
            entering: RefCell::new(vec![false; visits.len()]),
        });
        let body = |task: usize, visits: &'static [bool]| -> Box<dyn FnOnce()> {
            let room = Rc::clone(&room);
            Box::new(move || visits.iter().for_each(|&reader| room.visit(task, reader, fifo)))
        };
        let tasks = visits.iter().enumerate().map(|(task, visits)| body(task, visits)).collect();
        Instance { tasks, verdict: Box::new(everybody_left) }
    };
    Scenario { name: name.to_owned(), build: Box::new(build) }
}

fn everybody_left(end: &End) -> Result<(), Failure> {
    if end.asleep.is_empty() && end.spinning.is_empty() {
        return Ok(());
    }
    let text = format!("tasks {:?} sleep and {:?} spin forever", end.asleep, end.spinning);
    Err((Property::NoDeadlock, text))
}
