//! What a thread keeps: counts by lock and call site, and times of the few acquisitions that are
//! timed.
//!
//! All words are atomic because a reader and a signal handler may look at any moment; only their
//! thread writes them. A handler that locks in the middle of an update can spoil a number, no more.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::*;
use crate::process::{self, Map, Slot};
use crate::{arch, stack};

/// Places of a table that are looked at before it counts as full.
const PROBES: usize = 16;
/// Keys of a slot beyond which only locks that are waited for get one.
const KEYS_FREE: u64 = KEY_COUNT as u64 * 3 / 4;
/// Ticks between two looks at the clock: some 26 ms.
const LOOK: u64 = 1 << 26;
/// The word of a thread that is not recorded.
const UNRECORDED: usize = 1;

/// The calling thread.
#[derive(Clone, Copy)]
pub(crate) struct Thread(pub(crate) &'static Slot);

/// A key of the thread.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) word: usize,
    /// Whether every hold of it is timed.
    pub(crate) is_due: bool,
}

/// What is due at an acquisition: one in [`SAMPLED`] on average, at irregular distances, so that no
/// loop falls into step, is timed although nobody waits; and while the thread has a trace, it is a
/// step of that.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) is_sampled: bool,
    pub(crate) is_traced: bool,
}

impl Turn {
    const NOTHING: Self = Self { is_sampled: false, is_traced: false };
}

