//! [`Mutex`]: data that one thread at a time may use, and counts.

use super::{Counts, Stats, timed};
use crate::native::Native;
use crate::platform::Platform;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

/// Data that one thread at a time may use, and counts of how it did. See [the module](super).
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    counts: Counts,
    lock: crate::Mutex<T>,
}

/// Guard of a [`Mutex`]. Releases it when dropped.
#[must_use = "the mutex is held as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    counts: &'a Counts,
    since: u64,
    // Dropped after the critical section was counted.
    guard: crate::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Returns an unlocked lock that contains `value`.
    pub const fn new(value: T) -> Self {
        Self { counts: Counts::new(), lock: crate::Mutex::new(value) }
    }

    /// Consumes the lock and returns the data.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the lock, blocking until it is available.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.taken(|| Some(self.lock.lock())).expect("this wait ends with the lock")
    }

    /// Acquires the lock if it is free, otherwise returns `None`. A failed attempt is not counted.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.lock.try_lock()?;
        Some(MutexGuard { counts: &self.counts, since: Native::now(), guard })
    }

    /// Acquires the lock. Returns `None` if that takes longer than `timeout`. A wait that times out
    /// is not counted.
    pub fn try_lock_for(&self, timeout: Duration) -> Option<MutexGuard<'_, T>> {
        self.taken(|| self.lock.try_lock_for(timeout))
    }

    /// Returns the data; the exclusive reference guarantees that the lock is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> Stats {
        self.counts.stats(u64::from(self.lock.is_locked()))
    }

    /// Acquires the lock if it is free and has no waiters, else by `take`.
    fn taken<'a>(
        &'a self,
        take: impl FnOnce() -> Option<crate::MutexGuard<'a, T>>,
    ) -> Option<MutexGuard<'a, T>> {
        let record = |ns| self.counts.waits.record(ns);
        let (since, guard) = timed(|| self.lock.lock_at_once(), take, record)?;
        Some(MutexGuard { counts: &self.counts, since, guard })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.counts.holds.record(Native::now() - self.since);
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_waits_are_counted() {
        const LONG: Duration = Duration::from_millis(2);
        let mut mutex = Mutex::new(1);
        assert_eq!(mutex.try_lock_for(LONG).map(|value| *value), Some(1));
        assert!(mutex.stats().to_string().ends_with("no thread waited"));
        let guard = mutex.lock();
        assert_eq!(mutex.stats().acquisitions, 2, "one now");
        assert!(mutex.try_lock().is_none() && mutex.try_lock_for(LONG).is_none());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| *mutex.lock() += 1);
            std::thread::sleep(LONG);
            drop(guard);
            other.join().expect("no panic");
        });
        let stats = mutex.stats();
        assert_eq!((stats.acquisitions, stats.holds.count()), (3, 3));
        assert!(stats.holds.longest >= LONG && stats.holds.total >= stats.holds.longest);
        assert!(stats.contended <= 1 && stats.waits.count() == stats.contended);
        assert_eq!((*mutex.get_mut(), format!("{mutex:?}")), (2, "Mutex { data: 2, .. }".into()));
        assert_eq!(mutex.into_inner(), 2);
    }
}
