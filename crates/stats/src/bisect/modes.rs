//! Noise with two modes: a run is slow with some probability, by always the same amount.
//!
//! How far the modes lie apart is fitted, with its precision; the share of the slow runs and the
//! scale within a mode are summed over. There are three fits: of all runs about one level, where an
//! observed step is an accident of the modes; of the runs of the likely sides so far; and of sides
//! that follow from the modes themselves.

use super::noise::Shape;

/// Shares of the slow runs that are considered.
pub(super) const SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// Modes less than this many scales apart are left to the shapes with one mode: the halves of
/// Gaussian noise are 2.65 apart, of uniform noise 3.46.
const APART: f64 = 3.6;
/// Before any data the logarithm of the distance, in scales, is uniform over this range.
const RANGE: f64 = 4.0;
/// Modes are clear if the modes of different sides are this many scales apart.
const CLEAR: f64 = 6.0;
/// Candidates for the level of a side.
const CANDIDATES: usize = 64;

/// The noise of one scale, twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Modes {
    /// Distance of the upper mode, in scales.
    pub(super) apart: f64,
    /// Share of the upper mode.
    pub(super) share: f64,
}

impl Modes {
    /// `ln f(z)`, `z` from the lower mode.
    pub(super) fn ln_density(&self, shape: &Shape, z: f64) -> f64 {
        let low = (1.0 - self.share).ln() + shape.ln_density(z);
        let high = self.share.ln() + shape.ln_density(z - self.apart);
        let far = (low - high).abs();
        low.max(high) + if far < 30.0 { (-far).exp().ln_1p() } else { 0.0 }
    }

    /// `ln P(Z > z)`.
    pub(super) fn ln_survival(&self, shape: &Shape, z: f64) -> f64 {
        let low = shape.ln_survival(z).exp();
        let high = shape.ln_survival(z - self.apart).exp();
        ((1.0 - self.share) * low + self.share * high).max(f64::MIN_POSITIVE).ln()
    }
}

/// Where two modes lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    /// Lower modes of the good and of the bad side.
    pub(super) levels: [f64; 2],
    /// Distance of the upper modes.
    pub(super) apart: f64,
    /// Standard deviation within a mode.
    pub(super) scale: f64,
    /// `ln` of the part of the range of the distance that the data leave.
    pub(super) ln_precision: f64,
}

impl Fit {
    /// With the bad side elsewhere.
    pub(super) fn bad_moved(self, by: f64) -> Self {
        Self { levels: [self.levels[0], self.levels[1] + by], ..self }
    }

    /// Returns whether the mode of every value is clear, whatever its side.
    pub(super) fn is_clear(&self) -> bool {
        self.apart - (self.levels[1] - self.levels[0]).abs() > CLEAR * self.scale
    }

    /// `value` without what its mode adds, if that is clear.
    pub(super) fn lower(&self, value: f64) -> f64 {
        let middle = 0.5 * (self.levels[0] + self.levels[1] + self.apart);
        if value > middle { value - self.apart } else { value }
    }

    /// Returns the side with modes nearer to `values`.
    pub(super) fn nearer(&self, values: &[f64]) -> usize {
        let off = self.levels.map(|level| distance(values, level, self.apart));
        usize::from(off[1] < off[0])
    }
}

/// How far `values` are from the nearer of two modes, in sum.
fn distance(values: &[f64], level: f64, apart: f64) -> f64 {
    values.iter().map(|v| (v - level).abs().min((v - level - apart).abs())).sum()
}

/// Fits two modes to the values of each side; `None` if there are too few or one mode will do.
/// A side without values has the level of the other.
pub(super) fn fit(sides: &[Vec<f64>; 2], floor: f64) -> Option<Fit> {
    let main = usize::from(sides[1].len() > sides[0].len());
    let count = (sides[0].len() + sides[1].len()) as f64;
    if count < 4.0 {
        return None;
    }
    let (low, high) = halves(&sides[main])?;
    let mut levels = [low; 2];
    let mut apart = high - low;
    let other = &sides[1 - main];
    if !other.is_empty() {
        levels[1 - main] = level(other, apart);
    }
    let (mut squares, mut slow) = (0.0, 0.0);
    for _ in 0..6 {
        let upper = |side: usize, value: f64| value - levels[side] > 0.5 * apart;
        let (mut sum, mut next) = (0.0, levels);
        (squares, slow) = (0.0, 0.0);
        for (side, values) in sides.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
            let moved = values.iter().map(|v| if upper(side, *v) { v - apart } else { *v });
            next[side] = moved.sum::<f64>() / values.len() as f64;
            for value in values {
                let up = upper(side, *value);
                let off = value - next[side] - if up { apart } else { 0.0 };
                squares += off * off;
                if up {
                    sum += off;
                    slow += 1.0;
                }
            }
        }
        levels = next;
        apart += sum / f64::max(slow, 1.0);
    }
    let scale = (squares / (count - 3.0)).sqrt().max(floor);
    let few = slow.min(count - slow);
    if few < 1.0 || apart < APART * scale {
        return None;
    }
    let error = scale / apart * (1.0 / slow + 1.0 / (count - slow)).sqrt();
    let ln_precision = ((std::f64::consts::TAU.sqrt() * error).min(1.0) / RANGE).ln();
    Some(Fit { levels, apart, scale, ln_precision })
}

/// Means of the two parts of `values` that differ least within.
fn halves(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (all, count) = (sorted.iter().sum::<f64>(), sorted.len() as f64);
    let (mut below, mut best) = (0.0, (f64::NEG_INFINITY, None));
    for (i, value) in sorted.iter().enumerate().take(sorted.len().saturating_sub(1)) {
        below += value;
        let n = i as f64 + 1.0;
        let means = (below / n, (all - below) / (count - n));
        let between = n * (count - n) * (means.1 - means.0).powi(2);
        if between > best.0 {
            best = (between, Some(means));
        }
    }
    best.1
}

/// The lower of two modes that lie `apart`, to which the values are nearest.
fn level(values: &[f64], apart: f64) -> f64 {
    let every = values.len().div_ceil(CANDIDATES);
    let candidates = values.iter().step_by(every).flat_map(|value| [*value, value - apart]);
    let best = candidates
        .map(|level| (distance(values, level, apart), level))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(0.0, |(_, level)| level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::noise::shapes;

    #[test]
    fn two_modes_are_found_and_one_is_not() {
        let within = |i: usize| 0.1 * ((i * 7 % 11) as f64 - 5.0) / 5.0;
        let side = |level: f64| -> Vec<f64> {
            (0..20).map(|i| level + within(i) + if i % 3 == 0 { 5.0 } else { 0.0 }).collect()
        };
        let found = fit(&[side(10.0), side(12.0)], 1e-9).unwrap();
        assert!((found.apart - 5.0).abs() < 0.1, "{found:?}");
        assert!((found.levels[1] - found.levels[0] - 2.0).abs() < 0.1, "{found:?}");
        assert!((0.03..0.1).contains(&found.scale), "{found:?}");
        let even: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(fit(&[even.clone(), even], 1e-9), None);
    }

    #[test]
    fn the_density_is_normalised() {
        let modes = Modes { apart: 7.0, share: 0.3 };
        let sum: f64 = (-400_000..400_000)
            .map(|i| modes.ln_density(&shapes()[0], f64::from(i) * 0.01).exp() * 0.01)
            .sum();
        assert!((sum - 1.0).abs() < 3e-3, "{sum}");
        assert!((modes.ln_survival(&shapes()[0], 3.5).exp() - 0.3).abs() < 2e-3);
    }
}
