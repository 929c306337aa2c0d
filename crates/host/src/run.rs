//! Runs a mix on this machine, load point after load point.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::costs::Costs;
use super::error::HostError;
use super::inject::Fault;
use super::limits::{self, Need};
use super::point::run_plan;
use super::repeat::{Looks, Repeats};
use super::summary::{self, Execution};
use super::supervisor::Plan;
use super::sys::aio::Engine;
use super::workdir::{self, WorkDirs};
use crate::identity::describe_host;
use convoy_os::Disturbance;
use convoy_os::clock;
use convoy_os::{Interrupts, Surroundings};
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::mix::Mix;
use convoy_workload::record::{Point, RunRecord, SCHEMA};
use convoy_workload::schedule::{Schedule, Seen};

/// What to run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of the user")]
pub struct HostRun {
    /// The mix.
    pub mix: Mix,
    /// The load points: numbers of users.
    pub schedule: Schedule,
    /// Seed of the orders and offsets.
    pub seed: u64,
    /// Where to make the work directories, which users take in turn; a tmpfs if there are none.
    pub directories: Vec<PathBuf>,
    /// Time inside Real before the users are let go; 0 measures the load, 10 s is AIM7 of 1996.
    pub start_delay: Duration,
    /// Divides every loop count; 1 is AIM7's size.
    pub shrink: u32,
    /// Whether `shell_rtns_2` sleeps as re-aim's does.
    pub shell_sleep: bool,
    /// Whether the disk jobs that are not "buffered" call `sync`, as re-aim's do without `-y`.
    pub sync: bool,
    /// Whether to measure each job alone, for the measured/predicted ratio.
    pub predict: bool,
    /// How often each point is executed.
    pub repeats: Repeats,
    /// Whether users are bound to the CPUs in turn.
    pub pin: bool,
    /// Whether the points after a failed one run.
    pub go_on: bool,
    /// Whether to run although a limit is too low.
    pub force: bool,
    /// A fault to inject.
    pub fault: Option<Fault>,
}

impl HostRun {
    /// `mix` with `users` users: full size, once, no delay, seed 1, predicted.
    pub fn new(mix: Mix, users: Vec<u32>) -> Self {
        Self {
            mix,
            schedule: Schedule::List(users),
            seed: 1,
            directories: Vec::new(),
            start_delay: Duration::ZERO,
            shrink: 1,
            shell_sleep: false,
            sync: false,
            predict: true,
            repeats: Repeats::default(),
            pin: false,
            go_on: false,
            force: false,
            fault: None,
        }
    }
}

/// Progress events of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The jobs are measured alone, for the load point of this number of users.
    Measuring {
        /// The users.
        users: u32,
    },
    /// An execution of a load point has begun.
    Running {
        /// The users.
        users: u32,
        /// Executions before this one, warm-up included.
        before: u32,
    },
    /// It is running.
    Working {
        /// The users.
        users: u32,
        /// Jobs that they have done.
        done: u64,
        /// Jobs that they have to do.
        of: u64,
    },
    /// A load point has ended, well or not.
    Finished {
        /// The record so far, with this as its last point.
        record: Box<RunRecord>,
    },
}

/// Result of a run.
#[derive(Debug)]
pub struct Finished {
    /// The measurements, failed points included.
    pub record: RunRecord,
    /// Why the run ended before its last point.
    pub error: Option<HostError>,
}

impl Finished {
    /// The record, or the error that ended the run early.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn into_result(self) -> Result<RunRecord, HostError> {
        self.error.map_or(Ok(self.record), Err)
    }
}

/// One run at a time in a process: two would measure each other, and an interrupt has one
/// addressee.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs all load points. In all cases the measurements are kept and the files of the run are
/// removed.
pub fn run(options: &HostRun, progress: impl FnMut(&Progress)) -> Finished {
    // The lock protects no data: a panic under it does not matter.
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _guard = Interrupts::catch();
    let most = options.schedule.most_users();
    let mut run = Run::new(options, progress);
    workdir::remove_abandoned(&options.directories);
    // A sweep that may end early is checked as it goes.
    let known = if options.schedule.looks() { Ok(()) } else { run.check_limits(most) };
    let error = match known {
        Ok(()) => run.points(),
        Err(error) => Some(error),
    };
    run.record.unfinished = error.is_some();
    Finished { record: run.record, error }
}

/// Returns notes for readers of the figures of `mix`.
fn notes(mix: &Mix) -> Vec<String> {
    let mut notes: Vec<String> =
        mix.notes.iter().map(|note| format!("{}: {note}", mix.name)).collect();
    let mut jobs = mix.weights.iter().map(|(job, _)| *job);
    notes.extend(jobs.clone().filter_map(|job| match job {
        Job::Command(own) => Some(format!("{} runs: {}", own.name(), own.line())),
        _ => None,
    }));
    if jobs.any(Job::is_asynchronous) {
        notes.push(match Engine::available() {
            Ok(engine) => format!("asynchronous transfers: {}", engine.name()),
            Err(errno) => format!("asynchronous transfers: none here ({})", errno.name()),
        });
    }
    notes
}

