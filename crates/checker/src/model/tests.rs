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
    Scenario::new(name, [], move || {
        let shared: Shared = Rc::new((Word::new(0), Word::new(0), Cell::new(0)));
        let tasks = tasks(&shared);
        Instance { tasks, verdict: Box::new(move |end| verdict(&shared, end)) }
    })
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
    let body = if atomic { increment } else { increment_in_steps };
    scenario("increments", move |shared| vec![task(shared, body), task(shared, body)], verdict)
}

fn increment(shared: &Shared) {
    shared.0.fetch_add(1, SeqCst);
}

fn increment_in_steps(shared: &Shared) {
    shared.0.store(shared.0.load(SeqCst) + 1, SeqCst);
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
    assert_eq!(lines, violation.steps);
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
    for early in [false, true] {
        let tasks = move |shared: &Shared| {
            let sleeper = task(shared, move |shared| {
                let word = if early { &shared.1 } else { &shared.0 };
                if !early || shared.0.load(SeqCst) == 0 {
                    Model::wait(word, 0, Sleep::Uninterruptible, None);
                }
            });
            let waker = task(shared, move |shared| {
                shared.0.store(1, SeqCst);
                Model::wake(if early { &raw const shared.1 } else { &raw const shared.0 }, 1);
            });
            vec![sleeper, waker]
        };
        let report = explore(&scenario("flag", tasks, nobody_is_left), Budget::default());
        assert_eq!(report.violation.is_some(), early);
        assert_eq!(report.complete, !early);
    }
}

#[test]
fn deadlines_and_signals_come_at_any_time() {
    for (signal, expected) in [(true, Wake::Interrupted), (false, Wake::TimedOut)] {
        let tasks = move |shared: &Shared| {
            let sleeper = task(shared, move |shared| {
                let deadline = (!signal).then_some(1);
                if Model::wait(&shared.0, 0, Sleep::Interruptible, deadline) == expected {
                    Model::fail(Property::Fifo, "seen".to_owned());
                }
            });
            let other = task(shared, move |shared| {
                if signal {
                    Model::interrupt(0);
                }
                Model::wake(&raw const shared.0, 1);
            });
            vec![sleeper, other]
        };
        let report = explore(&scenario("end", tasks, nobody_is_left), Budget::default());
        assert_eq!(report.violation.expect("it happens").property, Property::Fifo);
    }
}

type Bodies = &'static [fn(&Shared)];

/// Explores one task for each of `bodies`. None may be left at the end.
fn explored(name: &str, bodies: Bodies) -> Report {
    let tasks = |shared: &Shared| bodies.iter().map(|&body| task(shared, body)).collect();
    explore(&scenario(name, tasks, nobody_is_left), Budget::default())
}

fn spin(shared: &Shared) {
    Model::spin_until(&shared.0, |value| value == 1);
}

fn poll(shared: &Shared) {
    while shared.0.load(SeqCst) == 0 {
        Model::spin_hint();
    }
}

#[test]
fn spinning_costs_no_steps_and_endless_loops_are_found() {
    let report = explored("spin", &[spin, |shared| shared.0.store(1, SeqCst)]);
    assert!(report.complete && report.violation.is_none());
    assert_eq!(report.explored, 1);
    let report = explored("alone", &[spin]);
    assert_eq!(report.violation.expect("nobody sets it").property, Property::NoDeadlock);
    let report = explored("poll", &[poll]);
    assert_eq!(report.violation.expect("nobody sets it").property, Property::NoLivelock);
}

#[test]
fn a_failed_assertion_is_reported_with_its_text() {
    let report =
        explored("assert", &[|shared| assert!(shared.0.load(SeqCst) == 1, "read too early")]);
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
    let cases: [(Bodies, _); 4] = [
        (
            &[|_| {
                Model::preempt_disable();
                Model::irq_save();
                Model::preempt_enable();
                Model::irq_restore(());
            }],
            None,
        ),
        (&[|_| Model::preempt_disable()], Some(Property::Assertions)),
        (&[|_| Model::irq_save()], Some(Property::Assertions)),
        (&[|_| Model::preempt_enable()], Some(Property::Assertions)),
    ];
    for (bodies, expected) in cases {
        let violation = explored("balance", bodies).violation;
        assert_eq!(violation.map(|violation| violation.property), expected);
    }
}
