//! A second opinion, which assumes no shape of the noise and lets the machine remember.
//!
//! The first model takes runs for independent and learns the shape of their noise. A machine that
//! drifts or has slow phases, builds that differ by their layout, and runs with two speeds break
//! it, and it does not notice. Here the noise is the residual of a least-squares fit, with far
//! values drawn in; bounded noise, whatever its modes, is no worse for it than Gaussian noise of
//! the same variance. Several covariances are tried: none, a state of the machine that fades from
//! run to run, and a shift of each build. Given one, a Kalman filter whitens values and columns,
//! and levels and scale are integrated in closed form.

use super::belief::{Belief, Class, NONE, exp_negative};
use super::evidence::{Evidence, one_sided};
use super::grid::Build;
use super::types::{Config, Layout};

/// One run, in the order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Index of its build.
    pub(super) build: usize,
    pub(super) value: f64,
}

/// Components that runs share in addition to the level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Probability before any data.
    prior: f64,
    /// Decay of the state per run; 1 with a state for each build.
    carry: f64,
    /// Part of the variance of a run that is the state's.
    share: f64,
    /// Whether each build has a separate state.
    of_build: bool,
    /// Standard deviation of a drift at a steady rate, in scales for each run.
    drift: f64,
}

impl Memory {
    const fn machine(prior: f64, carry: f64, share: f64) -> Self {
        Self { prior, carry, share, of_build: false, drift: 0.0 }
    }

    const fn drift(prior: f64, drift: f64) -> Self {
        Self { prior, carry: 0.0, share: 0.0, of_build: false, drift }
    }

    const fn build(prior: f64, share: f64) -> Self {
        Self { prior, carry: 1.0, share, of_build: true, drift: 0.0 }
    }

    /// Whether runs have more in common than the level.
    fn remembers(&self) -> bool {
        self.share > 0.0 || self.drift > 0.0
    }
}

/// The covariances that are tried. The first is the absence of memory. Shifts of builds are
/// improbable until the data ask for them.
const MEMORIES: [Memory; 9] = [
    Memory::machine(0.7, 0.0, 0.0),
    Memory::machine(0.03, 0.5, 0.9),
    Memory::machine(0.03, 0.9, 0.95),
    Memory::machine(0.03, 0.9, 0.5),
    Memory::machine(0.03, 0.99, 0.8),
    Memory::machine(0.03, 0.99, 0.3),
    Memory::drift(0.05, 0.03),
    Memory::build(0.06, 0.2),
    Memory::build(0.04, 0.6),
];

/// Those without shifts of builds.
pub(super) fn of_machine() -> impl Iterator<Item = Memory> {
    MEMORIES.into_iter().filter(|memory| !memory.of_build)
}

/// Probability before any data that a difference of the ends grew little by little.
pub(super) const RAMP: f64 = 0.02;
/// Memory, and shifts of builds, are considered only if the data are this many times as probable
/// with them as without: considering them always would cost a fifth of all runs.
const ASKED: f64 = 3.0;
/// Commits between the ends that must have been measured before a ramp is believed.
const ALONG: usize = 4;
/// Part of the first model in the posterior, if runs are independent.
const FIRST: f64 = 0.5;
/// Values are drawn in to this many times the deviation that 90 % of the runs keep.
const DRAWN_IN: f64 = 1.5;

/// Weights that whiten: `(value - state) * scale`, then `state += gain * (value - state)`.
pub(super) struct Filter {
    memory: Memory,
    steps: Vec<(f64, f64)>,
    pub(super) ln_scale: f64,
    /// How much of the slope over time is taken out of a column.
    slope: f64,
}

impl Filter {
    pub(super) fn new(memory: Memory, runs: &[Run], builds: usize) -> Self {
        let white = 1.0 - memory.share;
        let mut variances = vec![memory.share; if memory.of_build { builds } else { 1 }];
        let fade = memory.carry * memory.carry;
        let mut filter =
            Self { memory, steps: Vec::with_capacity(runs.len()), ln_scale: 0.0, slope: 0.0 };
        for run in runs {
            let variance = &mut variances[if memory.of_build { run.build } else { 0 }];
            let total = *variance + white;
            let gain = *variance / total;
            filter.steps.push((gain, 1.0 / total.sqrt()));
            filter.ln_scale -= 0.5 * total.ln();
            *variance = fade * *variance * (1.0 - gain) + (1.0 - fade) * memory.share;
        }
        if memory.drift > 0.0 {
            // A slope is one more direction of larger variance, 1 + drift^2 times its square sum.
            let sum: f64 = (0..runs.len()).map(|run| time(run, runs.len()).powi(2)).sum();
            let more = 1.0 + memory.drift * memory.drift * sum;
            filter.slope = (1.0 - 1.0 / more.sqrt()) / sum.max(f64::MIN_POSITIVE);
            filter.ln_scale -= 0.5 * more.ln();
        }
        filter
    }

