//! Indexes of tables of the file, kept outside of it. They are empty when a new file begins.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use crate::layout::LOCK_COUNT;

/// Number of shared details that can be found again.
pub(crate) const SHARED: usize = 1024;

/// Places in use, one bit each: most lookups of locks find nothing.
static TAKEN: [AtomicU64; LOCK_COUNT / 64] = [const { AtomicU64::new(0) }; LOCK_COUNT / 64];

pub(crate) fn taken(at: usize) -> (&'static AtomicU64, u64) {
    (&TAKEN[at / 64], 1 << (at % 64))
}

/// Hashes of keys with their callers, each above the index of their first detail.
pub(crate) static KNOWN: [AtomicU64; SHARED] = [const { AtomicU64::new(0) }; SHARED];
/// Slot of each thread, plus 1, by the lowest bits of its thread ID.
pub(crate) static SLOT_OF: [AtomicU16; 8192] = [const { AtomicU16::new(0) }; 8192];
/// Whether there is room for events.
pub(crate) static EVENTS_STATE: AtomicU32 = AtomicU32::new(EVENTS_NONE);
pub(crate) const EVENTS_NONE: u32 = 0;
pub(crate) const EVENTS_MAKING: u32 = 1;
pub(crate) const EVENTS_READY: u32 = 2;

/// Notes the slot of a thread.
pub(crate) fn attached(thread: u64, number: usize) {
    SLOT_OF[thread as usize % SLOT_OF.len()].store(number as u16 + 1, Relaxed);
}

/// Clears the indexes for a new file.
pub(crate) fn forget() {
    for word in TAKEN.iter().chain(&KNOWN) {
        word.store(0, Relaxed);
    }
    EVENTS_STATE.store(EVENTS_NONE, Relaxed);
}
