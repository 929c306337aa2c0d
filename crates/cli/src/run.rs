//! `convoy run`: AIM7 on this machine or a virtual one, or a native lock experiment.

use crate::args::{Format, Run};
use crate::fail::Failure;
use crate::{output, pool};
use convoy_kernel::KernelPreset;
use convoy_load::host::{HostRun, Progress};
use convoy_load::mix::Mix;
use convoy_load::native::NativeExperiment;
use convoy_load::users::MOST_USERS_HOST;
use convoy_load::virtual_run::{VirtualPoint, VirtualRun};
use convoy_load::{native, users};
use convoy_machine::Preset;
use convoy_report::{
    Cell, Column, RunPoint, RunReport, Table, native_csv, native_json, native_text,
};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The command.
pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready(args.record.as_deref())?;
    if let Some(path) = &args.experiment {
        return locks(args, path);
    }
    let mix = Mix::load(&args.mix).map_err(Failure::usage)?;
    let users = users::parse(&args.users).map_err(Failure::usage)?;
    if !(0.0..=3600.0).contains(&args.start_delay) {
        return Err(Failure::usage("--start-delay must be 0 to 3600 seconds"));
    }
    if args.timeline.is_some_and(|interval| !(0.001..=3600.0).contains(&interval)) {
        return Err(Failure::usage("--timeline must be 0.001 to 3600 seconds"));
    }
    match &args.kernel {
        Some(kernel) => on_virtual(args, &mix, &users, kernel),
        None => on_host(args, mix, users),
    }
}

