//! `Native`: the machine this program runs on, threads and futexes.
//!
//! Words are the atomics of [`core`], so a lock compiles to the code of a hand-written one. User
//! space has no interrupts and cannot disable preemption: those functions do nothing.
//!
//! # Signals
//!
//! A thread with interruptible waits creates its [`Signals`] once and passes the handle to others;
//! [`Signals::interrupt`] and [`Signals::kill`] then act as signals: they stay pending until the
//! thread calls [`Signals::clear`], and end every wait that admits them. Threads that never asked
//! pay one thread-local load for each interruptible wait.

use crate::platform::{Atomic, Platform, Sleep, TaskId, Wake, yield_by_clock};
use crate::quota::Turn;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{self, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};

/// Reads of a word before a spinning thread yields its time slice: 10 to 40 µs of `pause`,
/// depending on the processor. Spinning longer than a context switch costs only delays the thread
/// spun for when it is not running; `docs` of user-space locks put the bound between 10 and 100 µs.
pub const LOOKS_BEFORE_YIELD: u32 = 1000;

const PENDING_INTERRUPT: u32 = 1;
const PENDING_KILL: u32 = 2;

/// The machine this program runs on. See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct Native;

/// The pending signals of one thread, see the module documentation.
#[derive(Debug)]
pub struct Signals {
    pending: AtomicU32,
    /// Begins and ends of the waits that a signal may end: odd during one. Shows the sender of a
    /// signal that the interrupted wait is over, even if the next one is for the same word.
    waits: AtomicU32,
    /// The word of the last such wait; only its address is used, never its content.
    asleep_on: AtomicPtr<AtomicU32>,
}

thread_local! {
    // Constant initialisers and no destructors: neither allocates nor registers anything, so locks
    // may be used at any time in the life of a thread.
    static TASK: Cell<TaskId> = const { Cell::new(0) };
    static TURN: Cell<Turn> = const { Cell::new(Turn::new(0)) };
    static SIGNALS: Cell<Option<&'static Signals>> = const { Cell::new(None) };
}

impl Signals {
    /// Returns the signals of the calling thread. The record lives as long as the program (16 bytes
    /// for each thread that ever called this), so the handle can be shared freely.
    pub fn of_this_thread() -> &'static Self {
        SIGNALS.with(|slot| {
            slot.get().unwrap_or_else(|| {
                let signals: &'static Self = Box::leak(Box::new(Self {
                    pending: AtomicU32::new(0),
                    waits: AtomicU32::new(0),
                    asleep_on: AtomicPtr::new(null_mut()),
                }));
                slot.set(Some(signals));
                signals
            })
        })
    }

    /// Makes a signal pending: ends interruptible waits of the thread.
    pub fn interrupt(&self) {
        self.raise(PENDING_INTERRUPT);
    }

    /// Makes a fatal signal pending: ends interruptible and killable waits of the thread.
    pub fn kill(&self) {
        self.raise(PENDING_KILL);
    }

    /// Handles all pending signals.
    pub fn clear(&self) {
        // Relaxed: the owner of the signals reads them back itself.
        self.pending.store(0, Relaxed);
    }

    fn raise(&self, signal: u32) {
        // SeqCst pairs with `begin_wait`: either we see the wait that the sleeper has begun, or the
        // sleeper sees the pending bit after it began.
        self.pending.fetch_or(signal, SeqCst);
        let wait = self.waits.load(SeqCst);
        if wait.is_multiple_of(2) {
            return;
        }
        // The sleeper may have read `pending` already and not yet be in the system call, so that
        // the wakeup would miss it: repeat until it has left this wait. A wait that the signal does
        // not admit is woken spuriously, once, and the next wait must not be ended here. SeqCst, as
        // above.
        while self.waits.load(SeqCst) == wait {
            // Relaxed: the word of a later wait would only be woken without reason.
            futex_wake(self.asleep_on.load(Relaxed), usize::MAX, PRIVATE);
            yield_now();
        }
    }

    fn begin_wait(&self, word: &AtomicU32) {
        // Relaxed: `waits` publishes it.
        self.asleep_on.store(core::ptr::from_ref(word).cast_mut(), Relaxed);
        // SeqCst pairs with `raise`: publish first, read `pending` second.
        self.waits.fetch_add(1, SeqCst);
    }

    fn end_wait(&self) {
        // Release pairs with the loads in `raise`, which stops waking when it sees this.
        self.waits.fetch_add(1, Release);
    }

    fn is_pending(&self, sleep: Sleep) -> bool {
        // SeqCst pairs with `raise`.
        let pending = self.pending.load(SeqCst);
        match sleep {
            Sleep::Uninterruptible => false,
            Sleep::Interruptible => pending != 0,
            Sleep::Killable => pending & PENDING_KILL != 0,
        }
    }
}

