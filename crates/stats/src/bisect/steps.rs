//! Handling of histories with more than one step, or none.

use super::memory::Run;
use super::policy;
use super::search::Search;
use super::several::{self, Several, Spot};
use super::types::Measure;

/// From this probability on that there is not one step, the whole history is measured.
const DOUBT: f64 = 0.3;
/// Number of parts of the history; its boundaries are measured then.
const PARTS: usize = 4;
/// Runs of each quarter before equal ends are taken for a history without a change.
const SURVEYED: usize = 4;

impl Search {
    /// What `runs` say of two steps along first parents.
    pub(super) fn several(&self, runs: &[Run], floor: f64, independent: f64) -> Several {
        let order = self.measured_line();
        let mut spots: Vec<Spot> = Vec::with_capacity(order.len());
        for (i, node) in order.iter().enumerate() {
            let after = i.checked_sub(1).map(|before| order[before]);
            let mass = self.between(after, *node).iter().map(|node| self.prior[*node]).sum();
            spots.push(Spot { mass, runs: 0.0, sum: 0.0 });
        }
        let (mut squares, mut count) = (0.0, 0.0);
        for run in runs {
            let node = self.builds[run.build].node;
            if let Some(at) = order.iter().position(|other| *other == node) {
                spots[at].runs += 1.0;
                spots[at].sum += run.value;
                squares += run.value * run.value;
                count += 1.0;
            }
        }
        several::several(&spots, squares, floor * floor * count, independent)
    }

    /// The commits along first parents that have been measured, in order.
    fn measured_line(&self) -> Vec<usize> {
        self.line.iter().copied().filter(|node| self.slots[*node].is_some()).collect()
    }

    /// The commits that `upto` contains and `after` does not.
    fn between(&self, after: Option<usize>, upto: usize) -> Vec<usize> {
        let (within, before) =
            (self.history.reach(upto), after.map(|after| self.history.reach(after)));
        let outside = |node: &usize| before.as_ref().is_none_or(|before| !before[*node]);
        (0..=upto).filter(|node| within[*node] && outside(node)).collect()
    }

    /// Returns the end or quarter of the history with the fewest runs.
    fn quarter(&self) -> Option<usize> {
        let last = self.line.len() - 1;
        let built = |node: &usize| self.slots[*node].is_some() || self.may_build();
        let points = (0..=PARTS).map(|part| self.line[part * last / PARTS]);
        let open = points.filter(|node| !self.skipped[*node] && built(node));
        open.min_by_key(|node| self.runs_of(*node))
    }

    /// Returns the next run if there may be a ramp or two steps: commits in between distinguish
    /// them from one step, but a search for one step does not run these.
    pub(super) fn look_around(&self) -> Option<Measure> {
        let evidence = self.evidence.as_ref()?;
        let other = 1.0 - (1.0 - evidence.ramp) * (1.0 - evidence.several.p);
        if other < DOUBT || evidence.several.p >= self.config.confidence || self.shifting() {
            return None;
        }
        let why = "one step may not be all: the history is measured from end to end";
        Some(policy::again(self.quarter()?, 1, &self.builds, why))
    }

    /// The next run before ends that do not differ are taken for a history without a change: a
    /// change that was wholly taken back shows between them only.
    pub(super) fn to_survey(&self) -> Option<Measure> {
        let evidence = self.evidence.as_ref()?;
        if evidence.several.p >= DOUBT {
            return self.look_around();
        }
        let node = self.quarter().filter(|_| self.level_ends(evidence))?;
        let why = "the ends do not differ: what lies between them may";
        let few = self.runs_of(node) < SURVEYED;
        few.then(|| policy::again(node, 1, &self.builds, why))
    }

    /// The next run if there are two steps and one of them is not found yet.
    pub(super) fn to_place(&self) -> Option<Measure> {
        let several = &self.evidence.as_ref()?.several;
        if several.p < self.config.confidence {
            return None;
        }
        let order = self.measured_line();
        for places in &several.places {
            let mut likely: Vec<usize> = (1..order.len()).collect();
            likely.sort_by(|a, b| places[*b].total_cmp(&places[*a]).then(a.cmp(b)));
            let best = likely[0];
            let at = |node: usize| self.line.iter().position(|other| *other == node);
            let inside = &self.line[at(order[best - 1])? + 1..at(order[best])?];
            let open: Vec<usize> =
                inside.iter().copied().filter(|node| !self.skipped[*node]).collect();
            if places[best] > 0.5 && !open.is_empty() && self.may_build() {
                let why = "one of two steps is next to it";
                return Some(policy::again(open[open.len() / 2], 1, &self.builds, why));
            }
            if places[best] < self.config.confidence {
                let beside = likely.iter().take(2).flat_map(|i| [order[*i - 1], order[*i]]);
                let node = beside.filter(|node| !self.skipped[*node]);
                let node = node.min_by_key(|node| self.runs_of(*node))?;
                let why = "one of two steps may be next to it";
                return Some(policy::again(node, 1, &self.builds, why));
            }
        }
        None
    }

    /// For each of two steps the commits that may be it, the most probable first, as few as have
    /// the wanted confidence together.
    pub(super) fn steps(&self) -> Vec<Vec<(usize, f64)>> {
        let Some(evidence) = &self.evidence else { return Vec::new() };
        let order = self.measured_line();
        let of_step = |places: &Vec<f64>| {
            let mut all: Vec<(usize, f64)> = Vec::new();
            for (i, p) in places.iter().enumerate().skip(1) {
                let inside = self.between(Some(order[i - 1]), order[i]);
                let mass: f64 = inside.iter().map(|node| self.prior[*node]).sum();
                let share =
                    |node: usize| (node, p * self.prior[node] / mass.max(f64::MIN_POSITIVE));
                all.extend(inside.into_iter().map(share));
            }
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut sum = 0.0;
            let short = |(_, p): &(usize, f64)| {
                let more = sum < self.config.confidence && *p >= 1e-6;
                sum += p;
                more
            };
            all.into_iter().take_while(short).collect()
        };
        evidence.several.places.iter().map(of_step).collect()
    }

    pub(super) fn may_build(&self) -> bool {
        self.config.max_builds.is_none_or(|most| self.builds() < most)
    }
}
