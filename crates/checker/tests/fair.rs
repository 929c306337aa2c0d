//! Locks that are correct only under a fair scheduler, because their waiters poll: each with the
//! orderings and fences that it needs, and without one of them. And locks whose waiters can
//! hinder each other for ever.

use convoy_checker::model::{
    Budget, End, Failure, Instance, Memory, Model, Plain, Property, Report, Scenario, Word,
    explore_states, explore_weak,
};
use convoy_sync::{Atomic, Platform};
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

type Flag = Word<u32>;

fn all_ended(end: &End) -> Result<(), Failure> {
    if end.asleep.is_empty() && end.spinning.is_empty() {
        return Ok(());
    }
    Err((Property::NoDeadlock, "a task waits for ever".to_owned()))
}

/// The words of a lock, and the data under it.
struct Lock<const TASKS: usize> {
    flags: [Flag; TASKS],
    turns: [Flag; TASKS],
    data: Plain<u32>,
}

type Acquires<const TASKS: usize> = fn(&Lock<TASKS>, usize);

/// Explores tasks that each take the lock once, under `memory`.
fn explored<const TASKS: usize>(body: Acquires<TASKS>, memory: Memory) -> Report {
    let scenario = Scenario::new("fair", [], move || {
        let [flags, turns] = [(); 2].map(|()| [const { 0 }; TASKS].map(Flag::new));
        let lock = Lock { flags, turns, data: Plain::new(0) };
        Instance::of(lock, TASKS, body, |_, end| all_ended(end))
    });
    let budget = Budget { executions: 50_000, ..Budget::default() };
    let report = explore_states(&scenario, budget);
    if memory == Memory::Sc || report.violation.is_some() {
        return report;
    }
    explore_weak(&scenario, memory, budget, true)
}

#[track_caller]
fn holds<const TASKS: usize>(body: Acquires<TASKS>, memory: Memory) {
    let report = explored(body, memory);
    if let Some(violation) = &report.violation {
        panic!("{}: {}\n{}", violation.schedule, violation.text, violation.narrative.join("\n"));
    }
    assert!(report.complete, "{memory}: {report:?}");
}

#[track_caller]
fn breaks<const TASKS: usize>(body: Acquires<TASKS>, memory: Memory, property: Property) {
    let report = explored(body, memory);
    let violation = report.violation.expect("it is broken");
    assert_eq!(violation.property, property, "{}", violation.narrative.join("\n"));
}

impl<const TASKS: usize> Lock<TASKS> {
    fn inside(&self) {
        self.data.set(self.data.get() + 1);
    }

    fn give_turn(&self, turn: usize, to: usize, exchanges: bool) {
        if exchanges {
            self.turns[turn].swap(to as u32, AcqRel);
        } else {
            self.turns[turn].store(to as u32, Release);
        }
    }
}

/// Peterson's lock (1981). The turn is exchanged: a store could come before the store of the other
/// task, which would then believe that it is next.
fn peterson(lock: &Lock<2>, task: usize, exchanges: bool) {
    let other = 1 - task;
    lock.flags[task].store(1, Relaxed);
    lock.give_turn(0, other, exchanges);
    while lock.flags[other].load(Acquire) == 1 && lock.turns[0].load(Acquire) == other as u32 {}
    lock.inside();
    lock.flags[task].store(0, Release);
}

#[test]
fn peterson_lock() {
    for memory in Memory::ALL {
        holds(|lock, task| peterson(lock, task, true), memory);
    }
    for memory in [Memory::Tso, Memory::C11] {
        breaks(|lock, task| peterson(lock, task, false), memory, Property::Visibility);
    }
}

/// Dekker's lock (1962). Who is not in turn lowers its flag until it is.
fn dekker(lock: &Lock<2>, task: usize, full: Ordering) {
    let other = 1 - task;
    let raise = || {
        lock.flags[task].store(1, Relaxed);
        if full == SeqCst {
            Model::fence(SeqCst);
        }
    };
    raise();
    while lock.flags[other].load(Acquire) == 1 {
        if lock.turns[0].load(Relaxed) != task as u32 {
            lock.flags[task].store(0, Relaxed);
            while lock.turns[0].load(Relaxed) != task as u32 {}
            raise();
        }
    }
    lock.inside();
    lock.turns[0].store(other as u32, Release);
    lock.flags[task].store(0, Release);
}

