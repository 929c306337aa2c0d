//! Programs that are written against the standard library: `convoy_checker::program`.
#![expect(
    clippy::arc_with_non_send_sync,
    clippy::undocumented_unsafe_blocks,
    unsafe_code,
    reason = "the checker checks what they rely on"
)]

use convoy_checker::program::cell::UnsafeCell;
use convoy_checker::program::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence,
};
use convoy_checker::program::sync::{Arc, Condvar, Mutex};
use convoy_checker::program::{BrokenProgram, Check, Checked, check, futex, hint, replay, thread};
use convoy_checker::{Budget, Property};
use std::ptr;

#[track_caller]
fn holds(body: impl Fn() + 'static) -> Checked {
    check(body).unwrap_or_else(|broken| panic!("{broken}"))
}

/// Checks a program that is broken, and replays its violation.
#[track_caller]
fn breaks(property: Property, body: impl Fn() + Copy + 'static) -> BrokenProgram {
    let broken = check(body).expect_err("it is broken");
    assert_eq!(broken.property, property, "{broken}");
    let again = replay(&broken.schedule, body).expect("its schedule");
    let again = again.expect("it breaks again");
    assert_eq!((again.property, &again.schedule), (property, &broken.schedule));
    assert_eq!(again.drawing.lines().count(), broken.drawing.lines().count());
    assert!(broken.drawing.contains("program.rs:"), "{broken}");
    broken
}

/// Two threads add to a number under a spinlock.
fn spinlock(release: Ordering) {
    let shared = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0)));
    let add = move |shared: &(AtomicUsize, UnsafeCell<u32>)| {
        while shared.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            hint::spin_loop();
        }
        shared.1.with_mut(|number| unsafe { *number += 1 });
        shared.0.store(0, release);
    };
    let clone = Arc::clone(&shared);
    let thread = thread::spawn(move || add(&clone));
    add(&shared);
    thread.join().unwrap();
    shared.1.with(|number| assert_eq!(unsafe { *number }, 2));
}

#[test]
fn a_spinlock_needs_release() {
    assert!(holds(|| spinlock(Ordering::Release)).executions > 3);
    breaks(Property::Visibility, || spinlock(Ordering::Relaxed));
}

/// A value behind a pointer that is published.
fn publication(orders: [Ordering; 2]) {
    let shared = Arc::new((AtomicPtr::new(ptr::null_mut()), UnsafeCell::new(0)));
    let clone = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        clone.1.with_mut(|value| unsafe { *value = 7 });
        fence(orders[0]);
        clone.0.store(clone.1.with(<*const i32>::cast_mut), Ordering::Relaxed);
    });
    let pointer = shared.0.load(Ordering::Relaxed);
    if !pointer.is_null() {
        fence(orders[1]);
        shared.1.with(|value| assert_eq!(unsafe { *value }, 7));
    }
    thread.join().unwrap();
}

#[test]
fn fences_publish_a_pointer_only_in_pairs() {
    holds(|| publication([Ordering::Release, Ordering::Acquire]));
    breaks(Property::Visibility, || publication([Ordering::Release, Ordering::Release]));
}

/// A consumer that waits for an item.
fn queue(notifies: bool) {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let clone = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        *clone.0.lock().unwrap() += 1;
        if notifies {
            clone.1.notify_one();
        }
    });
    let mut items = shared.0.lock().unwrap();
    while *items == 0 {
        items = shared.1.wait(items).unwrap();
    }
    drop(items);
    thread.join().unwrap();
}

#[test]
fn a_missing_notification_is_a_deadlock() {
    holds(|| queue(true));
    breaks(Property::NoDeadlock, || queue(false));
}

/// A thread that parks until it is told.
fn parked(unparks: bool) {
    let parked = thread::spawn(thread::park);
    if unparks {
        parked.thread().unpark();
    }
    parked.join().unwrap();
}

#[test]
fn a_thread_that_is_unparked_runs_again() {
    holds(|| parked(true));
    breaks(Property::NoDeadlock, || parked(false));
}

#[test]
fn memory_that_is_used_again_is_new() {
    holds(|| {
        for _ in 0..2 {
            let shared = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0)));
            let clone = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                clone.1.with_mut(|value| unsafe { *value = 1 });
                clone.0.store(1, Ordering::Release);
            });
            if shared.0.load(Ordering::Acquire) == 1 {
                shared.1.with(|value| assert_eq!(unsafe { *value }, 1));
            }
            thread.join().unwrap();
        }
    });
}

