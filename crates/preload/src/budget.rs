//! Bound on the pages that all processes of a recording write together: each process maps a file
//! with the number of remaining pages.
//!
//! The recorder writes the file, so its page exists. A process that changes its user or its root
//! keeps the mapping, and forked processes inherit it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::layout::BUDGET;
use crate::paths;
use crate::process::{self, call};

const MMAP: usize = 9;
const PAGE_BYTES: usize = 4096;
const READ_WRITE: usize = 0o2;
const PROTECT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;

/// Number of remaining pages; null without a bound.
static LEFT: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the file in the directory of the recording.
pub(crate) fn find() {
    let descriptor = process::open(&paths::shared(BUDGET), READ_WRITE);
    if descriptor < 0 {
        return;
    }
    let how = [0, PAGE_BYTES, PROTECT_READ_WRITE, MAP_SHARED, descriptor as usize, 0];
    let address = call(MMAP, how);
    process::close(descriptor);
    if address > 0 {
        LEFT.store(core::ptr::without_provenance_mut(address as usize), Release);
    }
}

/// Takes pages from the remaining ones. Returns whether that succeeded.
pub(crate) fn take(pages: usize) -> bool {
    let less = |left: u64| left.checked_sub(pages as u64);
    left().is_none_or(|left| left.fetch_update(Relaxed, Relaxed, less).is_ok())
}

/// Adds pages to the remaining ones, and returns `false`.
pub(crate) fn put_back(pages: usize) -> bool {
    if let Some(left) = left() {
        left.fetch_add(pages as u64, Relaxed);
    }
    false
}

fn left() -> Option<&'static AtomicU64> {
    // Acquire: pairs with the release store of `find`.
    let left = LEFT.load(Acquire);
    // SAFETY: the first word of a shared mapping of a page, which stays.
    (!left.is_null()).then(|| unsafe { &*left })
}
