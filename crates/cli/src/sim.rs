//! `convoy sim`: AIM7 on a virtual machine.

use crate::args::Common;
use crate::build::build;
use crate::experiment::{Told, execute, threads};
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::load::control::Sweep;
use crate::load::{Load, Points, Results, control};
use crate::presets::Sets;
use clap::{Args, value_parser};
use convoy_kernel::{BklKind, JournalStats};
use convoy_lab::inputs::Inputs;
use convoy_lab::job::{Disks, Job, Outcome, SimInputs, SimJob};
use convoy_lab::pool::{self, Watch};
use convoy_lab::record::Record;
use convoy_lab::virtual_run::{BklUse, VirtualPoint, VirtualRun};
use convoy_report::{RunPoint, RunReport};
use convoy_workload::schedule::Schedule;
use convoy_workload::users::counted;
use serde_json::Value;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) points: Points,
    #[command(flatten)]
    pub(crate) results: Results,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The virtual machine of the load, and its output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Virtual machine")]
pub(crate) struct Place {
    /// Kernel preset, or the path of a kernel file
    #[arg(long, value_name = "PRESET")]
    pub(crate) kernel: String,
    /// Machine preset, or the path of a machine file
    #[arg(long, value_name = "PRESET", default_value = "quad-2008-two-dies")]
    pub(crate) machine: String,
    /// Number of CPUs instead of the machine preset's
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<usize>,
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// File system of the work directory: in memory, or on a disk with a journal for its metadata
    #[arg(long, value_name = "NAME", default_value = "tmpfs", value_parser = ["tmpfs", "journal"])]
    pub(crate) fs: String,
    /// Duration of a disk request, milliseconds, instead of the machine preset's; 0 is a RAM disk
    #[arg(long, value_name = "MS", hide_short_help = true)]
    pub(crate) disk_ms: Option<f64>,
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Show a timeline with intervals of this many virtual seconds
    #[arg(long, value_name = "S")]
    pub(crate) timeline: Option<f64>,
}

/// How many work file systems there are, and how large.
#[derive(Debug, Args)]
pub(crate) struct DiskArgs {
    /// Number of work file systems, each on a separate disk; jobs use them in turn, and list /bin
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        hide_short_help = true,
        value_parser = value_parser!(u32).range(1..=255)
    )]
    pub(crate) directories: u32,
    /// Size of each work file system, MiB [default: half of the memory]
    #[arg(
        long,
        value_name = "MIB",
        hide_short_help = true,
        value_parser = value_parser!(u32).range(1..=1 << 20)
    )]
    pub(crate) fs_mib: Option<u32>,
    /// Size of each journal, MiB
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 32,
        hide_short_help = true,
        value_parser = value_parser!(u32).range(2..=1024)
    )]
    pub(crate) journal_mib: u32,
    /// Write commit records together with the blocks, not after them
    #[arg(long, hide_short_help = true)]
    pub(crate) journal_async: bool,
    /// Give files security labels that do not fit their inodes (ext4)
    #[arg(long, hide_short_help = true)]
    pub(crate) labels: bool,
}

impl DiskArgs {
    fn disks(&self) -> Disks {
        let Self { directories, fs_mib, journal_mib, journal_async, labels } = *self;
        Disks { directories, fs_mib, journal_mib, journal_async, labels }
    }
}

impl Place {
    fn check(&self) -> Result<(), Failure> {
        if self.timeline.is_some_and(|interval| !(0.001..=3600.0).contains(&interval)) {
            return Err(Failure::usage("--timeline must be 0.001 to 3600 seconds"));
        }
        if self.disk_ms.is_some_and(|ms| !(0.0..=1e6).contains(&ms)) {
            return Err(Failure::usage("--disk-ms must be 0 to 1000000"));
        }
        Ok(())
    }

    /// The changes of the presets by the flags.
    pub(crate) fn sets(&self) -> Sets {
        self.sets.with(&Sets::disk(self.disk_ms))
    }
}

/// The load points, which run side by side: none depends on another.
fn users(args: &SimArgs) -> Result<Vec<u32>, Failure> {
    Ok(match control::schedule(&args.points, &Sweep::default())? {
        Schedule::List(users) => users,
        sweep @ Schedule::Sweep(_) => sweep.planned(),
    })
}

