//! A histogram with logarithmic buckets: constant size, constant relative error, exact extremes.

use crate::sample::fraction;

/// Buckets per power of two, as a power of two. Sixteen buckets bound the relative error of a
/// percentile by half a sixteenth, 3.2 %.
const SUB_BITS: u32 = 4;

/// Buckets per power of two.
const SUB: u64 = 1 << SUB_BITS;

/// Buckets in all: the values below [`SUB`] have one each, every later power of two has [`SUB`].
const BUCKETS: usize = ((64 - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of `u64` values (nanoseconds, by convention of the callers) in logarithmic buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    counts: Vec<u64>,
    count: u64,
    min: u64,
    max: u64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LogHistogram {
    /// An empty histogram, 8 KiB.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, min: u64::MAX, max: 0 }
    }

    /// Number of buckets; see [`Self::bucket`].
    pub const BUCKETS: usize = BUCKETS;

    /// The bucket that counts `value`, below [`Self::BUCKETS`]: for counters that live elsewhere,
    /// such as memory shared by processes.
    pub fn bucket(value: u64) -> usize {
        bucket(value)
    }

    /// The histogram of counters kept by [`Self::bucket`]; `max` is the largest value counted.
    /// Counters beyond [`Self::BUCKETS`] are left out. The smallest value is not known exactly: it
    /// is taken as the middle of its bucket.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>, max: u64) -> Self {
        let mut all: Vec<u64> = counts.into_iter().take(BUCKETS).collect();
        all.resize(BUCKETS, 0);
        let min = all.iter().position(|count| *count > 0).map_or(u64::MAX, middle).min(max);
        Self { count: all.iter().sum(), counts: all, min, max }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exact; `None` if empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, each value taken as the middle of its bucket.
    /// Off by at most 3.2 %; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        let sum =
            self.counts.iter().enumerate().map(|(at, &count)| count as f64 * middle(at) as f64);
        (self.count > 0).then(|| sum.sum::<f64>() / self.count as f64)
    }

    /// The smallest value at or above which `100 - percent` of the values lie: the middle of its
    /// bucket, off by at most 3.2 %, kept inside the exact extremes. `None` if empty; `percent` is
    /// clamped to 0 to 100, NaN is 0.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((fraction(percent) * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(index).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// The middle of the range of values of a bucket.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * SUB {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = (index - (shift << SUB_BITS)) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_values() {
        let mut histogram = LogHistogram::new();
        assert_eq!(histogram.mean(), None);
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        let mean = histogram.mean().expect("values");
        assert!((mean / 500_500.0 - 1.0).abs() < 0.032, "{mean}");
    }

    #[test]
    fn counters_kept_elsewhere_give_the_same_percentiles() {
        let values = [3, 17, 900, 901, 45_000, 1 << 40];
        let mut counts = vec![0; LogHistogram::BUCKETS];
        let mut recorded = LogHistogram::new();
        for value in values {
            counts[LogHistogram::bucket(value)] += 1;
            recorded.record(value);
        }
        let kept = LogHistogram::from_counts(counts, 1 << 40);
        for percent in [0.0, 10.0, 50.0, 90.0, 99.0, 100.0] {
            assert_eq!(kept.percentile(percent), recorded.percentile(percent), "{percent}");
        }
        assert_eq!(kept.count(), 6);
        assert_eq!(LogHistogram::from_counts([], 0).percentile(50.0), None);
    }

    #[test]
    fn buckets_are_ordered_and_their_middles_are_near() {
        let mut last = 0;
        for exponent in 0..64_u32 {
            // Up to 64 values, evenly spaced, from this power of two to the next.
            for step in 0..(1_u64 << exponent.min(6)) {
                let value = (1_u64 << exponent) + (step << exponent.saturating_sub(6));
                let index = bucket(value);
                assert!((last..BUCKETS).contains(&index), "{value}");
                last = index;
                let error = middle(index).abs_diff(value) as f64 / value as f64;
                assert!(error <= 1.0 / 31.0, "{value}: {error}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn small_values_are_exact() {
        for value in 0..32 {
            assert_eq!(middle(bucket(value)), value);
        }
    }

    #[test]
    fn percentiles_of_a_uniform_range() {
        let mut histogram = LogHistogram::new();
        for value in 1..=10_000 {
            histogram.record(value);
        }
        for (percent, expected) in [(50.0, 5_000.0), (99.0, 9_900.0)] {
            let found = histogram.percentile(percent).unwrap() as f64;
            assert!((found / expected - 1.0).abs() < 0.033, "{percent}: {found}");
        }
        assert_eq!(histogram.percentile(0.0), Some(1));
        assert_eq!(
            histogram.percentile(100.0).unwrap().max(9_700),
            histogram.percentile(100.0).unwrap()
        );
        assert_eq!(histogram.max(), Some(10_000));
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (mut one, mut two, mut all) =
            (LogHistogram::new(), LogHistogram::new(), LogHistogram::new());
        for value in [3, 70, 9_000, u64::MAX, 0] {
            let side = if value % 2 == 0 { &mut one } else { &mut two };
            side.record(value);
            all.record(value);
        }
        one.merge(&two);
        assert_eq!(one, all);
        assert_eq!(one.count(), 5);
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        let histogram = LogHistogram::default();
        assert_eq!(histogram.percentile(50.0), None);
        assert_eq!(histogram.max(), None);
        let mut filled = LogHistogram::new();
        filled.merge(&histogram);
        filled.record(8);
        assert_eq!(filled.percentile(f64::NAN), Some(8));
    }
}
