//! Pages of the file: a page of the mapping is accessed only once the kernel has reserved it, so
//! that a full file system ends the recording and never the program.
//!
//! The kernel reserves pages by their mapping alone. So this works when the process has changed its
//! user or its root, has closed every descriptor, and cannot open any more.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arch::number::{FALLOCATE, MADVISE};
use crate::file::map::{self, FILE_WORDS, File, get, index_of};
use crate::file::{budget, paths};
use crate::layout::{DETAIL_COUNT, PAGE, SLOT_COUNT};
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
static RESERVED: [AtomicU64; PAGES.div_ceil(64)] =
    [const { AtomicU64::new(0) }; PAGES.div_ceil(64)];

/// Number of attempts that found no room, including those that were skipped.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Number of failures after which the kernel is asked again.
const SELDOM: u64 = 256;

/// Clears the state for a new file, of which no page is reserved.
pub(crate) fn forget() {
    FAILED.store(0, Relaxed);
    for word in &RESERVED {
        word.store(0, Relaxed);
    }
}

#[inline(always)]
fn is_page_reserved(page: usize) -> bool {
    // Acquire: pairs with the release of the thread that has reserved it.
    RESERVED[page / 64].load(Acquire) & (1 << (page % 64)) != 0
}

/// Returns whether the page with the beginning of this part is reserved.
#[inline(always)]
pub(crate) fn is_reserved<T>(file: &File, part: &T) -> bool {
    is_page_reserved(index_of(file, part) / PAGE)
}

/// Returns whether this part may be accessed. Reserves its pages if there is room.
pub(crate) fn reserve<T: ?Sized>(file: &File, part: &T) -> bool {
    let (first, last) = pages(file, part);
    let missing = (first..=last).filter(|page| !is_page_reserved(*page)).count();
    if missing == 0 {
        return true;
    }
    // If there was no room before, there rarely is some later.
    let failed = FAILED.load(Relaxed);
    if !failed.is_multiple_of(SELDOM) || !take(file, first, last + 1 - first, missing) {
        FAILED.store(failed + 1, Relaxed);
        // The header is reserved before anything else.
        if first > 0 && !rights::is_quiet() {
            file.header.short.fetch_add(1, Relaxed);
        }
        return false;
    }
    // Release: pairs with the acquire load of `is_page_reserved`.
    for page in first..=last {
        RESERVED[page / 64].fetch_or(1 << (page % 64), Release);
    }
    true
}

/// Returns the first and the last page of a part.
#[inline(always)]
fn pages<T: ?Sized>(file: &File, part: &T) -> (usize, usize) {
    let first = index_of(file, part);
    (first / PAGE, (first + size_of_val(part) / 8 - 1) / PAGE)
}

/// Reserves pages of which some are missing; only these count against the bound.
fn take(file: &File, page: usize, pages: usize, missing: usize) -> bool {
    budget::take(missing) && (may_write(file, page, pages) || budget::put_back(missing))
}

fn may_write(file: &File, page: usize, pages: usize) -> bool {
    match populate(core::ptr::from_ref(file) as usize + page * PAGE_BYTES, pages) {
        // An older kernel: reserve by descriptor. If it cannot do that either, assume that there is
        // room.
        EINVAL => allocate(page, pages),
        EPERM | EACCES | ENOSYS => rights::refused(),
        result => result == 0,
    }
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

/// Reserves the page with the state of the thread of a slot, and the slot's first keys. Returns
/// whether there is room.
pub(crate) fn reserve_slot(file: &File, number: usize) -> bool {
    reserve(file, &file.slots[number].state) && reserve(file, &file.few[number])
}

/// Reserves pages for future threads, because system calls will soon be forbidden.
pub(crate) fn reserve_ahead(file: &File) {
    let used = (get(&file.header.slots) as usize).min(SLOT_COUNT);
    for slot in used..(used + AHEAD).min(SLOT_COUNT) {
        reserve_slot(file, slot);
    }
    // An estimate of where the next details will be.
    let detail = (get(&file.header.details) as usize).min(DETAIL_COUNT - AHEAD);
    reserve(file, &file.details[detail..detail + AHEAD]);
    reserve(file, &file.locks);
}

/// Returns whether an entry of a table is reserved, one page at a time. Reserves it if not.
#[inline]
pub(crate) fn has<T>(file: &File, entry: &T) -> bool {
    let (first, last) = pages(file, entry);
    is_page_reserved(first) && is_page_reserved(last) || reserve(file, entry)
}

/// Adds to the number of acquisitions by threads that are not recorded.
pub(crate) fn unrecorded(count: u64) {
    if let Some(file) = map::file() {
        // No other data depends on the number.
        file.header.unrecorded.fetch_add(count, AcqRel);
    }
}
