//! What every semaphore does when one thread uses it, and with two threads.

use convoy_sync::{
    AdaptiveLock, ArchSemaphore, Beside, Handoff, Native, NativeQuota, NativeSemaphore,
    PublishedFix, Quota, RawSemaphore, Signals, WaitError, Within, kernel::Semaphore,
};
use convoy_watchdog as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// Long enough for a thread to fall asleep, in nanoseconds; nothing asserts that it passes.
const SHORT: u64 = 1_000_000;

fn alone<S: RawSemaphore>() {
    let semaphore = S::with_count(2);
    semaphore.down();
    assert!(semaphore.down_trylock());
    assert!(!semaphore.down_trylock());
    assert_eq!(semaphore.free_units(), 0);
    assert_eq!(semaphore.down_timeout(SHORT), Err(WaitError::TimedOut));
    assert_eq!(semaphore.down_timeout(0), Err(WaitError::TimedOut));
    assert_eq!(semaphore.waiters(), 0);
    semaphore.up();
    assert_eq!(semaphore.down_interruptible(), Ok(()));
    semaphore.up();
    assert_eq!(semaphore.down_killable(), Ok(()));
    semaphore.up();
    semaphore.up();
    semaphore.up();
    assert_eq!(semaphore.free_units(), 3);
}

fn interrupted<S: RawSemaphore + Sync>() {
    let semaphore = S::with_count(0);
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let semaphore = &semaphore;
        let waiter = scope.spawn(move || {
            send.send(Signals::of_this_thread()).unwrap();
            (semaphore.down_interruptible(), semaphore.down_killable())
        });
        let signals = receive.recv().unwrap();
        signals.interrupt();
        signals.kill();
        let interrupted = Err(WaitError::Interrupted);
        assert_eq!(waiter.join().unwrap(), (interrupted, interrupted));
    });
    assert_eq!((semaphore.waiters(), semaphore.free_units()), (0, 0));
}

/// Rounds of each thread; Miri interprets them, a thousand times as slow.
const ROUNDS: u32 = if cfg!(miri) { 10 } else { 200 };

fn exclusive<S: RawSemaphore + Sync>() {
    let semaphore = S::with_count(1);
    let (inside, total) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    semaphore.down();
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    total.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                    semaphore.up();
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 4 * ROUNDS);
    assert_eq!((semaphore.waiters(), semaphore.free_units()), (0, 1));
}

macro_rules! every_semaphore {
    ($($name:ident: $semaphore:ty),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn counts_alone() {
                alone::<$semaphore>();
            }

            #[test]
            fn is_interrupted() {
                interrupted::<$semaphore>();
            }

            #[test]
            fn excludes() {
                exclusive::<$semaphore>();
            }
        })+
    };
}

every_semaphore! {
    handoff: NativeSemaphore<Handoff>,
    published_fix: NativeSemaphore<PublishedFix>,
    opportunistic: NativeSemaphore,
    arch: ArchSemaphore<Native, AdaptiveLock<Native>>,
    opportunistic_on_a_ticket_lock: Semaphore<Native>,
    quota: NativeQuota,
    quota_of_one_summons: Quota<Native, Beside, 1>,
    quota_with_its_queue_inside: Quota<Native, Within<Native, AdaptiveLock<Native>>>,
}