#[test]
fn dekker_lock() {
    for memory in Memory::ALL {
        holds(|lock, task| dekker(lock, task, SeqCst), memory);
    }
    for memory in [Memory::Tso, Memory::C11] {
        breaks(|lock, task| dekker(lock, task, Relaxed), memory, Property::Visibility);
    }
}

/// Lamport's bakery (1974). `turns` are the tickets, 0 without one, and `flags` are raised while
/// one is drawn.
fn bakery(lock: &Lock<2>, task: usize, full: Ordering) {
    let barrier = || {
        if full == SeqCst {
            Model::fence(SeqCst);
        }
    };
    lock.flags[task].store(1, Relaxed);
    barrier();
    let highest = (0..2).map(|other| lock.turns[other].load(Relaxed)).max().unwrap_or(0);
    let ticket = highest + 1;
    lock.turns[task].store(ticket, Release);
    lock.flags[task].store(0, Release);
    barrier();
    let other = 1 - task;
    while lock.flags[other].load(Acquire) == 1 {}
    loop {
        let turn = lock.turns[other].load(Acquire);
        if turn == 0 || (turn, other) > (ticket, task) {
            break;
        }
    }
    lock.inside();
    lock.turns[task].store(0, Release);
}

#[test]
fn bakery_lock() {
    for memory in [Memory::Sc, Memory::C11] {
        holds(|lock, task| bakery(lock, task, SeqCst), memory);
    }
    for memory in [Memory::Tso, Memory::C11] {
        breaks(|lock, task| bakery(lock, task, Relaxed), memory, Property::Visibility);
    }
}

/// The filter lock of three tasks (Peterson, 1981): `flags` are the levels, and the task that came
/// last to a level waits there.
fn filter(lock: &Lock<3>, task: usize, exchanges: bool) {
    for level in 1..3 {
        lock.flags[task].store(level, Relaxed);
        lock.give_turn(level as usize, task, exchanges);
        let ahead = |other: &usize| lock.flags[*other].load(Acquire) >= level;
        while (0..3).filter(|&other| other != task).any(|other| ahead(&other))
            && lock.turns[level as usize].load(Acquire) == task as u32
        {}
    }
    lock.inside();
    lock.flags[task].store(0, Release);
}

#[test]
fn filter_lock() {
    holds(|lock, task| filter(lock, task, true), Memory::Sc);
    for memory in [Memory::Tso, Memory::C11] {
        breaks(|lock, task| filter(lock, task, false), memory, Property::Visibility);
    }
}

/// Who sees the other's flag lowers its own and tries again.
fn polite(lock: &Lock<2>, task: usize) {
    let other = 1 - task;
    loop {
        lock.flags[task].swap(1, SeqCst);
        if lock.flags[other].load(SeqCst) == 0 {
            break;
        }
        lock.flags[task].store(0, SeqCst);
    }
    lock.inside();
    lock.flags[task].store(0, SeqCst);
}

#[test]
fn two_polite_tasks_may_never_enter() {
    for memory in [Memory::Sc, Memory::C11] {
        breaks(polite, memory, Property::NoLivelock);
    }
}

/// The same, except that the first task insists.
fn unequal(lock: &Lock<2>, task: usize) {
    let other = 1 - task;
    lock.flags[task].swap(1, SeqCst);
    while lock.flags[other].load(SeqCst) == 1 {
        if task == 1 {
            lock.flags[task].store(0, SeqCst);
            while lock.flags[other].load(SeqCst) == 1 {}
            lock.flags[task].swap(1, SeqCst);
        }
    }
    lock.inside();
    lock.flags[task].store(0, SeqCst);
}

#[test]
fn one_task_that_insists_ends_the_livelock() {
    for memory in [Memory::Sc, Memory::C11] {
        holds(unequal, memory);
    }
}

#[test]
fn a_poll_that_nothing_ends_is_a_livelock_under_every_model() {
    fn poll(lock: &Lock<2>, task: usize) {
        while lock.flags[task].load(Acquire) == 0 {}
    }
    for memory in Memory::ALL {
        breaks(poll, memory, Property::NoLivelock);
    }
}