/// A run on its way.
struct Run<'a, P> {
    options: &'a HostRun,
    counts: Vec<(Job, u32)>,
    cpus: u32,
    costs: Costs,
    record: RunRecord,
    progress: P,
}

impl<'a, P: FnMut(&Progress)> Run<'a, P> {
    fn new(options: &'a HostRun, progress: P) -> Self {
        let record = RunRecord {
            schema: SCHEMA,
            target: "host".to_owned(),
            mix: options.mix.name.clone(),
            dialect: options.mix.dialect,
            sizes: Some(options.mix.sizes),
            sync: options.sync,
            shell_sleep: options.shell_sleep,
            seed: options.seed,
            shrink: options.shrink.max(1),
            start_delay_s: options.start_delay.as_secs_f64(),
            jobs_per_user: options.mix.jobs_per_user(),
            notes: notes(&options.mix),
            host: describe_host(),
            unfinished: true,
            ..RunRecord::default()
        };
        let (counts, cpus) = (options.mix.counts(), clock::cpus());
        Self { options, counts, cpus, costs: Costs::default(), record, progress }
    }

    fn check_limits(&self, users: u32) -> Result<(), HostError> {
        let given = &self.options.directories;
        let directories = if given.is_empty() { &[workdir::default_parent()] } else { &given[..] };
        let file_kb = self.options.mix.file_kb(users);
        let need = Need { users, jobs: &self.counts, file_kb, directories };
        if self.options.force {
            return Ok(());
        }
        match limits::shortages(&need) {
            shortages if shortages.is_empty() => Ok(()),
            shortages => Err(HostError::Limits { users, shortages }),
        }
    }

    /// All points; returns why they ended early, if they did.
    fn points(&mut self) -> Option<HostError> {
        let mut visits = self.options.schedule.visits();
        while let Some(users) = visits.next_users() {
            let plan = self.plan(users);
            let before = Surroundings::now();
            let (point, error) = self.point(&plan);
            let Disturbance { throttled, stalled_s, .. } = before.since(0.0);
            let kernel = Disturbance { throttled, stalled_s, ..Disturbance::default() };
            self.record.disturbance.get_or_insert_default().add(&kernel);
            let known = point.real_s > 0.0;
            if known && error.is_none() {
                let (jobs_per_min, real_s) = (point.jobs_per_min, point.real_s);
                visits.saw(Seen { users, jobs_per_min, real_s });
            }
            let ends_run = error.as_ref().is_some_and(|error| !error.is_of_point());
            if !ends_run || known {
                self.add(point);
            }
            if error.is_some() && (ends_run || !self.options.go_on) {
                return error;
            }
        }
        None
    }

    /// Takes a point into the record, and says so before the next one begins.
    fn add(&mut self, point: Point) {
        let options = self.options;
        self.record.disturbance.get_or_insert_default().add(&disturbance(&point, self.cpus));
        let known = self.record.orders.len() as u32;
        self.record.orders.extend((known..point.users).map(|user| {
            let order = options.mix.order(options.seed, user);
            order.iter().map(|job| job.name()).collect::<Vec<_>>().join(" ")
        }));
        self.record.points.push(point);
        (self.progress)(&Progress::Finished { record: Box::new(self.record.clone()) });
    }

    /// The plan of a point; the directories are filled in for each execution.
    fn plan(&self, users: u32) -> Plan {
        let options = self.options;
        let sleep_ns =
            if options.shell_sleep { options.mix.shell_sleep_ns(options.shrink) } else { 0 };
        let env = JobEnv {
            dialect: options.mix.dialect,
            seed: options.seed,
            shrink: options.shrink.max(1),
            shell_sleep_ns: sleep_ns,
            sync: options.sync,
            ..JobEnv::new(String::new(), options.mix.file_kb(users))
        };
        Plan {
            env,
            directories: Vec::new(),
            orders: (0..users).map(|user| options.mix.order(options.seed, user)).collect(),
            delay: options.start_delay,
            cpus: if options.pin { clock::usable_cpus() } else { Vec::new() },
            fault: options.fault,
        }
    }

