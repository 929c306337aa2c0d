//! Locks that count what happens to them: [`Mutex`] in place of [`crate::Mutex`].
//!
//! ```
//! use convoy_sync::watched::Mutex; // was: use convoy_sync::Mutex;
//!
//! let names = Mutex::new(vec!["one"]);
//! names.lock().push("two");
//! assert_eq!(names.stats().acquisitions, 1);
//! println!("names: {}", names.stats());
//! ```
//!
//! A lock that is not watched has none of this. Here a section costs two looks at the clock more,
//! and one more if it had to wait; the counts are written with the lock held, so they need no
//! atomic instructions of their own.

use crate::native::Native;
use crate::platform::Platform;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

/// Buckets of a histogram: number `n` has times below 2^n ns, the last all longer ones: 9 minutes.
const BUCKETS: usize = 40;

/// Data that one thread at a time may use, and counts of how it did. See the module documentation.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    waits: Times,
    holds: Times,
    lock: crate::Mutex<T>,
}

/// Has a [`Mutex`]; gives it back when dropped.
#[must_use = "the mutex is held as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    holds: &'a Times,
    since: u64,
    // Dropped after the section was counted.
    guard: crate::MutexGuard<'a, T>,
}

/// Times, written with the lock held.
struct Times {
    buckets: [AtomicU64; BUCKETS],
    total: AtomicU64,
    longest: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    const fn new() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, total: AtomicU64::new(0), longest: AtomicU64::new(0) }
    }

    /// Adds a time; the lock is held.
    fn record(&self, ns: u64) {
        // Relaxed, all: the lock orders them, and a snapshot needs no order.
        let bucket = &self.buckets[bucket(ns)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        // Relaxed, as above.
        self.total.store(self.total.load(Relaxed) + ns, Relaxed);
        if ns > self.longest.load(Relaxed) {
            self.longest.store(ns, Relaxed);
        }
    }

    fn histogram(&self) -> Histogram {
        // Relaxed: a snapshot orders nothing.
        let longest = Duration::from_nanos(self.longest.load(Relaxed));
        let total = Duration::from_nanos(self.total.load(Relaxed));
        Histogram {
            counts: self.buckets.each_ref().map(|count| count.load(Relaxed)),
            total,
            longest,
        }
    }
}

fn bucket(ns: u64) -> usize {
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// What happened to a [`Mutex`] so far; a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// How often it was taken and given back, or is taken now.
    pub acquisitions: u64,
    /// How often it was not free.
    pub contended: u64,
    /// Waits of those that found it taken.
    pub waits: Histogram,
    /// How long it was held, each time that it was given back.
    pub holds: Histogram,
}

/// How many times were how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    /// The sum of all times.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Histogram {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bucket that is not empty: the time that its times are below, and their number. The last
    /// bucket has all that are longer, too.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (Duration::from_nanos(1 << bucket), *count))
    }

    /// A time that this part of them, from 0 to 1, are not longer than: at most twice the shortest
    /// such. Zero if there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map_or(Duration::ZERO, |(below, _)| below.min(self.longest))
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [0.5, 0.99].map(|part| self.quantile(part));
        write!(f, "p50 {half:.0?}, p99 {most:.0?}, longest {:.0?}", self.longest)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acquisitions, contended, waits, holds } = self;
        write!(f, "taken {acquisitions} times, held {holds}; ")?;
        match contended {
            0 => f.write_str("no thread waited"),
            _ => write!(f, "{contended} waited, {waits}"),
        }
    }
}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { waits: Times::new(), holds: Times::new(), lock: crate::Mutex::new(value) }
    }

    /// The data.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock; sleeps until it can.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| {
            let asked = Native::now();
            self.waited(asked, self.lock.lock())
        })
    }

    /// Takes the lock if it is free. Not to get it counts as nothing.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.lock.try_lock()?;
        Some(self.guard(Native::now(), guard))
    }

    /// Takes the lock; waits at most `timeout`. A wait that ends without it counts as nothing.
    pub fn try_lock_for(&self, timeout: Duration) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| {
            let asked = Native::now();
            Some(self.waited(asked, self.lock.try_lock_for(timeout)?))
        })
    }

    /// The data; nobody has the lock, because nobody else has a reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        let (waits, holds) = (self.waits.histogram(), self.holds.histogram());
        let acquisitions = holds.count() + u64::from(self.lock.is_locked());
        Stats { acquisitions, contended: waits.count(), waits, holds }
    }

    fn waited<'a>(&'a self, asked: u64, guard: crate::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let now = Native::now();
        self.waits.record(now - asked);
        self.guard(now, guard)
    }

    fn guard<'a>(&'a self, since: u64, guard: crate::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { holds: &self.holds, since, guard }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.holds.record(Native::now() - self.since);
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
    fn times_are_counted_by_powers_of_two() {
        let times = Times::new();
        for ns in [0, 1, 3, 1000, 1_000_000_000_000] {
            times.record(ns);
        }
        let found = times.histogram();
        assert_eq!(found.count(), 5);
        let below: Vec<_> = found.buckets().map(|(below, _)| below.as_nanos()).collect();
        assert_eq!(below, [1, 2, 4, 1024, 1 << (BUCKETS - 1)]);
        assert_eq!(found.quantile(0.5), Duration::from_nanos(4));
        assert_eq!(found.longest, Duration::from_secs(1000));
        assert_eq!(Times::new().histogram().quantile(0.99), Duration::ZERO);
    }

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
        drop(mutex.waited(Native::now() - 5000, mutex.lock.lock()));
        assert_eq!(mutex.stats().contended, stats.contended + 1);
        assert!(mutex.stats().waits.longest >= Duration::from_micros(5));
        assert_eq!((*mutex.get_mut(), format!("{mutex:?}")), (2, "Mutex { data: 2, .. }".into()));
        assert_eq!(mutex.into_inner(), 2);
    }
}
