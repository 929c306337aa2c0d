//! From flags to the run: the mix and the load points.

use super::{Load, Points};
use crate::fail::Failure;
use clap::Args;
use convoy_workload::jobs::Job;
use convoy_workload::mix::Mix;
use convoy_workload::schedule::{self, Schedule, Until};
use convoy_workload::sizes::{self, Convention};
use convoy_workload::users::{self, MOST_USERS_HOST};
use std::time::Duration;

/// Load points where nothing says which.
const DEFAULT_USERS: &str = "1,2,10";
/// Last number of users of a sweep where nothing says which; re-aim's.
const DEFAULT_END: u32 = 5;
/// Longest start delay, seconds.
const LONGEST_DELAY_S: f64 = 3600.0;
/// The quick crossover, jobs/min/task; re-aim's.
const QUICK: f64 = 60.0;

/// Where a sweep ends, if its measurements say so: for points that run one after the other.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Load points")]
pub(crate) struct Sweep {
    /// Let the increment follow the measurements, by AIM7's rules
    #[arg(long, conflicts_with = "users", hide_short_help = true)]
    pub(crate) adaptive: bool,
    /// End the sweep when jobs/min/task has fallen to this [1 if no number is given]
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, default_missing_value = "1")]
    #[arg(group = "until", conflicts_with = "users", hide_short_help = true)]
    pub(crate) crossover: Option<f64>,
    /// End the sweep when jobs/min/task has fallen to 60
    #[arg(long, group = "until", conflicts_with = "users", hide_short_help = true)]
    pub(crate) quick_crossover: bool,
    /// End the sweep once the peak of Jobs/Min has been passed
    #[arg(long, group = "until", conflicts_with = "users", hide_short_help = true)]
    pub(crate) peak: bool,
}

/// The mix, or the mix of one job, with its sizes.
pub(crate) fn mix(args: &Load) -> Result<Mix, Failure> {
    let mut mix = if let Some(name) = &args.job {
        Mix::of_job(Job::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
            Failure::usage(format!("no job called \"{name}\"; use one of: {}", known.join(" ")))
        })?)
    } else {
        Mix::load(args.mix.as_deref().unwrap_or("shared")).map_err(Failure::usage)?
    };
    if let Some(dialect) = &args.dialect {
        mix.set_dialect(dialect.parse().map_err(Failure::usage)?);
    }
    if let Some(convention) = &args.sizes {
        let convention: Convention = convention.parse().map_err(Failure::usage)?;
        mix.set_sizes(convention).map_err(Failure::usage)?;
    }
    let size = |flag: &Option<String>, now: u64| match flag {
        Some(text) => sizes::parse(text).map_err(Failure::usage),
        None => Ok(now),
    };
    mix.sizes.file_kb = size(&args.filesize, mix.sizes.file_kb)?;
    mix.sizes.pool_kb = size(&args.poolsize, mix.sizes.pool_kb)?;
    mix.jobs = args.jobs.unwrap_or(mix.jobs);
    mix.first = args.first;
    Ok(mix)
}

pub(crate) fn schedule(args: &Points, sweep: &Sweep) -> Result<Schedule, Failure> {
    let until = match sweep.crossover {
        Some(limit) if limit.is_finite() && limit >= 0.0 => Until::Crossover(limit),
        Some(_) => return Err(Failure::usage("--crossover must be a number from 0")),
        None if sweep.quick_crossover => Until::Crossover(QUICK),
        None if sweep.peak => Until::Peak,
        None => Until::End,
    };
    let (start, end, increment) = (args.start, args.end, args.increment);
    let numbers = [start, end, increment];
    let swept = numbers.iter().any(Option::is_some) || sweep.adaptive || until != Until::End;
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
    let adaptive = sweep.adaptive;
    Ok(Schedule::Sweep(schedule::Sweep { start, end, increment, adaptive, until }))
}

/// The start delay that the flags ask for.
pub(crate) fn start_delay(args: &Load) -> Result<Duration, Failure> {
    if (0.0..=LONGEST_DELAY_S).contains(&args.start_delay) {
        return Ok(Duration::from_secs_f64(args.start_delay));
    }
    Err(Failure::usage(format!("--start-delay must be 0 to {LONGEST_DELAY_S} seconds")))
}
