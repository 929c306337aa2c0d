//! Every listed lock on threads, with cancelled and timed-out waits.

use convoy_sync::{
    AdaptiveLock, Cancel, Lock, LockName, Native, Promise, Signals, TicketLock, WaitError,
    with_lock,
};
use convoy_watchdog::doing;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

const THREADS: u32 = 4;
const ROUNDS: u32 = 400;
/// Added to the count of owners by an exclusive owner. A reader adds 1.
const ALONE: u32 = 1 << 16;

/// State that the threads share.
struct Room<T> {
    lock: T,
    name: LockName,
    units: u32,
    inside: AtomicU32,
}

impl<T: Lock> Room<T> {
    /// Acquires the lock in one of its ways and releases it. Returns whether it was acquired.
    fn visit(&self, round: u32) -> bool {
        let may = |promise| self.name.promises_to(promise);
        let shared = may(Promise::Shared) && round.is_multiple_of(2);
        let taken = match round % 5 {
            _ if shared => {
                self.lock.acquire_shared();
                true
            }
            0 if may(Promise::Signals) => self.unless(Cancel::Signal),
            1 if may(Promise::Signals) => self.unless(Cancel::Kill),
            2 if may(Promise::Timeouts) => {
                self.unless(Cancel::After(u64::from(round % 7) * 10_000))
            }
            3 => self.lock.try_acquire(),
            _ => {
                self.lock.acquire();
                true
            }
        };
        if !taken {
            return false;
        }
        let mine = if shared { 1 } else { ALONE };
        let others = self.inside.fetch_add(mine, Ordering::Relaxed);
        let limit = if shared { ALONE } else { ALONE * (self.units - 1) + 1 };
        assert!(others < limit, "{}: {others:#x} are inside", self.name);
        // Yield the CPU inside, so that the others have something to wait for.
        if round.is_multiple_of(3) {
            std::thread::yield_now();
        }
        self.inside.fetch_sub(mine, Ordering::Relaxed);
        if shared {
            self.lock.release_shared();
        } else {
            self.lock.release();
        }
        true
    }

    fn unless(&self, cancel: Cancel) -> bool {
        let result = self.lock.acquire_unless(cancel);
        if result == Err(WaitError::Interrupted) {
            Signals::of_this_thread().clear();
        }
        result.is_ok()
    }
}

/// Threads acquire the lock in every possible way while another thread sends signals. At the end
/// the lock is free and has no waiters. If the test ends, no waiter was forgotten.
fn storm<T: Lock + Sync>(name: LockName, units: u32) {
    let room = Room { lock: T::with_units(units), name, units, inside: AtomicU32::new(0) };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel::<&'static Signals>();
        let (room, done) = (&room, &done);
        let worker = |thread: u32| {
            let send = send.clone();
            scope.spawn(move || {
                doing(format!("takes a {} in every way", room.name));
                send.send(Signals::of_this_thread()).unwrap();
                (0..ROUNDS).filter(|round| room.visit(thread + round)).count()
            })
        };
        let workers: Vec<_> = (0..THREADS).map(worker).collect();
        scope.spawn(move || {
            let signals: Vec<_> = receive.iter().take(THREADS as usize).collect();
            while !done.load(Ordering::Relaxed) {
                for signals in &signals {
                    signals.interrupt();
                    signals.kill();
                    std::thread::yield_now();
                }
            }
        });
        let visits: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        assert!(visits > 0, "{name}");
    });
    assert_eq!(room.lock.waiters(), 0, "{name}");
    let free = (0..=units).take_while(|_| room.lock.try_acquire()).count();
    assert_eq!(free, units as usize, "{name}");
}

#[test]
fn every_lock_survives_threads_signals_and_deadlines() {
    for &name in LockName::ALL {
        let units = if name.promises_to(Promise::Units) { 2 } else { 1 };
        with_lock!(name, Native, AdaptiveLock<Native>, T => storm::<T>(name, 1));
        with_lock!(name, Native, AdaptiveLock<Native>, T => storm::<T>(name, units));
    }
}

/// Short: an inner ticket lock needs a time slice for each hand-off when its next owner is
/// preempted.
#[test]
fn so_do_those_of_a_kernel() {
    for &name in LockName::ALL {
        with_lock!(name, Native, TicketLock<Native>, T => storm::<T>(name, 1));
    }
}
