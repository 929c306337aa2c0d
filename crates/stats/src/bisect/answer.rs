//! The end of a search and its answer.

use super::belief::Belief;
use super::evidence::{Evidence, likely_shape};
use super::grid::Hyper;
use super::policy;
use super::search::{Search, Standing};
use super::types::{Answer, Direction, Ending, Estimates, Interval, Layout, Measure};
use crate::sample::Sample;
use crate::sequential::AlwaysValid;

/// Twice the probability before any data that the ends do not differ: from here on the ends are
/// measured before anything else.
const DOUBT: f64 = 0.2;

/// Runs that find a small effect, for each bit of the choice and times its square in standard
/// deviations: three times `8 ln 2`, the bound at known levels.
const RUNS_OF_SMALL: f64 = 16.6;
/// Confidence with which the difference of the ends is taken for too small to be worth the runs.
const LIKELY: f64 = 0.9;
/// Minimum runs of each end for an interval to show the absence of a difference: a noise with two
/// modes may have shown only one of them.
const SURE_RUNS: usize = 8;
/// Part of the allowed doubt that the models may use up, as no model of the noise is exact. With
/// all of it, 296 of 300 names at 99 % were right in Gaussian noise.
const MARGIN: f64 = 0.5;
/// From this probability of a second step on, the ends are repeated as well before a name.
const HINT: f64 = 0.1;
/// Runs of the culprit and of each of its parents before it is named.
const REPEATS: usize = 4;
/// Minimum builds of them, if each build has a separate shift.
const REBUILDS: usize = 3;
/// Runs of each measured commit after which a doubt about the shape of the history stays.
const ASSURED: usize = 16;

impl Search {
    /// Why the search is over, if it is.
    pub(super) fn ending(&self) -> Option<Ending> {
        let evidence = self.evidence.as_ref()?;
        let wanted = self.config.confidence;
        if evidence.several.p >= wanted {
            let back = evidence.several.back > 0.5;
            let ending = if back { Ending::TakenBack } else { Ending::TwoSteps };
            return self.to_place().is_none().then_some(ending);
        }
        if self.futile_for_shifts() {
            return self.to_narrow().is_none().then_some(Ending::BuildsShift);
        }
        let regression = evidence.one_step();
        let sure = |p: f64| p * regression >= self.named_from();
        if self.sure_culprit().is_some() {
            return match self.standing() {
                _ if self.to_repeat().is_some() || self.to_tell_shifts().is_some() => None,
                _ if self.may_be_a_shift() => Some(Ending::BuildsShift),
                Some(Standing::Wanted(_)) => None,
                Some(Standing::Fails(_)) => Some(Ending::Unexplained),
                Some(Standing::Holds(_)) | None => Some(Ending::Found),
            };
        }
        // A set that only skipped commits could split.
        for (class, belief) in self.classes.iter().zip(&evidence.classes) {
            if sure(belief.p) && !policy::splits(&self.view(evidence), class) {
                return Some(Ending::SkippedRemain);
            }
        }
        if evidence.ramp >= wanted && self.ends_are_seen() {
            return Some(Ending::Ramp);
        }
        if self.doubtful() && self.ends_are_better() {
            return Some(Ending::WrongDirection);
        }
        let nothing = self.level_ends(evidence) && self.to_survey().is_none();
        nothing.then_some(Ending::NoRegression)
    }

    /// Whether the bad end is better than the good one. This is asked after each run, so the means
    /// of both must lie in intervals that are valid at every look and have nothing in common.
    fn ends_are_better(&self) -> bool {
        let confidence = 0.5 + 0.5 * self.config.confidence;
        let rule = AlwaysValid { confidence, ..AlwaysValid::default() };
        let interval = |values: Vec<f64>| rule.interval(&Sample::new(values).ok()?).ok();
        let [Some(good), Some(bad)] = self.end_values().map(interval) else { return false };
        match self.config.direction {
            Direction::Either => false,
            Direction::HigherIsWorse => bad.hi < good.lo,
            Direction::LowerIsWorse => bad.lo > good.hi,
        }
    }

    /// Whether the ends have been run often enough that their difference can be believed.
    fn ends_are_seen(&self) -> bool {
        self.history.ends().into_iter().all(|end| self.runs_of(end) >= SURE_RUNS)
    }

    /// Whether the ends do not differ, or by too little to matter or to be found.
    pub(super) fn level_ends(&self, evidence: &Evidence) -> bool {
        let (effect, half) = self.end_effect(self.config.confidence);
        let level = || self.estimate(evidence).good.mean.abs();
        let least = self.config.min_effect.unwrap_or_else(|| 0.01 * level());
        let most = effect.abs() + half;
        let small = most < least || self.futile(effect.abs() + self.end_effect(LIKELY).1);
        let none = evidence.none.p >= self.config.confidence;
        self.ends_are_seen() && (none || self.doubtful() && small)
    }

