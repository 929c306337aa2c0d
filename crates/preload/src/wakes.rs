//! Which thread to blame for a wait in futex(2). The owner of such a lock shows when it wakes. But
//! of threads that wait in a queue the second one is woken by the first, which has held the lock
//! for a moment: both waited for the thread before. So a thread that wakes tells since when it has
//! owned the lock, and which thread it waited for itself.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::place;
use crate::local::*;
use crate::thread::Thread;

/// Words of which the last wakeup is known, a power of two.
const COUNT: usize = 1024;
// What is known of a wakeup: the word, when, the thread with its number for the kernel and where it
// called from, and of that thread's own last wait its end, where it waited, and what for.
const WORD: usize = 0;
const WHEN: usize = 1;
const BY: usize = 2;
const FROM: usize = 3;
const SINCE: usize = 4;
const WAITED: usize = 5;
const FOR: usize = 6;
const FOR_FROM: usize = 7;

static LAST: [[AtomicU64; 8]; COUNT] = [const { [const { AtomicU64::new(0) }; 8] }; COUNT];

/// A thread, by its number for the kernel, and where it woke others.
pub(crate) type Waker = (u64, u64);

fn last(word: usize) -> &'static [AtomicU64; 8] {
    &LAST[place(word as u64, 0, COUNT)]
}

/// This thread wakes those that wait on a word, and calls from `site` for it.
pub(crate) fn wakes(thread: Thread, word: usize, site: usize, now: u64) {
    let last = last(word);
    // Whoever reads it meanwhile sees no word.
    last[WORD].store(0, Relaxed);
    // A wait on the same word was for the same lock, wherever it began.
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
        last[at].store(value, Relaxed);
    }
    // Release: a reader that sees the word sees the rest.
    last[WORD].store(word as u64, Release);
}

/// The thread that this one has waited for, from `asked` until `got`, on a word at a site; none if
/// it was not seen. The thread remembers it.
pub(crate) fn blamed(
    thread: Thread,
    (word, site): (usize, usize),
    [asked, got]: [u64; 2],
) -> Option<Waker> {
    let last = last(word);
    // Acquire: pairs with the release of the thread that woke.
    let is_this = last[WORD].load(Acquire) == word as u64;
    let of = |at: usize| last[at].load(Relaxed);
    let found = (is_this && (asked..=got).contains(&of(WHEN))).then(|| {
        let (since, waited) = (of(SINCE).max(asked), of(WAITED));
        // A wait of the waker at another place was for another lock, if not by chance.
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