fn locks(args: &Run, path: &Path) -> Result<ExitCode, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read experiment {name}: {error}; name a readable file"))
    })?;
    let mut experiment = NativeExperiment::parse(&text)
        .map_err(|error| Failure::usage(format!("experiment {name}: {error}")))?;
    if let Some(seed) = args.seed {
        experiment.seed = seed;
    }
    let bar = output::progress(&args.common, experiment.runs() as u64);
    let record = native::run(&experiment, &mut |at, what| {
        bar.set_position(at as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let record = record.map_err(Failure::environment)?;
    let text = output::choose(
        args.common.format,
        || native_text(&record),
        || native_json(&record),
        || native_csv(&record),
    );
    output::result(&args.common, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn on_host(args: &Run, mix: Mix, users: Vec<u32>) -> Result<ExitCode, Failure> {
    if let Some(many) = users.iter().find(|&&users| users > MOST_USERS_HOST) {
        return Err(Failure::usage(format!(
            "{many} users on this machine: at most {MOST_USERS_HOST}; more run with --kernel"
        )));
    }
    let jobs = mix.jobs_per_user();
    let title = format!("{}: {jobs} jobs per user, this machine", mix.name);
    let options = HostRun {
        seed: args.seed.unwrap_or(1),
        directory: args.dir.clone(),
        start_delay: Duration::from_secs_f64(args.start_delay),
        shrink: args.shrink,
        ..HostRun::new(mix, users)
    };
    let bar = output::progress(&args.common, options.users.len() as u64);
    let mut points = Vec::new();
    let mut notes = vec![
        "meas/pred: Real without the start delay over what the users' jobs, measured alone, would \
         take on these CPUs"
            .to_owned(),
    ];
    let record = convoy_load::host::run::run(&options, |progress| match progress {
        Progress::Measuring { users } => {
            bar.set_message(format!("jobs alone, sized for {users} users"));
        }
        Progress::Running { users } => bar.set_message(format!("{users} users")),
        Progress::Finished { point } => {
            points.push(host_point(point));
            notes.extend(trouble(point));
            bar.inc(1);
        }
    });
    bar.finish_and_clear();
    // A point that failed costs no finished one: those are printed before the error.
    let report = RunReport { title, points, notes };
    if record.is_ok() || !report.points.is_empty() {
        print(args, &report, "")?;
    }
    let record = record.map_err(Failure::environment)?;
    if let Some(path) = &args.record {
        let json = serde_json::to_string_pretty(&record).map_err(Failure::environment)?;
        output::file(path, &json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints `report`, in a text for people with `details` beneath it.
fn print(args: &Run, report: &RunReport, details: &str) -> Result<(), Failure> {
    let text = output::choose(
        args.common.format,
        || report.to_text() + details,
        || report.to_json(),
        || report.to_csv(),
    );
    output::result(&args.common, &text)
}

/// What a reader of the figures of a point must know: users that were killed, jobs that failed.
fn trouble(point: &convoy_load::record::Point) -> Option<String> {
    let lost = (point.users_lost > 0)
        .then(|| format!("{} users were killed before their end", point.users_lost));
    let failed = (point.jobs_failed > 0).then(|| {
        let first = point.first_failure.as_deref().unwrap_or("of unknown cause");
        format!("{} jobs failed, the first: {first}", point.jobs_failed)
    });
    let all: Vec<String> = lost.into_iter().chain(failed).collect();
    let users = point.users;
    let text = || format!("{users} users: {}; this is not the whole load", all.join("; "));
    (!all.is_empty()).then(text)
}

fn host_point(point: &convoy_load::record::Point) -> RunPoint {
    RunPoint {
        users: u64::from(point.users),
        jobs_per_min: point.jobs_per_min,
        jti: f64::from(point.jti),
        real_s: point.real_s,
        cpu_s: point.cpu_s,
        jobs_per_sec_per_task: point.jobs_per_sec_per_task,
        measured_over_predicted: point.measured_over_predicted,
        failed_jobs: point.jobs_failed,
        idle_percent: point.idle_percent,
        context_switches_per_s: point.context_switches_per_s,
        owner_not_running_percent: point.owner_not_running_percent,
        owner_change_ms: None,
        hash: None,
    }
}

fn on_virtual(args: &Run, mix: &Mix, users: &[u32], kernel: &str) -> Result<ExitCode, Failure> {
    let kernel = KernelPreset::load(kernel).map_err(Failure::usage)?;
    let mut machine = Preset::load(&args.machine).map_err(Failure::usage)?;
    if let Some(cpus) = args.cpus {
        machine = machine.with_cpus(cpus);
        machine.validate().map_err(Failure::usage)?;
    }
    let title = format!(
        "{}: {} jobs per user, {} on {} ({} CPUs)",
        mix.name,
        mix.jobs_per_user(),
        kernel.name,
        machine.name,
        machine.topology.cpus
    );
    let cells = users
        .iter()
        .map(|&users| VirtualRun {
            seed: args.seed.unwrap_or(1),
            start_delay_ns: (args.start_delay * 1e9) as u64,
            shrink: args.shrink,
            sample_ns: args.timeline.map_or(0, |seconds| (seconds * 1e9) as u64),
            ..VirtualRun::new(mix.clone(), users, kernel.clone(), machine.clone())
        })
        .collect();
    let done = pool::run(&args.common, "virtual load points", cells, None)?;
    let points: Vec<&VirtualPoint> = done.points.iter().flatten().collect();
    let mut notes: Vec<String> = points.iter().map(|point| note(point)).collect();
    notes.insert(0, "owner: of the big kernel lock (BKL)".to_owned());
    let points = points.iter().map(|point| virtual_point(point)).collect();
    let mut details = String::new();
    if args.timeline.is_some() && args.common.format == Format::Table {
        for point in done.points.iter().flatten() {
            details.push('\n');
            details.push_str(&timeline(point).to_text());
        }
    }
    print(args, &RunReport { title, points, notes }, &details)?;
    if done.interrupted {
        return Err(Failure::environment("interrupted; the points above had finished"));
    }
    Ok(ExitCode::SUCCESS)
}

fn virtual_point(point: &VirtualPoint) -> RunPoint {
    RunPoint {
        users: u64::from(point.users),
        jobs_per_min: point.columns.jobs_per_min,
        jti: f64::from(point.columns.jti),
        real_s: point.columns.real_s,
        cpu_s: point.cpu_s,
        jobs_per_sec_per_task: point.columns.jobs_per_sec_per_task,
        measured_over_predicted: None,
        failed_jobs: point.jobs_failed,
        idle_percent: Some(point.idle_percent),
        context_switches_per_s: Some(point.context_switches_per_s),
        owner_not_running_percent: Some(point.owner_not_running_percent),
        owner_change_ms: Some(point.owner_change_ms),
        hash: Some(format!("{:016x}", point.hash)),
    }
}

/// What the machine saw of one load point and no column has.
fn note(point: &VirtualPoint) -> String {
    format!(
        "{} users: {:.0} BKL acquisitions per user ({:.1} % queued), {} M calls, {} M memory \
         operations, hash {:016x}{}",
        point.users,
        point.bkl_per_user,
        point.bkl_contended_percent,
        point.calls / 1_000_000,
        point.operations / 1_000_000,
        point.hash,
        point.first_failure.as_ref().map_or(String::new(), |text| format!("; failed: {text}"))
    )
}

/// The run of one load point in intervals.
fn timeline(point: &VirtualPoint) -> Table {
    let columns = vec![
        Column::number("at", "s"),
        Column::number("idle", "%"),
        Column::number("runnable", "tasks"),
        Column::number("switches", "1/s"),
        Column::number("BKL", "1/s"),
        Column::number("hand-offs", "1/s"),
        Column::number("owner off CPU", "%"),
    ];
    let mut table = Table::new(&format!("{} users, by interval", point.users), columns);
    for sample in &point.samples {
        table.row(vec![
            Cell::number(sample.at_s, 2),
            Cell::number(sample.idle_percent, 1),
            Cell::count(sample.runnable),
            Cell::number(sample.switches_per_s, 0),
            Cell::number(sample.acquisitions_per_s, 0),
            Cell::number(sample.handoffs_per_s, 0),
            Cell::number(sample.owner_not_running_percent, 1),
        ]);
    }
    table
}
