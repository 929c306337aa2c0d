//! The file of this process: created when it starts or first locks after a fork; grown by
//! [`pages`](crate::file::pages).

use core::ffi::c_int;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32};

use crate::arch;
use crate::arch::number::{MUNMAP, TGKILL};
use crate::file::budget::{self, LIMITED, NO_ROOM, NO_WAY};
use crate::file::clock::{look, look_sometimes};
use crate::file::create::map;
use crate::file::map::{FILE, Map, PARENT, Slot, file, slot};
use crate::file::paths::{TURN, create};
use crate::file::state::{BEGINNING, FORKED, LOADING, OFF, RECORDS, done};
use crate::file::{index, pages, spares};
use crate::interpose::libc;
use crate::layout::*;
use crate::sites::{memory_map, python};
use crate::start::environment;
use crate::system::calls::{GETPID, GETPPID, GETTID, call, read};
use crate::system::rights::{has_no_ticks, is_quiet};
use crate::threads::lines;
use crate::threads::local::*;

/// Ticks until the first window of traces: some 4 ms.
const WINDOW_FIRST: u64 = 1 << 23;

static STATE: AtomicU32 = AtomicU32::new(LOADING);
/// The thread that creates the file.
static BEGINNER: AtomicU32 = AtomicU32::new(0);
static ONLY_CONTENDED: AtomicBool = AtomicBool::new(false);
/// Offset from the thread's control block to its `rseq_cs`; the minimum if it has none.
static RSEQ: AtomicIsize = AtomicIsize::new(isize::MIN);
const EEXIST: isize = -17;
const ESRCH: isize = -3;
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
    find_rseq();
    ONLY_CONTENDED.store(only_contended, Relaxed);
    libc::in_children(forked);
    STATE.store(BEGINNING, Relaxed);
    begin();
    python::find();
}

/// Makes all system calls that recording makes, so that a filter which forbids one of them ends a
/// process that is not needed.
pub(crate) fn probe() {
    attach();
    if let Some(file) = file() {
        pages::reserve_ahead(file);
        reused(file, 1);
        call(TGKILL, [call(GETPID, [0; 6]) as usize, call(GETTID, [0; 6]) as usize, 0, 0, 0, 0]);
        let mut word = [0];
        memory_map::peek((&raw const STATE) as usize, &mut word);
        look(file, arch::ticks());
    }
}

/// The child of a fork has one thread and must not write its parent's file.
extern "C" fn forked() {
    arch::set_thread_word(0);
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
        file[H_ENDED].store(1, Relaxed);
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

/// Creates the file of a forked process that has not locked yet.
fn begin_after_fork() {
    if STATE.compare_exchange(FORKED, BEGINNING, AcqRel, Relaxed).is_ok() {
        begin();
    }
}

fn begin() {
    // Relaxed, until `FILE` is stored: only this thread begins, and others wait in `begin::done`.
    BEGINNER.store(call(GETTID, [0; 6]) as u32, Relaxed);
    pages::forget();
    index::forget();
    let known = memory_map::forget();
    let parent = PARENT.swap(core::ptr::null_mut(), Relaxed);
    // SAFETY: the mapping of the parent, which only this function unmaps.
    let parent = (!parent.is_null()).then(|| unsafe { &*parent });
    let made = make();
    match (made, parent) {
        (Ok(file), parent) => {
            memory_map::learn_all(file);
            if let Some(parent) = parent {
                memory_map::inherit(file, parent, known);
            }
            // Release: pairs with the acquire load of `map::file`, and publishes the new file and
            // the indexes that were cleared above.
            FILE.store(core::ptr::from_ref(file).cast_mut(), Release);
        }
        // The parent's pages remain part of its file, and its header is one of them.
        (Err(why), Some(parent)) => drop(parent[H_CHILDREN_LOST + why].fetch_add(1, Relaxed)),
        (Err(why), None) => budget::lost(why),
    }
    if let Some(parent) = parent {
        let start = core::ptr::from_ref(parent) as usize;
        call(MUNMAP, [start, FILE_WORDS * 8, 0, 0, 0, 0]);
    }
    // Release: pairs with the acquire loads of `attach` and `begin::done`.
    STATE.store(if made.is_ok() { RECORDS } else { OFF }, Release);
}

fn make() -> Result<&'static Map, usize> {
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
    if !pages::reserve(file, 0, PAGE) {
        call(MUNMAP, [core::ptr::from_ref(file) as usize, FILE_WORDS * 8, 0, 0, 0, 0]);
        return Err(NO_ROOM);
    }
    for (word, value) in [
        (H_VERSION, VERSION),
        (H_PID, call(GETPID, [0; 6]) as u64),
        (H_PARENT, call(GETPPID, [0; 6]) as u64),
        (H_DETAILS, 1),
        (H_STAMP, arch::stamp()),
        (H_BASE, core::ptr::from_ref(file) as u64),
    ] {
        // Relaxed: see above.
        file[word].store(value, Relaxed);
    }
    read(b"/proc/self/cmdline\0", &file[H_COMMAND..H_COMMAND + COMMAND_WORDS]);
    let begin = arch::ticks();
    look(file, begin);
    // Relaxed: see above.
    file[H_TICKS_BEGIN].store(begin, Relaxed);
    file[H_WINDOW_NEXT].store(begin + WINDOW_FIRST, Relaxed);
    file[H_NS_BEGIN].store(file[H_NS_LAST].load(Relaxed), Relaxed);
    file[H_MAGIC].store(MAGIC, Relaxed);
    Ok(file)
}

