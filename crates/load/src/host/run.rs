//! Runs a mix on this machine, load point after load point.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::board::{Board, Head};
use super::costs::Costs;
use super::error::HostError;
use super::point::run_plan;
use super::supervisor::Plan;
use super::sys::{self, InterruptGuard};
use super::workdir::WorkDir;
use crate::calibrate::describe_host;
use crate::clock;
use crate::columns::Columns;
use crate::jobs::{Job, JobEnv};
use crate::mix::Mix;
use crate::record::{JobStats, Point, RunRecord, SCHEMA, order_hash};

/// What to run.
#[derive(Clone, Debug)]
pub struct HostRun {
    /// The mix.
    pub mix: Mix,
    /// The load points: numbers of users.
    pub users: Vec<u32>,
    /// Seed of the orders and offsets.
    pub seed: u64,
    /// Where to make the work directory; a tmpfs if `None`.
    pub directory: Option<PathBuf>,
    /// Time inside Real before the users are let go; 0 measures the load, 10 s is AIM7 of 1996.
    pub start_delay: Duration,
    /// Divides every loop count; 1 is AIM7's size.
    pub shrink: u32,
    /// Whether `shell_rtns_2` sleeps as re-aim's does.
    pub shell_sleep: bool,
    /// Whether to measure each job alone, for the measured/predicted ratio.
    pub predict: bool,
}

impl HostRun {
    /// `mix` with `users` users: full size, no delay, seed 1, predicted.
    pub fn new(mix: Mix, users: Vec<u32>) -> Self {
        Self {
            mix,
            users,
            seed: 1,
            directory: None,
            start_delay: Duration::ZERO,
            shrink: 1,
            shell_sleep: false,
            predict: true,
        }
    }
}

/// What a run tells while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The jobs are measured alone, for the load point of so many users.
    Measuring {
        /// The users.
        users: u32,
    },
    /// A load point of so many users has begun.
    Running {
        /// The users.
        users: u32,
    },
    /// A load point has ended.
    Finished {
        /// Its result.
        point: Box<Point>,
    },
}

/// One run at a time in a process: two would measure each other, and an interrupt has one
/// addressee.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs all load points.
///
/// # Errors
/// [`HostError`], always after everything that the run made has been removed.
pub fn run(options: &HostRun, mut progress: impl FnMut(&Progress)) -> Result<RunRecord, HostError> {
    // The lock protects no data: a panic under it does not matter.
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _guard = InterruptGuard::new();
    let mut costs = Costs::default();
    let mut record = RunRecord {
        schema: SCHEMA,
        target: "host".to_owned(),
        mix: options.mix.name.clone(),
        seed: options.seed,
        shrink: options.shrink.max(1),
        start_delay_s: options.start_delay.as_secs_f64(),
        host: describe_host(),
        ..RunRecord::default()
    };
    for &users in &options.users {
        let point = run_point(options, users, &mut costs, &mut record, &mut progress)?;
        progress(&Progress::Finished { point: Box::new(point.clone()) });
        record.points.push(point);
    }
    Ok(record)
}

/// One load point, in a fresh work directory.
fn run_point(
    options: &HostRun,
    users: u32,
    costs: &mut Costs,
    record: &mut RunRecord,
    progress: &mut impl FnMut(&Progress),
) -> Result<Point, HostError> {
    let jobs = options.mix.counts();
    let file_kb = options.mix.file_kb(users);
    let environment = |directory: &WorkDir| JobEnv {
        directory: directory.name(),
        user: 0,
        file_kb,
        seed: options.seed,
        shrink: options.shrink.max(1),
        shell_sleep: options.shell_sleep,
    };
    if options.predict {
        progress(&Progress::Measuring { users });
        let directory = new_directory(options)?;
        costs.measure(&jobs, &environment(&directory), &directory)?;
    }
    progress(&Progress::Running { users });
    let directory = new_directory(options)?;
    record.work_directory = Some(directory.description());
    let orders = (0..users).map(|user| options.mix.order(options.seed, user)).collect();
    let plan = Plan { env: environment(&directory), orders, delay: options.start_delay };
    let board = run_plan(&plan, &directory)?;
    let mut point = summarize(&board, &plan, &jobs)?;
    let cpus = clock::cpus();
    if options.predict {
        for stats in &mut point.jobs {
            let job = Job::parse(&stats.job);
            stats.alone_ns = job.and_then(|job| costs.alone_ns(job, file_kb));
        }
        let busy_s = point.real_s - options.start_delay.as_secs_f64();
        point.predicted_s = costs.predict(&jobs, file_kb, users, cpus);
        point.measured_over_predicted = point.predicted_s.map(|s| busy_s / s);
    }
    Ok(point)
}

