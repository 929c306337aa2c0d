//! Waits in the file: locks with waiters, the waits of a thread, waiting and holding call sites,
//! single waits, and the call stacks of waits.

use crate::memory::{Access, Plain, parts};

/// A lock or condition that had waiters. Its first cache line changes seldom: each signal of a
/// condition reads it, whether or not threads wait.
#[repr(C)]
pub struct Lock<A: Access = Plain> {
    /// Its address; 0: free.
    pub address: A::Word,
    /// For a semaphore or a condition: the last thread to acquire it, as slot + 1; 0: none.
    pub owner: A::Word,
    /// For a condition: the owner at the time when its present owner was woken, likewise. It took
    /// the unit if the woken thread waits again.
    pub overtaker: A::Word,
    /// For a condition: the mutex that is released while threads wait for it.
    pub mutex: A::Word,
    /// For a condition: its only waiter and, from [`WAITS_SHIFT`] on, the number of waits; [`MANY`]
    /// if several threads wait for it.
    pub waiter: A::Word,
    /// Longest period with waiters, ticks.
    pub longest: A::Word,
    /// When the longest period with waiters began, ticks.
    pub longest_at: A::Word,
    /// Maximum number of threads that waited at the same time.
    pub waiters_max: A::Word,
    /// Threads that wait now.
    pub waiters: A::Word,
    /// Since when threads have been waiting, ticks.
    pub since: A::Word,
    /// Total time with waiters, ticks.
    pub waited: A::Word,
    /// The last release that found waiters, ticks.
    pub released: A::Word,
    /// Number of releases that the last one, [`Lock::released`], represents.
    pub released_weight: A::Word,
    /// How often its owner released it.
    pub owner_releases: A::Word,
    /// How often another thread released it.
    pub other_releases: A::Word,
    unused: A::Word,
}

/// Number of locks.
pub const LOCK_COUNT: usize = 4096;
/// Number of call stacks.
pub const STACK_COUNT: usize = 1024;
/// Number of edges.
pub const EDGE_COUNT: usize = 2048;
/// Number of single waits.
pub const EVENT_COUNT: usize = 2048;
/// Bits of [`Lock::waiter`] below the number of waits.
pub const WAITS_SHIFT: u32 = 32;
/// Several threads wait for the condition.
pub const MANY: u64 = u64::MAX;
/// Number of waits after which a condition with a single waiter is private to that thread: its call
/// stack then identifies its purpose.
pub const OWN_AFTER: u64 = 4;

/// The call stack of a wait for a condition with a single waiter, or of a call of futex(2) that
/// waits or wakes.
#[repr(C)]
pub struct CallStack<A: Access = Plain> {
    /// The call site; 0: free.
    pub site: A::Word,
    /// 1 once the entry is complete.
    pub ready: A::Word,
    /// Number of callers found with the program's unwind tables.
    pub count: A::Word,
    /// Number of return addresses left on the stack, from code without such tables further out.
    pub foreign_count: A::Word,
    /// The callers, nearest first.
    pub native: [Frame<A>; NATIVE_FRAMES],
    /// The remaining addresses.
    pub foreign: [Frame<A>; FOREIGN_FRAMES],
}

/// Maximum number of callers found with unwind tables.
pub const NATIVE_FRAMES: usize = 12;
/// Maximum number of addresses from code without tables.
pub const FOREIGN_FRAMES: usize = 8;

/// A return address.
#[repr(C)]
pub struct Frame<A: Access = Plain> {
    /// The address.
    pub address: A::Word,
    /// Its position on the stack.
    pub position: A::Word,
}

/// Bit that turns a call site into the number of a call stack.
pub const CONTEXT: u64 = 1 << 62;

