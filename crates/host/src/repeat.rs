//! How often a load point is executed: a number of times, for some time, or until the interval of
//! its Jobs/Min is narrow enough.
//!
//! *Validity.* If an interval is evaluated after each execution and the measurement stops when it
//! is narrow enough, its coverage is not 95 %. With a precision asked for, the interval is
//! therefore the always-valid one of [`convoy_stats::precision`]: it covers the mean at all looks
//! together, so it holds whatever made the run stop. Without, the number of executions does not
//! depend on their rates, and the interval is Student's. Both want executions that are independent
//! and not wildly skewed.

use std::time::Duration;

use convoy_stats::{CONFIDENCE, Sample, precision};

/// Default limit of executions with `--precise`.
pub const MOST_REPEATS: u32 = 200;

/// The rule of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeats {
    /// Executions of each point that are not counted, before those that are.
    pub warmup: u32,
    /// Executions of each point, at least.
    pub least: u32,
    /// Executions of each point, at most.
    pub most: u32,
    /// The point is executed again until the sum of its Real is at least this.
    pub min_duration: Duration,
    /// The point is executed again until its 95 % interval of Jobs/Min reaches at most so far from
    /// the mean to either side, as a share of the mean.
    pub precision: Option<f64>,
}

impl Default for Repeats {
    /// Once.
    fn default() -> Self {
        Self {
            warmup: 0,
            least: 1,
            most: MOST_REPEATS,
            min_duration: Duration::ZERO,
            precision: None,
        }
    }
}

/// The executions of a point so far, by what decides about another one.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    rates: Vec<f64>,
    real_s: f64,
}

impl Looks {
    pub(super) fn add(&mut self, jobs_per_min: f64, real_s: f64) {
        self.rates.push(jobs_per_min);
        self.real_s += real_s;
    }

    /// Whether `rule` wants another execution.
    pub(super) fn wants_more(&self, rule: &Repeats) -> bool {
        let count = self.rates.len() as u32;
        if count < rule.least {
            return true;
        }
        let short = self.real_s < rule.min_duration.as_secs_f64();
        // The requested time and the requested precision are separate; the cap belongs to the
        // precision.
        short || (count < rule.most && self.is_precise(rule) == Some(false))
    }

    /// Whether the precision that `rule` asks for is reached; `None` if it asks for none.
    pub(super) fn is_precise(&self, rule: &Repeats) -> Option<bool> {
        let relative = rule.precision?;
        let sample = Sample::new(self.rates.as_slice()).ok();
        let looked = sample.and_then(|sample| precision(&sample, relative, CONFIDENCE).ok());
        // Equal rates of two executions are luck, not precision.
        Some(self.rates.len() > 2 && looked.is_some_and(|looked| looked.reached))
    }

    /// The 95 % interval of Jobs/Min; `None` where there are too few executions for one.
    pub(super) fn interval(&self, rule: &Repeats) -> Option<[f64; 2]> {
        let sample = Sample::new(self.rates.as_slice()).ok()?;
        let estimate = match rule.precision {
            Some(relative) => precision(&sample, relative, CONFIDENCE).ok()?.estimate,
            None => sample.estimate(),
        };
        Some([estimate.lo, estimate.hi]).filter(|[lo, hi]| lo.is_finite() && hi.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(rates: &[f64]) -> Looks {
        let mut looks = Looks::default();
        for rate in rates {
            looks.add(*rate, 60.0 / rate);
        }
        looks
    }

    #[test]
    fn the_least_and_the_time_are_both_wanted() {
        let rule = Repeats { least: 2, ..Repeats::default() };
        assert!(looks(&[100.0]).wants_more(&rule) && !looks(&[100.0, 90.0]).wants_more(&rule));
        // 0.6 s each.
        let rule = Repeats { min_duration: Duration::from_secs(1), most: 1, ..Repeats::default() };
        assert!(looks(&[100.0]).wants_more(&rule) && !looks(&[100.0, 100.0]).wants_more(&rule));
    }

    #[test]
    fn precision_is_reached_or_given_up() {
        let rule = Repeats { precision: Some(0.01), most: 5, ..Repeats::default() };
        assert!(looks(&[100.0]).wants_more(&rule), "one execution has no interval");
        assert!(looks(&[100.0, 101.0, 99.0]).wants_more(&rule));
        let narrow = [100.0, 100.01, 99.99].repeat(5);
        let patient = Repeats { most: 50, ..rule };
        assert!(!looks(&narrow).wants_more(&patient));
        assert_eq!(looks(&narrow).is_precise(&patient), Some(true));
        let noisy = looks(&[100.0, 120.0, 80.0, 110.0, 90.0]);
        assert_eq!((noisy.wants_more(&rule), noisy.is_precise(&rule)), (false, Some(false)));
        assert_eq!(noisy.is_precise(&Repeats::default()), None);
    }

    #[test]
    fn the_interval_of_a_fixed_number_is_students() {
        // Mean 10, deviation 1, 4 values: t(0.975; 3) = 3.18245.
        let rates = [10.0 - 1.5_f64.sqrt(), 10.0, 10.0, 10.0 + 1.5_f64.sqrt()];
        let [lo, hi] = looks(&rates).interval(&Repeats::default()).expect("four");
        assert!(
            (hi - 10.0 - 3.182_45 / 2.0).abs() < 1e-4 && (10.0 - lo - (hi - 10.0)).abs() < 1e-9
        );
        let rule = Repeats { precision: Some(0.01), ..Repeats::default() };
        let many = rates.repeat(4);
        let [fixed, _] = looks(&many).interval(&Repeats::default()).expect("sixteen");
        let [looked, _] = looks(&many).interval(&rule).expect("sixteen");
        assert!(looked < fixed, "looking costs");
    }

    #[test]
    fn the_interval_holds_although_the_run_stops_when_it_pleases() {
        // Sums of uniform draws, relative deviation 3 %: with fixed 95 % intervals this stopping
        // rule misses far more often than 1 in 20.
        let mut random = convoy_workload::draw::Lcg::new(7);
        let rule = Repeats { precision: Some(0.02), ..Repeats::default() };
        let trials = 2000;
        let mut missed = 0;
        for _ in 0..trials {
            let mut looks = Looks::default();
            while looks.wants_more(&rule) {
                let sum: f64 = (0..12).map(|_| f64::from(random.draw()) / 32_768.0).sum();
                looks.add(100.0 + 3.0 * (sum - 6.0), 1.0);
            }
            let [lo, hi] = looks.interval(&rule).expect("several");
            missed += u32::from(!(lo..=hi).contains(&100.0));
        }
        assert!(missed <= trials / 20, "{missed} of {trials}");
    }
}
