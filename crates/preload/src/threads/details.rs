//! Distributions of times. Each of the first [`PRIVATE`] threads has separate details for each key,
//! and separate phases. All other threads share theirs, one for each CPU: if thousands of threads
//! take turns, data of a single thread is not in any cache when it resumes, and fetching it would
//! take longer than all other recording. Two threads on one CPU do not lose each other's additions,
//! since each addition is one instruction; if a thread migrates in the middle of an addition, a
//! counter may miss one.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::file::index::{KNOWN, SHARED};
use crate::file::map::{self, Map, Slot, add};
use crate::file::pages;
use crate::layout::*;
use crate::policy::mutex;
use crate::sites::memory_map;
use crate::threads::detail::{Detail, callers, cpu, store_callers, words_of};
use crate::threads::lines::Key;
use crate::threads::local::*;
use crate::threads::thread::Thread;

/// Maximum number of shared details per key, a power of two.
const SHARDS: usize = 64;
/// Number of table entries that are probed for shared details.
const PROBES: usize = 16;

/// Number of shared details per key; 0 until it is computed.
static SHARD_COUNT: AtomicUsize = AtomicUsize::new(0);

impl Thread {
    /// Returns whether this thread shares details and phases with other threads.
    fn shares(self) -> bool {
        self.own(O_SLOT) >= PRIVATE as u64
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
        let words = key.and_then(|key| self.key_words(self.number(key)));
        let Some(key) = words else {
            add(&self.0[S_UNTOLD], 1);
            return None;
        };
        let file = map::file()?;
        // Relaxed: only this thread writes the words of its keys, and the acquire of `find_shared`
        // has made shared details visible.
        let told = Told(key[K_DETAIL].load(Relaxed));
        let mut index = told.detail();
        let is_known = index != 0
            && !(with_callers
                && self.shares()
                && words_of(file, index as usize)[D_CALLERS].load(Relaxed) == 0);
        if !is_known {
            // Relaxed: as above.
            let (lock, site) = (key[K_LOCK].load(Relaxed), key[K_SITE].load(Relaxed));
            let shared =
                if self.shares() { find_shared(file, lock, site, with_callers) } else { 0 };
            index = match shared {
                0 if index == 0 => make(file, lock, site, 0),
                0 => index,
                shared => shared,
            };
        }
        let now = told.used(index, self.own(O_GENERATION));
        if now != told {
            // Relaxed: as above.
            key[K_DETAIL].store(now.0, Relaxed);
        }
        if index == 0 {
            add(&self.0[S_UNTOLD], 1);
        }
        Detail::at(file, index)
    }

    /// Adds a wait that ended at `now` to the phases of the run.
    pub(crate) fn phase(self, wait: u64, now: u64, for_lock: bool) {
        let Some(file) = map::file() else { return };
        let since = now.saturating_sub(file[H_TICKS_BEGIN].load(Relaxed));
        let here = cpu() % PRIVATE;
        if self.shares() && !pages::is_there(SLOTS + here * SLOT_WORDS) {
            return;
        }
        let slot = if self.shares() { map::slot(file, here) } else { self.0 };
        book(slot, wait, since, S_PHASES, PHASE_COUNT, S_PHASE_SHIFT);
        if for_lock {
            book(slot, wait, since, S_LOCK_PHASES, LOCK_PHASE_COUNT, S_LOCK_PHASE_SHIFT);
        }
    }
}

/// Adds a wait that ended `since` ticks after the start of the run to the `count` phases at `from`.
fn book(slot: &Slot, wait: u64, since: u64, from: usize, count: usize, shift: usize) {
    while since >> slot[shift].load(Relaxed) >= count as u64 {
        if slot[S_FOLDS].swap(1, Acquire) == 1 {
            // Another thread is folding, and this one must not wait for it.
            return;
        }
        if since >> slot[shift].load(Relaxed) >= count as u64 {
            fold(slot, from, count, shift);
        }
        slot[S_FOLDS].store(0, Release);
    }
    // Relaxed: if another thread merges phases at this moment, the wait is added to a wrong phase.
    add(&slot[from + (since >> slot[shift].load(Relaxed)) as usize], wait);
}

/// Merges each two adjacent phases.
#[cold]
fn fold(slot: &Slot, from: usize, count: usize, shift: usize) {
    for phase in 0..count {
        let one = |at: usize| slot[from + at].load(Relaxed);
        let sum = if phase < count / 2 { one(2 * phase) + one(2 * phase + 1) } else { 0 };
        slot[from + phase].store(sum, Relaxed);
    }
    add(&slot[shift], 1);
}

