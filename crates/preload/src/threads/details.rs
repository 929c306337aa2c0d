//! Distributions of times. Each of the first [`PRIVATE`] threads has separate details for each key,
//! and separate phases. All other threads share theirs, one for each CPU: if thousands of threads
//! take turns, data of a single thread is not in any cache when it resumes, and fetching it would
//! take longer than all other recording. Two threads on one CPU do not lose each other's additions,
//! since each addition is one instruction; if a thread migrates in the middle of an addition, a
//! counter may miss one.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::arch;
use crate::file::index::{KNOWN, SHARED};
use crate::file::map::{self, File, add, get, set};
use crate::file::pages;
use crate::layout::{CALLERS, CONTEXT, DETAIL_COUNT, Mapped, PYTHON, TRACE_COUNT, Told, Trace};
use crate::policy::spin;
use crate::sites::memory_map;
use crate::threads::detail::{Detail, callers, cpu, store_callers};
use crate::threads::lines::Key;
use crate::threads::local::PRIVATE;
use crate::threads::thread::Thread;

/// Maximum number of shared details per key, a power of two.
const SHARDS: usize = 64;
/// Number of table entries that are probed for shared details.
const PROBES: usize = 16;

/// Number of shared details per key.
static SHARD_COUNT: AtomicUsize = AtomicUsize::new(1);

impl Thread {
    /// Returns whether this thread shares details and phases with other threads.
    fn shares(self) -> bool {
        self.number_of_slot() >= PRIVATE
    }

    /// Returns the distributions of a key, and allocates them the first time.
    pub(crate) fn detail(self, key: Option<Key>) -> Option<Detail> {
        self.find_detail(key, false)
    }

    /// Returns the same, with the callers recorded, before a wait.
    pub(crate) fn detail_of_wait(self, key: Option<Key>) -> Option<Detail> {
        let detail = self.find_detail(key, true)?;
        detail.learn_callers();
        Some(detail)
    }

    /// Records the callers at a hold; threads that share details distinguish only waits by callers.
    pub(crate) fn learn_callers(self, detail: Detail) {
        if !self.shares() {
            detail.learn_callers();
        }
    }

    fn find_detail(self, key: Option<Key>, with_callers: bool) -> Option<Detail> {
        let Some(key) = key.and_then(|key| self.key_data(self.number(key))) else {
            add(&self.state().untold, 1);
            return None;
        };
        let file = map::file()?;
        // Only this thread writes the words of its keys, and the acquire of `find_shared` has made
        // shared details visible.
        let told = Told(get(&key.told));
        let mut index = told.detail();
        let lacks_callers = index != 0
            && with_callers
            && self.shares()
            && get(&file.details[index as usize].callers[0]) == 0;
        if index == 0 || lacks_callers {
            let (lock, site) = (get(&key.lock), get(&key.site));
            let shared =
                if self.shares() { find_shared(file, lock, site, with_callers) } else { 0 };
            index = match shared {
                0 if index == 0 => make(file, lock, site, 0),
                0 => index,
                shared => shared,
            };
        }
        let now = told.used(index, get(&arch::local().generation));
        if now != told {
            set(&key.told, now.0);
        }
        if index == 0 {
            add(&self.state().untold, 1);
        }
        Detail::at(file, index)
    }

    /// Adds a wait that ended at `now` to the phases of the run.
    pub(crate) fn phase(self, wait: u64, now: u64, for_lock: bool) {
        let Some(file) = map::file() else { return };
        let since = now.saturating_sub(get(&file.header.ticks_begin));
        let slot = if self.shares() { &file.slots[cpu() % PRIVATE] } else { self.slot() };
        let state = &slot.state;
        if self.shares() && !pages::is_reserved(file, state) {
            return;
        }
        book(&slot.phases, &state.phase_shift, &state.folds, wait, since);
        if for_lock {
            book(&slot.lock_phases, &state.lock_phase_shift, &state.folds, wait, since);
        }
    }
}

/// Adds a wait that ended `since` ticks after the start of the run to phases of two to the power of
/// `shift` ticks.
fn book(phases: &[AtomicU64], shift: &AtomicU64, folds: &AtomicU64, wait: u64, since: u64) {
    while since >> get(shift) >= phases.len() as u64 {
        // Acquire and release: of two threads, one folds.
        if folds.swap(1, Acquire) == 1 {
            // Another thread is folding, and this one must not wait for it.
            return;
        }
        if since >> get(shift) >= phases.len() as u64 {
            fold(phases, shift);
        }
        folds.store(0, Release);
    }
    // If another thread merges phases at this moment, the wait is added to a wrong phase.
    add(&phases[(since >> get(shift)) as usize], wait);
}

/// Merges each two adjacent phases.
#[cold]
fn fold(phases: &[AtomicU64], shift: &AtomicU64) {
    for (index, phase) in phases.iter().enumerate() {
        let pair = phases.get(2 * index..2 * index + 2).unwrap_or_default();
        set(phase, pair.iter().map(get).sum());
    }
    add(shift, 1);
}

