//! Replacements of libc's mutexes, in the memory of libc's mutexes.
//!
//! Normal and adaptive mutexes that one process uses are replaced. Recursive, error-checking,
//! robust, priority-inheriting and process-shared ones stay libc's, and so do semaphores that
//! processes share.
//!
//! - `spin`, `sleep`: [`AdaptiveLock`] in the first word of the mutex. It has glibc's values (0, 1,
//!   2), so glibc's timed functions and condition variables still work with it; they store their
//!   thread's number as owner, which the release must clear.
//! - `fair`: see [`fair`](crate::policy::fair).
//! - `handoff`: see [`handoff`](crate::policy::handoff), with separate condition variables, because
//!   glibc's would release and acquire the mutex by glibc's values.
//!
//! All mutexes have one policy, or some are [chosen](crate::policy::chosen) and have another one.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use convoy_sync::{AdaptiveLock, RawLock as _, SpinLimit};

use crate::interpose::libc::{self, one, three, two};
use crate::policy::platform::{Deadline, ETIMEDOUT, Threads};
use crate::policy::spin::Looks;

pub(crate) const EBUSY: c_int = 16;
/// Return values of C11 functions for these errors, and for any other.
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

// Offsets in a `pthread_mutex_t` of x86-64, in words of 32 bits.
pub(crate) const OWNER: usize = 2;
const USERS: usize = 3;
const KIND: usize = 4;
/// Words 6 to 9 belong to the list of robust mutexes, which replaced mutexes are not on. Word 6
/// contains the number of a lock that hands over, word 7 the mark of a chosen mutex.
pub(crate) const MUTEX_NUMBER: usize = 6;
pub(crate) const MUTEX_MARK: usize = 7;
/// Bits of the kind that decide whether a mutex is replaced; the others are about lock elision.
const KIND_BITS: u32 = 0xff;
const NORMAL: u32 = 0;
const ADAPTIVE: u32 = 3;

pub(crate) fn words(object: usize) -> &'static [AtomicU32; 10] {
    // SAFETY: the program passes a mutex or a condition variable, which have ten words, aligned.
    unsafe { &*(object as *const [AtomicU32; 10]) }
}

pub(crate) fn is_replaced(mutex: usize) -> bool {
    let kind = words(mutex)[KIND].load(Relaxed) & KIND_BITS;
    kind == NORMAL || kind == ADAPTIVE
}

/// Clears the owner that glibc has set. glibc acquired the mutex before this object was loaded,
/// with a time limit, or after a wait on a condition variable; only the last does not count the
/// mutex's user.
fn forget_owner(mutex: usize) {
    let words = words(mutex);
    if words[OWNER].load(Relaxed) != 0 {
        words[OWNER].store(0, Relaxed);
        words[USERS].store(0, Relaxed);
    }
}

/// A lock in the memory of libc's mutex.
pub(crate) trait Policy {
    fn lock(mutex: usize);

    fn try_lock(mutex: usize) -> bool;

    /// The attempt that a recorder makes before it waits. A thread that must not bypass the queue
    /// has to call [`Self::lock`].
    fn attempt(mutex: usize) -> bool {
        Self::try_lock(mutex)
    }

    /// Waits for the mutex, and returns whether the thread got it before the deadline.
    fn lock_until(mutex: usize, deadline: Deadline) -> bool;

    fn unlock(mutex: usize);
}

/// Returns the result of a C11 function for that of the pthread function.
pub(crate) fn c11(result: c_int) -> c_int {
    match result {
        0 => 0,
        EBUSY => THRD_BUSY,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

/// Returns the result of libc for an attempt.
fn result(is_acquired: bool) -> c_int {
    if is_acquired { 0 } else { EBUSY }
}

pub(crate) extern "C" fn lock<P: Policy>(mutex: usize) -> c_int {
    if !is_replaced(mutex) {
        return libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    P::lock(mutex);
    0
}

pub(crate) extern "C" fn trylock<P: Policy>(mutex: usize) -> c_int {
    if is_replaced(mutex) {
        result(P::try_lock(mutex))
    } else {
        libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0])
    }
}

pub(crate) extern "C" fn attempt<P: Policy>(mutex: usize) -> c_int {
    if is_replaced(mutex) {
        result(P::attempt(mutex))
    } else {
        libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0])
    }
}

pub(crate) extern "C" fn timedlock<P: Policy>(mutex: usize, time: usize) -> c_int {
    if is_replaced(mutex) {
        lock_until::<P>(mutex, Deadline { time, is_realtime: true })
    } else {
        libc::MUTEX_TIMEDLOCK.libc([mutex, time, 0, 0])
    }
}

pub(crate) extern "C" fn clocklock<P: Policy>(mutex: usize, clock: usize, time: usize) -> c_int {
    match Deadline::on_clock(clock, time) {
        Ok(deadline) if is_replaced(mutex) => lock_until::<P>(mutex, deadline),
        _ => libc::MUTEX_CLOCKLOCK.libc([mutex, clock, time, 0]),
    }
}

/// As in libc, the time is not read if the mutex is free.
fn lock_until<P: Policy>(mutex: usize, deadline: Deadline) -> c_int {
    if P::attempt(mutex) {
        return 0;
    }
    match deadline.error() {
        Some(error) if !deadline.is_negative() => error,
        None if P::lock_until(mutex, deadline) => 0,
        _ => ETIMEDOUT,
    }
}

pub(crate) extern "C" fn unlock<P: Policy>(mutex: usize) -> c_int {
    if !is_replaced(mutex) {
        return libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    forget_owner(mutex);
    P::unlock(mutex);
    0
}

/// Replaces libc's mutexes.
pub(crate) fn install<P: Policy>() {
    replace(
        [one(lock::<P>), one(trylock::<P>), one(attempt::<P>), one(unlock::<P>)],
        [two(timedlock::<P>), three(clocklock::<P>)],
    );
}

/// Replaces the functions of libc that lock a mutex, try to lock it, try before a recorder waits,
/// and unlock it; and those with a time limit, on the realtime clock or on a given clock.
pub(crate) fn replace(
    [lock, trylock, attempt, unlock]: [usize; 4],
    [timedlock, clocklock]: [usize; 2],
) {
    libc::MUTEX_LOCK.replace(lock);
    libc::MUTEX_TRYLOCK.replace(trylock);
    libc::MUTEX_ATTEMPT.replace(attempt);
    libc::MUTEX_TIMEDLOCK.replace(timedlock);
    libc::MUTEX_CLOCKLOCK.replace(clocklock);
    libc::MUTEX_UNLOCK.replace(unlock);
}

/// Locks the first word of a mutex, after as many polls as `L` permits.
pub(crate) extern "C" fn word_lock<L: SpinLimit + Default>(mutex: usize) -> c_int {
    if !is_replaced(mutex) {
        return libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    word::<L>(mutex).lock();
    0
}

pub(crate) extern "C" fn word_unlock(mutex: usize) -> c_int {
    if !is_replaced(mutex) {
        return libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    forget_owner(mutex);
    word::<Looks>(mutex).unlock();
    0
}

fn word<L: SpinLimit + Default>(mutex: usize) -> &'static AdaptiveLock<Threads, L> {
    // SAFETY: the lock is one word, and has the values of the first word of a mutex. The limit of
    // polls is not part of it.
    unsafe { &*(mutex as *const AdaptiveLock<Threads, L>) }
}
