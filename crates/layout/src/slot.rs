//! Slots of threads, and the keys by which a thread counts its calls: a lock with its kind, and a
//! call site.

use crate::memory::{Access, Plain, parts};
use crate::waits::{CurrentWait, EndedWait, Round};

/// Data of a thread; after its exit, of the next thread that gets the slot.
#[repr(C)]
pub struct Slot<A: Access = Plain> {
    /// The state of the thread.
    pub state: State<A>,
    /// Ticks waited in each phase. When the last phase is over, pairs of them are merged.
    pub phases: [A::Word; 256],
    /// Ticks waited for locks only, without conditions and barriers, in each phase.
    pub lock_phases: [A::Word; 128],
    /// Keys of the thread once the first few are not enough.
    pub table: Table<A>,
}

/// State of a thread.
#[repr(C)]
pub struct State<A: Access = Plain> {
    /// Thread ID; stays after the exit of the thread until another one gets the slot.
    pub thread: A::Word,
    /// How many threads have had the slot.
    pub generation: A::Word,
    /// Acquisitions until one is timed.
    pub countdown: A::Word,
    /// State of the random generator that selects the acquisitions to time.
    pub random: A::Word,
    /// Acquisitions until one is timed, while [`State::countdown`] is used for another event.
    pub left: A::Word,
    /// 1 if another thread has opened a window and changed [`State::countdown`].
    pub poked: A::Word,
    /// Index in the file of the word for the next step of the thread; 0: none.
    pub trace: A::Word,
    /// Keys in use.
    pub used: A::Word,
    /// Acquisitions that were dropped because the key table was full.
    pub lost: A::Word,
    /// Logarithm of the ticks of one phase.
    pub phase_shift: A::Word,
    /// Logarithm of the ticks of one phase of waits for locks.
    pub lock_phase_shift: A::Word,
    /// Contended acquisitions and waits that were dropped because the detail table was full.
    pub untold: A::Word,
    /// 1 while a thread merges pairs of phases.
    pub folds: A::Word,
    /// Place of its keys: 0: the first few, [`FewKeys`]; [`GROWN`]: in its table; [`GROWING`]:
    /// being moved, or no room is left for a table.
    pub grown: A::Word,
    /// Number of acquisitions that were timed by chance, also by earlier threads of the slot.
    pub samples: A::Word,
    unused: A::Word,
    /// The thread's last acquisitions: addresses of the counts of keys in the memory of the
    /// process, with the entry of a lock given by [`State::taken`]. Entries of mutexes outlive the
    /// hold.
    pub mutexes: [A::Word; 8],
    /// The current wait of the thread.
    pub wait: CurrentWait<A>,
    unused_wait: A::Word,
    /// Ends of the thread's last waits in futex(2), a ring: only then are the owners known.
    pub ended: [EndedWait<A>; 12],
    unused_ended: [A::Word; 4],
    /// The last two places where the thread waited in futex(2).
    pub rounds: [Round<A>; 2],
    /// Units of semaphores that the thread has acquired and not posted, as in [`State::mutexes`].
    pub units: [A::Word; 16],
    unused_units: [A::Word; 8],
}

impl<A: Access> State<A> {
    /// Returns the word for the thread's last acquisition of a lock of this kind. Semaphores have
    /// separate entries, which mutexes do not overwrite, because nothing else names their owners.
    #[inline]
    pub fn taken(&self, kind: u64, lock: usize) -> &A::Word {
        match kind {
            SEMAPHORE => &self.units[(lock >> 5 ^ lock >> 9) % self.units.len()],
            _ => &self.mutexes[(lock >> 3 ^ lock >> 6) % self.mutexes.len()],
        }
    }
}

/// The first keys of a slot. Those of all slots are close together: with many threads that take
/// turns with few locks, little is in a cache.
#[repr(C)]
pub struct FewKeys<A: Access = Plain> {
    /// Tags and counts.
    pub line: Line<A>,
    /// The other data of the keys.
    pub keys: [Key<A>; LINE_KEYS],
}

/// The keys of a slot that has more than a few.
#[repr(C)]
pub struct Table<A: Access = Plain> {
    /// Tags and counts. A key is in the line that [`line()`] returns, or in its neighbour.
    pub lines: [Line<A>; LINE_COUNT],
    /// The other data of the keys, in the order of the keys in the lines.
    pub keys: [Key<A>; LINE_COUNT * LINE_KEYS],
}

/// A cache line with the data needed to count acquisitions of eight keys.
#[repr(C)]
pub struct Line<A: Access = Plain> {
    /// Tags of the keys; 0: free.
    pub tags: [A::Half; LINE_KEYS],
    /// Their counts, with [`SLOW`].
    pub counts: [A::Half; LINE_KEYS],
}

/// The data of a key that counting does not need.
#[repr(C)]
pub struct Key<A: Access = Plain> {
    /// The lock: its address and, in the highest byte, its [`kind`](KIND_SHIFT). An address of 0:
    /// all locks of that kind acquired at the site when no room was left for separate keys.
    pub lock: A::Word,
    /// The call site.
    pub site: A::Word,
    /// See [`Told`].
    pub told: A::Word,
}

