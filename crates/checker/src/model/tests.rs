//! The checker on programs with known results.

use super::*;
use convoy_sync::{Atomic, Platform, Sleep, Wake};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

type Shared = Rc<(Word<u32>, Word<u32>, Cell<u32>)>;

fn scenario(
    name: &str,
    tasks: impl Fn(&Shared) -> Vec<Box<dyn FnOnce()>> + 'static,
    verdict: fn(&Shared, &End) -> Result<(), Failure>,
) -> Scenario {
    let build = move || {
        let shared: Shared = Rc::new((Word::new(0), Word::new(0), Cell::new(0)));
        let tasks = tasks(&shared);
        Instance { tasks, verdict: Box::new(move |end| verdict(&shared, end)) }
    };
    Scenario { name: name.to_owned(), checks: Vec::new(), build: Box::new(build) }
}

fn task(shared: &Shared, body: impl FnOnce(&Shared) + 'static) -> Box<dyn FnOnce()> {
    let shared = Rc::clone(shared);
    Box::new(move || body(&shared))
}

fn nobody_is_left(_: &Shared, end: &End) -> Result<(), Failure> {
    if end.asleep.is_empty() && end.spinning.is_empty() {
        return Ok(());
    }
    Err((Property::NoDeadlock, format!("{end:?}")))
}

fn increments(atomic: bool, verdict: fn(&Shared, &End) -> Result<(), Failure>) -> Scenario {
    let body = move |shared: &Shared| {
        if atomic {
            shared.0.fetch_add(1, SeqCst);
        } else {
            shared.0.store(shared.0.load(SeqCst) + 1, SeqCst);
        }
    };
    scenario("increments", move |shared| vec![task(shared, body), task(shared, body)], verdict)
}

fn two(shared: &Shared, _: &End) -> Result<(), Failure> {
    match shared.0.load(SeqCst) {
        2 => Ok(()),
        other => Err((Property::UnitsKept, format!("{other} instead of 2"))),
    }
}

#[test]
fn a_lost_update_needs_one_preemption() {
    let scenario = increments(false, two);
    let report = explore(&scenario, Budget::default());
    let violation = report.violation.expect("one order loses an update");
    assert_eq!(violation.property, Property::UnitsKept);
    assert_eq!(violation.schedule.to_string(), "cv1:increments:0*1,1,0");
    let (lines, property) = replay(&scenario, &violation.schedule).unwrap();
    assert_eq!(property.as_ref().map(|(property, _)| *property), Some(Property::UnitsKept));
    assert_eq!(lines, violation.narrative);
    let report = explore(&increments(true, two), Budget::default());
    assert!(report.complete && report.violation.is_none());
}

#[test]
fn every_order_is_executed_once_the_bound_is_high_enough() {
    // Two tasks of two steps have 6 orders. The sum over the bounds counts some of them repeatedly:
    // 2 orders without preemptions, 4 with at most one, and 6 with at most two. Bound 3 excludes
    // nothing either, so its 6 orders are the same search as the one before.
    let report = explore(&increments(false, |_, _| Ok(())), Budget::default());
    assert!(report.complete);
    assert_eq!((report.preemptions, report.explored), (Some(2), 2 + 4 + 6));
}

#[test]
fn a_flag_set_before_the_wait_is_not_missed_but_one_read_too_early_is() {
    let sleeper = |early: bool| {
        move |shared: &Shared| {
            let seen = if early { shared.0.load(SeqCst) } else { 0 };
            if seen == 0 {
                Model::wait(
                    if early { &shared.1 } else { &shared.0 },
                    0,
                    Sleep::Uninterruptible,
                    None,
                );
            }
        }
    };
    let waker = |early: bool| {
        move |shared: &Shared| {
            shared.0.store(1, SeqCst);
            Model::wake(if early { &raw const shared.1 } else { &raw const shared.0 }, 1);
        }
    };
    for early in [false, true] {
        let tasks =
            move |shared: &Shared| vec![task(shared, sleeper(early)), task(shared, waker(early))];
        let report = explore(&scenario("flag", tasks, nobody_is_left), Budget::default());
        assert_eq!(report.violation.is_some(), early);
        assert_eq!(report.complete, !early);
    }
}

