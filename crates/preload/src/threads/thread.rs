//! The data of a thread: counts by lock and call site, and times of the few acquisitions that are
//! timed.
//!
//! All words are atomic because a reader and a signal handler may access them at any time; only
//! their thread writes them. A handler that locks in the middle of an update can spoil a number,
//! but nothing else.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::clock::look_sometimes;
use crate::file::map::{self, Slot};
use crate::file::{pages, process};
use crate::layout::*;
use crate::threads::detail::Detail;
use crate::threads::lines::Key;
use crate::threads::local::*;

/// The thread word of a thread that is not recorded.
const UNRECORDED: usize = 1;

/// The calling thread.
#[derive(Clone, Copy)]
pub(crate) struct Thread(pub(crate) &'static Slot);

/// The number of a key and its detail in one word, and whether the key is [`SLOW`].
#[derive(Clone, Copy)]
pub(crate) struct Packed(u64);

impl Packed {
    const BITS: u32 = 32;
    const SLOW: u64 = 1 << 63;

    fn key(self) -> usize {
        (self.0 & ((1 << Self::BITS) - 1)) as usize
    }

    pub(crate) fn of(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn detail(self) -> u64 {
        (self.0 & !Self::SLOW) >> Self::BITS
    }
}

/// The work that is due at an acquisition. One in [`SAMPLED`] on average, at irregular distances so
/// that no loop synchronizes with them, is timed although it does not wait. While the thread has a
/// trace, each is a step of the trace.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) is_sampled: bool,
    pub(crate) is_traced: bool,
}

impl Turn {
    pub(crate) const NOTHING: Self = Self { is_sampled: false, is_traced: false };
}

/// A hold that was being timed.
pub(crate) struct Hold {
    key: Packed,
    begin: u64,
    switches: u64,
    pub(crate) weight: u64,
}

/// The state of a condition that a thread waited for, until the thread signals it.
pub(crate) struct Monitor {
    /// Whether the thread has reacquired the mutex since.
    pub(crate) again: bool,
    /// The time since the wait.
    pub(crate) hold: Hold,
}

/// Counts an acquisition of a thread that is not recorded, and adds the count to the file
/// sometimes.
fn unrecorded() -> Option<Thread> {
    /// The first few are added one by one, for threads that acquire few locks.
    const TOGETHER: u64 = 64;
    let word = &arch::own()[O_UNRECORDED];
    let count = word.load(Relaxed) + 1;
    word.store(count, Relaxed);
    if count <= TOGETHER {
        pages::unrecorded(1);
    } else if count.is_multiple_of(TOGETHER) {
        pages::unrecorded(TOGETHER);
    }
    None
}

impl Thread {
    /// Returns the calling thread, if it is recorded.
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        let word = arch::thread_word();
        if word > UNRECORDED {
            // SAFETY: `attach` set it to a slot of the mapping, which stays.
            return Some(Self(unsafe { &*(word as *const Slot) }));
        }
        if word == UNRECORDED { None } else { process::attach().map(Self) }
    }

    /// Returns the same for an acquisition, which is counted if the thread is not recorded.
    #[inline(always)]
    pub(crate) fn acquiring() -> Option<Self> {
        if arch::thread_word() == UNRECORDED { unrecorded() } else { Self::current() }
    }

    /// Returns the calling thread, if it is already known to be recorded.
    #[inline(always)]
    pub(crate) fn known() -> Option<Self> {
        let word = arch::own_word::<0>() as usize;
        // SAFETY: as above.
        (word > UNRECORDED).then(|| Self(unsafe { &*(word as *const Slot) }))
    }

    pub(crate) fn get(self, word: usize) -> u64 {
        // Relaxed: this thread writes the words, except those that `trace::open` stores. Readers
        // take each by itself.
        self.0[word].load(Relaxed)
    }

    pub(crate) fn set(self, word: usize, value: u64) {
        self.0[word].store(value, Relaxed);
    }

    /// Returns a word of [`local`](crate::threads::local).
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    pub(crate) fn own(self, word: usize) -> u64 {
        arch::own()[word].load(Relaxed)
    }

    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    pub(crate) fn put(self, word: usize, value: u64) {
        // Relaxed: only this thread and its signal handlers access the word.
        arch::own()[word].store(value, Relaxed);
    }

    /// Returns the number of acquisitions until something is due.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    pub(crate) fn due(self) -> &'static AtomicU64 {
        // SAFETY: `attach` set it to a word of the slot or of the thread.
        unsafe { arch::word(arch::own_word::<O_DUE>()) }
    }

    /// Returns whether something is due at this acquisition, see [`Turn`].
    #[inline(always)]
    pub(crate) fn is_turn(self) -> bool {
        let due = self.due();
        let left = due.load(Relaxed) - 1;
        due.store(left, Relaxed);
        left == 0
    }

    /// Returns the next number of the thread's random generator.
    pub(crate) fn random(self) -> u64 {
        let mut random = self.get(S_RANDOM);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.set(S_RANDOM, random);
        random
    }

    /// Returns the work that is due.
    #[cold]
    pub(crate) fn draw(self) -> Turn {
        let is_poked = self.get(S_POKED) == 1;
        let is_borrowed = self.traces() || is_poked;
        if is_poked {
            self.set(S_POKED, 0);
        }
        let mut left = if is_borrowed { self.get(S_LEFT).saturating_sub(1) } else { 0 };
        let is_sampled = left == 0;
        if is_sampled {
            // From half to one and a half of the mean.
            left = SAMPLED / 2 + 1 + self.random() % SAMPLED;
        }
        self.set(S_LEFT, left);
        self.due().store(left, Relaxed);
        // Otherwise it checks after it has released the lock whose hold is timed.
        if is_poked {
            self.look_at_window(arch::ticks());
        }
        let is_traced = self.traces();
        if is_traced {
            self.due().store(1, Relaxed);
        }
        Turn { is_sampled, is_traced }
    }

    /// Returns whether the last release was timed, so that the think time before this request can
    /// be.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    pub(crate) fn was_timed(self) -> bool {
        arch::own_word::<O_RELEASED>() != 0
    }

    /// Counts a switch of this thread by the kernel since the last call. Returns the number of
    /// switches.
    pub(crate) fn switches(self) -> u64 {
        let rseq = self.own(O_RSEQ);
        if rseq == 0 {
            return 0;
        }
        // SAFETY: the `rseq_cs` word of this thread.
        let word = unsafe { arch::word(rseq) };
        let section = arch::section();
        if word.load(Relaxed) != section {
            self.put(O_SWITCHES, self.own(O_SWITCHES) + 1);
            word.store(section, Relaxed);
        }
        self.own(O_SWITCHES)
    }

    /// Called before the thread sleeps: it needs no notice of being switched away, which would cost
    /// the kernel some time.
    pub(crate) fn sleeps(self) {
        let rseq = self.own(O_RSEQ);
        if rseq != 0 {
            // SAFETY: the `rseq_cs` word of this thread.
            unsafe { arch::word(rseq) }.store(0, Relaxed);
        }
    }

    /// Records the think time from the last release to a request, which ends now.
    pub(crate) fn thought(self, detail: Option<Detail>, now: u64) {
        let released = self.own(O_RELEASED);
        self.put(O_RELEASED, 0);
        let (Some(detail), true) = (detail, released != 0) else { return };
        let last = self.own(O_RELEASED_LAST);
        let kept = self.switches() == last >> 8;
        let list = if kept { THINK_ON } else { THINK_OFF };
        detail.record(list, now.saturating_sub(released), last & 0xff);
    }

    /// Packs a key and its detail into one word, for later.
    pub(crate) fn pack(self, key: Key, detail: Detail) -> Packed {
        let slow = if key.is_slow() { Packed::SLOW } else { 0 };
        Packed(slow | detail.index() << Packed::BITS | self.number(key) as u64)
    }

    /// Begins to time a hold that represents `weight` samples.
    pub(crate) fn hold(self, lock: usize, key: Packed, weight: u64) {
        let switches = self.switches();
        let count = self.holds();
        let holds = (0..count.min(HOLD_COUNT)).map(|index| O_HOLD + index * HOLD_WORDS);
        // The hold of a semaphore that another thread posts is left behind: its place is used
        // again.
        let same = holds.into_iter().find(|&at| self.own(at) == lock as u64);
        let at = same.unwrap_or(O_HOLD + count % HOLD_COUNT * HOLD_WORDS);
        if same.is_none() {
            self.set_holds(count % HOLD_COUNT + 1);
        }
        self.put(at, lock as u64);
        self.put(at + 1, key.0);
        self.put(at + 3, switches << 8 | weight);
        self.put(at + 2, arch::ticks());
    }

    /// Returns a number of the thread that is unique among live threads, and never 0.
    pub(crate) fn id(self) -> u64 {
        self.own(O_SLOT) + 1
    }

    /// Returns the thread ID in the kernel.
    pub(crate) fn kernel_id(self) -> u64 {
        self.own(O_THREAD)
    }

    /// Prefetches data that the thread uses after a wait, which may be in no cache.
    #[inline(always)]
    pub(crate) fn wakes() {
        let own = arch::own();
        let of = |word: &AtomicU64| core::ptr::from_ref(word) as usize;
        arch::fetch([O_HOLDS, O_RELEASED, O_WAITED].map(|word| of(&own[word])));
    }

    /// Prefetches the key of a hold that has ended, since the same place may acquire the next lock.
    #[inline(always)]
    pub(crate) fn goes_on(self, hold: &Hold) {
        let number = hold.key.key();
        if let (Some(key), Some(words)) = (self.key(number), self.key_words(number)) {
            arch::fetch([key.address(), words.as_ptr() as usize]);
        }
    }

    /// Returns whether the hold of `lock` is being timed.
    pub(crate) fn is_timed(self, lock: usize) -> bool {
        (0..self.holds()).any(|index| self.own(O_HOLD + index * HOLD_WORDS) == lock as u64)
    }

    /// Returns whether `lock` is the mutex of the condition that the thread waited for last.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    pub(crate) fn is_monitor(self, lock: usize) -> bool {
        arch::own_word::<O_MONITOR_MUTEX>() == lock as u64
    }

    /// Notes that the thread has reacquired that mutex.
    #[cold]
    pub(crate) fn monitor_again(self) {
        self.put(O_MONITOR_AGAIN, 1);
    }

    /// Begins to determine whether the condition is part of a lock, which the thread then owns from
    /// `now` on; `key` is the key of its wait.
    pub(crate) fn begin_monitor(self, condition: usize, mutex: usize, key: Packed, now: u64) {
        for (word, value) in [
            (O_MONITOR, condition as u64),
            (O_MONITOR_MUTEX, mutex as u64),
            (O_MONITOR_AGAIN, 0),
            (O_MONITOR_KEY, key.0),
            (O_MONITOR_BEGIN, now),
            (O_MONITOR_SWITCHES, self.switches()),
        ] {
            self.put(word, value);
        }
    }

    /// Ends that for this condition. Returns `None` if it was another one.
    pub(crate) fn end_monitor(self, condition: usize) -> Option<Monitor> {
        if self.own(O_MONITOR) != condition as u64 {
            return None;
        }
        self.put(O_MONITOR, 0);
        self.put(O_MONITOR_MUTEX, 0);
        let [key, begin, switches] =
            [O_MONITOR_KEY, O_MONITOR_BEGIN, O_MONITOR_SWITCHES].map(|word| self.own(word));
        let hold = Hold { key: Packed(key), begin, switches, weight: 1 };
        Some(Monitor { again: self.own(O_MONITOR_AGAIN) == 1, hold })
    }

    fn holds(self) -> usize {
        (self.own(O_HOLDS) & (TRACED - 1)) as usize
    }

    fn set_holds(self, count: usize) {
        self.put(O_HOLDS, self.own(O_HOLDS) & TRACED | count as u64);
    }

    /// Returns whether any hold is being timed, or a release is a step of a trace.
    #[inline(always)]
    pub(crate) fn times() -> bool {
        arch::own_word::<O_HOLDS>() != 0
    }

    /// Removes and returns the hold of `lock`, if it is being timed.
    pub(crate) fn take(self, lock: usize) -> Option<Hold> {
        let count = self.holds();
        let at = |index: usize| O_HOLD + index * HOLD_WORDS;
        let index = (0..count).rev().find(|&index| self.own(at(index)) == lock as u64)?;
        let [_, key, begin, last] = [0, 1, 2, 3].map(|word| self.own(at(index) + word));
        for word in 0..HOLD_WORDS {
            self.put(at(index) + word, self.own(at(count - 1) + word));
        }
        self.set_holds(count - 1);
        Some(Hold { key: Packed(key), begin, switches: last >> 8, weight: last & 0xff })
    }

    /// Returns whether the thread has kept its CPU since the hold began.
    pub(crate) fn kept(self, hold: &Hold) -> bool {
        self.switches() == hold.switches
    }

    /// Records a hold that ended at `now`, in which the thread kept its CPU or did not.
    pub(crate) fn held(self, hold: &Hold, kept: bool, now: u64) {
        let Some(file) = map::file() else { return };
        let list = if kept { HOLD_ON } else { HOLD_OFF };
        let ticks = now.saturating_sub(hold.begin);
        if (ticks > LONG) != (hold.key.0 & Packed::SLOW != 0) {
            self.set_slow(hold.key.key(), ticks > LONG);
        }
        if let Some(detail) = Detail::at(file, hold.key.detail()) {
            detail.record(list, ticks, hold.weight);
        }
        look_sometimes(file, now);
    }

    /// Begins the think time: the lock is released.
    pub(crate) fn released(self, hold: &Hold) {
        self.put(O_RELEASED_LAST, self.switches() << 8 | hold.weight);
        self.put(O_RELEASED, arch::ticks());
    }

    /// Cancels the think time, whatever the thread does next.
    pub(crate) fn forget(self) {
        self.put(O_RELEASED, 0);
    }
}
