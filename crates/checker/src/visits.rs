//! Tasks that acquire a lock, exclusively or as readers: whether they exclude each other, and in
//! which order.

use crate::model::{End, Failure, Instance, Model, Plain, Property, Scenario};
use convoy_sync::{Atomic, Cancel, Lock, Platform, Promise, RawLock, TaskId, WaitError};
use std::cell::Cell;
use std::marker::PhantomData;

/// Three tasks. The first acquires the lock twice.
pub const WRITERS: &[&[bool]] = &[&[false, false], &[false], &[false]];
/// Like [`WRITERS`], with readers.
pub const READERS: &[&[bool]] = &[&[true, false], &[false], &[true]];

/// A [`RawLock`] that is acquired with interrupts disabled.
#[derive(Debug)]
pub struct Irq<P, L>(L, PhantomData<fn() -> P>);

impl<P: Platform<IrqFlags = ()>, L: RawLock<P> + Default> Lock for Irq<P, L> {
    fn with_units(_: u32) -> Self {
        Self(L::default(), PhantomData)
    }
    fn acquire(&self) {
        self.0.lock_irqsave();
    }
    fn try_acquire(&self) -> bool {
        self.0.try_lock()
    }
    fn acquire_unless(&self, _: Cancel) -> Result<(), WaitError> {
        self.acquire();
        Ok(())
    }
    fn release(&self) {
        self.0.unlock_irqrestore(());
    }
}

struct Room<T> {
    lock: T,
    name: &'static str,
    /// For each visit of each task, whether it acquires the lock as a reader.
    visits: &'static [&'static [bool]],
    fifo: bool,
    /// Whether the lock has readers.
    shares: bool,
    /// What the lock guards.
    data: Plain<u32>,
    owners: Cell<u32>,
    readers: Cell<u32>,
    /// For each task, one bit for each task that was blocked in `acquire` when it arrived and has
    /// not acquired the lock since.
    ahead: [Cell<u32>; TASKS],
    /// For each task in `acquire`, whether it acquires the lock as a reader.
    entering: [Cell<Option<bool>>; TASKS],
}

/// Maximum number of tasks of a scenario.
const TASKS: usize = 8;

impl<T: Lock> Room<T> {
    fn task(&self, task: usize) {
        self.visits[task].iter().for_each(|&reader| self.visit(task, reader && self.shares));
    }

    fn visit(&self, task: usize, shared: bool) {
        Model::name(&self.lock, self.name, T::parts);
        Model::call(if shared { "read" } else { "lock" });
        if self.fifo {
            // Consecutive readers enter together, in any order.
            let before =
                |&other: &usize| self.entering[other].get().is_some_and(|other| !(other && shared));
            let blocked = |&other: &usize| Model::is_blocked(other as TaskId);
            let ahead = (0..TASKS).filter(before).filter(blocked);
            self.ahead[task].set(ahead.fold(0, |all, other| all | 1 << other));
        }
        self.entering[task].set(Some(shared));
        if shared {
            self.lock.acquire_shared();
        } else {
            self.lock.acquire();
        }
        self.entering[task].set(None);
        for ahead in &self.ahead {
            ahead.set(ahead.get() & !(1 << task));
        }
        let ahead = self.ahead[task].get();
        if ahead != 0 {
            let passed: Vec<_> = (0..TASKS).filter(|&other| ahead & 1 << other != 0).collect();
            Model::fail(Property::Fifo, format!("task {task} passed the waiting tasks {passed:?}"));
        }
        self.inside(shared);
        Model::call(if shared { "read unlock" } else { "unlock" });
        if shared {
            self.lock.release_shared();
        } else {
            self.lock.release();
        }
    }