/// Returns the shared details of a key, with or without callers; 0 if there are none.
#[cold]
fn find_shared(file: &'static File, lock: u64, site: u64, with_callers: bool) -> u64 {
    let callers = if with_callers && site & CONTEXT == 0 { callers(site) } else { [0; CALLERS] };
    let mixed = [lock, site].iter().chain(&callers).fold(0_u64, |hash, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let hash = mixed >> Told::DETAIL_BITS | 1;
    let probes = (0..PROBES).map(|probe| &KNOWN[(hash as usize + probe) % SHARED]);
    for entry in probes {
        // Acquire: pairs with the release of the thread that made the details.
        let mut known = entry.load(Acquire);
        if known == 0 {
            let made = make(file, lock, site, SHARD_COUNT.load(Relaxed));
            if made == 0 {
                return 0;
            }
            store_callers(&file.details[made as usize], &callers);
            // Release: pairs with the acquire loads of `KNOWN`, here and above; it publishes the
            // words of the details.
            known = hash << Told::DETAIL_BITS | made;
            if let Err(other) = entry.compare_exchange(0, known, Release, Acquire) {
                // Another thread was first; the details made here stay empty.
                known = other;
            }
        }
        if known >> Told::DETAIL_BITS == hash & (u64::MAX >> Told::DETAIL_BITS) {
            return Told(known).detail();
        }
    }
    0
}

/// Asks for the number of CPUs before the program may limit its system calls.
pub(crate) fn count_cpus() {
    let count = (spin::cpus() as usize).next_power_of_two().clamp(1, SHARDS);
    // Relaxed: done before the program has threads.
    SHARD_COUNT.store(count, Relaxed);
}

/// Allocates `shards` shared details for a new key, or one that is not shared. Returns the index of
/// the first, 0 if none are left.
#[cold]
fn make(file: &'static File, lock: u64, site: u64, shards: usize) -> u64 {
    let count = shards.max(1);
    let used = &file.header.details;
    if get(used) >= DETAIL_COUNT as u64 {
        return 0;
    }
    // Relaxed: the addition alone gives each thread a different index. The details are published by
    // the release of `find_shared`, or belong to this thread.
    let index = used.fetch_add(count as u64, Relaxed);
    let Some(details) = file.details.get(index as usize..index as usize + count) else {
        set(used, DETAIL_COUNT as u64);
        return 0;
    };
    if !pages::reserve(file, details) {
        return 0;
    }
    let first = &details[0];
    set(&first.shards, shards as u64);
    set(&first.site, site);
    set(&first.lock, lock);
    if site & (CONTEXT | PYTHON) == 0 {
        memory_map::learn(file, site);
    }
    index
}

#[cold]
pub(crate) fn trace(file: &'static File) -> Option<&'static Trace<Mapped>> {
    let used = &file.header.traces;
    if get(used) >= TRACE_COUNT as u64 {
        return None;
    }
    // Relaxed: the addition alone gives each thread a different trace.
    let index = used.fetch_add(1, Relaxed);
    let trace = file.traces.get(index as usize).filter(|trace| pages::reserve(file, *trace));
    if trace.is_none() {
        set(used, TRACE_COUNT as u64);
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PHASE_SHIFT;

    #[test]
    fn phases_are_merged_when_the_run_outgrows_them_and_no_wait_is_lost() {
        const COUNT: u64 = 256;
        let phases = [const { AtomicU64::new(0) }; COUNT as usize];
        let (shift, folds) = (AtomicU64::new(PHASE_SHIFT), AtomicU64::new(0));
        let phase = |index: u64| get(&phases[index as usize]);
        let book = |wait, since| book(&phases, &shift, &folds, wait, since);
        book(3, 0);
        book(4, 1 << PHASE_SHIFT);
        book(5, (COUNT - 1) << PHASE_SHIFT);
        assert_eq!([phase(0), phase(1), phase(COUNT - 1)], [3, 4, 5]);
        // The first time beyond the last phase, and four times as late.
        book(6, COUNT << PHASE_SHIFT);
        assert_eq!(get(&shift), PHASE_SHIFT + 1);
        assert_eq!([0, COUNT / 2 - 1, COUNT / 2].map(phase), [7, 5, 6]);
        book(8, COUNT << (PHASE_SHIFT + 2));
        assert_eq!(get(&shift), PHASE_SHIFT + 3);
        let places = [0, COUNT / 8 - 1, COUNT / 8, COUNT / 2];
        assert_eq!(places.map(phase), [7, 5, 6, 8]);
        assert_eq!((0..COUNT).map(phase).sum::<u64>(), 3 + 4 + 5 + 6 + 8);
        assert_eq!(get(&folds), 0, "the lock of merging is released");
    }
}
