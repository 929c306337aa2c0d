//! Real-time tasks: preemption, vectors, push, pull, turns.

use crate::stage::{MS, kernel, quad};
use convoy_catalogue::KERNELS;
use convoy_kernel::KernelPreset;
use convoy_kernel::sched::kthread::{Kthread, Policy};
use convoy_kernel::sched::{RtLimit, Sched};
use convoy_machine::{Here, Machine, Outcome};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Runs `scene` as the first task, on CPU 0, and returns the scheduler.
fn stage(name: &str, scene: impl FnOnce(Rc<Sched>) + 'static) -> Rc<Sched> {
    crate::stage::stage(&kernel(name), scene).0
}

fn fifo(priority: u8) -> Policy {
    Policy::Fifo { priority }
}

/// A thread that computes for `ps` once it is woken.
fn worker(sched: &Sched, cpu: Option<usize>, policy: Policy, ps: u64) -> Rc<Kthread> {
    let body = move |_: &Sched| Here::user(ps);
    sched.kthreads.create(("worker", None), cpu, policy, Box::new(body)).expect("room")
}

fn hog(sched: &Rc<Sched>, cpu: usize) {
    sched.fork_on(cpu, Box::new(|| Here::user(2000 * MS))).expect("room");
}

fn sleep(sched: &Sched, ms: u64) {
    sched.sleep_until(Here::now_ns() + ms * 1_000_000);
}

#[test]
fn a_real_time_task_preempts_an_ordinary_one_at_once() {
    for kernel in KERNELS.names() {
        let started = Rc::new(Cell::new(0));
        let seen = Rc::clone(&started);
        stage(kernel, move |sched| {
            hog(&sched, 1);
            sleep(&sched, 20);
            let body = move |_: &Sched| seen.set(Here::now_ns());
            let urgent = sched.kthreads.create(("urgent", None), Some(1), fifo(1), Box::new(body));
            let woken_at = Here::now_ns();
            sched.kthreads.wake(&urgent.expect("room"));
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
        let thread = sched
            .kthreads
            .create(("rcuc", Some(2)), Some(2), fifo(1), Box::new(body))
            .expect("room");
        sleep(&sched, 5);
        for turn in 0..=turns {
            let before = sched.rq.rt_vector_updates();
            sched.kthreads.wake(&thread);
            sleep(&sched, 5);
            assert_eq!(sched.rq.rt_vector_updates() - before, 4, "turn {turn}");
            for (level, (count, cpus)) in sched.rq.rt_vectors().into_iter().enumerate() {
                assert_eq!(count, cpus, "vector {level}");
            }
        }
    });
    assert_eq!((sched.rq.stats().rt_pushed, sched.rq.stats().rt_pulled), (0, 0));
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
            sched.kthreads.wake(&free);
            sched.kthreads.wake(&bound);
            sleep(&sched, 20);
            let free = sched.rq.tcb(free.task());
            let at = (free.cpu.get(), free.on_cpu.get());
            assert!(at.0 != 0 && at.1, "it is on CPU {} and runs: {}", at.0, at.1);
        });
        assert_eq!(sched.rq.stats().rt_pushed, 1, "{kernel}");
    }
}

#[test]
fn a_cpu_whose_priority_sinks_pulls() {
    for kernel in ["2.6.25", "3.0", "3.7", "6.18"] {
        let sched = stage(kernel, |sched| {
            for cpu in 0..4 {
                let ms = if cpu == 3 { 30 } else { 100 };
                let thread = worker(&sched, Some(cpu), fifo(50), ms * MS);
                sched.kthreads.wake(&thread);
            }
            // This task runs again only when CPU 0 is free, so it prepares everything now.
            let waiting = worker(&sched, None, fifo(10), 40 * MS);
            sched.kthreads.wake(&waiting);
            sleep(&sched, 200);
            assert_eq!(sched.rq.tcb(waiting.task()).cpu.get(), 3, "where the first CPU was free");
        });
        assert_eq!(sched.rq.stats().rt_pulled, 1, "{kernel}");
    }
}

#[test]
fn a_running_task_that_becomes_ordinary_gives_way() {
    stage("3.0", |sched| {
        let urgent = worker(&sched, Some(1), fifo(9), 100 * MS);
        let other = worker(&sched, Some(1), fifo(5), 10 * MS);
        sched.kthreads.wake(&urgent);
        sched.kthreads.wake(&other);
        sleep(&sched, 20);
        assert!(sched.rq.tcb(urgent.task()).on_cpu.get());
        sched.rq.set_policy(urgent.task(), Policy::Normal { nice: 0 });
        sleep(&sched, 2);
        assert!(sched.rq.tcb(other.task()).on_cpu.get());
        sched.rq.set_policy(urgent.task(), fifo(9));
        sleep(&sched, 2);
        assert!(sched.rq.tcb(urgent.task()).on_cpu.get());
    });
}

