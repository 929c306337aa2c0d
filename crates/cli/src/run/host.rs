//! A mix on this machine.

use super::args::{OnError, Run};
use super::progress::Live;
use super::repeats;
use crate::fail::Failure;
use crate::keep::Keeper;
use crate::load;
use convoy_host::{HostRun, Progress};
use convoy_report::{RunPoint, RunReport};
use convoy_workload::dialect::Dialect;
use convoy_workload::mix::Mix;
use convoy_workload::record::{Point, RunRecord};
use convoy_workload::schedule::Schedule;
use convoy_workload::users::{MOST_USERS_HOST, counted};
use std::process::ExitCode;

pub(super) fn run(args: &Run, mix: Mix, schedule: Schedule) -> Result<ExitCode, Failure> {
    let many = schedule.most_users();
    if many > MOST_USERS_HOST {
        return Err(Failure::usage(format!(
            "{many} users on this machine: at most {MOST_USERS_HOST}; `convoy lab sim` takes more"
        )));
    }
    let options = options(args, mix, schedule)?;
    let mut live = Live::new(&args.common, &options);
    let mut kept = Kept::new(args, options.seed);
    let finished = convoy_host::run::run(&options, |progress| {
        live.show(progress);
        if let Progress::Finished { record } = progress {
            kept.point(record);
        }
    });
    live.finish();
    let record = &finished.record;
    // A point that failed costs no finished one: those are printed and written before the error.
    if finished.error.is_none() || !record.points.is_empty() {
        kept.finish(record)?;
    }
    if let Some(error) = finished.error {
        return Err(Failure::environment(error));
    }
    let failed: Vec<&Point> = record.points.iter().filter(|point| point.failed.is_some()).collect();
    match failed.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(first) => Err(Failure::environment(format!(
            "{} of {} load points failed, the first with {}: {}",
            failed.len(),
            record.points.len(),
            counted(first.users),
            first.failed.as_ref().map_or("", |cause| &cause.text)
        ))),
    }
}

/// The finished points of a run, which are kept whatever ends it.
struct Kept<'a> {
    args: &'a Run,
    store: Option<Keeper>,
}

impl<'a> Kept<'a> {
    fn new(args: &'a Run, seed: u64) -> Self {
        Self { args, store: args.store.keeper("run", Some(seed)) }
    }

    /// Another point has ended. What cannot be written now is tried again at the end, and said.
    fn point(&mut self, record: &RunRecord) {
        let Ok(body) = serde_json::to_value(record) else { return };
        let _said_at_the_end = self.args.results.files.write(&body);
        if let Some(store) = &mut self.store {
            let _said_at_the_end = store.update(body);
        }
    }

    /// All there is: printed, written and kept.
    fn finish(self, record: &RunRecord) -> Result<(), Failure> {
        let body = serde_json::to_value(record).map_err(Failure::environment)?;
        let (report, machine) = (report(self.args, record), machine(record));
        self.args.results.files.finish(&self.args.common, &report, &machine, &body)?;
        if let Some(store) = self.store {
            store.finish(&self.args.common, body);
        }
        Ok(())
    }
}

/// The run that the flags ask for.
fn options(args: &Run, mix: Mix, schedule: Schedule) -> Result<HostRun, Failure> {
    Ok(HostRun {
        schedule,
        seed: args.load.seed.unwrap_or(1),
        directories: args.host.dir.clone(),
        start_delay: load::control::start_delay(&args.load)?,
        shrink: args.load.shrink,
        shell_sleep: args.load.shell_sleep,
        sync: args.host.sync,
        predict: !args.host.no_predict,
        repeats: repeats::repeats(&args.repeats)?,
        pin: args.host.pin,
        go_on: args.host.on_error == OnError::Continue,
        force: args.host.force,
        fault: repeats::fault()?,
        ..HostRun::new(mix, Vec::new())
    })
}

/// The machine in a few words.
fn machine(record: &RunRecord) -> String {
    let host = &record.host;
    format!("{} CPUs, {}, Linux {}", host.cpus, host.cpu, host.kernel)
}

