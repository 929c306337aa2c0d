//! The file that a recorded process writes through a shared mapping: words of 64 bits, the same
//! index for recorder and reader.
//!
//! ```text
//! header | locks with waiters | memory map | call stacks | edges | one slot a thread
//!        | the first keys of each slot | details of (lock, call site) | traces | waits
//! ```
//! The file has its greatest length and is sparse: only used parts take space. Times are ticks of
//! the time stamp counter; two readings of it and of the monotonic clock give the length of a tick.

#[path = "layout_programs.rs"]
mod programs;
#[path = "layout_waits.rs"]
mod waits;

pub use programs::*;
pub use waits::*;

/// First word of the file: "convoyrw".
pub const MAGIC: u64 = u64::from_le_bytes(*b"convoyrw");
/// Version of this layout.
pub const VERSION: u64 = 12;

/// Name of the file with the number of pages that all processes together may still use.
pub const BUDGET: &[u8] = b"budget";
/// Its word with the number of pages that programs of other users took.
pub const BUDGET_OTHERS: usize = 1;
/// Unrecorded programs: for want of room, of the directory, by a limit, by a filter.
pub const BUDGET_LOST: usize = 2;

/// Words of a page.
pub const PAGE: usize = 512;

// The header.
/// [`MAGIC`].
pub const H_MAGIC: usize = 0;
/// [`VERSION`].
pub const H_VERSION: usize = 1;
/// The process.
pub const H_PID: usize = 2;
/// Its parent.
pub const H_PARENT: usize = 3;
/// Ticks when recording began.
pub const H_TICKS_BEGIN: usize = 4;
/// The monotonic clock then, nanoseconds.
pub const H_NS_BEGIN: usize = 5;
/// Ticks at the last look at the clock.
pub const H_TICKS_LAST: usize = 6;
/// The monotonic clock then, nanoseconds.
pub const H_NS_LAST: usize = 7;
/// Slots in use.
pub const H_SLOTS: usize = 8;
/// Details in use; the first one is never used.
pub const H_DETAILS: usize = 9;
/// Bytes of the memory map.
pub const H_MAP_BYTES: usize = 10;
/// Threads for which there was no slot.
pub const H_THREADS_LOST: usize = 11;
/// Threads that were given a slot.
pub const H_THREADS: usize = 12;
/// 1 once the process ended by `exit`.
pub const H_ENDED: usize = 13;
/// 1 if switches of a thread can be seen (`rseq`).
pub const H_SEES_SWITCHES: usize = 14;
/// CPU time of the process at the last look at the clock, nanoseconds.
pub const H_CPU_NS: usize = 15;
/// 1 while somebody reads the memory map.
pub const H_MAP_BUSY: usize = 16;
/// Where the search for a slot of a thread that ended goes on.
pub const H_CURSOR: usize = 17;
/// Most threads that had a slot at once.
pub const H_THREADS_MOST: usize = 18;
/// Mutexes that have a policy of their own.
pub const H_CHOSEN: usize = 19;
/// Traces in use.
pub const H_TRACES: usize = 20;
/// Windows that were opened: in each, threads write what they do one by one.
pub const H_WINDOW: usize = 21;
/// When the next one opens, ticks.
pub const H_WINDOW_NEXT: usize = 22;
/// Traces of the window.
pub const H_WINDOW_TRACES: usize = 23;
/// Ticks between two looks at the counter with nothing between them: every time has as many too
/// many.
pub const H_STAMP: usize = 24;
/// Where the file is in the memory of the process.
pub const H_BASE: usize = 25;
/// Waits that were candidates for [`EVENTS`].
pub const H_EVENTS: usize = 26;
/// Edges for which there was no room.
pub const H_EDGES_LOST: usize = 27;
/// Programs that ran without the object, for whose names there was no room.
pub const H_PROGRAMS_MORE: usize = 28;
/// Times that room was wanted and there was none.
pub const H_SHORT: usize = 40;
/// Of [`H_THREADS_LOST`], threads for which there was no room.
pub const H_THREADS_UNROOMED: usize = 41;
/// Acquisitions of threads that were not recorded.
pub const H_UNRECORDED: usize = 42;
/// Children that could not be recorded for want of room, of the directory, and by a limit.
pub const H_CHILDREN_LOST: usize = 43;
/// 1 once the process has limited its system calls: from then on no room is made for it.
pub const H_SANDBOXED: usize = 46;
/// Command line of the process, its words ended by zeros.
pub const H_COMMAND: usize = 64;

