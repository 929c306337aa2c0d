//! Distributions of times, and sums of counts.

use serde::{Deserialize, Serialize};

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Number of times. For samples, the number of times that they represent.
    pub count: u64,
    /// Sum, in seconds.
    pub total_s: f64,
    /// Maximum, in seconds.
    pub max_s: f64,
    /// Lower bound of each bucket in nanoseconds, and its count. Empty buckets are omitted.
    pub buckets: Vec<(f64, u64)>,
}

impl Times {
    /// Adds a distribution that was recorded with the same tick length.
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

    /// Returns whether the distribution is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the mean in seconds, or 0 if the distribution is empty.
    pub fn mean_s(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_s / self.count as f64 }
    }

    /// Returns the lower bound of the bucket that contains this percentile, in seconds. `None`
    /// without buckets.
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

/// Rounds to six digits. More digits are neither known nor worth their size in a record of many
/// locks.
pub(crate) fn rounded(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 5 - value.log10().floor() as i32;
    // A power of ten below one is not exact, but its inverse is.
    if digits < 0 {
        let unit = 10_f64.powi(-digits);
        return (value / unit).round() * unit;
    }
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}