    /// The commit that is named if nothing speaks against it.
    pub(super) fn sure_culprit(&self) -> Option<usize> {
        let step = self.evidence.as_ref()?.one_step();
        self.by_node.iter().position(|p| p * step >= self.named_from())
    }

    /// The probability from which on a commit is named.
    pub(super) fn named_from(&self) -> f64 {
        1.0 - MARGIN * (1.0 - self.config.confidence)
    }

    /// What must be run again before the likely culprit is named: it and its parents have been run
    /// [`REPEATS`] times each, one after the other, and built [`REBUILDS`] times if that may shift
    /// them. A single run in a rare mode of the noise, or a single build, can pass for a level;
    /// this many in a row cannot.
    pub(super) fn to_repeat(&self) -> Option<Measure> {
        let evidence = self.evidence.as_ref()?;
        let culprit = self.sure_culprit()?;
        let parents = self.history.parents(culprit).into_iter();
        // Where a second step may be, the ends must have been seen as often.
        let ends = self.history.ends().into_iter().filter(|_| evidence.several.hint > HINT);
        let both = parents.chain([culprit]);
        let open = |node: &usize| !self.skipped[*node];
        let why = "it or its child is likely the culprit: repeated before it is named";
        if self.config.layout == Layout::PerBuild && self.may_build() {
            let builds = |node: usize| self.builds.iter().filter(|of| of.node == node).count();
            let few = both.clone().filter(open).map(|node| (builds(node), node)).min();
            if let Some((_, node)) = few.filter(|(builds, _)| *builds < REBUILDS) {
                let again = policy::again(node, 1, &self.builds, why);
                return Some(Measure { build: None, fresh_build: true, ..again });
            }
        }
        let short = both.chain(ends).filter(open).map(|node| (self.runs_of(node), node)).min()?;
        (short.0 < REPEATS).then(|| policy::again(short.1, 1, &self.builds, why))
    }

    /// What to run where one commit is the culprit if there is one step, and only another shape of
    /// the history keeps it from its name: a small second step that a few runs suggest, say. Then
    /// no run distinguishes commits, but every run of a commit with few runs distinguishes the
    /// shapes.
    pub(super) fn to_assure(&self) -> Option<Measure> {
        let certain = self.by_node.iter().any(|p| *p >= self.named_from());
        let measured = self.nodes.iter().copied().filter(|node| certain && !self.skipped[*node]);
        let (runs, node) = measured.map(|node| (self.runs_of(node), node)).min()?;
        let why = "one commit is left: runs of every level tell whether there is one step only";
        (runs < ASSURED).then(|| policy::again(node, 1, &self.builds, why))
    }

    /// Whether the ends may well not differ: then they are measured until that is clear.
    pub(super) fn doubtful(&self) -> bool {
        self.evidence.as_ref().is_some_and(|evidence| {
            evidence.none.p > DOUBT || evidence.ramp >= self.config.confidence
        })
    }

    /// Whether the runs that are left would not find an effect of `most`.
    fn futile(&self, most: f64) -> bool {
        let Some(runs) = self.config.max_runs else { return false };
        let bits = (self.history.candidates().len() as f64).log2().max(1.0);
        let Some(evidence) = &self.evidence else { return false };
        let (_, noise) = likely_shape(self.grid.as_ref(), evidence);
        let wanted = RUNS_OF_SMALL * bits * (noise / most).powi(2);
        wanted > f64::from(runs.saturating_sub(self.runs))
    }

    /// Returns the difference of the means of the bad and the good end, from their own runs, and
    /// half the width of its interval (Student). Infinite before both have been measured.
    pub(super) fn end_effect(&self, confidence: f64) -> (f64, f64) {
        let [good, bad] = self.end_values().map(|values| moments(&values));
        let freedom = good.2 + bad.2 - 2.0;
        if good.2 < 1.0 || bad.2 < 1.0 || freedom < 1.0 {
            return (0.0, f64::INFINITY);
        }
        let t = crate::student::quantile(0.5 + 0.5 * confidence, freedom);
        let square = (good.1 + bad.1) / freedom;
        let error = square.sqrt() * (1.0 / good.2 + 1.0 / bad.2).sqrt();
        (bad.0 - good.0, t * error)
    }

