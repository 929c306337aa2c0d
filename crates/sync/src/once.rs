//! One-time initialisation by the first caller; the others wait until it is done.
//!
//! ## Use
//!
//! Use it for initialisation at first use. Not for a value that a static initialiser could provide.
//! A recursive call deadlocks.
//!
//! ## States
//!
//! | word | meaning |
//! |---|---|
//! | 0 | not started, or the initialisation has panicked |
//! | 1 | in progress |
//! | 2 | the same, and others sleep |
//! | 3 | done |
//!
//! ## Transitions
//!
//! - *call*: 0 to 1, and the caller runs it; 1 to 2, and the caller sleeps.
//! - *end*: 1 or 2 to 3, or to 0 at a panic; from 2 all sleepers are woken, and start over.
//!
//! ## Invariants
//!
//! - I1: at most one task at a time runs the initialisation, and none after the word is 3.
//! - I2: no task sleeps while the word is 0 or 3.
//!
//! ## Memory ordering
//!
//! The store of 3 releases the initialisation; the load that sees it acquires it.
//!
//! ## Progress and fairness
//!
//! A waiter waits for one run; after a panic any of the waiters runs next.
//!
//! ## Cost
//!
//! 4 bytes. Done: one load. While it is done: a compare-and-swap and a sleep for each waiter.
//!
//! ## Lineage
//!
//! The futex form of `std::sync::Once`, without poisoning: a panic leaves it to the next caller.

#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

const NEW: u32 = 0;
const RUNS: u32 = 1;
const AWAITED: u32 = 2;
const DONE: u32 = 3;

/// Something that is done once. See the module documentation.
///
/// ```
/// static SET_UP: convoy_sync::Once = convoy_sync::Once::new();
/// let mut times = 0;
/// SET_UP.call_once(|| times += 1);
/// SET_UP.call_once(|| times += 1);
/// assert!(times == 1 && SET_UP.is_done());
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct RawOnce<P: Platform> {
    word: P::AtomicU32,
}

/// [`RawOnce`] of this machine's threads.
#[cfg(feature = "std")]
pub type Once = RawOnce<Native>;

impl<P: Platform<AtomicU32 = AtomicU32>> RawOnce<P> {
    /// Creates an unstarted `Once`.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(NEW) }
    }
}

impl<P: Platform> Default for RawOnce<P> {
    fn default() -> Self {
        Self { word: Atomic::new(NEW) }
    }
}

/// Ends a run. A run that panicked does not count.
struct Run<'a, P: Platform>(&'a RawOnce<P>, u32);

impl<P: Platform> Drop for Run<'_, P> {
    fn drop(&mut self) {
        // AcqRel: releases the writes of the run to tasks that see the new value.
        if self.0.word.swap(self.1, AcqRel) == AWAITED {
            P::wake(&raw const self.0.word, usize::MAX);
        }
    }
}

impl<P: Platform> RawOnce<P> {
    /// Returns whether it is done; if so, the initialisation is visible.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire pairs with the end of the run.
        self.word.load(Acquire) == DONE
    }

    /// Runs `body` unless that was done before. Returns when it is done. A panic propagates to the
    /// caller, and the next caller tries again.
    #[inline]
    pub fn call_once(&self, body: impl FnOnce()) {
        if !self.is_done() {
            self.call_slowly(body);
        }
    }

    #[cold]
    fn call_slowly(&self, body: impl FnOnce()) {
        loop {
            // Acquire, all three: a task that finds it done sees the writes of the run.
            match self.word.compare_exchange(NEW, RUNS, Acquire, Acquire) {
                Ok(_) => break,
                Err(DONE) => return,
                Err(RUNS) => _ = self.word.compare_exchange(RUNS, AWAITED, Acquire, Acquire),
                Err(_) => _ = P::wait(&self.word, AWAITED, Sleep::Uninterruptible, None),
            }
        }
        let mut run = Run(self, NEW);
        body();
        run.1 = DONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn after_a_panic_the_next_one_does_it() {
        let (once, mut times) = (Once::new(), 0);
        let panics = catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("in vain"))));
        assert!(panics.is_err() && !once.is_done());
        once.call_once(|| times += 1);
        once.call_once(|| times += 1);
        assert!(once.is_done());
        assert_eq!(times, 1);
    }

    #[test]
    fn a_panic_wakes_whoever_waits() {
        use core::sync::atomic::Ordering::Relaxed;
        let once = Once::new();
        std::thread::scope(|scope| {
            let run = || {
                once.call_once(|| {
                    scope.spawn(|| once.call_once(|| ()));
                    // Relaxed: only that it is there counts.
                    while once.word.load(Relaxed) != AWAITED {
                        std::thread::yield_now();
                    }
                    // Time for it to fall asleep: it must be woken, not just not sleep.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    panic!("in vain");
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        });
        assert!(once.is_done());
    }

    #[test]
    fn threads_see_what_was_done() {
        let (once, value) = (Once::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    once.call_once(|| {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        value.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
                    });
                    // Relaxed: ordered by `once`.
                    assert_eq!(value.load(core::sync::atomic::Ordering::Relaxed), 1);
                });
            }
        });
    }
}
