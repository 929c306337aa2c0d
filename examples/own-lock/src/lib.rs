//! A mutex written by hand: one word that is taken, and one that counts sleepers, so that giving it
//! back costs no system call when nobody sleeps.

use convoy_sync::{Atomic, Lock, Platform, Sleep};
use std::sync::atomic::Ordering::SeqCst;

/// The mutex, on the platform `P`. `HASTY` is how it was written first: `release` looks for
/// sleepers before it gives the lock back.
pub struct OwnLock<P: Platform, const HASTY: bool = false> {
    taken: P::AtomicU32,
    sleepers: P::AtomicU32,
}

impl<P: Platform, const HASTY: bool> Lock for OwnLock<P, HASTY> {
    fn with_units(units: u32) -> Self {
        assert_eq!(units, 1, "it is a mutex");
        Self { taken: P::AtomicU32::new(0), sleepers: P::AtomicU32::new(0) }
    }

    fn acquire(&self) {
        while !self.try_acquire() {
            self.sleepers.fetch_add(1, SeqCst);
            P::wait(&self.taken, 1, Sleep::Uninterruptible, None);
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    fn try_acquire(&self) -> bool {
        self.taken.swap(1, SeqCst) == 0
    }

    fn release(&self) {
        // Whoever counts itself between this look and the store sleeps for good.
        let seen_early = HASTY && self.sleepers.load(SeqCst) > 0;
        self.taken.store(0, SeqCst);
        if seen_early || (!HASTY && self.sleepers.load(SeqCst) > 0) {
            P::wake(&raw const self.taken, 1);
        }
    }
}
