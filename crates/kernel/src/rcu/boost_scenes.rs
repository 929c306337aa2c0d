//! Scenes of readers that lose their CPU in a section, and of those that lend them a priority.

use super::scenes::stage;
use crate::sched::task::Policy;
use convoy_machine::Here;
use core::cell::Cell;
use std::rc::Rc;

const MS: u64 = 1_000_000_000; // picoseconds

/// On one CPU a reader of nice 19 is in a section of 20 ms when four tasks of nice 0 come, which
/// run for 4 s. When the section and when the grace period is over, in ms from its start.
fn a_slow_reader(kernel: &str) -> (u64, u64) {
    let (section, period) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (ended, freed) = (Rc::clone(&section), Rc::clone(&period));
    stage(kernel, 1, move |sched| {
        let (inner, began) = (Rc::clone(sched), Here::now_ns());
        let reader = move || {
            inner.rcu().read(|| (0..200).for_each(|_| Here::compute(MS / 10)));
            ended.set((Here::now_ns() - began) / 1_000_000);
        };
        let reader = sched.fork_on(0, Box::new(reader)).expect("room");
        sched.rq.set_policy(reader, Policy::Normal { nice: 19 });
        sched.sleep_until(Here::now_ns() + 3_000_000);
        for _ in 0..4 {
            let hog = || (0..4000).for_each(|_| Here::user(MS / 4));
            sched.fork_on(0, Box::new(hog)).expect("room");
        }
        sched.rcu().call(Box::new(move |_| freed.set((Here::now_ns() - began) / 1_000_000)));
        sched.sleep_until(Here::now_ns() + 6_000_000_000);
        assert_eq!(sched.rq.tcb(reader).rt_priority(), None, "the loan is given back");
    });
    (section.get(), period.get())
}

#[test]
fn a_reader_without_a_cpu_holds_its_grace_period_up_until_it_is_boosted() {
    let (section, period) = a_slow_reader("3.0+preempt");
    assert!(section > 1500, "the section ends late: {section} ms");
    assert!(period >= section, "the grace period waits for it: {period} ms");

    let (section, period) = a_slow_reader("3.0+boost");
    assert!((500..600).contains(&section), "the reader is lent a priority: {section} ms");
    assert!((section..section + 50).contains(&period), "{period} ms");
}

#[test]
fn a_real_time_reader_needs_no_loan_and_keeps_its_priority() {
    let sched = stage("3.0+boost", 1, |sched| {
        let inner = Rc::clone(sched);
        let reader = move || {
            inner.rcu().read(|| (0..1000).for_each(|_| Here::compute(MS)));
        };
        let task = sched.fork_on(0, Box::new(reader)).expect("room");
        sched.rq.set_policy(task, Policy::Fifo { priority: 7 });
        sched.sleep_until(Here::now_ns() + 2_000_000);
        let hog = sched.fork_on(0, Box::new(|| Here::user(700 * MS))).expect("room");
        sched.rq.set_policy(hog, Policy::Fifo { priority: 8 });
        sched.rcu().call(Box::new(|_| ()));
        sched.sleep_until(Here::now_ns() + 900_000_000);
        assert_eq!(sched.rq.tcb(task).rt_priority(), Some(7));
        sched.sleep_until(Here::now_ns() + 2_000_000_000);
    });
    assert_eq!(sched.rcu().stats().invoked, 1);
}

#[test]
fn sections_one_inside_the_other_end_with_the_outermost() {
    let freed = Rc::new(Cell::new(0));
    let seen = Rc::clone(&freed);
    stage("3.0+preempt", 2, move |sched| {
        let inner = Rc::clone(sched);
        let reader = move || {
            inner.rcu().read(|| {
                inner.rcu().read(|| (0..100).for_each(|_| Here::compute(MS / 10)));
                (0..300).for_each(|_| Here::compute(MS / 10));
            });
        };
        sched.fork_on(1, Box::new(reader)).expect("room");
        sched.sleep_until(Here::now_ns() + 2_000_000);
        sched.rcu().call(Box::new(move |_| seen.set(Here::now_ns())));
        sched.sleep_until(Here::now_ns() + 200_000_000);
    });
    assert!((40_000_000..60_000_000).contains(&freed.get()), "{} ns", freed.get());
}
