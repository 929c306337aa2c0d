//! Whether the shift of a build may pass for the step.
//!
//! If each commit has one build, with a layout that shifts all of its runs, the runs of the culprit
//! and of its parent cannot distinguish a step from a shift. Only other commits can: they show how
//! much builds shift. Before a name is returned, the posterior is computed again for builds that
//! shift by any size, weighted by the likelihood of the size.

use super::belief::{Belief, Class, OfSize, Shifted, exp_negative};
use super::grid::Build;
use super::memory::{self, Filter, Fit, Memory, Part, Run, dot, drawn_in};
use super::types::{Config, Layout};

/// Sizes of shifts that are tried, in standard deviations of a run. All but none are equally
/// probable.
const SIZES: [f64; 10] = [0.0, 0.1, 0.15, 0.25, 0.4, 0.65, 1.0, 1.6, 2.5, 4.0];
/// Probability before any data that builds do not shift. A smaller value costs runs if builds do
/// not shift: at effect/noise 2 among 200 commits 54 with 0.9, 60 with 0.7, 67 with 0.5 and 46
/// without the check. A larger one gives wrong names where they do: of 200 histories with shifts of
/// half of that effect 8 with 0.9, 4 with 0.8 and 1 with 0.7.
const NONE: f64 = 0.7;
/// The same where the caller says that they may.
const NONE_IF_TOLD: f64 = 0.1;
/// Shapes of the history other than one step: a ramp, and no change.
const OTHERS: usize = 2;

/// Observations of the second model.
pub(super) struct Values<'a> {
    pub(super) runs: &'a [Run],
    pub(super) ends: [f64; 2],
    /// The least scale of the noise.
    pub(super) floor: f64,
}

/// Products of the whitened columns of builds, one for each, with each other and with the values.
struct Products {
    builds: Vec<Vec<f64>>,
    with_values: Vec<f64>,
    values: f64,
    ln_scale: f64,
}

impl Products {
    fn new(memory: Memory, values: &Values<'_>, builds: usize) -> Self {
        let runs = values.runs;
        let filter = Filter::new(memory, runs, builds);
        let mut states = vec![0.0; builds];
        let mut whiten = |column: &[f64]| {
            let mut into = Vec::with_capacity(runs.len());
            filter.whiten(runs, &mut states, column, &mut into);
            into
        };
        let of_build = |build: usize| -> Vec<f64> {
            runs.iter().map(|run| f64::from(u8::from(run.build == build))).collect()
        };
        let columns: Vec<Vec<f64>> = (0..builds).map(|build| whiten(&of_build(build))).collect();
        let white = whiten(&drawn_in(runs, values.ends));
        Self {
            builds: columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect(),
            with_values: columns.iter().map(|column| dot(column, &white)).collect(),
            values: dot(&white, &white),
            ln_scale: filter.ln_scale,
        }
    }

    /// The same where builds shift by `size`, in standard deviations of a run: with `G` for the
    /// products of builds, `G (1 + size^2 G)^-1` takes its place.
    fn shifted(&self, size: f64) -> Self {
        let square = size * size;
        if square <= 0.0 {
            return Self {
                builds: self.builds.clone(),
                with_values: self.with_values.clone(),
                ..*self
            };
        }
        let unit = |i: usize, j: usize| f64::from(u8::from(i == j));
        let count = self.builds.len();
        let mut inverse = self.builds.clone();
        for (i, row) in inverse.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = unit(i, j) + square * *cell;
            }
        }
        let ln_det = invert(&mut inverse);
        let left = |i: usize, j: usize| (unit(i, j) - inverse[i][j]) / square;
        let with_values: Vec<f64> = inverse.iter().map(|row| dot(row, &self.with_values)).collect();
        Self {
            builds: (0..count).map(|i| (0..count).map(|j| left(i, j)).collect()).collect(),
            values: self.values - square * dot(&self.with_values, &with_values),
            with_values,
            ln_scale: self.ln_scale - 0.5 * ln_det,
        }
    }

    /// Fits of a step at each of `classes`, of a ramp along `depths` and of one level, in this
    /// order.
    fn fits(
        &self,
        config: &Config,
        memory: Memory,
        values: &Values<'_>,
        builds: &[Build],
        classes: &[Class],
        depths: &[f64],
    ) -> Vec<Part> {
        let runs = values.runs.len() as f64;
        let of_levels: Vec<f64> = self.builds.iter().map(|row| row.iter().sum()).collect();
        let fit = Fit {
            memory,
            ln_scale: self.ln_scale,
            runs,
            levels: of_levels.iter().sum(),
            level_value: self.with_values.iter().sum(),
            values: self.values,
            least: values.floor * values.floor * runs,
        };
        let along = |mass: f64, column: &[f64]| {
            let own = self.builds.iter().zip(column).map(|(row, c)| c * dot(row, column)).sum();
            fit.step(config, mass, [dot(&of_levels, column), own, dot(&self.with_values, column)])
        };
        let of_class = |class: &Class| -> Vec<f64> {
            builds.iter().map(|build| f64::from(u8::from(class.bad[build.slot]))).collect()
        };
        let ramp: Vec<f64> = builds.iter().map(|build| depths[build.slot]).collect();
        let steps = classes.iter().map(|class| along(class.mass, &of_class(class)));
        steps.chain([along(memory::RAMP, &ramp), fit.level()]).collect()
    }
}

