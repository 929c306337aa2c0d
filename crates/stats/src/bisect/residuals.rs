//! Goodness of fit of the believed model, and the requirements of a name if it fails.
//!
//! Two tests apply to the residuals of the runs under the believed levels: do they have the
//! distribution of the likely noise (Anderson and Darling), and do they correlate with the previous
//! run's? A model that fails one of them may be sure of the wrong commit. A name must then hold
//! without any model: in pairs of adjacent runs of the culprit and of its parent.

use super::belief::Class;
use super::evidence::{Evidence, likely_shape};
use super::grid::{Grid, location};
use super::memory::{self, Run};
use super::modes::Modes;
use super::noise::{ONE_MODE, shapes};
use super::search::{Search, Standing};
use crate::alternative::Alternative;
use crate::rank::doubled_midranks;
use crate::rank_test::{Zeros, signed_rank_of};
use crate::sample::Sample;

/// Beyond this distance (Anderson and Darling) the noise is not of the likely shape.
const DISTANCE: f64 = 2.5;
/// Beyond this many standard errors runs resemble those before them.
const RESEMBLANCE: f64 = 3.5;
/// Runs below which neither is asked.
const FEWEST: usize = 16;
/// Numbers of pairs at which it is asked whether they show the change.
const LOOKS: [usize; 4] = [12, 24, 48, 96];
/// Two runs with at most this many places between them in time are a pair.
const BESIDE: usize = 3;

impl Search {
    /// What pairs say of the likely culprit and its parents; `None` where the model will do.
    pub(super) fn standing(&self) -> Option<Standing> {
        let evidence = self.evidence.as_ref()?;
        let culprit = self.sure_culprit()?;
        if !self.refuted(evidence, culprit) {
            return None;
        }
        let parents = self.history.parents(culprit).into_iter();
        let mut open = parents.filter(|parent| !self.skipped[*parent]).peekable();
        if self.skipped[culprit] || open.peek().is_none() {
            return Some(Standing::Fails(1.0));
        }
        let all = open.map(|parent| self.beside(evidence, parent, culprit));
        all.reduce(|a, b| match (a, b) {
            (Standing::Fails(p), Standing::Fails(q) | Standing::Holds(q))
            | (Standing::Holds(q), Standing::Fails(p)) => Standing::Fails(p.max(q)),
            (Standing::Holds(p), Standing::Holds(q)) => Standing::Holds(p.max(q)),
            (wanted @ Standing::Wanted(_), _) | (_, wanted) => wanted,
        })
    }

    /// Returns the doubt that pairs leave of a name with a failing model; 0 if the model fits.
    pub(super) fn doubt_of_pairs(&self) -> f64 {
        match self.standing() {
            Some(Standing::Holds(doubt) | Standing::Fails(doubt)) => doubt,
            Some(Standing::Wanted(_)) => 1.0,
            None => 0.0,
        }
    }

    /// What pairs of `parent` and `culprit` say.
    fn beside(&self, evidence: &Evidence, parent: usize, culprit: usize) -> Standing {
        let (pairs, single) = self.pairs(evidence, parent, culprit);
        let effect: f64 = evidence.classes.iter().map(|b| b.p * (b.mean[1] - b.mean[0])).sum();
        let looks = LOOKS.len() as f64;
        let doubt = |pairs: &[f64]| {
            let differences: Vec<f64> = pairs.iter().map(|pair| pair * effect.signum()).collect();
            let Ok(sample) = Sample::new(differences) else { return 1.0 };
            let test = signed_rank_of(&sample, Zeros::default(), Alternative::Greater);
            (test.p * looks).min(1.0)
        };
        let allowed = 0.5 * (1.0 - self.config.confidence);
        let made = LOOKS.into_iter().filter(|look| *look <= pairs.len());
        let shown = made.map(|look| doubt(&pairs[..look])).reduce(f64::min).unwrap_or(1.0);
        if shown <= allowed {
            return Standing::Holds(shown);
        }
        if pairs.len() >= LOOKS[LOOKS.len() - 1] {
            return Standing::Fails(shown);
        }
        // Orders alternate, so that a drift favours neither.
        let first = if pairs.len().is_multiple_of(2) { parent } else { culprit };
        Standing::Wanted(match single {
            Some(node) if node == parent => culprit,
            Some(_) => parent,
            None => first,
        })
    }