/// Locks and conditions that had waiters, open addressing by [`place`].
pub const LOCKS: usize = PAGE;
/// Of them.
pub const LOCK_COUNT: usize = 4096;
/// Words of each.
pub const LOCK_WORDS: usize = 16;
/// Its address; 0: free.
pub const L_ADDRESS: usize = 0;
/// Threads that wait now.
pub const L_WAITERS: usize = 1;
/// Since when some thread waits, ticks.
pub const L_SINCE: usize = 2;
/// The last release that found waiters, ticks.
pub const L_RELEASED: usize = 3;
/// Longest time with waiters, ticks.
pub const L_LONGEST: usize = 4;
/// All time with waiters, ticks.
pub const L_WAITED: usize = 5;
/// Most threads that waited at once.
pub const L_MOST: usize = 6;
/// When the longest time with waiters began, ticks.
pub const L_LONGEST_AT: usize = 7;
/// Of a semaphore or a condition: the thread that got it last and has not given it up; 0: none.
pub const L_OWNER: usize = 8;
/// How often that thread gave it up.
pub const L_OWN: usize = 9;
/// How often another one did.
pub const L_OTHER: usize = 10;
/// Of a condition: the mutex that is given up for it.
pub const L_MUTEX: usize = 11;
/// Of a condition: the one thread that waits for it and, from [`WAITS_SHIFT`] on, how often it has;
/// [`MANY`]: several do.
pub const L_WAITER: usize = 12;
/// Bits of [`L_WAITER`] below the number of waits.
pub const WAITS_SHIFT: u32 = 32;
/// Several threads wait for the condition.
pub const MANY: u64 = u64::MAX;
/// Waits of one thread after which a condition is the thread's own: what it waits for is known by
/// its call stack.
pub const OWN_AFTER: u64 = 4;

/// Text of `/proc/self/maps`, one or several of them.
pub const MAP: usize = LOCKS + LOCK_COUNT * LOCK_WORDS;
/// Room for it.
pub const MAP_WORDS: usize = 64 * PAGE;

/// Call stacks of waits for conditions that only one thread ever waits for, and of calls of
/// futex(2) that wait or wake: open addressing by [`place`] of the call site.
pub const CONTEXTS: usize = MAP + MAP_WORDS;
/// Of them.
pub const CONTEXT_COUNT: usize = 1024;
/// Words of each.
pub const CONTEXT_WORDS: usize = C_FRAMES + 2 * (C_NATIVE + C_FOREIGN);
/// The call site; 0: free.
pub const C_SITE: usize = 0;
/// 1 once all of it is there.
pub const C_READY: usize = 1;
/// Callers by the unwind tables of the program.
pub const C_COUNT: usize = 2;
/// What is left of code without such tables, that called these: return addresses on the stack.
pub const C_FOREIGN_COUNT: usize = 3;
/// The callers, the nearest first, then what is left: each with where it lies on the stack.
pub const C_FRAMES: usize = 4;
/// Callers at most.
pub const C_NATIVE: usize = 12;
/// Of code without tables at most.
pub const C_FOREIGN: usize = 8;
/// The bit that makes the number of a call stack of a call site.
pub const CONTEXT: u64 = 1 << 62;