fn yield_now() {
    // SAFETY: the call has no arguments and no effect on memory.
    unsafe { libc::sched_yield() };
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// [`Platform::spin_until`] of user space, which can be preempted: yields the time slice with
/// `yield_now` from time to time, because the awaited thread may wait for this CPU.
#[inline]
pub fn spin_and_yield<P: Platform>(
    word: &P::AtomicU32,
    done: impl Fn(u32) -> bool,
    yield_now: impl Fn(),
) -> u32 {
    let mut looks = 0;
    loop {
        // Acquire pairs with the release store that made `done` true.
        let value = word.load(Ordering::Acquire);
        if done(value) {
            return value;
        }
        looks += 1;
        if looks % LOOKS_BEFORE_YIELD == 0 {
            yield_now();
        } else {
            P::spin_hint();
        }
    }
}

/// Flag of a futex call for a word that is private to the process.
const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;

/// Returns whether the wait ended because `deadline` passed; `reach` is [`PRIVATE`], or 0 for words
/// that processes share.
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<u64>,
    reach: i32,
) -> bool {
    let until = deadline.map(timespec);
    let until = until.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // The bit-set form takes an absolute time on the monotonic clock, so a wait that is repeated
    // after a spurious return does not become longer.
    let operation = libc::FUTEX_WAIT_BITSET | reach;
    // SAFETY: `word` and `until` are valid for the call, which reads both and writes neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            expected,
            until,
            core::ptr::null::<u32>(),
            // The kernel reads an unsigned word there; the constant of libc is a signed one.
            libc::FUTEX_BITSET_MATCH_ANY as u32,
        )
    };
    result == -1 && errno() == libc::ETIMEDOUT
}

fn errno() -> i32 {
    // SAFETY: the function returns the address of this thread's own variable, always valid.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as above, and no other thread writes this thread's variable.
    unsafe { *location }
}

/// Wakes up to `count` tasks; `reach` as of [`futex_wait`].
pub(crate) fn futex_wake(word: *const AtomicU32, count: usize, reach: i32) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let operation = libc::FUTEX_WAKE | reach;
    // SAFETY: waking uses the address as a key and never reads the memory there.
    unsafe { libc::syscall(libc::SYS_futex, word.cast_mut().cast::<u32>(), operation, count) };
}

impl Platform for Native {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = AtomicU32;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        let mut time = timespec(0);
        // SAFETY: `time` is valid for the write of one `timespec`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline(always)]
    fn spin_hint() {
        core::hint::spin_loop();
    }

    #[inline]
    fn spin_until(word: &AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        spin_and_yield::<Self>(word, done, yield_now)
    }

    fn give_way(word: &AtomicU32, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        yield_by_clock::<Self>(word, until, done, yield_now)
    }

    #[inline]
    fn turn() -> Turn {
        TURN.get()
    }

    #[inline]
    fn set_turn(turn: Turn) {
        TURN.set(turn);
    }

    fn is_real_time() -> bool {
        // Miri knows of no scheduler.
        if cfg!(miri) {
            return false;
        }
        // SAFETY: the call has no effect on memory. 0 is the calling thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)
    }

    fn wait(word: &AtomicU32, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake {
        let signals = match sleep {
            Sleep::Uninterruptible => None,
            Sleep::Interruptible | Sleep::Killable => SIGNALS.get(),
        };
        let Some(signals) = signals else {
            let late = futex_wait(word, expected, deadline, PRIVATE);
            return if late { Wake::TimedOut } else { Wake::Woken };
        };
        signals.begin_wait(word);
        let late = !signals.is_pending(sleep) && futex_wait(word, expected, deadline, PRIVATE);
        signals.end_wait();
        if signals.is_pending(sleep) {
            Wake::Interrupted
        } else if late {
            Wake::TimedOut
        } else {
            Wake::Woken
        }
    }

    fn wake(word: *const AtomicU32, count: usize) {
        futex_wake(word, count, PRIVATE);
    }

    fn signal_pending(sleep: Sleep) -> bool {
        sleep != Sleep::Uninterruptible
            && SIGNALS.get().is_some_and(|signals| signals.is_pending(sleep))
    }

    fn current() -> TaskId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let task = TASK.get();
        if task != 0 {
            return task;
        }
        // Relaxed: only uniqueness matters.
        let task = NEXT.fetch_add(1, Relaxed);
        TASK.set(task);
        task
    }

