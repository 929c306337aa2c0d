//! Locks of `convoy-sync` without the standard library and without an allocator. A machine of one's
//! own is an implementation of [`Platform`]; every lock of the crate runs on it.

#![no_std]

use convoy_sync::{
    Platform, Quota, RawLock as _, RawSemaphore as _, Sleep, TaskId, TicketLock,
    Wake, user_space,
};
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// A machine of one CPU whose tasks do not sleep but look again, and whose clock counts looks.
struct Bare;

/// An object that is where it was made.
struct Here<T>(T);

impl<T> Deref for Here<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl Platform for Bare {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = AtomicU32;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Here<T>;

    fn now() -> u64 {
        static CLOCK: AtomicU64 = AtomicU64::new(0);
        CLOCK.fetch_add(1, Relaxed)
    }
    fn spin_hint() {
        core::hint::spin_loop();
    }
    fn spin_until(word: &AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        loop {
            let value = word.load(Acquire);
            if done(value) {
                return value;
            }
            Self::spin_hint();
        }
    }
    fn wait(word: &AtomicU32, expected: u32, _: Sleep, deadline: Option<u64>) -> Wake {
        while word.load(Relaxed) == expected {
            if deadline.is_some_and(|deadline| Self::now() >= deadline) {
                return Wake::TimedOut;
            }
            Self::spin_hint();
        }
        Wake::Woken
    }
    fn wake(_: *const AtomicU32, _: usize) {}
    fn signal_pending(_: Sleep) -> bool {
        false
    }
    fn current() -> TaskId {
        0
    }
    fn cpu() -> u32 {
        0
    }
    fn place<T>(value: T) -> Here<T> {
        Here(value)
    }

    user_space!(unobserved);
}

static SPIN: TicketLock<Bare> = TicketLock::new();
static SLEEP: Quota<Bare> = Quota::new(1);

/// Takes each lock and gives it back; 0 if all did as they should.
#[unsafe(no_mangle)]
pub extern "C" fn sections() -> i32 {
    SPIN.lock();
    let spins = !SPIN.try_lock();
    SPIN.unlock();
    SLEEP.down();
    let late = SLEEP.down_timeout(1000).is_err();
    SLEEP.up();
    let free = SLEEP.down_trylock();
    SLEEP.up();
    i32::from(!(spins && late && free))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        Bare::spin_hint();
    }
}
