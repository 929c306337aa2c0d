//! Whether a name can still be had where builds shift.
//!
//! However often a build is run, its level distinguishes good from bad only as far as the change
//! exceeds the shifts of builds. Two commits that follow each other differ in the builds between
//! them and in nothing else, most often in one. What all runs that are left could make of those
//! builds bounds the probability that any commit will be named; a search for which that is small is
//! over. (Stochastic curtailment: Lan, Simon and Halperin 1982.)

use super::belief::{Belief, OfSize, Shifted};
use super::memory::drawn_in;
use super::policy;
use super::search::{SHIFTING, Search};
use super::shifts::Values;
use super::types::Measure;
use crate::normal::cdf as normal_cdf;

/// Probability below which a name is out of reach; and probability of no shifts below which the
/// check runs.
const OUT_OF_SIGHT: f64 = 0.01;
/// The set is made smaller as long as the runs so far would halve it this many times.
const CHEAP: f64 = 3.0;
/// A commit with less than this probability adds nothing.
const LEAST: f64 = 1e-4;
/// Part of the variance of a run below which no variance counts.
const NEGLIGIBLE: f64 = 1e-9;

/// The commits with builds that distinguish a commit from another one.
struct Rival {
    /// `ln` of the prior odds of the commit against the other.
    ln_odds: f64,
    /// Those that contain exactly one of both, and whether they are bad if the commit is right.
    between: Vec<(usize, bool)>,
}

/// Logarithm of odds that are not known yet.
#[derive(Clone, Copy, Default)]
struct Ahead {
    mean: f64,
    variance: f64,
}

impl Search {
    /// Returns whether builds shift by so large a part of the change that the remaining runs will
    /// not yield a name.
    pub(super) fn futile_for_shifts(&self) -> bool {
        let in_sight = self.evidence.as_ref().and_then(|evidence| evidence.shifted.in_sight);
        in_sight.is_some_and(|p| p < OUT_OF_SIGHT)
    }

    /// Returns whether builds more likely shift than not: then more runs of the same builds add
    /// little information.
    pub(super) fn shifting(&self) -> bool {
        self.evidence.as_ref().is_some_and(|evidence| evidence.shifted.any() > SHIFTING)
    }

    /// The next run where no name is in sight, while it is still cheap to make the set of suspects
    /// smaller.
    pub(super) fn to_narrow(&self) -> Option<Measure> {
        let evidence = self.evidence.as_ref().filter(|_| self.futile_for_shifts())?;
        let best = policy::choose(&self.view(evidence))?;
        (best.bits * f64::from(self.runs) >= CHEAP * f64::from(best.runs)).then_some(best)
    }

    /// At most how probable it is that runs which are left bring a name, if builds shift.
    /// `None` where it is not sure that they do. In noise of two `modes` Gaussian evidence says
    /// nothing of shifts.
    pub(super) fn name_in_sight(
        &self,
        shifted: &Shifted,
        values: &Values<'_>,
        modes: f64,
    ) -> Option<f64> {
        if shifted.any() * (1.0 - modes) < 1.0 - OUT_OF_SIGHT {
            return None;
        }
        let runs = self.means(values);
        let mut sum = 0.0;
        for (i, class) in self.classes.iter().enumerate() {
            let total: f64 = class.members.iter().map(|member| self.prior[*member]).sum();
            for node in &class.members {
                let share = self.prior[*node] / total.max(f64::MIN_POSITIVE);
                let mut sizes =
                    shifted.sizes.iter().filter(|size| size.steps[i].p * share > LEAST).peekable();
                if sizes.peek().is_some() {
                    let rivals = self.rivals(*node);
                    let of = |size: &OfSize| {
                        size.steps[i].p * self.attainable(&rivals, size.size, &size.steps[i], &runs)
                    };
                    sum += share * sizes.map(of).sum::<f64>();
                }
            }
        }
        Some(sum)
    }