    /// Returns the differences of adjacent runs of both, and the commit of the last run without a
    /// partner so far. Only runs since the last run of a commit other than these, the other parents
    /// and the ends: the posterior chose the name from the runs before.
    fn pairs(
        &self,
        evidence: &Evidence,
        parent: usize,
        culprit: usize,
    ) -> (Vec<f64>, Option<usize>) {
        let beside = [self.history.parents(culprit), self.history.ends().to_vec()].concat();
        // A mode that every value tells is no noise.
        let clear = self.grid.as_ref().and_then(|grid| evidence.clear_modes(grid));
        let (log, _) = self.in_one_mode(clear);
        let node_of = |run: &Run| self.builds[run.build].node;
        let other = |run: &Run| node_of(run) != culprit && !beside.contains(&node_of(run));
        let since = log.iter().rposition(other).map_or(0, |at| at + 1);
        let mut pairs = Vec::new();
        let mut last: Option<(usize, usize, f64)> = None;
        for (at, run) in log.iter().enumerate().skip(since) {
            let node = node_of(run);
            if node != parent && node != culprit {
                continue;
            }
            last = match last {
                Some((before, other, value)) if other != node && at - before <= BESIDE => {
                    let difference = run.value - value;
                    pairs.push(if node == culprit { difference } else { -difference });
                    None
                }
                _ => Some((at, node, run.value)),
            };
        }
        (pairs, last.filter(|(at, ..)| log.len() - at <= BESIDE).map(|(_, node, _)| node))
    }

    /// Returns whether the runs contradict `culprit` as the culprit.
    fn refuted(&self, evidence: &Evidence, culprit: usize) -> bool {
        let class = self.classes.iter().find(|class| class.members.contains(&culprit));
        let (Some(grid), Some(class)) = (&self.grid, class) else { return false };
        let sides = self.sides(class);
        if sides.iter().any(Vec::is_empty) || self.runs < FEWEST as u32 || coarse(&sides) {
            return false;
        }
        let (runs, ends) = self.in_one_mode(evidence.clear_modes(grid));
        let floor = self.rounding();
        let left = memory::residuals(&self.config, &runs, ends, &self.builds, class, floor);
        // Where runs depend on each other the second model is believed, which assumes no shape.
        resemblance(&left) > RESEMBLANCE
            || evidence.independent >= 0.5 && distance(grid, evidence, &sides) > DISTANCE
    }

    /// The values of the good and of the bad side, without builds that were stopped.
    fn sides(&self, class: &Class) -> [Vec<f64>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for build in self.builds.iter().filter(|build| build.above.is_empty()) {
            sides[usize::from(class.bad[build.slot])].extend_from_slice(&build.values);
        }
        sides
    }
}

/// Returns whether most values are equal to others, as with a coarse clock: such values have steps,
/// but all modelled noises are smooth.
fn coarse(sides: &[Vec<f64>; 2]) -> bool {
    let mut all = sides.concat();
    let count = all.len();
    all.sort_by(f64::total_cmp);
    all.dedup();
    2 * all.len() < count
}

/// Distance between the values about their levels and the likely noise (Anderson and Darling
/// 1954).
fn distance(grid: &Grid, evidence: &Evidence, sides: &[Vec<f64>; 2]) -> f64 {
    let (which, scale) = likely_shape(Some(grid), evidence);
    let shape = &shapes()[which];
    let fit = which.checked_sub(ONE_MODE).and_then(|which| grid.fits[which]);
    let of = || evidence.hypers.iter().zip(&grid.hypers).filter(|(_, of)| of.shape == which);
    let all: f64 = of().map(|(p, _)| p).sum();
    let share: f64 = of().filter_map(|(p, of)| Some(p * of.modes?.share)).sum::<f64>() / all;
    let modes = fit.map(|fit| Modes { apart: fit.apart / scale, share });
    let mut above: Vec<f64> = Vec::new();
    for (side, values) in sides.iter().enumerate() {
        let level =
            fit.map_or_else(|| location(values.clone(), shape, scale).0, |f| f.levels[side]);
        above.extend(values.iter().map(|value| {
            let z = (value - level) / scale;
            let ln = modes.map_or_else(|| shape.ln_survival(z), |m| m.ln_survival(shape, z));
            ln.exp().clamp(1e-12, 1.0 - 1e-12)
        }));
    }
    above.sort_by(f64::total_cmp);
    let n = above.len() as f64;
    let pairs = above.iter().zip(above.iter().rev()).enumerate();
    let sum: f64 =
        pairs.map(|(i, (low, high))| (2.0 * i as f64 + 1.0) * (low.ln() + (1.0 - high).ln())).sum();
    -n - sum / n
}

/// Returns the rank correlation of each of `values` with the previous one, in standard errors.
fn resemblance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let ranks: Vec<f64> =
        doubled_midranks(values).iter().map(|rank| *rank as f64 - n - 1.0).collect();
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let beside: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (beside / squares.max(f64::MIN_POSITIVE) * n.sqrt()).abs()
}
