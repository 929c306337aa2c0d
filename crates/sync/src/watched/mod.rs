//! Locks that count what happens to them: [`Mutex`], [`RwLock`] and [`Semaphore`] with statistics,
//! as replacements of the crate's.
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
//! A lock that is not watched has none of this. Here a critical section costs two more readings of
//! the clock, and a third if it had to wait. The counters of exclusive owners are written with the
//! lock held, without atomic instructions; a reader or a permit writes three words that it shares
//! with the others.

mod mutex;
mod rwlock;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard, RwStats};
pub use semaphore::{Permit, Semaphore};

use crate::native::Native;
use crate::platform::Platform;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

/// Buckets of a histogram: number `n` has times below 2^n ns, the last all longer ones: 9 minutes.
const BUCKETS: usize = 40;

/// Times of one kind.
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

    /// Adds a time while other threads may do so.
    fn record_shared(&self, ns: u64) {
        // Relaxed, all: a snapshot needs no order.
        self.buckets[bucket(ns)].fetch_add(1, Relaxed);
        self.total.fetch_add(ns, Relaxed);
        // Relaxed, as above. Most times are not the longest, and need not write.
        if ns > self.longest.load(Relaxed) {
            self.longest.fetch_max(ns, Relaxed);
        }
    }

    /// Adds a time; the lock is held exclusively.
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

/// Waits and critical sections of one kind of owner.
struct Counts {
    waits: Times,
    holds: Times,
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    const fn new() -> Self {
        Self { waits: Times::new(), holds: Times::new() }
    }

    /// Returns the statistics, with `held` owners that have not released the lock yet.
    fn stats(&self, held: u64) -> Stats {
        let (waits, holds) = (self.waits.histogram(), self.holds.histogram());
        Stats { acquisitions: holds.count() + held, contended: waits.count(), waits, holds }
    }
}

/// Acquires a lock by `attempt`, or by `take` after `attempt` has failed; passes the wait to
/// `record` then. Returns the time of the acquisition and the guard.
fn timed<G>(
    attempt: impl FnOnce() -> Option<G>,
    take: impl FnOnce() -> Option<G>,
    record: impl FnOnce(u64),
) -> Option<(u64, G)> {
    if let Some(guard) = attempt() {
        return Some((Native::now(), guard));
    }
    let asked = Native::now();
    let guard = take()?;
    let now = Native::now();
    record(now - asked);
    Some((now, guard))
}

/// Statistics of a lock so far; a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Number of acquisitions that were released, plus the current ones.
    pub acquisitions: u64,
    /// Number of acquisitions that had to wait.
    pub contended: u64,
    /// Waits of threads that found the lock held.
    pub waits: Histogram,
    /// Time from acquisition to release, for each release.
    pub holds: Histogram,
}

/// Histogram of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    /// The sum of all times.
    pub total: Duration,
    /// The longest time.
    pub longest: Duration,
}

impl Histogram {
    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bucket that is not empty: the upper bound of its times, and their number. The
    /// last bucket also has all longer times.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (Duration::from_nanos(1 << bucket), *count))
    }

    /// Returns an upper bound for this part, from 0 to 1, of the times: at most twice the smallest
    /// one. Returns zero if there are no times.
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
}
