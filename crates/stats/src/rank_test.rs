//! The signed-rank test for pairs and the rank-sum test for two groups, exact with ties.

use core::cmp::Ordering;

use crate::alternative::Alternative;
use crate::error::Error;
use crate::normal;

use crate::rank::{Null, doubled_midranks};
use crate::ratio::differences;
use crate::sample::Sample;

/// Pairs up to which the signed-rank test is exact; beyond, the corrected normal approximation.
pub const EXACT_PAIRS: usize = 500;

/// Product of the two sizes up to which the rank-sum test is exact: 200 against 200, or 20 against
/// 2000. Beyond, the corrected normal approximation.
pub const EXACT_PRODUCT: usize = 40_000;

/// Values with which the floor of either test is below every positive number.
const MOST_NEEDED: usize = 1_100;

/// Treatment of zero differences by the signed-rank test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zeros {
    /// Drops them before ranking, as Wilcoxon (1945) did.
    #[default]
    Wilcoxon,
    /// Ranks them with the others and drops their ranks (Pratt 1959): many zeros then count as
    /// evidence that the other differences are large.
    Pratt,
}

/// How a p-value was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the full null distribution given the ties.
    Exact,
    /// From the normal distribution, with corrections for ties and for continuity.
    Normal,
}

/// Result of a rank test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// Signed-rank: the sum of the ranks of the positive differences (`W+`). Rank-sum: the pairs
    /// in which the candidate is larger, ties counted half (`U`).
    pub statistic: f64,
    /// Mean of the statistic under the null hypothesis.
    pub expected: f64,
    /// The p-value for the alternative that was asked for.
    pub p: f64,
    /// The smallest two-sided p that this many values with these ties can have at all. A level
    /// below it cannot be reached whatever the effect.
    pub floor: f64,
    /// Values that took part: differences that are not zero, or the values of both sides.
    pub used: usize,
    /// Differences of zero; 0 in a rank-sum test.
    pub zeros: usize,
    /// How `p` was computed.
    pub method: Method,
}

impl RankTest {
    /// Returns the direction of the candidate relative to the baseline, according to the statistic.
    pub fn direction(&self) -> Ordering {
        self.statistic.total_cmp(&self.expected)
    }
}

/// Picks the p-value of the alternative from the two tails.
fn p_of(lower: f64, upper: f64, alternative: Alternative) -> f64 {
    match alternative {
        Alternative::TwoSided => (2.0 * lower.min(upper)).min(1.0),
        Alternative::Less => lower.min(1.0),
        Alternative::Greater => upper.min(1.0),
    }
}

/// Both tails by the normal approximation; the statistic moves half a step towards its mean.
fn normal_tails(statistic: f64, mean: f64, variance: f64) -> (f64, f64) {
    if variance <= 0.0 {
        return (1.0, 1.0);
    }
    let sd = variance.sqrt();
    let lower = normal::cdf((statistic - mean + 0.5) / sd);
    (lower, normal::upper_tail((statistic - mean - 0.5) / sd))
}

/// Wilcoxon's signed-rank test of `candidate - baseline`, pair by pair.
///
/// The null hypothesis is that the differences are symmetric about zero. The p-value is exact given
/// the ties up to [`EXACT_PAIRS`] non-zero differences. If all differences are zero, p is 1.
/// Differences count as tied if they are equal as floating-point numbers.
///
/// # Errors
/// [`Error::Unpaired`] if the samples differ in length.
pub fn signed_rank(
    baseline: &Sample,
    candidate: &Sample,
    zeros: Zeros,
    alternative: Alternative,
) -> Result<RankTest, Error> {
    Ok(signed_rank_of(&differences(baseline, candidate)?, zeros, alternative))
}

