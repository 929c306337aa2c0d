//! How long a search would take, found by searching this very history with made-up values.

use super::confirm::mixed;
use super::git::{Commits, Git};
use super::model::search_of;
use super::prior;
use super::settings::Settings;
use crate::MeasureError;
use convoy_stats::bisect::{Outcome, Search, Step};
use std::collections::BTreeSet;

/// Runs after which a simulated search is given up.
const MOST_RUNS: u32 = 2000;

/// What simulated searches for one effect took.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The effect over the standard deviation of one run.
    pub effect: f64,
    /// Runs of each search, the fewest first.
    pub runs: Vec<u32>,
    /// Builds of one search, the mean.
    pub builds: f64,
}

/// The commits of a search, how many of them are suspected, and what `trials` searches each for
/// first bad commits with these `effects` take; the noise is Gaussian.
pub fn expected(
    git: &Git,
    settings: &Settings,
    effects: &[f64],
    trials: u64,
) -> Result<(Commits, usize, Vec<Expected>), MeasureError> {
    let most = settings.max_runs.unwrap_or(MOST_RUNS).min(MOST_RUNS);
    let settings = &Settings { max_runs: Some(most), ..settings.clone() };
    let commits = git.commits(&settings.ends(), settings.first_parent)?;
    let prior = prior(git, settings, &commits)?;
    let candidates: Vec<usize> = (1..commits.list.len())
        .filter(|&node| prior.as_ref().is_none_or(|prior| prior[node] > 0.0))
        .collect();
    let costs = Some([1.0, settings.build_cost.unwrap_or(0.0), 0.0]);
    let mut rows = Vec::new();
    for &effect in effects {
        let mut row = Expected { effect, runs: Vec::new(), builds: 0.0 };
        for trial in 0..trials {
            let draw = mixed(settings.seed, 1000 * trial + effect as u64);
            let culprit = candidates[draw as usize % candidates.len()];
            let search = search_of(settings, &commits, prior.as_ref(), costs)?;
            let (runs, builds) = search_once(search, &commits, culprit, effect, draw)?;
            row.runs.push(runs);
            row.builds += builds as f64 / trials as f64;
        }
        row.runs.sort_unstable();
        rows.push(row);
    }
    Ok((commits, candidates.len(), rows))
}

/// Searches with made-up values: the runs and builds that it took.
fn search_once(
    mut search: Search,
    commits: &Commits,
    culprit: usize,
    effect: f64,
    seed: u64,
) -> Result<(u32, usize), MeasureError> {
    let bad = descendants(&commits.parents, culprit);
    let mut visited = BTreeSet::new();
    while let Step::Measure(wish) = search.next_step() {
        for _ in 0..wish.runs {
            let noise = normal(seed, u64::from(search.runs()));
            let value = 1000.0 + noise + if bad[wish.node] { effect } else { 0.0 };
            let build = wish.build.unwrap_or(wish.node as u64);
            let observed = search.observe(wish.node, build, Outcome::Value(value));
            observed.map_err(MeasureError::machine)?;
        }
        visited.insert(wish.node);
    }
    Ok((search.runs(), visited.len()))
}

/// Which commits contain `culprit`.
fn descendants(parents: &[Vec<usize>], culprit: usize) -> Vec<bool> {
    let mut bad = vec![false; parents.len()];
    for node in 0..parents.len() {
        bad[node] = node == culprit || parents[node].iter().any(|&parent| bad[parent]);
    }
    bad
}

/// A standard normal number (Box and Muller).
fn normal(seed: u64, index: u64) -> f64 {
    let unit =
        |which: u64| ((mixed(seed, 2 * index + which) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * unit(0).ln()).sqrt() * (std::f64::consts::TAU * unit(1)).cos()
}