/// Returns the shared details of a key, with or without callers; 0 if there are none.
#[cold]
fn find_shared(file: &'static Map, lock: u64, site: u64, with_callers: bool) -> u64 {
    let callers = if with_callers && site & CONTEXT == 0 { callers(site) } else { [0; CALLERS] };
    let mixed = [lock, site].iter().chain(&callers).fold(0_u64, |hash, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let hash = mixed >> Told::DETAIL_BITS | 1;
    let probes = (0..PROBES).map(|at| &KNOWN[(hash as usize + at) % SHARED]);
    for known in probes {
        // Acquire: pairs with the release of the thread that made the details.
        let mut found = known.load(Acquire);
        if found == 0 {
            let made = make(file, lock, site, shards());
            if made == 0 {
                return 0;
            }
            store_callers(words_of(file, made as usize), &callers);
            // Release: pairs with the acquire loads of `KNOWN`, here and above; it publishes the
            // words of the details.
            let own = hash << Told::DETAIL_BITS | made;
            found = match known.compare_exchange(0, own, Release, Acquire) {
                Ok(_) => own,
                // Another thread was first; the details made here stay empty.
                Err(other) => other,
            };
        }
        if found >> Told::DETAIL_BITS == hash & (u64::MAX >> Told::DETAIL_BITS) {
            return Told(found).detail();
        }
    }
    0
}

fn shards() -> usize {
    // Relaxed: all threads compute the same number.
    let known = SHARD_COUNT.load(Relaxed);
    if known != 0 {
        return known;
    }
    let count = (mutex::cpus() as usize).next_power_of_two().clamp(1, SHARDS);
    SHARD_COUNT.store(count, Relaxed);
    count
}

/// Allocates `shards` shared details for a new key, or one that is not shared. Returns the index of
/// the first, 0 if none are left.
#[cold]
fn make(file: &'static Map, lock: u64, site: u64, shards: usize) -> u64 {
    let count = shards.max(1);
    // Relaxed: the addition alone gives each thread a different index. The details are published by
    // the release of `find_shared`, or belong to this thread.
    if file[H_DETAILS].load(Relaxed) >= DETAIL_COUNT as u64 {
        return 0;
    }
    let index = file[H_DETAILS].fetch_add(count as u64, Relaxed);
    let word = DETAILS + index as usize * DETAIL_WORDS;
    if index + count as u64 > DETAIL_COUNT as u64 {
        // Relaxed: as above.
        file[H_DETAILS].store(DETAIL_COUNT as u64, Relaxed);
        return 0;
    }
    if !pages::reserve(file, word, count * DETAIL_WORDS) {
        return 0;
    }
    for (at, value) in [(D_SHARDS, shards as u64), (D_SITE, site), (D_LOCK, lock)] {
        // Relaxed: see above.
        file[word + at].store(value, Relaxed);
    }
    if site & (CONTEXT | PYTHON) == 0 {
        memory_map::learn(file, site);
    }
    index
}

/// Allocates a trace, and returns its first word.
#[cold]
pub(crate) fn trace(file: &Map) -> Option<usize> {
    // Relaxed: the addition alone gives each thread a different trace.
    if file[H_TRACES].load(Relaxed) >= TRACE_COUNT as u64 {
        return None;
    }
    let index = file[H_TRACES].fetch_add(1, Relaxed);
    let word = TRACES + index as usize * TRACE_WORDS;
    let has_room = index < TRACE_COUNT as u64 && pages::reserve(file, word, TRACE_WORDS);
    if !has_room {
        // Relaxed: as above.
        file[H_TRACES].store(TRACE_COUNT as u64, Relaxed);
    }
    has_room.then_some(word)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn phases_are_merged_when_the_run_outgrows_them_and_no_wait_is_lost() {
        let words = (0..SLOT_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let slot: &Slot = words[..].try_into().unwrap();
        slot[S_PHASE_SHIFT].store(PHASE_SHIFT, Relaxed);
        let phase = |at: usize| slot[S_PHASES + at].load(Relaxed);
        let book = |wait, since| book(slot, wait, since, S_PHASES, PHASE_COUNT, S_PHASE_SHIFT);
        book(3, 0);
        book(4, 1 << PHASE_SHIFT);
        book(5, (PHASE_COUNT as u64 - 1) << PHASE_SHIFT);
        assert_eq!([phase(0), phase(1), phase(PHASE_COUNT - 1)], [3, 4, 5]);
        // The first time beyond the last phase, and four times as late.
        book(6, (PHASE_COUNT as u64) << PHASE_SHIFT);
        assert_eq!(slot[S_PHASE_SHIFT].load(Relaxed), PHASE_SHIFT + 1);
        assert_eq!([0, PHASE_COUNT / 2 - 1, PHASE_COUNT / 2].map(phase), [7, 5, 6]);
        book(8, (PHASE_COUNT as u64) << (PHASE_SHIFT + 2));
        assert_eq!(slot[S_PHASE_SHIFT].load(Relaxed), PHASE_SHIFT + 3);
        let places = [0, PHASE_COUNT / 8 - 1, PHASE_COUNT / 8, PHASE_COUNT / 2];
        assert_eq!(places.map(phase), [7, 5, 6, 8]);
        assert_eq!((0..PHASE_COUNT).map(phase).sum::<u64>(), 3 + 4 + 5 + 6 + 8);
        assert_eq!(slot[S_FOLDS].load(Relaxed), 0, "the lock of merging is released");
    }
}
