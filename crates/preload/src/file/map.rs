//! The mapped file of this process, and that of the process it was forked from.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::layout::{self, Mapped};

pub(crate) type File = layout::File<Mapped>;
/// The data of one thread.
pub(crate) type Slot = layout::Slot<Mapped>;

pub(crate) const FILE_WORDS: usize = size_of::<File>() / 8;

pub(crate) static FILE: AtomicPtr<File> = AtomicPtr::new(core::ptr::null_mut());
/// The file of the process from which this one was forked; null: none.
pub(crate) static PARENT: AtomicPtr<File> = AtomicPtr::new(core::ptr::null_mut());

/// Returns the file, if this process is recorded.
#[inline(always)]
pub(crate) fn file() -> Option<&'static File> {
    // Acquire: pairs with the release store of `begin`.
    let file = FILE.load(Acquire);
    // SAFETY: a mapping of that size, which only a forked child unmaps.
    (!file.is_null()).then(|| unsafe { &*file })
}

/// Returns the same, or the parent's file in a forked process that has not locked yet.
pub(crate) fn nearest_file() -> Option<&'static File> {
    // SAFETY: a mapping of that size, which is unmapped only after this process has created a file.
    file().or_else(|| unsafe { PARENT.load(Relaxed).as_ref() })
}

pub(crate) fn words(file: &File) -> &[AtomicU64; FILE_WORDS] {
    // SAFETY: the file consists of words, of which some are used as two halves.
    unsafe { &*core::ptr::from_ref(file).cast() }
}

/// Returns the index in the file of the first word of a part.
#[inline(always)]
pub(crate) fn index_of<T: ?Sized>(file: &File, part: &T) -> usize {
    (core::ptr::from_ref(part).addr() - core::ptr::from_ref(file).addr()) / 8
}

#[inline(always)]
pub(crate) fn get(word: &AtomicU64) -> u64 {
    // Relaxed, here and below: statistics, which readers take one by one.
    word.load(Relaxed)
}

#[inline(always)]
pub(crate) fn set(word: &AtomicU64, value: u64) {
    word.store(value, Relaxed);
}

/// Adds to a word, which has one writer, or may lose an addition.
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, value: u64) {
    set(word, get(word) + value);
}
