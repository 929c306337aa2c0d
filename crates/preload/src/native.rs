//! The platform of a program that does not know of us: futex calls that leave `errno` alone, and
//! nothing that allocates.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::arch;
use convoy_sync::{Platform, Sleep, TaskId, Wake, user_space};

const FUTEX: usize = 202;
const WAIT_BITSET: usize = 9;
const WAKE: usize = 1;
const ANY: usize = 0xffff_ffff;
/// The futex is one of this process only.
const PRIVATE: usize = 128;
/// The deadline is one of the clock that people set.
const REALTIME: usize = 256;
const ETIMEDOUT: isize = -110;

/// A point in time: a `struct timespec` of the program, and whether people set its clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) time: usize,
    pub(crate) is_realtime: bool,
}

/// Sleeps while `word` has the value; whether the deadline has passed.
pub(crate) fn sleep(word: &AtomicU32, value: u32, deadline: Option<Deadline>) -> bool {
    let clock = deadline.map_or(0, |end| if end.is_realtime { REALTIME } else { 0 });
    let time = deadline.map_or(0, |end| end.time);
    let operation = WAIT_BITSET | PRIVATE | clock;
    let place = word.as_ptr() as usize;
    // SAFETY: the kernel reads the word and, if there is one, the program's time.
    unsafe { arch::call(FUTEX, [place, operation, value as usize, time, 0, ANY]) == ETIMEDOUT }
}

/// Wakes so many that sleep on `word`.
pub(crate) fn wake(word: *const AtomicU32, count: usize) {
    // SAFETY: the address is a key; nothing is read.
    unsafe { arch::call(FUTEX, [word as usize, WAKE | PRIVATE, count, 0, 0, 0]) };
}

/// Threads of an unmodified program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

impl Platform for Native {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = AtomicU32;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        0
    }

    #[inline(always)]
    fn spin_hint() {
        core::hint::spin_loop();
    }

    fn spin_until(word: &AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        loop {
            // Acquire: pairs with the release of whoever made `done` true.
            let value = word.load(Ordering::Acquire);
            if done(value) {
                return value;
            }
            Self::spin_hint();
        }
    }

    fn wait(word: &AtomicU32, expected: u32, _: Sleep, _: Option<u64>) -> Wake {
        sleep(word, expected, None);
        Wake::Woken
    }

    fn wake(word: *const AtomicU32, count: usize) {
        wake(word, count.min(i32::MAX as usize));
    }

    fn signal_pending(_: Sleep) -> bool {
        false
    }

    fn current() -> TaskId {
        0
    }

    fn cpu() -> u32 {
        0
    }

    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    user_space!(unobserved);
}
