//! The values of the unknown parameters over which everything is summed, and each build's
//! likelihood at them.
//!
//! A *hyper* is a shape of the noise and its scale. Given a hyper and a culprit, the good level and
//! the bad level are independent, so two one-dimensional sums replace a two-dimensional one. The
//! points lie where the posterior is: dense at its centre, and so wide that the level of a culprit
//! with few runs on one side is covered too.

use super::modes::{Fit, Modes, SHARES};
use super::noise::{MODES, ONE_MODE, Shape, shapes};

/// Points per level. With spacings of about one posterior standard deviation at the centre the
/// trapezoidal rule errs by less than 1e-4.
pub(super) const POINTS: usize = 20;
/// Points of the scale of the noise, and how they lie in standard deviations of its logarithm. The
/// upper side is longer: the posterior of a scale from few values is skewed.
const SCALES: [f64; 5] = [-2.2, -0.75, 0.7, 2.15, 3.6];
/// Standard deviation, in scales, of a level above the bound of a stopped run before any data.
const ABOVE: f64 = 3.0;

#[derive(Clone, Debug, Default)]
pub(super) struct Build {
    pub(super) id: u64,
    pub(super) node: usize,
    /// Index of the node among the measured ones.
    pub(super) slot: usize,
    pub(super) values: Vec<f64>,
    /// Bounds of the runs that were stopped.
    pub(super) above: Vec<f64>,
    /// Logarithm of the likelihood at each point of the grid; empty if it must be computed.
    pub(super) table: Vec<f64>,
}

impl Build {
    pub(super) fn runs(&self) -> usize {
        self.values.len() + self.above.len()
    }

    /// Robust location of the runs, and how many Gaussian values it is worth.
    pub(super) fn location(&self, shape: &Shape, scale: f64) -> (f64, f64) {
        let all: Vec<f64> = self.values.iter().chain(&self.above).copied().collect();
        let count = all.len() as f64;
        let (at, weight) = location(all, shape, scale);
        (at, weight.min(count) / shape.variance.min(1.2))
    }

    /// Fills [`Build::table`].
    fn fill(&mut self, grid: &Grid) {
        let mut table = vec![0.0; grid.size()];
        for (k, hyper) in grid.hypers.iter().enumerate() {
            let shape = &shapes()[hyper.shape];
            let constant = -(self.values.len() as f64) * hyper.scale.ln();
            let per_scale = 1.0 / hyper.scale;
            for (i, axis) in hyper.axes.iter().enumerate() {
                let from = (2 * k + i) * POINTS;
                let row = &mut table[from..from + POINTS];
                for (entry, offset) in row.iter_mut().zip(&axis.offsets) {
                    let level = axis.centre + hyper.scale * offset;
                    let density = |y: &f64| hyper.ln_density(shape, (y - level) * per_scale);
                    let survival = |y: &f64| {
                        let z = (y - level) * per_scale;
                        // Runs that were stopped say nothing against levels far above; a weak
                        // prior keeps the level near the bound, lest the integral diverge.
                        hyper.ln_survival(shape, z) - 0.5 * (z.min(0.0) / ABOVE).powi(2)
                    };
                    *entry = constant
                        + self.values.iter().map(density).sum::<f64>()
                        + self.above.iter().map(survival).sum::<f64>();
                }
            }
        }
        self.table = table;
    }
}

/// Robust location of `values`, and the sum of their weights there.
pub(super) fn location(mut values: Vec<f64>, shape: &Shape, scale: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let mut at = 0.5 * (values[(values.len() - 1) / 2] + values[values.len() / 2]);
    let mut weight = 1.0;
    if values.len() > 1 {
        for _ in 0..4 {
            let weights = values.iter().map(|value| shape.weight((value - at) / scale));
            let (mut sum, mut moment) = (0.0, 0.0);
            for (w, value) in weights.zip(&values) {
                sum += w;
                moment += w * (value - at);
            }
            at += moment / sum;
            weight = sum;
        }
    }
    (at, weight)
}

/// The points of one level, for one hyper.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) centre: f64,
    /// Distances from the centre, in scales.
    pub(super) offsets: Vec<f64>,
    /// Logarithms of the widths of the points, in units of the value.
    pub(super) ln_weights: Vec<f64>,
}

impl Axis {
    /// Returns points that are `fine` apart at the centre and reach to `wide`, both in scales;
    /// `bend` is the argument of [`bend`].
    fn new(centre: f64, scale: f64, fine: f64, bend: f64) -> Self {
        let half = 0.5 * (POINTS as f64 - 1.0);
        let at = |i: usize| (i as f64 - half) * bend;
        Self {
            centre,
            offsets: (0..POINTS).map(|i| fine / bend * at(i).sinh()).collect(),
            ln_weights: (0..POINTS).map(|i| (fine * scale * at(i).cosh()).ln()).collect(),
        }
    }
}

/// The `b` with which `fine / b sinh(b i)`, for `i` up to half the points, reaches to `wide`.
fn bend(fine: f64, wide: f64) -> f64 {
    let half = 0.5 * (POINTS as f64 - 1.0);
    let (mut lo, mut hi) = (1e-3, 2.0);
    for _ in 0..30 {
        let middle: f64 = 0.5 * (lo + hi);
        if (middle * half).sinh() / middle < wide / fine { lo = middle } else { hi = middle }
    }
    lo
}

