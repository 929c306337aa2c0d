//! Times in the file: distributions for each key, the steps of threads, and places of Python code.

use crate::memory::{Access, Plain, parts};

/// Counts and distributions of a key.
#[repr(C)]
pub struct Detail<A: Access = Plain> {
    /// Acquisitions that had to wait.
    pub contended: A::Word,
    /// Failed attempts: trylock, time limit.
    pub failed: A::Word,
    /// Waits for a condition that directly followed the previous one, without other work in
    /// between.
    pub futile: A::Word,
    /// Number of details, from this one on, that threads share: each CPU uses the one at its number
    /// modulo this number. 0: the detail belongs to one thread.
    pub shards: A::Word,
    /// The key: the lock with its kind.
    pub lock: A::Word,
    /// The key: the call site.
    pub site: A::Word,
    /// Wakeups that a thread which had waited at the place passed on to another waiter of the
    /// place.
    pub passed: A::Word,
    /// Those of [`Detail::futile`] before which the thread had left the critical section of the
    /// mutex.
    pub returned: A::Word,
    /// Return addresses of the callers of the function around the call site, nearest first, from
    /// the first wait of a thread; 1 and zeros: unknown.
    pub callers: [A::Word; CALLERS],
    unused: [A::Word; 2],
    /// Holds in which the owner kept its CPU.
    pub hold_on: Distribution<A>,
    /// Holds in which the owner was switched away.
    pub hold_off: Distribution<A>,
    /// Waits.
    pub wait: Distribution<A>,
    /// From the last release of any lock to this request, without a context switch.
    pub think_on: Distribution<A>,
    /// The same, with a context switch.
    pub think_off: Distribution<A>,
    /// From a release with waiters until the next owner runs.
    pub handoff: Distribution<A>,
    /// From a request until a free lock is acquired.
    pub acquire: Distribution<A>,
}

/// Number of details.
pub const DETAIL_COUNT: usize = 16384;
/// Number of traces.
pub const TRACE_COUNT: usize = 1536;
/// Number of places in Python code.
pub const PLACE_COUNT: usize = 1024;
/// Number of callers of a call site.
pub const CALLERS: usize = 6;

/// A distribution of times.
#[repr(C)]
pub struct Distribution<A: Access = Plain> {
    /// Number of times.
    pub count: A::Word,
    /// Their sum, ticks.
    pub sum: A::Word,
    /// The longest one, ticks.
    pub max: A::Word,
    unused: A::Word,
    /// Numbers of times, by their [`bucket`].
    pub buckets: [A::Word; BUCKETS],
}

/// Buckets of a distribution.
pub const BUCKETS: usize = 64;
/// Minimum length of a long hold: over a hundred times the cost of timing it; ticks, 1 to 2 us.
pub const LONG: u64 = 4096;
/// Number of acquisitions of a key that are all timed, until it is known whether they are long.
pub const FIRST: u64 = 16;
/// Number of uncontended acquisitions represented by each of the first [`SAMPLES`] of a thread that
/// are timed by chance.
pub const SAMPLED: u64 = 64;
/// Number of samples of a thread that represent [`SAMPLED`] acquisitions each.
pub const SAMPLES: u64 = 1024;
/// The number represented by each later one; a hold has eight bits for it.
pub const SAMPLED_LATER: u64 = 192;

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

/// The steps of a thread in one window.
#[repr(C)]
pub struct Trace<A: Access = Plain> {
    /// The slot.
    pub slot: A::Word,
    /// The thread.
    pub thread: A::Word,
    /// The window.
    pub window: A::Word,
    /// The name of the thread, ended by a zero byte; empty if the kernel must not be called.
    pub name: [A::Word; 2],
    unused: [A::Word; 3],
    /// The steps; the first one of kind 0 ends them.
    pub steps: [Step<A>; 338],
    unused_rest: [A::Word; 2],
}

/// A step of a thread.
#[repr(C)]
pub struct Step<A: Access = Plain> {
    /// Its start, ticks.
    pub begin: A::Word,
    /// Its end, ticks.
    pub end: A::Word,
    /// One of the kinds below, the bits [`STEP_OFF`] and [`STEP_FAILED`] and, from [`STEP_SHIFT`]
    /// on, the key (its number in the slot), or for [`STEP_UNLOCK`] the address.
    pub what: A::Word,
}

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

/// A place in Python code.
#[repr(C)]
pub struct Place<A: Access = Plain> {
    /// A hash of the code and the instruction; 0: free.
    pub hash: A::Word,
    /// Bytes of the text; 0 until it is complete.
    pub bytes: A::Word,
    /// The text: the function with its file and line.
    pub text: [A::Word; PLACE_BYTES / 8],
}

/// Maximum size of the text.
pub const PLACE_BYTES: usize = 240;
/// Bit of a call site that is the number of such a place.
pub const PYTHON: u64 = 1 << 54;

parts! { Detail Distribution Trace Step Place }
