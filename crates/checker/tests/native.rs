//! The native semaphores under threads whose waits are cancelled and time out.

use convoy_sync::{
    AdaptiveLock, ArchSemaphore, Handoff, Native, NativeSemaphore, RawSemaphore, Signals, WaitError,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

const THREADS: u32 = 8;
const ROUNDS: u32 = 2000;

/// Threads take a unit in every way there is while another thread sends signals; in the end every
/// unit is back and nobody waits. That the test ends shows that nobody was forgotten.
fn storm<S: RawSemaphore + Sync>(units: u32) {
    let semaphore = S::with_count(units);
    let (inside, done) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel::<&'static Signals>();
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (send, semaphore, inside) = (send.clone(), &semaphore, &inside);
                scope.spawn(move || {
                    send.send(Signals::of_this_thread()).unwrap();
                    let taken = (0..ROUNDS).filter(|round| attempt(semaphore, thread + round));
                    taken.map(|_| visit(semaphore, inside, units)).count()
                })
            })
            .collect();
        let done = &done;
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
        assert!(visits > 0);
    });
    assert_eq!((semaphore.free_units(), semaphore.waiters()), (units, 0));
}

fn attempt(semaphore: &impl RawSemaphore, round: u32) -> bool {
    let result = match round % 5 {
        0 => semaphore.down_interruptible(),
        1 => semaphore.down_killable(),
        2 => semaphore.down_timeout(u64::from(round % 7) * 10_000),
        3 => return semaphore.down_trylock(),
        _ => {
            semaphore.down();
            Ok(())
        }
    };
    if result == Err(WaitError::Interrupted) {
        Signals::of_this_thread().clear();
    }
    result.is_ok()
}

fn visit(semaphore: &impl RawSemaphore, inside: &AtomicU32, units: u32) {
    assert!(inside.fetch_add(1, Ordering::Relaxed) < units);
    // Give up the CPU inside, so that the others have something to wait for.
    std::thread::yield_now();
    inside.fetch_sub(1, Ordering::Relaxed);
    semaphore.up();
}

#[test]
fn opportunistic_survives_cancellation() {
    storm::<NativeSemaphore>(1);
    storm::<NativeSemaphore>(2);
}

#[test]
fn handoff_survives_cancellation() {
    storm::<NativeSemaphore<Handoff>>(1);
    storm::<NativeSemaphore<Handoff>>(2);
}

#[test]
fn arch_survives_cancellation() {
    storm::<ArchSemaphore<Native, AdaptiveLock<Native>>>(1);
    storm::<ArchSemaphore<Native, AdaptiveLock<Native>>>(2);
}
