//! Replacements of libc's locks, in the memory of libc's locks.
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

use crate::arch;
use crate::interpose::libc;
use crate::policy::platform::Native;

pub(crate) const EBUSY: c_int = 16;
pub(crate) const ETIMEDOUT: c_int = 110;
/// Return values of C11 functions for these errors, and for any other.
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

// Offsets in a `pthread_mutex_t` of x86-64, in words of 32 bits.
const OWNER: usize = 2;
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

/// Number of times that the spinning lock polls before it sleeps, the default of `AdaptiveLock`.
const LOOKS: u32 = 100;
pub(crate) static MOST_LOOKS: AtomicU32 = AtomicU32::new(LOOKS);

/// Number of times that a lock polls before it sleeps: 0 with one CPU. A real-time task that keeps
/// the owner off its CPU while it polls does so only for some microseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looks;

impl SpinLimit for Looks {
    fn looks(self) -> u32 {
        if may_spin() { MOST_LOOKS.load(Relaxed) } else { 0 }
    }
}

/// Returns whether a thread may poll a lock.
pub(crate) fn may_spin() -> bool {
    MOST_LOOKS.load(Relaxed) > 0
}

/// Returns whether this thread has a real-time priority.
pub(crate) fn is_real_time() -> bool {
    /// FIFO, round robin and deadline.
    const REAL_TIME: [isize; 3] = [1, 2, 6];
    // SAFETY: the call takes the number of a task, 0 for the calling one.
    REAL_TIME.contains(&unsafe { arch::call(arch::number::SCHED_GETSCHEDULER, [0; 6]) })
}

pub(crate) type Word = AdaptiveLock<Native, Looks>;

/// The same for the lock of a queue, whose critical sections are short: it wakes two sleepers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Short(Looks);

impl SpinLimit for Short {
    const WAKES: usize = 2;

    fn looks(self) -> u32 {
        self.0.looks()
    }
}

/// Waiters sleep without polling.
#[derive(Clone, Copy, Default)]
struct Never;

impl SpinLimit for Never {
    fn looks(self) -> u32 {
        0
    }
}

pub(crate) fn words(object: usize) -> &'static [AtomicU32; 10] {
    // SAFETY: the program passes a mutex or a condition variable, which have ten words, aligned.
    unsafe { &*(object as *const [AtomicU32; 10]) }
}

/// Returns whether a mutex is replaced.
pub(crate) fn is_ours(mutex: usize) -> bool {
    let kind = words(mutex)[KIND].load(Relaxed) & KIND_BITS;
    kind == NORMAL || kind == ADAPTIVE
}

fn word(mutex: usize) -> &'static Word {
    // SAFETY: the lock is one word, and has the values of the first word of a mutex.
    unsafe { &*(mutex as *const Word) }
}

/// Clears the owner that glibc has set. glibc acquired the mutex before this object was loaded,
/// with a time limit, or after a wait on a condition variable; only the last does not count the
/// mutex's user.
pub(crate) fn forget_owner(mutex: usize) {
    let words = words(mutex);
    if words[OWNER].load(Relaxed) != 0 {
        words[OWNER].store(0, Relaxed);
        words[USERS].store(0, Relaxed);
    }
}

pub(crate) extern "C" fn spin_lock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    word(mutex).lock();
    0
}

/// Acquires a mutex that sleeps, where other mutexes spin.
pub(crate) fn sleep_lock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    // SAFETY: as for `word`; the limit of polls is not part of the lock.
    let word = unsafe { &*(mutex as *const AdaptiveLock<Native, Never>) };
    word.lock();
    0
}

pub(crate) extern "C" fn word_unlock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    forget_owner(mutex);
    word(mutex).unlock();
    0
}

pub(crate) fn c11(result: c_int) -> c_int {
    match result {
        0 => 0,
        EBUSY => THRD_BUSY,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

/// Replaces the functions of libc that lock a mutex, try to lock it, try before a recorder waits,
/// and unlock it; and those with a time limit, on the realtime clock or on a given clock.
pub(crate) fn replace_mutexes(
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

/// Returns the number of CPUs that this process may use.
pub(crate) fn cpus() -> u32 {
    let mut mask = [0_u64; 128];
    let place = (&raw mut mask) as usize;
    // SAFETY: the kernel writes at most as many bytes as the mask has.
    unsafe { arch::call(arch::number::SCHED_GETAFFINITY, [0, size_of_val(&mask), place, 0, 0, 0]) };
    mask.iter().map(|word| word.count_ones()).sum()
}
