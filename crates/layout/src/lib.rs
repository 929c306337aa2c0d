//! The file that a recorded process writes through a shared mapping: 64-bit words, with the same
//! indices for recorder and reader.
//!
//! ```text
//! header | locks with waiters | memory map | call stacks | edges | one slot a thread
//!        | the first keys of each slot | details of (lock, call site) | traces | waits | places
//! ```
//! The file has its maximum length and is sparse: only used parts take space. Times are ticks of
//! the time stamp counter; two readings of it and of the monotonic clock give the length of a tick.
#![no_std]

mod programs;
mod waits;
pub use programs::*;
pub use waits::*;

/// First word of the file: "convoyrw".
pub const MAGIC: u64 = u64::from_le_bytes(*b"convoyrw");
/// Version of this layout.
pub const VERSION: u64 = 13;

/// Name of the file with the number of pages that all processes together may still use.
pub const BUDGET: &[u8] = b"budget";
/// Its word with the number of pages used by programs of other users.
pub const BUDGET_OTHERS: usize = 1;
/// Numbers of unrecorded programs: no room, directory out of reach, a limit, a filter.
pub const BUDGET_LOST: usize = 2;

/// Words of a page.
pub const PAGE: usize = 512;

// The header.
/// [`MAGIC`].
pub const H_MAGIC: usize = 0;
/// [`VERSION`].
pub const H_VERSION: usize = 1;
/// Process ID.
pub const H_PID: usize = 2;
/// Process ID of its parent.
pub const H_PARENT: usize = 3;
/// Ticks when recording began.
pub const H_TICKS_BEGIN: usize = 4;
/// The monotonic clock then, nanoseconds.
pub const H_NS_BEGIN: usize = 5;
/// Ticks when the clock was last read.
pub const H_TICKS_LAST: usize = 6;
/// The monotonic clock then, nanoseconds.
pub const H_NS_LAST: usize = 7;
/// Slots in use.
pub const H_SLOTS: usize = 8;
/// Details in use; the first one is never used.
pub const H_DETAILS: usize = 9;
/// Bytes of the memory map.
pub const H_MAP_BYTES: usize = 10;
/// Threads that were not recorded because the limit of live threads was reached.
pub const H_THREADS_LOST: usize = 11;
/// Threads that got a slot.
pub const H_THREADS: usize = 12;
/// 1 once the process ended by `exit`.
pub const H_ENDED: usize = 13;
/// 1 if context switches of a thread can be detected (`rseq`).
pub const H_SEES_SWITCHES: usize = 14;
/// CPU time of the process when the clock was last read, nanoseconds.
pub const H_CPU_NS: usize = 15;
/// 1 while a thread reads the memory map.
pub const H_MAP_BUSY: usize = 16;
/// Slot at which the search for the slot of an exited thread continues.
pub const H_CURSOR: usize = 17;
/// Maximum number of threads that had a slot at the same time.
pub const H_THREADS_MOST: usize = 18;
/// Mutexes with an individual policy.
pub const H_CHOSEN: usize = 19;
/// Traces in use.
pub const H_TRACES: usize = 20;
/// Number of windows so far. During a window, threads record each of their steps.
pub const H_WINDOW: usize = 21;
/// When the next window opens, ticks.
pub const H_WINDOW_NEXT: usize = 22;
/// Traces of the window.
pub const H_WINDOW_TRACES: usize = 23;
/// Ticks between two consecutive readings of the counter: every measured time is too long by this.
pub const H_STAMP: usize = 24;
/// Address of the file in the memory of the process.
pub const H_BASE: usize = 25;
/// Waits that were candidates for [`EVENTS`].
pub const H_EVENTS: usize = 26;
/// Edges that were dropped because the table was full.
pub const H_EDGES_LOST: usize = 27;
/// Programs that ran without the object and whose names did not fit.
pub const H_PROGRAMS_MORE: usize = 28;
/// Number of times that room was needed and none was left.
pub const H_SHORT: usize = 40;
/// Number of [`H_THREADS_LOST`] that were lost for lack of room.
pub const H_THREADS_UNROOMED: usize = 41;
/// Acquisitions of threads that were not recorded.
pub const H_UNRECORDED: usize = 42;
/// Children that were not recorded: no room, directory out of reach, a limit.
pub const H_CHILDREN_LOST: usize = 43;
/// 1 once the process has limited its system calls: from then on, it gets no more room.
pub const H_SANDBOXED: usize = 46;
/// Command line of the process, its words ended by zeros.
pub const H_COMMAND: usize = 64;

