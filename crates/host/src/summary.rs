//! Summary of the users' records of a load point: one execution, and several together.

use convoy_stats::LogHistogram;

use super::board::{Board, Head};
use super::error::At;
use super::supervisor::Plan;
use convoy_os::clock::CpuTicks;
use convoy_workload::columns::Columns;
use convoy_workload::jobs::Job;
use convoy_workload::record::{Cause, JobStats, Point, Repeat, order_hash};

/// One execution of a load point.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    users: u32,
    columns: Columns,
    user_s: f64,
    system_s: f64,
    voluntary: u64,
    involuntary: u64,
    minor_faults: u64,
    major_faults: u64,
    ticks: Option<CpuTicks>,
    skew_s: Option<f64>,
    skew_p99_s: Option<f64>,
    /// Wall time beyond Real, seconds.
    pub(super) overhead_s: f64,
    users_lost: u32,
    jobs: Vec<JobSum>,
    /// The first failure of a job, or the first user that was killed.
    pub(super) cause: Option<Cause>,
}

/// What all users did with one kind of job.
#[derive(Clone, Debug)]
struct JobSum {
    job: Job,
    runs: u64,
    failures: u64,
    total_ns: u64,
    max_ns: u64,
    latencies: LogHistogram,
}

impl Execution {
    /// Reads a board after all users have exited, `wall_s` seconds in all; `None` if no user
    /// finished.
    pub(super) fn new(board: &Board, jobs: &[(Job, u32)], wall_s: f64) -> Option<Self> {
        let start = board.get(Head::Start);
        let since = |ns: u64| ns.saturating_sub(start) as f64 / 1e9;
        let ends: Vec<f64> = board.slots().filter_map(|slot| slot.ended_ns()).map(since).collect();
        if ends.is_empty() {
            return None;
        }
        let mut begins: Vec<f64> =
            board.slots().filter_map(|slot| slot.begun_ns()).map(since).collect();
        begins.sort_by(f64::total_cmp);
        // In a shorter run, some of the jobs may not be executed at all.
        let done = jobs.iter().filter(|(job, _)| board.knows(*job));
        let jobs: Vec<JobSum> = done.map(|(job, _)| JobSum::new(board, *job)).collect();
        let done: u64 = jobs.iter().map(|job| job.runs - job.failures).sum();
        let columns = Columns::new(board.users(), done, &ends);
        let [user_s, system_s] =
            [Head::UserNs, Head::SystemNs].map(|head| board.get(head) as f64 / 1e9);
        let first = begins.first().copied();
        Some(Self {
            users: board.users(),
            columns,
            user_s,
            system_s,
            voluntary: board.get(Head::Voluntary),
            involuntary: board.get(Head::Involuntary),
            minor_faults: board.get(Head::MinorFaults),
            major_faults: board.get(Head::MajorFaults),
            ticks: board.ticks(),
            skew_s: begins.last().zip(first).map(|(last, first)| last - first),
            // The nearest rank.
            skew_p99_s: begins.get((begins.len() * 99).div_ceil(100).max(1) - 1).copied(),
            overhead_s: (wall_s - columns.real_s).max(0.0),
            users_lost: board.get(Head::Lost) as u32,
            jobs,
            cause: cause(board),
        })
    }

    /// Jobs/Min.
    pub(super) fn jobs_per_min(&self) -> f64 {
        self.columns.jobs_per_min
    }

    /// Real, seconds.
    pub(super) fn real_s(&self) -> f64 {
        self.columns.real_s
    }

    fn repeat(&self) -> Repeat {
        Repeat {
            jobs_per_min: self.columns.jobs_per_min,
            jti: self.columns.jti,
            real_s: self.columns.real_s,
            cpu_s: self.user_s + self.system_s,
        }
    }
}

impl JobSum {
    fn new(board: &Board, job: Job) -> Self {
        let tallies: Vec<_> = board.slots().map(|slot| slot.tally(job)).collect();
        Self {
            job,
            runs: tallies.iter().map(|tally| tally.runs).sum(),
            failures: tallies.iter().map(|tally| tally.failures).sum(),
            total_ns: tallies.iter().map(|tally| tally.total_ns).sum(),
            max_ns: tallies.iter().map(|tally| tally.longest_ns).max().unwrap_or(0),
            latencies: board.latencies(job),
        }
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.failures += other.failures;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.latencies.merge(&other.latencies);
    }

    fn stats(&self) -> JobStats {
        JobStats {
            job: self.job.name().to_owned(),
            runs: self.runs,
            failures: self.failures,
            mean_ns: self.total_ns as f64 / self.runs.max(1) as f64,
            max_ns: self.max_ns,
            p50_ns: self.latencies.percentile(50.0),
            p99_ns: self.latencies.percentile(99.0),
            alone_ns: None,
        }
    }
}