/// Slots of threads.
pub const SLOTS: usize = EDGES + EDGE_COUNT * EDGE_WORDS;
/// Of them: threads that live at the same time.
pub const SLOT_COUNT: usize = 4096;
/// Words of each.
pub const SLOT_WORDS: usize = S_KEYS + KEY_COUNT * KEY_WORDS;
/// The thread, and the threads before it that had ended.
pub const S_THREAD: usize = 0;
/// How many threads have had the slot.
pub const S_GENERATION: usize = 1;
/// Acquisitions until one is timed.
pub const S_COUNTDOWN: usize = 2;
/// State of the generator that spreads what is timed.
pub const S_RANDOM: usize = 3;
/// Keys in use.
pub const S_USED: usize = 7;
/// Acquisitions for which there was no key.
pub const S_LOST: usize = 8;
/// Logarithm of the ticks of one phase.
pub const S_PHASE_SHIFT: usize = 9;
/// Contended acquisitions and waits for which there was no detail.
pub const S_UNTOLD: usize = 11;
/// The word of the file that the next step of the thread goes to; 0: none.
pub const S_TRACE: usize = 6;
/// Acquisitions until one is timed, while [`S_COUNTDOWN`] says that something else is due.
pub const S_LEFT: usize = 4;
/// 1 if another thread has opened a window and changed [`S_COUNTDOWN`].
pub const S_POKED: usize = 5;
/// Logarithm of the ticks of one phase of waits for locks.
pub const S_LOCK_PHASE_SHIFT: usize = 10;
/// 1 while somebody makes one of each two phases.
pub const S_FOLDS: usize = 12;
/// Ticks waited in each phase.
pub const S_PHASES: usize = 128;
/// Phases; when the last one is over, pairs of them become one.
pub const PHASE_COUNT: usize = 256;
/// The same of waits for locks alone, without conditions and barriers.
pub const S_LOCK_PHASES: usize = S_PHASES + PHASE_COUNT;
/// Phases of them.
pub const LOCK_PHASE_COUNT: usize = 128;
/// Logarithm of the ticks of a phase at first: about 6 ms.
pub const PHASE_SHIFT: u64 = 24;
/// Where its keys are: 0: the first few, [`FEW`]; [`GROWN`]: in its table; [`GROWING`]: on the way,
/// or there is no room for one.
pub const S_GROWN: usize = 13;
/// See [`S_GROWN`].
pub const GROWN: u64 = 1;
/// See [`S_GROWN`].
pub const GROWING: u64 = 2;

/// A line of the cache with what is needed to count the acquisitions of eight keys: their tags,
/// then their counts with [`SLOW`], of 32 bits each. A tag of 0: free.
pub const LINE_WORDS: usize = 8;
/// Keys of a line.
pub const LINE_KEYS: usize = 8;
/// Where the counts begin.
pub const LINE_COUNTS: usize = LINE_KEYS / 2;
/// The bit of a count that says that every hold is timed, because the last one was long.
pub const SLOW: u32 = 1 << 31;

/// Table of the slot, once the first few keys are not enough: its lines. A key is in the one that
/// [`line()`] says, or in the one beside.
pub const S_LINES: usize = PAGE;
/// Keys of the table.
pub const KEY_COUNT: usize = 1024;
/// Lines of it.
pub const LINE_COUNT: usize = KEY_COUNT / LINE_KEYS;
/// What else belongs to the keys, in their order in the lines.
pub const S_KEYS: usize = S_LINES + LINE_COUNT * LINE_WORDS;
/// Words of each.
pub const KEY_WORDS: usize = 3;
/// The lock: its address and, in the highest byte, its [`kind`](KIND_SHIFT). An address of 0: all
/// locks of that kind that were taken at the site when there was no room for keys of their own.
pub const K_LOCK: usize = 0;
/// Where it was called from.
pub const K_SITE: usize = 1;
/// The detail, the generation that used the key last, threads that have, and how often the count
/// has begun anew; see [`Told`].
pub const K_DETAIL: usize = 2;