/// Returns a slot for this thread: one whose thread has ended, or a new one.
#[cold]
#[inline(never)]
pub(crate) fn attach() -> Option<&'static Slot> {
    // Acquire: pairs with the release store of `begin`.
    match STATE.load(Acquire) {
        RECORDS => {}
        FORKED if STATE.compare_exchange(FORKED, BEGINNING, AcqRel, Relaxed).is_ok() => begin(),
        BEGINNING | FORKED if done(&STATE, &BEGINNER) == RECORDS => {}
        LOADING | BEGINNING | FORKED => return None,
        _ => {
            arch::set_thread_word(1);
            return None;
        }
    }
    let file = file()?;
    // Relaxed, here and below: statistics that do not depend on each other.
    file[H_THREADS].fetch_add(1, Relaxed);
    let slot = if has_no_ticks() {
        None
    } else {
        look_sometimes(file, arch::ticks());
        reused(file, 4).or_else(|| fresh(file)).or_else(|| reused(file, SLOT_COUNT))
    };
    let Some(slot) = slot else {
        // Relaxed: as above.
        file[H_THREADS_LOST].fetch_add(1, Relaxed);
        pages::unrecorded(1);
        if (file[H_SLOTS].load(Relaxed) as usize) < SLOT_COUNT {
            file[H_THREADS_UNROOMED].fetch_add(1, Relaxed);
        }
        leave();
        return None;
    };
    // Relaxed: the exchange of `reused` or the addition of `fresh` gave this thread the slot.
    // Others read it to describe waits, and may see words of its previous thread.
    let generation = slot[S_GENERATION].load(Relaxed) + 1;
    let generation = generation & ((1 << Told::GENERATION_BITS) - 1);
    slot[S_GENERATION].store(generation, Relaxed);
    for word in [S_TRACE, S_POKED, S_WAITS].into_iter().chain(S_UNITS..S_UNITS + UNIT_COUNT) {
        slot[word].store(0, Relaxed);
    }
    // Relaxed: set by `find_rseq` before the program has threads.
    let rseq = match RSEQ.load(Relaxed) {
        isize::MIN => 0,
        offset => arch::thread_pointer().wrapping_add_signed(offset) as u64,
    };
    let (own, number) = (arch::own(), number(file, slot));
    let due = if number < PRIVATE { &slot[S_COUNTDOWN] } else { &own[O_COUNTDOWN] };
    // The first word is set last.
    own[1..].iter().for_each(|word| word.store(0, Relaxed));
    for (word, value) in [
        (O_THREAD, slot[S_THREAD].load(Relaxed)),
        (O_GENERATION, generation),
        (O_RSEQ, rseq),
        (O_SLOT, number as u64),
        (O_LINES, lines::lines(file, slot, number) as u64),
        (O_DUE, core::ptr::from_ref(due) as u64),
        // Relaxed: words of this thread only.
        (O_COUNTDOWN, slot[S_COUNTDOWN].load(Relaxed).max(1)),
    ] {
        own[word].store(value, Relaxed);
    }
    if rseq != 0 {
        // From now on switches are detected, see `Thread::switches`.
        // SAFETY: the `rseq_cs` word of this thread.
        unsafe { arch::word(rseq) }.store(arch::section(), Relaxed);
    }
    file[H_SEES_SWITCHES].store(u64::from(rseq != 0), Relaxed);
    index::attached(own[O_THREAD].load(Relaxed), number);
    arch::set_thread_word(core::ptr::from_ref(slot) as usize);
    Some(slot)
}

