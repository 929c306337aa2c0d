//! The file of this process: created when it starts or first locks after a fork; grown by
//! [`pages`](crate::file::pages).

use core::ffi::c_int;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::arch;
use crate::arch::number::MUNMAP;
use crate::file::budget::{self, LIMITED, NO_ROOM, NO_WAY};
use crate::file::clock::look;
use crate::file::create::map;
use crate::file::map::{FILE, File, PARENT, file, get, nearest_file, set};
use crate::file::paths::{TURN, create};
use crate::file::state::{BEGINNING, FORKED, LOADING, OFF, RECORDS, done};
use crate::file::{index, pages, spares};
use crate::interpose::libc;
use crate::layout::{MAGIC, VERSION};
use crate::sites::memory_map;
use crate::start::environment;
use crate::system::calls::{GETPID, GETPPID, GETTID, call, read};
use crate::system::rights::has_no_ticks;

/// Ticks until the first window of traces: some 4 ms.
const WINDOW_FIRST: u64 = 1 << 23;

static STATE: AtomicU32 = AtomicU32::new(LOADING);
/// The thread that creates the file.
static BEGINNER: AtomicU32 = AtomicU32::new(0);
/// Acquisitions of a forked process before it gets a file, and the maximum.
static BRIEF: AtomicU32 = AtomicU32::new(0);
const BRIEF_MOST: u32 = 16;
/// Number of threads that count such an acquisition.
static COUNTING: AtomicU32 = AtomicU32::new(0);
static ONLY_CONTENDED: AtomicBool = AtomicBool::new(false);
const EEXIST: isize = -17;
const ENOSPC: isize = -28;
const ENFILE: isize = -23;
const EMFILE: isize = -24;
const EDQUOT: isize = -122;

// Called by `exit` after `main`.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static END: extern "C" fn() = ended;

/// Marks this process as not recorded.
pub(crate) fn off() {
    STATE.store(OFF, Relaxed);
}

/// Begins to record this process.
pub(crate) fn start(only_contended: bool) {
    ONLY_CONTENDED.store(only_contended, Relaxed);
    libc::in_children(forked);
    STATE.store(BEGINNING, Relaxed);
    begin();
}

/// The child of a fork has one thread and must not write its parent's file.
extern "C" fn forked() {
    arch::set_thread_word(0);
    // Its parent times the holds that it has inherited.
    set(&arch::local().holds, 0);
    BRIEF.store(0, Relaxed);
    let file = FILE.swap(core::ptr::null_mut(), AcqRel);
    if !file.is_null() {
        // Until this process has its own file, or is found to have none.
        PARENT.store(file, Relaxed);
        STATE.store(FORKED, Relaxed);
    }
}

extern "C" fn ended() {
    if let Some(file) = file() {
        // The thread that calls exit(3) may be forbidden to read the counter.
        if !has_no_ticks() {
            look(file, arch::ticks());
        }
        set(&file.header.ended, 1);
    }
}

/// Returns whether uncontended acquisitions are not even counted.
#[inline(always)]
pub(crate) fn only_contended() -> bool {
    // Relaxed: set before the program has threads.
    ONLY_CONTENDED.load(Relaxed)
}

/// Calls libc's chroot(2), after it has created files for processes that are forked later.
pub(crate) fn change_root(path: usize) -> c_int {
    begin_after_fork();
    if file().is_some() {
        spares::create();
    }
    libc::CHROOT.call([path, 0, 0, 0])
}

/// Returns whether this process was forked and has acquired only a few free locks since. It gets a
/// file once it waits or acquires more: most processes that are forked for one request do not, and
/// a file costs each of them a millisecond.
pub(crate) fn is_brief() -> bool {
    // Relaxed: a hint; `count_brief` checks it again.
    STATE.load(Relaxed) == FORKED && BRIEF.load(Relaxed) < BRIEF_MOST
}