/// Shares of CPU 1 over ten seconds of a `SCHED_FIFO` task and an ordinary task that never sleep,
/// on a machine of `cpus`, with such a pair on `fifo_hogs` CPUs.
fn shares(kernel: &KernelPreset, cpus: usize, fifo_hogs: usize) -> (Vec<f64>, Vec<f64>, Vec<u64>) {
    let machine = Machine::new(&quad().with_cpus(cpus), 1, 100).expect("address space");
    let sched = Sched::new(kernel, &quad().with_cpus(cpus));
    let seen: Rc<RefCell<Vec<(f64, f64)>>> = Rc::default();
    let (inner, result) = (Rc::clone(&sched), Rc::clone(&seen));
    let body = move || {
        // This task must not be on a CPU that a hog takes for good.
        let first = cpus - fifo_hogs;
        let pairs: Vec<_> = (first..cpus)
            .map(|cpu| {
                let hog = |sched: &Sched, policy| {
                    let thread = worker(sched, Some(cpu), policy, 20_000 * MS);
                    sched.kthreads.wake(&thread);
                    thread.task()
                };
                (hog(&inner, fifo(50)), hog(&inner, Policy::Normal { nice: 0 }))
            })
            .collect();
        let times = || {
            let ran = |task| inner.rq.cpu_time_ps(task) as f64;
            pairs.iter().map(|&(urgent, other)| (ran(urgent), ran(other))).collect::<Vec<_>>()
        };
        sleep(&inner, 2000);
        let (from, before) = (Here::now_ps(), times());
        sleep(&inner, 10_000);
        let span = (Here::now_ps() - from) as f64;
        for ((urgent, other), (was_urgent, was_other)) in times().into_iter().zip(before) {
            let share = ((urgent - was_urgent) / span, (other - was_other) / span);
            result.borrow_mut().push(share);
        }
        Here::stop();
    };
    sched.boot(&machine, Box::new(body));
    assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    let (urgent, other) = seen.borrow().iter().copied().unzip();
    (urgent, other, sched.rq.rt_runtimes())
}

/// One CPU of four has a hog: it keeps 5 % for others where a CPU cannot borrow.
#[test]
fn a_hog_leaves_five_percent_unless_its_cpu_borrows() {
    let mut late = kernel("6.18");
    late.sched.rt.limit = RtLimit::Timer;
    for (kernel, due) in [
        (kernel("2.6.24"), 0.0),
        (kernel("2.6.25"), 0.05),
        (kernel("2.6.26-rc1"), 0.0),
        (kernel("3.0"), 0.0),
        (kernel("3.7"), 0.0),
        (late, 0.05),
        (kernel("current"), 0.05),
    ] {
        let (urgent, other, runtimes) = shares(&kernel, 4, 1);
        // A throttled CPU notices at its next tick, up to 4 ms late.
        assert!((other[0] - due).abs() < 0.005, "{}: {other:?}", kernel.name);
        assert!((urgent[0] + other[0] - 1.0).abs() < 0.01, "{}: {urgent:?}", kernel.name);
        let total: u64 = runtimes.iter().sum();
        assert!(runtimes.is_empty() || total == 4 * 950_000_000, "borrowing makes no time");
    }
}

/// No CPU has time to lend: every CPU keeps 5 % although all may borrow.
#[test]
fn hogs_on_all_cpus_leave_five_percent() {
    for (name, cpus) in [("2.6.25", 1), ("2.6.26-rc1", 1), ("3.0", 1), ("3.0", 4), ("3.7", 4)] {
        let (_, other, runtimes) = shares(&kernel(name), cpus, cpus);
        let mean = other.iter().sum::<f64>() / cpus as f64;
        assert!((mean - 0.05).abs() < 0.005, "{name} on {cpus}: {other:?} {runtimes:?}");
    }
}

/// A throttled CPU without other work idles, with its tick stopped, and wakes at the period's end.
#[test]
fn a_hog_alone_on_the_machine_is_limited_too() {
    for name in ["2.6.25", "3.0"] {
        let kernel = kernel(name);
        assert!(kernel.config.no_hz);
        let preset = quad().with_cpus(1);
        let machine = Machine::new(&preset, 1, 20).expect("address space");
        let sched = Sched::new(&kernel, &preset);
        let inner = Rc::clone(&sched);
        let body = move || {
            let hog = worker(&inner, Some(0), fifo(1), 20_000 * MS);
            inner.kthreads.wake(&hog);
            sleep(&inner, 2000);
            let (from, before) = (Here::now_ps(), inner.rq.cpu_time_ps(hog.task()));
            sleep(&inner, 10_000);
            let ran = (inner.rq.cpu_time_ps(hog.task()) - before) as f64;
            let share = ran / (Here::now_ps() - from) as f64;
            assert!((share - 0.95).abs() < 0.005, "{name}: {share}");
            Here::stop();
        };
        sched.boot(&machine, Box::new(body));
        assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    }
}