/// A work directory, unless the run has been interrupted.
fn new_directory(options: &HostRun) -> Result<WorkDir, HostError> {
    if sys::interrupted() {
        return Err(HostError::Interrupted);
    }
    WorkDir::new(options.directory.as_deref())
}

/// What the users recorded, as a point of the record.
fn summarize(board: &Board, plan: &Plan, jobs: &[(Job, u32)]) -> Result<Point, HostError> {
    let start = board.get(Head::Start);
    let since_start = |ns: u64| ns.saturating_sub(start) as f64 / 1e9;
    let ends: Vec<f64> =
        board.slots().filter_map(|slot| slot.ended_ns()).map(since_start).collect();
    if ends.is_empty() {
        return Err(HostError::AllLost { users: board.users() });
    }
    let stats: Vec<JobStats> = jobs.iter().map(|(job, _)| job_stats(board, *job)).collect();
    let runs: u64 = stats.iter().map(|stats| stats.runs).sum();
    let jobs_failed: u64 = stats.iter().map(|stats| stats.failures).sum();
    let columns = Columns::new(board.users(), runs - jobs_failed, &ends);
    let cpu_s = board.get(Head::CpuNs) as f64 / 1e9;
    let used_percent = 100.0 * cpu_s / (columns.real_s * f64::from(clock::cpus()));
    let idle_percent = idle_percent(board);
    let point = Point {
        users: board.users(),
        cpu_s,
        idle_percent,
        other_percent: idle_percent.map(|idle| (100.0 - idle - used_percent).max(0.0)),
        context_switches_per_s: Some(board.get(Head::Switches) as f64 / columns.real_s),
        start_skew_s: start_skew_s(board),
        jobs_done: runs - jobs_failed,
        jobs_failed,
        users_lost: board.get(Head::Lost) as u32,
        first_failure: first_failure(board),
        file_kb: plan.env.file_kb,
        order_hash: order_hash(&plan.orders),
        first_order: plan.orders[0].iter().map(|job| job.name().to_owned()).collect(),
        jobs: stats,
        ..Point::default()
    };
    Ok(point.with_columns(&columns))
}

fn idle_percent(board: &Board) -> Option<f64> {
    let total = Some(board.get(Head::TotalTicks)).filter(|total| *total > 0)?;
    Some(100.0 * board.get(Head::IdleTicks) as f64 / total as f64)
}

fn start_skew_s(board: &Board) -> Option<f64> {
    let begun = || board.slots().filter_map(|slot| slot.begun_ns());
    Some((begun().max()? - begun().min()?) as f64 / 1e9)
}

fn first_failure(board: &Board) -> Option<String> {
    board
        .slots()
        .zip(1..)
        .find_map(|(slot, user): (_, u32)| Some(format!("user {user}: {}", slot.failure()?.0)))
}

fn job_stats(board: &Board, job: Job) -> JobStats {
    let tallies = || board.slots().map(|slot| slot.tally(job));
    let runs: u64 = tallies().map(|tally| tally.runs).sum();
    let total_ns: u64 = tallies().map(|tally| tally.total_ns).sum();
    JobStats {
        job: job.name().to_owned(),
        runs,
        failures: tallies().map(|tally| tally.failures).sum(),
        mean_ns: total_ns as f64 / runs.max(1) as f64,
        max_ns: tallies().map(|tally| tally.longest_ns).max().unwrap_or(0),
        alone_ns: None,
    }
}
