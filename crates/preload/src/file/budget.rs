//! Bound on the pages that all processes of a recording write together: each process maps a file
//! with the number of remaining pages.
//!
//! The recorder writes the file, so its page exists. A process that changes its user or its root
//! keeps the mapping, and forked processes inherit it. A program that another user starts later may
//! only read the file, since a user that may write it may also truncate it, and a process that then
//! uses its mapping is killed. Such a program and its forked processes count in a page of their
//! own, and the recorder adds the sizes of their files to the file.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::arch::number::MMAP;
use crate::file::paths;
use crate::layout::{BUDGET, BUDGET_LOST, BUDGET_OTHERS, PAGE};
use crate::system::calls::{self, call};

// Reasons why a process is not recorded: no room, no way to the directory, a limit of the process,
// a filter on its system calls.
pub(crate) const NO_ROOM: usize = 0;
pub(crate) const NO_WAY: usize = 1;
pub(crate) const LIMITED: usize = 2;
pub(crate) const FILTERED: usize = 3;

const PAGE_BYTES: usize = PAGE * 8;
const READ_WRITE: usize = 0o2;
const PROTECT_READ: usize = 1;
const PROTECT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_ANONYMOUS: usize = 0x20;
const NONE: usize = usize::MAX;

type Words = [AtomicU64; PAGE];

/// The file; null without a bound.
static FILE: AtomicPtr<Words> = AtomicPtr::new(core::ptr::null_mut());
/// Where the file may only be read: the number of pages taken, and the number of remaining ones
/// when the program started. Null elsewhere.
static OWN: AtomicPtr<Words> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the file in the directory of the recording.
pub(crate) fn find() {
    let path = paths::shared(BUDGET);
    let mut descriptor = calls::open(&path, READ_WRITE);
    let is_written = descriptor >= 0;
    if !is_written {
        descriptor = calls::open(&path, 0);
    }
    if descriptor < 0 {
        return;
    }
    let protection = if is_written { PROTECT_READ_WRITE } else { PROTECT_READ };
    let file = map(protection, MAP_SHARED, descriptor as usize);
    calls::close(descriptor);
    let Some(file) = file else { return };
    if !is_written {
        let Some(own) = map(PROTECT_READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, NONE) else { return };
        // Relaxed: published by the release store of `OWN`, which pairs with the acquire load of
        // `words`, as that of `FILE` does.
        own[1].store(remaining(file), Relaxed);
        OWN.store(core::ptr::from_ref(own).cast_mut(), Release);
    }
    FILE.store(core::ptr::from_ref(file).cast_mut(), Release);
}

fn map(protection: usize, flags: usize, descriptor: usize) -> Option<&'static Words> {
    let address = call(MMAP, [0, PAGE_BYTES, protection, flags, descriptor, 0]);
    // SAFETY: a shared mapping of a page, which stays.
    (address > 0).then(|| unsafe { &*(address as *const Words) })
}

/// Takes pages from the remaining ones. Returns whether that succeeded.
pub(crate) fn take(pages: usize) -> bool {
    let Some(file) = words(&FILE) else { return true };
    let pages = pages as u64;
    if let Some(own) = words(&OWN) {
        // Relaxed: the number of pages is all that threads and processes exchange here, and each
        // change is one atomic operation on it.
        let more = |taken: u64| Some(taken + pages).filter(|all| *all <= own[1].load(Relaxed));
        return remaining(file) >= pages && own[0].fetch_update(Relaxed, Relaxed, more).is_ok();
    }
    let others = file[BUDGET_OTHERS].load(Relaxed);
    let less = |left: u64| left.checked_sub(pages).filter(|rest| *rest >= others);
    file[0].fetch_update(Relaxed, Relaxed, less).is_ok()
}

/// Adds pages to the remaining ones, and returns `false`.
pub(crate) fn put_back(pages: usize) -> bool {
    if let Some(own) = words(&OWN) {
        own[0].fetch_sub(pages as u64, Relaxed);
    } else if let Some(file) = words(&FILE) {
        file[0].fetch_add(pages as u64, Relaxed);
    }
    false
}

/// Counts this program as unrecorded, by the number of the reason: its own file does not exist.
pub(crate) fn lost(why: usize) {
    if let (Some(file), None) = (words(&FILE), words(&OWN)) {
        file[BUDGET_LOST + why].fetch_add(1, Relaxed);
    }
}

fn remaining(file: &Words) -> u64 {
    // Relaxed: as in `take`.
    file[0].load(Relaxed).saturating_sub(file[BUDGET_OTHERS].load(Relaxed))
}

fn words(place: &AtomicPtr<Words>) -> Option<&'static Words> {
    // Acquire: pairs with the release stores of `find`.
    let found = place.load(Acquire);
    // SAFETY: a mapping of a page, which stays.
    (!found.is_null()).then(|| unsafe { &*found })
}