/// Counts an acquisition of a free lock by such a process in the file of its parent; whether it
/// has, as another thread may have begun a file since.
pub(crate) fn count_brief() -> bool {
    // SeqCst, here and in `begin`: either this thread sees that another one begins, or that one
    // sees this one and keeps the mapping.
    COUNTING.fetch_add(1, SeqCst);
    let is_forked = STATE.load(SeqCst) == FORKED;
    if is_forked {
        let [processes, acquisitions] = match nearest_file() {
            Some(parent) => &parent.header.brief,
            None => &[const { AtomicU64::new(0) }; 2],
        };
        // Relaxed: numbers, on which nothing else depends.
        if BRIEF.fetch_add(1, Relaxed) == 0 {
            processes.fetch_add(1, Relaxed);
        }
        acquisitions.fetch_add(1, Relaxed);
    }
    COUNTING.fetch_sub(1, SeqCst);
    is_forked
}

/// Creates the file of a forked process that has not locked yet.
fn begin_after_fork() {
    // SeqCst: as in `count_brief`.
    if STATE.compare_exchange(FORKED, BEGINNING, SeqCst, Relaxed).is_ok() {
        begin();
    }
}

/// Returns the state of the process. A forked process that has not locked yet gets its file first,
/// and other threads wait for that.
pub(crate) fn state() -> u32 {
    begin_after_fork();
    // Acquire: pairs with the release store of `begin`.
    match STATE.load(Acquire) {
        BEGINNING | FORKED => done(&STATE, &BEGINNER),
        state => state,
    }
}

fn begin() {
    // Relaxed, until `FILE` is stored: only this thread begins, and others wait in `begin::done`.
    BEGINNER.store(call(GETTID, [0; 6]) as u32, Relaxed);
    pages::forget();
    index::forget();
    let ranges = memory_map::forget();
    let parent = PARENT.swap(core::ptr::null_mut(), Relaxed);
    // SAFETY: the mapping of the parent, which only this function unmaps.
    let parent = (!parent.is_null()).then(|| unsafe { &*parent });
    let made = make();
    match (made, parent) {
        (Ok(file), parent) => {
            memory_map::learn_all(file);
            if let Some(parent) = parent {
                memory_map::inherit(file, parent, ranges);
            }
            // Release: pairs with the acquire load of `map::file`, and publishes the new file and
            // the indexes that were cleared above.
            FILE.store(core::ptr::from_ref(file).cast_mut(), Release);
        }
        // The parent's pages remain part of its file, and its header is one of them.
        (Err(why), Some(parent)) => drop(parent.header.children_lost[why].fetch_add(1, Relaxed)),
        (Err(why), None) => budget::lost(why),
    }
    // SeqCst: as in `count_brief`.
    if let Some(parent) = parent.filter(|_| COUNTING.load(SeqCst) == 0) {
        let start = core::ptr::from_ref(parent) as usize;
        call(MUNMAP, [start, size_of::<File>(), 0, 0, 0, 0]);
    }
    // Release: pairs with the acquire loads of `attach` and `begin::done`.
    STATE.store(if made.is_ok() { RECORDS } else { OFF }, Release);
}

fn make() -> Result<&'static File, usize> {
    if environment::is_limited() || has_no_ticks() {
        return Err(LIMITED);
    }
    let mut descriptor = EEXIST;
    for turn in 0..1000 {
        // Relaxed: published by the release store of `begin`, as are all stores to the new file.
        TURN.store(turn, Relaxed);
        descriptor = create(turn);
        if descriptor != EEXIST {
            break;
        }
    }
    let file = match descriptor {
        0.. => map(descriptor)?,
        ENOSPC | EDQUOT => return Err(NO_ROOM),
        EMFILE | ENFILE => spares::take().ok_or(LIMITED)?,
        _ => spares::take().ok_or(NO_WAY)?,
    };
    let header = &file.header;
    if !pages::reserve(file, header) {
        call(MUNMAP, [core::ptr::from_ref(file) as usize, size_of::<File>(), 0, 0, 0, 0]);
        return Err(NO_ROOM);
    }
    set(&header.version, VERSION);
    set(&header.pid, call(GETPID, [0; 6]) as u64);
    set(&header.parent, call(GETPPID, [0; 6]) as u64);
    set(&header.details, 1);
    set(&header.stamp, arch::stamp());
    set(&header.base, core::ptr::from_ref(file) as u64);
    read(b"/proc/self/cmdline\0", &header.command);
    let begin = arch::ticks();
    look(file, begin);
    set(&header.ticks_begin, begin);
    set(&header.window_next, begin + WINDOW_FIRST);
    set(&header.ns_begin, get(&header.ns_last));
    set(&header.magic, MAGIC);
    Ok(file)
}
