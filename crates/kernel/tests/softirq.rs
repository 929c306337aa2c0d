//! Software interrupts and kernel threads, each rule as one small scene.

use crate::stage::MS;
use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_kernel::sched::kthread::{Kthread, Policy};
use convoy_kernel::softirq::{Vector, context, local_bh_disable};
use convoy_machine::{Context, Here, Mode, Smp};
use convoy_sync::{RawLock, TicketLock};
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const US: u64 = 1_000_000; // picoseconds

fn kernel() -> KernelPreset {
    crate::stage::kernel("2.6.25")
}

/// Runs `scene` as the first task, on CPU 0 of four.
fn stage(kernel: &KernelPreset, scene: impl FnOnce(&Rc<Sched>) + 'static) -> (Rc<Sched>, u64) {
    crate::stage::stage(kernel, |sched| scene(&sched))
}

fn count(sched: &Sched, cpu: usize, vector: Vector) -> u64 {
    let counts = sched.softirqs.counts(cpu);
    counts.into_iter().find(|(known, _)| *known == vector).expect("a vector of 2.6.25").1
}

/// A log of what ran where: name, CPU, in which context.
type Log = Rc<RefCell<Vec<(&'static str, usize, Context)>>>;

fn note(log: &Log, name: &'static str) {
    log.borrow_mut().push((name, Here::cpu(), context()));
}

#[test]
fn a_softirq_runs_on_the_raising_cpu_when_its_interrupt_ends() {
    let log = Log::default();
    let seen = Rc::clone(&log);
    stage(&kernel(), move |sched| {
        let inner = Rc::clone(&seen);
        sched.softirqs.open(Vector::NetRx, Rc::new(move |_| note(&inner, "softirq")));
        let inner = Rc::clone(&seen);
        let handler = move |sched: &Sched| {
            note(&inner, "irq");
            sched.softirqs.raise(Vector::NetRx);
            note(&inner, "raised");
        };
        sched.agendas.interrupt_at(2, Here::now_ps() + MS, Box::new(handler));
        Here::user(2 * MS);
        assert_eq!(count(sched, 2, Vector::NetRx), 1);
        assert_eq!(count(sched, 0, Vector::NetRx), 0);
    });
    let log = log.borrow();
    let names: Vec<_> = log.iter().map(|(name, cpu, _)| (*name, *cpu)).collect();
    assert_eq!(names, [("irq", 2), ("raised", 2), ("softirq", 2)]);
    assert!(log[0].2.hardirq && log[0].2.irqs_off);
    let softirq = log[2].2;
    assert!(softirq.softirq && softirq.bh_off && !softirq.hardirq && !softirq.irqs_off);
}

#[test]
fn threaded_softirqs_run_in_ksoftirqd_only() {
    for threaded in [false, true] {
        let mut kernel = kernel();
        kernel.softirq.threaded = threaded;
        let (sched, _) = stage(&kernel, |sched| {
            sched.softirqs.open(Vector::NetRx, Rc::new(|_| Here::pass(100 * US)));
            let raise = |sched: &Sched| sched.softirqs.raise(Vector::NetRx);
            sched.agendas.interrupt_at(2, Here::now_ps() + MS, Box::new(raise));
            // A busy CPU: the thread is of real time and does not wait for the task there.
            sched.fork_on(2, Box::new(|| Here::user(20 * MS))).expect("room");
            Here::user(3 * MS);
            assert_eq!(count(sched, 2, Vector::NetRx), 1);
        });
        let outside = sched.softirqs.time_ps(2);
        assert_eq!(outside == 0, threaded, "{outside} ps outside ksoftirqd, threaded: {threaded}");
    }
}

#[test]
fn vectors_run_in_the_order_of_their_numbers() {
    let log = Log::default();
    let seen = Rc::clone(&log);
    stage(&kernel(), move |sched| {
        let names = [(Vector::Rcu, "rcu"), (Vector::Hi, "hi"), (Vector::Block, "block")];
        for (vector, name) in names {
            let inner = Rc::clone(&seen);
            sched.softirqs.open(vector, Rc::new(move |_| note(&inner, name)));
        }
        let raise = move |sched: &Sched| {
            for (vector, _) in names {
                sched.softirqs.raise(vector);
            }
        };
        sched.agendas.interrupt_at(0, Here::now_ps() + 10 * US, Box::new(raise));
        Here::user(MS);
    });
    let names: Vec<_> = log.borrow().iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["hi", "block", "rcu"]);
}

/// A handler on an idle CPU that raises itself until it has run `times` times; how often it ran
/// at the end of the interrupt and how often in `ksoftirqd`.
fn storm(kernel: &KernelPreset, times: u64, handler_ps: u64) -> (u64, u64) {
    let ran = Rc::new((Cell::new(0), Cell::new(0)));
    let seen = Rc::clone(&ran);
    stage(kernel, move |sched| {
        let interrupted = OnceCell::new();
        let inner = Rc::clone(&seen);
        let handler = move |sched: &Sched| {
            Here::compute(handler_ps);
            let idle = *interrupted.get_or_init(Here::task);
            let at = if Here::task() == idle { &inner.0 } else { &inner.1 };
            at.set(at.get() + 1);
            if inner.0.get() + inner.1.get() < times {
                sched.softirqs.raise(Vector::NetRx);
            }
        };
        sched.softirqs.open(Vector::NetRx, Rc::new(handler));
        let raise = |sched: &Sched| sched.softirqs.raise(Vector::NetRx);
        sched.agendas.interrupt_at(1, Here::now_ps() + 10 * US, Box::new(raise));
        Here::user(200 * MS);
        assert_eq!(count(sched, 1, Vector::NetRx), seen.0.get() + seen.1.get());
    });
    (ran.0.get(), ran.1.get())
}

