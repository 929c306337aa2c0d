//! `convoy explain`: what a run on the virtual machine spent its time on, and why.
//!
//! A simulation repeats to the byte, so nothing is kept for this: the run is executed again with a
//! recorder, which costs no virtual time.

mod cell;
mod changes;
mod choose;
pub(crate) mod recorded;
mod target;

use crate::args::{Common, Format};
use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use crate::presets::Sets;
use clap::{Args, Parser, ValueEnum};
use convoy_explain::{Analysis, Detail, ProcFile, folded};
use convoy_lab::virtual_end::VirtualError;
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Recorder;
use convoy_report::{ExplainReport, Explained, Page, RcuThreads, flame_html, flame_svg};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use target::Target;

/// `convoy explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A file of convoy record or of perf, an experiment, the number of a stored run, or `@TAG`
    #[arg(value_name = "RUN", value_parser = recorded::parser())]
    run: String,
    /// Of a record: every lock, call site and cause, not the first screen alone
    #[arg(long)]
    all: bool,
    /// Only this grid of the experiment
    #[arg(long, value_name = "GRID")]
    only: Option<String>,
    /// Explain each change above this instead of one cell, percent; default 5
    #[arg(long, value_name = "PERCENT", requires = "only")]
    changes: Option<f64>,
    /// With the quick form of the grid
    #[arg(long, requires = "only")]
    quick: bool,
    /// Only the cells with this label on this axis (repeatable)
    #[arg(long, value_name = "AXIS=LABEL")]
    at: Vec<String>,
    /// What is changed in the presets, on top of what the run changed.
    #[command(flatten)]
    sets: Sets,
    /// Kernel preset; of a stored run only if it has several
    #[arg(long, value_name = "PRESET")]
    kernel: Option<String>,
    /// Users; default those of the experiment or the stored run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: Option<u32>,
    /// Number of CPUs instead of the machine preset's
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// Machine preset instead of the run's
    #[arg(long, value_name = "PRESET")]
    machine: Option<String>,
    /// Seed instead of the run's
    #[arg(long, hide_short_help = true)]
    seed: Option<u64>,
    /// Divide the loop counts of the jobs by this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(hide_short_help = true)]
    shrink: Option<u32>,
    /// Write a Perfetto trace: threads, releases and the waits that they ended
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    trace: Option<PathBuf>,
    /// Largest size of the trace
    #[arg(long, value_name = "MB", default_value_t = 50, help_heading = "Files")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4000))]
    #[arg(hide_short_help = true)]
    trace_limit: u32,
    /// Of a record: write a profile for the Firefox Profiler
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    firefox: Option<PathBuf>,
    /// Write the time that tasks waited as folded stacks, microseconds
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    folded: Option<PathBuf>,
    /// Write them as a flame graph, FILE.svg or FILE.html
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    flame: Option<PathBuf>,
    /// Write the events around the longest convoy as ftrace prints them
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    ftrace: Option<PathBuf>,
    /// Print what this file of the kernel would say instead of the report
    #[arg(long, value_enum, value_name = "FILE")]
    proc: Option<Proc>,
    /// Name places of files that were gone by their copies or debug data: in a directory, or from
    /// the servers in `DEBUGINFOD_URLS` (`debuginfod`, which calls debuginfod-find)
    #[arg(long, value_name = "DIR", help_heading = "Files", hide_short_help = true)]
    symbols: Option<PathBuf>,
    /// The store of a stored run.
    #[arg(long, value_name = "FILE", help = crate::keep::STORE_HELP)]
    #[arg(hide_short_help = true)]
    store: Option<PathBuf>,
    /// Flags of every command.
    #[command(flatten)]
    common: Common,
}

/// Files of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Proc {
    /// `/proc/buddyinfo`
    Buddyinfo,
    /// `/proc/loadavg`
    Loadavg,
    /// `/proc/lock_stat`
    LockStat,
    /// `rcu/rcu_pending` of debugfs
    RcuPending,
    /// `rcu/rcuboost` of debugfs
    Rcuboost,
    /// `rcu/rcudata` of debugfs
    Rcudata,
    /// `rcu/rcugp` of debugfs
    Rcugp,
    /// `rcu/rcuhier` of debugfs
    Rcuhier,
    /// `/proc/schedstat`
    Schedstat,
    /// `/proc/softirqs`
    Softirqs,
    /// `/proc/stat`
    Stat,
    /// `/proc/zoneinfo`
    Zoneinfo,
}

impl Explain {
    /// Only records of programs have a profile.
    fn fits_simulations(&self) -> Result<(), Failure> {
        let Some(path) = &self.firefox else { return Ok(()) };
        Err(Failure::usage(format!(
            "--firefox {}: only records of programs have a profile; use --trace or --flame",
            path.display()
        )))
    }

