//! Real-time tasks: preemption, vectors, push, pull, turns.

use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_kernel::sched::kthread::{Kthread, Policy};
use convoy_machine::{Here, Machine, Outcome, Preset};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS: u64 = 1_000_000_000; // picoseconds

fn quad() -> Preset {
    let text = include_str!("../../../machines/quad-2008-shared-llc.toml");
    Preset::parse("quad", text).expect("the shipped preset")
}

/// Runs `scene` as the first task, on CPU 0, and returns the scheduler.
fn stage(kernel: &str, scene: impl FnOnce(Rc<Sched>) + 'static) -> Rc<Sched> {
    let kernel = KernelPreset::named(kernel).expect("a shipped preset");
    let machine = Machine::new(&quad(), 1, 100).expect("address space");
    let sched = Sched::new(&kernel, &quad());
    let inner = Rc::clone(&sched);
    let body = move || {
        scene(inner);
        Here::stop();
    };
    sched.boot(&machine, Box::new(body));
    assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    sched
}

fn fifo(priority: u8) -> Policy {
    Policy::Fifo { priority }
}

/// A thread that computes for `ps` once it is woken.
fn worker(sched: &Sched, cpu: Option<usize>, policy: Policy, ps: u64) -> Rc<Kthread> {
    let body = move |_: &Sched| Here::user(ps);
    sched.kthread_create("worker", cpu, policy, Box::new(body)).expect("room")
}

fn hog(sched: &Rc<Sched>, cpu: usize) {
    sched.fork_on(cpu, Box::new(|| Here::user(2000 * MS))).expect("room");
}

fn sleep(sched: &Sched, ms: u64) {
    sched.sleep_until(Here::now_ns() + ms * 1_000_000);
}

#[test]
fn a_real_time_task_preempts_an_ordinary_one_at_once() {
    for kernel in KernelPreset::names() {
        let started = Rc::new(Cell::new(0));
        let seen = Rc::clone(&started);
        stage(kernel, move |sched| {
            hog(&sched, 1);
            sleep(&sched, 20);
            let body = move |_: &Sched| seen.set(Here::now_ns());
            let urgent = sched.kthread_create("urgent", Some(1), fifo(1), Box::new(body));
            let woken_at = Here::now_ns();
            sched.kthread_wake(&urgent.expect("room"));
            sleep(&sched, 20);
            started.set(started.get() - woken_at);
            assert!((1..20_000).contains(&started.get()), "{} ns", started.get());
        });
    }
}

#[test]
fn a_bound_thread_costs_four_vector_locks_a_cycle_and_never_moves() {
    let sched = stage("3.0", |sched| {
        let turns = 5;
        let body = move |sched: &Sched| {
            for _ in 0..turns {
                Here::compute(MS / 10);
                let before = Here::now_ns();
                sched.sleep_unless(|| Here::now_ns() > before + 1000);
            }
        };
        let thread = sched.kthread_create("rcuc", Some(2), fifo(1), Box::new(body)).expect("room");
        sleep(&sched, 5);
        for turn in 0..=turns {
            let before = sched.rt_vector_updates();
            sched.kthread_wake(&thread);
            sleep(&sched, 5);
            assert_eq!(sched.rt_vector_updates() - before, 4, "turn {turn}");
            for (level, (count, cpus)) in sched.rt_vectors().into_iter().enumerate() {
                assert_eq!(count, cpus, "vector {level}");
            }
        }
    });
    assert_eq!((sched.stats().rt_pushed, sched.stats().rt_pulled), (0, 0));
}

#[test]
fn a_second_real_time_task_is_pushed_to_a_less_urgent_cpu() {
    for kernel in ["2.6.25", "3.0", "3.7", "6.18"] {
        let sched = stage(kernel, |sched| {
            for cpu in 1..4 {
                hog(&sched, cpu);
            }
            sleep(&sched, 10);
            // Both were last on CPU 0, and the bound one arrives second.
            let free = worker(&sched, None, fifo(1), 50 * MS);
            let bound = worker(&sched, Some(0), fifo(2), 50 * MS);
            sched.kthread_wake(&free);
            sched.kthread_wake(&bound);
            sleep(&sched, 20);
            let free = sched.tcb(free.task());
            let at = (free.cpu.get(), free.on_cpu.get());
            assert!(at.0 != 0 && at.1, "it is on CPU {} and runs: {}", at.0, at.1);
        });
        assert_eq!(sched.stats().rt_pushed, 1, "{kernel}");
    }
}

#[test]
fn a_cpu_whose_priority_sinks_pulls() {
    for kernel in ["2.6.25", "3.0", "3.7", "6.18"] {
        let sched = stage(kernel, |sched| {
            for cpu in 0..4 {
                let ms = if cpu == 3 { 30 } else { 100 };
                let thread = worker(&sched, Some(cpu), fifo(50), ms * MS);
                sched.kthread_wake(&thread);
            }
            // This task runs again only when CPU 0 is free, so it prepares everything now.
            let waiting = worker(&sched, None, fifo(10), 40 * MS);
            sched.kthread_wake(&waiting);
            sleep(&sched, 200);
            assert_eq!(sched.tcb(waiting.task()).cpu.get(), 3, "where the first CPU was free");
        });
        assert_eq!(sched.stats().rt_pulled, 1, "{kernel}");
    }
}

#[test]
fn round_robin_takes_turns_of_100_ms_and_first_in_does_not() {
    let round_robin = Policy::RoundRobin { priority: 5 };
    for (policy, due) in [(round_robin, vec![0, 1, 0, 1]), (fifo(5), vec![0, 1])] {
        stage("3.0", move |sched| {
            let turns = Rc::new(RefCell::new(Vec::new()));
            for id in 0..2 {
                let turns = Rc::clone(&turns);
                let body = move |_: &Sched| {
                    for _ in 0..150 {
                        Here::user(MS);
                        let mut turns = turns.borrow_mut();
                        if turns.last() != Some(&id) {
                            turns.push(id);
                        }
                    }
                };
                let thread = sched.kthread_create("turn", Some(1), policy, Box::new(body));
                sched.kthread_wake(&thread.expect("room"));
            }
            sleep(&sched, 400);
            assert_eq!(*turns.borrow(), due);
        });
    }
}

#[test]
fn a_running_task_that_becomes_ordinary_gives_way() {
    stage("3.0", |sched| {
        let urgent = worker(&sched, Some(1), fifo(9), 100 * MS);
        let other = worker(&sched, Some(1), fifo(5), 10 * MS);
        sched.kthread_wake(&urgent);
        sched.kthread_wake(&other);
        sleep(&sched, 20);
        assert!(sched.tcb(urgent.task()).on_cpu.get());
        sched.set_policy(urgent.task(), Policy::Normal { nice: 0 });
        sleep(&sched, 2);
        assert!(sched.tcb(other.task()).on_cpu.get());
        sched.set_policy(urgent.task(), fifo(9));
        sleep(&sched, 2);
        assert!(sched.tcb(urgent.task()).on_cpu.get());
    });
}
