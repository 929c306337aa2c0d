//! [`Semaphore`]: a number of permits, and counts.

use super::{Counts, Stats, timed};
use crate::native::Native;
use crate::platform::Platform;
use core::fmt;
use core::time::Duration;

/// A number of permits, and counts of how they were taken. See [the module](super).
pub struct Semaphore {
    counts: Counts,
    lock: crate::Semaphore,
}

/// A permit of a [`Semaphore`]. Releases it when dropped.
#[must_use = "the permit is held as long as this lives"]
pub struct Permit<'a> {
    counts: &'a Counts,
    since: u64,
    // Dropped after the critical section was counted.
    inner: Option<crate::Permit<'a>>,
}

impl Semaphore {
    /// Returns a semaphore with `permits` free permits, fewer than 2^30.
    pub const fn new(permits: u32) -> Self {
        Self { counts: Counts::new(), lock: crate::Semaphore::new(permits) }
    }

    /// Acquires a permit, blocking until it is available.
    pub fn acquire(&self) -> Permit<'_> {
        self.taken(|| Some(self.lock.acquire())).expect("this wait ends with a permit")
    }

    /// Acquires a permit if one is free, otherwise returns `None`. A failed attempt is not counted.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let inner = Some(self.lock.try_acquire()?);
        Some(Permit { counts: &self.counts, since: Native::now(), inner })
    }

    /// Acquires a permit. Returns `None` if that takes longer than `timeout`. A wait that times out
    /// is not counted.
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<Permit<'_>> {
        self.taken(|| self.lock.acquire_timeout(timeout))
    }

    /// Adds permits to those there are, also such as [`Permit::keep`] has kept.
    pub fn add(&self, permits: u32) {
        self.lock.add(permits);
    }

    /// Returns the number of free permits; a snapshot.
    pub fn available(&self) -> u32 {
        self.lock.available()
    }

    /// Returns the statistics so far. A permit counts once it is released or kept for good.
    pub fn stats(&self) -> Stats {
        self.counts.stats(0)
    }

    /// Acquires a permit if one is free and there are no waiters, else by `take`.
    fn taken<'a>(&'a self, take: impl FnOnce() -> Option<crate::Permit<'a>>) -> Option<Permit<'a>> {
        let record = |ns| self.counts.waits.record_shared(ns);
        let (since, permit) = timed(|| self.lock.acquire_at_once(), take, record)?;
        Some(Permit { counts: &self.counts, since, inner: Some(permit) })
    }
}

impl Permit<'_> {
    /// Keeps the permit for good: only [`Semaphore::add`] makes up for it.
    pub fn keep(mut self) {
        self.inner.take().expect("it has one until now").keep();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.counts.holds.record_shared(Native::now() - self.since);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_and_waits_are_counted() {
        const LONG: Duration = Duration::from_millis(2);
        let semaphore = Semaphore::new(2);
        let (one, other) = (semaphore.acquire(), semaphore.try_acquire().expect("two"));
        assert!(semaphore.acquire_timeout(LONG).is_none() && semaphore.try_acquire().is_none());
        assert_eq!(semaphore.stats().acquisitions, 0, "none was given back");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(semaphore.acquire()));
            std::thread::sleep(LONG);
            drop(one);
            waits.join().expect("no panic");
        });
        other.keep();
        assert_eq!(semaphore.available(), 1);
        semaphore.add(1);
        let stats = semaphore.stats();
        assert_eq!((stats.acquisitions, stats.holds.count()), (3, 3));
        assert!(stats.holds.longest >= LONG && stats.contended <= 1);
        assert_eq!(format!("{semaphore:?}"), "Semaphore { available: 2 }");
    }
}
