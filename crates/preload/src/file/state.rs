//! Waits for the thread that creates the file of the process.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::arch::number::FUTEX;
use crate::system::calls::{GETTID, call};

// States of a process.
pub(crate) const LOADING: u32 = 0;
pub(crate) const FORKED: u32 = 1;
pub(crate) const BEGINNING: u32 = 2;
pub(crate) const RECORDS: u32 = 3;
pub(crate) const OFF: u32 = 4;

/// Operation of futex(2): wait on a word of this process only.
const WAIT_PRIVATE: usize = 128;
/// Seconds and nanoseconds of one wait, and the maximum number of waits: 20 ms in all.
const LOOK: [u64; 2] = [0, 500_000];
const LOOKS: u32 = 40;

/// Waits until another thread has created the file, and returns the resulting state of the process.
/// Without the wait, acquisitions of that time would be missing from the record unnoticed. The
/// thread that creates the file, or a signal handler in it, does not wait for itself.
#[cold]
pub(crate) fn done(state: &AtomicU32, beginner: &AtomicU32) -> u32 {
    let own = call(GETTID, [0; 6]) as u32;
    for _ in 0..LOOKS {
        // Acquire: pairs with the release store at the end of `process::begin`. Relaxed: a thread
        // finds its own ID only if it stored it itself.
        let now = state.load(Acquire);
        if now != BEGINNING && now != FORKED || beginner.load(Relaxed) == own {
            return now;
        }
        let word = core::ptr::from_ref(state) as usize;
        call(FUTEX, [word, WAIT_PRIVATE, now as usize, LOOK.as_ptr() as usize, 0, 0]);
    }
    // Acquire: as above.
    state.load(Acquire)
}
