//! Rights that the process has given up.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::file::map::{file, set};

/// Whether the process makes no more system calls for the recorder.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// Whether its time stamp counter must not be read any more: new threads are not recorded.
pub(crate) static NO_TICKS: AtomicBool = AtomicBool::new(false);

/// Returns whether the kernel must not be called.
#[inline]
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Relaxed)
}

/// Lets the recorder and the locks make no more system calls than the program.
pub(crate) fn keep_quiet() {
    // Relaxed: this thread reads it in program order, and threads that it starts read it after
    // their start. Other threads may make calls until they see it.
    IS_QUIET.store(true, Relaxed);
}

/// Returns whether new threads must not read the time stamp counter.
pub(crate) fn has_no_ticks() -> bool {
    NO_TICKS.load(Relaxed)
}

/// Notes that a system call was refused as if by a filter. Returns `false`: without it there is no
/// room.
#[cold]
pub(crate) fn refused() -> bool {
    if let Some(file) = file() {
        set(&file.header.sandboxed, 1);
        keep_quiet();
    }
    false
}