/// Three threads that take a test-and-set lock by exchanges, whose waiters poll.
#[test]
fn three_threads_that_poll_end_under_a_fair_scheduler() {
    let bounds =
        Check { budget: Budget { executions: 10_000, ..Budget::default() }, ..Check::default() };
    let explored = bounds.explore(|| {
        let shared = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0)));
        let add = move |shared: &(AtomicUsize, UnsafeCell<u32>)| {
            while shared.0.swap(1, Ordering::Acquire) == 1 {
                hint::spin_loop();
            }
            shared.1.with_mut(|number| unsafe { *number += 1 });
            shared.0.store(0, Ordering::Release);
        };
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared))
        });
        add(&shared);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    if let Err(broken) = explored {
        panic!("{}: {} {}", broken.property.name(), broken.text, broken.schedule);
    }
}

/// Two waiters poll a ticket lock: they do not take turns for ever while the owner could run.
#[test]
fn a_round_that_cannot_end_a_loop_is_not_repeated() {
    let checked = holds(|| {
        let shared = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let threads = [(); 2].map(|()| {
            let lock = Arc::clone(&shared);
            thread::spawn(move || {
                let mine = lock.0.fetch_add(1, Ordering::Relaxed);
                while lock.1.load(Ordering::Acquire) != mine {
                    hint::spin_loop();
                }
                lock.1.store(mine + 1, Ordering::Release);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(checked.exhaustive, "{checked:?}");
    assert!(checked.executions < 1000, "{checked:?}");
}

/// A node with values that are written where it is created, and a flag.
struct Node {
    value: UnsafeCell<u32>,
    flag: AtomicI32,
}

/// A thread finds a node through a pointer and reads its `value`, or else adds to its flag.
fn node(publish: Ordering, reads_value: bool) {
    let head = Arc::new(AtomicPtr::new(ptr::null_mut()));
    let clone = Arc::clone(&head);
    let thread = thread::spawn(move || {
        let node = Node { value: UnsafeCell::new(7), flag: AtomicI32::new(-1) };
        clone.store(Box::into_raw(Box::new(node)), publish);
    });
    let found: *mut Node = head.load(Ordering::Acquire);
    if let Some(node) = unsafe { found.as_ref() } {
        if reads_value {
            node.value.with(|value| assert_eq!(unsafe { *value }, 7));
        } else {
            let changed = node.flag.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |flag| {
                (flag < 0).then_some(flag + 1)
            });
            assert_eq!(changed, Ok(-1));
        }
    }
    thread.join().unwrap();
    drop(unsafe { Box::from_raw(head.load(Ordering::Relaxed)) });
}

#[test]
fn first_values_are_published_too() {
    for reads_value in [false, true] {
        holds(move || node(Ordering::Release, reads_value));
        let broken = breaks(Property::Visibility, move || node(Ordering::Relaxed, reads_value));
        assert!(broken.text.contains("its first value"), "{broken}");
    }
}

/// Two readers that both wait until the other has left.
#[test]
fn the_table_of_a_livelock_has_one_round() {
    let broken = breaks(Property::NoLivelock, || {
        let readers = Arc::new(AtomicUsize::new(0));
        let upgrade = |readers: &AtomicUsize| {
            readers.fetch_add(1, Ordering::AcqRel);
            while readers.load(Ordering::Acquire) != 1 {
                hint::spin_loop();
            }
            readers.fetch_sub(1, Ordering::AcqRel);
        };
        let clone = Arc::clone(&readers);
        let thread = thread::spawn(move || upgrade(&clone));
        upgrade(&readers);
        thread.join().unwrap();
    });
    assert!(broken.drawing.lines().count() < 20, "{broken}");
    assert!(broken.text.contains("repeat"), "{broken}");
}

/// A semaphore without units, whose waiter sleeps on `expected`.
fn semaphore(expected: u32) {
    let units = Arc::new(AtomicU32::new(0));
    let clone = Arc::clone(&units);
    let thread = thread::spawn(move || {
        while clone.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            futex::wait(&clone, expected);
        }
    });
    units.store(1, Ordering::Release);
    futex::wake_one(&raw const *units);
    thread.join().unwrap();
}

#[test]
fn a_futex_compares_its_word() {
    let checked = holds(|| semaphore(0));
    assert!(checked.exhaustive, "{checked:?}");
    breaks(Property::NoDeadlock, || semaphore(1));
}

/// A count of references like the one of `Arc`, with the value that the last one frees.
struct Counted {
    count: AtomicUsize,
    value: UnsafeCell<u32>,
}

fn release(object: *mut Counted, last: Ordering) {
    let counted = unsafe { &*object };
    counted.value.with(|value| assert_eq!(unsafe { *value }, 7));
    if counted.count.fetch_sub(1, Ordering::Release) == 1 {
        fence(last);
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Three threads that each end a reference.
fn references(last: Ordering) {
    let counted = Counted { count: AtomicUsize::new(3), value: UnsafeCell::new(7) };
    let object = Box::into_raw(Box::new(counted));
    for _ in 0..2 {
        thread::spawn(move || release(object, last));
    }
    release(object, last);
}

#[test]
fn the_last_reference_needs_acquire_to_drop_the_value() {
    assert!(holds(|| references(Ordering::Acquire)).exhaustive);
    let broken = breaks(Property::Visibility, || references(Ordering::Release));
    assert!(broken.text.contains("drops"), "{broken}");
}

/// Two threads that share a cell, which the last of them drops.
fn shared_by(new: fn(UnsafeCell<u32>) -> Arc<UnsafeCell<u32>>) {
    let shared = new(UnsafeCell::new(7));
    let clone = Arc::clone(&shared);
    thread::spawn(move || clone.with(|value| assert_eq!(unsafe { *value }, 7)));
    let mut shared = match Arc::try_unwrap(shared) {
        Ok(mut cell) => return *cell.get_mut() = 8,
        Err(shared) => shared,
    };
    if let Some(cell) = Arc::get_mut(&mut shared) {
        cell.with_mut(|value| unsafe { *value = 8 });
    }
}

#[test]
fn an_arc_orders_its_drop_after_all_uses() {
    assert!(holds(|| shared_by(Arc::new)).exhaustive);
    assert!(holds(|| shared_by(|cell| Arc::from_std(std::sync::Arc::new(cell)))).exhaustive);
}

/// A reader announces the object that it uses, and the other thread frees it if none is announced.
fn hazard_pointer(full: Ordering) {
    let object = Box::into_raw(Box::new(UnsafeCell::new(7)));
    let shared = Arc::new((AtomicPtr::new(object), AtomicPtr::new(ptr::null_mut())));
    let clone = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        let object = clone.0.load(Ordering::Acquire);
        clone.1.store(object, Ordering::Relaxed);
        fence(full);
        if !object.is_null() && clone.0.load(Ordering::Acquire) == object {
            let cell = unsafe { &*object };
            cell.with(|value| assert_eq!(unsafe { *value }, 7));
        }
        clone.1.store(ptr::null_mut(), Ordering::Release);
    });
    let retired = shared.0.swap(ptr::null_mut(), Ordering::AcqRel);
    fence(Ordering::SeqCst);
    while shared.1.load(Ordering::Acquire) == retired {
        hint::spin_loop();
    }
    // The memory is not given back, so that no other object gets it.
    unsafe { retired.drop_in_place() };
    reader.join().unwrap();
}

#[test]
fn a_hazard_pointer_needs_a_fence() {
    assert!(holds(|| hazard_pointer(Ordering::SeqCst)).exhaustive);
    breaks(Property::GracePeriod, || hazard_pointer(Ordering::AcqRel));
}

#[test]
fn an_object_that_was_dropped_is_not_used() {
    breaks(Property::GracePeriod, || {
        let object = Box::into_raw(Box::new((0_u64, AtomicUsize::new(0))));
        let freed = thread::spawn(move || unsafe { object.drop_in_place() });
        freed.join().unwrap();
        unsafe { (*object).1.load(Ordering::Acquire) };
    });
}

#[test]
fn a_thread_that_panics_with_a_mutex_ends_the_execution() {
    breaks(Property::Assertions, || {
        let shared = Arc::new(Mutex::new(0));
        let clone = Arc::clone(&shared);
        thread::spawn(move || *clone.lock().unwrap() += 1);
        let mut number = shared.lock().unwrap();
        *number += 1;
        assert_eq!(*number, 1, "the other was first");
    });
}
