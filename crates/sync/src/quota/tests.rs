//! Tests of the lock with turns.

use super::BOUND_NS;
use super::settle::PATIENCE_NS;
use super::word::{CLOSED, QUEUED, SUMMONED};
use super::*;
use std::sync::atomic::AtomicUsize;

/// Sleepers in the queue: two more than are summoned at a time.
const SLEEPERS: usize = SUMMONED as usize + 2;

/// Returns how many of the sleepers pass an owner that reacquires the lock immediately.
fn passed_by(turn: impl Fn(u64) -> Turn, take: fn(&NativeQuota)) -> usize {
    let (lock, gone) = (NativeQuota::native(1), AtomicUsize::new(0));
    lock.down();
    std::thread::scope(|scope| {
        for _ in 0..SLEEPERS {
            scope.spawn(|| {
                lock.down();
                gone.fetch_add(1, Relaxed);
                lock.up();
            });
        }
        while lock.waiters() < SLEEPERS {
            std::thread::yield_now();
        }
        // The first has just become that, and the lock was just closed: nothing is due.
        let room = lock.room.queue();
        room.inner.lock();
        room.claim();
        room.closed.set(stamp::<Native>());
        room.inner.unlock();
        Native::set_turn(turn(Native::now()));
        lock.up();
        take(&lock);
        let gone = gone.load(Relaxed);
        lock.up();
        gone
    })
}

