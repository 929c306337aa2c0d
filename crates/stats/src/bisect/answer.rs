//! When a search is over, and what it then says.

use super::evidence::{Belief, Evidence};
use super::grid::{Grid, Hyper};
use super::noise::shapes;
use super::policy;
use super::search::Search;
use super::types::{Answer, Direction, Ending, Estimates, Interval};

/// Twice the probability before any data that the ends do not differ: from here on the ends are
/// measured before anything else.
const DOUBT: f64 = 0.2;

impl Search {
    /// Why the search is over, if it is.
    pub(super) fn ending(&self) -> Option<Ending> {
        let evidence = self.evidence.as_ref()?;
        let wanted = self.config.confidence;
        let none = evidence.none.p;
        let regression = 1.0 - none;
        let sure = |p: f64| p * regression >= wanted;
        if self.by_node.iter().any(|p| sure(*p)) {
            return Some(Ending::Found);
        }
        // A set that only skipped commits could split.
        for (class, belief) in self.classes.iter().zip(&evidence.classes) {
            if belief.p >= wanted && !policy::splits(&self.view(evidence), class) {
                return Some(Ending::SkippedRemain);
            }
        }
        let estimates = self.estimate(evidence);
        if none >= wanted {
            return Some(self.no_regression_or_wrong(&estimates));
        }
        if self.doubtful() {
            let least = self.config.min_effect.unwrap_or(0.01 * estimates.good.mean.abs());
            let (effect, variance) = self.end_effect(evidence);
            let half = self.normal_half_width() * variance.sqrt();
            if effect.abs() + half < least {
                return Some(Ending::NoRegression);
            }
            if self.no_regression_or_wrong(&estimates) == Ending::WrongDirection {
                return Some(Ending::WrongDirection);
            }
        }
        None
    }

    /// Whether the ends may well not differ: then they are measured until that is clear.
    pub(super) fn doubtful(&self) -> bool {
        self.evidence.as_ref().is_some_and(|evidence| evidence.none.p > DOUBT)
    }

    /// Bad end less good end from their own runs, and its variance.
    fn end_effect(&self, evidence: &Evidence) -> (f64, f64) {
        let (shape, scale) = likely_shape(self.grid.as_ref(), evidence);
        let shape = &shapes()[shape];
        let level = |end: usize| {
            let (mut sum, mut total) = (0.0, 0.0);
            for build in self.builds.iter().filter(|build| build.node == end) {
                let (at, worth) = build.location(shape, scale);
                let weight = 1.0 / (scale * scale / worth + evidence.none.layout);
                sum += weight * at;
                total += weight;
            }
            (sum / total, 1.0 / total)
        };
        let (good, bad) = (level(self.history.good()), level(self.history.bad()));
        (bad.0 - good.0, good.1 + bad.1)
    }

    /// Half the width of the normal interval of the wanted confidence, in standard deviations.
    fn normal_half_width(&self) -> f64 {
        crate::normal::quantile(0.5 + 0.5 * self.config.confidence)
    }

    fn no_regression_or_wrong(&self, estimates: &Estimates) -> Ending {
        use Direction::{Either, HigherIsWorse, LowerIsWorse};
        let wrong = match self.config.direction {
            Either => false,
            HigherIsWorse => estimates.effect.hi < 0.0,
            LowerIsWorse => estimates.effect.lo > 0.0,
        };
        if wrong { Ending::WrongDirection } else { Ending::NoRegression }
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
            layout: interval(&|hyper| hyper.scale * hyper.ratio),
            heavy_tails: weighted().filter(|(_, h)| h.shape > 0).map(|(p, _)| p).sum(),
        }
    }

    pub(super) fn answer(&self, ending: Ending) -> Answer {
        let evidence = self.evidence.as_ref();
        let none = evidence.map_or(0.0, |evidence| evidence.none.p);
        let mut order: Vec<(usize, f64)> = self
            .history
            .candidates()
            .iter()
            .map(|node| (*node, self.by_node[*node] * (1.0 - none)))
            .collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut set = Vec::new();
        let mut sum = 0.0;
        if !matches!(ending, Ending::NoRegression | Ending::WrongDirection) {
            for (node, p) in order {
                if sum >= self.config.confidence || p < 1e-6 {
                    break;
                }
                sum += p;
                set.push((node, p));
            }
        }
        let unknown = Interval { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN };
        Answer {
            culprit: (ending == Ending::Found).then(|| set[0].0),
            confidence: if set.is_empty() { none } else { sum },
            credible_set: set,
            no_regression: none,
            ending,
            estimates: evidence.map_or(
                Estimates {
                    good: unknown,
                    bad: unknown,
                    effect: unknown,
                    noise: unknown,
                    layout: unknown,
                    heavy_tails: f64::NAN,
                },
                |evidence| self.estimate(evidence),
            ),
        }
    }
}

/// The most probable shape of the noise and its mean scale there.
pub(super) fn likely_shape(grid: Option<&Grid>, evidence: &Evidence) -> (usize, f64) {
    let Some(grid) = grid else {
        return (0, 1.0);
    };
    let mut sums = [(0.0, 0.0); 3];
    for (p, hyper) in evidence.hypers.iter().zip(&grid.hypers) {
        sums[hyper.shape].0 += p;
        sums[hyper.shape].1 += p * hyper.scale;
    }
    let best = (0..shapes().len()).fold(0, |a, b| if sums[b].0 > sums[a].0 { b } else { a });
    (best, sums[best].1 / sums[best].0)
}