#[test]
fn ten_passes_then_ksoftirqd() {
    assert_eq!(storm(&kernel(), 9, US), (9, 0));
    assert_eq!(storm(&kernel(), 10, US), (10, 0));
    let (before, after) = storm(&kernel(), 25, US);
    assert_eq!((before, after), (10, 15), "the rest runs in the thread");
}

#[test]
fn newer_kernels_also_stop_after_two_milliseconds() {
    let mut newer = kernel();
    newer.softirq.limit_ms = 2;
    // HZ is 250: the limit is one tick, so the first pass that ends in the next tick is the last.
    let (before, after) = storm(&newer, 10, 3 * MS);
    assert!(before < 4 && before + after == 10, "{before} before, {after} after");
    assert_eq!(storm(&kernel(), 10, 3 * MS), (10, 0));
}

#[test]
fn a_softirq_raised_by_a_task_runs_in_ksoftirqd_of_its_cpu() {
    let log = Log::default();
    let seen = Rc::clone(&log);
    stage(&kernel(), move |sched| {
        let inner = Rc::clone(&seen);
        sched.softirqs.open(Vector::Tasklet, Rc::new(move |_| note(&inner, "tasklet")));
        sched.softirqs.raise(Vector::Tasklet);
        assert!(seen.borrow().is_empty());
        while seen.borrow().is_empty() {
            Here::user(MS);
            sched.syscall_return();
        }
    });
    assert_eq!(log.borrow()[0].1, 0);
}

#[test]
fn disabled_bottom_halves_delay_and_their_end_runs_what_is_pending() {
    let log = Log::default();
    let seen = Rc::clone(&log);
    stage(&kernel(), move |sched| {
        let inner = Rc::clone(&seen);
        sched.softirqs.open(Vector::NetTx, Rc::new(move |_| note(&inner, "softirq")));
        local_bh_disable();
        local_bh_disable();
        let raise = |sched: &Sched| sched.softirqs.raise(Vector::NetTx);
        sched.agendas.interrupt_at(0, Here::now_ps() + 10 * US, Box::new(raise));
        Here::compute(20 * MS);
        sched.softirqs.local_bh_enable(sched);
        assert!(seen.borrow().is_empty(), "still disabled once");
        sched.softirqs.local_bh_enable(sched);
        assert_eq!(seen.borrow().len(), 1);
        assert_eq!(Here::preempt_depth(), 0);
    });
    assert!(!log.borrow()[0].2.hardirq);
}

#[test]
#[should_panic(expected = "schedules in an interrupt")]
fn sleeping_with_bottom_halves_disabled_is_an_error() {
    stage(&kernel(), |sched| {
        local_bh_disable();
        sched.sleep_until(Here::now_ns() + 1000);
    });
}

#[test]
fn time_in_softirqs_excludes_the_interrupts_that_interrupt_them() {
    stage(&kernel(), |sched| {
        sched.softirqs.open(Vector::NetRx, Rc::new(|_| Here::compute(MS)));
        let raise = |sched: &Sched| sched.softirqs.raise(Vector::NetRx);
        let now = Here::now_ps();
        sched.agendas.interrupt_at(1, now + 10 * US, Box::new(raise));
        // This one comes in the middle of the handler and takes 300 us.
        sched.agendas.interrupt_at(1, now + 500 * US, Box::new(|_| Here::pass(300 * US)));
        let before = Here::times(1)[Mode::Interrupt as usize];
        Here::user(3 * MS);
        let interrupts = Here::times(1)[Mode::Interrupt as usize] - before;
        assert_eq!(sched.softirqs.time_ps(1), MS);
        assert!(interrupts >= 300 * US, "{interrupts}");
    });
}

#[test]
fn each_tick_of_a_busy_cpu_runs_the_timer_vector() {
    let (sched, _) = stage(&kernel(), |_| Here::user(50 * MS));
    let counts = sched.softirqs.counts(0);
    assert_eq!(counts.len(), 9, "the vectors of the kernel");
    assert_eq!((counts[0], counts[1]), ((Vector::Hi, 0), (Vector::Timer, 12)));
}

