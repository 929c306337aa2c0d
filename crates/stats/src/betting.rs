//! Comparing pairs while they come: bets on the sign of the next difference.
//!
//! A coin decides the order of the two runs of a pair. If the sides are equal, that coin alone
//! decides the sign of the pair's difference, however long the difference is, whatever the noise
//! looks like and however it hangs together over time: skewed, heavy-tailed, of two modes,
//! drifting, autocorrelated. A bet on the sign then has an expected gain of zero, and the
//! probability that it ever multiplies the stake by `1 / alpha` is at most `alpha` (Ville's
//! inequality), so the test may be evaluated after every pair. A sequential t-test needs normal
//! differences for this.
//!
//! A bet that knows the distance is worth more than one on the bare sign: if the differences were
//! normal with the mean `m` in standard deviations, a difference of `x` of them would be positive
//! with odds of `exp(2 m x)` to 1. The stake is spread over some `m` of both directions, and each
//! part bets by these odds. Departures from normality cost power, not validity. See G. Shafer,
//! *Testing by betting* (2021); I. Waudby-Smith and A. Ramdas, *Estimating means of bounded random
//! variables by betting* (2024); for signs, V. de la Peña (1999).

use core::cmp::Ordering;
use core::f64::consts::LN_2;

use crate::compare::{self, Comparison, relative};
use crate::error::{Error, open_unit};
use crate::normal;
use crate::question::{Design, Question};
use crate::ratio::{self, Ratio};
use crate::sample::{Estimate, Sample};
use crate::verdict::Verdict;

/// Means to bet on, in standard deviations of a pair's difference, with equal shares of the stake:
/// from effects that need thousands of pairs to effects that the first pairs show. Chosen by
/// simulation (`crates/stats/tests/comparing.rs`): finer or wider steps found effects later.
const MEANS: [f64; 5] = [0.03, 0.1, 0.3, 0.6, 1.5];

/// Differences are clipped at this many standard deviations: the odds of an outlier are not a
/// normal value's.
const MOST: f64 = 3.0;

/// Number of differences from which the standard deviation of the next is estimated.
const MEMORY: usize = 50;

/// Fewest of them that do; a difference before counts for one standard deviation.
const FEWEST: usize = 4;

/// Steps of the search for the end of an interval; each halves the error.
const STEPS: usize = 64;

/// The bets on a series of differences.
///
/// ```
/// # use convoy_stats::Betting;
/// let bets = Betting::new(&[2.0, 1.5, 2.5, 1.0, 3.0, 2.0, 1.7, 2.2, 1.4]);
/// assert!(bets.p(0.0) < 0.05 && bets.p(2.0) > 0.05);
/// let interval = bets.interval(0.95).unwrap();
/// assert!(interval.lo > 0.0 && interval.contains(2.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Betting {
    /// The differences in the order in which they were measured.
    differences: Vec<f64>,
    /// The spread that those before each difference had, once there were enough.
    spreads: Vec<Option<f64>>,
}

impl Betting {
    /// Bets on `differences`, which are finite and in the order in which they were measured.
    pub fn new(differences: &[f64]) -> Self {
        let mut bets = Self::default();
        for difference in differences {
            bets.push(*difference);
        }
        bets
    }

    /// Bets on one more difference.
    pub fn push(&mut self, difference: f64) {
        let before = &self.differences[self.differences.len().saturating_sub(MEMORY)..];
        let known = (before.len() >= FEWEST).then(|| Sample::of_differences(before.to_vec()).ok());
        self.spreads.push(known.flatten().map(|before| before.robust_sd()));
        self.differences.push(difference);
    }

    /// Returns the logarithms of the wealth from a stake on differences above `center`, and from a
    /// stake on differences below. The first never rises with `center`, the second never falls.
    fn ln_wealth(&self, center: f64) -> [f64; 2] {
        let mut parts = [[-(MEANS.len() as f64).ln(); MEANS.len()]; 2];
        for (value, spread) in self.differences.iter().zip(&self.spreads) {
            let distance = match (value - center, spread) {
                (0.0, _) => continue,
                (distance, None) => distance.signum(),
                (distance, Some(spread)) => (distance / spread).clamp(-MOST, MOST),
            };
            for (at, mean) in MEANS.iter().enumerate() {
                let odds = 2.0 * mean * distance;
                let above = LN_2 - (-odds).exp().ln_1p();
                parts[0][at] += above;
                parts[1][at] += above - odds;
            }
        }
        parts.map(|parts| ln_sum(&parts))
    }