/// The first keys of each slot close together: of many threads that take turns with few locks,
/// little is in a cache. One line, then what else belongs to its keys.
pub const FEW: usize = SLOTS + SLOT_COUNT * SLOT_WORDS;
/// Words of a slot's.
pub const FEW_WORDS: usize = F_KEYS + LINE_KEYS * KEY_WORDS;
/// Where the rest of the keys begins.
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

    /// Threads that have used the key, of those that had the slot one after the other.
    pub const fn threads(self) -> u64 {
        self.0 >> Self::THREADS_SHIFT & ((1 << Self::THREADS_BITS) - 1)
    }

    /// With this detail, used by the thread of this generation.
    #[must_use]
    pub const fn used(self, detail: u64, generation: u64) -> Self {
        let last = self.0 >> Self::DETAIL_BITS & ((1 << Self::GENERATION_BITS) - 1);
        let is_new = last != generation && self.threads() + 1 < 1 << Self::THREADS_BITS;
        let threads = self.threads() + is_new as u64;
        let rounds = self.0 >> Self::ROUNDS_SHIFT << Self::ROUNDS_SHIFT;
        let high = threads << Self::THREADS_SHIFT | generation << Self::DETAIL_BITS;
        Self(rounds | high | detail)
    }

    /// With a count that begins anew.
    #[must_use]
    pub const fn round(self) -> Self {
        match self.0.checked_add(1 << Self::ROUNDS_SHIFT) {
            Some(next) => Self(next),
            None => self,
        }
    }

    /// All that was counted, with what the line has now.
    pub const fn counted(self, count: u32) -> u64 {
        (self.0 >> Self::ROUNDS_SHIFT) * SLOW as u64 + (count & !SLOW) as u64
    }
}

