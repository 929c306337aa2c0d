//! Robust mutexes whose owner died and that no thread made consistent.
//!
//! `pthread_mutex_trylock(3)` of glibc returns `ENOTRECOVERABLE` for such a mutex and leaves its
//! word locked by the caller; `pthread_mutex_lock(3)` returns the same and unlocks it. A hook that
//! makes an attempt before it waits must unlock the mutex, too: otherwise the program's next unlock
//! follows a null pointer, and other threads block forever.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::arch::number::FUTEX;
use crate::system::calls::{GETTID, call};

/// The mutex cannot be used any more.
const ENOTRECOVERABLE: c_int = 131;
/// Bits of the word that hold the owner.
const OWNER: u32 = 0x3fff_ffff;
/// Without the private flag: processes share the futexes of robust mutexes.
const WAKE: usize = 1;

/// Unlocks the mutex if the attempt had a result with which `pthread_mutex_lock(3)` unlocks it.
#[inline]
pub(crate) fn settle(mutex: usize, result: c_int) {
    if result == ENOTRECOVERABLE {
        unlock(mutex);
    }
}

#[cold]
fn unlock(mutex: usize) {
    // SAFETY: the first word of a mutex of libc, which only atomic instructions change.
    let word = unsafe { AtomicU32::from_ptr(mutex as *mut u32) };
    // Relaxed: only this thread writes its own thread ID.
    if word.load(Relaxed) & OWNER == call(GETTID, [0; 6]) as u32 {
        word.store(0, Release);
        call(FUTEX, [mutex, WAKE, 1, 0, 0, 0]);
    }
}
