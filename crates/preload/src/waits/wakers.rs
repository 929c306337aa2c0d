//! Finds the thread that caused a wait in futex(2). The owner of such a lock is visible when it
//! wakes others. But if threads wait in a queue, the second one is woken by the first, which has
//! held the lock only for a moment: both waited for the thread before. So a thread that wakes
//! others records since when it has owned the lock, and which thread it waited for itself.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::arch;
use crate::file::map::{get, set};
use crate::layout::place;

/// Number of words whose last wakeup is known, a power of two.
const COUNT: usize = 1024;

/// The last wakeup of a word.
struct Wakeup {
    /// The futex word; 0: none.
    word: AtomicU64,
    /// Its time, ticks.
    time: AtomicU64,
    /// The ID of the waking thread, and its call site.
    waker: AtomicU64,
    waker_site: AtomicU64,
    /// Of that thread's own last wait: its end, its place, and the thread that it was for.
    waker_woken: AtomicU64,
    waker_waited_at: AtomicU64,
    waker_blamed: AtomicU64,
    waker_blamed_from: AtomicU64,
}

static LAST: [Wakeup; COUNT] = [const {
    Wakeup {
        word: AtomicU64::new(0),
        time: AtomicU64::new(0),
        waker: AtomicU64::new(0),
        waker_site: AtomicU64::new(0),
        waker_woken: AtomicU64::new(0),
        waker_waited_at: AtomicU64::new(0),
        waker_blamed: AtomicU64::new(0),
        waker_blamed_from: AtomicU64::new(0),
    }
}; COUNT];

/// A thread, by its ID in the kernel, and the place where it woke others.
pub(crate) type Waker = (u64, u64);

fn last(word: usize) -> &'static Wakeup {
    &LAST[place(word as u64, 0, COUNT)]
}

/// Records that this thread wakes the waiters of a word by a call from `site`.
pub(crate) fn wakes(word: usize, site: usize, now: u64) {
    let (last, local) = (last(word), arch::local());
    // A concurrent reader sees no word.
    set(&last.word, 0);
    // A wait on the same word was for the same lock, whatever its call site.
    let waited_same = get(&local.waited_on) == word as u64;
    let waited_at = if waited_same { 0 } else { get(&local.waited_at) };
    set(&last.time, now);
    set(&last.waker, get(&local.thread_id));
    set(&last.waker_site, site as u64);
    set(&last.waker_woken, get(&local.woken));
    set(&last.waker_waited_at, waited_at);
    set(&last.waker_blamed, get(&local.blamed));
    set(&last.waker_blamed_from, get(&local.blamed_from));
    // Release: a reader that sees the word sees the rest.
    last.word.store(word as u64, Release);
}

/// Returns the thread that this one has waited for, from `asked` until `got`, on a word at a site;
/// none if it was not seen. The thread remembers it.
pub(crate) fn blamed(word: usize, site: usize, [asked, got]: [u64; 2]) -> Option<Waker> {
    let (last, local) = (last(word), arch::local());
    // Acquire: pairs with the release of the waking thread.
    let is_same_word = last.word.load(Acquire) == word as u64;
    let time = get(&last.time);
    let waker = (is_same_word && (asked..=got).contains(&time)).then(|| {
        let since = get(&last.waker_woken).max(asked);
        let indirect = (get(&last.waker_blamed), get(&last.waker_blamed_from));
        // A wait of the waking thread at another place was for another lock, except by chance.
        let is_same_lock = [0, site as u64].contains(&get(&last.waker_waited_at));
        if is_same_lock && indirect.0 != 0 && since - asked > time.saturating_sub(since) {
            indirect
        } else {
            (get(&last.waker), get(&last.waker_site))
        }
    });
    let (thread, from) = waker.unwrap_or_default();
    set(&local.waited_on, word as u64);
    set(&local.waited_at, site as u64);
    set(&local.woken, got);
    set(&local.blamed, thread);
    set(&local.blamed_from, from);
    waker
}
