//! A mix on a virtual machine.

use super::args::{Fs, Run};
use super::finish;
use crate::args::Format;
use crate::fail::Failure;
use crate::pool;
use convoy_kernel::{BklKind, FileSystem, JournalOptions, JournalStats, KernelPreset};
use convoy_lab::virtual_run::{BklUse, VirtualPoint, VirtualRun};
use convoy_report::{Cell, Column, RunPoint, RunReport, Table};
use convoy_workload::mix::Mix;
use convoy_workload::users::counted;
use std::process::ExitCode;

pub(super) fn run(args: &Run, mix: &Mix, users: &[u32], kernel: &str) -> Result<ExitCode, Failure> {
    let kernel = KernelPreset::load(kernel).map_err(Failure::usage)?;
    let mut machine = pool::machine(&args.machine)?;
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
    let file_system = match args.fs {
        Fs::Tmpfs => FileSystem::Tmpfs,
        Fs::Journal => FileSystem::Journal(JournalOptions {
            disk_ns: (args.disk_ms * 1e6) as u64,
            ..JournalOptions::default()
        }),
    };
    let cells = users
        .iter()
        .map(|&users| VirtualRun {
            seed: args.load.seed.unwrap_or(1),
            start_delay_ns: (args.load.start_delay * 1e9) as u64,
            shrink: args.load.shrink,
            file_system,
            sample_ns: args.timeline.map_or(0, |seconds| (seconds * 1e9) as u64),
            ..VirtualRun::new(mix.clone(), users, kernel.clone(), machine.clone())
        })
        .collect();
    let done = pool::run(&args.common, "virtual load points", cells, None)?;
    let points: Vec<&VirtualPoint> = done.points.iter().flatten().collect();
    let mut notes: Vec<String> = points.iter().map(|point| note(point)).collect();
    notes.extend(mix.notes.iter().map(|note| format!("{}: {note}", mix.name)));
    if kernel.bkl != BklKind::None {
        notes.insert(0, "owner: of the big kernel lock (BKL)".to_owned());
    }
    let points = points.iter().map(|point| virtual_point(point)).collect();
    let mut details = String::new();
    if args.timeline.is_some() && args.common.format == Format::Table {
        for point in done.points.iter().flatten() {
            details.push('\n');
            details.push_str(&timeline(point).to_text());
        }
    }
    let report = RunReport { title, points, notes };
    finish(args, &report, &format!("{} on {}", kernel.name, machine.name), "", &details)?;
    if done.interrupted {
        return Err(Failure::environment("interrupted; the points above had finished"));
    }
    let body = serde_json::to_value(&report).map_err(Failure::environment)?;
    args.store.keep(&args.common, "run", Some(args.load.seed.unwrap_or(1)), body);
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
        failed_jobs: point.jobs_failed,
        idle_percent: Some(point.idle_percent),
        context_switches_per_s: Some(point.context_switches_per_s),
        owner_not_running_percent: point.bkl.map(|bkl| bkl.owner_not_running_percent),
        owner_change_ms: point.bkl.map(|bkl| bkl.owner_change_ms).filter(|ms| ms.is_finite()),
        hash: Some(format!("{:016x}", point.hash)),
        bulk: point.bulk.clone(),
        ..RunPoint::default()
    }
}

/// What the machine saw of one load point and no column has.
fn note(point: &VirtualPoint) -> String {
    let bkl = point.bkl.map_or(String::new(), |bkl| {
        let BklUse { per_user, contended_percent, .. } = bkl;
        format!("{per_user:.0} BKL acquisitions per user ({contended_percent:.1} % queued), ")
    });
    format!(
        "{}: {bkl}{} calls, {} memory operations, hash {:016x}{}{}",
        counted(point.users),
        short(point.calls),
        short(point.operations),
        point.hash,
        point.journal.as_ref().map_or(String::new(), journal),
        point.first_failure.as_ref().map_or(String::new(), |text| format!("; failed: {text}"))
    )
}

/// A large number in two or three digits.
fn short(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{} k", number / 1_000),
        _ => format!("{} M", number / 1_000_000),
    }
}

fn journal(stats: &JournalStats) -> String {
    format!(
        "; journal: {} handles ({} waited), {} commits of {} blocks, {} checkpoints, {} disk \
         requests",
        stats.handles, stats.waited, stats.commits, stats.blocks, stats.checkpoints, stats.requests
    )
}

/// The run of one load point in intervals.
fn timeline(point: &VirtualPoint) -> Table {
    let mut columns = vec![
        Column::number("at", "s"),
        Column::number("idle", "%"),
        Column::number("runnable", "tasks"),
        Column::number("switches", "1/s"),
    ];
    if point.bkl.is_some() {
        columns.extend([
            Column::number("BKL", "1/s"),
            Column::number("hand-offs", "1/s"),
            Column::number("owner off CPU", "%"),
        ]);
    }
    let mut table = Table::new(&format!("{}, by interval", counted(point.users)), columns);
    for sample in &point.samples {
        let mut cells = vec![
            Cell::number(sample.at_s, 2),
            Cell::number(sample.idle_percent, 1),
            Cell::count(sample.runnable),
            Cell::number(sample.switches_per_s, 0),
        ];
        if point.bkl.is_some() {
            cells.extend([
                Cell::number(sample.acquisitions_per_s, 0),
                Cell::number(sample.handoffs_per_s, 0),
                Cell::number(sample.owner_not_running_percent, 1),
            ]);
        }
        table.row(cells);
    }
    table
}
