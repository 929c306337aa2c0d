//! Two steps instead of one: a second change, or a reverted one.
//!
//! For histories without merges only. The noise is Gaussian and independent, so that the evidence
//! of three levels is known in closed form, as for two; every pair of positions is compared with
//! every single one.

use super::belief::{NONE, exp_negative};
use crate::student::gamma_ratio;

/// Probability before any data that there are two steps.
const TWO: f64 = 0.02;
/// Two steps have a say where the data are this many times as probable with them as with one.
const ASKED: f64 = 3.0;

/// Runs that each of three levels must have: fewer may be outliers, or a mode of the noise.
const SEEN: f64 = 4.0;

/// A step smaller than this part of the other does not count as a second: a search for a hang is
/// not about a commit that cost a tenth of a millisecond.
const SMALL: f64 = 0.1;

/// The runs of one measured commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Part of the suspicion that lies after the spot before this one, up to this one.
    pub(super) mass: f64,
    pub(super) runs: f64,
    pub(super) sum: f64,
}

/// What the data say of two steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Several {
    /// Probability that there are two steps, each level seen often enough.
    pub(super) p: f64,
    /// The same, also of levels that have few runs so far.
    pub(super) hint: f64,
    /// For each of the two, the probability that it lies between a spot and the previous one.
    pub(super) places: [Vec<f64>; 2],
    /// Probability, given two steps, that the second goes back.
    pub(super) back: f64,
}

/// Runs, sum, and sum of squares over the number, of the spots in a range.
struct Sums {
    runs: Vec<f64>,
    sums: Vec<f64>,
}

impl Sums {
    fn new(spots: &[Spot]) -> Self {
        let upto = |of: &dyn Fn(&Spot) -> f64| {
            let mut all = vec![0.0];
            for spot in spots {
                all.push(all[all.len() - 1] + of(spot));
            }
            all
        };
        Self { runs: upto(&|spot| spot.runs), sums: upto(&|spot| spot.sum) }
    }

    /// Runs and mean of spots `from..to`.
    fn level(&self, from: usize, to: usize) -> (f64, f64) {
        let runs = self.runs[to] - self.runs[from];
        (runs, (self.sums[to] - self.sums[from]) / runs)
    }
}

/// Compares two steps with one and with none. `squares` is the sum of the squares of all values,
/// `least` the residual below which a fit is exact up to rounding, `independent` the probability of
/// one step without memory among all models with one step.
pub(super) fn several(spots: &[Spot], squares: f64, least: f64, independent: f64) -> Several {
    let count = spots.len();
    let sums = Sums::new(spots);
    let all = sums.level(0, count);
    if count < 4 || all.0 < 8.0 {
        return Several::default();
    }
    let fit = |levels: &[(f64, f64)]| {
        let rest = squares - levels.iter().map(|(n, mean)| n * mean * mean).sum::<f64>();
        let (rest, freedom) = (rest.max(least), all.0 - levels.len() as f64);
        let scale = (rest / freedom).sqrt();
        let steps = levels.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs() / scale);
        // The prior of an effect in scales, as in the other models.
        let prior: f64 = steps.map(|d| (0.25 / scale).ln() - 1.5 * d.ln_1p()).sum();
        let counts: f64 = levels.iter().map(|(n, _)| n.ln()).sum();
        prior - 0.5 * freedom * (std::f64::consts::PI * rest).ln() - 0.5 * counts
    };
    // Gamma functions of the freedom, over that of one step.
    let none = NONE.ln() + fit(&[all]) + gamma_ratio(0.5 * all.0 - 1.0).ln();
    let few = (TWO * 2.0).ln() - gamma_ratio(0.5 * all.0 - 1.5).ln();
    let mut one = vec![none];
    let mut two = Vec::new();
    for i in 1..count {
        let (good, bad) = (sums.level(0, i), sums.level(i, count));
        one.push(((1.0 - NONE) * spots[i].mass).ln() + fit(&[good, bad]));
        for j in i + 1..count {
            let (middle, bad) = (sums.level(i, j), sums.level(j, count));
            let seen = good.0.min(middle.0).min(bad.0) >= SEEN;
            let ln_mass = (spots[i].mass * spots[j].mass).ln();
            let (first, second) = (middle.1 - good.1, bad.1 - middle.1);
            if first.abs().min(second.abs()) < SMALL * first.abs().max(second.abs()) {
                continue;
            }
            let back = first * second < 0.0;
            two.push((i, j, back, seen, few + ln_mass + fit(&[good, middle, bad])));
        }
    }
    let evidence = one.iter().chain(two.iter().map(|(.., ln)| ln)).copied();
    let peak = evidence.fold(f64::NEG_INFINITY, f64::max);
    let others: f64 = one.iter().map(|ln| exp_negative(ln - peak)).sum();
    let mut found = Several { places: [vec![0.0; count], vec![0.0; count]], ..Several::default() };
    for (i, j, back, seen, ln) in two {
        let p = exp_negative(ln - peak);
        found.hint += p;
        if !seen {
            continue;
        }
        found.p += p;
        found.places[0][i] += p;
        found.places[1][j] += p;
        found.back += if back { p } else { 0.0 };
    }
    let sum = found.p.max(f64::MIN_POSITIVE);
    found.places.iter_mut().flatten().for_each(|p| *p /= sum);
    found.back /= sum;
    let probability = |weight: f64| {
        let odds = independent * weight / others;
        if weight > ASKED * TWO * others { odds / (1.0 + odds) } else { 0.0 }
    };
    (found.p, found.hint) = (probability(found.p), probability(found.hint));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve spots with four runs each at `level(spot)`, noise of about 1.
    fn spots(level: impl Fn(usize) -> f64) -> (Vec<Spot>, f64) {
        let mut squares = 0.0;
        let spots = (0..12).map(|i| {
            let values =
                [-1.2, -0.3, 0.4, 1.1].map(|v| v + level(i) + 0.1 * ((i * 5 % 7) as f64 - 3.0));
            squares += values.iter().map(|v| v * v).sum::<f64>();
            Spot { mass: 1.0 / 11.0, runs: 4.0, sum: values.iter().sum() }
        });
        (spots.collect(), squares)
    }

    #[test]
    fn two_steps_are_told_from_one_and_one_that_is_taken_back_from_both() {
        let step = |from: usize| move |i: usize| if i >= from { 5.0 } else { 0.0 };
        let (one, squares) = spots(step(6));
        assert!(several(&one, squares, 1e-9, 1.0).p < 0.05);
        let (two, squares) = spots(|i| step(3)(i) + step(8)(i));
        let found = several(&two, squares, 1e-9, 1.0);
        assert!(found.p > 0.999 && found.back < 0.01, "{found:?}");
        assert!(found.places[0][3] > 0.99 && found.places[1][8] > 0.99, "{found:?}");
        let (back, squares) = spots(|i| step(3)(i) - step(8)(i));
        let found = several(&back, squares, 1e-9, 1.0);
        assert!(found.p > 0.999 && found.back > 0.99, "{found:?}");
    }
}
