//! One-time initialisation and the barrier under the checker, with their memory orderings.

use convoy_checker::model::{
    Instance, Memory, Model, Plain, Scenario, Word, explore, explore_weak,
};
use convoy_checker::{Budget, Property};
use convoy_sync::{Atomic, RawBarrier, RawOnce};
use std::sync::atomic::Ordering::Relaxed;

const TASKS: usize = 3;

/// Runs `body` as each task in every order, sequentially consistent and under C11. No task may
/// sleep forever.
fn explored<T: 'static>(name: &str, new: fn() -> T, body: fn(&T, usize)) {
    let checks = [Property::NoLostWakeup, Property::Assertions];
    let scenario = Scenario::new(name, checks, move || {
        Instance::of(new(), TASKS, body, |_, end| {
            let text = format!("{:?} sleep for good", end.asleep);
            if end.asleep.is_empty() { Ok(()) } else { Err((Property::NoLostWakeup, text)) }
        })
    });
    let budget = Budget::default();
    for report in [explore(&scenario, budget), explore_weak(&scenario, Memory::C11, budget, false)]
    {
        assert_eq!(report.violation.map(|it| (it.text, it.narrative)), None);
    }
}

#[derive(Default)]
struct Deed {
    once: RawOnce<Model>,
    times: Plain<u32>,
}

#[test]
fn it_is_done_once_and_everybody_waits_for_it() {
    explored("once", Deed::default, |deed, task| {
        if task == 0 && deed.once.is_done() {
            assert_eq!(deed.times.get(), 1);
        }
        deed.once.call_once(|| deed.times.set(deed.times.get() + 1));
        assert_eq!(deed.times.get(), 1);
    });
}

struct Phases {
    barrier: RawBarrier<Model>,
    came: [Plain<u32>; TASKS],
    led: Word<u32>,
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    let new = || Phases {
        barrier: RawBarrier::of(TASKS as u32),
        came: Default::default(),
        led: Word::new(0),
    };
    explored("barrier", new, |Phases { barrier, came, led }, task| {
        came[task].set(1);
        led.fetch_add(u32::from(barrier.wait()), Relaxed);
        assert!(came.iter().all(|came| came.get() == 1), "all have come");
        barrier.wait();
        assert_eq!(led.load(Relaxed), 1, "one of them is the last");
        came[task].set(2);
    });
}