/// What tells a key, mixed: see [`line()`] and [`tag`].
#[inline]
pub const fn mixed(lock: u64, site: u64) -> u64 {
    (lock ^ site.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The line of a table in which a key is sought first; then in that with the lowest bit flipped.
#[inline]
pub const fn line(mixed: u64) -> usize {
    (mixed >> (64 - LINE_COUNT.ilog2())) as usize
}

/// What a key is known by in its line, never 0. Two keys have the same tag in the same line if 38
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
/// A call of `sched_yield`; of another lock than [`YIELDS_LOCK`], an attempt to acquire it in vain.
pub const YIELD: u64 = 9;
/// A wait in futex(2) that went through libc's `syscall`. Its site is a call stack if there was
/// room for one.
pub const FUTEX: u64 = 10;
/// A call of futex(2) that was to wake more than one thread: the threads that it woke are its
/// [`D_CONTENDED`].
pub const BROADCAST: u64 = 11;
/// What stands for the lock of [`YIELD`].
pub const YIELDS_LOCK: usize = 1;

/// Details of a key.
pub const DETAILS: usize = FEW + SLOT_COUNT * FEW_WORDS;
/// Of them.
pub const DETAIL_COUNT: usize = 16384;
/// Words of each.
pub const DETAIL_WORDS: usize = D_LISTS + LISTS * LIST_WORDS;
/// Acquisitions that had to wait.
pub const D_CONTENDED: usize = 0;
/// Attempts that did not get it: trylock, time limit.
pub const D_FAILED: usize = 1;
/// Waits for a condition that began where the last one had ended, without any other work.
pub const D_FUTILE: usize = 2;
/// Details from this one on that threads share, one for the CPUs of one number modulo as many; 0:
/// one thread has it alone.
pub const D_SHARDS: usize = 3;
/// The key: the lock with its kind.
pub const D_LOCK: usize = 4;
/// The key: the call site.
pub const D_SITE: usize = 5;
/// Wakeups that a thread which had waited at the place gave on to another one that waited there.
pub const D_PASSED: usize = 6;
/// What the callers of the function around the call site return to, the nearest first, when a
/// thread first waited; 1 and zeros: not known.
pub const D_CALLERS: usize = 8;
/// Of them.
pub const CALLERS: usize = 6;
/// First distribution of the detail.
pub const D_LISTS: usize = 16;
/// Distributions.
pub const LISTS: usize = 7;
/// Holds in which the owner kept its CPU.
pub const HOLD_ON: usize = 0;
/// Holds in which it was switched away.
pub const HOLD_OFF: usize = 1;
/// Waits.
pub const WAIT: usize = 2;
/// From the last release of any lock to this request, without a switch.
pub const THINK_ON: usize = 3;
/// The same, with one.
pub const THINK_OFF: usize = 4;
/// From a release with waiters to the next owner running.
pub const HANDOFF: usize = 5;
/// From a request to owning a lock that was free.
pub const ACQUIRE: usize = 6;
/// Words of a distribution: count, sum, maximum, a spare one, buckets.
pub const LIST_WORDS: usize = 4 + BUCKETS;
/// Buckets of a distribution.
pub const BUCKETS: usize = 64;

/// Traces: what a thread did, step by step, in one window.
pub const TRACES: usize = DETAILS + DETAIL_COUNT * DETAIL_WORDS;
/// Of them.
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
/// Words of a step: when it began and ended, ticks, and a word with one of the kinds below, the
/// bits [`STEP_OFF`] and [`STEP_FAILED`] and, from [`STEP_SHIFT`] on, the key (its number in the
/// slot), or of [`STEP_UNLOCK`] the address.
pub const STEP_WORDS: usize = 3;
/// Bits of the kind.
pub const STEP_KIND: u64 = 0xf;
/// The thread was switched away between the step before and this one.
pub const STEP_OFF: u64 = 1 << 4;
/// A wait ended for its time limit, or an attempt in vain.
pub const STEP_FAILED: u64 = 1 << 5;
/// Bits below key or address.
pub const STEP_SHIFT: u32 = 8;
/// A lock is taken.
pub const STEP_LOCK: u64 = 1;
/// A lock is given up, or a semaphore posted.
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
pub const FILE_WORDS: usize = EVENTS + EVENT_COUNT * EVENT_WORDS;

/// How long that is: more than a hundred times what timing it takes; ticks, 1 to 2 us.
pub const LONG: u64 = 4096;
/// Acquisitions of a key of which every one is timed, until it is known whether they are long.
pub const FIRST: u64 = 16;

/// How many acquisitions one stands for that is timed although nobody waited.
pub const SAMPLED: u64 = 64;

/// The bucket of a time in ticks: two for each power of two, from 16 ticks on.
#[inline]
pub const fn bucket(ticks: u64) -> usize {
    let high = 63 - (ticks | 1).leading_zeros() as usize;
    if high < 4 {
        return 0;
    }
    let bucket = (high - 4) * 2 + (ticks >> (high - 1) & 1) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The least time of a bucket, ticks.
pub const fn least(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { (2 + bucket as u64 % 2) << (bucket / 2 + 3) }
}

/// Where the search for an address begins in a table of `count` places, a power of two.
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
    // Lines of the cache begin where lines begin, and tables where pages do.
    assert!((FEW | FEW_WORDS).is_multiple_of(LINE_WORDS));
    assert!(SLOTS.is_multiple_of(PAGE) && SLOT_WORDS.is_multiple_of(PAGE));
    assert!(D_CALLERS + CALLERS <= D_LISTS);
    assert!(S_LOCK_PHASE_SHIFT < S_PHASES);
    assert!(L_WAITER < LOCK_WORDS && CONTEXT_COUNT < CONTEXT as usize);
    assert!(bucket(15) == 0 && bucket(16) == 0 && bucket(24) == 1 && bucket(32) == 2);
    assert!(least(2) == 32 && least(1) == 24 && bucket(least(40)) == 40);
};