/// The distributions of a key.
#[derive(Clone, Copy)]
pub(crate) struct Detail(&'static [AtomicU64]);

/// A hold that was being timed.
pub(crate) struct Hold {
    key: usize,
    begin: u64,
    switches: u64,
    weight: u64,
}

/// What a thread does with a condition that it waited for, until it signals it.
pub(crate) struct Monitor {
    /// Whether it has taken the mutex again since.
    pub(crate) again: bool,
    /// The time since.
    pub(crate) hold: Hold,
}

fn add(word: &AtomicU64, value: u64) {
    word.store(word.load(Relaxed) + value, Relaxed);
}

impl Thread {
    /// The thread, if it is recorded.
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        let word = arch::thread_word();
        if word > UNRECORDED {
            // SAFETY: `attach` set it to a slot of the mapping, which stays.
            return Some(Self(unsafe { &*(word as *const Slot) }));
        }
        if word == UNRECORDED { None } else { process::attach().map(Self) }
    }

    pub(crate) fn get(self, word: usize) -> u64 {
        self.0[word].load(Relaxed)
    }

    pub(crate) fn set(self, word: usize, value: u64) {
        self.0[word].store(value, Relaxed);
    }

    /// Counts a call; the key of this lock and site.
    #[inline(always)]
    pub(crate) fn count(self, kind: u64, lock: usize, site: usize) -> Option<Key> {
        let (lock, site) = (lock as u64 | kind << KIND_SHIFT, site as u64);
        let mut at = place(lock, site, KEY_COUNT);
        for _ in 0..PROBES {
            let key = S_KEYS + at * KEY_WORDS;
            let found = self.get(key + K_LOCK);
            if found == lock && self.get(key + K_SITE) == site {
                let count = self.get(key + K_COUNT) + 1;
                self.set(key + K_COUNT, count);
                let is_due = count <= FIRST || self.get(key + K_DETAIL) & SLOW != 0;
                return Some(Key { word: key, is_due });
            }
            if found == 0 {
                return self.insert(key, lock, site);
            }
            at = (at + 1) & (KEY_COUNT - 1);
        }
        add(&self.0[S_LOST], 1);
        None
    }

    #[cold]
    fn insert(self, key: usize, lock: u64, site: u64) -> Option<Key> {
        let used = self.get(S_USED);
        if used >= KEYS_FREE {
            add(&self.0[S_LOST], 1);
            return None;
        }
        self.set(S_USED, used + 1);
        self.set(key + K_SITE, site);
        self.set(key + K_COUNT, 1);
        self.set(key + K_LOCK, lock);
        Some(Key { word: key, is_due: true })
    }

    /// What is due at this acquisition, see [`Turn`].
    #[inline(always)]
    pub(crate) fn turn(self) -> Turn {
        let left = self.get(S_COUNTDOWN) - 1;
        self.set(S_COUNTDOWN, left);
        if left == 0 { self.draw() } else { Turn::NOTHING }
    }

    #[cold]
    fn draw(self) -> Turn {
        let is_borrowed = self.traces() || self.get(S_POKED) == 1;
        self.set(S_POKED, 0);
        let mut left = if is_borrowed { self.get(S_LEFT).saturating_sub(1) } else { 0 };
        let is_sampled = left == 0;
        if is_sampled {
            let mut random = self.get(S_RANDOM);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            self.set(S_RANDOM, random);
            // From half to one and a half of the mean.
            left = SAMPLED / 2 + 1 + random % SAMPLED;
        }
        self.set(S_LEFT, left);
        self.set(S_COUNTDOWN, left);
        self.look_at_window(arch::ticks());
        let is_traced = self.traces();
        if is_traced {
            self.set(S_COUNTDOWN, 1);
        }
        Turn { is_sampled, is_traced }
    }

    /// Whether the last release was timed, so that the way to this request can be.
    #[inline(always)]
    pub(crate) fn was_timed(self) -> bool {
        self.get(S_RELEASED) != 0
    }

    /// The distributions of a key, made when first asked for.
    pub(crate) fn detail(self, key: Option<Key>) -> Option<Detail> {
        let Some(Key { word: key, .. }) = key else {
            add(&self.0[S_UNTOLD], 1);
            return None;
        };
        let file = process::file()?;
        let word = self.get(key + K_DETAIL);
        let mut index = word & ((1 << DETAIL_BITS) - 1);
        if index == 0 {
            index = process::detail(file, self.0, self.get(key + K_LOCK), self.get(key + K_SITE));
        }
        let (generation, mask) = (self.get(S_GENERATION), (1 << GENERATION_BITS) - 1);
        let mut threads = (word & !SLOW) >> (DETAIL_BITS + GENERATION_BITS);
        if word >> DETAIL_BITS & mask != generation {
            threads += 1;
        }
        let high = threads << GENERATION_BITS | generation;
        self.set(key + K_DETAIL, word & SLOW | high << DETAIL_BITS | index);
        if index == 0 {
            add(&self.0[S_UNTOLD], 1);
        }
        Detail::at(file, index)
    }

    /// Notes that the kernel has switched this thread away since it was last asked, and asks again.
    pub(crate) fn switches(self) -> u64 {
        let rseq = self.get(S_RSEQ);
        if rseq == 0 {
            return 0;
        }
        // SAFETY: the `rseq_cs` word of this thread.
        let word = unsafe { arch::word(rseq) };
        let section = arch::section();
        if word.load(Relaxed) != section {
            if self.get(S_ARMED) == 1 {
                add(&self.0[S_SWITCHES], 1);
            }
            word.store(section, Relaxed);
            self.set(S_ARMED, 1);
        }
        self.get(S_SWITCHES)
    }

    /// The way from the last release to a request, which ends now.
    pub(crate) fn thought(self, detail: Option<Detail>, now: u64) {
        let released = self.get(S_RELEASED);
        self.set(S_RELEASED, 0);
        let (Some(detail), true) = (detail, released != 0) else { return };
        let kept = self.switches() == self.get(S_RELEASED_SWITCHES);
        let list = if kept { THINK_ON } else { THINK_OFF };
        detail.record(list, now.saturating_sub(released), self.get(S_RELEASED_WEIGHT));
    }

    /// Begins to time a hold that stands for `weight` of them.
    pub(crate) fn hold(self, lock: usize, key: Key, weight: u64) {
        let switches = self.switches();
        let count = self.holds();
        let holds = (0..count.min(HOLD_COUNT)).map(|index| S_HOLD + index * HOLD_WORDS);
        // A semaphore that another thread posts leaves its hold behind: the place is used again.
        let same = holds.into_iter().find(|&at| self.get(at) == lock as u64);
        let at = same.unwrap_or(S_HOLD + count % HOLD_COUNT * HOLD_WORDS);
        if same.is_none() {
            self.set_holds(count % HOLD_COUNT + 1);
        }
        self.set(at, lock as u64);
        self.set(at + 1, key.word as u64);
        self.set(at + 3, switches << 8 | weight);
        self.set(at + 2, arch::ticks());
    }

    /// The thread, as no other one of the process is called.
    pub(crate) fn id(self) -> u64 {
        self.get(S_THREAD)
    }

    /// Whether the hold of `lock` is being timed.
    pub(crate) fn is_timed(self, lock: usize) -> bool {
        let count = self.holds();
        (0..count).any(|index| self.get(S_HOLD + index * HOLD_WORDS) == lock as u64)
    }

    /// Whether `lock` is the mutex of the condition that the thread waited for last.
    #[inline(always)]
    pub(crate) fn is_monitor(self, lock: usize) -> bool {
        self.get(S_MONITOR_MUTEX) == lock as u64
    }

    /// It takes that mutex again.
    #[cold]
    pub(crate) fn monitor_again(self) {
        self.set(S_MONITOR_AGAIN, 1);
    }

    /// Begins to look whether the condition is part of a lock, which the thread has from `now` on.
    pub(crate) fn begin_monitor(self, condition: usize, mutex: usize, wait: Key, now: u64) {
        for (word, value) in [
            (S_MONITOR, condition as u64),
            (S_MONITOR_MUTEX, mutex as u64),
            (S_MONITOR_AGAIN, 0),
            (S_MONITOR_KEY, wait.word as u64),
            (S_MONITOR_BEGIN, now),
            (S_MONITOR_SWITCHES, self.switches()),
        ] {
            self.set(word, value);
        }
    }

    /// Ends that, if it was this condition.
    pub(crate) fn end_monitor(self, condition: usize) -> Option<Monitor> {
        if self.get(S_MONITOR) != condition as u64 {
            return None;
        }
        self.set(S_MONITOR, 0);
        self.set(S_MONITOR_MUTEX, 0);
        let [key, begin, switches] =
            [S_MONITOR_KEY, S_MONITOR_BEGIN, S_MONITOR_SWITCHES].map(|word| self.get(word));
        let hold = Hold { key: key as usize, begin, switches, weight: 1 };
        Some(Monitor { again: self.get(S_MONITOR_AGAIN) == 1, hold })
    }

    fn holds(self) -> usize {
        (self.get(S_HOLDS) & (TRACED - 1)) as usize
    }

    fn set_holds(self, count: usize) {
        self.set(S_HOLDS, self.get(S_HOLDS) & TRACED | count as u64);
    }

    /// Whether any hold is being timed, or a release is a step of a trace.
    #[inline(always)]
    pub(crate) fn times(self) -> bool {
        self.get(S_HOLDS) != 0
    }

    /// Takes out the hold of `lock`, if it is being timed.
    pub(crate) fn take(self, lock: usize) -> Option<Hold> {
        let count = self.holds();
        let at = |index: usize| S_HOLD + index * HOLD_WORDS;
        let index = (0..count).rev().find(|&index| self.get(at(index)) == lock as u64)?;
        let [_, key, begin, last] = [0, 1, 2, 3].map(|word| self.get(at(index) + word));
        for word in 0..HOLD_WORDS {
            self.set(at(index) + word, self.get(at(count - 1) + word));
        }
        self.set_holds(count - 1);
        Some(Hold { key: key as usize, begin, switches: last >> 8, weight: last & 0xff })
    }

    /// Ends a hold at `now`, before the lock is free.
    pub(crate) fn held(self, hold: &Hold, now: u64) {
        let Some(file) = process::file() else { return };
        let list = if self.switches() == hold.switches { HOLD_ON } else { HOLD_OFF };
        let (word, ticks) = (self.get(hold.key + K_DETAIL), now.saturating_sub(hold.begin));
        self.set(hold.key + K_DETAIL, if ticks > LONG { word | SLOW } else { word & !SLOW });
        if let Some(detail) = Detail::at(file, word & ((1 << DETAIL_BITS) - 1)) {
            detail.record(list, ticks, hold.weight);
        }
        if now.wrapping_sub(file[H_TICKS_LAST].load(Relaxed)) > LOOK {
            process::look(file, now);
        }
    }

    /// The lock is free: from now on the thread thinks.
    pub(crate) fn released(self, hold: &Hold) {
        self.set(S_RELEASED_SWITCHES, self.switches());
        self.set(S_RELEASED_WEIGHT, hold.weight);
        self.set(S_RELEASED, arch::ticks());
    }

    /// Whatever the thread does next, it is no thinking.
    pub(crate) fn forget(self) {
        self.set(S_RELEASED, 0);
    }

    /// Books a wait that ended at `now` to the phases of the run.
    pub(crate) fn phase(self, wait: u64, now: u64, for_lock: bool) {
        let Some(file) = process::file() else { return };
        let since = now.saturating_sub(file[H_TICKS_BEGIN].load(Relaxed));
        self.book(wait, since, (S_PHASES, PHASE_COUNT, S_PHASE_SHIFT));
        if for_lock {
            self.book(wait, since, (S_LOCK_PHASES, LOCK_PHASE_COUNT, S_LOCK_PHASE_SHIFT));
        }
    }

    /// The same to phases that lie at `from`, of which there are `count`.
    fn book(self, wait: u64, since: u64, (from, count, shift): (usize, usize, usize)) {
        while since >> self.get(shift) >= count as u64 {
            for phase in 0..count {
                let pair = |at: usize| self.get(from + at);
                let first = phase < count / 2;
                let sum = if first { pair(2 * phase) + pair(2 * phase + 1) } else { 0 };
                self.set(from + phase, sum);
            }
            self.set(shift, self.get(shift) + 1);
        }
        add(&self.0[from + (since >> self.get(shift)) as usize], wait);
    }
}

