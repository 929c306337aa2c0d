//! Waits in the file: the current wait of a thread, its last acquisitions, waiting and holding call
//! sites, single waits, and the places of Python code.

use super::{
    CONTEXT_COUNT, CONTEXT_WORDS, CONTEXTS, KIND_SHIFT, S_PHASES, SEMAPHORE, TRACE_COUNT,
    TRACE_WORDS, TRACES,
};

/// The thread's last acquisitions: addresses of keys in the memory of the process, with the entry
/// of a lock at [`taken`]. Entries of mutexes outlive the hold.
pub const S_TAKEN: usize = 16;
/// Number of them.
pub const TAKEN_COUNT: usize = 8;
/// The current wait of the thread: the lock with its kind; 0 if none.
pub const S_WAITS: usize = 24;
/// The call site of the wait.
pub const S_WAITS_SITE: usize = 25;
/// When the wait began, ticks.
pub const S_WAITS_SINCE: usize = 26;
/// Thread ID of the owner at that time; 0 if unknown.
pub const S_WAITS_OWNER: usize = 27;
/// Where the owner had acquired it, with the kind of that call; 0 if unknown.
pub const S_WAITS_HELD: usize = 28;
/// Details with the callers of both places.
pub const S_WAITS_DETAIL: usize = 29;
/// See [`S_WAITS_DETAIL`].
pub const S_WAITS_HELD_DETAIL: usize = 30;

/// Ends of the thread's last waits in futex(2), a ring: only then are the owners known.
pub const S_ENDED: usize = 32;
/// Number of them.
pub const ENDED_COUNT: usize = 12;
/// Words of each.
pub const ENDED_WORDS: usize = 5;
/// When the wait had begun, ticks, as in [`S_WAITS_SINCE`].
pub const N_SINCE: usize = 0;
/// When it ended, ticks.
pub const N_UNTIL: usize = 1;
/// Thread ID of the owner during the wait; 0 if unknown.
pub const N_OWNER: usize = 2;
/// The lock with its kind, as in [`E_LOCK`].
pub const N_LOCK: usize = 3;
/// Where that thread woke others, with the kind of that call, as in [`E_HELD`].
pub const N_HELD: usize = 4;

/// The last two places where the thread waited in futex(2).
pub const S_ROUNDS: usize = 96;
/// Words of each: the place, the end of the last wait there in ticks, how many ticks the thread has
/// waited elsewhere since then, and the detail.
pub const ROUND_WORDS: usize = 4;

/// Units of semaphores that the thread has acquired and not posted: keys, as in [`S_TAKEN`].
pub const S_UNITS: usize = 104;
/// Number of them.
pub const UNIT_COUNT: usize = 16;

/// Word of a slot for the thread's last acquisition of a lock of this kind. Semaphores have
/// separate entries, which mutexes do not overwrite, because nothing else names their owners.
#[inline]
pub const fn taken(kind: u64, lock: usize) -> usize {
    match kind {
        SEMAPHORE => S_UNITS + (lock >> 5 ^ lock >> 9) % UNIT_COUNT,
        _ => S_TAKEN + (lock >> 3 ^ lock >> 6) % TAKEN_COUNT,
    }
}

/// Edges: a waiting place and the place where the owner had acquired the lock. Open addressing by
/// [`edge`].
pub const EDGES: usize = CONTEXTS + CONTEXT_COUNT * CONTEXT_WORDS;
/// Number of them.
pub const EDGE_COUNT: usize = 2048;
/// Words of each.
pub const EDGE_WORDS: usize = 16;
/// The lock with the kind of the waiting call; 0: free.
pub const E_LOCK: usize = 0;
/// Where threads waited.
pub const E_SITE: usize = 1;
/// Where the owner had acquired the lock, with the kind of that call; 0 if unknown.
pub const E_HELD: usize = 2;
/// Caller of the function around the waiting place; 0 or 1 if unknown.
pub const E_FROM: usize = 3;
/// Caller of the function around the owner's place; 0 or 1 if unknown.
pub const E_HELD_FROM: usize = 4;
/// Details with the callers of both places; 0: none.
pub const E_DETAIL: usize = 5;
/// See [`E_DETAIL`].
pub const E_HELD_DETAIL: usize = 6;
/// Number of waits.
pub const E_COUNT: usize = 7;
/// Total time of the waits, ticks.
pub const E_TICKS: usize = 8;
/// The longest wait, ticks.
pub const E_MOST: usize = 9;
/// Time of those waits during which the CPU time of the owner was read, ticks.
pub const E_MEASURED: usize = 10;
/// That CPU time, nanoseconds.
pub const E_RAN_NS: usize = 11;
/// How often the owner had acquired the lock again when the wait ended.
pub const E_AGAIN: usize = 12;
/// Waits of a thread for itself.
pub const E_SELF: usize = 13;

/// Start of the search for an edge.
#[inline]
pub const fn edge(lock: u64, site: u64, held: u64) -> usize {
    let mixed =
        (lock ^ site.rotate_left(21) ^ held.rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (EDGE_COUNT - 1)
}

/// Word of a detail: those of [`D_FUTILE`](super::D_FUTILE) before which the thread had left the
/// critical section of the mutex.
pub const D_RETURNED: usize = 7;

/// Single contended waits: the first ones, then a fair sample of all.
pub const EVENTS: usize = TRACES + TRACE_COUNT * TRACE_WORDS;
/// Number of them.
pub const EVENT_COUNT: usize = 2048;
/// Words of each.
pub const EVENT_WORDS: usize = 8;
/// When it began, ticks; 0: free.
pub const V_BEGIN: usize = 0;
/// When it ended, ticks.
pub const V_END: usize = 1;
/// The lock with the kind of the call.
pub const V_LOCK: usize = 2;
/// The call site.
pub const V_SITE: usize = 3;
/// Where the owner had acquired it; 0 if unknown.
pub const V_HELD: usize = 4;
/// The thread that waited and, above `WAITS_SHIFT`, the owner.
pub const V_THREADS: usize = 5;
/// CPU time of the owner during the wait, in nanoseconds, plus 1; 0 if not measured.
pub const V_RAN_NS: usize = 6;
/// Details with the callers of both places, as [`V_THREADS`].
pub const V_DETAILS: usize = 7;

/// Places in Python code, open addressing by `place` of the hash.
pub const PLACES: usize = EVENTS + EVENT_COUNT * EVENT_WORDS;
/// Number of them.
pub const PLACE_COUNT: usize = 1024;
/// Words of each.
pub const PLACE_WORDS: usize = 32;
/// A hash of the code and the instruction; 0: free.
pub const P_HASH: usize = 0;
/// Bytes of the text; 0 until it is complete.
pub const P_BYTES: usize = 1;
/// The text: the function with its file and line.
pub const P_TEXT: usize = 2;
/// Maximum size of the text.
pub const P_TEXT_BYTES: usize = (PLACE_WORDS - P_TEXT) * 8;
/// Bit of a call site that is the number of such a place.
pub const PYTHON: u64 = 1 << 54;

const _: () = assert!(S_UNITS >= S_ROUNDS + 2 * ROUND_WORDS && S_UNITS + UNIT_COUNT <= S_PHASES);
const _: () = assert!(
    PYTHON < 1 << KIND_SHIFT
        && S_TAKEN + TAKEN_COUNT <= S_WAITS
        && E_SELF < EDGE_WORDS
        && S_ENDED > S_WAITS_HELD_DETAIL
);
