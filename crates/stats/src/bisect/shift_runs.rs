//! The runs that show whether builds shift.

use super::evidence::likely_shape;
use super::policy;
use super::search::Search;
use super::types::Measure;

/// Commits on each side of the likely culprit that are run to learn how builds shift.
const AROUND: usize = 8;
/// The shift that most easily passes for the change, as a part of it: smaller ones seldom do, and a
/// few builds show larger ones.
const DANGEROUS: f64 = 0.6;
/// Runs of each of them, times the square of the effect in standard deviations of a run.
const ENOUGH: f64 = 24.0;
const FEWEST: usize = 5;

/// Returns the information in the mean of `runs` runs of a build on whether builds shift, if they
/// do not: its expected part in the logarithm of the odds against shifts of variance `square`, in
/// nats. Levels are known, and squares are in units of a run's variance.
fn told(square: f64, runs: f64) -> f64 {
    let ratio = 1.0 + square * runs;
    0.5 * (ratio.ln() + 1.0 / ratio - 1.0)
}

impl Search {
    /// Probability of each commit where builds may shift by any size, as far as that was asked.
    pub(super) fn by_node_if_shifted(&self) -> Option<Vec<f64>> {
        let shifted = &self.evidence.as_ref()?.shifted.classes;
        let mut by_node = vec![0.0; self.by_node.len()];
        for (class, p) in self.classes.iter().zip(shifted) {
            let total: f64 = class.members.iter().map(|member| self.prior[*member]).sum();
            for member in &class.members {
                by_node[*member] = p * self.prior[*member] / total.max(f64::MIN_POSITIVE);
            }
        }
        (!shifted.is_empty()).then_some(by_node)
    }

    /// Whether what names the likely culprit may be the shift of a build.
    pub(super) fn may_be_a_shift(&self) -> bool {
        let named = self.sure_culprit().zip(self.by_node_if_shifted());
        named.is_some_and(|(culprit, by_node)| by_node[culprit] < self.named_from())
    }

    /// Returns the run with the most information per cost on whether builds shift, among the
    /// commits that were run before and the nearest that was not.
    pub(super) fn to_tell_shifts(&self) -> Option<Measure> {
        let evidence = self.evidence.as_ref().filter(|_| self.may_be_a_shift())?;
        let culprit = self.sure_culprit()?;
        let effect: f64 = evidence.classes.iter().map(|b| b.p * (b.mean[1] - b.mean[0])).sum();
        let (_, noise) = likely_shape(self.grid.as_ref(), evidence);
        let square = (effect / noise).powi(2);
        let enough = ((ENOUGH / square) as usize).max(FEWEST);
        let told = |runs: usize| told(DANGEROUS * DANGEROUS * square, runs as f64);
        // Few runs of a build tell little and more of them more each: the best of any number
        // counts.
        let rate = |runs: usize, build: f64| {
            let of = |more: usize| {
                let cost = build + self.config.run_cost * more as f64;
                (told(runs + more) - told(runs)) / cost
            };
            (1..=enough).map(of).fold(0.0, f64::max)
        };
        let open = self.nodes.iter().filter(|node| !self.skipped[**node]);
        let built = open.map(|node| (rate(self.runs_of(*node), 0.0), *node));
        let new = self.nearest_unbuilt(culprit);
        let new = new.map(|node| (rate(0, self.config.build_cost), node));
        let (_, node) = built.chain(new).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        let why = "one commit is likely: others tell whether builds differ by themselves";
        let few = self.runs_of(node) < enough;
        few.then(|| policy::again(node, 1, &self.builds, why))
    }

    /// The commit nearest to `culprit` that may be built for the first time.
    fn nearest_unbuilt(&self, culprit: usize) -> Option<usize> {
        let candidates = self.history.candidates();
        let at = candidates.iter().position(|node| *node == culprit)?;
        let around = at.saturating_sub(AROUND)..(at + AROUND).min(candidates.len());
        let new = |i: &usize| self.slots[candidates[*i]].is_none() && !self.skipped[candidates[*i]];
        let unbuilt = around.filter(|i| self.may_build() && new(i));
        // The culprit is the first of its side.
        unbuilt.min_by_key(|i| (2 * i + 1).abs_diff(2 * at)).map(|i| candidates[i])
    }
}