    /// One load point, with everything that is known of it and the error that ended it.
    fn point(&mut self, plan: &Plan) -> (Point, Option<HostError>) {
        let mut done = Vec::new();
        let mut looks = Looks::default();
        let mut error = self.executions(plan, &mut done, &mut looks).err();
        let mut point = if done.is_empty() {
            summary::planned(plan)
        } else {
            summary::point(&done, plan, self.cpus)
        };
        let rule = &self.options.repeats;
        point.jobs_per_min_ci95 = looks.interval(rule);
        point.precise = looks.is_precise(rule);
        if let (None, Some(cause)) = (&error, &point.failed) {
            error = Some(HostError::Point { users: point.users, cause: cause.clone() });
        }
        if let Some(error) = error.as_ref().filter(|error| error.is_of_point()) {
            point.failed = Some(error.cause());
        }
        if self.options.predict {
            self.predict(&mut point);
        }
        (point, error)
    }

    /// Executes the point as often as the rule says.
    fn executions(
        &mut self,
        plan: &Plan,
        done: &mut Vec<Execution>,
        looks: &mut Looks,
    ) -> Result<(), HostError> {
        let users = plan.orders.len() as u32;
        self.check_limits(users)?;
        if self.options.predict {
            self.measure(plan)?;
        }
        let rule = self.options.repeats;
        for before in 0.. {
            let execution = self.execute(plan, before)?;
            let failed = execution.cause.is_some();
            if before >= rule.warmup || failed {
                looks.add(execution.jobs_per_min(), execution.real_s());
                done.push(execution);
            }
            if failed || (before + 1 > rule.warmup && !looks.wants_more(&rule)) {
                break;
            }
        }
        Ok(())
    }

    /// One execution, in fresh work directories.
    fn execute(&mut self, plan: &Plan, before: u32) -> Result<Execution, HostError> {
        let users = plan.orders.len() as u32;
        let began = clock::monotonic_ns();
        (self.progress)(&Progress::Running { users, before });
        let directories = new_directories(&self.options.directories)?;
        self.record.work_directory = Some(directories.description());
        let plan = Plan { directories: directories.names(), ..plan.clone() };
        let of: u64 = plan.orders.iter().map(|order| order.len() as u64).sum();
        let progress = &mut self.progress;
        let mut count = |done| progress(&Progress::Working { users, done, of });
        let board = run_plan(&plan, &directories, &mut count)?;
        drop(directories);
        let wall_s = (clock::monotonic_ns() - began) as f64 / 1e9;
        let execution = Execution::new(&board, &self.counts, wall_s);
        execution.ok_or(HostError::AllLost { users })
    }

    /// Measures the jobs alone, where that is still to do.
    fn measure(&mut self, plan: &Plan) -> Result<(), HostError> {
        let users = plan.orders.len() as u32;
        let unknown = self.costs.unknown(&self.counts, plan.env.file_kb);
        if unknown.is_empty() {
            return Ok(());
        }
        (self.progress)(&Progress::Measuring { users });
        let began = clock::monotonic_ns();
        let given = &self.options.directories;
        self.costs.measure(&unknown, plan, || new_directories(given))?;
        self.record.predict_passes = Some(self.costs.passes());
        let took_s = (clock::monotonic_ns() - began) as f64 / 1e9;
        *self.record.predict_wall_s.get_or_insert(0.0) += took_s;
        Ok(())
    }

    /// Adds the prediction from the costs of the jobs alone.
    fn predict(&self, point: &mut Point) {
        for stats in &mut point.jobs {
            let job = self.counts.iter().find(|(job, _)| job.name() == stats.job);
            stats.alone_ns =
                job.and_then(|(job, runs)| self.costs.alone_ns(*job, *runs, point.file_kb));
        }
        if point.real_s > 0.0 {
            let busy_s = point.real_s - self.options.start_delay.as_secs_f64();
            let predicted = self.costs.predict(&self.counts, point.file_kb, point.users, self.cpus);
            // Of a shorter run each user does a part of the mix.
            let all: u32 = self.counts.iter().map(|(_, runs)| runs).sum();
            let part = f64::from(self.options.mix.jobs_per_user()) / f64::from(all);
            let predicted = predicted.map(|seconds| seconds * part);
            point.predicted_s = predicted;
            point.measured_over_predicted = predicted.map(|s| busy_s / s);
        }
    }
}

/// Returns the CPU use of other programs during a point.
fn disturbance(point: &Point, cpus: u32) -> Disturbance {
    let [stolen_s, others_s] = [point.steal_percent, point.other_percent]
        .map(|percent| percent.unwrap_or(0.0) / 100.0 * f64::from(cpus) * point.real_s);
    let others_s = others_s - stolen_s;
    Disturbance { seconds: point.real_s, others_s, stolen_s, ..Disturbance::default() }
}

/// Fresh work directories in `given`, unless the run has been interrupted.
fn new_directories(given: &[PathBuf]) -> Result<WorkDirs, HostError> {
    if convoy_os::interrupted() {
        return Err(HostError::Interrupted);
    }
    WorkDirs::new(given)
}