/// The signed-rank test of the differences themselves: whether they are symmetric about zero.
pub fn signed_rank_of(differences: &Sample, zeros: Zeros, alternative: Alternative) -> RankTest {
    let values = differences.values();
    let kept: Vec<f64> = match zeros {
        Zeros::Wilcoxon => values.iter().copied().filter(|value| *value != 0.0).collect(),
        Zeros::Pratt => values.to_vec(),
    };
    let sizes: Vec<f64> = kept.iter().map(|value| value.abs()).collect();
    let ranked = kept.iter().zip(doubled_midranks(&sizes)).filter(|(value, _)| **value != 0.0);
    let (signs, ranks): (Vec<bool>, Vec<usize>) = ranked.map(|(v, rank)| (*v > 0.0, rank)).unzip();
    let positive: usize = signs.iter().zip(&ranks).filter(|(sign, _)| **sign).map(|(_, r)| r).sum();
    let statistic = positive as f64 / 2.0;
    let expected = ranks.iter().sum::<usize>() as f64 / 4.0;
    let exact = ranks.len() <= EXACT_PAIRS;
    let (lower, upper) = if exact {
        Null::of_signs(&ranks).tails(positive)
    } else {
        let squares: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum();
        normal_tails(statistic, expected, squares / 16.0)
    };
    RankTest {
        statistic,
        expected,
        p: p_of(lower, upper, alternative),
        floor: signed_rank_floor(ranks.len()),
        used: ranks.len(),
        zeros: values.len() - ranks.len(),
        method: if exact { Method::Exact } else { Method::Normal },
    }
}

/// The rank-sum test (Wilcoxon, Mann, Whitney) of two unpaired samples.
///
/// The null hypothesis is that both sides have the same distribution. The p-value is exact given
/// the ties while the product of the two sizes is at most [`EXACT_PRODUCT`]. The distribution with
/// ties need not be symmetric; two-sided is twice the smaller tail.
pub fn rank_sum(baseline: &Sample, candidate: &Sample, alternative: Alternative) -> RankTest {
    let (n, m) = (candidate.n(), baseline.n());
    let pool: Vec<f64> = candidate.values().iter().chain(baseline.values()).copied().collect();
    let ranks = doubled_midranks(&pool);
    let sum: usize = ranks[..n].iter().sum();
    let statistic = (sum - n * (n + 1)) as f64 / 2.0;
    let expected = n as f64 * m as f64 / 2.0;
    let exact = n.saturating_mul(m) <= EXACT_PRODUCT;
    let (lower, upper, floor) = if exact {
        // The smaller side is dealt out: less work, and its complement has the other's tails.
        let null = Null::of_choices(&ranks, n.min(m));
        let (lower, upper) = if n <= m {
            null.tails(sum)
        } else {
            let (upper, lower) = null.tails(ranks[n..].iter().sum());
            (lower, upper)
        };
        (lower, upper, null.floor())
    } else {
        let variance = tied_variance(&ranks, n, m);
        let (lower, upper) = normal_tails(statistic, expected, variance);
        (lower, upper, rank_sum_floor(n, m))
    };
    RankTest {
        statistic,
        expected,
        p: p_of(lower, upper, alternative),
        floor,
        used: n + m,
        zeros: 0,
        method: if exact { Method::Exact } else { Method::Normal },
    }
}

/// Returns the variance of `U` given the ties: of the sum of `n` ranks drawn without replacement.
fn tied_variance(ranks: &[usize], n: usize, m: usize) -> f64 {
    let count = ranks.len() as f64;
    let mean = f64::midpoint(count, 1.0);
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64 / 2.0 - mean).powi(2)).sum();
    n as f64 * m as f64 * squares / (count * (count - 1.0))
}

/// The smallest two-sided p of a signed-rank test with `n` non-zero differences, `2 / 2^n`; 1 for
/// none and one.
pub fn signed_rank_floor(n: usize) -> f64 {
    0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX).saturating_sub(1)).min(1.0)
}

/// The smallest two-sided p of a rank-sum test with `n` and `m` values without ties, 2 over the
/// ways to choose the smaller side.
pub fn rank_sum_floor(n: usize, m: usize) -> f64 {
    let small = n.min(m);
    let large = n.max(m);
    let mut floor = 2.0;
    for k in 1..=small {
        floor *= k as f64 / (large + k) as f64;
        if floor <= 0.0 {
            break;
        }
    }
    floor.min(1.0)
}

