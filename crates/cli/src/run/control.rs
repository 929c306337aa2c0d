//! From flags to what is run: the mix, the load points, the repetitions.

use super::args::{Load, Points, RepeatArgs};
use crate::fail::Failure;
use convoy_host::inject::{self, Fault};
use convoy_host::repeat::Repeats;
use convoy_workload::jobs::Job;
use convoy_workload::mix::Mix;
use convoy_workload::reaim_config::ReaimConfig;
use convoy_workload::schedule::{Schedule, Sweep, Until};
use convoy_workload::sizes::{self, Convention};
use convoy_workload::users::{self, MOST_USERS_HOST};
use std::time::Duration;

/// Load points where nothing says which.
const DEFAULT_USERS: &str = "1,2,10";
/// Last number of users of a sweep where nothing says which; re-aim's.
const DEFAULT_END: u32 = 5;
/// Executions before the interval of `--precise` is first looked at: two are too few to tell.
const LEAST_FOR_PRECISION: u32 = 3;
/// The quick crossover, jobs/min/task; re-aim's.
const QUICK: f64 = 60.0;
/// Longest time that a flag may ask for, seconds.
const LONGEST_S: f64 = 1e6;

/// What `--config` names; nothing if there is none.
pub(super) fn config(args: &Load) -> Result<ReaimConfig, Failure> {
    let config = args.config.as_deref().map(ReaimConfig::load);
    config.transpose().map(Option::unwrap_or_default).map_err(Failure::usage)
}

/// The mix, or the mix of one job, with its sizes.
pub(super) fn mix(args: &Load, config: &ReaimConfig) -> Result<Mix, Failure> {
    let mut mix = if let Some(name) = &args.job {
        Mix::of_job(Job::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
            Failure::usage(format!("no job called \"{name}\"; use one of: {}", known.join(" ")))
        })?)
    } else {
        // AIM9's list of jobs is the one that the single-user mode is for.
        let default = if args.aim9 { "aim9" } else { "shared" };
        Mix::load(args.mix.as_deref().unwrap_or(default)).map_err(Failure::usage)?
    };
    if let Some(convention) = &args.sizes {
        let convention: Convention = convention.parse().map_err(Failure::usage)?;
        mix.set_sizes(convention).map_err(Failure::usage)?;
    }
    let size = |flag: &Option<String>, configured: Option<u64>, now: u64| match flag {
        Some(text) => sizes::parse(text).map_err(Failure::usage),
        None => Ok(configured.unwrap_or(now)),
    };
    mix.sizes.file_kb = size(&args.filesize, config.sizes.file_kb, mix.sizes.file_kb)?;
    mix.sizes.pool_kb = size(&args.poolsize, config.sizes.pool_kb, mix.sizes.pool_kb)?;
    mix.jobs = args.jobs.or(config.jobs).unwrap_or(mix.jobs);
    Ok(mix)
}

/// The load points.
pub(super) fn schedule(args: &Points, config: &ReaimConfig) -> Result<Schedule, Failure> {
    let until = match args.crossover {
        Some(limit) if limit.is_finite() && limit >= 0.0 => Until::Crossover(limit),
        Some(_) => return Err(Failure::usage("--crossover must be a number from 0")),
        None if args.quick_crossover => Until::Crossover(QUICK),
        None if args.peak => Until::Peak,
        None if config.crossover && args.users.is_none() => Until::Crossover(1.0),
        None => Until::End,
    };
    let start = args.start.or(config.start_users);
    let end = args.end.or(config.end_users);
    let increment = args.increment.or(config.increment);
    let numbers = [start, end, increment];
    let swept = numbers.iter().any(Option::is_some) || args.adaptive || until != Until::End;
    if !swept || args.users.is_some() {
        let list = args.users.as_deref().unwrap_or(DEFAULT_USERS);
        return users::parse(list).map(Schedule::List).map_err(Failure::usage);
    }
    let start = start.unwrap_or(1);
    let default_end = if until == Until::End { DEFAULT_END } else { MOST_USERS_HOST };
    let end = end.unwrap_or(default_end.max(start));
    if start > end {
        return Err(Failure::usage(format!("--start {start} is above --end {end}; exchange them")));
    }
    if end > users::MOST_USERS {
        let most = users::MOST_USERS;
        return Err(Failure::usage(format!("--end {end} is too many; at most {most} users")));
    }
    let increment = increment.unwrap_or(1);
    Ok(Schedule::Sweep(Sweep { start, end, increment, adaptive: args.adaptive, until }))
}

/// How often each point is executed.
pub(super) fn repeats(args: &RepeatArgs) -> Result<Repeats, Failure> {
    let precision = args.precise.as_deref().map(precision).transpose()?;
    let least = args.repeat.unwrap_or(if precision.is_some() { LEAST_FOR_PRECISION } else { 1 });
    let min_duration = seconds("--min-duration", args.min_duration)?;
    let most = args.max_repeats.max(least);
    Ok(Repeats { warmup: args.warmup, least, most, min_duration, precision })
}

/// `1%` or `1` as 0.01.
fn precision(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    let percent = number.filter(|percent| (0.001..=100.0).contains(percent)).ok_or_else(|| {
        let cure = "give percent from 0.001 to 100, such as 1%";
        Failure::usage(format!("--precise {text} is no precision; {cure}"))
    })?;
    Ok(percent / 100.0)
}

/// A time that a flag gives.
pub(super) fn seconds(flag: &str, seconds: f64) -> Result<Duration, Failure> {
    if (0.0..=LONGEST_S).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(Failure::usage(format!("{flag} must be 0 to {LONGEST_S} seconds")))
    }
}

/// The fault that the environment asks for.
pub(super) fn fault() -> Result<Option<Fault>, Failure> {
    let text = std::env::var(inject::VARIABLE).ok().filter(|text| !text.is_empty());
    text.map(|text| Fault::parse(&text)).transpose().map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_are_percent() {
        assert_eq!(precision("1%").ok(), Some(0.01));
        assert_eq!(precision(" 2.5 % ").ok(), Some(0.025));
        for wrong in ["", "%", "0", "-1", "101%", "nan", "inf", "x"] {
            assert!(precision(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_not_negative_or_endless() {
        assert!(seconds("--x", 0.5).is_ok());
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert!(seconds("--x", wrong).is_err(), "{wrong}");
        }
    }
}
