//! Where times go. Each of the first [`PRIVATE`] threads has separate details for each key, and
//! separate phases. All others share theirs, one for each CPU: if thousands of threads take turns,
//! data of a single thread is not in any cache when it resumes, and fetching it would take longer
//! than all other recording. What two threads of one CPU add is added whole, since each addition is
//! one instruction; if a thread moves to another CPU in the middle of adding, one number may miss
//! one.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::keys::Key;
use crate::layout::*;
use crate::local::*;
use crate::process::{self, Map, Slot};
use crate::thread::{Thread, add};
use crate::{arch, code, own, room, stack};

/// Details that threads share for one key at most, a power of two.
const SHARDS: usize = 64;
/// Shared details that are found again, and places that are looked at for one.
const SHARED: usize = 1024;
const PROBES: usize = 16;

/// Hashes of keys with their callers, each above the first of their details.
static KNOWN: [AtomicU64; SHARED] = [const { AtomicU64::new(0) }; SHARED];
/// Details of a key that are shared; 0: not counted yet.
static SHARD_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The file is a new one.
pub(crate) fn forget() {
    for word in &KNOWN {
        word.store(0, Relaxed);
    }
}

/// The callers of a place, as [`D_CALLERS`] has them; zeros: nobody has looked.
type Callers = [u64; CALLERS];

/// The distributions of a key.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    file: &'static Map,
    /// The only one, or the first of those that threads share.
    first: usize,
}

fn words_of(file: &'static Map, index: usize) -> &'static [AtomicU64] {
    &file[DETAILS + index * DETAIL_WORDS..][..DETAIL_WORDS]
}

/// The CPU that this thread runs on as far as that is known without a call; else any number.
#[inline]
fn cpu() -> usize {
    let own = arch::own();
    match own[O_RSEQ].load(Relaxed) {
        0 => own[O_SLOT].load(Relaxed) as usize,
        // SAFETY: before `rseq_cs` are two numbers of the CPU, of 32 bits each.
        rseq => unsafe { arch::word(rseq - 8) }.load(Relaxed) as usize & 0xffff_ffff,
    }
}

impl Thread {
    /// Whether it shares with others what it adds to.
    fn shares(self) -> bool {
        self.own(O_SLOT) >= PRIVATE as u64
    }

    /// The distributions of a key, made when first asked for.
    pub(crate) fn detail(self, key: Option<Key>) -> Option<Detail> {
        self.find_detail(key, false)
    }

    /// The same with who called, before a wait.
    pub(crate) fn detail_of_wait(self, key: Option<Key>) -> Option<Detail> {
        let detail = self.find_detail(key, true)?;
        detail.learn_callers();
        Some(detail)
    }

    /// Notes who called at a hold; where threads share details, only waits are told by callers.
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
        let file = process::file()?;
        let told = Told(key[K_DETAIL].load(Relaxed));
        let mut index = told.detail();
        let is_known = index != 0
            && !(with_callers
                && self.shares()
                && words_of(file, index as usize)[D_CALLERS].load(Relaxed) == 0);
        if !is_known {
            let (lock, site) = (key[K_LOCK].load(Relaxed), key[K_SITE].load(Relaxed));
            let shared =
                if self.shares() { find_shared(file, (lock, site), with_callers) } else { 0 };
            index = match shared {
                0 if index == 0 => make(file, (lock, site), 0),
                0 => index,
                shared => shared,
            };
        }
        let now = told.used(index, self.own(O_GENERATION));
        if now != told {
            key[K_DETAIL].store(now.0, Relaxed);
        }
        if index == 0 {
            add(&self.0[S_UNTOLD], 1);
        }
        Detail::at(file, index)
    }

    /// Books a wait that ended at `now` to the phases of the run.
    pub(crate) fn phase(self, wait: u64, now: u64, for_lock: bool) {
        let Some(file) = process::file() else { return };
        let since = now.saturating_sub(file[H_TICKS_BEGIN].load(Relaxed));
        let here = cpu() % PRIVATE;
        if self.shares() && !room::is_there(SLOTS + here * SLOT_WORDS) {
            return;
        }
        let slot = if self.shares() { process::slot(file, here) } else { self.0 };
        book(slot, (wait, since), (S_PHASES, PHASE_COUNT, S_PHASE_SHIFT));
        if for_lock {
            book(slot, (wait, since), (S_LOCK_PHASES, LOCK_PHASE_COUNT, S_LOCK_PHASE_SHIFT));
        }
    }
}

/// Books a wait that ended so long after the begin to phases that lie at `from`, of which there
/// are `count`.
fn book(slot: &Slot, (wait, since): (u64, u64), (from, count, shift): (usize, usize, usize)) {
    while since >> slot[shift].load(Relaxed) >= count as u64 {
        if slot[S_FOLDS].swap(1, Acquire) == 1 {
            // Another thread, which this one must not wait for.
            return;
        }
        if since >> slot[shift].load(Relaxed) >= count as u64 {
            fold(slot, (from, count, shift));
        }
        slot[S_FOLDS].store(0, Release);
    }
    add(&slot[from + (since >> slot[shift].load(Relaxed)) as usize], wait);
}