parts! { Slot State FewKeys Table Line Key }

/// Number of slots: threads that live at the same time.
pub const SLOT_COUNT: usize = 4096;
/// Logarithm of the ticks of a phase at the start: about 6 ms.
pub const PHASE_SHIFT: u64 = 24;
/// See [`State::grown`].
pub const GROWN: u64 = 1;
/// See [`State::grown`].
pub const GROWING: u64 = 2;
/// Keys of a line.
pub const LINE_KEYS: usize = 8;
/// Lines of a table.
pub const LINE_COUNT: usize = 128;
/// Bit of a count that requests that every hold is timed, because the last one was long.
pub const SLOW: u32 = 1 << 31;

/// The detail of a key, the generation that used the key last, the number of threads that have used
/// it, and how often its count has wrapped around.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Told(pub u64);
impl Told {
    /// Bits of the detail; 0: none.
    pub const DETAIL_BITS: u32 = 14;
    /// Bits of a generation.
    pub const GENERATION_BITS: u32 = 18;
    const THREADS_BITS: u32 = 20;
    const THREADS_SHIFT: u32 = Self::DETAIL_BITS + Self::GENERATION_BITS;
    const ROUNDS_SHIFT: u32 = Self::THREADS_SHIFT + Self::THREADS_BITS;

    /// The number of the detail; 0: none.
    pub const fn detail(self) -> u64 {
        self.0 & ((1 << Self::DETAIL_BITS) - 1)
    }

    /// Number of threads that have used the key, among the successive threads of the slot.
    pub const fn threads(self) -> u64 {
        self.0 >> Self::THREADS_SHIFT & ((1 << Self::THREADS_BITS) - 1)
    }

    /// Returns this word with another detail, used by the thread of this generation.
    #[must_use]
    pub const fn used(self, detail: u64, generation: u64) -> Self {
        let last = self.0 >> Self::DETAIL_BITS & ((1 << Self::GENERATION_BITS) - 1);
        let is_new = last != generation && self.threads() + 1 < 1 << Self::THREADS_BITS;
        let threads = self.threads() + is_new as u64;
        let rounds = self.0 >> Self::ROUNDS_SHIFT << Self::ROUNDS_SHIFT;
        let high = threads << Self::THREADS_SHIFT | generation << Self::DETAIL_BITS;
        Self(rounds | high | detail)
    }

    /// Returns this word for a count that wraps around.
    #[must_use]
    pub const fn round(self) -> Self {
        match self.0.checked_add(1 << Self::ROUNDS_SHIFT) {
            Some(next) => Self(next),
            None => self,
        }
    }

    /// Returns the whole count, with the current count of the line.
    pub const fn counted(self, count: u32) -> u64 {
        (self.0 >> Self::ROUNDS_SHIFT) * SLOW as u64 + (count & !SLOW) as u64
    }
}

/// Hash of a key: see [`line()`] and [`tag`].
#[inline]
pub const fn mixed(lock: u64, site: u64) -> u64 {
    (lock ^ site.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Line of a table that is searched first for a key; the second has the lowest bit flipped.
#[inline]
pub const fn line(mixed: u64) -> usize {
    (mixed >> (64 - LINE_COUNT.ilog2())) as usize
}

/// Identifies a key within its line; never 0. Two keys have the same tag in the same line if 38
/// bits of a product are the same: that cannot happen for two sites of a lock in one object, nor
/// for two locks of a site less than 128 GB apart.
#[inline]
pub const fn tag(mixed: u64) -> u32 {
    (mixed >> (32 - LINE_COUNT.ilog2())) as u32 | 1
}

/// Bits of an address below its kind.
pub const KIND_SHIFT: u32 = 56;
/// A mutex of pthread or C11.
pub const MUTEX: u64 = 1;
/// A reader/writer lock, to read.
pub const READ: u64 = 2;
/// A reader/writer lock, to write.
pub const WRITE: u64 = 3;
/// A spinlock.
pub const SPIN: u64 = 4;
/// A barrier.
pub const BARRIER: u64 = 5;
/// A semaphore.
pub const SEMAPHORE: u64 = 6;
/// A wait on a condition variable.
pub const CONDITION: u64 = 7;
/// A signal or broadcast to a condition variable.
pub const SIGNAL: u64 = 8;
/// A call of `sched_yield`; with another lock than [`YIELDS_LOCK`], a failed attempt to acquire it.
pub const YIELD: u64 = 9;
/// A wait in futex(2) that went through libc's `syscall`. Its site is a call stack if there was
/// room for it.
pub const FUTEX: u64 = 10;
/// A call of futex(2) to wake more than one thread. Its
/// [`Detail::contended`](crate::times::Detail::contended) counts the threads that it woke.
pub const BROADCAST: u64 = 11;
/// Placeholder for the lock of [`YIELD`].
pub const YIELDS_LOCK: usize = 1;
