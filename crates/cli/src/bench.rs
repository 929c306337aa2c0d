//! `convoy bench`: Convoy's locks compared with the locks of other libraries.

mod calls;
mod hogs;

use self::calls::BenchCalls;
use self::hogs::BenchHogs;
use crate::args::{Common, Numbers, numbers};
use crate::experiment::{Files, Kept, carry_out};
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::locks::{Loops, words};
use crate::output;
use clap::{Args, Subcommand};
use convoy_catalogue::{EXPERIMENTS, Sheet};
use convoy_lab::experiment::{Experiment, Plan};
use convoy_lab::job::Outcome;
use std::path::PathBuf;
use std::process::ExitCode;

/// The experiment that the flags change; its file has the defaults.
const NAME: &str = "bench-locks";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Compare locks of programs in interleaved rounds: throughput, CPU time, fairness, waits
    Locks(Box<BenchLocks>),
    /// Measure waits for a lock that other threads release and reacquire immediately
    Hogs(Box<BenchHogs>),
    /// Measure single system calls of this machine's kernel, as lmbench does
    Calls(BenchCalls),
}

#[derive(Debug, Args)]
struct BenchLocks {
    #[command(flatten)]
    loops: Loops,
    /// Measure all locks with sections of 0.1, 1 and 10 us, on one CPU and on all, with 2 to 2000
    /// threads (ten minutes) instead of the usual choices (half a minute)
    #[arg(long)]
    full: bool,
    /// Numbers of CPUs to pin the threads to [default: all]
    #[arg(long, value_name = "LIST", value_parser = numbers(0..=u32::MAX), help_heading = "Loop")]
    cpus: Option<Numbers>,
    /// Write the plot to FILE.svg; also writes FILE.csv
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    common: Common,
}

/// Threads of the full grid.
const THREADS: [u32; 6] = [2, 4, 16, 64, 256, 2000];
/// Lengths of its sections, in nanoseconds.
const SECTIONS_NS: [u32; 3] = [100, 1000, 10_000];
/// Its locks, ours first; the semaphores have one permit.
const LOCKS: [&str; 9] = [
    "convoy",
    "std",
    "parking-lot",
    "usync",
    "pthread",
    "pthread-adaptive",
    "convoy-semaphore",
    "async-lock-semaphore",
    "tokio-semaphore",
];

pub(crate) fn run(args: &Bench) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Locks(args) => locks(args),
        What::Hogs(args) => hogs::run(args),
        What::Calls(args) => calls::run(args),
    }
}

fn locks(args: &BenchLocks) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), true)?;
    let sheet = Sheet::open(&EXPERIMENTS, NAME, None).map_err(Failure::usage)?;
    let experiment = sheet.read::<Experiment>(&[]).map_err(Failure::usage)?;
    let mut changes = args.loops.changes();
    let all = convoy_os::clock::cpus();
    let usual = if args.full && all > 1 { vec![1, all] } else { vec![all] };
    let cpus = words(args.cpus.as_ref().map_or(&usual, |list| &list.0));
    changes.points.insert("kept_to".to_owned(), cpus);
    if args.full {
        for (key, values) in [
            ("section_ns", words(&SECTIONS_NS)),
            ("threads", words(&THREADS)),
            ("lock", words(&LOCKS)),
        ] {
            changes.points.entry(key.to_owned()).or_insert(values);
        }
    }
    let plan = Plan::new(&experiment, &changes).map_err(Failure::usage)?;
    let kept = Kept { kind: "locks", seed: args.loops.seed(), store: &args.store };
    let files = Files { plot: args.plot.as_deref(), line: Some(line) };
    carry_out(&plan, &args.common, None, kept, files)
}

/// One lock in one round.
fn line(plan: &Plan, index: usize, outcome: &Outcome) -> Option<String> {
    let grid = plan.grids.first()?;
    let rounds = grid.seeds.len();
    let point = grid.points.get(index / rounds)?;
    let levels = grid.axes.iter().zip(&point.at);
    let names: Vec<String> = levels
        .map(|(axis, &level)| format!("{} {}", axis.name, axis.levels[level].label))
        .collect();
    let metric = |name| outcome.metric(name);
    Some(format!(
        "{}, round {} of {rounds}: {:.0} sections/s, {:.0} ns of CPU time each, {:.0} starved, \
         {:.1} ms waited at most",
        names.join(", "),
        index % rounds + 1,
        metric("acquisitions_per_s")?,
        metric("cpu_ns_per_section")?,
        metric("starved_threads")?,
        metric("wait_max_us").unwrap_or_default() / 1e3,
    ))
}
