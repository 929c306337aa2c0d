//! Condition variables in the memory of libc's, for mutexes that have not glibc's values: a number
//! that each signal changes, in the first word. glibc's word of flags says whether processes share
//! it and which clock it goes by; it stays as it is.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::native::{self, Deadline};
use crate::own::{CLOCK_REALTIME, ETIMEDOUT, c11, words};
use crate::real::{self, Real, four, one, three, two};

// Places in a `pthread_cond_t`, in words of 32 bits.
const SEQUENCE: usize = 0;
const FLAGS: usize = 9;
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

extern "C" fn cond_wait(condition: usize, mutex: usize) -> c_int {
    wait_for(condition, mutex, None)
}

extern "C" fn cond_timedwait(condition: usize, mutex: usize, time: usize) -> c_int {
    let is_realtime = words(condition)[FLAGS].load(Relaxed) & MONOTONIC == 0;
    wait_for(condition, mutex, Some(Deadline { time, is_realtime }))
}

extern "C" fn cond_clockwait(condition: usize, mutex: usize, clock: usize, time: usize) -> c_int {
    let is_realtime = clock as u32 as usize == CLOCK_REALTIME;
    wait_for(condition, mutex, Some(Deadline { time, is_realtime }))
}

fn wait_for(condition: usize, mutex: usize, deadline: Option<Deadline>) -> c_int {
    let words = words(condition);
    if words[FLAGS].load(Relaxed) & SHARED != 0 {
        return match deadline {
            None => real::COND_WAIT.libc([condition, mutex, 0, 0]),
            Some(end) => real::COND_TIMEDWAIT.libc([condition, mutex, end.time, 0]),
        };
    }
    // Read under the mutex: a signal after its release changes it, and the sleep does not begin.
    let sequence = words[SEQUENCE].load(Acquire);
    real::MUTEX_UNLOCK.call([mutex, 0, 0, 0]);
    let late = cancellable(mutex, || native::sleep(&words[SEQUENCE], sequence, deadline));
    real::MUTEX_LOCK.call([mutex, 0, 0, 0]);
    if late { ETIMEDOUT } else { 0 }
}

/// Sleeps so that the thread can be cancelled meanwhile; it then takes the mutex first, as its
/// cleanup handlers expect.
fn cancellable(mutex: usize, sleep: impl Fn() -> bool) -> bool {
    /// glibc's record of a cleanup handler, `struct _pthread_cleanup_buffer`.
    type Buffer = [usize; 4];
    const ASYNCHRONOUS: usize = 1;
    extern "C" fn relock(mutex: *mut c_void) {
        real::MUTEX_LOCK.call([mutex as usize, 0, 0, 0]);
    }
    let mut buffer: Buffer = [0; 4];
    let buffer = (&raw mut buffer) as usize;
    let mut before: c_int = 0;
    real::CLEANUP_PUSH.call([buffer, relock as *const () as usize, mutex, 0]);
    real::SETCANCELTYPE.call([ASYNCHRONOUS, (&raw mut before) as usize, 0, 0]);
    let late = sleep();
    real::SETCANCELTYPE.call([before as usize, 0, 0, 0]);
    real::CLEANUP_POP.call([buffer, 0, 0, 0]);
    late
}

extern "C" fn cond_signal(condition: usize) -> c_int {
    notify(condition, 1, &real::COND_SIGNAL)
}

extern "C" fn cond_broadcast(condition: usize) -> c_int {
    notify(condition, i32::MAX as usize, &real::COND_BROADCAST)
}

fn notify(condition: usize, count: usize, libc: &Real) -> c_int {
    let words = words(condition);
    if words[FLAGS].load(Relaxed) & SHARED != 0 {
        return libc.libc([condition, 0, 0, 0]);
    }
    // Release: pairs with the acquire load of whoever is about to sleep.
    words[SEQUENCE].fetch_add(1, Release);
    native::wake(&raw const words[SEQUENCE], count);
    0
}

extern "C" fn cnd_timedwait(condition: usize, mutex: usize, time: usize) -> c_int {
    c11(cond_timedwait(condition, mutex, time))
}

/// Puts them in place of libc's.
pub(crate) fn install() {
    for name in [&real::COND_WAIT, &real::CND_WAIT] {
        name.replace(two(cond_wait));
    }
    for name in [&real::COND_SIGNAL, &real::CND_SIGNAL] {
        name.replace(one(cond_signal));
    }
    for name in [&real::COND_BROADCAST, &real::CND_BROADCAST] {
        name.replace(one(cond_broadcast));
    }
    real::COND_TIMEDWAIT.replace(three(cond_timedwait));
    real::CND_TIMEDWAIT.replace(three(cnd_timedwait));
    real::COND_CLOCKWAIT.replace(four(cond_clockwait));
}