/// Inverts a symmetric positive matrix in place (Gauss and Jordan); returns `ln` of its
/// determinant.
fn invert(matrix: &mut [Vec<f64>]) -> f64 {
    let mut ln_det = 0.0;
    for i in 0..matrix.len() {
        let pivot = matrix[i][i];
        ln_det += pivot.ln();
        matrix[i][i] = 1.0;
        matrix[i].iter_mut().for_each(|cell| *cell /= pivot);
        let row = matrix[i].clone();
        for (_, other) in matrix.iter_mut().enumerate().filter(|(j, _)| *j != i) {
            let factor = std::mem::take(&mut other[i]);
            other.iter_mut().zip(&row).for_each(|(cell, of)| *cell -= factor * of);
        }
    }
    ln_det
}

/// Returns the posterior if builds may shift by any size, from the posterior `believed` without
/// shifts. Each size changes it by its factor for Gaussian evidence; the actual shape of the noise
/// is in `believed`. What Gaussian evidence excludes without shifts stays so: heavy tails allow for
/// more, which a shift must not multiply.
pub(super) fn posterior(
    config: &Config,
    values: &Values<'_>,
    builds: &[Build],
    classes: &[Class],
    depths: &[f64],
    believed: &[Belief],
) -> Shifted {
    let mut fits: Vec<Vec<Part>> = Vec::new();
    for memory in memory::of_machine() {
        let plain = Products::new(memory, values, builds.len());
        for (i, size) in SIZES.into_iter().enumerate() {
            let products = plain.shifted(size);
            let of_memory = products.fits(config, memory, values, builds, classes, depths);
            match fits.get_mut(i) {
                None => fits.push(of_memory),
                Some(sums) => sums.iter_mut().zip(of_memory).for_each(|(sum, part)| sum.add(part)),
            }
        }
    }
    let steps = classes.len();
    let none = &fits[0][..steps];
    let most = none.iter().map(|part| part.ln_evidence).fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = none.iter().map(|part| exp_negative(part.ln_evidence - most)).sum();
    let all = most + all.ln();
    let mut without: Vec<f64> = none
        .iter()
        .zip(believed)
        .map(|(part, of)| {
            of.p.max(f64::MIN_POSITIVE).ln().min(part.ln_evidence - all) - part.ln_evidence
        })
        .collect();
    without.resize(steps + OTHERS, -all);
    collect(config, fits, &without)
}

/// Mixes the sizes; `without` is added to the evidence of each shape of the history.
fn collect(config: &Config, fits: Vec<Vec<Part>>, without: &[f64]) -> Shifted {
    let none = if config.layout == Layout::PerCommitAny { NONE_IF_TOLD } else { NONE };
    let each = (1.0 - none) / (SIZES.len() - 1) as f64;
    let ln_p = |size: f64, part: &Part, without: &f64| {
        part.ln_evidence + without + if size > 0.0 { each.ln() } else { none.ln() }
    };
    let mut peak = f64::NEG_INFINITY;
    for (size, parts) in SIZES.into_iter().zip(&fits) {
        for (part, without) in parts.iter().zip(without) {
            peak = peak.max(ln_p(size, part, without));
        }
    }
    let mut sizes: Vec<OfSize> = Vec::with_capacity(SIZES.len());
    for (size, parts) in SIZES.into_iter().zip(fits) {
        let weigh = |(part, without): (Part, &f64)| {
            let p = exp_negative(ln_p(size, &part, without) - peak);
            Belief { p, ..part.belief }
        };
        let mut steps: Vec<Belief> = parts.into_iter().zip(without).map(weigh).collect();
        let others = steps.split_off(steps.len() - OTHERS).iter().map(|other| other.p).sum();
        sizes.push(OfSize { size, steps, others });
    }
    let mut classes = vec![0.0; without.len() - OTHERS];
    for size in &sizes {
        for (sum, step) in classes.iter_mut().zip(&size.steps) {
            *sum += step.p;
        }
    }
    let of_steps: f64 = classes.iter().sum();
    for p in &mut classes {
        *p /= of_steps;
    }
    let total = of_steps + sizes.iter().map(|size| size.others).sum::<f64>();
    for size in &mut sizes {
        size.others /= total;
        for step in &mut size.steps {
            step.p /= total;
        }
    }
    Shifted { classes, sizes, in_sight: None }
}