/// Locks and conditions that had waiters, open addressing by [`place`].
pub const LOCKS: usize = PAGE;
/// Number of them.
pub const LOCK_COUNT: usize = 4096;
/// Words of each.
pub const LOCK_WORDS: usize = 16;
/// Its address; 0: free.
pub const L_ADDRESS: usize = 0;
/// Threads that wait now.
pub const L_WAITERS: usize = 1;
/// Since when threads have been waiting, ticks.
pub const L_SINCE: usize = 2;
/// The last release that found waiters, ticks.
pub const L_RELEASED: usize = 3;
/// Longest period with waiters, ticks.
pub const L_LONGEST: usize = 4;
/// Total time with waiters, ticks.
pub const L_WAITED: usize = 5;
/// Maximum number of threads that waited at the same time.
pub const L_MOST: usize = 6;
/// When the longest period with waiters began, ticks.
pub const L_LONGEST_AT: usize = 7;
/// For a semaphore or a condition: the last thread to acquire it, as slot + 1; 0: none.
pub const L_OWNER: usize = 8;
/// How often that thread released it.
pub const L_OWN: usize = 9;
/// How often another thread released it.
pub const L_OTHER: usize = 10;
/// For a condition: the mutex that is released while threads wait for it.
pub const L_MUTEX: usize = 11;
/// For a condition: its only waiter and, from [`WAITS_SHIFT`] on, the number of waits; [`MANY`] if
/// several threads wait for it.
pub const L_WAITER: usize = 12;
/// Number of releases that the last one, [`L_RELEASED`], represents.
pub const L_RELEASED_WEIGHT: usize = 13;
/// Bits of [`L_WAITER`] below the number of waits.
pub const WAITS_SHIFT: u32 = 32;
/// Several threads wait for the condition.
pub const MANY: u64 = u64::MAX;
/// Number of waits after which a condition with a single waiter is private to that thread: its call
/// stack then identifies its purpose.
pub const OWN_AFTER: u64 = 4;

/// Text of `/proc/self/maps`, one or several of them.
pub const MAP: usize = LOCKS + LOCK_COUNT * LOCK_WORDS;
/// Maximum size of that text.
pub const MAP_WORDS: usize = 64 * PAGE;

/// Call stacks of waits for conditions with a single waiter, and of calls of futex(2) that wait or
/// wake: open addressing by [`place`] of the call site.
pub const CONTEXTS: usize = MAP + MAP_WORDS;
/// Number of them.
pub const CONTEXT_COUNT: usize = 1024;
/// Words of each.
pub const CONTEXT_WORDS: usize = C_FRAMES + 2 * (C_NATIVE + C_FOREIGN);
/// The call site; 0: free.
pub const C_SITE: usize = 0;
/// 1 once the entry is complete.
pub const C_READY: usize = 1;
/// Number of callers found with the program's unwind tables.
pub const C_COUNT: usize = 2;
/// Number of return addresses left on the stack, from code without such tables further out.
pub const C_FOREIGN_COUNT: usize = 3;
/// The callers, nearest first, then the remaining addresses, each with its position on the stack.
pub const C_FRAMES: usize = 4;
/// Maximum number of callers.
pub const C_NATIVE: usize = 12;
/// Maximum number of addresses from code without tables.
pub const C_FOREIGN: usize = 8;
/// Bit that turns a call site into the number of a call stack.
pub const CONTEXT: u64 = 1 << 62;

/// Slots of threads.
pub const SLOTS: usize = EDGES + EDGE_COUNT * EDGE_WORDS;
/// Number of them: threads that live at the same time.
pub const SLOT_COUNT: usize = 4096;
/// Words of each.
pub const SLOT_WORDS: usize = S_KEYS + KEY_COUNT * KEY_WORDS;
/// Thread ID; stays after the exit of the thread until another one gets the slot.
pub const S_THREAD: usize = 0;
/// How many threads have had the slot.
pub const S_GENERATION: usize = 1;
/// Acquisitions until one is timed.
pub const S_COUNTDOWN: usize = 2;
/// State of the random generator that selects the acquisitions to time.
pub const S_RANDOM: usize = 3;
/// Keys in use.
pub const S_USED: usize = 7;
/// Acquisitions that were dropped because the key table was full.
pub const S_LOST: usize = 8;
/// Logarithm of the ticks of one phase.
pub const S_PHASE_SHIFT: usize = 9;
/// Contended acquisitions and waits that were dropped because the detail table was full.
pub const S_UNTOLD: usize = 11;
/// The word of the file for the next step of the thread; 0: none.
pub const S_TRACE: usize = 6;
/// Acquisitions until one is timed, while [`S_COUNTDOWN`] is used for another event.
pub const S_LEFT: usize = 4;
/// 1 if another thread has opened a window and changed [`S_COUNTDOWN`].
pub const S_POKED: usize = 5;
/// Logarithm of the ticks of one phase of waits for locks.
pub const S_LOCK_PHASE_SHIFT: usize = 10;
/// 1 while a thread merges pairs of phases.
pub const S_FOLDS: usize = 12;
/// Ticks waited in each phase.
pub const S_PHASES: usize = 128;
/// Number of phases. When the last one is over, pairs of them are merged.
pub const PHASE_COUNT: usize = 256;
/// Ticks waited for locks only, without conditions and barriers, in each phase.
pub const S_LOCK_PHASES: usize = S_PHASES + PHASE_COUNT;
/// Number of phases of lock waits.
pub const LOCK_PHASE_COUNT: usize = 128;
/// Logarithm of the ticks of a phase at the start: about 6 ms.
pub const PHASE_SHIFT: u64 = 24;
/// Place of its keys: 0: the first few, [`FEW`]; [`GROWN`]: in its table; [`GROWING`]: being moved,
/// or no room is left for a table.
pub const S_GROWN: usize = 13;
/// See [`S_GROWN`].
pub const GROWN: u64 = 1;
/// See [`S_GROWN`].
pub const GROWING: u64 = 2;

