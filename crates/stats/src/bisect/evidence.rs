//! From the tables of the builds to the probability of each class of culprits.
//!
//! Culprits that make the same measured commits bad explain the data equally well: they are one
//! class. There are about as many classes as measured commits, so the cost does not depend on the
//! length of the history.

use super::belief::{Belief, Class, NONE, Shifted, exp_negative};
use super::grid::{Build, Grid, POINTS};
use super::modes::Fit;
use super::noise::{KINDS, MODES, ONE_MODE, shapes};
use super::several::Several;
use super::types::{Config, Direction};
use crate::normal::cdf as normal_cdf;

/// Hypers with less than this probability are left out until the grid is placed again.
pub(super) const IMPROBABLE: f64 = 1e-6;
/// Parts this far below the best, as a logarithm, are negligible in a sum: thousands of them sum to
/// 1e-4.
const NEGLIGIBLE: f64 = 18.0;

/// One hyper's part in a class.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    ln_evidence: f64,
    mean: [f64; 2],
    variance: [f64; 2],
}

/// The part for points that were not evaluated.
const NOTHING: Part = Part { ln_evidence: f64::NEG_INFINITY, mean: [0.0; 2], variance: [0.0; 2] };

#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// One for each class, in order.
    pub(super) classes: Vec<Belief>,
    /// All commits at one level.
    pub(super) none: Belief,
    /// The same apart for builds without shifts and, if they may have some, with them; the last of
    /// each is `none`. The probabilities are joint: all of both sum to 1.
    pub(super) strata: Vec<Vec<Belief>>,
    /// Probability that runs have nothing in common but the level, as far as that was asked.
    pub(super) independent: f64,
    /// Probability that the level changes little by little.
    pub(super) ramp: f64,
    /// Evidence of two steps.
    pub(super) several: Several,
    /// The posterior if builds may shift by any size; empty if not requested.
    pub(super) shifted: Shifted,
    /// Probability of each hyper, all classes together.
    pub(super) hypers: Vec<f64>,
    /// Posterior centres of each shape: good level, bad level, logarithm of the scale.
    pub(super) centres: [[f64; 3]; ONE_MODE],
}

impl Evidence {
    /// Probability that there is one step, and not none, two or a ramp.
    pub(super) fn one_step(&self) -> f64 {
        (1.0 - self.none.p) * (1.0 - self.ramp) * (1.0 - self.several.p)
    }

    /// Probability that the noise has two modes.
    pub(super) fn modes(&self, grid: &Grid) -> f64 {
        let of = self.hypers.iter().zip(&grid.hypers);
        let sum: f64 = of.filter(|(_, hyper)| hyper.modes.is_some()).map(|(p, _)| p).sum();
        sum.min(1.0)
    }

    /// Returns the probable modes, if the mode of every value is clear.
    pub(super) fn clear_modes(&self, grid: &Grid) -> Option<Fit> {
        let mut of = [0.0; MODES];
        for (p, hyper) in self.hypers.iter().zip(&grid.hypers) {
            if let Some(which) = hyper.shape.checked_sub(ONE_MODE) {
                of[which] += p;
            }
        }
        let best = (0..MODES).max_by(|a, b| of[*a].total_cmp(&of[*b]))?;
        let sure = of.iter().sum::<f64>() > SURE_MODES;
        grid.fits[best].filter(|fit| sure && fit.is_clear())
    }

    /// Returns the belief of a class, or of no class if `class` is their number.
    pub(super) fn belief(&self, class: usize) -> &Belief {
        self.classes.get(class).unwrap_or(&self.none)
    }
}

/// Two modes are taken for granted from this probability on.
const SURE_MODES: f64 = 0.99;
/// `ln` of the sum of exponentials of `row`, mean and variance of the offsets under them.
/// `peak` is the largest of `row`.
fn integrate(row: &[f64], peak: f64, offsets: &[f64]) -> (f64, f64, f64) {
    // In lanes: the compiler keeps the order of a sum, which would leave it one value at a time.
    let mut lanes = [[0.0; LANES]; 3];
    for (values, offsets) in row.chunks(LANES).zip(offsets.chunks(LANES)) {
        let mut weights = [0.0; LANES];
        for (weight, value) in weights.iter_mut().zip(values) {
            *weight = exp_negative(value - peak);
        }
        for (lane, (weight, offset)) in weights.iter().zip(offsets).enumerate() {
            lanes[0][lane] += weight;
            lanes[1][lane] += weight * offset;
            lanes[2][lane] += weight * offset * offset;
        }
    }
    let [sum, first, second] = lanes.map(|lane| lane.iter().sum::<f64>());
    let mean = first / sum;
    (peak + sum.ln(), mean, (second / sum - mean * mean).max(0.0))
}

/// Sums that are kept apart.
const LANES: usize = 4;

fn largest(row: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; LANES];
    for values in row.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// `row += sign * table` for the good (0) or bad (1) level of every hyper.
