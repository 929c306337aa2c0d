//! The mapped file of this process, and that of the process it was forked from.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::layout::*;

/// The words of the file.
pub(crate) type Map = [AtomicU64; FILE_WORDS];
/// The words of one thread.
pub(crate) type Slot = [AtomicU64; SLOT_WORDS];

pub(crate) static FILE: AtomicPtr<Map> = AtomicPtr::new(core::ptr::null_mut());
/// The file of the process from which this one was forked; null: none.
pub(crate) static PARENT: AtomicPtr<Map> = AtomicPtr::new(core::ptr::null_mut());

/// Returns the file, if this process is recorded.
#[inline(always)]
pub(crate) fn file() -> Option<&'static Map> {
    // Acquire: pairs with the release store of `begin`.
    let file = FILE.load(Acquire);
    // SAFETY: a mapping of that size, which only a forked child unmaps.
    (!file.is_null()).then(|| unsafe { &*file })
}

/// Returns the same, or the parent's file in a forked process that has not locked yet.
pub(crate) fn nearest_file() -> Option<&'static Map> {
    // SAFETY: a mapping of that size, which is unmapped only after this process has created a file.
    file().or_else(|| unsafe { PARENT.load(Relaxed).as_ref() })
}

pub(crate) fn slot(file: &'static Map, index: usize) -> &'static Slot {
    let words = &file[SLOTS + index * SLOT_WORDS..][..SLOT_WORDS];
    words.try_into().expect("as long as a slot")
}

pub(crate) fn add(word: &AtomicU64, value: u64) {
    // Relaxed: a statistic with one writer, or with several that may lose an addition.
    word.store(word.load(Relaxed) + value, Relaxed);
}
