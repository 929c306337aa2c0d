//! Mutexes that spin, each rule as one small scene on the scheduler of 3.7.

use crate::stage::{MS, kernel};
use convoy_kernel::sched::Sched;
use convoy_kernel::sched::kthread::Policy;
use convoy_machine::{Here, Mode, Sim, Smp};
use convoy_sync::{
    NoSpin, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinOne, SpinPolicy, SpinReadFirst, kernel::Mutex,
};
use std::cell::Cell;
use std::rc::Rc;

type Lock<S> = Rc<Sim<Mutex<Smp, S>>>;

/// Runs `scene` with a mutex as the first task, on CPU 0 of four.
fn stage<S: SpinPolicy>(scene: impl FnOnce(Rc<Sched>, Lock<S>) + 'static) {
    crate::stage::stage(&kernel("3.7"), |sched| {
        let mutex = Here::place(Mutex::new());
        Here::name(&*mutex, "mutex");
        scene(sched, Rc::new(mutex));
    });
}

/// Result of the waiter on CPU 1: milliseconds until it acquired the mutex, and milliseconds that
/// it spun.
type Seen = Rc<Cell<(f64, f64)>>;

/// A task on CPU 1 that acquires the mutex and returns its result.
fn waiter<S: SpinPolicy>(sched: &Sched, mutex: &Lock<S>) -> Seen {
    waiter_on(sched, mutex, 1)
}

fn waiter_on<S: SpinPolicy>(sched: &Sched, mutex: &Lock<S>, cpu: usize) -> Seen {
    let seen = Seen::default();
    let (mutex, result) = (Rc::clone(mutex), Rc::clone(&seen));
    let body = move || {
        let (since, spun) = (Here::now_ps(), Here::times(cpu)[Mode::Spin as usize]);
        mutex.lock();
        assert_eq!(Here::cpu(), cpu);
        let ms = |ps: u64| ps as f64 / MS as f64;
        let spun = Here::times(cpu)[Mode::Spin as usize] - spun;
        result.set((ms(Here::now_ps() - since), ms(spun)));
        mutex.unlock();
    };
    sched.fork_on(cpu, Box::new(body)).expect("room");
    seen
}

fn hog(sched: &Sched, cpu: usize) {
    sched.fork_on(cpu, Box::new(|| Here::user(500 * MS))).expect("room");
}

fn spins_while_the_owner_runs<S: SpinPolicy>() {
    stage::<S>(|sched, mutex| {
        mutex.lock();
        let seen = waiter(&sched, &mutex);
        Here::user(3 * MS);
        mutex.unlock();
        Here::user(MS);
        let (waited, spun) = seen.get();
        assert!((2.9..3.1).contains(&waited), "{waited} ms");
        // All but ticks.
        assert!(spun > 0.95 * waited, "spun {spun} of {waited} ms");
    });
}

fn sleeps_when_the_owner_sleeps<S: SpinPolicy>() {
    stage::<S>(|sched, mutex| {
        mutex.lock();
        let seen = waiter(&sched, &mutex);
        Here::user(MS);
        // The owner leaves its CPU while it is watched; nothing is written to the mutex then.
        sched.sleep_until(Here::now_ns() + 5_000_000);
        mutex.unlock();
        Here::user(MS);
        let (waited, spun) = seen.get();
        assert!((5.9..7.2).contains(&waited), "{waited} ms");
        assert!((0.9..1.1).contains(&spun), "spun {spun} ms");
    });
}

fn gives_way_to_a_task_that_wants_its_cpu<S: SpinPolicy>() {
    stage::<S>(|sched, mutex| {
        mutex.lock();
        let seen = waiter(&sched, &mutex);
        Here::user(MS);
        // The other CPUs have as much to do: nobody pulls.
        for cpu in [1, 2, 2, 3, 3] {
            hog(&sched, cpu);
        }
        Here::user(40 * MS);
        mutex.unlock();
        Here::user(100 * MS);
        let (waited, spun) = seen.get();
        // Until its first slice ended; woken, it does not spin.
        assert!(waited > 40.0 && spun < 20.0, "spun {spun} of {waited} ms");
    });
}

#[test]
fn waiters_spin_while_the_owner_runs() {
    spins_while_the_owner_runs::<SpinOnOwner>();
    spins_while_the_owner_runs::<SpinReadFirst>();
    spins_while_the_owner_runs::<SpinAtLowLoad>();
    spins_while_the_owner_runs::<SpinOne>();
    spins_while_the_owner_runs::<SpinMcs>();
}

