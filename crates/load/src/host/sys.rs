//! The system calls without a safe wrapper. The only `unsafe` code of this crate.

use std::mem::MaybeUninit;

/// User-mode time of the children waited for, nanoseconds.
pub(crate) fn children_user_ns() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable for a whole `rusage`.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: All fields are integers, zeroed above; zero is a valid value of each, whatever the
    // call did.
    let usage = unsafe { usage.assume_init() };
    timeval_ns(usage.ru_utime)
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}