    /// Every file that is to be written can be, asked before the run.
    fn ready(&self) -> Result<(), Failure> {
        output::ready(self.common.output.as_deref())?;
        if self.proc.is_some() && self.common.format != Format::Table {
            return Err(Failure::usage(
                "--proc prints the kernel's own format; leave out --format or use the report",
            ));
        }
        if let Some(path) = &self.flame {
            picture(path)?;
        }
        for path in [&self.trace, &self.firefox, &self.folded, &self.flame, &self.ftrace] {
            output::ready(path.as_deref())?;
        }
        Ok(())
    }
}

/// Whether the name says HTML; it must say that or SVG.
fn picture(path: &Path) -> Result<bool, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(false),
        Some("html") => Ok(true),
        _ => Err(Failure::usage(format!(
            "--flame {}: the name says no format; end it with .svg or .html",
            path.display()
        ))),
    }
}

/// The command.
pub(crate) fn run(args: &Explain) -> Result<ExitCode, Failure> {
    args.ready()?;
    if let Some(mut record) = recorded::find(&args.run, args.store.as_deref())? {
        if let Some(directory) = &args.symbols {
            recorded::name(&mut record, directory)?;
        }
        return recorded::explain(args, &record);
    }
    args.fits_simulations()?;
    if let Some(plan) = changes::plan_of(args)? {
        return changes::run(args, &plan);
    }
    if let Some(cell) = cell::Cell::find(args)? {
        return cell.explain(args);
    }
    let target = Target::new(args)?;
    let detailed = args.trace.is_some() || args.ftrace.is_some();
    let bar = output::progress(&args.common, if detailed { 2 } else { 1 });
    bar.set_message("running it, recorded");
    let cpus = target.run.machine.topology.cpus;
    let analysis = Analysis::new(cpus);
    let (point, analysis) = execute(&target.run, analysis)?;
    let mut report = report(&target, &point, &analysis);
    if detailed {
        bar.inc(1);
        bar.set_message("again, with the part around the longest convoy in full");
        let again = |detail| {
            let (point, detail) = execute(&target.run, detail)?;
            Ok((format!("{:016x}", point.hash), detail))
        };
        report.notes.extend(details(args, (&report.hash, cpus), &analysis, again)?);
    }
    bar.finish_and_clear();
    report.notes.extend(stacks(args, &report.title, &analysis)?);
    if let Some(file) = args.proc {
        let [buddyinfo, zoneinfo, loadavg] = &point.proc_files;
        let [rcudata, rcugp, rcuhier, rcu_pending, rcuboost] = &point.rcu_files;
        let vectors = &target.run.kernel.softirq.vectors;
        let vectors: Vec<&str> = vectors.iter().map(|vector| vector.name()).collect();
        let text = match file {
            Proc::Buddyinfo => buddyinfo.clone(),
            Proc::Loadavg => loadavg.clone(),
            Proc::LockStat => analysis.proc(ProcFile::LockStat, &vectors),
            Proc::RcuPending => rcu_pending.clone(),
            Proc::Rcuboost => rcuboost.clone(),
            Proc::Rcudata => rcudata.clone(),
            Proc::Rcugp => rcugp.clone(),
            Proc::Rcuhier => rcuhier.clone(),
            Proc::Schedstat => analysis.proc(ProcFile::Schedstat, &vectors),
            Proc::Softirqs => analysis.proc(ProcFile::Softirqs, &vectors),
            Proc::Stat => analysis.proc(ProcFile::Stat, &vectors),
            Proc::Zoneinfo => zoneinfo.clone(),
        };
        if text.is_empty() {
            return Err(Failure::usage(format!(
                "--proc: the kernel {} {}",
                target.run.kernel.name,
                if file == Proc::Rcuboost && !rcudata.is_empty() {
                    "lends readers no priority; name 3.0+boost with --kernel"
                } else {
                    "has no RCU; name one of 2.6.39 to 3.0 with --kernel"
                }
            )));
        }
        output::result(&args.common, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    Ok(ExitCode::SUCCESS)
}

/// Intervals of the run in the curves of a page.
const INTERVALS: usize = 300;

/// `convoy explain` without the commands beside it.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    explain: Explain,
}

/// The page of the simulated run that these words of the command line name.
pub(crate) fn page(words: &[String]) -> Result<Page, Failure> {
    let words = std::iter::once("explain").chain(words.iter().map(String::as_str));
    let args = Alone::try_parse_from(words).map_err(Failure::usage)?.explain;
    if let Some(cell) = cell::Cell::find(&args)? {
        return cell.page();
    }
    let target = Target::new(&args)?;
    let bar = output::progress(&args.common, 2);
    bar.set_message("running it, recorded");
    let cpus = target.run.machine.topology.cpus;
    let (point, analysis) = execute(&target.run, Analysis::new(cpus))?;
    bar.inc(1);
    bar.set_message("again, with the part around the longest convoy in full");
    let (_, detail) = execute(&target.run, Detail::new(cpus, analysis.window()))?;
    bar.finish_and_clear();
    let report = report(&target, &point, &analysis);
    Ok(report.page(&analysis.stacks(), &analysis.over_time(INTERVALS), detail.lanes()))
}

/// Writes what needs every event of a part of the run, which is run `again`; returns what is in the
/// files.
fn details(
    args: &Explain,
    (hash, cpus): (&str, usize),
    analysis: &Analysis,
    again: impl FnOnce(Detail) -> Result<(String, Detail), Failure>,
) -> Result<Vec<String>, Failure> {
    let (repeated, mut detail) = again(Detail::new(cpus, analysis.window()))?;
    if repeated != hash {
        return Err(Failure::environment(format!(
            "the run did not repeat: schedule hash {hash}, then {repeated}; this is a defect of \
             the model"
        )));
    }
    let mut notes = Vec::new();
    if let Some(path) = &args.trace {
        let limit = args.trace_limit as usize * 1_000_000;
        let bytes = detail.perfetto(limit);
        output::file(path, &bytes)?;
        notes.push(format!(
            "trace {}: {:.1} MB (limit {} MB, --trace-limit); {}; the whole run as counters; open \
             it in ui.perfetto.dev",
            path.display(),
            bytes.len() as f64 / 1e6,
            args.trace_limit,
            detail.sentence()
        ));
    }
    if let Some(path) = &args.ftrace {
        output::file(path, &detail.ftrace())?;
        notes.push(format!("ftrace events {}: {}", path.display(), detail.sentence()));
    }
    Ok(notes)
}

/// Writes the folded stacks and their picture; returns what is in the files.
fn stacks(args: &Explain, title: &str, analysis: &Analysis) -> Result<Vec<String>, Failure> {
    let stacks = analysis.stacks();
    let mut notes = Vec::new();
    if let Some(path) = &args.folded {
        output::file(path, &folded(&stacks))?;
        notes.push(format!("folded stacks {}: {} stacks", path.display(), stacks.len()));
    }
    if let Some(path) = &args.flame {
        let html = picture(path)?;
        let text = if html { flame_html(title, &stacks) } else { flame_svg(title, &stacks) };
        output::file(path, &text)?;
        notes.push(format!("flame graph {}", path.display()));
    }
    Ok(notes)
}

/// Runs it with `recorder`, which comes back with what it saw.
fn execute<R: Recorder + Send + 'static>(
    run: &VirtualRun,
    recorder: R,
) -> Result<(VirtualPoint, R), Failure> {
    let run = run.clone();
    apart(move || {
        let shared = Rc::new(RefCell::new(recorder));
        let point = run.record(shared.clone())?;
        let recorder = Rc::into_inner(shared).expect("the machine is gone");
        Ok::<_, VirtualError>((point, recorder.into_inner()))
    })?
    .ok_or_else(|| Failure::interrupted(0))
}

fn report(target: &Target, point: &VirtualPoint, analysis: &Analysis) -> ExplainReport {
    let run = &target.run;
    let mut notes = Vec::new();
    notes.extend(target.difference(&format!("{:016x}", point.hash)));
    if let Some(failure) = &point.first_failure {
        notes.push(format!("a job failed: {failure}"));
    }
    notes.extend(point.rcu_stalls.iter().map(|text| text.trim_end().replace('\n', "; ")));
    let summary = analysis.summary();
    ExplainReport {
        rcu_threads: RcuThreads::new(&point.rcu, &summary),
        title: format!(
            "{}: {} users of {}, {} on {} ({} CPUs), seed {}: {:.1} jobs/min",
            target.name,
            run.users,
            run.mix.name,
            run.kernel.name,
            run.machine.name,
            run.machine.topology.cpus,
            run.seed,
            point.columns.jobs_per_min
        ),
        replay: format!("convoy {}", target.replay()),
        explained: Explained::Load {
            inputs: Box::new(target.inputs.clone()),
            users: u64::from(run.users),
            jobs_per_min: point.columns.jobs_per_min,
        },
        hash: format!("{:016x}", point.hash),
        summary,
        bulk: point.bulk.clone(),
        notes,
    }
}
