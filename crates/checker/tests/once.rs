//! One-time initialisation and the barrier under the checker.

use convoy_checker::model::{Instance, Model, Scenario, explore};
use convoy_checker::{Budget, Property};
use convoy_sync::{RawBarrier, RawOnce};
use std::cell::Cell;

/// Runs `body` as each of `tasks` tasks in every order. No task may sleep forever.
fn explored<T: 'static>(name: &str, tasks: usize, new: fn() -> T, body: fn(&T)) {
    let checks = [Property::NoLostWakeup, Property::Assertions];
    let scenario = Scenario::new(name, checks, move || {
        Instance::sharing(
            new(),
            tasks,
            move |shared, _| body(shared),
            |_, end| {
                let text = format!("{:?} sleep for good", end.asleep);
                if end.asleep.is_empty() { Ok(()) } else { Err((Property::NoLostWakeup, text)) }
            },
        )
    });
    let violation = explore(&scenario, Budget::default()).violation;
    assert_eq!(violation.map(|it| (it.text, it.narrative)), None);
}

#[derive(Default)]
struct Deed {
    once: RawOnce<Model>,
    times: Cell<u32>,
}

#[test]
fn it_is_done_once_and_everybody_waits_for_it() {
    explored("once", 3, Deed::default, |deed| {
        deed.once.call_once(|| {
            Model::point();
            deed.times.set(deed.times.get() + 1);
        });
        assert_eq!(deed.times.get(), 1);
    });
}

struct Phases {
    barrier: RawBarrier<Model>,
    came: Cell<u32>,
    led: Cell<u32>,
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    let new = || Phases { barrier: RawBarrier::of(3), came: Cell::new(0), led: Cell::new(0) };
    explored("barrier", 3, new, |phases| {
        for round in 1..=2 {
            phases.came.set(phases.came.get() + 1);
            let led = phases.barrier.wait();
            assert!(phases.came.get() >= 3 * round, "all have come");
            phases.led.set(phases.led.get() + u32::from(led));
            assert!(phases.led.get() <= round, "one of them is the last");
        }
    });
}
