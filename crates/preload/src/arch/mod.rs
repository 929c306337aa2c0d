//! Code that needs machine instructions: the thread's word, ticks, system calls that do not change
//! `errno`, and the critical section that detects whether a thread was switched out.

use core::arch::global_asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::threads::local::{LOCAL_BYTES, Local};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Numbers of system calls.
pub(crate) mod number {
    pub(crate) use libc::{
        SYS_capget as CAPGET, SYS_clock_gettime as CLOCK_GETTIME, SYS_close as CLOSE,
        SYS_faccessat as FACCESSAT, SYS_fallocate as FALLOCATE, SYS_fgetxattr as FGETXATTR,
        SYS_fstat as NEWFSTAT, SYS_ftruncate as FTRUNCATE, SYS_futex as FUTEX,
        SYS_getegid as GETEGID, SYS_geteuid as GETEUID, SYS_getpid as GETPID,
        SYS_getppid as GETPPID, SYS_gettid as GETTID, SYS_madvise as MADVISE, SYS_mlock as MLOCK,
        SYS_mmap as MMAP, SYS_mremap as MREMAP, SYS_munmap as MUNMAP, SYS_openat as OPENAT,
        SYS_prctl as PRCTL, SYS_pread64 as PREAD, SYS_prlimit64 as PRLIMIT64,
        SYS_process_vm_readv as PROCESS_VM_READV, SYS_read as READ, SYS_readlinkat as READLINKAT,
        SYS_sched_getaffinity as SCHED_GETAFFINITY, SYS_sched_getscheduler as SCHED_GETSCHEDULER,
        SYS_sched_yield as SCHED_YIELD, SYS_seccomp as SECCOMP, SYS_tgkill as TGKILL,
    };
}

// Thread-local storage for `Local`, accessed without a call: the initial-exec model, which this
// object may use because it is loaded with the program.
global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 64",
    ".globl convoy_thread",
    ".hidden convoy_thread",
    ".type convoy_thread,@tls_object",
    ".size convoy_thread,{bytes}",
    "convoy_thread: .zero {bytes}",
    ".popsection",
    bytes = const LOCAL_BYTES,
);

/// Returns the thread's word; 0 at first.
#[inline(always)]
pub(crate) fn thread_word() -> usize {
    local_word::<0>() as usize
}

/// Sets the thread's word.
#[inline]
pub(crate) fn set_thread_word(word: usize) {
    // Relaxed: only this thread accesses the word.
    local().thread.store(word as u64, Relaxed);
}

/// Returns the data of this thread.
#[inline(always)]
pub(crate) fn local() -> &'static Local {
    // SAFETY: that many aligned words; they exist as long as the thread, which alone accesses them.
    unsafe { &*(local_address() as *const Local) }
}

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