/// The current wait of a thread.
#[repr(C)]
pub struct CurrentWait<A: Access = Plain> {
    /// The lock with its kind; 0 if none.
    pub lock: A::Word,
    /// The call site.
    pub site: A::Word,
    /// When the wait began, ticks.
    pub since: A::Word,
    /// Thread ID of the owner at that time; 0 if unknown.
    pub owner: A::Word,
    /// Where the owner had acquired it, with the kind of that call; 0 if unknown.
    pub held: A::Word,
    /// Detail with the callers of the call site.
    pub detail: A::Word,
    /// Detail with the callers of the owner's place.
    pub held_detail: A::Word,
}

/// The end of a wait in futex(2).
#[repr(C)]
pub struct EndedWait<A: Access = Plain> {
    /// When the wait had begun, ticks, as in [`CurrentWait::since`].
    pub since: A::Word,
    /// When it ended, ticks.
    pub until: A::Word,
    /// Thread ID of the owner during the wait; 0 if unknown.
    pub owner: A::Word,
    /// The lock with its kind, as in [`Edge::lock`].
    pub lock: A::Word,
    /// Where that thread woke others, with the kind of that call, as in [`Edge::held`].
    pub held: A::Word,
}

/// A place where a thread waited in futex(2).
#[repr(C)]
pub struct Round<A: Access = Plain> {
    /// The place.
    pub place: A::Word,
    /// End of the last wait there, ticks; 0 if no wakeup ended it.
    pub end: A::Word,
    /// How long the thread has waited elsewhere since then, ticks.
    pub away: A::Word,
    /// The detail of that wait.
    pub detail: A::Word,
}

/// A waiting place and the place where the owner had acquired the lock.
#[repr(C)]
pub struct Edge<A: Access = Plain> {
    /// The lock with the kind of the waiting call; 0: free.
    pub lock: A::Word,
    /// Where threads waited.
    pub site: A::Word,
    /// Where the owner had acquired the lock, with the kind of that call; 0 if unknown.
    pub held: A::Word,
    /// Caller of the function around the waiting place; 0 or 1 if unknown.
    pub from: A::Word,
    /// Caller of the function around the owner's place; 0 or 1 if unknown.
    pub held_from: A::Word,
    /// Detail with the callers of the waiting place; 0: none.
    pub detail: A::Word,
    /// Detail with the callers of the owner's place; 0: none.
    pub held_detail: A::Word,
    /// Number of waits.
    pub count: A::Word,
    /// Total time of the waits, ticks.
    pub ticks: A::Word,
    /// The longest wait, ticks.
    pub ticks_max: A::Word,
    /// Time of those waits during which the CPU time of the owner was read, ticks.
    pub measured: A::Word,
    /// That CPU time, nanoseconds.
    pub ran_ns: A::Word,
    /// How often the owner had acquired the lock again when the wait ended.
    pub again: A::Word,
    /// Waits of a thread for itself.
    pub of_itself: A::Word,
    unused: [A::Word; 2],
}

/// A single contended wait.
#[repr(C)]
pub struct Event<A: Access = Plain> {
    /// When it began, ticks; 0: free.
    pub begin: A::Word,
    /// When it ended, ticks.
    pub end: A::Word,
    /// The lock with the kind of the call.
    pub lock: A::Word,
    /// The call site.
    pub site: A::Word,
    /// Where the owner had acquired it; 0 if unknown.
    pub held: A::Word,
    /// The thread that waited and, above [`WAITS_SHIFT`], the owner.
    pub threads: A::Word,
    /// CPU time of the owner during the wait, in nanoseconds, plus 1; 0 if not measured.
    pub ran_ns: A::Word,
    /// Details with the callers of both places, as [`Event::threads`].
    pub details: A::Word,
}

parts! { Lock CallStack Frame CurrentWait EndedWait Round Edge Event }

/// Start of the search for an edge.
#[inline]
pub const fn edge(lock: u64, site: u64, held: u64) -> usize {
    let mixed =
        (lock ^ site.rotate_left(21) ^ held.rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (EDGE_COUNT - 1)
}
