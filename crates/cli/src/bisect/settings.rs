//! From flags to the settings of a search.

use super::args::{Bisect, Marked};
use crate::fail::Failure;
use convoy_measure::bisect::{Direction, Git, Settings};

/// Runs of a search unless a flag says otherwise: noise of 40 % hides a change of 1 % for longer.
const MOST_RUNS: u32 = 1000;
/// Longest time limit, seconds.
const LONGEST_S: f64 = 1e7;

/// The settings that `args` mean.
pub(crate) fn of(args: &Bisect, git: &Git) -> Result<Settings, Failure> {
    numbers(args)?;
    let (words, good, bad) = match &args.marked {
        Some(Marked::Run { command }) => {
            let (good, bad) = Git::marked(&args.repo)?;
            (command, Some(good), Some(bad))
        }
        None => (&args.command, args.good.clone(), args.bad.clone()),
    };
    let ends = git.ends(&good.unwrap_or_default(), &bad.unwrap_or_default())?;
    let command: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let command =
        command.ok_or_else(|| Failure::usage("the command is no UTF-8; put it into a script"))?;
    let metric = args.metric.choice();
    let direction = match (args.higher_is_better, args.lower_is_better || !args.metric.is_printed())
    {
        (true, _) => Direction::HigherIsBetter,
        (_, true) => Direction::LowerIsBetter,
        _ => Direction::Either,
    };
    Ok(Settings {
        schema: Settings::schema(),
        convoy: env!("CARGO_PKG_VERSION").to_owned(),
        repo: git.common_directory().to_string_lossy().into_owned(),
        good: ends.good,
        bad: ends.bad,
        note: ends.note,
        first_parent: args.first_parent,
        path: args.path.clone(),
        path_weight: args.path_weight,
        build: args.build.clone(),
        command,
        metric: metric.resource.name().to_owned(),
        metric_regex: metric.regex,
        metric_json: metric.json,
        unit: metric.unit,
        confidence: args.confidence,
        direction,
        min_effect: args.min_effect,
        timeout: args.timeout,
        build_timeout: args.build_timeout,
        retries: args.retries,
        max_runs: Some(args.max_runs.unwrap_or(MOST_RUNS)),
        max_builds: args.max_builds,
        build_cost: args.build_cost,
        layout: args.layout,
        keep_builds: args.keep_builds,
        incremental: args.incremental,
        jobs: args.jobs,
        cpus: args.cpus.as_ref().map(|cpus| cpus.0.clone()),
        confirm: args.confirm,
        seed: args.seed,
    })
}

fn numbers(args: &Bisect) -> Result<(), Failure> {
    let within = |flag: &str, value: Option<f64>, low: f64, high: f64| match value {
        Some(value) if !(low..=high).contains(&value) => {
            Err(Failure::usage(format!("{flag} {value}: give a number from {low} to {high}")))
        }
        _ => Ok(()),
    };
    within("--confidence", Some(args.confidence), 0.5, 0.999_999)?;
    within("--min-effect", Some(args.min_effect), 0.0, 1e6)?;
    within("--timeout", args.timeout, 0.001, LONGEST_S)?;
    within("--build-timeout", args.build_timeout, 0.001, LONGEST_S)?;
    within("--path-weight", args.path_weight, 0.001, 1e6)?;
    within("--build-cost", args.build_cost, 0.0, 1e9)
}