    pub(super) fn estimate(&self, evidence: &Evidence) -> Estimates {
        let origin = self.origin.unwrap_or(0.0);
        let total: f64 = evidence.classes.iter().map(|belief| belief.p).sum();
        let share = |p: f64| p / total.max(f64::MIN_POSITIVE);
        let mix = |value: &dyn Fn(&Belief) -> (f64, f64)| {
            let (mut first, mut second) = (0.0, 0.0);
            for belief in &evidence.classes {
                let (mean, variance) = value(belief);
                first += share(belief.p) * mean;
                second += share(belief.p) * (variance + mean * mean);
            }
            (first, second - first * first)
        };
        let (good, good_var) = mix(&|b| (b.mean[0], b.variance[0]));
        let (bad, bad_var) = mix(&|b| (b.mean[1], b.variance[1]));
        let (effect, effect_var) = mix(&|b| (b.mean[1] - b.mean[0], b.variance[0] + b.variance[1]));
        let hypers = self.grid.as_ref().map_or(&[][..], |grid| &grid.hypers);
        let weighted = || evidence.hypers.iter().zip(hypers);
        let interval = |value: &dyn Fn(&Hyper) -> f64| {
            let mean: f64 = weighted().map(|(p, hyper)| p * value(hyper)).sum();
            let square: f64 = weighted().map(|(p, hyper)| p * value(hyper).powi(2)).sum();
            let interval = Interval::normal(mean, square - mean * mean);
            Interval { lo: interval.lo.max(0.0), ..interval }
        };
        Estimates {
            good: Interval::normal(good + origin, good_var),
            bad: Interval::normal(bad + origin, bad_var),
            effect: Interval::normal(effect, effect_var),
            noise: interval(&|hyper| hyper.scale),
            layout: shifts(evidence),
        }
    }

    pub(super) fn answer(&self, ending: Ending) -> Answer {
        let evidence = self.evidence.as_ref();
        let none = evidence.map_or(0.0, |evidence| evidence.none.p);
        let ramp = evidence.map_or(0.0, |evidence| evidence.ramp);
        let step = evidence.map_or(1.0, Evidence::one_step);
        let shifted = self.by_node_if_shifted();
        let by_node = shifted.as_ref().unwrap_or(&self.by_node);
        let candidates = self.history.candidates().iter();
        let mut order: Vec<(usize, f64)> =
            candidates.map(|node| (*node, by_node[*node] * step)).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut set = Vec::new();
        let mut sum = 0.0;
        let enough = step * self.config.confidence.min(self.named_from());
        let several = matches!(ending, Ending::TwoSteps | Ending::TakenBack);
        let other = matches!(ending, Ending::NoRegression | Ending::WrongDirection | Ending::Ramp);
        if !several && !other {
            for (node, p) in order {
                if sum >= enough || p < 1e-6 {
                    break;
                }
                sum += p;
                set.push((node, p));
            }
        }
        let (effect, half) = self.end_effect(self.config.confidence);
        let most = effect.abs() + half;
        let unknown = Interval { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN };
        Answer {
            culprit: self.sure_culprit().filter(|_| ending == Ending::Found),
            confidence: match ending {
                Ending::Ramp => ramp,
                _ if several => evidence.map_or(0.0, |evidence| evidence.several.p),
                _ if set.is_empty() => none,
                Ending::Found | Ending::Unexplained => sum.min(1.0 - self.doubt_of_pairs()),
                _ => sum,
            },
            credible_set: set,
            no_regression: none,
            ramp,
            builds_shift: evidence.map_or(0.0, |evidence| evidence.shifted.any()),
            steps: if several { self.steps() } else { Vec::new() },
            largest: most,
            ending,
            estimates: evidence.map_or(
                Estimates {
                    good: unknown,
                    bad: unknown,
                    effect: unknown,
                    noise: unknown,
                    layout: unknown,
                },
                |evidence| self.estimate(evidence),
            ),
        }
    }
}

/// Mean, sum of squares about it, and number.
fn moments(values: &[f64]) -> (f64, f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum(), n)
}

/// Standard deviation of the shifts of builds; 0 where they have none.
fn shifts(evidence: &Evidence) -> Interval {
    let mut of_size: Vec<(f64, f64)> = Vec::new();
    for size in &evidence.shifted.sizes {
        let square = size.size * size.size;
        of_size.extend(size.steps.iter().map(|step| (step.p, step.noise * square)));
    }
    if of_size.is_empty() {
        of_size.extend(evidence.strata.iter().flatten().map(|of| (of.p, of.layout)));
    }
    let total: f64 = of_size.iter().map(|(p, _)| p).sum();
    let moment = |power: f64| of_size.iter().map(|(p, v)| p * v.powf(power)).sum::<f64>() / total;
    let interval = Interval::normal(moment(0.5), moment(1.0) - moment(0.5).powi(2));
    Interval { lo: interval.lo.max(0.0), ..interval }
}