    pub(super) fn whiten(
        &self,
        runs: &[Run],
        states: &mut [f64],
        column: &[f64],
        into: &mut Vec<f64>,
    ) {
        into.clear();
        states.fill(0.0);
        for ((run, value), (gain, scale)) in runs.iter().zip(column).zip(&self.steps) {
            let state = &mut states[if self.memory.of_build { run.build } else { 0 }];
            let ahead = value - *state;
            into.push(ahead * scale);
            *state = self.memory.carry * (*state + gain * ahead);
        }
        if self.slope > 0.0 {
            let n = into.len();
            let along: f64 = into.iter().enumerate().map(|(run, v)| time(run, n) * v).sum();
            for (run, value) in into.iter_mut().enumerate() {
                *value -= self.slope * along * time(run, n);
            }
        }
    }
}

/// When a run was made, from the middle of all.
fn time(run: usize, runs: usize) -> f64 {
    run as f64 - 0.5 * (runs as f64 - 1.0)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the products of a column with the level's column, itself and the values' column.
fn products(effect: &[f64], level: &[f64], value: &[f64]) -> [f64; 3] {
    [dot(level, effect), dot(effect, effect), dot(effect, value)]
}

/// The belief of each class and of no difference (the last), apart for memories without shifts of
/// builds and with them. The probabilities are joint: all of both sum to 1.
#[derive(Clone, Debug)]
pub(super) struct Opinion {
    pub(super) strata: [Vec<Belief>; 2],
    /// Probability that runs have nothing in common but the level.
    pub(super) independent: f64,
    /// Probability that the level changes little by little, not at one commit.
    pub(super) ramp: f64,
}

/// A posterior of one class under one memory.
pub(super) struct Part {
    pub(super) ln_evidence: f64,
    pub(super) belief: Belief,
}

impl Part {
    /// Merges `other`: the evidence is summed, and the belief is the more probable one's.
    pub(super) fn add(&mut self, other: Self) {
        let least = self.ln_evidence.min(other.ln_evidence);
        if other.ln_evidence > self.ln_evidence {
            *self = other;
        }
        self.ln_evidence += exp_negative(least - self.ln_evidence).ln_1p();
    }
}

/// Asks for the opinion on `runs`. `floor` is the least scale of the noise.
pub(super) fn opinion(
    config: &Config,
    runs: &[Run],
    ends: [f64; 2],
    builds: &[Build],
    classes: &[Class],
    depths: &[f64],
    floor: f64,
) -> Opinion {
    let values = drawn_in(runs, ends);
    let ones = vec![1.0; runs.len()];
    let mut states = vec![0.0; builds.len()];
    let (mut level, mut effect, mut value) = (Vec::new(), Vec::new(), Vec::new());
    let mut column = Vec::with_capacity(runs.len());
    let count = if config.layout == Layout::None { 7 } else { MEMORIES.len() };
    let mut ramp = Vec::with_capacity(count);
    let mut parts = Vec::with_capacity(count * (classes.len() + 1));
    for memory in &MEMORIES[..count] {
        let filter = Filter::new(*memory, runs, builds.len());
        filter.whiten(runs, &mut states, &ones, &mut level);
        filter.whiten(runs, &mut states, &values, &mut value);
        let fit = Fit::new(&filter, &level, &value, floor);
        for class in classes {
            column.clear();
            column.extend(runs.iter().map(|run| f64::from(class.bad[builds[run.build].slot])));
            filter.whiten(runs, &mut states, &column, &mut effect);
            parts.push(fit.step(config, class.mass, products(&effect, &level, &value)));
        }
        parts.push(fit.level());
        column.clear();
        column.extend(runs.iter().map(|run| depths[builds[run.build].slot]));
        filter.whiten(runs, &mut states, &column, &mut effect);
        if depths.len() >= ALONG + 2 {
            ramp.push(fit.step(config, RAMP, products(&effect, &level, &value)).ln_evidence);
        }
        if parts.iter().any(|part| part.belief.noise <= 2.0 * floor * floor) {
            break; // What is left is rounding, in which no memory can be seen.
        }
    }
    collect(&ramp, &parts, classes.len() + 1)
}

/// Returns the residuals of `runs` under the best covariance, whitened, if `class` contains the
/// culprit: independent and of equal size if it is right.
pub(super) fn residuals(
    config: &Config,
    runs: &[Run],
    ends: [f64; 2],
    builds: &[Build],
    class: &Class,
    floor: f64,
) -> Vec<f64> {
    let values = drawn_in(runs, ends);
    let ones = vec![1.0; runs.len()];
    let bad = |run: &Run| f64::from(class.bad[builds[run.build].slot]);
    let column: Vec<f64> = runs.iter().map(bad).collect();
    let mut states = vec![0.0; builds.len()];
    let (mut level, mut effect, mut value) = (Vec::new(), Vec::new(), Vec::new());
    let mut best = (f64::NEG_INFINITY, Vec::new());
    for memory in &MEMORIES {
        let filter = Filter::new(*memory, runs, builds.len());
        filter.whiten(runs, &mut states, &ones, &mut level);
        filter.whiten(runs, &mut states, &values, &mut value);
        filter.whiten(runs, &mut states, &column, &mut effect);
        let products = products(&effect, &level, &value);
        let Part { ln_evidence, belief } =
            Fit::new(&filter, &level, &value, floor).step(config, class.mass, products);
        if ln_evidence > best.0 {
            let [good, bad] = belief.mean;
            let columns = value.iter().zip(level.iter().zip(&effect));
            best =
                (ln_evidence, columns.map(|(v, (l, e))| v - good * l - (bad - good) * e).collect());
        }
    }
    best.1
}

/// The values, far ones drawn in: no value lies further beyond both levels than is usual.
pub(super) fn drawn_in(runs: &[Run], ends: [f64; 2]) -> Vec<f64> {
    let [low, high] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
    let mut off: Vec<f64> =
        runs.iter().map(|run| (run.value - low).abs().min((run.value - high).abs())).collect();
    off.sort_by(f64::total_cmp);
    let most = DRAWN_IN * off[(off.len() * 9 / 10).min(off.len() - 1)];
    runs.iter().map(|run| run.value.clamp(low - most, high + most)).collect()
}

/// Fits of whitened values, from the products of their columns.
pub(super) struct Fit {
    pub(super) memory: Memory,
    pub(super) ln_scale: f64,
    pub(super) runs: f64,
    /// Products of the column of the level with itself and the values, and of the values.
    pub(super) levels: f64,
    pub(super) level_value: f64,
    pub(super) values: f64,
    /// Sum of squares below which noise is rounding.
    pub(super) least: f64,
}

impl Fit {
    fn new(filter: &Filter, level: &[f64], value: &[f64], floor: f64) -> Self {
        Self {
            memory: filter.memory,
            ln_scale: filter.ln_scale,
            runs: value.len() as f64,
            levels: dot(level, level),
            level_value: dot(level, value),
            values: dot(value, value),
            least: floor * floor * value.len() as f64,
        }
    }

    /// `ln` of the integral over the scale, without a factor that is common to all steps.
    fn ln_scale_integral(rest: f64, freedom: f64) -> f64 {
        -0.5 * freedom * (std::f64::consts::PI * rest).ln()
    }

    /// The noise with its parts, as a belief without levels.
    fn noise(&self, square: f64) -> Belief {
        let memory = self.memory;
        let layout = if memory.of_build { square * memory.share } else { 0.0 };
        Belief { noise: square - layout, layout, ..Belief::default() }
    }

    pub(super) fn level(&self) -> Part {
        let n = self.runs;
        let mean = self.level_value / self.levels;
        let rest = (self.values - mean * self.level_value).max(self.least);
        let square = rest / (n - 1.0);
        let ln_evidence = Self::ln_scale_integral(rest, n - 1.0) + self.ln_scale
            - 0.5 * self.levels.ln()
            + crate::student::gamma_ratio(0.5 * n - 1.0).ln()
            + (self.memory.prior * NONE).ln();
        let variance = [square / self.levels; 2];
        Part { ln_evidence, belief: Belief { mean: [mean; 2], variance, ..self.noise(square) } }
    }

    /// Fits a step, from the products of the whitened column of the bad runs with the columns of
    /// the level, itself and the values.
    pub(super) fn step(&self, config: &Config, mass: f64, [cross, bad, value]: [f64; 3]) -> Part {
        let n = self.runs;
        let own = bad - cross * cross / self.levels;
        if own <= 1e-9 {
            // All runs on one side: the data say nothing of an effect.
            let part = self.level();
            let ln_evidence = part.ln_evidence + (mass * (1.0 - NONE) / NONE).ln();
            return Part { ln_evidence, ..part };
        }
        let slope = (value - cross * self.level_value / self.levels) / own;
        let good = (self.level_value - cross * slope) / self.levels;
        let one_level = self.values - self.level_value * self.level_value / self.levels;
        let rest = (one_level - slope * slope * own).max(self.least);
        let square = rest / (n - 2.0);
        let prior = 0.25 / square.sqrt() * (1.0 + (slope * slope / square).sqrt()).powf(-1.5);
        let error = square / own;
        let ln_evidence = Self::ln_scale_integral(rest, n - 2.0) + self.ln_scale
            - 0.5 * (self.levels * own).ln()
            + (self.memory.prior * mass * (1.0 - NONE) * prior).ln()
            + one_sided(config.direction, slope / error.sqrt());
        let of_level = square / self.levels;
        let part = cross / self.levels;
        let variance = [of_level + part * part * error, of_level + (1.0 - part).powi(2) * error];
        let belief = Belief { mean: [good, good + slope], variance, ..self.noise(square) };
        Part { ln_evidence, belief }
    }
}

/// Mixes the memories; `count` parts for each.
fn collect(ramp: &[f64], parts: &[Part], count: usize) -> Opinion {
    let all = parts.iter().map(|part| part.ln_evidence).chain(ramp.iter().copied());
    let peak = all.fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> =
        parts.iter().map(|part| exp_negative(part.ln_evidence - peak)).collect();
    for unasked in unasked(&weights, count) {
        weights[unasked * count..(unasked + 1) * count].fill(0.0);
    }
    let total: f64 = weights.iter().sum();
    let strata = [false, true].map(|of_build| {
        let of_class = |class: usize| {
            let mut mixed = Mixture::default();
            for (memory, kind) in MEMORIES.iter().enumerate() {
                let at = memory * count + class;
                if kind.of_build == of_build && at < parts.len() {
                    mixed.add(weights[at] / total, &parts[at].belief);
                }
            }
            mixed.belief()
        };
        (0..count).map(of_class).collect()
    });
    let independent = weights[..count].iter().sum::<f64>() / total;
    let ramp: f64 = ramp.iter().map(|part| exp_negative(part - peak)).sum();
    let asked = ramp > ASKED * RAMP * total;
    let ramp = if asked { ramp / (ramp + total) } else { 0.0 };
    Opinion { strata, independent, ramp }
}

/// Returns the memories that the data do not support; memories of builds and of the machine support
/// each other.
fn unasked(weights: &[f64], count: usize) -> Vec<usize> {
    let sums: Vec<f64> = weights.chunks_exact(count).map(|of| of.iter().sum()).collect();
    let evidence = |wanted: &dyn Fn(&Memory) -> bool| {
        let of = MEMORIES.iter().zip(&sums).filter(|(memory, _)| wanted(memory));
        let (prior, sum) = of.fold((0.0, 0.0), |(p, s), (memory, sum)| (p + memory.prior, s + sum));
        sum / f64::max(prior, f64::MIN_POSITIVE)
    };
    let none = sums[0] / MEMORIES[0].prior;
    let asked = [false, true]
        .map(|of_build| evidence(&|m| m.remembers() && m.of_build == of_build) > ASKED * none);
    (1..sums.len()).filter(|i| !asked[usize::from(MEMORIES[*i].of_build)]).collect()
}

/// Sums of what several beliefs say.
#[derive(Default)]
struct Mixture(Belief);

impl Mixture {
    fn add(&mut self, p: f64, belief: &Belief) {
        let sum = &mut self.0;
        sum.p += p;
        sum.noise += p * belief.noise;
        sum.layout += p * belief.layout;
        for side in 0..2 {
            let mean = belief.mean[side];
            sum.mean[side] += p * mean;
            sum.variance[side] += p * (belief.variance[side] + mean * mean);
        }
    }

    fn belief(self) -> Belief {
        let mut of = self.0;
        let p = of.p.max(f64::MIN_POSITIVE);
        of.noise /= p;
        of.layout /= p;
        for side in 0..2 {
            of.mean[side] /= p;
            let square = of.mean[side] * of.mean[side];
            of.variance[side] = (of.variance[side] / p - square).max(0.0);
        }
        of
    }
}

/// Mixes the opinion into `evidence`, with the weight `FIRST`, or entirely if the noise has two
/// `modes`, where runs are independent.
pub(super) fn mix(evidence: &mut Evidence, opinion: &Opinion, modes: f64) {
    let weight = (FIRST + (1.0 - FIRST) * modes) * opinion.independent;
    let last = evidence.classes.len();
    let first = |class: usize| evidence.belief(class);
    let strata = [weight, 0.0].into_iter().zip(&opinion.strata).map(|(of_first, beliefs)| {
        let of_class = |class: usize| {
            let mut mixed = Mixture::default();
            mixed.add(of_first * first(class).p, first(class));
            mixed.add((1.0 - weight) * beliefs[class].p, &beliefs[class]);
            mixed.belief()
        };
        (0..=last).map(of_class).collect::<Vec<Belief>>()
    });
    let strata: Vec<Vec<Belief>> = strata.collect();
    let both = |class: usize| {
        let mut mixed = Mixture::default();
        for beliefs in &strata {
            mixed.add(beliefs[class].p, &beliefs[class]);
        }
        mixed.belief()
    };
    evidence.classes = (0..last).map(both).collect();
    evidence.none = both(last);
    evidence.strata = strata;
    evidence.independent = opinion.independent;
    evidence.ramp = opinion.ramp * (1.0 - modes * opinion.independent);
}
