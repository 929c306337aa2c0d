//! Distributions of recorded times, to draw from.

use convoy_stats::Rng;

/// A distribution of times, in buckets of half a power of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// Minimum time of a bucket, nanoseconds, and the number of times in it or below.
    buckets: Vec<(f64, u64)>,
    /// Factor that makes the mean of the draws equal to the recorded mean.
    scale: f64,
}

impl Spread {
    /// Returns the distribution with these buckets (least nanoseconds, count), in ascending order,
    /// and this mean in nanoseconds.
    pub fn new(counts: &[(f64, u64)], mean_ns: f64) -> Self {
        let mut all = 0;
        let mut sum = 0.0;
        let buckets = counts.iter().map(|&(least, count)| {
            all += count;
            sum += Self::middle(least, 0.5) * count as f64;
            (least, all)
        });
        let buckets: Vec<_> = buckets.collect();
        let scale = if sum > 0.0 { mean_ns * all as f64 / sum } else { 0.0 };
        Self { buckets, scale }
    }

    /// Returns the same distribution with another mean, nanoseconds.
    #[must_use]
    pub fn with_mean(self, mean_ns: f64) -> Self {
        let mean = self.mean();
        let scale = if mean > 0.0 { self.scale * mean_ns / mean } else { self.scale };
        Self { scale, ..self }
    }

    /// Returns the same distribution with a lower mean, nanoseconds, by limiting its longest times.
    #[must_use]
    pub fn capped(self, mean_ns: f64) -> Self {
        let all = self.buckets.last().map_or(0, |bucket| bucket.1);
        if mean_ns >= self.mean() || self.scale <= 0.0 {
            return self;
        }
        // The cap lies in the first bucket for which the target is exceeded if all longer times are
        // as long as the bucket.
        let target = mean_ns * all as f64 / self.scale;
        let (mut counts, mut below, mut sum) = (Vec::new(), 0, 0.0);
        for &(least, count) in &self.buckets {
            let (here, middle) = (count - below, Self::middle(least, 0.5));
            let rest = (all - below) as f64;
            if sum + rest * middle >= target {
                let cap = (target - sum) / rest;
                counts.push((least * (cap / middle).min(1.0), all - below));
                break;
            }
            counts.push((least, here));
            (below, sum) = (count, sum + here as f64 * middle);
        }
        Self::new(&counts, mean_ns)
    }

    /// Returns a time within the bucket; the first bucket, from 0, is about 10 ns wide.
    fn middle(least: f64, part: f64) -> f64 {
        const FIRST: f64 = 10.0;
        if least > 0.0 { least * (1.0 + part * (std::f64::consts::SQRT_2 - 1.0)) } else { FIRST }
    }

    /// Returns the mean, nanoseconds.
    pub fn mean(&self) -> f64 {
        let mut below = 0;
        let sum = self.buckets.iter().map(|&(least, count)| {
            let here = count - below;
            below = count;
            Self::middle(least, 0.5) * here as f64
        });
        let sum: f64 = sum.sum();
        if below == 0 { 0.0 } else { sum * self.scale / below as f64 }
    }

    /// Draws a time, nanoseconds; 0 from an empty distribution.
    pub(crate) fn draw(&self, rng: &mut Rng) -> f64 {
        let Some(&(_, all)) = self.buckets.last() else { return 0.0 };
        let rank = (rng.uniform() * all as f64) as u64;
        // Counts beyond 2^53, of a damaged record, round the rank up to the total.
        let at = self.buckets.partition_point(|bucket| bucket.1 <= rank);
        let at = at.min(self.buckets.len() - 1);
        Self::middle(self.buckets[at].0, rng.uniform()) * self.scale
    }
}

/// Work that may contain sleep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// On the CPU.
    pub work: Spread,
    /// Probability that it contains sleep.
    pub sleeps: f64,
    /// Length of a span that contains sleep, including its work.
    pub sleep: Spread,
}

impl Span {
    /// Returns the mean sleep, nanoseconds.
    pub fn slept_ns(&self) -> f64 {
        self.sleeps * (self.sleep.mean() - self.work.mean()).max(0.0)
    }

    /// Draws work and sleep, nanoseconds.
    pub(crate) fn draw(&self, rng: &mut Rng) -> (f64, f64) {
        let work = self.work.draw(rng);
        let sleeps = rng.uniform() < self.sleeps;
        (work, if sleeps { (self.sleep.draw(rng) - work).max(0.0) } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(ns: f64) -> Spread {
        Spread::new(&[(ns / 2.0, 3), (ns * 4.0, 1)], ns)
    }

    #[test]
    fn counts_that_no_number_holds_are_drawn_from() {
        let mut rng = Rng::new(1);
        for count in [0, u64::MAX] {
            assert!(Spread::new(&[(500.0, count)], 500.0).draw(&mut rng) < 1000.0);
        }
    }

    #[test]
    fn a_cap_takes_the_longest_times() {
        // 90 times of about 500 us and 10 times of 3 ms: mean 750 us.
        let late = Spread::new(&[(414_000.0, 90), (2_485_000.0, 10)], 750_000.0);
        let capped = late.clone().capped(550_000.0);
        assert!((capped.mean() - 550_000.0).abs() < 1.0, "{}", capped.mean());
        let mut rng = Rng::new(2);
        let longest = (0..1000).map(|_| capped.draw(&mut rng)).fold(0.0, f64::max);
        assert!(longest < 1_400_000.0, "{longest}");
        assert!((late.clone().capped(100_000.0).mean() - 100_000.0).abs() < 1.0);
        assert_eq!(late.clone().capped(800_000.0), late);
        assert_eq!(Spread::default().capped(1.0), Spread::default());
    }

    #[test]
    fn draws_have_the_mean_and_the_shape_of_the_record() {
        let (one, mut rng) = (spread(1000.0), Rng::new(1));
        assert!((one.mean() - 1000.0).abs() < 1e-6, "{}", one.mean());
        let draws: Vec<f64> = (0..20_000).map(|_| one.draw(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        assert!((970.0..1030.0).contains(&mean), "{mean}");
        let short = draws.iter().filter(|&&ns| ns < 1000.0).count();
        assert!((14_700..15_300).contains(&short), "{short}");
        assert!(Spread::default().draw(&mut rng).abs() < 1e-9);
        assert!((spread(1000.0).with_mean(10.0).mean() - 10.0).abs() < 1e-9);
        assert!(Spread::default().with_mean(10.0).mean().abs() < 1e-9);
    }
}
