//! What `cargo test` says about the lock: the first version loses a wakeup, this one does not.

use convoy_checker::{Budget, Property, Subject, model::Model};
use convoy_sync::{Lock, Native};
use own_lock::OwnLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const BUDGET: Budget = Budget { executions: 4000, few_preemptions: 0, steps: 2000, seed: 1 };

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

/// The same source on threads: no step of an addition in two halves is lost.
#[test]
fn it_counts_on_threads() {
    let (lock, count) = (OwnLock::<Native>::unlocked(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    lock.acquire();
                    count.store(count.load(Relaxed) + 1, Relaxed);
                    lock.release();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 4000);
}