impl Detail {
    fn at(file: &'static Map, index: u64) -> Option<Self> {
        let start = DETAILS + index as usize * DETAIL_WORDS;
        (index != 0).then(|| Self(&file[start..start + DETAIL_WORDS]))
    }

    /// Notes who called, the first time.
    pub(crate) fn learn_callers(self) {
        if self.0[D_CALLERS].load(Relaxed) != 0 {
            return;
        }
        // Before: the unwinder may wait for a mutex of its own.
        self.0[D_CALLERS].store(1, Relaxed);
        let mut frames = [0; CALLERS];
        let count = stack::callers(self.0[D_SITE].load(Relaxed) as usize, &mut frames);
        for (place, frame) in self.0[D_CALLERS..].iter().zip(&frames[..count]) {
            place.store(*frame, Relaxed);
        }
    }

    /// Adds to one of its plain numbers.
    pub(crate) fn add(self, word: usize) {
        add(&self.0[word], 1);
    }

    /// Adds a time that stands for `weight` of them.
    pub(crate) fn record(self, list: usize, ticks: u64, weight: u64) {
        let list = &self.0[D_LISTS + list * LIST_WORDS..][..LIST_WORDS];
        add(&list[0], weight);
        add(&list[1], ticks * weight);
        if ticks > list[2].load(Relaxed) {
            list[2].store(ticks, Relaxed);
        }
        add(&list[4 + bucket(ticks)], weight);
    }
}
