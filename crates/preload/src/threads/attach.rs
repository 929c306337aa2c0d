//! Slots of the file for threads.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicIsize, AtomicU64};

use crate::arch;
use crate::arch::number::TGKILL;
use crate::file::clock::look_sometimes;
use crate::file::map::{File, Slot, file, get, set};
use crate::file::state::{OFF, RECORDS};
use crate::file::{index, pages, process};
use crate::interpose::libc;
use crate::layout::{PHASE_SHIFT, SAMPLED, SLOT_COUNT, Told};
use crate::system::calls::{GETPID, GETTID, call};
use crate::system::rights::{has_no_ticks, is_quiet};
use crate::threads::lines;
use crate::threads::local::{LOCAL_BYTES, Local, PRIVATE};

/// Offset from the thread's control block to its `rseq_cs`; the minimum if it has none.
static RSEQ: AtomicIsize = AtomicIsize::new(isize::MIN);
const ESRCH: isize = -3;

/// Finds where libc has registered the structure that the kernel shares with each thread.
pub(crate) fn find_rseq() {
    let offset = libc::exported::<isize>(c"__rseq_offset");
    let size = libc::exported::<u32>(c"__rseq_size").unwrap_or(0);
    if let Some(offset) = offset.filter(|_| size > 0) {
        // `rseq_cs` is at offset 8 of the structure. Relaxed: done before the program has threads.
        RSEQ.store(offset + 8, Relaxed);
    }
}

/// Returns a slot for this thread: one whose thread has ended, or a new one.
#[cold]
#[inline(never)]
pub(crate) fn attach() -> Option<&'static Slot> {
    match process::state() {
        RECORDS => {}
        OFF => {
            arch::set_thread_word(1);
            return None;
        }
        _ => return None,
    }
    let file = file()?;
    let header = &file.header;
    // Relaxed, here and below: statistics that do not depend on each other.
    header.threads.fetch_add(1, Relaxed);
    let Some((number, slot)) = find_slot(file) else {
        header.threads_lost.fetch_add(1, Relaxed);
        pages::unrecorded(1);
        if (get(&header.slots) as usize) < SLOT_COUNT {
            header.threads_unroomed.fetch_add(1, Relaxed);
        }
        leave();
        return None;
    };
    // The exchange of `reused` or the addition of `fresh` gave this thread the slot. Others read it
    // to describe waits, and may see words of its previous thread.
    let state = &slot.state;
    let generation = (get(&state.generation) + 1) & ((1 << Told::GENERATION_BITS) - 1);
    set(&state.generation, generation);
    for word in [&state.trace, &state.poked, &state.wait.lock].into_iter().chain(&state.units) {
        set(word, 0);
    }
    // Relaxed: set by `find_rseq` before the program has threads.
    let rseq = match RSEQ.load(Relaxed) {
        isize::MIN => 0,
        offset => arch::thread_pointer().wrapping_add_signed(offset) as u64,
    };
    let local = arch::local();
    let due = if number < PRIVATE { &state.countdown } else { &local.countdown };
    // The first word is set last.
    clear(local);
    set(&local.thread_id, get(&state.thread));
    set(&local.generation, generation);
    set(&local.rseq, rseq);
    set(&local.slot, number as u64);
    set(&local.lines, lines::lines(file, slot, number) as u64);
    set(&local.due, due.as_ptr() as u64);
    set(&local.countdown, get(&state.countdown).max(1));
    if rseq != 0 {
        // From now on switches are detected, see `Thread::switches`.
        // SAFETY: the `rseq_cs` word of this thread.
        set(unsafe { arch::word(rseq) }, arch::section());
    }
    set(&header.sees_switches, u64::from(rseq != 0));
    index::attached(get(&local.thread_id), number);
    arch::set_thread_word(core::ptr::from_ref(slot) as usize);
    Some(slot)
}

/// Stops recording this thread.
pub(crate) fn leave() {
    clear(arch::local());
    arch::set_thread_word(1);
}

/// Clears the data of this thread apart from the first word.
fn clear(local: &Local) {
    // SAFETY: the data consists of words.
    let words = unsafe { &*core::ptr::from_ref(local).cast::<[AtomicU64; LOCAL_BYTES / 8]>() };
    words[1..].iter().for_each(|word| set(word, 0));
}

fn find_slot(file: &'static File) -> Option<(usize, &'static Slot)> {
    if has_no_ticks() {
        return None;
    }
    look_sometimes(file, arch::ticks());
    let number = reused(file, 4).or_else(|| fresh(file)).or_else(|| reused(file, SLOT_COUNT))?;
    Some((number, &file.slots[number]))
}

/// Returns the number of a slot whose thread has ended, among the next `count`.
pub(crate) fn reused(file: &'static File, count: usize) -> Option<usize> {
    if is_quiet() {
        return None;
    }
    let used = (get(&file.header.slots) as usize).min(SLOT_COUNT);
    let (pid, thread_id) = (get(&file.header.pid) as usize, call(GETTID, [0; 6]) as u64);
    // A child that ran no fork handlers: the threads of both processes would seem to have ended.
    if call(GETPID, [0; 6]) as usize != pid {
        return None;
    }
    (0..count.min(used)).find_map(|_| {
        // Relaxed: any slot may be tried.
        let number = file.header.cursor.fetch_add(1, Relaxed) as usize % used;
        let state = &file.slots[number].state;
        // There was no room for this slot, or it is not reserved yet.
        if !pages::is_reserved(file, state) || !pages::is_reserved(file, &file.few[number]) {
            return None;
        }
        let thread = get(&state.thread);
        let has_ended = thread == thread_id
            || thread != 0 && call(TGKILL, [pid, thread as usize, 0, 0, 0, 0]) == ESRCH;
        // Relaxed: the exchange gives the slot to one thread. Its last thread has ended, and its
        // words are statistics, which need no ordering.
        (has_ended && state.thread.compare_exchange(thread, thread_id, Relaxed, Relaxed).is_ok())
            .then_some(number)
    })
}

fn fresh(file: &'static File) -> Option<usize> {
    // Relaxed: the addition alone gives each thread a different slot.
    let number = file.header.slots.fetch_add(1, Relaxed) as usize;
    if number >= SLOT_COUNT || !pages::reserve_slot(file, number) {
        return None;
    }
    let (state, thread_id) = (&file.slots[number].state, thread_id(number));
    // The slot belongs to this thread, and readers take each word by itself.
    set(&state.countdown, 1 + thread_id % SAMPLED);
    set(&state.random, thread_id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    set(&state.phase_shift, PHASE_SHIFT);
    set(&state.lock_phase_shift, PHASE_SHIFT);
    set(&state.thread, thread_id);
    Some(number)
}

/// Returns the ID of this thread, or a substitute where system calls are forbidden.
fn thread_id(number: usize) -> u64 {
    const NONE: u64 = 1 << 40;
    match call(GETTID, [0; 6]) {
        thread if thread > 0 => thread as u64,
        _ => NONE + number as u64,
    }
}
