//! Finds the thread that caused a wait in futex(2). The owner of such a lock is visible when it
//! wakes others. But if threads wait in a queue, the second one is woken by the first, which has
//! held the lock only for a moment: both waited for the thread before. So a thread that wakes
//! others records since when it has owned the lock, and which thread it waited for itself.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::place;
use crate::threads::local::*;
use crate::threads::thread::Thread;

/// Number of words whose last wakeup is known, a power of two.
const COUNT: usize = 1024;
// Words of a wakeup: the futex word, the time, the ID of the waking thread and its call site, and
// of that thread's own last wait its end, its place, and the thread that it was for.
const WORD: usize = 0;
const WHEN: usize = 1;
const BY: usize = 2;
const FROM: usize = 3;
const SINCE: usize = 4;
const WAITED: usize = 5;
const FOR: usize = 6;
const FOR_FROM: usize = 7;

static LAST: [[AtomicU64; 8]; COUNT] = [const { [const { AtomicU64::new(0) }; 8] }; COUNT];

/// A thread, by its ID in the kernel, and the place where it woke others.
pub(crate) type Waker = (u64, u64);

fn last(word: usize) -> &'static [AtomicU64; 8] {
    &LAST[place(word as u64, 0, COUNT)]
}

/// Records that this thread wakes the waiters of a word by a call from `site`.
pub(crate) fn wakes(thread: Thread, word: usize, site: usize, now: u64) {
    let last = last(word);
    // A concurrent reader sees no word.
    last[WORD].store(0, Relaxed);
    // A wait on the same word was for the same lock, whatever its call site.
    let waited = match thread.own(O_WAITED_ON) {
        on if on == word as u64 => 0,
        _ => thread.own(O_WAITED_AT),
    };
    for (at, value) in [
        (WHEN, now),
        (BY, thread.kernel_id()),
        (FROM, site as u64),
        (SINCE, thread.own(O_WOKEN)),
        (WAITED, waited),
        (FOR, thread.own(O_BLAMED)),
        (FOR_FROM, thread.own(O_BLAMED_FROM)),
    ] {
        // Relaxed: published by the release store below.
        last[at].store(value, Relaxed);
    }
    // Release: a reader that sees the word sees the rest.
    last[WORD].store(word as u64, Release);
}

/// Returns the thread that this one has waited for, from `asked` until `got`, on a word at a site;
/// none if it was not seen. The thread remembers it.
pub(crate) fn blamed(
    thread: Thread,
    word: usize,
    site: usize,
    [asked, got]: [u64; 2],
) -> Option<Waker> {
    let last = last(word);
    // Acquire: pairs with the release of the waking thread.
    let is_this = last[WORD].load(Acquire) == word as u64;
    let of = |at: usize| last[at].load(Relaxed);
    let found = (is_this && (asked..=got).contains(&of(WHEN))).then(|| {
        let (since, waited) = (of(SINCE).max(asked), of(WAITED));
        // A wait of the waking thread at another place was for another lock, except by chance.
        let is_same = [0, site as u64].contains(&waited) && of(FOR) != 0;
        if is_same && since - asked > of(WHEN).saturating_sub(since) {
            (of(FOR), of(FOR_FROM))
        } else {
            (of(BY), of(FROM))
        }
    });
    let (by, from) = found.unwrap_or_default();
    for (at, value) in [
        (O_WAITED_ON, word as u64),
        (O_WAITED_AT, site as u64),
        (O_WOKEN, got),
        (O_BLAMED, by),
        (O_BLAMED_FROM, from),
    ] {
        thread.put(at, value);
    }
    found
}
