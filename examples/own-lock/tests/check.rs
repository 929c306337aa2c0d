//! What `cargo test` says about the lock: the first version loses a wakeup, this one does not.

use convoy_checker::{Budget, Property, Subject, model::Model};
use convoy_sync::{Lock, Native};
use own_lock::OwnLock;
use std::cell::UnsafeCell;

const BUDGET: Budget = Budget { executions: 4000, steps: 2000, seed: 1 };

#[test]
fn the_lock_keeps_its_promises() {
    if let Err(broken) = Subject::of::<OwnLock<Model>>("own-lock", &[]).sound(BUDGET) {
        panic!("{broken}");
    }
}

/// What a test of the first version prints, here as a value.
#[test]
fn the_first_version_lost_a_wakeup() {
    let first = Subject::of::<OwnLock<Model, true>>("first-version", &[]);
    let broken = first.sound(BUDGET).expect_err("it was wrong");
    println!("{broken}");
    assert_eq!(broken.property, Property::NoLostWakeup);
    let again = first.replay(&broken.schedule).expect("it is of this lock");
    assert_eq!(again.violation.map(|found| found.0), Some(Property::NoLostWakeup));
}

/// The same source on threads.
#[test]
fn it_counts_on_threads() {
    struct Counter(OwnLock<Native>, UnsafeCell<u32>);
    // SAFETY: the number is used with the lock held.
    unsafe impl Sync for Counter {}
    let counter = Counter(OwnLock::unlocked(), UnsafeCell::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let counter = &counter;
            scope.spawn(move || {
                for _ in 0..1000 {
                    counter.0.acquire();
                    // SAFETY: the lock is held.
                    unsafe { *counter.1.get() += 1 };
                    counter.0.release();
                }
            });
        }
    });
    assert_eq!(counter.1.into_inner(), 4000);
}