    fn inside(&self, shared: bool) {
        let count = if shared { &self.readers } else { &self.owners };
        count.set(count.get() + 1);
        self.data.get();
        if !shared {
            // The same value, so that the data splits no state.
            self.data.set(0);
        }
        // Other tasks may run here.
        Model::point();
        let (owners, readers) = (self.owners.get(), self.readers.get());
        if owners > 1 || (owners == 1 && readers > 0) {
            let text = format!("{owners} owners and {readers} readers are inside together");
            Model::fail(Property::Exclusion, text);
        }
        count.set(count.get() - 1);
    }
}

/// Returns a scenario with tasks that acquire and release a lock that promises `promises`.
/// `visits[t][i]` says whether visit `i` of task `t` is as a reader. The scenario is called `name`,
/// and the lock `lock` in the narrative.
pub fn visits<T: Lock>(
    name: String,
    lock: &'static str,
    visits: &'static [&'static [bool]],
    promises: &[Promise],
) -> Scenario {
    let fifo = promises.contains(&Promise::Fifo);
    let shares = promises.contains(&Promise::Shared);
    let mut checks = vec![
        Property::Exclusion,
        Property::NoLostWakeup,
        Property::NoDeadlock,
        Property::UnitsKept,
    ];
    checks.extend(fifo.then_some(Property::Fifo));
    Scenario::new(name, checks, move || {
        let room = Room {
            lock: T::unlocked(),
            name: lock,
            visits,
            fifo,
            shares,
            data: Plain::new(0),
            owners: Cell::new(0),
            readers: Cell::new(0),
            ahead: [const { Cell::new(0) }; TASKS],
            entering: [const { Cell::new(None) }; TASKS],
        };
        Instance::of(room, visits.len(), Room::task, |room, end| everybody_left(end, &room.lock))
    })
}

/// Number of readers of [`together`].
const ALL: u32 = 3;

type Word = <Model as Platform>::AtomicU32;

/// State that the tasks of [`together`] share.
struct Hall<T> {
    lock: T,
    name: &'static str,
    /// 1 once the writer has held the lock.
    written: Word,
    /// Number of readers that have acquired the lock.
    entered: Word,
}

impl<T: Lock> Hall<T> {
    /// The first task is the writer.
    fn task(&self, task: usize) {
        let Self { lock, written, entered, .. } = self;
        Model::name(lock, self.name, T::parts);
        if task == 0 {
            lock.acquire();
            written.add(1);
            lock.release();
        } else {
            Model::spin_until(written, |written| written == 1);
            lock.acquire_shared();
            entered.add(1);
            Model::spin_until(entered, |entered| entered == ALL);
            lock.release_shared();
        }
    }
}

/// Returns a scenario with three readers that wait for a writer. No reader releases the lock before
/// all three hold it. The scenario is called `name`, and the lock `lock` in the narrative.
pub fn together<T: Lock>(name: String, lock: &'static str) -> Scenario {
    let checks = [Property::NoLostWakeup, Property::NoDeadlock, Property::UnitsKept];
    Scenario::new(name, checks, move || {
        let (written, entered) = (Word::new(0), Word::new(0));
        let hall = Hall { lock: T::unlocked(), name: lock, written, entered };
        let tasks = 1 + ALL as usize;
        Instance::of(hall, tasks, Hall::task, |hall, end| everybody_left(end, &hall.lock))
    })
}

/// Fails if a task waits at the end, since every owner has released the lock, or if the lock cannot
/// be acquired.
fn everybody_left<T: Lock>(end: &End, lock: &T) -> Result<(), Failure> {
    if !end.spinning.is_empty() {
        let text = format!("tasks {:?} spin forever", end.spinning);
        return Err((Property::NoDeadlock, text));
    }
    if !end.asleep.is_empty() {
        let text = format!("tasks {:?} sleep although the lock is free", end.asleep);
        return Err((Property::NoLostWakeup, text));
    }
    if !lock.try_acquire() {
        let text = "the lock has no owner, and cannot be acquired".to_owned();
        return Err((Property::UnitsKept, text));
    }
    Ok(())
}