#[test]
fn waiters_sleep_when_the_owner_sleeps() {
    sleeps_when_the_owner_sleeps::<SpinOnOwner>();
    sleeps_when_the_owner_sleeps::<SpinReadFirst>();
    sleeps_when_the_owner_sleeps::<SpinAtLowLoad>();
    sleeps_when_the_owner_sleeps::<SpinOne>();
    sleeps_when_the_owner_sleeps::<SpinMcs>();
}

#[test]
fn spinners_give_way() {
    gives_way_to_a_task_that_wants_its_cpu::<SpinOnOwner>();
    gives_way_to_a_task_that_wants_its_cpu::<SpinReadFirst>();
    gives_way_to_a_task_that_wants_its_cpu::<SpinOne>();
    gives_way_to_a_task_that_wants_its_cpu::<SpinMcs>();
}

/// Milliseconds that a waiter spins on a CPU with `others` more tasks.
fn spins_beside<S: SpinPolicy>(others: usize) -> f64 {
    let spun = Rc::new(Cell::new(0.0));
    let result = Rc::clone(&spun);
    stage::<S>(move |sched, mutex| {
        // All CPUs have as much to do: nobody pulls.
        for cpu in [1, 2, 3] {
            (0..others).for_each(|_| hog(&sched, cpu));
        }
        (0..others).for_each(|_| hog(&sched, 0));
        mutex.lock();
        let seen = waiter(&sched, &mutex);
        // The owner is preempted at the end of its slices: a spinner goes to sleep then.
        Here::user(100 * MS);
        mutex.unlock();
        Here::user(300 * MS);
        result.set(seen.get().1);
    });
    spun.get()
}

#[test]
fn the_third_patch_does_not_spin_beside_two_tasks() {
    assert!(spins_beside::<SpinReadFirst>(2) > 0.1);
    // Run-queue locks are spun for as well.
    assert!(spins_beside::<SpinAtLowLoad>(2) < 0.01);
    // One other task, and no count of active tasks yet: low load.
    assert!(spins_beside::<SpinAtLowLoad>(1) > 0.1);
}

/// A spinner on CPU 1 with another task there, while an earlier spinner runs on CPU 2.
fn second_spinner<S: SpinPolicy>() -> f64 {
    let spun = Rc::new(Cell::new(0.0));
    let result = Rc::clone(&spun);
    stage::<S>(move |sched, mutex| {
        mutex.lock();
        waiter_on(&sched, &mutex, 2);
        Here::user(MS);
        let second = waiter(&sched, &mutex);
        Here::user(MS);
        // All CPUs but the one of the first spinner have as much to do: nobody pulls.
        for cpu in [1, 3, 3] {
            hog(&sched, cpu);
        }
        Here::user(60 * MS);
        mutex.unlock();
        Here::user(100 * MS);
        result.set(second.get().1);
    });
    spun.get()
}

#[test]
fn a_spinner_in_the_queue_does_not_give_way() {
    // Until its first slice ended.
    let alone = second_spinner::<SpinReadFirst>();
    assert!(alone < 20.0, "spun {alone} ms");
    let queued = second_spinner::<SpinMcs>();
    assert!(queued > 55.0, "spun {queued} ms");
}

#[test]
fn beside_a_spinner_nobody_spins_where_one_may() {
    let second = second_spinner::<SpinOne>();
    // It is woken once the first has had the mutex, and the inner lock is spun for as well.
    assert!(second < 0.01, "spun {second} ms");
}

/// An unlock wakes only the first waiter, and while that waiter waits for its CPU every further
/// unlock wakes it again: the waiters behind it sleep although the mutex is free.
#[test]
fn behind_a_woken_waiter_others_sleep_although_the_mutex_is_free() {
    stage::<NoSpin>(|sched, mutex| {
        sched.rq.tcb(Here::task()).bound.set(true);
        mutex.lock();
        let first = waiter_on(&sched, &mutex, 1);
        Here::user(MS);
        let second = waiter_on(&sched, &mutex, 2);
        Here::user(MS);
        let urgent = sched.fork_on(1, Box::new(|| Here::user(20 * MS))).expect("room");
        sched.rq.set_policy(urgent, Policy::Fifo { priority: 1 });
        Here::user(MS);
        mutex.unlock();
        for _ in 0..15 {
            Here::user(MS);
            assert!(mutex.try_lock(), "nobody has it");
            mutex.unlock();
        }
        assert_eq!(second.get(), (0.0, 0.0), "CPU 2 idles, and its task sleeps");
        Here::user(10 * MS);
        let ((first, _), (second, _)) = (first.get(), second.get());
        assert!(first > 20.0 && second > first - 1.5, "waited {first} and {second} ms");
    });
}