fn report(args: &Run, record: &RunRecord) -> RunReport {
    let RunRecord { mix, dialect, jobs_per_user, .. } = record;
    let whose = if *dialect == Dialect::Reaim { " of re-aim" } else { "" };
    RunReport {
        title: format!("{mix}{whose}: {jobs_per_user} jobs per user, this machine"),
        inputs: None,
        points: record.points.iter().map(|point| report_point(args, point)).collect(),
        notes: notes(record),
    }
}

fn report_point(args: &Run, point: &Point) -> RunPoint {
    // A value that was not measured is unknown, not zero.
    let known = point.real_s > 0.0;
    let number = |value: f64| if known { value } else { f64::NAN };
    let some = |value: f64| known.then_some(value);
    let jti = if args.results.compat { f64::from(point.jti_compat) } else { f64::from(point.jti) };
    RunPoint {
        users: u64::from(point.users),
        jobs_per_min: number(point.jobs_per_min),
        jti: number(jti),
        real_s: number(point.real_s),
        cpu_s: number(point.cpu_s),
        jobs_per_sec_per_task: number(point.jobs_per_sec_per_task),
        measured_over_predicted: point.measured_over_predicted,
        failed_jobs: point.jobs_failed,
        idle_percent: point.idle_percent,
        context_switches_per_s: point.context_switches_per_s,
        owner_not_running_percent: point.owner_not_running_percent,
        owner_change_ms: None,
        hash: None,
        failed: point.failed.clone(),
        repeats: point.repeats.clone(),
        jobs_per_min_ci95: point.jobs_per_min_ci95,
        precise: point.precise,
        jobs_per_min_per_task: some(point.jobs_per_min_per_task),
        user_s: some(point.user_s),
        system_s: some(point.system_s),
        std_dev_s: some(point.std_dev_s),
        std_dev_percent: some(point.std_dev_percent),
        longest_user_s: some(point.longest_user_s),
        shortest_user_s: some(point.shortest_user_s),
        user_percent: point.user_percent,
        system_percent: point.system_percent,
        steal_percent: point.steal_percent,
        involuntary_switches_per_s: point.involuntary_switches_per_s,
        page_faults_per_s: point.page_faults_per_s,
        major_faults_per_s: point.major_faults_per_s,
        start_skew_p99_s: point.start_skew_p99_s,
        overhead_s: point.overhead_s,
        order_hash: Some(point.order_hash.clone()),
        jobs: if args.results.per_job { point.jobs.clone() } else { Vec::new() },
        bulk: Vec::new(),
        idle_rules: Vec::new(),
        timeline: Vec::new(),
    }
}

/// Notes for a reader of the figures.
fn notes(record: &RunRecord) -> Vec<String> {
    let mut notes = record.notes.clone();
    if let (Some(wall_s), Some(passes)) = (record.predict_wall_s, record.predict_passes) {
        notes.push(format!(
            "meas/pred: Real without the start delay over what the users' jobs would take on these \
             CPUs as measured alone in this run ({passes} processes, {wall_s:.2} s; --no-predict \
             leaves it out)"
        ));
    }
    let executions = record.points.iter().map(|point| point.repeats.len()).max().unwrap_or(0);
    if executions > 1 {
        notes.push(format!(
            "Means over up to {executions} executions of a point; ±: 95 % interval of Jobs/Min"
        ));
    }
    notes.extend(record.disturbance.and_then(|disturbance| disturbance.sentence()));
    notes.extend(record.points.iter().filter_map(imprecise));
    notes.extend(record.points.iter().filter_map(trouble));
    notes
}

fn imprecise(point: &Point) -> Option<String> {
    let users = counted(point.users);
    let count = point.repeats.len();
    let text = format!("{users}: the precision was not reached in {count} executions");
    (point.precise == Some(false) && point.failed.is_none()).then_some(text)
}

/// Why a point is not the whole load.
fn trouble(point: &Point) -> Option<String> {
    let cause = point.failed.as_ref()?;
    let lost = (point.users_lost > 0).then(|| format!("killed: {}; ", counted(point.users_lost)));
    let failed =
        (point.jobs_failed > 0).then(|| format!("{} jobs failed, the first: ", point.jobs_failed));
    Some(format!(
        "{} FAILED: {}{}{}",
        counted(point.users),
        lost.unwrap_or_default(),
        failed.unwrap_or_default(),
        cause.text
    ))
}