    /// The p-value of "the differences are symmetric about `center`", two-sided; it may be compared
    /// with a level after every difference.
    pub fn p(&self, center: f64) -> f64 {
        let stakes = self.ln_wealth(center).map(|wealth| wealth - LN_2);
        (-ln_sum(&stakes)).exp().min(1.0)
    }

    /// The p-values of "the centre is at most `center`" and of "it is at least that", each valid at
    /// every look.
    pub fn one_sided(&self, center: f64) -> [f64; 2] {
        self.ln_wealth(center).map(|wealth| (-wealth).exp().min(1.0))
    }

    /// On which side of zero the differences are.
    pub fn direction(&self) -> Ordering {
        let [above, below] = self.ln_wealth(0.0);
        above.total_cmp(&below)
    }

    /// The centre on which both sides have won alike, as the mean of the estimate, and the centres
    /// that neither side can reject; infinite while there are too few differences. With probability
    /// `confidence` the true centre is in the intervals of all looks.
    ///
    /// # Errors
    /// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1,
    /// [`Error::Empty`] without a difference, [`Error::NotFinite`] if one is not finite.
    pub fn interval(&self, confidence: f64) -> Result<Estimate, Error> {
        // Each side has half of the error.
        let limit = (2.0 / (1.0 - open_unit("confidence", confidence)?)).ln();
        let sample = Sample::of_differences(self.differences.clone())?;
        let (sd, n) = (sample.sd(), sample.n());
        let [least, most] = self.reach(&sample);
        let middle = sample.median();
        let above = |center: f64| self.ln_wealth(center)[0] >= limit;
        let below = |center: f64| self.ln_wealth(center)[1] >= limit;
        let lo = if above(least) { edge(middle, least, above) } else { f64::NEG_INFINITY };
        let hi = if below(most) { edge(middle, most, below) } else { f64::INFINITY };
        let balance = |center: f64| {
            let [above, below] = self.ln_wealth(center);
            above - below
        };
        let mean = match balance(middle).total_cmp(&0.0) {
            Ordering::Less => edge(middle, least, |center| balance(center) >= 0.0),
            Ordering::Equal => middle,
            Ordering::Greater => edge(middle, most, |center| balance(center) <= 0.0),
        };
        Ok(Estimate { mean, sd, n, lo, hi })
    }

    /// Centres so far away that every difference counts for the most on one side.
    fn reach(&self, sample: &Sample) -> [f64; 2] {
        let (least, most) = (sample.min(), sample.max());
        let spread = self.spreads.iter().flatten().copied().fold(0.0, f64::max);
        let size = least.abs().max(most.abs());
        let far = (2.0 * MOST * spread).max(size * 1e-9).max(f64::MIN_POSITIVE);
        [least - far, most + far]
    }
}

/// The smallest mean of `pairs` normal differences, in their standard deviations, that the bets at
/// level `alpha` find with the chance `power`.
///
/// A stake on the right mean m grows by a factor `exp(m^2 / 2)` for each pair, on average, and its
/// logarithm after n pairs has the standard deviation `m sqrt(n)`; it must pay for the other stakes
/// and for both directions. The first four pairs are bets on the bare sign and count for nothing.
/// With 12 to 100 pairs, the share that is found is within 0.06 of a `power` of 0.8 in simulations
/// (`crates/stats/tests/comparing.rs`).
///
/// # Errors
/// [`Error::NotAProbability`] for `alpha` or `power`, [`Error::TooFew`] for a number of pairs with
/// which nothing can be found: a stake at most doubles with each.
pub fn smallest_found(pairs: usize, alpha: f64, power: f64) -> Result<f64, Error> {
    let price = (2.0 * MEANS.len() as f64 / open_unit("alpha", alpha)?).ln();
    let slack = normal::quantile(open_unit("power", power)?);
    let need = (price / LN_2).ceil() as usize;
    if pairs < need {
        return Err(Error::TooFew { have: pairs, need });
    }
    Ok((slack + (slack * slack + 2.0 * price).sqrt()) / ((pairs - FEWEST) as f64).sqrt())
}

/// Where something begins to hold on the way from `inside` to `outside`, from where it does not.
fn edge(inside: f64, outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut inside, mut outside) = (inside, outside);
    for _ in 0..STEPS {
        let half = inside.midpoint(outside);
        if holds(half) {
            outside = half;
        } else {
            inside = half;
        }
    }
    inside
}