/// A cache line with the data needed to count acquisitions of eight keys: their tags, then their
/// counts with [`SLOW`], 32 bits each. A tag of 0: free.
pub const LINE_WORDS: usize = 8;
/// Keys of a line.
pub const LINE_KEYS: usize = 8;
/// Index of the first count.
pub const LINE_COUNTS: usize = LINE_KEYS / 2;
/// Bit of a count that requests that every hold is timed, because the last one was long.
pub const SLOW: u32 = 1 << 31;

/// Lines of the slot's table, used once the first few keys are not enough. A key is in the line
/// that [`line()`] returns, or in its neighbour.
pub const S_LINES: usize = PAGE;
/// Keys of the table.
pub const KEY_COUNT: usize = 1024;
/// Number of its lines.
pub const LINE_COUNT: usize = KEY_COUNT / LINE_KEYS;
/// The other data of the keys, in the order of the keys in the lines.
pub const S_KEYS: usize = S_LINES + LINE_COUNT * LINE_WORDS;
/// Words of each.
pub const KEY_WORDS: usize = 3;
/// The lock: its address and, in the highest byte, its [`kind`](KIND_SHIFT). An address of 0: all
/// locks of that kind acquired at the site when no room was left for separate keys.
pub const K_LOCK: usize = 0;
/// The call site.
pub const K_SITE: usize = 1;
/// The detail, the generation that used the key last, the number of threads that have used it, and
/// how often the count has wrapped around; see [`Told`].
pub const K_DETAIL: usize = 2;

/// The first keys of each slot, close together: with many threads that take turns with few locks,
/// little is in a cache. One line, then the other data of its keys.
pub const FEW: usize = SLOTS + SLOT_COUNT * SLOT_WORDS;
/// Words of each slot.
pub const FEW_WORDS: usize = F_KEYS + LINE_KEYS * KEY_WORDS;
/// Index of the other data of the keys.
pub const F_KEYS: usize = LINE_WORDS;

/// The word of a key at [`K_DETAIL`].
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
/// A call of futex(2) to wake more than one thread. Its [`D_CONTENDED`] counts the threads that it
/// woke.
pub const BROADCAST: u64 = 11;
/// Placeholder for the lock of [`YIELD`].
pub const YIELDS_LOCK: usize = 1;

/// Details of a key.
pub const DETAILS: usize = FEW + SLOT_COUNT * FEW_WORDS;
/// Number of them.
pub const DETAIL_COUNT: usize = 16384;
/// Words of each.
pub const DETAIL_WORDS: usize = D_LISTS + LISTS * LIST_WORDS;
/// Acquisitions that had to wait.
pub const D_CONTENDED: usize = 0;
/// Failed attempts: trylock, time limit.
pub const D_FAILED: usize = 1;
/// Waits for a condition that directly followed the previous one, without other work in between.
pub const D_FUTILE: usize = 2;
/// Number of details, from this one on, that threads share: each CPU uses the one at its number
/// modulo this number. 0: the detail belongs to one thread.
pub const D_SHARDS: usize = 3;
/// The key: the lock with its kind.
pub const D_LOCK: usize = 4;
/// The key: the call site.
pub const D_SITE: usize = 5;
/// Wakeups that a thread which had waited at the place passed on to another waiter of the place.
pub const D_PASSED: usize = 6;
/// Return addresses of the callers of the function around the call site, nearest first, from the
/// first wait of a thread; 1 and zeros: unknown.
pub const D_CALLERS: usize = 8;
/// Number of them.
pub const CALLERS: usize = 6;
/// First distribution of the detail.
pub const D_LISTS: usize = 16;
/// Distributions.
pub const LISTS: usize = 7;
/// Holds in which the owner kept its CPU.
pub const HOLD_ON: usize = 0;
/// Holds in which the owner was switched away.
pub const HOLD_OFF: usize = 1;
/// Waits.
pub const WAIT: usize = 2;
/// From the last release of any lock to this request, without a context switch.
pub const THINK_ON: usize = 3;
/// The same, with a context switch.
pub const THINK_OFF: usize = 4;
/// From a release with waiters until the next owner runs.
pub const HANDOFF: usize = 5;
/// From a request until a free lock is acquired.
pub const ACQUIRE: usize = 6;
/// Words of a distribution: count, sum, maximum, a spare one, buckets.
pub const LIST_WORDS: usize = 4 + BUCKETS;
/// Buckets of a distribution.
pub const BUCKETS: usize = 64;

