//! [`RwLock`]: data that many threads may read, or one may change, and counts.

use super::{Counts, Stats, timed};
use crate::native::Native;
use crate::platform::Platform;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

/// Data that many threads may read, or one may change, and counts of how they did. See
/// [the module](super).
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    readers: Counts,
    writers: Counts,
    lock: crate::RwLock<T>,
}

/// Read guard of a [`RwLock`]. Releases it when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    counts: &'a Counts,
    since: u64,
    // Dropped after the critical section was counted.
    guard: crate::RwLockReadGuard<'a, T>,
}

/// Write guard of a [`RwLock`]. Releases it when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    counts: &'a Counts,
    since: u64,
    // Dropped after the critical section was counted.
    guard: crate::RwLockWriteGuard<'a, T>,
}

/// What happened to a [`RwLock`] so far; a snapshot. Current owners are not counted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RwStats {
    /// To read.
    pub readers: Stats,
    /// To write.
    pub writers: Stats,
}

impl fmt::Display for RwStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "readers: {}; writers: {}", self.readers, self.writers)
    }
}

impl<T> RwLock<T> {
    /// Returns an unlocked lock that contains `value`.
    pub const fn new(value: T) -> Self {
        let (readers, writers) = (Counts::new(), Counts::new());
        Self { readers, writers, lock: crate::RwLock::new(value) }
    }

    /// Consumes the lock and returns the data.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires the lock for reading; blocks until it is available.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.reader(|| Some(self.lock.read())).expect("this wait ends with the lock")
    }

    /// Acquires the lock for reading if no writer owns it or waits for it. A failed attempt is not
    /// counted.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.reader(|| None)
    }

    /// Acquires the lock for reading. Returns `None` if that takes longer than `timeout`. A wait
    /// that times out is not counted.
    pub fn try_read_for(&self, timeout: Duration) -> Option<RwLockReadGuard<'_, T>> {
        self.reader(|| self.lock.try_read_for(timeout))
    }

    /// Acquires the lock exclusively, blocking until it is available.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.writer(|| Some(self.lock.write())).expect("this wait ends with the lock")
    }

    /// Acquires the lock for writing if it is free, otherwise returns `None`. A failed attempt is
    /// not counted.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let guard = self.lock.try_write()?;
        Some(RwLockWriteGuard { counts: &self.writers, since: Native::now(), guard })
    }

    /// Acquires the lock exclusively. Returns `None` if that takes longer than `timeout`. A wait
    /// that times out is not counted.
    pub fn try_write_for(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.writer(|| self.lock.try_write_for(timeout))
    }

    /// Returns the data; the exclusive reference guarantees that the lock is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> RwStats {
        RwStats { readers: self.readers.stats(0), writers: self.writers.stats(0) }
    }

    /// Acquires the lock for reading, by `take` if it has to wait.
    fn reader<'a>(
        &'a self,
        take: impl FnOnce() -> Option<crate::RwLockReadGuard<'a, T>>,
    ) -> Option<RwLockReadGuard<'a, T>> {
        let counts = &self.readers;
        let record = |ns| counts.waits.record_shared(ns);
        let (since, guard) = timed(|| self.lock.try_read(), take, record)?;
        Some(RwLockReadGuard { counts, since, guard })
    }

    /// Acquires the lock for writing if it is free and has no waiters, else by `take`.
    fn writer<'a>(
        &'a self,
        take: impl FnOnce() -> Option<crate::RwLockWriteGuard<'a, T>>,
    ) -> Option<RwLockWriteGuard<'a, T>> {
        let counts = &self.writers;
        let record = |ns| counts.waits.record(ns);
        let (since, guard) = timed(|| self.lock.write_at_once(), take, record)?;
        Some(RwLockWriteGuard { counts, since, guard })
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.counts.holds.record_shared(Native::now() - self.since);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.counts.holds.record(Native::now() - self.since);
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_and_writers_are_counted_apart() {
        const LONG: Duration = Duration::from_millis(2);
        let mut lock = RwLock::new(1);
        {
            let (one, other) = (lock.read(), lock.try_read_for(LONG).expect("beside"));
            assert_eq!((*one, *other), (1, 1));
            assert!(lock.try_write().is_none() && lock.try_write_for(LONG).is_none());
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| *lock.write() += 1);
                std::thread::sleep(LONG);
                drop((one, other));
                writer.join().expect("no panic");
            });
        }
        *lock.try_write().expect("it is free") += 1;
        let RwStats { readers, writers } = lock.stats();
        assert_eq!((readers.acquisitions, readers.contended), (2, 0));
        assert_eq!(writers.acquisitions, 2);
        assert!(readers.holds.longest >= LONG && writers.waits.count() == writers.contended);
        let text = lock.stats().to_string();
        assert!(text.starts_with("readers: taken 2 times"), "{text}");
        assert_eq!((*lock.get_mut(), format!("{lock:?}")), (3, "RwLock { data: 3, .. }".into()));
        assert_eq!(lock.into_inner(), 3);
    }

    #[test]
    fn what_readers_count_together_is_lost_nowhere() {
        const TIMES: u64 = if cfg!(miri) { 20 } else { 50_000 };
        let (lock, start) = (RwLock::new(0), crate::Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    (0..TIMES).for_each(|_| assert_eq!(*lock.read(), 0));
                });
            }
        });
        let readers = lock.stats().readers;
        assert_eq!((readers.acquisitions, readers.holds.count()), (4 * TIMES, 4 * TIMES));
        assert!(readers.holds.total >= readers.holds.longest);
    }
}
