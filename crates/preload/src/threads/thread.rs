//! The data of a thread: counts by lock and call site, and times of the few acquisitions that are
//! timed.
//!
//! All words are atomic because a reader and a signal handler may access them at any time; only
//! their thread writes them. A handler that locks in the middle of an update can spoil a number,
//! but nothing else.
#![expect(clippy::unused_self, reason = "a recorded thread has the data, which is its own")]

use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

use crate::arch;
use crate::file::clock::look_sometimes;
use crate::file::map::{self, Slot, get, set};
use crate::file::pages;
use crate::layout::{LONG, Mapped, SAMPLED, SAMPLED_LATER, SAMPLES, SEMAPHORE, State};
use crate::threads::attach::attach;
use crate::threads::detail::{Detail, record};
use crate::threads::lines::Key;
use crate::threads::local::{HOLD_COUNT, Local, TRACED, TimedHold, Watched};

/// The thread word of a thread that is not recorded.
const UNRECORDED: usize = 1;

#[derive(Clone, Copy)]
pub(crate) struct Thread(&'static Slot);

/// The number of a key and its detail in one word, and whether the key is [`SLOW`].
#[derive(Clone, Copy)]
pub(crate) struct Packed(u64);

impl Packed {
    const BITS: u32 = 32;
    const SLOW: u64 = 1 << 63;

    fn key(self) -> usize {
        (self.0 & ((1 << Self::BITS) - 1)) as usize
    }

    pub(crate) fn from_word(word: u64) -> Self {
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
/// that no loop synchronizes with them, is timed although it does not wait; of a thread with many
/// acquisitions fewer. While the thread has a trace, each is a step of the trace.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    /// The number of acquisitions that it represents; 0: it is not timed by chance.
    pub(crate) weight: u64,
    pub(crate) is_traced: bool,
}

impl Turn {
    pub(crate) const NOTHING: Self = Self { weight: 0, is_traced: false };
}

/// Returns how many acquisitions one represents that is timed by chance, after this many others.
fn represented(samples: u64) -> u64 {
    if samples < SAMPLES { SAMPLED } else { SAMPLED_LATER }
}

/// A hold that was being timed.
pub(crate) struct Hold {
    key: Packed,
    begin: u64,
    switches: u64,
    pub(crate) weight: u64,
}

/// The state of a condition that a thread waited for, when the thread signals it or waits again.
pub(crate) struct Monitor {
    /// The critical sections of its mutex since then.
    pub(crate) stage: Stage,
    /// The time since the wait, or since the thread entered the critical section without one.
    pub(crate) hold: Hold,
}

/// What a thread did with the mutex of a condition since it waited for the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waited, and has not left the critical section.
    Waited,
    /// It waited, and has entered the critical section again.
    Returned,
    /// It has signalled the condition.
    Signalled,
    /// It has entered the critical section once since it signalled, and did not wait.
    Entered,
    /// It has entered it again since.
    Reentered,
    /// It waited on a semaphore alone, and has not entered the critical section again.
    Woken,
}

impl Stage {
    /// All, each at the place of its value.
    const ALL: [Self; 6] = [
        Self::Waited,
        Self::Returned,
        Self::Signalled,
        Self::Entered,
        Self::Reentered,
        Self::Woken,
    ];

    /// Returns the stage of a condition that the running thread watches.
    fn of(watched: &Watched) -> Self {
        Self::ALL.get(get(&watched.stage) as usize).copied().unwrap_or(Self::Signalled)
    }

    fn set(self, watched: &Watched) {
        set(&watched.stage, self as u64);
    }

    /// Sets a stage that does not change until the thread signals or waits: further acquisitions of
    /// the mutex are of no interest.
    fn last(self, watched: &Watched) {
        self.set(watched);
        set(&watched.mutex, 0);
    }
}

/// Returns the condition that the thread watches whose mutex is of this kind.
fn watched(kind: u64) -> &'static Watched {
    let local = arch::local();
    if kind == SEMAPHORE { &local.monitor_of_semaphore } else { &local.monitor }
}

/// Counts an acquisition of a thread that is not recorded, and adds the count to the file
/// sometimes.
fn unrecorded() -> Option<Thread> {
    /// The first few are added one by one, for threads that acquire few locks.
    const TOGETHER: u64 = 64;
    let word = &arch::local().other_count;
    let count = get(word) + 1;
    set(word, count);
    if count <= TOGETHER {
        pages::unrecorded(1);
    } else if count.is_multiple_of(TOGETHER) {
        pages::unrecorded(TOGETHER);
    }
    None
}

