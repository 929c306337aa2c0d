//! Policies for the zone lock while many pages move, as types.

use convoy_sync::{Platform, RawLock};
use core::num::NonZeroU32;

/// How the zone lock is held while pages move between a CPU's list and the zone.
pub trait Bulk<P: Platform, L: RawLock<P>>: 'static {
    /// Runs up to `count` steps, each under `lock`, until one fails; returns the number of
    /// successful steps. `lock` is free on entry, and on return under every correct policy.
    fn run(&self, lock: &L, count: u32, step: impl FnMut() -> bool) -> u32;

    /// Runs a single step under `lock`: a block of several pages.
    fn once<R>(&self, lock: &L, step: impl FnOnce() -> R) -> R {
        lock.lock();
        let result = step();
        lock.unlock();
        result
    }
}

/// The lock is held for the whole batch, as Linux does.
///
/// Fewest operations on the lock, but a task waits for a whole batch of each waiter before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldAll;

impl<P: Platform, L: RawLock<P>> Bulk<P, L> for HoldAll {
    fn run(&self, lock: &L, count: u32, mut step: impl FnMut() -> bool) -> u32 {
        lock.lock();
        let done = (0..count).take_while(|_| step()).count();
        lock.unlock();
        done as u32
    }
}

/// The lock is released after each page, as the patch of 2007 intended.
///
/// Others wait for one page at most of each waiter before them, if the lock is first come, first
/// served. A lock that is not is usually taken again by the CPU that has its line.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseEach;

impl<P: Platform, L: RawLock<P>> Bulk<P, L> for ReleaseEach {
    fn run(&self, lock: &L, count: u32, mut step: impl FnMut() -> bool) -> u32 {
        let mut done = 0;
        while done < count && self.once(lock, &mut step) {
            done += 1;
        }
        done
    }
}

/// The lock is released between two pages if it has waiters, as proposed in January 2008. With a
/// lock that does not report its waiters ([`RawLock::is_contended`]) this is [`HoldAll`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseContended;

impl<P: Platform, L: RawLock<P>> Bulk<P, L> for ReleaseContended {
    fn run(&self, lock: &L, count: u32, step: impl FnMut() -> bool) -> u32 {
        ReleaseContendedEvery(NonZeroU32::MIN).run(lock, count, step)
    }
}

/// [`ReleaseContended`] that checks for waiters only after every this many pages.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseContendedEvery(pub NonZeroU32);

impl<P: Platform, L: RawLock<P>> Bulk<P, L> for ReleaseContendedEvery {
    fn run(&self, lock: &L, count: u32, mut step: impl FnMut() -> bool) -> u32 {
        lock.lock();
        let mut done = 0;
        while done < count && step() {
            done += 1;
            if done < count && done.is_multiple_of(self.0.get()) && lock.is_contended() {
                lock.unlock();
                // Queue behind the waiters.
                lock.lock();
            }
        }
        lock.unlock();
        done
    }
}

/// [`ReleaseEach`] as published in 2007: the loop that fills a list returns with the lock held when
/// the zone has no free page, and the next task that acquires it waits forever. Kept for the
/// checker, which must find it; not for use.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublishedReleaseEach;

impl<P: Platform, L: RawLock<P>> Bulk<P, L> for PublishedReleaseEach {
    fn run(&self, lock: &L, count: u32, mut step: impl FnMut() -> bool) -> u32 {
        for done in 0..count {
            lock.lock();
            if !step() {
                return done;
            }
            lock.unlock();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_sync::{Native, TicketLock};
    use std::sync::atomic::{AtomicBool, Ordering};

    type Lock = TicketLock<Native>;

    fn runs(policy: &impl Bulk<Native, Lock>, count: u32, there: u32) -> (u32, bool) {
        let (lock, mut left) = (Lock::new(), there);
        let done = policy.run(&lock, count, || {
            assert!(lock.is_locked());
            let some = left > 0;
            left = left.saturating_sub(1);
            some
        });
        (done, RawLock::is_locked(&lock))
    }

    #[test]
    fn steps_are_counted_and_the_lock_is_given_back() {
        for (there, done) in [(9, 5), (5, 5), (3, 3), (0, 0)] {
            assert_eq!(runs(&HoldAll, 5, there), (done, false));
            assert_eq!(runs(&ReleaseEach, 5, there), (done, false));
            assert_eq!(runs(&ReleaseContended, 5, there), (done, false));
            let every = NonZeroU32::new(2).unwrap();
            assert_eq!(runs(&ReleaseContendedEvery(every), 5, there), (done, false));
        }
    }

    #[test]
    fn whoever_waits_comes_in_between_two_steps() {
        let (lock, entered) = (Lock::new(), AtomicBool::new(false));
        let mut steps = 0;
        std::thread::scope(|scope| {
            ReleaseContended.run(&lock, 2, || {
                if steps == 0 {
                    scope.spawn(|| {
                        let _guard = lock.guard();
                        entered.store(true, Ordering::Relaxed);
                    });
                    while !RawLock::is_contended(&lock) {
                        std::thread::yield_now();
                    }
                } else {
                    assert!(entered.load(Ordering::Relaxed));
                }
                steps += 1;
                true
            });
        });
        assert_eq!(steps, 2);
    }

    #[test]
    fn whoever_waits_comes_in_after_so_many_steps_and_not_before() {
        let (lock, entered) = (Lock::new(), AtomicBool::new(false));
        let every = ReleaseContendedEvery(NonZeroU32::new(2).unwrap());
        let mut came = Vec::new();
        std::thread::scope(|scope| {
            every.run(&lock, 3, || {
                if came.is_empty() {
                    scope.spawn(|| {
                        let _guard = lock.guard();
                        entered.store(true, Ordering::Relaxed);
                    });
                    while !RawLock::is_contended(&lock) {
                        std::thread::yield_now();
                    }
                }
                came.push(entered.load(Ordering::Relaxed));
                true
            });
        });
        assert_eq!(came, [false, false, true]);
    }

    #[test]
    fn the_published_patch_keeps_the_lock_when_nothing_is_left() {
        assert_eq!(runs(&PublishedReleaseEach, 5, 9), (5, false));
        assert_eq!(runs(&PublishedReleaseEach, 5, 3), (3, true));
    }
}
