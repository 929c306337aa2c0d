//! Whether a task that waits is passed without end.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_sync::Lock;
use std::cell::Cell;

/// Visits of the task that comes again and again, beyond those that the bound allows.
const MORE: u32 = 3;
/// The task that comes once.
const WAITS: u32 = 0;

struct Room<T> {
    lock: T,
    name: &'static str,
    /// Whether the task that comes once is in `acquire`.
    enters: Cell<bool>,
    /// Whether it was blocked there when somebody last looked, and at all.
    blocked: Cell<(bool, bool)>,
    /// How often it was on its way to the lock and was blocked again.
    failed: Cell<u32>,
    bound: u32,
}

impl<T: Lock> Room<T> {
    fn task(&self, task: usize) {
        if task == WAITS as usize { self.wait_once() } else { self.come_again() }
    }

    /// What the other task sees when it has taken the lock, and before it gives it back.
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
            let text = format!("a task that waits was woken in vain {} times", self.failed.get());
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
            // The other may run here.
            Model::point();
            self.look();
            Model::call("unlock");
            self.lock.release();
        }
    }
}

/// Every acquisition ends.
fn nobody_sleeps(end: &End) -> Result<(), Failure> {
    let text = format!("tasks {:?} sleep beside a free lock", end.asleep);
    if end.asleep.is_empty() { Ok(()) } else { Err((Property::NoLostWakeup, text)) }
}

/// A task that comes once and one that comes again and again. The first is woken at most `bound`
/// times without getting the lock: a policy that lets anybody take it, for good, has no such bound.
/// The scenario is `name`, the lock `lock` in its story.
pub fn starvation<T: Lock>(name: String, lock: &'static str, bound: u32) -> Scenario {
    let build = move || {
        let room = Room {
            lock: T::unlocked(),
            name: lock,
            enters: Cell::new(false),
            blocked: Cell::new((false, false)),
            failed: Cell::new(0),
            bound,
        };
        Instance::of(room, 2, Room::task, |_, end| nobody_sleeps(end))
    };
    let checks = vec![Property::NoStarvation, Property::NoLostWakeup];
    Scenario { name, checks, build: Box::new(build) }
}

/// What the tasks of [`passes`] share.
struct Hogs<T> {
    lock: T,
    name: &'static str,
    /// Whether the task that comes once is in `acquire`, and has slept there.
    waits: Cell<(bool, bool)>,
    /// Acquisitions of others since it slept first.
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

    /// Notes whether the task that waits sleeps; called before anything can wake it.
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
            // The other may go to sleep here.
            Model::point();
            self.look();
            Model::call("unlock");
            self.lock.release();
        }
    }
}

/// A task that comes once, and `hogs` tasks that release the lock and take it again at once. From
/// the moment in which the first sleeps, and the time that the lock allows has passed, each of the
/// others passes it at most once. The scenario is `name`, the lock `lock` in its story.
pub(crate) fn passes<T: Lock>(name: String, lock: &'static str, hogs: u32) -> Scenario {
    let build = move || {
        let room = Hogs {
            lock: T::unlocked(),
            name: lock,
            waits: Cell::default(),
            passed: Cell::new(0),
            bound: hogs,
        };
        Instance::of(room, 1 + hogs as usize, Hogs::task, |_, end| nobody_sleeps(end))
    };
    let checks = vec![Property::NoStarvation, Property::NoLostWakeup];
    Scenario { name, checks, build: Box::new(build) }
}
