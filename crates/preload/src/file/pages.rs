//! Room in the file: a page of the mapping is accessed only once the kernel has reserved it, so
//! that a full file system ends the recording and never the program.
//!
//! The kernel reserves pages by their mapping alone. So this works when the process has changed its
//! user or its root, has closed every descriptor, and cannot open any more.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arch::number::{FALLOCATE, MADVISE};
use crate::file::map::{self, Map};
use crate::file::{budget, paths};
use crate::layout::*;
use crate::system::calls::{self, call};
use crate::system::rights;

/// Number of pages of the file.
const PAGES: usize = FILE_WORDS.div_ceil(PAGE);
const PAGE_BYTES: usize = PAGE * 8;
/// Slots that are reserved before the process loses the right to ask for more.
const AHEAD: usize = 64;

/// Makes madvise(2) reserve pages as if they were written, or fail (Linux 5.14).
const POPULATE_WRITE: usize = 23;
const EINVAL: isize = -22;
const ENOSPC: isize = -28;
const EDQUOT: isize = -122;
const EFBIG: isize = -27;
// No file system returns these: system calls are restricted in a way that was not noticed.
const EPERM: isize = -1;
const EACCES: isize = -13;
const ENOSYS: isize = -38;

/// Reserved pages, one bit each.
static THERE: [AtomicU64; PAGES.div_ceil(64)] = [const { AtomicU64::new(0) }; PAGES.div_ceil(64)];

/// Number of attempts that found no room, including those that were skipped.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Number of failures after which the kernel is asked again.
const SELDOM: u64 = 256;

/// Clears the state for a new file, of which no page is reserved.
pub(crate) fn forget() {
    FAILED.store(0, Relaxed);
    for word in &THERE {
        word.store(0, Relaxed);
    }
}

/// Returns whether the page of a word is reserved.
#[inline(always)]
pub(crate) fn is_there(word: usize) -> bool {
    let page = word / PAGE;
    // Acquire: pairs with the release of the thread that has reserved it.
    THERE[page / 64].load(Acquire) & (1 << (page % 64)) != 0
}

/// Returns whether these words may be accessed. Reserves their pages if there is room.
pub(crate) fn reserve(file: &Map, word: usize, words: usize) -> bool {
    let (first, last) = (word / PAGE, (word + words - 1) / PAGE);
    let missing = (first..=last).filter(|page| !is_there(page * PAGE)).count();
    if missing == 0 {
        return true;
    }
    // If there was no room before, there rarely is some later.
    let failed = FAILED.load(Relaxed);
    if !failed.is_multiple_of(SELDOM) || !take(file, first, last + 1 - first, missing) {
        FAILED.store(failed + 1, Relaxed);
        // The header is reserved before anything else.
        if first > 0 && !rights::is_quiet() {
            file[H_SHORT].fetch_add(1, Relaxed);
        }
        return false;
    }
    // Release: pairs with the acquire load of `is_there`.
    for page in first..=last {
        THERE[page / 64].fetch_or(1 << (page % 64), Release);
    }
    true
}

/// Reserves pages of which some are missing; only these count against the bound.
fn take(file: &Map, page: usize, pages: usize, missing: usize) -> bool {
    let address = core::ptr::from_ref(file) as usize + page * PAGE_BYTES;
    let populate = || match populate(address, pages) {
        // An older kernel: reserve by descriptor. If it cannot do that either, assume that there is
        // room.
        EINVAL => allocate(page, pages),
        EPERM | EACCES | ENOSYS => rights::refused(),
        result => result == 0,
    };
    budget::take(missing) && (populate() || budget::put_back(missing))
}

/// Reserves pages of a mapping, and returns the result of madvise(2).
fn populate(address: usize, pages: usize) -> isize {
    call(MADVISE, [address, pages * PAGE_BYTES, POPULATE_WRITE, 0, 0, 0])
}

/// Reserves the first page of a mapping. Returns whether that succeeded.
pub(crate) fn take_first(address: usize) -> bool {
    budget::take(1) && (populate(address, 1) == 0 || budget::put_back(1))
}

fn allocate(page: usize, pages: usize) -> bool {
    let descriptor = paths::open_again();
    if descriptor < 0 {
        return false;
    }
    let place = [descriptor as usize, 0, page * PAGE_BYTES, pages * PAGE_BYTES, 0, 0];
    let result = call(FALLOCATE, place);
    calls::close(descriptor);
    ![ENOSPC, EDQUOT, EFBIG].contains(&result)
}

/// Reserves pages for future threads, because system calls will soon be forbidden.
pub(crate) fn reserve_ahead(file: &Map) {
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(SLOT_COUNT);
    for slot in used..(used + AHEAD).min(SLOT_COUNT) {
        reserve(file, SLOTS + slot * SLOT_WORDS, S_LINES);
        reserve(file, FEW + slot * FEW_WORDS, FEW_WORDS);
    }
    // Relaxed: an estimate of where the next details will be.
    let details = (file[H_DETAILS].load(Relaxed) as usize).min(DETAIL_COUNT - AHEAD);
    reserve(file, DETAILS + details * DETAIL_WORDS, AHEAD * DETAIL_WORDS);
    reserve(file, LOCKS, LOCK_COUNT * LOCK_WORDS);
}

/// Returns whether the words of a table are reserved, one page at a time. Reserves them if not.
#[inline]
pub(crate) fn has(file: &Map, word: usize, words: usize) -> bool {
    is_there(word) && is_there(word + words - 1) || reserve(file, word, words)
}

/// Adds to the number of acquisitions by threads that are not recorded.
pub(crate) fn unrecorded(count: u64) {
    if let Some(file) = map::file() {
        // No other data depends on the number.
        file[H_UNRECORDED].fetch_add(count, AcqRel);
    }
}
