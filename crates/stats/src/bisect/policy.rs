//! Selects the next run, with the most expected information about the culprit per cost.
//!
//! The information is that between the mean of `b` runs and the class of the culprit, with each
//! class's own uncertainty of the levels. Measuring an end is therefore not a separate phase: it is
//! chosen when the uncertainty of its level prevents a distinction of the classes.

use super::belief::{Belief, Class, exp_negative};
use super::evidence::Evidence;
use super::grid::Build;
use super::history::History;
use super::noise::shapes;
use super::types::{Config, Layout, Measure};

/// Numbers of runs that are considered.
const BATCHES: [u32; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96];
/// A choice with at least this part of the best rate is as good: among these, larger batches and
/// built commits are preferred.
const NEAR: f64 = 0.97;
/// The rate of a new build counts this part where a build costs more than a run: the runs that it
/// leaves undone would have told whether builds shift at all. Fitted: at effect/noise 0.4 and
/// builds of ten runs it took 27 builds with 0.97, 25 with 0.85, 24 with 0.7, at about the same
/// total cost.
const COSTLY: f64 = 0.7;
/// Below this information, in nats per run, no run is worth its time.
const FUTILE: f64 = 1e-6;
/// Beyond this distance, in standard deviations, two levels are apart and numbers need not grow.
const FAR: f64 = 40.0;
/// A component wider than this many of the narrowest counts as so wide.
const WIDE: f64 = 10.0;

/// Components with less than this probability say nothing.
const LEAST: f64 = 1e-4;
/// A stratum with less than this probability says nothing.
const STRATUM: f64 = 0.01;

/// The policy's view of a search.
pub(super) struct View<'a> {
    pub(super) history: &'a History,
    pub(super) config: &'a Config,
    pub(super) classes: &'a [Class],
    pub(super) evidence: &'a Evidence,
    pub(super) builds: &'a [Build],
    pub(super) nodes: &'a [usize],
    pub(super) skipped: &'a [bool],
    pub(super) by_node: &'a [f64],
    /// Likely shape and scale of the noise.
    pub(super) shape: (usize, f64),
    pub(super) runs: u32,
}

/// One thing that could be measured.
struct Action {
    node: usize,
    /// Index of the build to run again.
    build: Option<usize>,
    /// For each group of culprits: probability, its class, whether the commit is bad under it.
    groups: Vec<(f64, usize, bool)>,
    /// Probability that the commit can be built.
    buildable: f64,
}

/// A normal distribution with a weight.
#[derive(Clone, Copy)]
struct Component {
    p: f64,
    mean: f64,
    variance: f64,
}

/// Runs of `node` in its last build, or in a first one.
pub(super) fn again(node: usize, runs: u32, builds: &[Build], why: &str) -> Measure {
    let build = builds.iter().rev().find(|build| build.node == node).map(|build| build.id);
    Measure { node, runs, build, fresh_build: build.is_none(), bits: 0.0, why: why.to_owned() }
}

/// Probability that the measured commit at `slot` is bad, given a regression.
pub(super) fn bad_share(classes: &[Class], evidence: &Evidence, slot: usize) -> f64 {
    let (mut bad, mut all) = (0.0, 0.0);
    for (class, belief) in classes.iter().zip(&evidence.classes) {
        all += belief.p;
        if class.bad[slot] {
            bad += belief.p;
        }
    }
    bad / f64::max(all, f64::MIN_POSITIVE)
}

/// Whether some commit that can be measured splits `class`.
pub(super) fn splits(view: &View<'_>, class: &Class) -> bool {
    class.members.len() > 1
        && class.members.iter().any(|node| {
            !view.skipped[*node] && !view.nodes.contains(node) && {
                let reach = view.history.reach(*node);
                class.members.iter().any(|member| !reach[*member])
            }
        })
}

/// The best next step; `None` if nothing would help.
pub(super) fn choose(view: &View<'_>) -> Option<Measure> {
    let mut actions = measured(view);
    actions.extend(unmeasured(view));
    // Where runs resemble those before them, more of one commit in a row say little.
    let most = if view.evidence.independent < 0.5 { 1 } else { u32::MAX };
    let room = view.config.max_runs.map_or(most, |runs| most.min(runs - view.runs));
    let batch_of = |i: usize| BATCHES[i].min(room);
    let first = likely_batch(view);
    let mut order: Vec<(f64, usize)> = actions
        .iter()
        .enumerate()
        .map(|(i, action)| (rate(view, action, batch_of(first)), i))
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut best, mut best_rate) = (None, 0.0);
    for &(_, i) in order.iter().take(4) {
        for batch in 0..BATCHES.len() {
            let rate = rate(view, &actions[i], batch_of(batch));
            if rate > best_rate {
                (best, best_rate) = (Some(i), rate);
            }
        }
    }
    let action = &actions[best?];
    let batch = (0..BATCHES.len())
        .rev()
        .map(batch_of)
        .find(|batch| rate(view, action, *batch) >= NEAR * best_rate)?;
    let nats = information(view, action, batch);
    if nats / f64::from(batch) < FUTILE {
        return None;
    }
    Some(Measure {
        node: action.node,
        runs: batch,
        build: action.build.map(|build| view.builds[build].id),
        fresh_build: action.build.is_none(),
        bits: nats / std::f64::consts::LN_2,
        why: why(view, action),
    })
}