/// Logarithm of the sum of exponentials.
fn ln_sum(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

impl Comparison {
    /// Compares pairs at a look: the verdict may be taken after every pair and acted upon.
    ///
    /// The bets are on the logarithms of the ratios of the pairs (on the differences, where a value
    /// is not positive), at the level of the question, which equality shares with the last look.
    /// P-value and direction are from the bets, and so is the ratio, unless the last look shows
    /// equality and the bets do not; [`Comparison::test`] remains the test for a fixed number of
    /// pairs and is not valid here.
    ///
    /// # Errors
    /// As [`Comparison::new`].
    pub fn watched(
        baseline: &Sample,
        candidate: &Sample,
        question: Question,
    ) -> Result<Self, Error> {
        let question = Question { design: Design::Paired, ..question };
        let mut found = Self::new(baseline, candidate, question)?;
        let logs = ratio::log_ratios(baseline, candidate);
        let differences = match &logs {
            Ok(logs) => logs.clone(),
            Err(_) => ratio::differences(baseline, candidate)?,
        };
        let bets = Betting::new(differences.values());
        let ratio = |center: Estimate| Ratio {
            value: center.mean.exp(),
            n: center.n,
            lo: center.lo.exp(),
            hi: center.hi.exp(),
        };
        let looks = bets.interval(1.0 - question.alpha)?;
        found.reach_so_far = match &logs {
            Ok(_) => ratio(looks).reach(),
            Err(_) => relative(looks.lo.abs().max(looks.hi.abs()), found.baseline.mean),
        };
        let last = compare::reach(baseline, candidate, question, 1.0 - question.alpha)?;
        found.reach = last.min(found.reach_so_far);
        (found.p, found.direction, found.needs) = (bets.p(0.0), bets.direction(), None);
        // Where the last look alone shows that the sides are the same, the interval is its own.
        let by_looks = !matches!(found.typical(), Verdict::Unsure | Verdict::Same { .. })
            || found.reach_so_far < question.margin
            || found.reach >= question.margin.max(question.widest);
        if by_looks && logs.is_ok() {
            found.ratio = Some(ratio(bets.interval(question.confidence)?));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_signs_are_a_fair_game() {
        // Over all signs of a series the wealth has the mean that it began with, whatever the
        // sizes are.
        let sizes: [f64; 10] = [1.0, 5.0, 0.1, 2.0, 2.0, 40.0, 0.3, 1.0, 7.0, 2.5];
        let mut sum = [0.0; 2];
        for signs in 0..1_u32 << sizes.len() {
            let signed =
                |(at, size): (usize, &f64)| if signs >> at & 1 == 1 { -size } else { *size };
            let values: Vec<f64> = sizes.iter().enumerate().map(signed).collect();
            let wealth = Betting::new(&values).ln_wealth(0.0).map(f64::exp);
            (sum[0], sum[1]) = (sum[0] + wealth[0], sum[1] + wealth[1]);
        }
        for sum in sum {
            assert!((sum / 1024.0 - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    #[test]
    fn interval_and_test_are_two_sides_of_one_thing() {
        let values = [3.0, 1.0, 4.0, 1.5, 5.0, 2.0, 4.5, 3.5, -0.5, 2.5, 3.0, 2.0];
        let bets = Betting::new(&values);
        let interval = bets.interval(0.95).unwrap();
        assert!(interval.lo.is_finite() && interval.hi.is_finite());
        assert!(bets.one_sided(interval.lo)[0] > 0.025);
        assert!(bets.one_sided(interval.lo - 1e-9)[0] <= 0.025);
        assert!(bets.one_sided(interval.hi)[1] > 0.025);
        assert!(bets.one_sided(interval.hi + 1e-9)[1] <= 0.025);
        assert!(bets.p(interval.lo - 1e-9) <= 0.05 && bets.p(interval.hi + 1e-9) <= 0.05);
        assert!(interval.contains(interval.mean));
    }

    #[test]
    fn hostile_differences() {
        for few in [&[1.0][..], &[1.0, 2.0], &[-1.0, 1.0, 1.0]] {
            let interval = Betting::new(few).interval(0.95).unwrap();
            assert!(interval.lo == f64::NEG_INFINITY && interval.hi == f64::INFINITY);
        }
        for constant in [0.0, 5.0, -1e150, 1e-300] {
            let bets = Betting::new(&[constant; 12]);
            let interval = bets.interval(0.95).unwrap();
            assert_eq!((interval.lo, interval.mean, interval.hi), (constant, constant, constant));
            assert_eq!(bets.p(0.0) < 0.01, constant != 0.0);
            assert_eq!(bets.direction(), constant.total_cmp(&0.0));
        }
        let wild = [1e150, -1e150, 1e150, 1e-300, 0.0, 0.0, 0.0, 3.0, -1e150];
        let bets = Betting::new(&wild);
        assert!(bets.p(0.0) <= 1.0 && bets.interval(0.5).unwrap().mean.is_finite());
        assert!(bets.interval(1.0).is_err());
    }
}