fn add(sums: &mut [f64], table: &[f64], side: usize, sign: f64) {
    let rows = sums.chunks_exact_mut(POINTS).zip(table.chunks_exact(POINTS));
    for (row, entries) in rows.skip(side).step_by(2) {
        for (sum, entry) in row.iter_mut().zip(entries) {
            *sum += sign * entry;
        }
    }
}

/// The posterior given the tables.
///
/// Culprits near `likely` are evaluated first. Points that are then certain to have less than
/// `e^-NEGLIGIBLE` of the best are skipped: of the best of all, or, if `each_shape`, of the same
/// shape of the noise.
pub(super) fn posterior(
    config: &Config,
    grid: &Grid,
    builds: &[Build],
    classes: &[Class],
    likely: usize,
    each_shape: bool,
) -> Evidence {
    let empty: Vec<f64> = grid
        .hypers
        .iter()
        .flat_map(|hyper| hyper.axes.iter().flat_map(|axis| axis.ln_weights.iter().copied()))
        .collect();
    let count = grid.hypers.len();
    let mut parts = vec![NOTHING; (classes.len() + 1) * count];
    let mut floor = Floor { best: [f64::NEG_INFINITY; KINDS], each_shape };
    let mut sums = empty.clone();
    for build in builds {
        add(&mut sums, &build.table, 0, 1.0);
        add(&mut sums, &build.table, 1, 1.0);
    }
    level(grid, &sums, &mut parts[classes.len() * count..]);
    let mut sums = empty;
    let mut last: Option<&Class> = None;
    let first =
        classes.iter().position(|class| class.members.binary_search(&likely).is_ok()).unwrap_or(0);
    for i in (first..classes.len()).chain((0..first).rev()) {
        let class = &classes[i];
        for build in builds {
            let now = class.bad[build.slot];
            if last.is_none_or(|last| last.bad[build.slot] != now) {
                if last.is_some() {
                    add(&mut sums, &build.table, usize::from(!now), -1.0);
                }
                add(&mut sums, &build.table, usize::from(now), 1.0);
            }
        }
        last = Some(class);
        let parts = &mut parts[i * count..(i + 1) * count];
        differ(config, grid, &sums, class.mass * (1.0 - NONE), &mut floor, parts);
    }
    collect(grid, &parts)
}

/// The largest parts so far, which determine the negligible ones.
struct Floor {
    best: [f64; KINDS],
    each_shape: bool,
}

impl Floor {
    fn below(&self, bound: f64, shape: usize) -> bool {
        let best = if self.each_shape {
            self.best[shape]
        } else {
            self.best.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b))
        };
        bound < best - NEGLIGIBLE
    }
}

/// Each hyper's part if the levels differ.
fn differ(
    config: &Config,
    grid: &Grid,
    sums: &[f64],
    mass: f64,
    floor: &mut Floor,
    parts: &mut [Part],
) {
    let ln_mass = mass.ln();
    let count = (POINTS as f64).ln();
    let rows = sums.chunks_exact(2 * POINTS);
    for ((hyper, row), part) in grid.hypers.iter().zip(rows).zip(parts) {
        let constant = hyper.ln_prior + ln_mass;
        let rows = [&row[..POINTS], &row[POINTS..]];
        let peaks = rows.map(largest);
        // The prior of the effect in units of the noise, 1/4 (1 + |d|)^-1.5, is taken at the
        // effect's mean: next to the likelihood it is flat.
        let constant = constant - (4.0 * hyper.scale).ln();
        let bound = constant + peaks[0] + peaks[1] + 2.0 * count + std::f64::consts::LN_2;
        if floor.below(bound, hyper.shape) {
            continue;
        }
        part.ln_evidence = constant;
        for (side, axis) in hyper.axes.iter().enumerate() {
            let (ln_sum, mean, variance) = integrate(rows[side], peaks[side], &axis.offsets);
            part.ln_evidence += ln_sum;
            part.mean[side] = axis.centre + hyper.scale * mean;
            part.variance[side] = hyper.scale * hyper.scale * variance;
        }
        let effect = part.mean[1] - part.mean[0];
        let d = (effect / hyper.scale).abs();
        part.ln_evidence -= 1.5 * d.ln_1p();
        let z = effect / (part.variance[0] + part.variance[1]).sqrt().max(f64::MIN_POSITIVE);
        part.ln_evidence += one_sided(config.direction, z);
        let best = &mut floor.best[hyper.shape];
        *best = best.max(part.ln_evidence);
    }
}

/// Returns `ln` of the factor by which a known direction changes the evidence for an effect `z`
/// standard errors from 0.
pub(super) fn one_sided(direction: Direction, z: f64) -> f64 {
    match direction {
        Direction::Either => 0.0,
        Direction::HigherIsWorse => (2.0 * normal_cdf(z)).max(1e-300).ln(),
        Direction::LowerIsWorse => (2.0 * normal_cdf(-z)).max(1e-300).ln(),
    }
}

