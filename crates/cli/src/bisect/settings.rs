//! From flags to what is fixed when a search begins.

use super::args::Bisect;
use super::confirm::mixed;
use super::git::{Ends, Git};
use super::journal::{Direction, Settings};
use crate::fail::Failure;
use clap::ValueEnum as _;
use std::path::{Path, PathBuf};

/// Runs of a search unless a flag says otherwise: noise of 40 % hides a change of 1 % for longer.
const MOST_RUNS: u32 = 1000;
/// Longest time limit, seconds.
const LONGEST_S: f64 = 1e7;

/// The settings that `args` mean.
pub(crate) fn of(args: &Bisect, git: &Git) -> Result<Settings, Failure> {
    numbers(args)?;
    let (good, bad) = (args.good.as_deref(), args.bad.as_deref());
    let ends = git.ends(good.unwrap_or_default(), bad.unwrap_or_default())?;
    let command: Option<Vec<String>> =
        args.command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let command =
        command.ok_or_else(|| Failure::usage("the command is no UTF-8; put it into a script"))?;
    let metric = args.metric.metric.to_possible_value();
    let printed = args.metric.metric_regex.is_some() || args.metric.metric_json.is_some();
    let direction = match (args.higher_is_better, args.lower_is_better || !printed) {
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
        metric: metric.map(|value| value.get_name().to_owned()).unwrap_or_default(),
        metric_regex: args.metric.metric_regex.clone(),
        metric_json: args.metric.metric_json.clone(),
        unit: args.metric.unit.clone(),
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
        cpus: args.cpus.as_deref().map(cpus).transpose()?,
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

/// A list such as 0,2-3.
fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    let wrong = || Failure::usage(format!("--cpus {list}: give numbers such as 0,2-3"));
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&cpu| cpu < 1024);
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = number(first).ok_or_else(wrong)?;
        let last = number(last).filter(|&last| last >= first).ok_or_else(wrong)?;
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// The directory of the searches in one repository, unless a flag names another.
pub(crate) fn state_of(git: &Git) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let cache = cache.ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_CACHE_HOME says where state may be; give --state DIR")
    })?;
    let common = git.common_directory();
    let bytes = common.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0, |hash, byte| mixed(hash, u64::from(*byte)));
    let tree = common.file_name().filter(|name| *name != ".git").map(Path::new);
    let tree = tree.or_else(|| common.parent()?.file_name().map(Path::new));
    let name = tree.map_or("repository".into(), |name| name.to_string_lossy());
    Ok(cache.join("convoy").join(format!("bisect-{name}-{:08x}", hash as u32)))
}

/// `path` from the root: commands run elsewhere.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| {
        Failure::environment(format!("cannot use {}: {error}; give --state DIR", path.display()))
    })
}

impl Settings {
    /// The ends of the search.
    pub(crate) fn ends(&self) -> Ends {
        Ends { good: self.good.clone(), bad: self.bad.clone(), note: self.note.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0,2-4").expect("a list"), [0, 2, 3, 4]);
        for wrong in ["", "a", "3-1", "1-", "5000"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }
}
