//! Distributions of times, and sums of counts.

use serde::{Deserialize, Serialize};

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many; of samples, how many they stand for.
    pub count: u64,
    /// Their sum, seconds.
    pub total_s: f64,
    /// The longest, seconds.
    pub max_s: f64,
    /// Least time of a bucket in nanoseconds, and how many are in it; empty ones are left out.
    pub buckets: Vec<(f64, u64)>,
}

impl Times {
    /// Adds those of another one with the same price of a tick.
    pub fn add(&mut self, other: &Self) {
        self.count = total([self.count, other.count]);
        self.total_s += other.total_s;
        self.max_s = self.max_s.max(other.max_s);
        for &(least, count) in &other.buckets {
            match self.buckets.binary_search_by(|bucket| bucket.0.total_cmp(&least)) {
                Ok(at) => {
                    let sum = &mut self.buckets[at].1;
                    *sum = total([*sum, count]);
                }
                Err(at) => self.buckets.insert(at, (least, count)),
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their mean, seconds; 0 without any.
    pub fn mean_s(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_s / self.count as f64 }
    }

    /// The least time of the bucket that holds this percentile, seconds.
    pub fn percentile_s(&self, percent: f64) -> Option<f64> {
        let rank = percent / 100.0 * self.count as f64;
        let mut below = 0.0;
        let found = self.buckets.iter().find(|bucket| {
            below += bucket.1 as f64;
            below >= rank
        });
        found.map(|bucket| bucket.0 / 1e9)
    }
}

/// Returns the sum of counts, or the largest number if it is larger: a program that overwrites its
/// counts can leave any number.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}
