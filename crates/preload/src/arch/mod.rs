//! Code that needs machine instructions: the thread's word, ticks, system calls that do not change
//! `errno`, and the critical section that detects whether a thread was switched out.

use core::sync::atomic::AtomicU64;

use crate::threads::local::OWN_WORDS;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Returns the number of ticks between two consecutive readings.
pub(crate) fn stamp() -> u64 {
    fn apart(_: usize) -> u64 {
        let begin = ticks();
        ticks().saturating_sub(begin)
    }
    /// Large enough that at least one try is not interrupted.
    const TRIES: usize = 64;
    (0..TRIES).map(apart).min().unwrap_or(0)
}

/// Returns the word at `address`.
///
/// # Safety
/// The word is aligned, and exists as long as the thread.
#[inline(always)]
pub(crate) unsafe fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: by the caller.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

const _: () = assert!(OWN_WORDS * 8 == 512, "as much as is set aside above");