/// Each hyper's part if all commits have one level. Either axis may contain it; the nearer axis
/// resolves it better.
fn level(grid: &Grid, sums: &[f64], parts: &mut [Part]) {
    let rows = sums.chunks_exact(2 * POINTS);
    for ((hyper, row), part) in grid.hypers.iter().zip(rows).zip(parts) {
        let sides = [0, 1].map(|side| {
            let axis = &hyper.axes[side];
            let row = &row[side * POINTS..(side + 1) * POINTS];
            let peak = largest(row);
            let (ln_sum, mean, variance) = integrate(row, peak, &axis.offsets);
            (ln_sum, axis.centre + hyper.scale * mean, hyper.scale * hyper.scale * variance)
        });
        let (ln_sum, mean, variance) = if sides[0].0 >= sides[1].0 { sides[0] } else { sides[1] };
        let ln_evidence = hyper.ln_prior + NONE.ln() + ln_sum;
        *part = Part { ln_evidence, mean: [mean; 2], variance: [variance; 2] };
    }
}

/// Normalises, and mixes the hypers.
fn collect(grid: &Grid, parts: &[Part]) -> Evidence {
    let peak = parts.iter().fold(f64::NEG_INFINITY, |a, part| a.max(part.ln_evidence));
    let weights: Vec<f64> =
        parts.iter().map(|part| exp_negative(part.ln_evidence - peak)).collect();
    let total: f64 = weights.iter().sum();
    let count = grid.hypers.len();
    let mut hypers = vec![0.0; count];
    for weights in weights.chunks_exact(count) {
        for (p, weight) in hypers.iter_mut().zip(weights) {
            *p += weight / total;
        }
    }
    let each = parts.chunks_exact(count).zip(weights.chunks_exact(count));
    let mut classes: Vec<Belief> =
        each.map(|(parts, weights)| mix(grid, parts, weights, total)).collect();
    let strata = vec![classes.clone()];
    let none = classes.pop().unwrap_or_default();
    Evidence {
        classes,
        none,
        strata,
        independent: 1.0,
        ramp: 0.0,
        several: Several::default(),
        shifted: Shifted::default(),
        hypers,
        centres: centres(grid, parts),
    }
}

fn mix(grid: &Grid, parts: &[Part], weights: &[f64], total: f64) -> Belief {
    let of = || {
        let all = grid.hypers.iter().zip(parts.iter().zip(weights));
        all.filter(|(_, (part, _))| part.ln_evidence > f64::NEG_INFINITY)
    };
    let sum: f64 = of().map(|(_, (_, weight))| weight).sum();
    let mut belief = Belief { p: sum / total, ..Belief::default() };
    for (hyper, (part, weight)) in of() {
        let q = weight / sum.max(f64::MIN_POSITIVE);
        let square = hyper.scale * hyper.scale;
        belief.noise += q * square * super::noise::shapes()[hyper.shape].variance;
        for side in 0..2 {
            belief.mean[side] += q * part.mean[side];
            belief.variance[side] += q * (part.variance[side] + part.mean[side] * part.mean[side]);
        }
    }
    for side in 0..2 {
        let square = belief.mean[side] * belief.mean[side];
        belief.variance[side] = (belief.variance[side] - square).max(0.0);
    }
    belief
}

/// Returns the posterior centre of each shape, also of improbable ones.
fn centres(grid: &Grid, parts: &[Part]) -> [[f64; 3]; ONE_MODE] {
    let mut centres = grid.centres.map(|c| [c.levels[0], c.levels[1], c.ln_scale]);
    let last = parts.len() - grid.hypers.len();
    for (shape, centre) in centres.iter_mut().enumerate() {
        let of_shape = || {
            parts[..last]
                .iter()
                .zip(grid.hypers.iter().cycle())
                .filter(move |(_, hyper)| hyper.shape == shape)
        };
        let peak = of_shape().fold(f64::NEG_INFINITY, |a, (part, _)| a.max(part.ln_evidence));
        let (mut sum, mut moments) = (0.0, [0.0; 3]);
        for (part, hyper) in of_shape() {
            let weight = exp_negative(part.ln_evidence - peak);
            sum += weight;
            for (moment, value) in
                moments.iter_mut().zip([part.mean[0], part.mean[1], hyper.scale.ln()])
            {
                *moment += weight * value;
            }
        }
        if sum > 0.0 {
            *centre = moments.map(|moment| moment / sum);
        }
    }
    centres
}

/// The most probable shape of the noise and its mean scale there.
pub(super) fn likely_shape(grid: Option<&Grid>, evidence: &Evidence) -> (usize, f64) {
    let Some(grid) = grid else {
        return (0, 1.0);
    };
    let mut sums = [(0.0, 0.0); KINDS];
    for (p, hyper) in evidence.hypers.iter().zip(&grid.hypers) {
        sums[hyper.shape].0 += p;
        sums[hyper.shape].1 += p * hyper.scale;
    }
    let best = (0..shapes().len()).fold(0, |a, b| if sums[b].0 > sums[a].0 { b } else { a });
    (best, sums[best].1 / sums[best].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_the_exponential() {
        for i in 0..7_000 {
            let x = -f64::from(i) * 0.1;
            assert!((exp_negative(x) / x.exp() - 1.0).abs() < 1e-10, "{x}");
        }
        assert!(exp_negative(f64::NEG_INFINITY) < 1e-300);
    }
}
