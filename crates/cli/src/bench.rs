//! `convoy bench`: our locks beside those that people take today.

use crate::args::Common;
use crate::experiment::{Files, carry_out};
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::locks::{Loops, words};
use crate::output;
use clap::{Args, Subcommand};
use convoy_catalogue::{EXPERIMENTS, Sheet};
use convoy_lab::experiment::{Experiment, Plan};
use std::path::PathBuf;
use std::process::ExitCode;

/// The experiment that the flags change; its file has the defaults.
const NAME: &str = "bench-locks";

/// `convoy bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What is measured.
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Locks of programs in interleaved rounds: sections, CPU time, fairness, waits
    Locks(Box<BenchLocks>),
}

/// `convoy bench locks`.
#[derive(Debug, Args)]
struct BenchLocks {
    /// What the threads do.
    #[command(flatten)]
    loops: Loops,
    /// Numbers of CPUs that the threads are kept to [default: 1,2]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Loop")]
    cpus: Option<Vec<u32>>,
    /// Write the plot to FILE.svg or .png; its CSV goes beside it
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Where the record goes.
    #[command(flatten)]
    store: StoreArgs,
    /// Flags of every command.
    #[command(flatten)]
    common: Common,
}

/// The command.
pub(crate) fn run(args: &Bench) -> Result<ExitCode, Failure> {
    let What::Locks(args) = &args.what;
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref())?;
    let sheet = Sheet::open(&EXPERIMENTS, NAME, None).map_err(Failure::usage)?;
    let experiment = sheet.read::<Experiment>(&[]).map_err(Failure::usage)?;
    let mut changes = args.loops.changes();
    changes.points.extend(args.cpus.as_deref().map(|cpus| ("kept_to".to_owned(), words(cpus))));
    let plan = Plan::new(&experiment, &changes).map_err(Failure::usage)?;
    let kept = ("locks", args.loops.seed(), &args.store);
    let files = Files { plot: args.plot.as_deref(), ..Files::default() };
    carry_out(&plan, &args.common, None, kept, files)
}
