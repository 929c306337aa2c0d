//! Files for processes that are forked after chroot(2), when the directory of the recording cannot
//! be reached: they are created before, and forked processes inherit a mapping of the first page of
//! each. The process that takes a file maps the rest through that page.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::arch::number::MREMAP as REMAP;
use crate::file::create::first_page;
use crate::file::map::Map;
use crate::layout::*;
use crate::system::calls::{GETPID, call};

/// Number of files, and so of processes that are recorded after a chroot(2).
const COUNT: usize = 32;
/// Number of the first one; a process uses the numbers below for its own files.
const TURNS: usize = 1000;
const PAGE_BYTES: usize = PAGE * 8;
const MAY_MOVE: usize = 1;

type First = [AtomicU64; PAGE];
static SPARES: [AtomicPtr<First>; COUNT] = [const { AtomicPtr::new(core::ptr::null_mut()) }; COUNT];

/// Creates missing files.
pub(crate) fn create() {
    for (index, place) in SPARES.iter().enumerate().filter(|(_, one)| one.load(Relaxed).is_null()) {
        let Some(page) = first_page(TURNS + index) else { break };
        place.store(page as *mut First, Release);
    }
}

/// Takes a file that no process has taken, and maps all of it.
pub(crate) fn take() -> Option<&'static Map> {
    let own = call(GETPID, [0; 6]) as u64;
    let is_taken = |place: &&AtomicPtr<First>| {
        // SAFETY: a mapping of a page that is there, which only its owner changes.
        let page = unsafe { place.load(Acquire).as_ref() };
        page.is_some_and(|page| page[H_PID].compare_exchange(0, own, AcqRel, Relaxed).is_ok())
    };
    let page = SPARES.iter().find(is_taken)?.load(Relaxed) as usize;
    let address = call(REMAP, [page, PAGE_BYTES, FILE_WORDS * 8, MAY_MOVE, 0, 0]);
    // SAFETY: a shared mapping of that many words, which stays.
    (address > 0).then(|| unsafe { &*(address as *const Map) })
}
