//! Times in the 32 bits of a word.

use crate::platform::Platform;

/// Returns the time in units of 1024 ns, modulo 73 minutes.
pub(super) fn stamp<P: Platform>() -> u32 {
    (P::now() >> 10) as u32
}

/// Nanoseconds between two such times.
pub(super) fn ns_between(then: u32, now: u32) -> u64 {
    u64::from(now.wrapping_sub(then)) << 10
}