/// Returns why a finished execution did not run the whole load.
fn cause(board: &Board) -> Option<Cause> {
    let failed = board.slots().zip(1..).find_map(|(slot, user)| Some((user, slot.failure()?)));
    if let Some((user, failure)) = failed {
        let text = format!("user {user}: {}", failure.text);
        let job = failure.job.map(Job::name);
        let at = At { user: Some(user), job, call: Some(failure.call), errno: failure.errno };
        return Some(at.cause(text));
    }
    let user = Some(board.get(Head::LostUser) as u32).filter(|user| *user > 0)?;
    let text = match board.get(Head::LostSignal) as i32 {
        0 => format!("user {user} ended before its jobs were done; this is a defect"),
        libc::SIGKILL => {
            format!("user {user} was killed by SIGKILL; check for memory pressure (dmesg)")
        }
        signal => format!("user {user} was killed by signal {signal}; run it again"),
    };
    Some(At { user: Some(user), ..At::default() }.cause(text))
}

fn mean(all: &[Execution], value: impl Fn(&Execution) -> f64) -> f64 {
    all.iter().map(value).sum::<f64>() / all.len() as f64
}

/// The mean of what each execution knows; `None` if one does not.
fn known(all: &[Execution], value: impl Fn(&Execution) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = all.iter().map(value).collect();
    values.map(|values| values.iter().sum::<f64>() / all.len() as f64)
}

/// The mean of a count per second.
fn rate(all: &[Execution], count: impl Fn(&Execution) -> u64) -> f64 {
    mean(all, |one| count(one) as f64 / one.columns.real_s)
}

/// The mean share of a part of the ticks, percent.
fn share(all: &[Execution], part: impl Fn(&CpuTicks) -> u64) -> Option<f64> {
    known(all, |one| one.ticks.map(|ticks| 100.0 * part(&ticks) as f64 / ticks.total as f64))
}

/// The load point that was executed as `all` say, at least once: sums of counts, means of the rest.
pub(super) fn point(all: &[Execution], plan: &Plan, cpus: u32) -> Point {
    let cpu_s = mean(all, |one| one.user_s + one.system_s);
    let real_s = mean(all, |one| one.columns.real_s);
    let idle_percent = share(all, |ticks| ticks.idle);
    let used_percent = 100.0 * cpu_s / (real_s * f64::from(cpus));
    let mut jobs = all[0].jobs.clone();
    for more in &all[1..] {
        jobs.iter_mut().zip(&more.jobs).for_each(|(sum, job)| sum.add(job));
    }
    let cause = all.iter().find_map(|one| one.cause.clone());
    let point = Point {
        users: all[0].users,
        repeats: all.iter().map(Execution::repeat).collect(),
        cpu_s,
        user_s: mean(all, |one| one.user_s),
        system_s: mean(all, |one| one.system_s),
        user_percent: share(all, |ticks| ticks.user),
        system_percent: share(all, |ticks| ticks.system),
        steal_percent: share(all, |ticks| ticks.steal),
        idle_percent,
        other_percent: idle_percent.map(|idle| (100.0 - idle - used_percent).max(0.0)),
        context_switches_per_s: Some(rate(all, |one| one.voluntary + one.involuntary)),
        involuntary_switches_per_s: Some(rate(all, |one| one.involuntary)),
        page_faults_per_s: Some(rate(all, |one| one.minor_faults + one.major_faults)),
        major_faults_per_s: Some(rate(all, |one| one.major_faults)),
        overhead_s: Some(mean(all, |one| one.overhead_s)),
        start_skew_s: known(all, |one| one.skew_s),
        start_skew_p99_s: known(all, |one| one.skew_p99_s),
        jobs_done: jobs.iter().map(|job| job.runs - job.failures).sum(),
        jobs_failed: jobs.iter().map(|job| job.failures).sum(),
        users_lost: all.iter().map(|one| one.users_lost).sum(),
        first_failure: cause.as_ref().filter(|cause| cause.job.is_some()).map(|c| c.text.clone()),
        failed: cause,
        jobs: jobs.iter().map(JobSum::stats).collect(),
        ..planned(plan)
    };
    point.with_columns(&mean_columns(all))
}

/// Returns a load point with its plan and without results.
pub(super) fn planned(plan: &Plan) -> Point {
    Point {
        users: plan.orders.len() as u32,
        file_kb: plan.env.file_kb,
        order_hash: order_hash(&plan.orders),
        first_order: plan.orders[0].iter().map(|job| job.name().to_owned()).collect(),
        ..Point::default()
    }
}

fn mean_columns(all: &[Execution]) -> Columns {
    Columns {
        real_s: mean(all, |one| one.columns.real_s),
        jobs_per_min: mean(all, |one| one.columns.jobs_per_min),
        jobs_per_min_per_task: mean(all, |one| one.columns.jobs_per_min_per_task),
        jobs_per_sec_per_task: mean(all, |one| one.columns.jobs_per_sec_per_task),
        // Whole, as everywhere.
        jti: mean(all, |one| f64::from(one.columns.jti)) as u32,
        jti_compat: mean(all, |one| f64::from(one.columns.jti_compat)) as i32,
        longest_s: mean(all, |one| one.columns.longest_s),
        shortest_s: mean(all, |one| one.columns.shortest_s),
        std_dev_s: mean(all, |one| one.columns.std_dev_s),
        std_dev_percent: mean(all, |one| one.columns.std_dev_percent),
    }
}
