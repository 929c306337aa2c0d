//! Published bugs that took years to find, each as an external lock and checked with the public
//! interface of this crate: found with a schedule that replays, and absent from the fixed version.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

use convoy_checker::model::{Instance, Model, Scenario, Word, explore, replay};
use convoy_checker::{Budget, Property, Subject};
use convoy_sync::{Atomic, Lock, Platform, Sleep};

fn sleep(word: &Word<u32>, value: u32) {
    Model::wait(word, value, Sleep::Uninterruptible, None);
}

/// Returns the property that an order of `scenario` violates, if any. The order must replay with
/// the same result.
fn found(scenario: &Scenario, budget: Budget) -> Option<Property> {
    let violation = explore(scenario, budget).violation?;
    let (_, again) = replay(scenario, &violation.schedule).expect("its own schedule");
    assert_eq!(again.map(|(property, _)| property), Some(violation.property));
    Some(violation.property)
}

/// Returns the property that an order of the built-in scenarios violates, if any.
fn broken<T: Lock>(name: &'static str) -> Option<Property> {
    let subject = Subject::of::<T>(name, &[]);
    let found = subject.sound(Budget::default()).err()?;
    let again = subject.replay(&found.schedule).expect("its own schedule");
    assert_eq!(again.violation.map(|(property, _)| property), Some(found.property));
    Some(found.property)
}

/// `sem_post` and `sem_wait` of glibc up to 2.20 (bug 12674), and from 2.21 on with `REPAIRED`,
/// where units and waiters share a word. A post that reads the number of waiters after it added the
/// unit accesses memory that the thread with the unit may have freed.
struct Posted<const REPAIRED: bool> {
    units: Word<u32>,
    waiters: Word<u32>,
    freed: Cell<bool>,
}

const WAITER: u32 = 1 << 16;

impl<const REPAIRED: bool> Posted<REPAIRED> {
    fn alive(&self) {
        if self.freed.get() {
            Model::fail(Property::GracePeriod, "a semaphore is used that was freed".to_owned());
        }
    }

    fn post(&self) {
        if REPAIRED {
            if self.units.fetch_add(1, SeqCst) >= WAITER {
                // Uses only the address.
                Model::wake(&raw const self.units, 1);
            }
            return;
        }
        self.units.fetch_add(1, SeqCst);
        let waiters = self.waiters.load(SeqCst);
        self.alive();
        if waiters > 0 {
            Model::wake(&raw const self.units, 1);
        }
    }

    fn wait(&self) {
        let waiting = if REPAIRED { &self.units } else { &self.waiters };
        let one = if REPAIRED { WAITER } else { 1 };
        let mut waits = false;
        loop {
            let seen = self.units.load(SeqCst);
            let left = seen.wrapping_sub(1).wrapping_sub(if REPAIRED && waits { one } else { 0 });
            if seen % WAITER > 0 {
                if self.units.compare_exchange(seen, left, SeqCst, SeqCst).is_ok() {
                    break;
                }
            } else if waits {
                sleep(&self.units, seen);
            } else {
                waiting.fetch_add(one, SeqCst);
                waits = true;
            }
        }
        if waits && !REPAIRED {
            self.waiters.fetch_sub(1, SeqCst);
        }
    }
}

/// Returns a scenario with two threads: one posts, and the other waits and then frees the
/// semaphore, which it owns.
fn post_and_free<const REPAIRED: bool>() -> Scenario {
    let checks = [Property::GracePeriod, Property::NoLostWakeup];
    Scenario::new("sem-post/free", checks, || {
        let semaphore = Posted::<REPAIRED> {
            units: Word::new(0),
            waiters: Word::new(0),
            freed: Cell::new(false),
        };
        let task = |semaphore: &Posted<REPAIRED>, task: usize| {
            if task == 0 {
                semaphore.wait();
                semaphore.freed.set(true);
            } else {
                semaphore.post();
            }
        };
        Instance::sharing(semaphore, 2, task, |_, end| match end.asleep.as_slice() {
            [] => Ok(()),
            _ => Err((Property::NoLostWakeup, "the unit woke no thread".to_owned())),
        })
    })
}

#[test]
fn the_semaphore_of_glibc_is_used_after_it_was_freed() {
    let budget = Budget::default();
    assert_eq!(found(&post_and_free::<false>(), budget), Some(Property::GracePeriod));
    assert_eq!(found(&post_and_free::<true>(), budget), None);
}

/// The first mutex of Drepper's "Futexes are tricky": each thread that finds it locked adds one, so
/// the number wraps around while the mutex is locked. Then two threads own it, or one sleeps
/// although it is free. Here the number has two bits instead of 32; the search is the same. Fixed
/// as in his second mutex: 0 free, 1 locked, 2 locked with waiters.
struct Tricky<const REPAIRED: bool>(Word<u32>);

impl<const REPAIRED: bool> Tricky<REPAIRED> {
    fn add(&self) -> u32 {
        self.0.modify(SeqCst, |held| (held + 1) % 4)
    }
}

impl<const REPAIRED: bool> Lock for Tricky<REPAIRED> {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0))
    }
    fn acquire(&self) {
        if REPAIRED {
            if self.0.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
                return;
            }
            while self.0.swap(2, SeqCst) != 0 {
                sleep(&self.0, 2);
            }
            return;
        }
        loop {
            let before = self.add();
            if before == 0 {
                return;
            }
            sleep(&self.0, (before + 1) % 4);
        }
    }
    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, 1, SeqCst, SeqCst).is_ok()
    }
    fn release(&self) {
        self.0.store(0, SeqCst);
        Model::wake(&raw const self.0, 1);
    }
}

#[test]
fn the_number_of_the_first_tricky_mutex_wraps() {
    // Whichever order is found first: two tasks own it, or one sleeps although it is free.
    let found = broken::<Tricky<false>>("tricky-1");
    let wraps = [Some(Property::Exclusion), Some(Property::NoLostWakeup)];
    assert!(wraps.contains(&found), "{found:?}");
    assert_eq!(broken::<Tricky<true>>("tricky-2"), None);
}
