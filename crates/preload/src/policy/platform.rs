//! The platform of an unmodified program: futex calls that do not change `errno`, and nothing that
//! allocates.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::arch;
pub(crate) use crate::arch::number::FUTEX;
use crate::file::map;
use crate::interpose::libc;
use crate::threads::thread::Thread;
use convoy_sync::{Platform, Sleep, TaskId, Wake, user_space};

const WAIT_BITSET: usize = 9;
const WAKE: usize = 1;
const ANY: usize = 0xffff_ffff;
/// Flag: the futex is private to this process.
const PRIVATE: usize = 128;
/// Flag: the deadline is on the realtime clock.
const REALTIME: usize = 256;
const ETIMEDOUT: isize = -110;
const EINTR: isize = -4;
const EINVAL: c_int = 22;
const NS_PER_S: i64 = 1_000_000_000;
const CLOCK_REALTIME: c_int = 0;
const CLOCK_MONOTONIC: c_int = 1;

/// A point in time: a `struct timespec` of the program, and whether it is on the realtime clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) time: usize,
    pub(crate) is_realtime: bool,
}

impl Deadline {
    /// Returns a deadline on one of the two clocks that libc accepts, or libc's error.
    pub(crate) fn by(clock: usize, time: usize) -> Result<Self, c_int> {
        match clock as c_int {
            CLOCK_REALTIME => Ok(Self { time, is_realtime: true }),
            CLOCK_MONOTONIC => Ok(Self { time, is_realtime: false }),
            _ => Err(EINVAL),
        }
    }

    /// Returns seconds and nanoseconds.
    fn parts(self) -> [i64; 2] {
        // SAFETY: the program passes the time at which the wait ends.
        unsafe { *(self.time as *const [i64; 2]) }
    }

    /// Returns the error of libc for a wait until an invalid time.
    pub(crate) fn error(self) -> Option<c_int> {
        (!(0..NS_PER_S).contains(&self.parts()[1])).then_some(EINVAL)
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// The word has another value, or another thread woke this one.
    Woken,
    /// A handler has run.
    Interrupted,
    /// The deadline has passed.
    Late,
}

/// Sleeps while `word` has the value, until the deadline or a wakeup.
pub(crate) fn sleep(word: &AtomicU32, value: u32, deadline: Option<Deadline>) -> Slept {
    if deadline.is_some_and(|end| end.parts()[0] < 0) {
        // The kernel refuses a negative time.
        return Slept::Late;
    }
    let clock = deadline.map_or(0, |end| if end.is_realtime { REALTIME } else { 0 });
    let time = deadline.map_or(0, |end| end.time);
    let operation = WAIT_BITSET | PRIVATE | clock;
    let place = word.as_ptr() as usize;
    // SAFETY: the kernel reads the word and, if there is one, the program's time.
    let result = unsafe { arch::call(FUTEX, [place, operation, value as usize, time, 0, ANY]) };
    // Where many threads take turns, the stack of a thread that resumes is in no cache.
    let here = (&raw const result) as usize;
    arch::fetch([64, 128, 192, 256, 320, 384].map(|above| here + above));
    if map::file().is_some() {
        Thread::wakes();
        arch::fetch([448, 512, 576].map(|above| here + above));
    }
    match result {
        ETIMEDOUT => Slept::Late,
        EINTR => Slept::Interrupted,
        _ => Slept::Woken,
    }
}

/// Sleeps with cancellation enabled. If the thread is cancelled, `undo` is called first, with
/// `argument`.
pub(crate) fn cancellable(
    undo: extern "C" fn(*mut c_void),
    argument: usize,
    sleep: impl Fn() -> Slept,
) -> Slept {
    const ASYNCHRONOUS: usize = 1;
    undone_by(undo, argument, || {
        let mut before: c_int = 0;
        libc::SETCANCELTYPE.call([ASYNCHRONOUS, (&raw mut before) as usize, 0, 0]);
        let slept = sleep();
        libc::SETCANCELTYPE.call([before as usize, 0, 0, 0]);
        slept
    })
}

/// Calls `what`, in which the thread may be cancelled; `undo` is then called with `argument`.
pub(crate) fn undone_by<T>(
    undo: extern "C" fn(*mut c_void),
    argument: usize,
    what: impl FnOnce() -> T,
) -> T {
    /// glibc's record of a cleanup handler, `struct _pthread_cleanup_buffer`.
    type Buffer = [usize; 4];
    let mut buffer: Buffer = [0; 4];
    let buffer = (&raw mut buffer) as usize;
    libc::CLEANUP_PUSH.call([buffer, undo as *const () as usize, argument, 0]);
    let result = what();
    libc::CLEANUP_POP.call([buffer, 0, 0, 0]);
    result
}

/// Wakes up to `count` threads that sleep on `word`.
pub(crate) fn wake(word: *const AtomicU32, count: usize) {
    // SAFETY: the address is only a key; nothing is read.
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
            // Acquire: pairs with the release of the thread that made `done` true.
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