    fn cpu() -> u32 {
        // Miri interprets one thread at a time, and knows of no CPU.
        if cfg!(miri) {
            return 0;
        }
        // SAFETY: the call has no arguments and no effect on memory.
        let cpu = unsafe { libc::sched_getcpu() };
        u32::try_from(cpu).unwrap_or(0)
    }

    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    crate::user_space!(unobserved);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_without_reason() {
        let word = AtomicU32::new(7);
        let deadline = Native::now() + 2_000_000;
        let mut wake = Wake::Woken;
        while wake == Wake::Woken {
            wake = Native::wait(&word, 7, Sleep::Uninterruptible, Some(deadline));
        }
        assert_eq!(wake, Wake::TimedOut);
        assert!(Native::now() >= deadline);
        assert_eq!(Native::wait(&word, 8, Sleep::Uninterruptible, None), Wake::Woken);
    }

    #[test]
    fn an_interrupt_does_not_end_a_killable_wait() {
        Signals::of_this_thread().interrupt();
        let (word, soon) = (AtomicU32::new(0), || Some(Native::now() + 1_000_000));
        assert_eq!(Native::wait(&word, 0, Sleep::Killable, soon()), Wake::TimedOut);
        assert!(!Native::signal_pending(Sleep::Killable));
        Signals::of_this_thread().kill();
        assert_eq!(Native::wait(&word, 0, Sleep::Killable, soon()), Wake::Interrupted);
        Signals::of_this_thread().clear();
    }

    #[test]
    fn signals_end_the_waits_that_admit_them() {
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let signals = Signals::of_this_thread();
            send.send(signals).unwrap();
            let word = AtomicU32::new(0);
            while Native::wait(&word, 0, Sleep::Interruptible, None) != Wake::Interrupted {}
            assert!(Native::signal_pending(Sleep::Interruptible));
            assert!(!Native::signal_pending(Sleep::Uninterruptible));
            while Native::wait(&word, 0, Sleep::Killable, None) != Wake::Interrupted {}
            signals.clear();
            assert!(!Native::signal_pending(Sleep::Interruptible));
        });
        let signals = receive.recv().unwrap();
        signals.interrupt();
        signals.kill();
        thread.join().unwrap();
    }

    /// To the sender of an interrupt, a killable wait that is repeated while an interrupt is
    /// pending looks like the same wait forever, except for its number.
    #[test]
    fn an_interrupt_returns_though_killable_waits_go_on() {
        const TOO_MANY: u32 = 1000;
        for _ in 0..20 {
            let (send, receive) = mpsc::channel();
            let thread = std::thread::spawn(move || {
                send.send(Signals::of_this_thread()).unwrap();
                let word = AtomicU32::new(0);
                let mut waits = 1;
                while Native::wait(&word, 0, Sleep::Killable, None) != Wake::Interrupted
                    && waits < TOO_MANY
                {
                    waits += 1;
                }
                waits
            });
            let signals = receive.recv().unwrap();
            while signals.waits.load(SeqCst) == 0 {
                yield_now();
            }
            signals.interrupt();
            signals.kill();
            assert!(thread.join().unwrap() < TOO_MANY);
        }
    }

    #[test]
    fn a_signal_that_came_before_the_wait_ends_it() {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            Signals::of_this_thread().interrupt();
            let word = AtomicU32::new(0);
            send.send(Native::wait(&word, 0, Sleep::Interruptible, None)).unwrap();
        });
        let ended = receive.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(ended, Ok(Wake::Interrupted), "or it sleeps for good");
    }

    #[test]
    fn tasks_have_names_of_their_own() {
        let mine = Native::current();
        assert_eq!(mine, Native::current());
        let other = std::thread::spawn(Native::current).join().unwrap();
        assert_ne!(mine, other);
    }
}
