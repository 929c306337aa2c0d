//! The platform of an unmodified program: futex calls that do not change `errno`, and nothing that
//! allocates.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use convoy_sync::{
    Atomic, Platform, Sleep, TaskId, Turn, Wake, spin_by_clock, user_space, yield_by_clock,
};

use crate::arch;
use crate::arch::number::{FUTEX, SCHED_GETSCHEDULER, SCHED_YIELD};
use crate::file::map;
use crate::interpose::libc;
use crate::policy::spin::may_spin;
use crate::system::calls::call;
use crate::threads::thread::Thread;

const WAIT_BITSET: usize = 9;
const WAKE: usize = 1;
const ANY: usize = 0xffff_ffff;
/// Flag: the futex is private to this process.
const PRIVATE: usize = 128;
/// Flag: the deadline is on the realtime clock.
const REALTIME: usize = 256;
const FUTEX_ETIMEDOUT: isize = -110;
const FUTEX_EINTR: isize = -4;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const ETIMEDOUT: c_int = 110;
const NS_PER_S: i64 = 1_000_000_000;

/// A point in time: a `struct timespec` of the program, and whether it is on the realtime clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) time: usize,
    pub(crate) is_realtime: bool,
}

impl Deadline {
    /// Returns a deadline on one of the clocks that libc accepts, or libc's error.
    pub(crate) fn on_clock(clock: usize, time: usize) -> Result<Self, c_int> {
        match clock as c_int {
            libc::CLOCK_REALTIME => Ok(Self { time, is_realtime: true }),
            libc::CLOCK_MONOTONIC => Ok(Self { time, is_realtime: false }),
            _ => Err(EINVAL),
        }
    }

    /// Returns seconds and nanoseconds.
    fn parts(self) -> [i64; 2] {
        // SAFETY: the program passes the time at which the wait ends.
        unsafe { *(self.time as *const [i64; 2]) }
    }

    /// Returns whether the time is before the epoch, which the kernel refuses.
    pub(crate) fn is_negative(self) -> bool {
        self.parts()[0] < 0
    }

    /// Returns the error of libc for a wait until an invalid time.
    pub(crate) fn error(self) -> Option<c_int> {
        (!(0..NS_PER_S).contains(&self.parts()[1])).then_some(EINVAL)
    }

    /// Returns the time from now until the deadline, nanoseconds.
    pub(crate) fn left_ns(self) -> u64 {
        let [seconds, ns] = self.parts();
        let clock = if self.is_realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        let end = seconds.saturating_mul(NS_PER_S).saturating_add(ns);
        end.saturating_sub(clock_ns(clock)).max(0) as u64
    }
}

/// Returns the time of a clock, nanoseconds.
fn clock_ns(clock: c_int) -> i64 {
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    }
    let mut time = [0; 2];
    // SAFETY: `time` has the two words of a `struct timespec` of x86-64.
    unsafe { clock_gettime(clock, &raw mut time) };
    time[0].saturating_mul(NS_PER_S).saturating_add(time[1])
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
    if deadline.is_some_and(Deadline::is_negative) {
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
        FUTEX_ETIMEDOUT => Slept::Late,
        FUTEX_EINTR => Slept::Interrupted,
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

/// Calls `block`, in which the thread may be cancelled; `undo` is then called with `argument`.
pub(crate) fn undone_by<T>(
    undo: extern "C" fn(*mut c_void),
    argument: usize,
    block: impl FnOnce() -> T,
) -> T {
    /// glibc's record of a cleanup handler, `struct _pthread_cleanup_buffer`.
    type Buffer = [usize; 4];
    let mut buffer: Buffer = [0; 4];
    let buffer = (&raw mut buffer) as usize;
    libc::CLEANUP_PUSH.call([buffer, undo as *const () as usize, argument, 0]);
    let result = block();
    libc::CLEANUP_POP.call([buffer, 0, 0, 0]);
    result
}

/// Wakes up to `count` threads that sleep on `word`.
pub(crate) fn wake(word: *const AtomicU32, count: usize) {
    // SAFETY: the address is only a key; nothing is read.
    unsafe { arch::call(FUTEX, [word as usize, WAKE | PRIVATE, count, 0, 0, 0]) };
}

/// A word of a lock, which threads wait for.
pub(crate) trait Word: Atomic<u32> + 'static {
    /// Returns the atomic that the kernel compares, and the value in it that stands for `value`.
    fn raw(&self, value: u32) -> (&AtomicU32, u32);

    /// Wakes waiters of locks that a handler released in a critical section of their queue.
    fn wake_postponed() {}
}

