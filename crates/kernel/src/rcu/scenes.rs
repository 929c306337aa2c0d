//! Scenes of RCU on the scheduler of 3.0: grace periods, where the work runs, the tick.

use super::*;
use crate::KernelPreset;
use convoy_machine::{Machine, Outcome, Preset, Smp};
use convoy_sync::Platform as _;
use core::cell::Cell;

const MS: u64 = 1_000_000_000; // picoseconds

/// Runs `scene` as the first task on `cpus` CPUs; what RCU counted.
pub(super) fn stage(
    kernel: &str,
    cpus: usize,
    scene: impl FnOnce(&Rc<Sched>) + 'static,
) -> Rc<Sched> {
    let kernel = KernelPreset::named(kernel).expect("a shipped preset");
    let preset = Preset::named("quad-2008-shared-llc").expect("shipped").with_cpus(cpus);
    let machine = Machine::new(&preset, 1, 400).expect("address space");
    let sched = Sched::new(&kernel, &preset);
    let inner = Rc::clone(&sched);
    let body = move || {
        scene(&inner);
        drop(inner);
        Here::stop();
    };
    sched.boot(&machine, Box::new(body));
    assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    sched
}

const KERNELS: [&str; 6] =
    ["2.6.39", "3.0-rc", "3.0-rc+softirq", "3.0", "3.0+preempt", "3.0+boost"];

#[test]
fn a_callback_runs_after_a_grace_period_on_idle_and_on_busy_cpus() {
    for kernel in KERNELS {
        for (cpus, busy) in [(1, false), (4, false), (4, true), (40, false), (40, true)] {
            let done = Rc::new(Cell::new(0));
            let seen = Rc::clone(&done);
            let sched = stage(kernel, cpus, move |sched| {
                for cpu in 0..if busy { cpus } else { 0 } {
                    sched.fork_on(cpu, Box::new(|| Here::user(900 * MS))).expect("room");
                }
                for _ in 0..25 {
                    let seen = Rc::clone(&seen);
                    let callback = move |_: &Sched| seen.set(seen.get() + 1);
                    sched.rcu().call(Box::new(callback));
                }
                assert_eq!(seen.get(), 0);
                sched.sleep_until(Here::now_ns() + 500_000_000);
                assert_eq!(seen.get(), 25, "{kernel} on {cpus} CPUs, busy: {busy}");
            });
            let stats = sched.rcu().stats();
            assert_eq!((stats.queued, stats.invoked), (25, 25));
            assert!((1..=8).contains(&stats.grace_periods), "{}", stats.grace_periods);
        }
    }
}

#[test]
fn a_section_without_preemption_holds_a_grace_period_up() {
    let ended = Rc::new(Cell::new(0));
    let seen = Rc::clone(&ended);
    stage("2.6.39", 4, move |sched| {
        let reader = || {
            Smp::preempt_disable();
            Here::pass(1); // In the kernel: a tick there is no quiescent state.
            for _ in 0..60 {
                Here::compute(MS);
            }
            Smp::preempt_enable();
        };
        sched.fork_on(1, Box::new(reader)).expect("room");
        sched.sleep_until(Here::now_ns() + 5_000_000);
        let inner = Rc::clone(&seen);
        sched.rcu().call(Box::new(move |_| inner.set(Here::now_ns())));
        sched.sleep_until(Here::now_ns() + 200_000_000);
    });
    assert!(ended.get() > 58_000_000, "{} ns", ended.get());
}

#[test]
fn the_work_runs_where_the_kernel_says() {
    for (kernel, threads, softirq) in [
        ("2.6.39", false, true),
        ("3.0-rc", true, false),
        ("3.0-rc+softirq", true, true),
        ("3.0", false, true),
    ] {
        let sched = stage(kernel, 4, |sched| {
            sched.rcu().call(Box::new(|_| ()));
            sched.sleep_until(Here::now_ns() + 100_000_000);
        });
        let stats = sched.rcu().stats();
        assert_eq!(stats.thread_wakeups > 0, threads, "{kernel}");
        assert!(stats.idle_rounds <= stats.thread_wakeups && stats.asked > 0, "{stats:?}");
        let counts = sched.softirqs.counts(0);
        let rcu = counts.iter().find(|(vector, _)| *vector == Vector::Rcu);
        assert_eq!(rcu.is_some_and(|(_, runs)| *runs > 0), softirq, "{kernel}");
    }
}

#[test]
fn without_callbacks_there_is_nothing_to_do() {
    let sched = stage("3.0-rc", 4, |sched| {
        sched.fork_on(1, Box::new(|| Here::user(50 * MS))).expect("room");
        sched.sleep_until(Here::now_ns() + 100_000_000);
    });
    let asked = sched.rcu().stats().asked;
    assert!(asked > 0);
    let expected = RcuStats { asked, no_work: asked, ..RcuStats::default() };
    assert_eq!(sched.rcu().stats(), expected);
}

#[test]
fn ten_thousand_callbacks_are_handed_out_at_once() {
    let rounds = |count: u64| {
        let sched = stage("2.6.39", 2, move |sched| {
            (0..count).for_each(|_| sched.rcu().call(Box::new(|_| ())));
            sched.sleep_until(Here::now_ns() + 400_000_000);
        });
        assert_eq!(sched.rcu().stats().invoked, count);
        sched.rcu().stats().core
    };
    // Ten callbacks a round, or all.
    let (few, many) = (rounds(9_000), rounds(10_100));
    assert!(few >= 900 && many < 50, "{few} rounds below the mark, {many} above it");
}
