//! Ranks with ties, and the exact null distributions of sums of ranks.
//!
//! Midranks are doubled, so that they are integers and a sum of them is an index. The distributions
//! are conditional on the ties at hand (B. Streitberg, J. Roehmel, 1986: the shift algorithm),
//! hence exact with ties.

/// The doubled midrank of each value, in the order of the values: equal values share the mean of
/// the ranks they occupy. Values must not be NaN.
pub(crate) fn doubled_midranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let value = values[order[first]];
        // Not `total_cmp`: zero and minus zero are tied, and sorted side by side.
        let same = order[first..].iter().take_while(|index| values[**index] <= value).count();
        for index in &order[first..first + same] {
            // The ranks first + 1 ..= first + same have twice the mean 2 first + same + 1.
            ranks[*index] = 2 * first + same + 1;
        }
        first += same;
    }
    ranks
}

/// The greatest common divisor; 0 and 0 give 0.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A distribution on `start`, `start + step`, `start + 2 step`, …
pub(crate) struct Null {
    start: usize,
    step: usize,
    weights: Vec<f64>,
    total: f64,
}

impl Null {
    /// Returns the distribution of the sum of the ranks, each included with probability one half:
    /// the signed-rank statistic with random signs.
    ///
    /// Weights are probabilities; they are dyadic fractions and exact up to 53 ranks. Beyond, each
    /// carries a relative error of at most one rounding per rank: nothing is subtracted.
    pub(crate) fn of_signs(ranks: &[usize]) -> Self {
        let step = ranks.iter().copied().fold(0, gcd).max(1);
        let mut weights = vec![1.0];
        for rank in ranks {
            let shift = rank / step;
            let old = weights.len();
            weights.resize(old + shift, 0.0);
            for index in (0..weights.len()).rev() {
                let stay = if index < old { weights[index] } else { 0.0 };
                let come = if index >= shift { weights[index - shift] } else { 0.0 };
                weights[index] = 0.5 * (stay + come);
            }
        }
        Self { start: 0, step, weights, total: 1.0 }
    }

    /// Returns the distribution of the sum of `chosen` of the ranks, each choice equally likely:
    /// the rank-sum statistic with random labels.
    ///
    /// Weights are counts of choices, exact below 2^53 (all pools up to 56 values) and beyond with
    /// a relative error of at most one rounding per rank.
    pub(crate) fn of_choices(ranks: &[usize], chosen: usize) -> Self {
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        // The smallest sum takes the `chosen` smallest; all others are whole steps above it.
        let step = ranks.iter().map(|rank| rank - ranks[0]).fold(0, gcd).max(1);
        // counts[k][s] choices of k ranks with a sum of s steps above the smallest sum of k.
        let mut counts: Vec<Vec<f64>> = vec![vec![1.0]];
        for (seen, rank) in ranks.iter().enumerate() {
            // Fewer than this cannot become `chosen` with the ranks that are left.
            let least = (seen + 1 + chosen).saturating_sub(ranks.len()).max(1);
            for k in (least..=chosen.min(seen + 1)).rev() {
                if k == seen + 1 {
                    // All ranks so far: one choice, the smallest sum itself.
                    counts.push(vec![1.0]);
                    continue;
                }
                // With one rank more, the sum of k - 1 smallest becomes that of k smallest.
                let shift = (rank - ranks[k - 1]) / step;
                let (smaller, larger) = counts.split_at_mut(k);
                let (from, into) = (&smaller[k - 1], &mut larger[0]);
                into.resize(into.len().max(from.len() + shift), 0.0);
                for (slot, count) in into[shift..].iter_mut().zip(from) {
                    *slot += count;
                }
            }
        }
        let weights = counts.swap_remove(chosen);
        let total = weights.iter().sum();
        Self { start: ranks[..chosen].iter().sum(), step, weights, total }
    }

    /// P(sum <= `sum`) and P(sum >= `sum`) of a sum that can occur, each added up from its own
    /// end, so that a small one keeps its digits.
    pub(crate) fn tails(&self, sum: usize) -> (f64, f64) {
        let at = sum.saturating_sub(self.start) / self.step;
        let at = at.min(self.weights.len() - 1);
        let lower: f64 = self.weights[..=at].iter().sum();
        let upper: f64 = self.weights[at..].iter().rev().sum();
        (lower / self.total, upper / self.total)
    }

    /// The smallest two-sided p that any outcome with these ties can have.
    pub(crate) fn floor(&self) -> f64 {
        let ends = self.weights[0].min(self.weights[self.weights.len() - 1]);
        (2.0 * ends / self.total).min(1.0)
    }

    /// The largest number of steps `k` with P(sum <= start + k steps) <= `tail`, and that
    /// probability; `None` if already the smallest sum is likelier than that.
    pub(crate) fn lower_quantile(&self, tail: f64) -> Option<(usize, f64)> {
        let mut below = 0.0;
        let mut found = None;
        for (index, weight) in self.weights.iter().enumerate() {
            below += weight / self.total;
            if below > tail {
                break;
            }
            found = Some((index, below));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_values_share_a_rank() {
        assert_eq!(doubled_midranks(&[3.0, 1.0, 3.0, 2.0]), [7, 2, 7, 4]);
        assert_eq!(doubled_midranks(&[0.0, -0.0]), [3, 3]);
        assert_eq!(doubled_midranks(&[]), [0; 0]);
    }

    #[test]
    fn signs_of_three_ranks() {
        // Sums 0, 1, 2, 3, 3, 4, 5, 6 of the ranks 1, 2, 3.
        let null = Null::of_signs(&[2, 4, 6]);
        assert_eq!(null.step, 2);
        assert_eq!(null.weights, [0.125, 0.125, 0.125, 0.25, 0.125, 0.125, 0.125]);
        assert_eq!(null.tails(10), (0.875, 0.25));
    }

    #[test]
    fn choices_of_two_of_four() {
        let null = Null::of_choices(&[2, 4, 6, 8], 2);
        assert_eq!((null.start, null.step), (6, 2));
        assert_eq!(null.weights, [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(Null::of_choices(&[5, 5, 5], 3).weights, [1.0]);
        assert_eq!(Null::of_choices(&[3, 3, 7], 0).weights, [1.0]);
    }
}