#[test]
fn a_bound_kthread_stays_on_its_cpu_and_stops() {
    stage(&kernel(), |sched| {
        let ran = Rc::new(Cell::new(0));
        let known: Rc<OnceCell<Rc<Kthread>>> = Rc::default();
        let (inner, handle) = (Rc::clone(&ran), Rc::clone(&known));
        let body = move |sched: &Sched| {
            let me = handle.get().expect("set before the first wakeup");
            while !me.should_stop() {
                assert_eq!(Here::cpu(), 3);
                inner.set(inner.get() + 1);
                sched.sleep_unless(|| me.should_stop());
            }
        };
        let policy = Policy::Normal { nice: 0 };
        let kthread = sched.kthreads.create(("worker/", Some(3)), Some(3), policy, Box::new(body));
        let kthread = kthread.expect("room");
        assert!(known.set(Rc::clone(&kthread)).is_ok());
        assert_eq!(ran.get(), 0, "created asleep");
        // Its CPU is busy, the others are idle, and still it waits for its own.
        sched.fork_on(3, Box::new(|| Here::user(300 * MS))).expect("room");
        for round in 1..=3 {
            assert!(sched.kthreads.wake(&kthread));
            while kthread.is_runnable() {
                sched.sleep_until(Here::now_ns() + 1_000_000);
            }
            assert_eq!(ran.get(), round);
        }
        kthread.stop(sched);
        assert_eq!(kthread.name(), "worker/3");
    });
}

#[test]
fn storms_repeat_to_the_bit() {
    let run = || {
        let scene = |sched: &Rc<Sched>| {
            let again = |sched: &Sched| sched.softirqs.raise(Vector::NetRx);
            sched.softirqs.open(Vector::NetRx, Rc::new(again));
            let raise = |sched: &Sched| sched.softirqs.raise(Vector::NetRx);
            sched.agendas.interrupt_at(1, Here::now_ps() + 10 * US, Box::new(raise));
            Here::user(5 * MS);
        };
        stage(&kernel(), scene).1
    };
    assert_eq!(run(), run());
}

/// A lock that a task, the handler of a device and of `NET_RX` take, each in one way.
#[derive(Clone, Copy)]
struct Ways {
    task: fn(&Sched, &TicketLock<Smp>),
    device: fn(&TicketLock<Smp>),
    softirq: fn(&TicketLock<Smp>),
}

fn plain(lock: &TicketLock<Smp>) {
    lock.lock();
    lock.unlock();
}

fn without_irqs(lock: &TicketLock<Smp>) {
    lock.lock_irqsave();
    lock.unlock_irqrestore(());
}

/// The report of a machine on which nothing ever meets: the interrupt comes long after the task has
/// given the lock back, and on another CPU. `None` without one.
fn report(ways: Ways) -> Option<String> {
    let scene = move |sched: &Rc<Sched>| {
        let lock = Rc::new(Here::place(TicketLock::<Smp>::default()));
        Here::name(&**lock, "demo lock");
        (ways.task)(sched, &lock);
        let inner = Rc::clone(&lock);
        sched.softirqs.open(Vector::NetRx, Rc::new(move |_| (ways.softirq)(&inner)));
        let handler = move |sched: &Sched| {
            (ways.device)(&lock);
            sched.softirqs.raise(Vector::NetRx);
        };
        sched.agendas.interrupt_at(1, Here::now_ps() + MS, Box::new(handler));
        Here::user(2 * MS);
    };
    let ended = catch_unwind(AssertUnwindSafe(|| stage(&kernel(), scene)));
    ended.err().map(|panic| panic.downcast_ref::<String>().expect("a message").clone())
}

const RIGHT: Ways =
    Ways { task: |_, lock| without_irqs(lock), device: plain, softirq: without_irqs };

#[test]
fn a_lock_of_interrupts_is_taken_with_interrupts_off() {
    assert_eq!(report(RIGHT), None);
    let never = Ways { task: |_, lock| plain(lock), device: |_| (), softirq: |_| () };
    assert_eq!(report(never), None, "of tasks alone");
}

#[test]
#[cfg(debug_assertions)]
fn a_lock_of_interrupts_taken_with_interrupts_on_is_reported_with_both_places() {
    let wrong = Ways { task: |_, lock| plain(lock), softirq: |_| (), ..RIGHT };
    let text = report(wrong).expect("a report");
    for part in ["demo lock is taken in an interrupt (task ", " on CPU 1 at ", " on CPU 0 at "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(report(wrong), Some(text), "each time the same");
    // The interrupt's own CPU is not the only one that may take it wrongly.
    let wrong = Ways { softirq: plain, ..RIGHT };
    assert!(report(wrong).is_some_and(|text| text.contains("taken in an interrupt")));
}

#[test]
#[cfg(debug_assertions)]
fn a_lock_of_software_interrupts_is_taken_with_bottom_halves_off() {
    let guarded = |sched: &Sched, lock: &TicketLock<Smp>| {
        local_bh_disable();
        plain(lock);
        sched.softirqs.local_bh_enable(sched);
    };
    let right = Ways { task: guarded, device: |_| (), softirq: plain };
    assert_eq!(report(right), None);
    let wrong = Ways { task: |_, lock| plain(lock), ..right };
    let text = report(wrong).expect("a report");
    assert!(text.contains("demo lock is taken in a software interrupt"), "{text}");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "has no name: give it one")]
fn a_lock_without_a_name_is_an_error() {
    stage(&kernel(), |_| plain(&Here::place(TicketLock::<Smp>::default())));
}