pub(crate) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    args.results.check(&args.common)?;
    args.place.check()?;
    let (mix, users) = (control::mix(&args.load)?, users(args)?);
    let start_delay_ns = control::start_delay(&args.load)?.as_nanos() as u64;
    let sets = args.place.sets();
    let kernel = sets.kernel(&args.place.kernel)?;
    let machine = sets.machine(&args.place.machine, args.place.cpus)?;
    let job = |users: u32| {
        let inputs = SimInputs {
            users,
            users_full: users,
            scale: 1,
            seed: args.load.seed.unwrap_or(1),
            start_delay_ns,
            pool_users: users,
            shrink: args.load.shrink,
            shell_sleep: args.load.shell_sleep,
            fs: args.place.fs.clone(),
            disks: args.place.disks.disks(),
            load_counted_ns: None,
            jobs_together: None,
            kept_to: None,
            console: false,
            piped_input: false,
        };
        SimJob::of(inputs, &kernel, &machine, &mix).map_err(Failure::usage)
    };
    let jobs = users.into_iter().map(job).collect::<Result<Vec<SimJob>, Failure>>()?;
    let sample_ns = args.place.timeline.map_or(0, |seconds| (seconds * 1e9) as u64);
    let run = move |job: &SimJob| job.sampled(sample_ns);
    let (cells, threads) = (jobs.iter().cloned().enumerate().collect(), threads(None)?);
    let start = |watch: &mut Watch<VirtualPoint>| pool::simulate(cells, threads, run, watch);
    let done = execute(&args.common, "virtual load points", jobs.len(), start, |_, point| {
        let latest = format!("{} users: {:.1} Jobs/Min", point.users, point.columns.jobs_per_min);
        Ok(Told { latest: Some(latest), ..Told::default() })
    })?;
    if let Some(error) = done.failures.into_iter().next() {
        return Err(error.into());
    }
    let points: Vec<&VirtualPoint> = done.outcomes.iter().flatten().collect();
    let Some(first) = jobs.first().filter(|_| !points.is_empty()) else {
        return Err(Failure::interrupted(0));
    };
    let run = first.load_point();
    let report = report(run, Inputs::of(run, &kernel.source, &machine.source), &points);
    let record = record(&mix.name, &jobs, &done.outcomes, &report)?;
    let place = format!("{} on {}", kernel.name, machine.name);
    args.results.finish(&args.common, &report, &place, &record)?;
    if done.interrupted {
        return Err(Failure::interrupted(points.len()));
    }
    args.store.keep(&args.common, "sim", Some(args.load.seed.unwrap_or(1)), record);
    Ok(ExitCode::SUCCESS)
}

fn report(run: &VirtualRun, inputs: Inputs, points: &[&VirtualPoint]) -> RunReport {
    let VirtualRun { mix, kernel, machine, .. } = run;
    let mut notes: Vec<String> = points.iter().map(|point| note(point)).collect();
    notes.extend(mix.notes.iter().map(|note| format!("{}: {note}", mix.name)));
    let older = kernel.older();
    if !older.is_empty() {
        notes.push(format!("{} has older mechanisms: {}", kernel.name, older.join("; ")));
    }
    if kernel.bkl != BklKind::None {
        notes.insert(0, "owner: of the big kernel lock (BKL)".to_owned());
    }
    RunReport {
        title: format!(
            "{}: {} jobs per user, {} on {} ({} CPUs)",
            mix.name,
            mix.jobs_per_user(),
            kernel.name,
            machine.name,
            machine.topology.cpus
        ),
        inputs: Some(inputs),
        points: points.iter().map(|point| virtual_point(point)).collect(),
        notes,
    }
}

/// The stored record: the content of the simulations, and the results as they are printed.
fn record(
    name: &str,
    jobs: &[SimJob],
    outcomes: &[Option<VirtualPoint>],
    report: &RunReport,
) -> Result<Value, Failure> {
    let points = jobs.iter().zip(outcomes);
    let points: Vec<(Job, Option<Outcome>)> = points
        .map(|(job, point)| {
            let outcome = point.as_ref().map(|point| job.outcome(point));
            (Job::Sim(Box::new(job.clone())), outcome)
        })
        .collect();
    let command = crate::keep::arguments();
    let record = Record::of_load(name, &points, &build(), &command);
    let mut body = serde_json::to_value(&record).map_err(Failure::environment)?;
    if let Some(body) = body.as_object_mut() {
        body.insert("results".to_owned(), report.to_value());
    }
    Ok(body)
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
        idle_rules: point.idle_rules.list(),
        timeline: point.samples.clone(),
        ..RunPoint::default()
    }
}

/// Notes on one load point that no column contains.
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
