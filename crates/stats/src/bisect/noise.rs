//! The shapes of noise that the search considers, as tables of logarithms.
//!
//! Three shapes of unit scale: almost Gaussian; Gaussian with 10 % of outliers; Student t with
//! three degrees of freedom. The first two have Cauchy tails, so that no single value, however far
//! out, decides between two levels. Which of the three it is, the data say.

use std::sync::OnceLock;

/// Kinds of noise with one mode, with two, and all.
pub(super) const ONE_MODE: usize = 3;
pub(super) const MODES: usize = 3;
pub(super) const KINDS: usize = ONE_MODE + MODES;
/// Density of the standard normal distribution at 0.
const NORMAL: f64 = 0.398_942_280_401_432_7;
/// Share and scale of the outliers of the first two shapes, in scales of the core. The second pair,
/// and the probabilities of the shapes, were chosen on simulated histories with 5 % of outliers as
/// large as the effect: with (0.06, 5) at 0.25 a stated 99 % was really 98.2 %.
const OUTLIERS: [(f64, f64); 2] = [(0.003, 5.0), (0.1, 6.0)];
/// The tables end here, in scales; beyond, the tails are powers.
const REACH: f64 = 40.0;
/// Table entries per scale. Linear interpolation errs by at most 1/8 of its inverse square.
const STEPS: f64 = 128.0;

#[derive(Debug)]
pub(super) struct Shape {
    /// Probability before any data.
    pub(super) prior: f64,
    /// Variance of the Gaussian that carries as much information, in squared scales.
    pub(super) variance: f64,
    /// `ln f(z)` for `z` from 0 to [`REACH`].
    density: Vec<f64>,
    /// `ln P(Z > z)` for `z` from `-REACH` to [`REACH`].
    survival: Vec<f64>,
    /// The density falls with this power.
    power: f64,
    index: usize,
}

fn density(index: usize, z: f64) -> f64 {
    if index < OUTLIERS.len() {
        let (share, scale) = OUTLIERS[index];
        let far = z / scale;
        (1.0 - share) * NORMAL * (-0.5 * z * z).exp()
            + share / (std::f64::consts::PI * scale * (1.0 + far * far))
    } else {
        let one = 1.0 + z * z / 3.0;
        0.367_552_596_947_861_4 / (one * one)
    }
}

impl Shape {
    fn new(index: usize, prior: f64, variance: f64) -> Self {
        let power = if index < OUTLIERS.len() { 2.0 } else { 4.0 };
        let steps = (REACH * STEPS) as usize;
        let ln = |i: usize| density(index, i as f64 / STEPS).ln();
        let density_table: Vec<f64> = (0..=steps + 1).map(ln).collect();
        let mut above = density(index, REACH) * REACH / (power - 1.0);
        let mut survival = vec![above.ln()];
        for i in (0..2 * steps).rev() {
            let z = i as f64 / STEPS - REACH;
            above += 0.5 * (density(index, z) + density(index, z + 1.0 / STEPS)) / STEPS;
            survival.push(above.min(1.0).ln());
        }
        survival.reverse();
        survival.push(survival[survival.len() - 1]);
        Self { prior, variance, density: density_table, survival, power, index }
    }

    /// `ln f(z)`.
    #[inline]
    pub(super) fn ln_density(&self, z: f64) -> f64 {
        let at = z.abs() * STEPS;
        if at < REACH * STEPS {
            let i = at as usize;
            let low = self.density[i];
            low + (at - i as f64) * (self.density[i + 1] - low)
        } else {
            self.density[(REACH * STEPS) as usize] - self.power * (at / (REACH * STEPS)).ln()
        }
    }

    /// `ln P(Z > z)`: the likelihood of a run that was stopped at `z`.
    pub(super) fn ln_survival(&self, z: f64) -> f64 {
        let at = (z + REACH) * STEPS;
        if at < 0.0 {
            0.0
        } else if z < REACH {
            let i = at as usize;
            let low = self.survival[i];
            low + (at - i as f64) * (self.survival[i + 1] - low)
        } else {
            self.survival[(2.0 * REACH * STEPS) as usize] - (self.power - 1.0) * (z / REACH).ln()
        }
    }

    /// Weight of a value in the estimate of a location, `-f'(z) / (z f(z))`.
    pub(super) fn weight(&self, z: f64) -> f64 {
        if self.index < OUTLIERS.len() {
            let (share, scale) = OUTLIERS[self.index];
            let core = (1.0 - share) * NORMAL * (-0.5 * z * z).exp();
            let one = 1.0 + z * z / (scale * scale);
            let tail = share / (std::f64::consts::PI * scale * one);
            (core + tail * 2.0 / (scale * scale * one)) / (core + tail)
        } else {
            4.0 / (3.0 + z * z)
        }
    }
}

pub(super) fn shapes() -> &'static [Shape; KINDS] {
    static SHAPES: OnceLock<[Shape; KINDS]> = OnceLock::new();
    SHAPES.get_or_init(|| {
        [
            Shape::new(0, 0.25, 1.0),
            Shape::new(1, 0.4, 1.12),
            Shape::new(2, 0.2, 1.5),
            Shape::new(0, 0.05, 1.0),
            Shape::new(0, 0.05, 1.0),
            Shape::new(0, 0.05, 1.0),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_and_survivals_are_normalised_and_consistent() {
        for shape in shapes() {
            let total: f64 =
                (-400_000..400_000).map(|i| shape.ln_density(i as f64 * 0.01).exp() * 0.01).sum();
            assert!((total - 1.0).abs() < 3e-3, "{total}");
            assert!((shape.ln_survival(0.0).exp() - 0.5).abs() < 1e-3);
            let between = shape.ln_survival(1.0).exp() - shape.ln_survival(1.01).exp();
            assert!((between - shape.ln_density(1.005).exp() * 0.01).abs() < 1e-6);
            assert!(shape.ln_survival(-1e9).abs() < 1e-12);
            assert!(shape.ln_survival(1e9) < shape.ln_survival(100.0));
        }
    }

    #[test]
    fn the_weight_is_the_slope_of_the_density() {
        for shape in shapes() {
            for z in [0.5_f64, 1.7, 4.2, 9.0] {
                let slope = (density(shape.index, z + 1e-5).ln()
                    - density(shape.index, z - 1e-5).ln())
                    / 2e-5;
                assert!((shape.weight(z) + slope / z).abs() < 1e-6, "{z}");
            }
        }
    }
}