/// Makes one of each two phases.
#[cold]
fn fold(slot: &Slot, (from, count, shift): (usize, usize, usize)) {
    for phase in 0..count {
        let one = |at: usize| slot[from + at].load(Relaxed);
        let sum = if phase < count / 2 { one(2 * phase) + one(2 * phase + 1) } else { 0 };
        slot[from + phase].store(sum, Relaxed);
    }
    add(&slot[shift], 1);
}

impl Detail {
    pub(crate) fn at(file: &'static Map, index: u64) -> Option<Self> {
        (index != 0).then_some(Self { file, first: index as usize })
    }

    /// Its number.
    pub(crate) fn index(self) -> u64 {
        self.first as u64
    }

    /// That of this CPU, if threads share it.
    #[inline]
    fn here(self) -> &'static [AtomicU64] {
        let first = words_of(self.file, self.first);
        match first[D_SHARDS].load(Relaxed) as usize {
            0 => first,
            shards => words_of(self.file, self.first + cpu() % shards),
        }
    }

    /// Notes who called, the first time.
    pub(crate) fn learn_callers(self) {
        let words = words_of(self.file, self.first);
        if words[D_CALLERS].load(Relaxed) != 0 {
            return;
        }
        // Before: the unwinder may wait for a mutex of its own.
        words[D_CALLERS].store(1, Relaxed);
        store_callers(words, &callers(words[D_SITE].load(Relaxed)));
    }

    /// Adds one to one of its plain numbers.
    pub(crate) fn add(self, word: usize) {
        self.add_many(word, 1);
    }

    /// The same of more.
    pub(crate) fn add_many(self, word: usize, many: u64) {
        add(&self.here()[word], many);
    }

    /// Adds a time that stands for `weight` of them.
    #[inline(never)]
    pub(crate) fn record(self, list: usize, ticks: u64, weight: u64) {
        let list = &self.here()[D_LISTS + list * LIST_WORDS..][..LIST_WORDS];
        add(&list[0], weight);
        add(&list[1], ticks * weight);
        if ticks > list[2].load(Relaxed) {
            list[2].store(ticks, Relaxed);
        }
        add(&list[4 + bucket(ticks)], weight);
    }
}

/// The callers of the function around `site`; 1 and zeros if it has none.
fn callers(site: u64) -> Callers {
    let mut frames = [0; CALLERS];
    if stack::callers(site as usize, &mut frames) == 0 {
        frames[0] = 1;
    }
    frames
}

fn store_callers(words: &[AtomicU64], callers: &Callers) {
    for (place, frame) in words[D_CALLERS..].iter().zip(callers) {
        place.store(*frame, Relaxed);
    }
}

/// The details that threads share for a key, the callers known or not; 0 if there are none.
#[cold]
fn find_shared(file: &'static Map, (lock, site): (u64, u64), with_callers: bool) -> u64 {
    let callers = if with_callers && site & CONTEXT == 0 { callers(site) } else { [0; CALLERS] };
    let mixed = [lock, site].iter().chain(&callers).fold(0_u64, |hash, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let hash = mixed >> Told::DETAIL_BITS | 1;
    let probes = (0..PROBES).map(|at| &KNOWN[(hash as usize + at) % SHARED]);
    for known in probes {
        // Acquire: pairs with the release of whoever has made them.
        let mut found = known.load(Acquire);
        if found == 0 {
            let made = make(file, (lock, site), shards());
            if made == 0 {
                return 0;
            }
            store_callers(words_of(file, made as usize), &callers);
            let own = hash << Told::DETAIL_BITS | made;
            found = match known.compare_exchange(0, own, Release, Acquire) {
                Ok(_) => own,
                // Another thread was first; what was made here stays empty.
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
    let known = SHARD_COUNT.load(Relaxed);
    if known != 0 {
        return known;
    }
    let count = (own::cpus() as usize).next_power_of_two().clamp(1, SHARDS);
    SHARD_COUNT.store(count, Relaxed);
    count
}

/// Details for a new key, so many that threads share or one that they do not: the first of them; 0
/// if none are left.
#[cold]
fn make(file: &'static Map, (lock, site): (u64, u64), shards: usize) -> u64 {
    let count = shards.max(1);
    if file[H_DETAILS].load(Relaxed) >= DETAIL_COUNT as u64 {
        return 0;
    }
    let index = file[H_DETAILS].fetch_add(count as u64, Relaxed);
    let word = DETAILS + index as usize * DETAIL_WORDS;
    if index + count as u64 > DETAIL_COUNT as u64 {
        file[H_DETAILS].store(DETAIL_COUNT as u64, Relaxed);
        return 0;
    }
    if !room::reserve(file, word, count * DETAIL_WORDS) {
        return 0;
    }
    for (at, value) in [(D_SHARDS, shards as u64), (D_SITE, site), (D_LOCK, lock)] {
        file[word + at].store(value, Relaxed);
    }
    if site & CONTEXT == 0 {
        code::learn(file, site);
    }
    index
}

/// A free trace.
#[cold]
pub(crate) fn trace(file: &Map) -> Option<usize> {
    if file[H_TRACES].load(Relaxed) >= TRACE_COUNT as u64 {
        return None;
    }
    let index = file[H_TRACES].fetch_add(1, Relaxed);
    let word = TRACES + index as usize * TRACE_WORDS;
    let has_room = index < TRACE_COUNT as u64 && room::reserve(file, word, TRACE_WORDS);
    if !has_room {
        file[H_TRACES].store(TRACE_COUNT as u64, Relaxed);
    }
    has_room.then_some(word)
}
