//! A point that a number of tasks pass together: each waits there until all have arrived.
//!
//! ## Use
//!
//! For phases of parallel work. Not where the number of tasks changes, and not with more tasks than
//! the barrier has places unless it does not matter which of them pass together.
//!
//! ## States
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 15 | tasks that have arrived and wait |
//! | 16 | some of them sleep, or are about to |
//! | 17 to 31 | the round, modulo 32 768 |
//!
//! ## Transitions
//!
//! - *come*: one more task waits; the last one sets the number to 0, clears bit 16, begins the next
//!   round, and wakes all if bit 16 was set.
//! - *sleep*: sets bit 16 first.
//!
//! ## Invariants
//!
//! - I1: fewer wait than the barrier has places.
//! - I2: a thread waits for the round in which it arrived, and sleeps only during it.
//!
//! ## Memory ordering
//!
//! Each arrival releases the thread's writes; the last one acquires all of them and releases them
//! with the new round, which the others acquire.
//!
//! ## Progress and fairness
//!
//! All threads of one round pass. A task that is not switched in for 32 768 rounds, which needs
//! more tasks than places, takes a later round for its own.
//!
//! ## Cost
//!
//! 8 bytes. One atomic instruction for each task, and another and a sleep for those that wait for
//! more than [`SPIN_NS`] ns. Before that a task yields its CPU between its looks at the word, for
//! those that have not arrived.
//!
//! ## Lineage
//!
//! `std::sync::Barrier`, with one word instead of a mutex and a condition variable.

#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const PLACES: u32 = 0xFFFF;
const SLEEPS: u32 = PLACES + 1;
const ROUND: u32 = SLEEPS << 1;
/// A little more than tasks need that run concurrently and arrive now, and less than a sleep and a
/// wakeup on both sides.
const SPIN_NS: u64 = 4_000;

/// A point that a number of tasks pass together. See the module documentation.
///
/// ```
/// let phase = convoy_sync::Barrier::new(3);
/// let leaders = std::thread::scope(|scope| {
///     let threads = [(); 3].map(|()| scope.spawn(|| phase.wait()));
///     threads.map(|thread| thread.join().unwrap()).iter().filter(|leads| **leads).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct RawBarrier<P: Platform> {
    word: P::AtomicU32,
    places: u32,
}

/// [`RawBarrier`] of this machine's threads.
#[cfg(feature = "std")]
pub type Barrier = RawBarrier<Native>;

impl<P: Platform<AtomicU32 = AtomicU32>> RawBarrier<P> {
    /// Creates a barrier for 1 to 65 535 threads.
    pub const fn new(places: u32) -> Self {
        assert!(0 < places && places <= PLACES, "a barrier has 1 to 65535 places");
        Self { word: AtomicU32::new(0), places }
    }
}

const fn round(word: u32) -> u32 {
    word & !(PLACES | SLEEPS)
}

impl<P: Platform> RawBarrier<P> {
    /// Creates a barrier for 1 to 65 535 threads.
    pub fn of(places: u32) -> Self {
        assert!(0 < places && places <= PLACES, "a barrier has 1 to 65535 places");
        Self { word: Atomic::new(0), places }
    }

    /// Waits until all tasks have arrived. Returns true for one of them, the last.
    pub fn wait(&self) -> bool {
        // AcqRel: see the module documentation.
        let before = self.word.modify(AcqRel, |word| {
            let last = (word & PLACES) + 1 == self.places;
            if last { round(word).wrapping_add(ROUND) } else { word + 1 }
        });
        if (before & PLACES) + 1 == self.places {
            if before & SLEEPS != 0 {
                P::wake(&raw const self.word, usize::MAX);
            }
            return true;
        }
        P::give_way(&self.word, P::now() + SPIN_NS, |word| round(word) != round(before));
        loop {
            // Acquire pairs with the last one's change.
            let word = self.word.load(Acquire);
            if round(word) != round(before) {
                return false;
            }
            // Relaxed, both: the bit orders nothing.
            let marked = word & SLEEPS != 0
                || self.word.compare_exchange(word, word | SLEEPS, Relaxed, Relaxed).is_ok();
            if marked {
                P::wait(&self.word, word | SLEEPS, Sleep::Uninterruptible, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_wrap() {
        let barrier = Barrier { word: AtomicU32::new(round(u32::MAX)), places: 1 };
        assert!(barrier.wait() && barrier.wait());
        assert_eq!(barrier.word.into_inner(), ROUND);
    }

    #[test]
    fn rounds_have_one_leader_each() {
        const ROUNDS: u32 = 200;
        let (barrier, led) = (Barrier::new(4), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        // Relaxed: joined below.
                        led.fetch_add(u32::from(barrier.wait()), Relaxed);
                    }
                });
            }
        });
        assert_eq!(led.into_inner(), ROUNDS);
    }
}