    /// Number and mean of the runs of each commit.
    fn means(&self, values: &Values<'_>) -> Vec<(f64, f64)> {
        let mut runs = vec![(0.0, 0.0); self.history.nodes()];
        for (run, value) in values.runs.iter().zip(drawn_in(values.runs, values.ends)) {
            let (count, mean) = &mut runs[self.builds[run.build].node];
            *count += 1.0;
            *mean += (value - *mean) / *count;
        }
        runs
    }

    /// The nearest suspects before and after `node`.
    fn rivals(&self, node: usize) -> Vec<Rival> {
        let (within, bad) = (self.history.reach(node), self.history.descendants(node));
        let suspects = self.history.candidates().iter().copied();
        let mut suspects = suspects.filter(|other| *other != node && self.prior[*other] > 0.0);
        let before = suspects.clone().rfind(|other| within[*other]);
        let after = suspects.find(|other| bad[*other]);
        let rival = |other: usize| {
            let of_other = self.history.descendants(other);
            let open =
                |of: &usize| self.slots[*of].is_some() || self.may_build() && !self.skipped[*of];
            let tells = (0..self.history.nodes()).filter(|of| bad[*of] != of_other[*of]);
            let between = tells.filter(open).map(|of| (of, bad[of])).collect();
            Rival { ln_odds: (self.prior[node] / self.prior[other]).ln(), between }
        };
        [before, after].into_iter().flatten().map(rival).collect()
    }

    /// Returns the probability that a commit, if it is the culprit, reaches the odds of a name
    /// against each of `rivals` when all remaining runs are spent on the builds that distinguish
    /// them.
    fn attainable(&self, rivals: &[Rival], size: f64, step: &Belief, runs: &[(f64, f64)]) -> f64 {
        let builds: usize = rivals.iter().map(|rival| rival.between.len()).sum();
        let left = self.config.max_runs.map_or(f64::INFINITY, |most| f64::from(most - self.runs));
        let more = left / builds.max(1) as f64;
        let named = self.named_from();
        let wanted = (named / (1.0 - named)).ln();
        let of_rival = |rival: &Rival| {
            let mut sum = Ahead { mean: rival.ln_odds, ..Ahead::default() };
            for (node, bad) in &rival.between {
                let ahead = ahead(size, step, runs[*node], more, *bad);
                sum.mean += ahead.mean;
                sum.variance += ahead.variance;
            }
            normal_cdf((sum.mean - wanted) / sum.variance.sqrt().max(f64::MIN_POSITIVE))
        };
        rivals.iter().map(of_rival).product()
    }
}

/// Returns the final gain in the odds between the two levels from one build, if it is `bad` or
/// good: after its `runs` (number and mean) and `more` that follow.
fn ahead(size: f64, step: &Belief, runs: (f64, f64), more: f64, bad: bool) -> Ahead {
    let (count, mean) = runs;
    let all = count + more;
    if all <= 0.0 {
        return Ahead::default();
    }
    let shift = size * size * step.noise;
    // The level of the build: expected, and how far that is known.
    let level = step.mean[usize::from(bad)];
    let seen = if count > 0.0 { shift / (shift + step.noise / count) } else { 0.0 };
    let expected = level + seen * (mean - level);
    let unknown = shift * (1.0 - seen);
    // The mean of all its runs.
    let part = if more.is_finite() { more / all } else { 1.0 };
    let variance = part * part * (unknown + if more > 0.0 { step.noise / more } else { 0.0 });
    let at = mean * (1.0 - part) + expected * part;
    let effect = step.mean[1] - step.mean[0];
    let towards = if bad { effect } else { -effect };
    let middle = 0.5 * (step.mean[0] + step.mean[1]);
    let spread = shift + step.noise / all;
    let slope = towards / spread.max(NEGLIGIBLE * step.noise).max(f64::MIN_POSITIVE);
    Ahead { mean: (at - middle) * slope, variance: variance * slope * slope }
}