impl Word for AtomicU32 {
    fn raw(&self, value: u32) -> (&AtomicU32, u32) {
        (self, value)
    }
}

thread_local! {
    // They have no destructors, and are part of the thread's initial memory.
    static TURN: Cell<Turn> = const { Cell::new(Turn::new(0)) };
    /// Whether the thread is in a critical section of a queue, which a handler may interrupt.
    static IN_QUEUE: Cell<bool> = const { Cell::new(false) };
    /// A handler that interrupted such a critical section released a mutex that may have waiters.
    static POSTPONED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the calling thread has slept at a condition variable, which is not part of its turn.
/// Otherwise it would queue behind all others as if it had run, and a program that depends on its
/// next step would wait for them all: a writer of `LevelDB` leads the others when it is woken.
pub(crate) fn was_away() {
    TURN.set(TURN.get().away());
}

/// Threads of an unmodified program, with locks that consist of such words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads<W = AtomicU32>(PhantomData<W>);

impl<W: Word> Platform for Threads<W> {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = W;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        clock_ns(libc::CLOCK_MONOTONIC) as u64
    }

    #[inline(always)]
    fn spin_hint() {
        core::hint::spin_loop();
    }

    fn spin_until(word: &W, done: impl Fn(u32) -> bool) -> u32 {
        loop {
            // Acquire: pairs with the release of the thread that made `done` true.
            let value = word.load(Ordering::Acquire);
            if done(value) {
                return value;
            }
            Self::spin_hint();
        }
    }

    fn spin_for(word: &W, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        /// Loads of the word between two readings of the clock, which costs as much as ten of them.
        const LOOKS_PER_CLOCK: u32 = 32;
        if !may_spin() {
            // Relaxed: the caller provides the ordering.
            return word.load(Ordering::Relaxed);
        }
        spin_by_clock::<Self>(LOOKS_PER_CLOCK, word, until, done)
    }

    fn give_way(word: &W, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        yield_by_clock::<Self>(word, until, done, || {
            call(SCHED_YIELD, [0; 6]);
        })
    }

    fn turn() -> Turn {
        TURN.get()
    }

    fn set_turn(turn: Turn) {
        TURN.set(turn);
    }

    /// After the process has limited its system calls, no thread counts as one.
    fn is_real_time() -> bool {
        /// FIFO, round robin and deadline.
        const REAL_TIME: [isize; 3] = [1, 2, 6];
        REAL_TIME.contains(&call(SCHED_GETSCHEDULER, [0; 6]))
    }

    /// A handler may run in the critical section: it sees the mark, and does not access queues.
    /// Blocking signals would take two system calls for each critical section.
    fn keep_signals() -> u64 {
        IN_QUEUE.set(true);
        // The mark is set before anything in the critical section is done.
        compiler_fence(Ordering::SeqCst);
        0
    }

    fn admit_signals(_: u64) {
        compiler_fence(Ordering::SeqCst);
        // The mark is cleared after the critical section, and before `POSTPONED` is read: a handler
        // that runs in between does its wakeup itself. A handler runs on this thread, so the order
        // of the program suffices.
        IN_QUEUE.set(false);
        compiler_fence(Ordering::SeqCst);
        if POSTPONED.take() {
            W::wake_postponed();
        }
    }

    fn interrupts_queue() -> bool {
        IN_QUEUE.get()
    }

    fn postpone_wakeup() {
        POSTPONED.set(true);
    }

    fn wait(word: &W, expected: u32, _: Sleep, deadline: Option<u64>) -> Wake {
        // The kernel refuses a negative time, and there would be no wait.
        let time = deadline.map(|ns| ns.min(i64::MAX as u64) as i64);
        let time = time.map(|ns| [ns / NS_PER_S, ns % NS_PER_S]);
        let deadline = time
            .as_ref()
            .map(|time| Deadline { time: core::ptr::from_ref(time) as usize, is_realtime: false });
        let (word, expected) = word.raw(expected);
        match sleep(word, expected, deadline) {
            Slept::Late => Wake::TimedOut,
            Slept::Woken | Slept::Interrupted => Wake::Woken,
        }
    }

    fn wake(word: *const W, count: usize) {
        wake(word.cast(), count.min(i32::MAX as usize));
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
