//! The reason why the mutex of Linux got HANDOFF in 4.10: without it a waiter may be overtaken
//! forever.

use convoy_checker::model::{Model, explore_states, replay};
use convoy_checker::{Budget, Property, select, starvation};
use convoy_sync::{Handoff, Lock, NoSpin, Opportunistic, TicketLock, kernel};

/// Number of times that a waiter may be woken without acquiring the lock.
const BOUND: u32 = 1;

/// Returns the property that an order violates, if any. The order must replay with the same result.
fn found<T: Lock>(name: &str) -> Option<Property> {
    let scenario = starvation::<T>(name.to_owned(), "mutex", BOUND);
    let violation = explore_states(&scenario, Budget::default()).violation?;
    let (_, again) = replay(&scenario, &violation.schedule).expect("its own schedule");
    assert_eq!(again.map(|(property, _)| property), Some(violation.property));
    Some(violation.property)
}

#[test]
fn without_handoff_a_waiter_of_the_mutex_of_linux_is_starved_and_with_it_not() {
    // Without spinning: owners keep running here, and a spinner would never sleep.
    type Newer = kernel::HandoffMutex<Model, TicketLock<Model>, false>;
    assert_eq!(found::<kernel::Mutex<Model, NoSpin>>("to 4.9"), Some(Property::NoStarvation));
    assert_eq!(found::<Newer>("4.10"), None);
}

#[test]
fn locks_that_anybody_may_take_have_no_bound_and_a_handoff_has() {
    const STARVES: Option<Property> = Some(Property::NoStarvation);
    assert_eq!(found::<kernel::Semaphore<Model, Opportunistic>>("opportunistic"), STARVES);
    assert_eq!(found::<kernel::Semaphore<Model, Handoff>>("handoff"), None);
}

#[test]
fn hogs_pass_a_waiter_of_ours_once_each() {
    for subject in select(&["quota", "quota-rwlock"]).unwrap() {
        // `cargo xtask ci` searches further.
        let rows = subject.check(Budget { executions: 2000, ..Budget::default() });
        let hogs = rows.iter().filter(|row| row.checks.contains(&Property::NoStarvation));
        assert_eq!(hogs.clone().count(), 2);
        for row in hogs {
            assert_eq!(row.violated, None, "{}: {:#?}", row.scenario, row.narrative);
        }
    }
}