impl Hold {
    /// Returns a hold that has not begun.
    pub(crate) fn of(key: Packed) -> Self {
        Self { key, begin: 0, switches: 0, weight: 1 }
    }
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
        if word == UNRECORDED { None } else { attach().map(Self) }
    }

    /// Returns the same for an acquisition, which is counted if the thread is not recorded.
    #[inline(always)]
    pub(crate) fn acquiring() -> Option<Self> {
        if arch::thread_word() == UNRECORDED { unrecorded() } else { Self::current() }
    }

    /// Returns the calling thread, if it is already known to be recorded.
    #[inline(always)]
    pub(crate) fn known() -> Option<Self> {
        let word = arch::thread_word();
        // SAFETY: as above.
        (word > UNRECORDED).then(|| Self(unsafe { &*(word as *const Slot) }))
    }

    pub(crate) fn slot(self) -> &'static Slot {
        self.0
    }

    /// Returns the state of the thread in its slot. Only this thread writes it, except for the
    /// words that `trace::open` stores.
    #[inline(always)]
    pub(crate) fn state(self) -> &'static State<Mapped> {
        &self.0.state
    }

    /// Returns the number of the thread's slot.
    pub(crate) fn number_of_slot(self) -> usize {
        get(&arch::local().slot) as usize
    }

    /// Returns the number of acquisitions until something is due.
    #[inline(always)]
    pub(crate) fn due(self) -> &'static AtomicU64 {
        // SAFETY: `attach` set it to a word of the slot or of the thread.
        unsafe { arch::word(arch::local_word::<{ offset_of!(Local, due) }>()) }
    }

    /// Returns the number of acquisitions until something is due, without this one.
    #[inline(always)]
    pub(crate) fn turns_left(self) -> u64 {
        get(self.due()) - 1
    }

    /// Returns whether something is due at this acquisition, see [`Turn`].
    #[inline(always)]
    pub(crate) fn is_turn(self) -> bool {
        let left = self.turns_left();
        set(self.due(), left);
        left == 0
    }

    /// Returns the next number of the thread's random generator.
    pub(crate) fn random(self) -> u64 {
        let mut random = get(&self.state().random);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        set(&self.state().random, random);
        random
    }

    /// Returns the work that is due.
    #[cold]
    pub(crate) fn draw(self) -> Turn {
        let state = self.state();
        let is_poked = get(&state.poked) == 1;
        let is_borrowed = self.traces() || is_poked;
        if is_poked {
            set(&state.poked, 0);
        }
        let mut left = if is_borrowed { get(&state.left).saturating_sub(1) } else { 0 };
        let mut weight = 0;
        if left == 0 {
            let samples = get(&state.samples);
            set(&state.samples, samples + 1);
            weight = represented(samples);
            // From half to one and a half of the mean.
            let next = represented(samples + 1);
            left = next / 2 + 1 + self.random() % next;
        }
        set(&state.left, left);
        set(self.due(), left);
        // Otherwise it checks after it has released the lock whose hold is timed.
        if is_poked {
            self.look_at_window(arch::ticks());
        }
        let is_traced = self.traces();
        if is_traced {
            set(self.due(), 1);
        }
        Turn { weight, is_traced }
    }

    /// Returns whether the last release was timed, so that the think time before this request can
    /// be.
    #[inline(always)]
    pub(crate) fn was_timed(self) -> bool {
        arch::local_word::<{ offset_of!(Local, released) }>() != 0
    }

    /// Counts a switch of this thread by the kernel since the last call. Returns the number of
    /// switches.
    pub(crate) fn switches(self) -> u64 {
        let local = arch::local();
        let rseq = get(&local.rseq);
        if rseq == 0 {
            return 0;
        }
        // SAFETY: the `rseq_cs` word of this thread.
        let word = unsafe { arch::word(rseq) };
        let section = arch::section();
        if get(word) != section {
            map::add(&local.switches, 1);
            set(word, section);
        }
        get(&local.switches)
    }

    /// Called before the thread sleeps: it needs no notice of being switched away, which would cost
    /// the kernel some time.
    pub(crate) fn sleeps(self) {
        let rseq = get(&arch::local().rseq);
        if rseq != 0 {
            // SAFETY: the `rseq_cs` word of this thread.
            set(unsafe { arch::word(rseq) }, 0);
        }
    }

    /// Records the think time from the last release to a request, which ends now.
    pub(crate) fn thought(self, detail: Option<Detail>, now: u64) {
        let local = arch::local();
        let released = get(&local.released);
        set(&local.released, 0);
        let (Some(detail), true) = (detail, released != 0) else { return };
        let last = get(&local.released_last);
        let kept = self.switches() == last >> 8;
        let counts = detail.counts();
        let think = if kept { &counts.think_on } else { &counts.think_off };
        record(think, now.saturating_sub(released), last & 0xff);
    }

    /// Packs a key and its detail into one word, for later.
    pub(crate) fn pack(self, key: Key, detail: Detail) -> Packed {
        let slow = if key.is_slow() { Packed::SLOW } else { 0 };
        Packed(slow | detail.index() << Packed::BITS | self.number(key) as u64)
    }

    /// Begins to time a hold that represents `weight` samples.
    pub(crate) fn hold(self, lock: usize, key: Packed, weight: u64) {
        let switches = self.switches();
        // The hold of a semaphore that another thread posts is left behind: its place is used
        // again.
        let hold =
            holds().iter().find(|hold| get(&hold.lock) == lock as u64).unwrap_or_else(|| {
                let count = holds().len() % HOLD_COUNT;
                set_holds(count + 1);
                &arch::local().hold[count]
            });
        set(&hold.lock, lock as u64);
        set(&hold.key, key.0);
        set(&hold.last, switches << 8 | weight);
        set(&hold.begin, arch::ticks());
    }

    /// Returns a number of the thread that is unique among live threads, and never 0.
    pub(crate) fn id(self) -> u64 {
        self.number_of_slot() as u64 + 1
    }

    /// Prefetches data that the thread uses after a wait, which may be in no cache.
    #[inline(always)]
    pub(crate) fn wakes() {
        let local = arch::local();
        arch::fetch(
            [&local.holds, &local.released, &local.waited].map(|word| word.as_ptr() as usize),
        );
    }

    /// Prefetches data in the file with which it records a wait.
    #[inline(always)]
    pub(crate) fn fetch_waits(self, detail: Detail) {
        let rounds = self.state().rounds.each_ref();
        arch::fetch(rounds.map(|round| core::ptr::from_ref(round) as usize));
        arch::fetch(detail.of_waits());
    }

    /// Prefetches the key of a hold that has ended, since the same place may acquire the next lock.
    #[inline(always)]
    pub(crate) fn fetch_key(self, hold: &Hold) {
        let number = hold.key.key();
        if let (Some(key), Some(data)) = (self.key(number), self.key_data(number)) {
            arch::fetch([key.address(), core::ptr::from_ref(data) as usize]);
        }
    }

    /// Returns whether the hold of `lock` is being timed.
    pub(crate) fn is_timed(self, lock: usize) -> bool {
        holds().iter().any(|hold| get(&hold.lock) == lock as u64)
    }

    /// Returns whether `lock`, of this kind, is the mutex of a condition that the thread watches.
    #[inline(always)]
    pub(crate) fn is_monitor(self, kind: u64, lock: usize) -> bool {
        const OF_MUTEX: usize = offset_of!(Local, monitor) + offset_of!(Watched, mutex);
        const OF_SEMAPHORE: usize =
            offset_of!(Local, monitor_of_semaphore) + offset_of!(Watched, mutex);
        let mutex = if kind == SEMAPHORE {
            arch::local_word::<OF_SEMAPHORE>()
        } else {
            arch::local_word::<OF_MUTEX>()
        };
        mutex == lock as u64
    }

    /// Returns whether the thread watches this condition, with a mutex of this kind.
    pub(crate) fn watches(self, kind: u64, condition: usize) -> bool {
        get(&watched(kind).condition) == condition as u64
    }

    /// Returns whether the thread watches a condition whose mutex is of this kind, and has waited
    /// for it or entered its mutex again.
    pub(crate) fn has_monitor(self, kind: u64) -> bool {
        let watched = watched(kind);
        get(&watched.condition) != 0 && get(&watched.begin) != 0
    }

    /// Notes that the thread has acquired the mutex of a condition that it watches. Returns the
    /// condition if it may have taken a unit of it without a wait.
    #[cold]
    pub(crate) fn enters_monitor(self, kind: u64) -> Option<usize> {
        let watched = watched(kind);
        match Stage::of(watched) {
            Stage::Woken => Stage::Waited.set(watched),
            Stage::Waited => Stage::Returned.last(watched),
            Stage::Entered => Stage::Reentered.last(watched),
            Stage::Returned | Stage::Reentered => {}
            Stage::Signalled => {
                set(&watched.begin, arch::ticks());
                set(&watched.switches, self.switches());
                Stage::Entered.set(watched);
                return Some(get(&watched.condition) as usize);
            }
        }
        None
    }

    /// Begins to determine whether the condition is part of a lock, which the thread then owns from
    /// `now` on; `key` is the key of its wait, and `kind` the kind of its mutex.
    pub(crate) fn begin_monitor(
        self,
        kind: u64,
        [condition, mutex]: [usize; 2],
        key: Packed,
        now: u64,
    ) {
        let watched = watched(kind);
        set(&watched.condition, condition as u64);
        set(&watched.mutex, mutex as u64);
        set(&watched.key, key.0);
        set(&watched.begin, now);
        set(&watched.switches, self.switches());
        let stage = if kind == SEMAPHORE { Stage::Woken } else { Stage::Waited };
        stage.set(watched);
    }

    /// Ends that for this condition. Returns `None` if it was another one.
    pub(crate) fn end_monitor(self, kind: u64, condition: usize) -> Option<Monitor> {
        let watched = watched(kind);
        if get(&watched.condition) != condition as u64 {
            return None;
        }
        set(&watched.condition, 0);
        set(&watched.mutex, 0);
        let hold = Hold {
            key: Packed(get(&watched.key)),
            begin: get(&watched.begin),
            switches: get(&watched.switches),
            weight: 1,
        };
        Some(Monitor { stage: Stage::of(watched), hold })
    }

    /// Continues with a condition after the thread has signalled it: the thread may own a unit of
    /// it again without a wait.
    pub(crate) fn signalled(self, kind: u64, [condition, mutex]: [usize; 2], monitor: &Monitor) {
        let watched = watched(kind);
        set(&watched.condition, condition as u64);
        set(&watched.mutex, mutex as u64);
        set(&watched.key, monitor.hold.key.0);
        set(&watched.begin, monitor.hold.begin);
        Stage::Signalled.set(watched);
    }

    /// Notes that the thread has taken a semaphore.
    pub(crate) fn takes_semaphore(self, semaphore: usize) {
        let local = arch::local();
        set(&local.taken, semaphore as u64);
        set(&local.posted, 0);
    }

    /// Notes that the thread posts a semaphore.
    pub(crate) fn posts(self, semaphore: usize) {
        let local = arch::local();
        if get(&local.taken) == semaphore as u64 {
            set(&local.taken, 0);
        } else {
            set(&local.posted, semaphore as u64);
        }
    }

    /// Returns the mutex of a condition whose waiters each have a semaphore, if this is the one of
    /// the thread: it has taken the semaphore so that the next request must wait, and has released
    /// the mutex since. Conditions of Python wait in this way.
    pub(crate) fn mutex_of_own(self, semaphore: usize) -> Option<usize> {
        let local = arch::local();
        let posted = get(&local.posted);
        (get(&local.taken) == semaphore as u64 && posted != 0).then_some(posted as usize)
    }

    /// Returns whether the thread has a trace.
    #[inline(always)]
    pub(crate) fn traces(self) -> bool {
        get(&arch::local().holds) & TRACED != 0
    }

    /// Returns whether any hold is being timed, or a release is a step of a trace.
    #[inline(always)]
    pub(crate) fn times() -> bool {
        arch::local_word::<{ offset_of!(Local, holds) }>() != 0
    }

    /// Removes and returns the hold of `lock`, if it is being timed.
    pub(crate) fn take(self, lock: usize) -> Option<Hold> {
        let timed = holds();
        let ended = timed.iter().rev().find(|hold| get(&hold.lock) == lock as u64)?;
        let last = get(&ended.last);
        let hold = Hold {
            key: Packed(get(&ended.key)),
            begin: get(&ended.begin),
            switches: last >> 8,
            weight: last & 0xff,
        };
        if let Some(moved) = timed.last() {
            set(&ended.lock, get(&moved.lock));
            set(&ended.key, get(&moved.key));
            set(&ended.begin, get(&moved.begin));
            set(&ended.last, get(&moved.last));
        }
        set_holds(timed.len() - 1);
        Some(hold)
    }

    /// Returns whether the thread has kept its CPU since the hold began.
    pub(crate) fn kept(self, hold: &Hold) -> bool {
        self.switches() == hold.switches
    }

    /// Records a hold that ended at `now`, in which the thread kept its CPU or did not.
    pub(crate) fn held(self, hold: &Hold, kept: bool, now: u64) {
        let Some(file) = map::file() else { return };
        let ticks = now.saturating_sub(hold.begin);
        if (ticks > LONG) != (hold.key.0 & Packed::SLOW != 0) {
            self.set_slow(hold.key.key(), ticks > LONG);
        }
        if let Some(detail) = Detail::at(file, hold.key.detail()) {
            let counts = detail.counts();
            record(if kept { &counts.hold_on } else { &counts.hold_off }, ticks, hold.weight);
        }
        look_sometimes(file, now);
    }

    /// Begins the think time: the lock is released.
    pub(crate) fn released(self, hold: &Hold) {
        let local = arch::local();
        set(&local.released_last, self.switches() << 8 | hold.weight);
        set(&local.released, arch::ticks());
    }

    /// Cancels the think time, whatever the thread does next.
    pub(crate) fn forget(self) {
        set(&arch::local().released, 0);
    }
}

fn holds() -> &'static [TimedHold] {
    let local = arch::local();
    let count = (get(&local.holds) & (TRACED - 1)) as usize;
    &local.hold[..count.min(HOLD_COUNT)]
}

fn set_holds(count: usize) {
    let holds = &arch::local().holds;
    set(holds, get(holds) & TRACED | count as u64);
}
