//! `--dry-run`: how long a search would take, found by searching this very history with made-up
//! values of several effects.

use super::args::Bisect;
use super::confirm::mixed;
use super::git::{Commits, Git};
use super::session::search_of;
use super::{prior, settings};
use crate::args::Format;
use crate::fail::Failure;
use crate::output;
use convoy_report::{Cell, Column, Table};
use convoy_stats::bisect::{Outcome, Search, Step};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Effects over the standard deviation of one run.
const EFFECTS: [f64; 4] = [10.0, 5.0, 2.0, 1.0];
/// Searches for each effect.
const TRIALS: u64 = 5;
/// Runs after which a trial is given up.
const MOST_RUNS: u32 = 2000;

/// The command with `--dry-run`.
pub(crate) fn run(args: &Bisect) -> Result<ExitCode, Failure> {
    let git = Git::open(&args.repo)?;
    let mut settings = settings::of(args, &git)?;
    settings.max_runs = Some(settings.max_runs.unwrap_or(MOST_RUNS).min(MOST_RUNS));
    let ends = settings.ends();
    let commits = git.commits(&ends, settings.first_parent)?;
    let prior = prior(&git, &ends, &settings, &commits)?;
    let candidates: Vec<usize> = (1..commits.list.len())
        .filter(|&node| prior.as_ref().is_none_or(|prior| prior[node] > 0.0))
        .collect();
    let columns = vec![
        Column::number("effect / noise", "").key("effect_over_noise"),
        Column::number("runs", "").key("runs"),
        Column::number("least", "").key("runs_least"),
        Column::number("most", "").key("runs_most"),
        Column::number("builds", "").key("builds"),
    ];
    let [good, bad] = commits.ends().map(|end| commits.list[end].short());
    let title = format!("{} commits suspected from {good} to {bad}", candidates.len());
    let mut table = Table::new(&title, columns);
    let mut rows = Vec::new();
    for effect in EFFECTS {
        let mut runs = Vec::new();
        let mut builds = 0;
        for trial in 0..TRIALS {
            let draw = mixed(settings.seed, 1000 * trial + effect as u64);
            let culprit = candidates[draw as usize % candidates.len()];
            let costs = Some([1.0, settings.build_cost.unwrap_or(0.0), 0.0]);
            let search = search_of(&settings, &commits, prior.as_ref(), costs)?;
            let (of_runs, of_builds) = search_once(search, &commits, culprit, effect, draw)?;
            runs.push(of_runs);
            builds += of_builds;
        }
        runs.sort_unstable();
        let mean = f64::from(runs.iter().sum::<u32>()) / runs.len() as f64;
        let builds = builds as f64 / runs.len() as f64;
        let (least, most) = (u64::from(runs[0]), u64::from(runs[runs.len() - 1]));
        table.row(vec![
            Cell::number(effect, 0),
            Cell::number(mean, 0),
            Cell::count(least),
            Cell::count(most),
            Cell::number(builds, 0),
        ]);
        rows.push(serde_json::json!({
            "effect_over_noise": effect, "runs": mean, "runs_least": least, "runs_most": most,
            "builds": builds,
        }));
    }
    table.note(format!(
        "{TRIALS} simulated searches each of this history, at {} confidence, Gaussian noise; the \
         confirmation adds {} runs",
        settings.confidence,
        2 * settings.confirm
    ));
    let json = serde_json::json!({
        "good": settings.good, "bad": settings.bad, "commits": candidates.len(), "expected": rows,
    });
    let text = match args.common.format {
        Format::Table => table.to_text(),
        Format::Json => serde_json::to_string_pretty(&json).map_err(Failure::environment)?,
        Format::Csv => table.to_csv(),
    };
    output::result(&args.common, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Searches with made-up values: the runs and builds that it took.
fn search_once(
    mut search: Search,
    commits: &Commits,
    culprit: usize,
    effect: f64,
    seed: u64,
) -> Result<(u32, usize), Failure> {
    let bad = descendants(&commits.parents, culprit);
    let mut visited = BTreeSet::new();
    while let Step::Measure(wish) = search.next_step() {
        for _ in 0..wish.runs {
            let noise = normal(seed, u64::from(search.runs()));
            let value = 1000.0 + noise + if bad[wish.node] { effect } else { 0.0 };
            let build = wish.build.unwrap_or(wish.node as u64);
            let observed = search.observe(wish.node, build, Outcome::Value(value));
            observed.map_err(Failure::environment)?;
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