/// One combination of shape and scale.
#[derive(Clone, Debug)]
pub(super) struct Hyper {
    pub(super) shape: usize,
    pub(super) scale: f64,
    pub(super) ln_prior: f64,
    /// Good level, bad level.
    pub(super) axes: [Axis; 2],
    /// Two modes, if the noise has them.
    pub(super) modes: Option<Modes>,
}

impl Hyper {
    fn ln_density(&self, shape: &Shape, z: f64) -> f64 {
        self.modes.map_or_else(|| shape.ln_density(z), |modes| modes.ln_density(shape, z))
    }

    fn ln_survival(&self, shape: &Shape, z: f64) -> f64 {
        self.modes.map_or_else(|| shape.ln_survival(z), |modes| modes.ln_survival(shape, z))
    }
}

/// Where the posterior of one shape lies: good level, bad level, logarithm of the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Centre {
    pub(super) levels: [f64; 2],
    pub(super) ln_scale: f64,
}

/// How much data there is, which says how wide the posterior is. Pairs are (good, bad).
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// Expected runs of each side.
    pub(super) runs: [f64; 2],
    /// Runs of the ends alone: the minimum for every culprit.
    pub(super) end_runs: [f64; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) hypers: Vec<Hyper>,
    pub(super) centres: [Centre; ONE_MODE],
    pub(super) fits: [Option<Fit>; MODES],
    /// Spacing of the scales, as logarithm, and of the levels at their centres, in scales.
    pub(super) scale_step: f64,
    pub(super) level_steps: [f64; 2],
}

impl Grid {
    /// A grid about `centres`, and about two modes where they fit.
    pub(super) fn new(
        centres: [Centre; ONE_MODE],
        fits: [Option<Fit>; MODES],
        amount: &Amount,
    ) -> Self {
        let freedom = (amount.runs[0] + amount.runs[1] - 2.0).max(1.0);
        let scale_sd = 1.0 / (2.0 * freedom).sqrt();
        let level_steps = amount.runs.map(|runs| 1.1 / runs.max(1.0).sqrt());
        let mut hypers = Vec::new();
        for (shape, kind) in shapes().iter().enumerate() {
            let fit = shape.checked_sub(ONE_MODE).map(|which| fits[which]);
            let (centre, fit) = match fit {
                None => (centres[shape], None),
                Some(None) => continue,
                Some(Some(fit)) => {
                    (Centre { levels: fit.levels, ln_scale: fit.scale.ln() }, Some(fit))
                }
            };
            let sd = scale_sd * kind.variance.sqrt();
            let spans = [0, 1].map(|side| {
                let wide = 4.5 * (kind.variance / amount.end_runs[side]).sqrt();
                let fine = 1.25 / amount.runs[side].sqrt();
                (fine, bend(fine, wide))
            });
            for offset in SCALES {
                let scale = (centre.ln_scale + offset * sd).exp();
                let axes = [0, 1].map(|side| {
                    let (fine, bend) = spans[side];
                    Axis::new(centre.levels[side], scale, fine, bend)
                });
                // The prior of the scale is flat in its logarithm.
                let ln_prior = (kind.prior * sd).ln();
                let hyper = Hyper { shape, scale, ln_prior, axes, modes: None };
                match fit {
                    None => hypers.push(hyper),
                    Some(fit) => hypers.extend(SHARES.iter().map(|share| Hyper {
                        ln_prior: ln_prior + fit.ln_precision - (SHARES.len() as f64).ln(),
                        modes: Some(Modes { apart: fit.apart / scale, share: *share }),
                        ..hyper.clone()
                    })),
                }
            }
        }
        let scale_step = 1.45 * scale_sd;
        Self { hypers, centres, fits, scale_step, level_steps }
    }

    /// Whether the modes lie where `fits` has them.
    pub(super) fn fits_well(&self, fits: &[Option<Fit>; MODES]) -> bool {
        self.fits.iter().zip(fits).all(|pair| match pair {
            (None, None) => true,
            (Some(a), Some(b)) => {
                let step = a.scale * self.level_steps[0].min(self.level_steps[1]);
                (0..2).all(|side| (a.levels[side] - b.levels[side]).abs() < step)
                    && (a.apart - b.apart).abs() < step
                    && (a.scale / b.scale).ln().abs() < 0.6 * self.scale_step
            }
            _ => false,
        })
    }

    /// Drops the hypers that are not to be kept, also from the tables.
    pub(super) fn keep(&mut self, keep: &[bool], builds: &mut [Build]) {
        let kept = |k: usize| keep[k];
        let row = 2 * POINTS;
        for table in builds.iter_mut().map(|build| &mut build.table) {
            let mut entry = 0;
            table.retain(|_| {
                entry += 1;
                kept((entry - 1) / row)
            });
        }
        let mut hyper = 0;
        self.hypers.retain(|_| {
            hyper += 1;
            kept(hyper - 1)
        });
    }

    /// Entries of a table: hyper, then level (good, bad), then point.
    pub(super) fn size(&self) -> usize {
        2 * self.hypers.len() * POINTS
    }

    /// Computes the tables that are missing.
    pub(super) fn fill(&self, builds: &mut [Build]) {
        for build in builds.iter_mut().filter(|build| build.table.is_empty()) {
            build.fill(self);
        }
    }
}