/// The fewest pairs with which a signed-rank test can reach the level `alpha`: 6 for 0.05, 8 for
/// 0.01, 11 for 0.001.
///
/// # Errors
/// [`Error::NotAProbability`] unless `alpha` lies strictly between 0 and 1.
pub fn pairs_needed(alpha: f64) -> Result<usize, Error> {
    crate::error::open_unit("alpha", alpha)?;
    Ok((1..=MOST_NEEDED).find(|n| signed_rank_floor(*n) <= alpha).unwrap_or(MOST_NEEDED))
}

/// The fewest values on each side with which a rank-sum test can reach the level `alpha`: 4 for
/// 0.05, 5 for 0.01, 7 for 0.001.
///
/// # Errors
/// [`Error::NotAProbability`] unless `alpha` lies strictly between 0 and 1.
pub fn values_needed(alpha: f64) -> Result<usize, Error> {
    crate::error::open_unit("alpha", alpha)?;
    Ok((1..=MOST_NEEDED).find(|n| rank_sum_floor(*n, *n) <= alpha).unwrap_or(MOST_NEEDED))
}

/// Stars of a p-value: 3 up to 0.001, 2 up to 0.01, 1 up to 0.05, else none. A p-value from too few
/// samples cannot come down to them: see [`RankTest::floor`].
pub fn stars(p: f64) -> usize {
    [0.001, 0.01, 0.05].iter().filter(|level| p <= **level).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    #[test]
    fn floors_are_those_of_the_table() {
        let close = |left: f64, right: f64| assert!((left / right - 1.0).abs() < 0.05, "{left}");
        for (n, pairs, groups) in
            [(3, 0.25, 0.1), (4, 0.125, 0.0286), (5, 0.0625, 0.0079), (11, 0.00098, 2.8e-6)]
        {
            close(signed_rank_floor(n), pairs);
            close(rank_sum_floor(n, n), groups);
        }
        assert_eq!([0.05, 0.01, 0.001].map(|a| pairs_needed(a).unwrap()), [6, 8, 11]);
        assert_eq!([0.05, 0.01, 0.001].map(|a| values_needed(a).unwrap()), [4, 5, 7]);
        assert!(pairs_needed(0.0).is_err() && values_needed(f64::NAN).is_err());
        assert_eq!((signed_rank_floor(0), signed_rank_floor(1)), (1.0, 1.0));
    }

    #[test]
    fn identical_sides_have_no_evidence() {
        let same = sample(&[4.0, 4.0, 4.0]);
        let paired = signed_rank(&same, &same, Zeros::Wilcoxon, Alternative::TwoSided).unwrap();
        assert_eq!((paired.p, paired.floor, paired.used, paired.zeros), (1.0, 1.0, 0, 3));
        let unpaired = rank_sum(&same, &same, Alternative::TwoSided);
        assert_eq!((unpaired.p, unpaired.floor), (1.0, 1.0));
        assert_eq!(unpaired.direction(), Ordering::Equal);
    }

    #[test]
    fn the_smaller_first_side_is_right_too() {
        // The case in which a published crate answers 1: five below, five above.
        let (low, high) = (sample(&[1.0, 2.0, 3.0, 4.0, 5.0]), sample(&[6.0, 7.0, 8.0, 9.0, 10.0]));
        let found = rank_sum(&low, &high, Alternative::TwoSided);
        assert!((found.p - 2.0 / 252.0).abs() < 1e-16);
        assert_eq!(found.direction(), Ordering::Greater);
    }

    #[test]
    fn the_approximation_continues_the_exact_test() {
        // 501 differences use the normal approximation; the same without one are exact.
        let values: Vec<f64> =
            (0..501).map(|i| f64::from((i * 7919) % 1009) - 480.0 + f64::from(i % 3)).collect();
        let all = signed_rank_of(&sample(&values), Zeros::Wilcoxon, Alternative::TwoSided);
        let most = signed_rank_of(&sample(&values[..500]), Zeros::Wilcoxon, Alternative::TwoSided);
        assert_eq!((all.method, most.method), (Method::Normal, Method::Exact));
        assert!((all.p - most.p).abs() < 0.02, "{} {}", all.p, most.p);
    }
}