/// Stops recording this thread.
pub(crate) fn leave() {
    for word in &arch::own()[1..] {
        word.store(0, Relaxed);
    }
    arch::set_thread_word(1);
}

/// Finds where libc has registered the structure that the kernel shares with each thread.
fn find_rseq() {
    let offset = libc::exported::<isize>(c"__rseq_offset");
    let size = libc::exported::<u32>(c"__rseq_size").unwrap_or(0);
    if let Some(offset) = offset.filter(|_| size > 0) {
        // `rseq_cs` is at offset 8 of the structure.
        RSEQ.store(offset + 8, Relaxed);
    }
}

/// Returns the number of a slot.
fn number(file: &Map, slot: &Slot) -> usize {
    let start = core::ptr::from_ref(slot) as usize - core::ptr::from_ref(file) as usize;
    (start / 8 - SLOTS) / SLOT_WORDS
}

/// Returns a slot whose thread has ended, among the next `count`.
fn reused(file: &'static Map, count: usize) -> Option<&'static Slot> {
    if is_quiet() {
        return None;
    }
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(SLOT_COUNT);
    let (pid, own) = (file[H_PID].load(Relaxed) as usize, call(GETTID, [0; 6]) as u64);
    (0..count.min(used)).find_map(|_| {
        // Relaxed: any slot may be tried.
        let index = file[H_CURSOR].fetch_add(1, Relaxed) as usize % used;
        // There was no room for this slot, or it is not reserved yet.
        if !pages::is_there(SLOTS + index * SLOT_WORDS) || !pages::is_there(FEW + index * FEW_WORDS)
        {
            return None;
        }
        let slot = slot(file, index);
        let thread = slot[S_THREAD].load(Relaxed);
        let ended = thread == own
            || thread != 0 && call(TGKILL, [pid, thread as usize, 0, 0, 0, 0]) == ESRCH;
        // Relaxed: the exchange gives the slot to one thread. Its last thread has ended, and its
        // words are statistics, which need no ordering.
        (ended && slot[S_THREAD].compare_exchange(thread, own, Relaxed, Relaxed).is_ok())
            .then_some(slot)
    })
}

fn fresh(file: &'static Map) -> Option<&'static Slot> {
    // Relaxed: the addition alone gives each thread a different slot.
    let index = file[H_SLOTS].fetch_add(1, Relaxed) as usize;
    let few = || pages::reserve(file, FEW + index * FEW_WORDS, FEW_WORDS);
    if index >= SLOT_COUNT || !pages::reserve(file, SLOTS + index * SLOT_WORDS, S_LINES) || !few() {
        return None;
    }
    let slot = slot(file, index);
    let own = thread(index);
    for (word, value) in [
        (S_COUNTDOWN, 1 + own % SAMPLED),
        (S_RANDOM, own.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        (S_PHASE_SHIFT, PHASE_SHIFT),
        (S_LOCK_PHASE_SHIFT, PHASE_SHIFT),
        (S_THREAD, own),
    ] {
        // Relaxed: the slot belongs to this thread, and readers take each word by itself.
        slot[word].store(value, Relaxed);
    }
    Some(slot)
}

/// Returns the ID of this thread, or a substitute where system calls are forbidden.
fn thread(index: usize) -> u64 {
    const NONE: u64 = 1 << 40;
    match call(GETTID, [0; 6]) {
        own if own > 0 => own as u64,
        _ => NONE + index as u64,
    }
}