/// Traces: the steps of a thread in one window.
pub const TRACES: usize = DETAILS + DETAIL_COUNT * DETAIL_WORDS;
/// Number of them.
pub const TRACE_COUNT: usize = 1536;
/// Words of each.
pub const TRACE_WORDS: usize = 2 * PAGE;
/// The slot.
pub const T_SLOT: usize = 0;
/// The thread.
pub const T_THREAD: usize = 1;
/// The window.
pub const T_WINDOW: usize = 2;
/// The first step.
pub const T_STEPS: usize = 8;
/// Words of a step: start and end in ticks, and a word with one of the kinds below, the bits
/// [`STEP_OFF`] and [`STEP_FAILED`] and, from [`STEP_SHIFT`] on, the key (its number in the slot),
/// or for [`STEP_UNLOCK`] the address.
pub const STEP_WORDS: usize = 3;
/// Bits of the kind.
pub const STEP_KIND: u64 = 0xf;
/// The thread was switched away between the previous step and this one.
pub const STEP_OFF: u64 = 1 << 4;
/// A wait that timed out, or a failed attempt.
pub const STEP_FAILED: u64 = 1 << 5;
/// Bits below key or address.
pub const STEP_SHIFT: u32 = 8;
/// A lock is acquired.
pub const STEP_LOCK: u64 = 1;
/// A lock is released, or a semaphore posted.
pub const STEP_UNLOCK: u64 = 2;
/// A wait on a condition variable.
pub const STEP_WAIT: u64 = 3;
/// A signal.
pub const STEP_SIGNAL: u64 = 4;
/// A broadcast.
pub const STEP_BROADCAST: u64 = 5;
/// `sched_yield`.
pub const STEP_YIELD: u64 = 6;
/// A wait at a barrier.
pub const STEP_BARRIER: u64 = 7;

/// Words of the file.
pub const FILE_WORDS: usize = PLACES + PLACE_COUNT * PLACE_WORDS;

/// Minimum length of a long hold: over a hundred times the cost of timing it; ticks, 1 to 2 us.
pub const LONG: u64 = 4096;
/// Number of acquisitions of a key that are all timed, until it is known whether they are long.
pub const FIRST: u64 = 16;

/// Number of uncontended acquisitions represented by one timed sample.
pub const SAMPLED: u64 = 64;

/// Bucket of a time in ticks: two for each power of two, from 16 ticks on.
#[inline]
pub const fn bucket(ticks: u64) -> usize {
    let high = 63 - (ticks | 1).leading_zeros() as usize;
    if high < 4 {
        return 0;
    }
    let bucket = (high - 4) * 2 + (ticks >> (high - 1) & 1) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Shortest time in a bucket, ticks.
pub const fn least(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { (2 + bucket as u64 % 2) << (bucket / 2 + 3) }
}

/// Start of the search for an address in a table of `count` entries, a power of two.
#[inline]
pub const fn place(lock: u64, site: u64, count: usize) -> usize {
    let mixed = (lock ^ site.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (count - 1)
}

const _: () = {
    assert!(S_LOCK_PHASES + LOCK_PHASE_COUNT <= S_LINES);
    assert!(S_GROWN < S_TAKEN && S_ENDED + ENDED_COUNT * ENDED_WORDS <= S_ROUNDS);
    assert!(S_ROUNDS + 2 * ROUND_WORDS <= S_PHASES);
    assert!(S_GROWN < S_PHASES && DETAIL_COUNT <= 1 << Told::DETAIL_BITS);
    // Cache lines are aligned to lines, and tables to pages.
    assert!((FEW | FEW_WORDS).is_multiple_of(LINE_WORDS));
    assert!(SLOTS.is_multiple_of(PAGE) && SLOT_WORDS.is_multiple_of(PAGE));
    assert!(D_CALLERS + CALLERS <= D_LISTS);
    assert!(S_LOCK_PHASE_SHIFT < S_PHASES);
    assert!(L_WAITER < LOCK_WORDS && CONTEXT_COUNT < CONTEXT as usize);
    assert!(bucket(15) == 0 && bucket(16) == 0 && bucket(24) == 1 && bucket(32) == 2);
    assert!(least(2) == 32 && least(1) == 24 && bucket(least(40)) == 40);
};