/// Returns the threads that took a lock, real-time ones `true`: two ordinary ones queue, then a
/// real-time one, and the owner leaves. `None` if that priority is not allowed.
fn order_of_threads() -> Option<Vec<bool>> {
    let (lock, order) = (NativeQuota::native(1), std::sync::Mutex::new(Vec::new()));
    let enter = |urgent| {
        lock.down();
        order.lock().expect("no panic").push(urgent);
        lock.up();
    };
    let enter_urgently = || {
        let lowest = libc::sched_param { sched_priority: 1 };
        // SAFETY: `lowest` is valid for the call, which reads it.
        let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) };
        if set == 0 {
            enter(true);
        }
        set == 0
    };
    lock.down();
    let until = |waiters: usize| while lock.waiters() < waiters {};
    let allowed = std::thread::scope(|scope| {
        scope.spawn(|| enter(false));
        scope.spawn(|| enter(false));
        until(2);
        let urgent = scope.spawn(enter_urgently);
        while lock.waiters() < 3 && !urgent.is_finished() {}
        lock.up();
        urgent.join().expect("no panic")
    });
    allowed.then(|| order.into_inner().expect("no panic"))
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows of no scheduler")]
#[expect(clippy::print_stderr, reason = "a test that lacks what it needs says so")]
fn a_real_time_thread_goes_before_those_that_waited_longer() {
    match order_of_threads() {
        Some(order) => assert_eq!(order, [true, false, false]),
        None => eprintln!("skipped: no right to real-time priority (CAP_SYS_NICE)"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri's clock runs through a turn in a few steps")]
fn who_has_had_its_turn_lets_others_go_first() {
    // A machine that is busy with others may take the CPU away at the wrong moment, mostly: then
    // the sleepers go first, which they always do before a thread that must wait for them.
    const ROUNDS: usize = 20;
    let rounds = |turn: fn(u64) -> Turn, take, went: fn(usize) -> bool| {
        (0..ROUNDS).filter(|_| went(passed_by(turn, take))).count()
    };
    let timed = |lock: &NativeQuota| assert_eq!(lock.down_timeout(u64::MAX), Ok(()));
    for take in [NativeQuota::down, timed] {
        // All sleepers go, except those that were summoned in addition to the owner.
        let yields = rounds(Turn::over, take, |gone| gone > SLEEPERS - SUMMONED as usize);
        assert!(yields > ROUNDS / 2, "{yields} of {ROUNDS}");
        let passes = rounds(Turn::new, take, |gone| gone < SLEEPERS / 2);
        assert!(passes > 0, "{passes} of {ROUNDS}");
    }
    // An attempt does not wait.
    let attempt = |lock: &NativeQuota| while !lock.down_trylock() {};
    let passes = rounds(Turn::over, attempt, |gone| gone < SLEEPERS / 2);
    assert!(passes > 0, "{passes} of {ROUNDS}");
}

/// Returns the order in which threads with these turns, which queue in order, take a lock.
fn order_of_turns<const N: usize>(turns: [Turn; N]) -> Vec<usize> {
    let (lock, order) = (NativeQuota::native(1), std::sync::Mutex::new(Vec::new()));
    let enter = |index, turn| {
        Native::set_turn(turn);
        lock.down();
        order.lock().expect("no panic").push(index);
        lock.up();
    };
    lock.down();
    std::thread::scope(|scope| {
        for (index, turn) in turns.into_iter().enumerate() {
            let enter = &enter;
            scope.spawn(move || enter(index, turn));
            while lock.waiters() <= index {
                std::thread::yield_now();
            }
        }
        lock.up();
    });
    order.into_inner().expect("no panic")
}

#[test]
fn visitors_go_before_those_that_meet_queues_all_the_time() {
    // On a busy machine the first one may be overdue before the visitors come.
    assert!((0..400).any(|_| {
        let (visitor, regular) = (Turn::visiting(Native::now()), Turn::default());
        let turns = [regular, regular, visitor, visitor, visitor, regular];
        order_of_turns(turns) == [2, 3, 0, 1, 4, 5]
    }));
}

/// Runs `with` on a lock without units with two sleepers in its queue.
fn with_two_sleepers(with: impl Fn(&NativeQuota, &[Waiter<Native>; 2])) {
    let (lock, waiters) = (NativeQuota::native(0), [Waiter::new(false), Waiter::new(false)]);
    let room = lock.room.queue();
    room.inner.lock();
    for waiter in &waiters {
        // SAFETY: the inner lock is held; the records stay until they are removed below.
        unsafe { room.push(waiter) };
        waiter.prepare();
    }
    with(&lock, &waiters);
    for waiter in &waiters {
        // SAFETY: the inner lock is held, and the record is in the queue.
        unsafe { room.remove(waiter) };
    }
    // Another lock has the queue after this one.
    room.summoned.set(0);
    room.closed.set(0);
    room.inner.unlock();
}

#[test]
fn no_more_are_summoned_than_there_are_places() {
    with_two_sleepers(|lock, [_, waiter]| {
        let room = lock.room.queue();
        // A machine that is busy with others may stop this thread after the summons.
        let is_full = || {
            (0..1000).any(|_| {
                room.summons.set(stamp::<Native>());
                !room.has_place(waiter, SUMMONED)
            })
        };
        room.summoned.set(SUMMONED as u16 - 1);
        assert!(!is_full() && lock.settle(room, Cause::Turn).is_some());
        assert!(room.summoned.get() == SUMMONED as u16 && is_full());
        room.summons.set(stamp::<Native>().wrapping_sub(1000));
        assert!(room.has_place(waiter, SUMMONED), "the last one waits for a CPU");
        // A waiter that fails to acquire leaves a single place, and each success doubles the
        // places.
        room.answer(Some(false), SUMMONED);
        assert!(is_full());
        room.answer(Some(true), SUMMONED);
        room.answer(Some(true), SUMMONED);
        assert!(!is_full() && lock.settle(room, Cause::Turn).is_some());
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri's clock runs through the bound in a few steps")]
fn a_release_hands_nothing_to_a_sleeper_before_a_quarter_of_the_bound() {
    with_two_sleepers(|lock, [first, _]| {
        let room = lock.room.queue();
        std::thread::sleep(core::time::Duration::from_nanos(2 * PATIENCE_NS));
        let closes = |ago_ns: u64, cause| {
            let now = stamp::<Native>();
            first.arrived.set(now.wrapping_sub((ago_ns >> 10) as u32));
            room.closed.set(now.wrapping_sub(1 << 20));
            first.owed.set(false);
            lock.closes(room, first, cause)
        };
        assert!((0..100).any(|_| !closes(0, Cause::Unit)), "it has just arrived");
        assert!(closes(BOUND_NS / 2, Cause::Unit));
        assert!(closes(0, Cause::InVain), "it runs");
        first.owed.set(false);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri's clock runs through the bound in a few steps")]
fn a_lock_is_closed_for_all_but_the_first_waiter_once_that_is_due() {
    with_two_sleepers(|lock, waiters| {
        let room = lock.room.queue();
        let word = || lock.word.load(Relaxed);
        let closes = || room.closed.set(stamp::<Native>().wrapping_sub(1 << 20));
        closes();
        assert_eq!(lock.settle(room, Cause::InVain), None);
        assert_eq!(word(), QUEUED | SHORT, "it has not waited for long");
        std::thread::sleep(core::time::Duration::from_nanos(2 * PATIENCE_NS));
        room.closed.set(stamp::<Native>());
        assert!(lock.settle(room, Cause::Unit).is_some() && word() == QUEUED | SHORT);
        waiters[0].prepare();
        closes();
        waiters[0].since.set(stamp::<Native>());
        assert!(lock.settle(room, Cause::Unit).is_some() && word() == QUEUED | SHORT);
        waiters[0].prepare();
        std::thread::sleep(core::time::Duration::from_nanos(2 * PATIENCE_NS));
        assert!(lock.settle(room, Cause::Unit).is_some(), "the first is summoned");
        assert_eq!((word(), waiters[0].is_owed()), (QUEUED | CLOSED, true));
        lock.word.fetch_add(UNIT, Relaxed);
        assert!(!lock.down_trylock() && !lock.compete(OPEN, 0) && lock.compete(FLAGS, 0));
        // Another one before it is not kept out, and the claim is not lost.
        waiters[0].prepare();
        assert_eq!(lock.settle(room, Cause::Change), None);
        assert_eq!(word(), QUEUED | SHORT | CLOSED);
    });
}