fn why(view: &View<'_>, action: &Action) -> String {
    let (mut bad, mut all) = (0.0, 0.0);
    for (p, class, is_bad) in &action.groups {
        if *class < view.classes.len() {
            all += p;
            if *is_bad {
                bad += p;
            }
        }
    }
    let bad = bad / f64::max(all, f64::MIN_POSITIVE);
    if bad < 0.005 {
        "it is surely good: its runs tell the good level".to_owned()
    } else if bad > 0.995 {
        "it is surely bad: its runs tell the bad level".to_owned()
    } else {
        format!("it is bad with probability {bad:.2}")
    }
}

/// Index of a batch that says about as much as is left to say, for ranking.
fn likely_batch(view: &View<'_>) -> usize {
    let (mut d, mut all) = (0.0, 0.0);
    for belief in &view.evidence.classes {
        let effect = belief.mean[1] - belief.mean[0];
        d += belief.p * effect * effect / belief.noise.max(f64::MIN_POSITIVE);
        all += belief.p;
    }
    let wanted =
        (all / d.max(f64::MIN_POSITIVE)).max(0.2 * view.config.build_cost / view.config.run_cost);
    BATCHES.iter().rposition(|batch| f64::from(*batch) <= wanted.max(1.0)).unwrap_or(0)
}

/// Runs of commits that have been measured: in their last build, or in a new one.
fn measured(view: &View<'_>) -> Vec<Action> {
    let layout: f64 = view.evidence.classes.iter().map(|b| b.p * b.layout).sum();
    let noise: f64 = view.evidence.classes.iter().map(|b| b.p * b.noise).sum();
    let rebuild =
        view.config.layout == Layout::PerBuild && layout > 0.01 * noise && may_build(view);
    let mut actions = Vec::new();
    for (slot, node) in view.nodes.iter().enumerate() {
        let is_end = *node == view.history.good() || *node == view.history.bad();
        let bad = bad_share(view.classes, view.evidence, slot);
        if view.skipped[*node] || !is_end && !(0.001..=0.999).contains(&bad) {
            continue;
        }
        let groups = || {
            let classes = view.classes.iter().zip(&view.evidence.classes).enumerate();
            let mut groups: Vec<(f64, usize, bool)> =
                classes.map(|(i, (class, belief))| (belief.p, i, class.bad[slot])).collect();
            groups.push((view.evidence.none.p, view.classes.len(), false));
            groups
        };
        let last = view.builds.iter().rposition(|build| build.slot == slot);
        actions.push(Action { node: *node, build: last, groups: groups(), buildable: 1.0 });
        if rebuild {
            actions.push(Action { node: *node, build: None, groups: groups(), buildable: 1.0 });
        }
    }
    actions
}

fn may_build(view: &View<'_>) -> bool {
    view.config.max_builds.is_none_or(|most| (view.builds.len() as u32) < most)
}

/// First runs of commits that split the more probable classes.
fn unmeasured(view: &View<'_>) -> Vec<Action> {
    if !may_build(view) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..view.classes.len()).collect();
    let p = |i: usize| view.evidence.classes[i].p;
    order.sort_by(|a, b| p(*b).total_cmp(&p(*a)).then(a.cmp(b)));
    let mut actions = Vec::new();
    for i in order.into_iter().take(8).filter(|i| p(*i) > 0.001) {
        let class = &view.classes[i];
        let open: Vec<usize> = class
            .members
            .iter()
            .copied()
            .filter(|node| !view.skipped[*node] && !view.nodes.contains(node))
            .collect();
        // Quantiles of the class by probability; one is enough if the class has little of it.
        let parts = if p(i) > 0.3 {
            16
        } else if p(i) > 0.05 {
            4
        } else {
            2
        };
        let total: f64 = open.iter().map(|node| view.by_node[*node]).sum();
        let (mut below, mut next) = (0.0, 1);
        for node in open {
            below += view.by_node[node];
            if below * f64::from(parts) >= f64::from(next) * total && next < parts
                || actions.is_empty()
            {
                while below * f64::from(parts) >= f64::from(next) * total && next < parts {
                    next += 1;
                }
                actions.push(first_run(view, node));
            }
        }
    }
    actions
}

fn first_run(view: &View<'_>, node: usize) -> Action {
    let reach = view.history.reach(node);
    let mut groups = Vec::with_capacity(view.classes.len() + 2);
    for (i, (class, belief)) in view.classes.iter().zip(&view.evidence.classes).enumerate() {
        let all: f64 = class.members.iter().map(|node| view.by_node[*node]).sum();
        let inside: f64 =
            class.members.iter().filter(|node| reach[**node]).map(|node| view.by_node[*node]).sum();
        let part = if all > 0.0 { inside / all } else { 0.0 };
        groups.push((belief.p * part, i, true));
        groups.push((belief.p * (1.0 - part), i, false));
    }
    groups.push((view.evidence.none.p, view.classes.len(), false));
    Action { node, build: None, groups, buildable: buildable(view, node) }
}

