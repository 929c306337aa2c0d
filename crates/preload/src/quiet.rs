//! Rights that the process has given up.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::H_SANDBOXED;
use crate::map::file;

/// Whether the process asks the kernel for nothing any more.
pub(crate) static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// Whether its time stamp counter must not be read any more: new threads are not recorded.
pub(crate) static NO_TICKS: AtomicBool = AtomicBool::new(false);

/// Whether the kernel may be asked.
#[inline]
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Relaxed)
}

/// Whether the counter of ticks may not be read by new threads.
pub(crate) fn has_no_ticks() -> bool {
    NO_TICKS.load(Relaxed)
}

/// A system call was refused as by a filter; there is no room without it.
#[cold]
pub(crate) fn refused() -> bool {
    if let Some(file) = file() {
        file[H_SANDBOXED].store(1, Relaxed);
        IS_QUIET.store(true, Relaxed);
    }
    false
}
