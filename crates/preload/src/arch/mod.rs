//! Code that needs machine instructions: the thread's word, ticks, system calls that do not change
//! `errno`, and the critical section that detects whether a thread was switched out.

use core::sync::atomic::AtomicU64;

use crate::local::OWN_WORDS;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Ticks between two looks with nothing between them.
pub(crate) fn stamp() -> u64 {
    /// So many that none of the others interrupts all.
    const TRIES: usize = 64;
    let apart = |_| {
        let begin = ticks();
        ticks().saturating_sub(begin)
    };
    (0..TRIES).map(apart).min().unwrap_or(0)
}

/// The word at `address`.
///
/// # Safety
/// It is there as long as the thread, and aligned.
#[inline(always)]
pub(crate) unsafe fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: by the caller.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

const _: () = assert!(OWN_WORDS * 8 == 512, "as much as is set aside above");