/// Commits next to a broken build are often broken, too.
fn buildable(view: &View<'_>, node: usize) -> f64 {
    let near = (0..=8).find(|distance| {
        let skipped = |n: usize| view.skipped.get(n).copied().unwrap_or(false);
        skipped(node + distance) || node.checked_sub(*distance).is_some_and(skipped)
    });
    near.map_or(1.0, |distance| 1.0 - 0.5 * (-(distance as f64) / 3.0).exp())
}

/// Information per cost.
fn rate(view: &View<'_>, action: &Action, batch: u32) -> f64 {
    let build = if action.build.is_some() { 0.0 } else { view.config.build_cost };
    let fresh = if view.config.build_cost > view.config.run_cost { COSTLY } else { NEAR };
    let weight = if action.build.is_some() { 1.0 } else { fresh };
    let cost = build + view.config.run_cost * f64::from(batch);
    action.buildable * weight * information(view, action, batch) / cost
}

/// Returns the expected information about the culprit, in nats, of `batch` runs: the mean over the
/// cases that builds shift and do not. Mixed into one, a few shifts that are possible would look
/// like shifts that are sure, for which only new builds help.
fn information(view: &View<'_>, action: &Action, batch: u32) -> f64 {
    let build = action.build.map(|build| &view.builds[build]);
    let (shape, scale) = view.shape;
    let seen = build.map(|build| build.location(&shapes()[shape], scale));
    let of_stratum = |beliefs: &Vec<Belief>| {
        let p = |class: usize| beliefs[class].p / view.evidence.belief(class).p.max(1e-300);
        let components: Vec<Component> = action
            .groups
            .iter()
            .map(|(all, class, bad)| (all * p(*class), *class, *bad))
            .filter(|(p, ..)| *p > LEAST)
            .map(|(p, class, bad)| {
                predict(&beliefs[class], p, usize::from(bad), seen, f64::from(batch))
            })
            .collect();
        let total: f64 = components.iter().map(|c| c.p).sum();
        if total < STRATUM { 0.0 } else { total * mutual(components) }
    };
    view.evidence.strata.iter().map(of_stratum).sum()
}

/// Predicts the mean of `batch` runs under one class, given the previous runs of the build.
fn predict(
    belief: &Belief,
    p: f64,
    side: usize,
    seen: Option<(f64, f64)>,
    batch: f64,
) -> Component {
    let (level, variance) = (belief.mean[side], belief.variance[side]);
    let noise = belief.noise / batch;
    match seen {
        Some((location, runs)) if belief.layout > 0.0 => {
            // The build's own level is known from its runs and drawn to the class's level.
            let of_runs = belief.noise / runs;
            let weight = belief.layout / (belief.layout + of_runs);
            let mean = level + weight * (location - level);
            let own = belief.layout * (1.0 - weight);
            Component { p, mean, variance: noise + own + (1.0 - weight).powi(2) * variance }
        }
        _ => {
            let shift = if seen.is_some() { 0.0 } else { belief.layout };
            Component { p, mean: level, variance: noise + shift + variance }
        }
    }
}

/// Mutual information between a mixture's value and its component, in nats.
fn mutual(mut components: Vec<Component>) -> f64 {
    let total: f64 = components.iter().map(|c| c.p).sum();
    let least = components.iter().map(|c| c.variance).fold(f64::INFINITY, f64::min);
    let unit = least.max(f64::MIN_POSITIVE).sqrt();
    let low = components.iter().map(|c| c.mean).fold(f64::INFINITY, f64::min);
    let high = components.iter().map(|c| c.mean).fold(f64::NEG_INFINITY, f64::max);
    let shrink = (FAR * unit / (high - low).max(f64::MIN_POSITIVE)).min(1.0);
    let widest = components.iter().map(|c| c.variance).fold(0.0, f64::max).sqrt() / unit;
    for c in &mut components {
        c.p /= total;
        c.mean = (c.mean - low) * shrink / unit;
        c.variance = (c.variance / (unit * unit)).min(WIDE * WIDE);
    }
    let reach = 4.5 * widest.min(WIDE);
    let step = 0.8;
    let count = ((((high - low) * shrink / unit + 2.0 * reach) / step) as usize + 1).min(200);
    let mut mixture = vec![0.0; count];
    let mut density = vec![0.0; count];
    let mut within = 0.0;
    for c in &components {
        let factor = 1.0 / (2.0 * std::f64::consts::PI * c.variance).sqrt();
        for (i, (entry, sum)) in density.iter_mut().zip(&mut mixture).enumerate() {
            let z = i as f64 * step - reach - c.mean;
            *entry = factor * exp_negative(-0.5 * z * z / c.variance);
            *sum += c.p * *entry;
        }
        within += c.p * 0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E * c.variance).ln();
    }
    let entropy: f64 = mixture.iter().filter(|m| **m > 1e-300).map(|m| -m * m.ln() * step).sum();
    (entropy - within).max(0.0)
}
