//! Files for processes that are forked after chroot(2), when the directory of the recording cannot
//! be reached: they are created before, and forked processes inherit a mapping of the first page of
//! each. The process that takes a file maps the rest through that page.

use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arch::number::MREMAP as REMAP;
use crate::file::create::first_page;
use crate::file::map::File;
use crate::layout::{Header, Mapped};
use crate::system::calls::{GETPID, call};

/// Number of files, and so of processes that are recorded after a chroot(2).
const COUNT: usize = 32;
/// Number of the first one; a process uses the numbers below for its own files.
const TURNS: usize = 1000;
const MAY_MOVE: usize = 1;

static SPARES: [AtomicPtr<Header<Mapped>>; COUNT] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; COUNT];

/// Creates missing files.
pub(crate) fn create() {
    for (index, place) in
        SPARES.iter().enumerate().filter(|(_, spare)| spare.load(Relaxed).is_null())
    {
        let Some(page) = first_page(TURNS + index) else { break };
        place.store(page as *mut _, Release);
    }
}

/// Takes a file that no process has taken, and maps all of it.
pub(crate) fn take() -> Option<&'static File> {
    let own = call(GETPID, [0; 6]) as u64;
    let is_taken = |place: &&AtomicPtr<Header<Mapped>>| {
        // SAFETY: a mapping of a page that is there, which only its owner changes.
        let page = unsafe { place.load(Acquire).as_ref() };
        page.is_some_and(|page| page.pid.compare_exchange(0, own, AcqRel, Relaxed).is_ok())
    };
    let page = SPARES.iter().find(is_taken)?.load(Relaxed) as usize;
    let address =
        call(REMAP, [page, size_of::<Header<Mapped>>(), size_of::<File>(), MAY_MOVE, 0, 0]);
    // SAFETY: a shared mapping of that many words, which stays.
    (address > 0).then(|| unsafe { &*(address as *const File) })
}
