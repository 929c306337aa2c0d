//! How many runs an answer takes, before they are made.

use core::f64::consts::PI;

use crate::error::{Error, open_unit, positive};
use crate::question::Design;
use crate::rank_test::{pairs_needed, values_needed};
use crate::{normal, student};

/// Efficiency of the rank tests relative to the t-tests for normal values, `3 / pi`: the share of
/// the runs with which a t-test would find as much. For heavy tails the rank tests need fewer.
const RANK_EFFICIENCY: f64 = 3.0 / PI;

/// Parts of the integral over the spread, an even number.
const PARTS: u32 = 400;

/// How much is to be found, and how surely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// How the sides are measured.
    pub design: Design,
    /// The difference that must not be missed over the standard deviation of one run. For pairs, in
    /// standard deviations of the differences of a pair.
    pub effect: f64,
    /// Level of the two-sided test.
    pub alpha: f64,
    /// Chance to find that difference.
    pub power: f64,
}

impl Goal {
    fn check(&self) -> Result<(), Error> {
        positive("effect", self.effect)?;
        open_unit("alpha", self.alpha)?;
        open_unit("power", self.power)?;
        Ok(())
    }

    /// The chance that the two-sided t-test with `n` pairs, or `n` values on each side, rejects.
    ///
    /// # Errors
    /// [`Error::TooFew`] for fewer than two, [`Error::BadParameter`] or [`Error::NotAProbability`]
    /// for a part of the goal out of range.
    pub fn power_of(&self, n: usize) -> Result<f64, Error> {
        self.check()?;
        if n < 2 { Err(Error::TooFew { have: n, need: 2 }) } else { Ok(self.power_unchecked(n)) }
    }

    fn power_unchecked(&self, n: usize) -> f64 {
        let count = n as f64;
        match self.design {
            Design::Paired => rejection(self.effect * count.sqrt(), count - 1.0, self.alpha),
            Design::Unpaired => {
                rejection(self.effect * (count / 2.0).sqrt(), 2.0 * (count - 1.0), self.alpha)
            }
        }
    }

    /// Returns the pairs, or values on each side, with which Convoy's rank test reaches the goal:
    /// the t-test's number divided by `3 / pi`, and at least the minimum for its level.
    ///
    /// # Errors
    /// As [`Goal::power_of`]; [`Error::Overflow`] if the number is beyond counting.
    pub fn runs(&self) -> Result<usize, Error> {
        let by_t = self.runs_of_t_test()?;
        let floor = match self.design {
            Design::Paired => pairs_needed(self.alpha)?,
            Design::Unpaired => values_needed(self.alpha)?,
        };
        Ok(floor.max((by_t as f64 / RANK_EFFICIENCY).ceil() as usize))
    }

    /// Pairs, or values on each side, with which the t-test reaches the goal.
    ///
    /// # Errors
    /// As [`Goal::runs`].
    pub fn runs_of_t_test(&self) -> Result<usize, Error> {
        self.check()?;
        first_from(2, |n| self.power_unchecked(n) >= self.power).ok_or(Error::Overflow)
    }
}

/// The first number from `start` on that `fits`, if one below 2^40 does; `fits` must stay true.
fn first_from(start: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let mut high = start;
    let mut low = start;
    while !fits(high) {
        low = high + 1;
        high = high.checked_mul(2).filter(|high| *high < 1 << 40)?;
    }
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// P(|T| > critical) where T is noncentral t with noncentrality `shift`: the normal tail beyond the
/// critical value times the spread, averaged over the distribution of the spread by Simpson's rule.
fn rejection(shift: f64, df: f64, alpha: f64) -> f64 {
    let critical = student::tail_quantile(alpha / 2.0, df);
    if critical.is_infinite() {
        return 0.0;
    }
    // The sample spread over the true one is near 1 with standard deviation 1 / sqrt(2 df).
    let reach = 9.0 / (2.0 * df).sqrt();
    let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
    let step = (high - low) / f64::from(PARTS);
    let (mut sum, mut weights) = (0.0, 0.0);
    for part in 0..=PARTS {
        let spread = low + step * f64::from(part);
        let simpson = match part {
            0 | PARTS => 1.0,
            part if part % 2 == 1 => 4.0,
            _ => 2.0,
        };
        // The density of the spread up to a factor, which is 1 at spread 1.
        let log = if df > 1.0 { (df - 1.0) * spread.ln() } else { 0.0 };
        let weight = simpson * (log - 0.5 * df * (spread * spread - 1.0)).exp();
        let edge = critical * spread;
        sum += weight * (normal::upper_tail(edge - shift) + normal::cdf(-edge - shift));
        weights += weight;
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(design: Design, effect: f64, power: f64) -> Goal {
        Goal { design, effect, alpha: 0.05, power }
    }

    #[test]
    fn runs_are_those_of_the_usual_tables() {
        // R's power.t.test: 393.4, 63.77, 16.71 and 22.02 a side, rounded up; paired 33.37, 9.94.
        for (effect, power, runs) in
            [(0.2, 0.8, 394), (0.5, 0.8, 64), (1.0, 0.8, 17), (1.0, 0.9, 23)]
        {
            assert_eq!(goal(Design::Unpaired, effect, power).runs_of_t_test(), Ok(runs));
        }
        for (effect, runs) in [(0.5, 34), (1.0, 10)] {
            assert_eq!(goal(Design::Paired, effect, 0.8).runs_of_t_test(), Ok(runs));
        }
    }

    #[test]
    fn no_plan_is_below_the_floor_of_the_test() {
        assert_eq!(goal(Design::Paired, 50.0, 0.9).runs(), Ok(6));
        assert_eq!(goal(Design::Unpaired, 50.0, 0.9).runs(), Ok(4));
        assert_eq!(goal(Design::Unpaired, 1.0, 0.8).runs(), Ok(18));
    }

    #[test]
    fn hostile_goals() {
        for effect in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(goal(Design::Paired, effect, 0.8).runs().is_err());
        }
        assert_eq!(goal(Design::Paired, 1e-9, 0.8).runs(), Err(Error::Overflow));
        assert!(goal(Design::Paired, 1.0, 1.0).runs().is_err());
        assert!(goal(Design::Paired, 1.0, 0.8).power_of(1).is_err());
        assert!(goal(Design::Paired, 1e100, 0.8).power_of(2).unwrap() > 0.99);
    }
}
