//! Processes with one thread. libc acquires their mutexes without an atomic instruction, but its
//! trylock uses one even there, which would be most of the cost of recording.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32};

use crate::interpose::libc;

static NEVER: AtomicU8 = AtomicU8::new(0);
/// Address of libc's flag (since glibc 2.32) that says whether the process has one thread.
static SINGLE: AtomicPtr<u8> = AtomicPtr::new(NEVER.as_ptr());

pub(crate) fn find() {
    if let Some(single) = libc::place(c"__libc_single_threaded") {
        // Relaxed: done before the program has threads.
        SINGLE.store(single.as_ptr(), Relaxed);
    }
}

/// Returns whether this mutex is free and the process has one thread, so that no thread waits.
#[inline(always)]
pub(crate) fn is_free(mutex: usize) -> bool {
    // SAFETY: a byte of libc, or of this object.
    let is_single = unsafe { AtomicU8::from_ptr(SINGLE.load(Relaxed)) }.load(Relaxed) != 0;
    // SAFETY: the argument is a mutex of the program; its first word is 0 if it is free.
    is_single && unsafe { AtomicU32::from_ptr(mutex as *mut u32) }.load(Relaxed) == 0
}