#[test]
fn deadlines_and_signals_come_at_any_time() {
    for (signal, expected) in [(true, Wake::Interrupted), (false, Wake::TimedOut)] {
        let sleeper = move |shared: &Shared| {
            let deadline = (!signal).then_some(1);
            if Model::wait(&shared.0, 0, Sleep::Interruptible, deadline) == expected {
                Model::fail(Property::Fifo, "seen".to_owned());
            }
        };
        let other = move |shared: &Shared| {
            if signal {
                Model::interrupt(0);
            }
            Model::wake(&raw const shared.0, 1);
        };
        let tasks = move |shared: &Shared| vec![task(shared, sleeper), task(shared, other)];
        let report = explore(&scenario("end", tasks, nobody_is_left), Budget::default());
        assert_eq!(report.violation.expect("it happens").property, Property::Fifo);
    }
}

#[test]
fn spinning_costs_no_steps_and_endless_loops_are_found() {
    let spinner = |shared: &Shared| {
        Model::spin_until(&shared.0, |value| value == 1);
    };
    let setter = |shared: &Shared| shared.0.store(1, SeqCst);
    let tasks = move |shared: &Shared| vec![task(shared, spinner), task(shared, setter)];
    let report = explore(&scenario("spin", tasks, nobody_is_left), Budget::default());
    assert!(report.complete && report.violation.is_none());
    assert_eq!(report.explored, 1);

    let alone = move |shared: &Shared| vec![task(shared, spinner)];
    let report = explore(&scenario("alone", alone, nobody_is_left), Budget::default());
    assert_eq!(report.violation.expect("nobody sets it").property, Property::NoDeadlock);

    let polls = |shared: &Shared| {
        while shared.0.load(SeqCst) == 0 {
            Model::spin_hint();
        }
    };
    let alone = move |shared: &Shared| vec![task(shared, polls)];
    let report = explore(&scenario("poll", alone, nobody_is_left), Budget::default());
    assert_eq!(report.violation.expect("nobody sets it").property, Property::NoLivelock);
}

#[test]
fn a_failed_assertion_is_reported_with_its_text() {
    let body = |shared: &Shared| assert!(shared.0.load(SeqCst) == 1, "read too early");
    let tasks = move |shared: &Shared| vec![task(shared, body)];
    let report = explore(&scenario("assert", tasks, nobody_is_left), Budget::default());
    let violation = report.violation.expect("the word is 0");
    assert_eq!(violation.property, Property::Assertions);
    assert_eq!(violation.text, "read too early");
}

#[test]
fn a_schedule_of_other_code_is_refused() {
    let scenario = increments(true, |_, _| Ok(()));
    let schedule: Schedule = "cv1:increments:0*1,0*5".parse().unwrap();
    assert_eq!(replay(&scenario, &schedule), Err(ScheduleError::Impossible(2)));
    let schedule: Schedule = "cv1:increments:7".parse().unwrap();
    assert_eq!(replay(&scenario, &schedule), Err(ScheduleError::Impossible(1)));
}

#[test]
fn preemption_and_interrupts_are_allowed_again_at_the_end() {
    let caught = |body: fn(&Shared)| {
        let tasks = move |shared: &Shared| vec![task(shared, body)];
        let report = explore(&scenario("balance", tasks, nobody_is_left), Budget::default());
        report.violation.map(|violation| violation.property)
    };
    let balanced = |_: &Shared| {
        Model::preempt_disable();
        Model::irq_save();
        Model::preempt_enable();
        Model::irq_restore(());
    };
    assert_eq!(caught(balanced), None);
    assert_eq!(caught(|_| Model::preempt_disable()), Some(Property::Assertions));
    assert_eq!(caught(|_| Model::irq_save()), Some(Property::Assertions));
    assert_eq!(caught(|_| Model::preempt_enable()), Some(Property::Assertions));
}
