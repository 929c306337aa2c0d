//! Condition variables in the memory of libc's, for mutexes whose values differ from glibc's. The
//! first word is a sequence number that each signal changes, the second the number of waiters.
//! glibc's word of flags says whether processes share the condition variable and which clock it
//! uses; it is not changed.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::interpose::libc::{self, Real, four, one, three, two};
use crate::policy::mutex::{c11, words};
use crate::policy::platform::{self, Deadline, ETIMEDOUT, Slept, was_away};

// Offsets in a `pthread_cond_t`, in words of 32 bits.
const SEQUENCE: usize = 0;
const WAITERS: usize = 1;
const FLAGS: usize = 9;
/// Set in the word of waiters: the condition variable is being destroyed.
const ENDS: u32 = 1 << 31;
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

extern "C" fn cond_wait(condition: usize, mutex: usize) -> c_int {
    wait_for(condition, mutex, None)
}

extern "C" fn cond_timedwait(condition: usize, mutex: usize, time: usize) -> c_int {
    // Relaxed: libc sets the flags when it initialises the condition variable.
    let is_realtime = words(condition)[FLAGS].load(Relaxed) & MONOTONIC == 0;
    wait_for(condition, mutex, Some(Deadline { time, is_realtime }))
}

extern "C" fn cond_clockwait(condition: usize, mutex: usize, clock: usize, time: usize) -> c_int {
    match Deadline::on_clock(clock, time) {
        Ok(end) => wait_for(condition, mutex, Some(end)),
        Err(error) => error,
    }
}

fn wait_for(condition: usize, mutex: usize, deadline: Option<Deadline>) -> c_int {
    let words = words(condition);
    // Relaxed: as above.
    if words[FLAGS].load(Relaxed) & SHARED != 0 {
        return match deadline {
            None => libc::COND_WAIT.libc([condition, mutex, 0, 0]),
            Some(end) => libc::COND_TIMEDWAIT.libc([condition, mutex, end.time, 0]),
        };
    }
    if let Some(error) = deadline.and_then(Deadline::error) {
        return error;
    }
    // SeqCst, both: a signal that sees no waiters has changed the number before it is read here. It
    // is read under the mutex: a signal after its release changes it, and the sleep does not begin.
    words[WAITERS].fetch_add(1, SeqCst);
    let sequence = words[SEQUENCE].load(SeqCst);
    // A thread that does not own an error-checking mutex must not wait.
    let refused = libc::MUTEX_UNLOCK.call([mutex, 0, 0, 0]);
    if refused != 0 {
        leave(&words[WAITERS]);
        return refused;
    }
    let waiter = Waiter { mutex, waiters: &words[WAITERS] };
    let slept = cancellable(&waiter, || {
        loop {
            let slept = platform::sleep(&words[SEQUENCE], sequence, deadline);
            // As in libc, a signal handler does not end the wait.
            if slept != Slept::Interrupted {
                return slept;
            }
        }
    });
    leave(&words[WAITERS]);
    was_away();
    // The owner of a robust mutex may have died during the wait.
    match libc::MUTEX_LOCK.call([mutex, 0, 0, 0]) {
        0 if slept == Slept::Late => ETIMEDOUT,
        result => result,
    }
}

struct Waiter<'a> {
    mutex: usize,
    waiters: &'a AtomicU32,
}

/// Called when the thread no longer accesses the condition variable, apart from the count.
fn leave(waiters: &AtomicU32) {
    // Release: pairs with the acquires of `cond_destroy`. The last thread that leaves wakes it.
    if waiters.fetch_sub(1, Release) == ENDS | 1 {
        platform::wake(waiters, 1);
    }
}

/// Sleeps with cancellation enabled. A cancelled thread acquires the mutex first, as its cleanup
/// handlers expect.
fn cancellable(waiter: &Waiter<'_>, sleep: impl Fn() -> Slept) -> Slept {
    extern "C" fn relock(waiter: *mut c_void) {
        // SAFETY: the waiter of the frame below, which stays until the handlers have run.
        let waiter = unsafe { &*waiter.cast::<Waiter<'_>>() };
        leave(waiter.waiters);
        was_away();
        libc::MUTEX_LOCK.call([waiter.mutex, 0, 0, 0]);
    }
    platform::cancellable(relock, core::ptr::from_ref(waiter) as usize, sleep)
}

extern "C" fn cond_signal(condition: usize) -> c_int {
    notify(condition, 1, &libc::COND_SIGNAL)
}

extern "C" fn cond_broadcast(condition: usize) -> c_int {
    notify(condition, i32::MAX as usize, &libc::COND_BROADCAST)
}

fn notify(condition: usize, count: usize, libc: &Real) -> c_int {
    let words = words(condition);
    // Relaxed: as above.
    if words[FLAGS].load(Relaxed) & SHARED != 0 {
        return libc.libc([condition, 0, 0, 0]);
    }
    // SeqCst, both: see above.
    words[SEQUENCE].fetch_add(1, SeqCst);
    if words[WAITERS].load(SeqCst) != 0 {
        platform::wake(&raw const words[SEQUENCE], count);
    }
    0
}

/// A woken thread may still be about to sleep, and must not do so on reused memory.
extern "C" fn cond_destroy(condition: usize) -> c_int {
    let words = words(condition);
    if words[FLAGS].load(Relaxed) & SHARED == 0 {
        let waiters = &words[WAITERS];
        // Acquire, both: pairs with the release of the last thread that leaves.
        let mut left = waiters.fetch_or(ENDS, Acquire) | ENDS;
        while left != ENDS {
            platform::sleep(waiters, left, None);
            left = waiters.load(Acquire);
        }
    }
    libc::COND_DESTROY.libc([condition, 0, 0, 0])
}

extern "C" fn cnd_timedwait(condition: usize, mutex: usize, time: usize) -> c_int {
    c11(cond_timedwait(condition, mutex, time))
}

/// Replaces libc's condition variables.
pub(crate) fn install() {
    for name in [&libc::COND_WAIT, &libc::CND_WAIT] {
        name.replace(two(cond_wait));
    }
    for name in [&libc::COND_SIGNAL, &libc::CND_SIGNAL] {
        name.replace(one(cond_signal));
    }
    for name in [&libc::COND_BROADCAST, &libc::CND_BROADCAST] {
        name.replace(one(cond_broadcast));
    }
    libc::COND_DESTROY.replace(one(cond_destroy));
    libc::COND_TIMEDWAIT.replace(three(cond_timedwait));
    libc::CND_TIMEDWAIT.replace(three(cnd_timedwait));
    libc::COND_CLOCKWAIT.replace(four(cond_clockwait));
}
