//! Checks whether a waiter can be overtaken without bound.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_sync::Lock;
use std::cell::Cell;

/// Number of visits of the recurring task beyond the bound.
const MORE: u32 = 3;
/// The task that acquires the lock once.
const WAITS: u32 = 0;

struct Room<T> {
    lock: T,
    name: &'static str,
    /// Whether that task is in `acquire`.
    enters: Cell<bool>,
    /// Whether the task was blocked there at the last check, and whether it was ever blocked.
    blocked: Cell<(bool, bool)>,
    /// Number of times that the task was woken and blocked again.
    failed: Cell<u32>,
    bound: u32,
}

impl<T: Lock> Room<T> {
    fn task(&self, task: usize) {
        if task == WAITS as usize { self.wait_once() } else { self.come_again() }
    }

    /// Called by the other task after it acquires the lock and before it releases it.
    fn look(&self) {
        if !self.enters.get() {
            return;
        }
        let now = Model::is_blocked(WAITS);
        let (before, ever) = self.blocked.replace((now, now || self.blocked.get().1));
        if now && ever && !before {
            self.failed.set(self.failed.get() + 1);
        }
        if self.failed.get() > self.bound {
            let text = format!(
                "a waiter was woken {} times without acquiring the lock",
                self.failed.get()
            );
            Model::fail(Property::NoStarvation, text);
        }
    }

    fn wait_once(&self) {
        Model::name(&self.lock, self.name, T::parts);
        Model::call("lock");
        self.enters.set(true);
        self.lock.acquire();
        self.enters.set(false);
        Model::call("unlock");
        self.lock.release();
    }

    fn come_again(&self) {
        Model::name(&self.lock, self.name, T::parts);
        for _ in 0..self.bound + MORE {
            Model::call("lock");
            self.lock.acquire();
            self.look();
            // The waiting task may run here.
            Model::point();
            self.look();
            Model::call("unlock");
            self.lock.release();
        }
    }
}

/// Fails if a task still sleeps at the end.
fn nobody_sleeps(end: &End) -> Result<(), Failure> {
    let text = format!("tasks {:?} sleep although the lock is free", end.asleep);
    if end.asleep.is_empty() { Ok(()) } else { Err((Property::NoLostWakeup, text)) }
}

/// Returns a scenario with a task that acquires the lock once and a task that acquires it
/// repeatedly. The first is woken at most `bound` times without acquiring the lock: a policy that
/// allows barging forever has no such bound. The scenario is called `name`, and the lock `lock` in
/// the narrative.
pub fn starvation<T: Lock>(name: String, lock: &'static str, bound: u32) -> Scenario {
    Scenario::new(name, [Property::NoStarvation, Property::NoLostWakeup], move || {
        let room = Room {
            lock: T::unlocked(),
            name: lock,
            enters: Cell::new(false),
            blocked: Cell::new((false, false)),
            failed: Cell::new(0),
            bound,
        };
        Instance::of(room, 2, Room::task, |_, end| nobody_sleeps(end))
    })
}

/// State that the tasks of [`passes`] share.
struct Hogs<T> {
    lock: T,
    name: &'static str,
    /// Whether the task that acquires the lock once is in `acquire`, and whether it has slept
    /// there.
    waits: Cell<(bool, bool)>,
    /// Acquisitions of other tasks since it first slept.
    passed: Cell<u32>,
    bound: u32,
}

impl<T: Lock> Hogs<T> {
    fn task(&self, task: usize) {
        if task == WAITS as usize { self.wait_once() } else { self.come_again() }
    }

    fn wait_once(&self) {
        Model::name(&self.lock, self.name, T::parts);
        Model::hurry();
        Model::call("lock");
        self.waits.set((true, false));
        self.lock.acquire();
        self.waits.set((false, false));
        Model::call("unlock");
        self.lock.release();
    }

    /// Records whether the waiting task sleeps. Called before anything can wake it.
    fn look(&self) {
        let (waits, slept) = self.waits.get();
        self.waits.set((waits, slept || waits && Model::is_asleep(WAITS)));
    }

    fn come_again(&self) {
        Model::name(&self.lock, self.name, T::parts);
        for _ in 0..self.bound + MORE {
            Model::call("lock");
            self.lock.acquire();
            if self.waits.get() == (true, true) {
                self.passed.set(self.passed.get() + 1);
            }
            if self.passed.get() > self.bound {
                let text = format!("{} acquisitions passed a task that sleeps", self.passed.get());
                Model::fail(Property::NoStarvation, text);
            }
            // The waiting task may go to sleep here.
            Model::point();
            self.look();
            Model::call("unlock");
            self.lock.release();
        }
    }
}

/// Returns a scenario with a task that acquires the lock once, and `hogs` tasks that release the
/// lock and acquire it again immediately. Once the first task sleeps and the lock's time limit has
/// passed, each of the others overtakes it at most once. The scenario is called `name`, and the
/// lock `lock` in the narrative.
pub(crate) fn passes<T: Lock>(name: String, lock: &'static str, hogs: u32) -> Scenario {
    Scenario::new(name, [Property::NoStarvation, Property::NoLostWakeup], move || {
        let room = Hogs {
            lock: T::unlocked(),
            name: lock,
            waits: Cell::default(),
            passed: Cell::new(0),
            bound: hogs,
        };
        Instance::of(room, 1 + hogs as usize, Hogs::task, |_, end| nobody_sleeps(end))
    })
}
