//! Simulated code that is broken on purpose comes to a report, never to a hang or a crash.

use crate::common::quad;
use convoy_machine::{Fifo, Here, Machine, Outcome, Sim, Smp};
use convoy_sync::{Atomic, Platform, RawLock, TicketLock, kernel::Mutex};
use std::cell::OnceCell;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

/// Far beyond the watchdog's patience.
const LIMIT_NS: u64 = 1_000_000_000_000_000;

type Two<L> = Rc<OnceCell<Sim<(L, L)>>>;

/// Two tasks that take two locks in opposite orders, beside others.
fn crossed<L: 'static>(
    make: fn() -> L,
    lock: fn(&L),
    others: Vec<Box<dyn FnOnce()>>,
) -> (Outcome, Machine) {
    let locks: Two<L> = Rc::default();
    let bodies = (0..2)
        .map(|task| {
            let locks = Rc::clone(&locks);
            Box::new(move || {
                let locks = locks.get_or_init(|| Here::place((make(), make())));
                let order = if task == 0 { (&locks.0, &locks.1) } else { (&locks.1, &locks.0) };
                lock(order.0);
                Here::compute(1_000_000);
                lock(order.1);
            }) as Box<dyn FnOnce()>
        })
        .chain(others)
        .collect();
    let preset = quad();
    Fifo::run(&preset, 1, LIMIT_NS, bodies).expect("address space")
}

/// Each task must be said to wait for a `kind` that the other holds. Tasks 0 to 3 idle.
fn assert_reported(machine: &Machine, kind: &str) {
    let report = machine.explain_no_end();
    for (task, owner) in [(4, 5), (5, 4)] {
        assert!(report.contains(&format!("task {task} waits for {kind}")), "{report}");
        assert!(report.contains(&format!("held by task {owner}")), "{report}");
    }
    assert!(report.contains("repeat it with: "), "{report}");
}

#[test]
fn a_deadlock_names_tasks_and_locks() {
    let (outcome, machine) = crossed(Mutex::<Smp>::new, Mutex::lock, Vec::new());
    assert_eq!(outcome, Outcome::Quiescent);
    assert_reported(&machine, "Mutex");
}

#[test]
fn tasks_that_spin_for_each_other_are_reported() {
    let (outcome, machine) = crossed(TicketLock::<Smp>::default, TicketLock::lock, Vec::new());
    assert_eq!(outcome, Outcome::Quiescent);
    assert_reported(&machine, "TicketLock");
}

#[test]
fn a_deadlock_beside_a_task_that_works_is_reported() {
    let works = || {
        loop {
            Here::compute(1_000_000_000);
        }
    };
    let (outcome, machine) = crossed(Mutex::<Smp>::new, Mutex::lock, vec![Box::new(works)]);
    assert_eq!(outcome, Outcome::Quiescent);
    assert!(machine.now_ns() < 40_000_000_000, "{} ns", machine.now_ns());
    assert_reported(&machine, "Mutex");
}

/// A chain of tasks, each of which waits for a minute for a lock of the one before, is no circle.
#[test]
fn long_waits_are_no_deadlock() {
    let locks: Rc<OnceCell<Sim<[Mutex<Smp>; 4]>>> = Rc::default();
    let bodies = (0..4)
        .map(|task| {
            let locks = Rc::clone(&locks);
            Box::new(move || {
                let locks = locks.get_or_init(|| Here::place([(); 4].map(|()| Mutex::new())));
                locks[task].lock();
                Here::compute(1_000_000);
                if task > 0 {
                    locks[task - 1].lock();
                    locks[task - 1].unlock();
                }
                (0..60).for_each(|_| Here::compute(1_000_000_000_000));
                locks[task].unlock();
            }) as Box<dyn FnOnce()>
        })
        .collect();
    let preset = quad();
    let (outcome, machine) = Fifo::run(&preset, 1, LIMIT_NS, bodies).expect("address space");
    assert_eq!(outcome, Outcome::Stopped, "{}", machine.explain_no_end());
}

#[test]
fn a_task_that_asks_for_ever_is_a_livelock() {
    let body = || {
        let word = Here::place(<<Smp as Platform>::AtomicU32 as Atomic<u32>>::new(1));
        while word.load(SeqCst) == 1 {
            Smp::spin_hint();
        }
    };
    let preset = quad().with_cpus(1);
    let (outcome, machine) =
        Fifo::run(&preset, 1, LIMIT_NS, vec![Box::new(body)]).expect("address space");
    assert_eq!(outcome, Outcome::Livelock);
    let report = machine.explain_no_end();
    assert!(report.contains("CPU 0: task 1 is in mode System"), "{report}");
}

#[test]
fn a_task_that_works_for_ever_meets_the_limit() {
    let body = || {
        loop {
            Here::compute(1_000_000_000);
        }
    };
    let preset = quad().with_cpus(1);
    let (outcome, _machine) =
        Fifo::run(&preset, 1, 60_000_000_000, vec![Box::new(body)]).expect("address space");
    assert_eq!(outcome, Outcome::TimeLimit);
}

/// Recurses until the stack is full.
#[expect(unconditional_recursion, reason = "broken on purpose")]
fn deeper(depth: u64) -> u64 {
    std::hint::black_box(deeper(std::hint::black_box(depth + 1)) + 1)
}

/// Not a test of its own: the victim of the next one, in a process of its own.
#[test]
#[ignore = "ends its process"]
fn overflow_victim() {
    let body = || {
        let lock = Here::place(TicketLock::<Smp>::default());
        lock.lock();
        deeper(0);
    };
    let preset = quad();
    let _ = Fifo::run(&preset, 1, LIMIT_NS, vec![Box::new(body)]);
}

#[test]
fn an_overflow_of_a_stack_names_task_and_lock() {
    let tests = std::env::current_exe().expect("the tests have a file");
    let arguments = ["--ignored", "--exact", "no_end::overflow_victim", "--nocapture"];
    let output = Command::new(tests).args(arguments).output().expect("the tests run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("simulated task 4 on CPU 0 overflowed its stack"), "{said}");
    assert!(said.contains("holds TicketLock"), "{said}");
    assert!(said.contains("overflow_victim"), "{said}");
}
