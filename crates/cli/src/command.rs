//! The command line: every command, its definition and help; help and errors as the parser prints
//! them.

use crate::compare::Compare;
use crate::examples;
use crate::experiment::Reproduce;
use crate::fail::{Failure, USAGE};
use crate::locks::Locks;
use crate::look::Color;
use crate::output;
use crate::run::Run;
use crate::runs::Runs;
use crate::sim::SimArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Finds, explains, predicts and fixes lock-scaling regressions.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(after_help = examples::CONVOY)]
pub(crate) struct Args {
    /// When to colour results
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", global = true)]
    #[arg(hide_short_help = true)]
    pub(crate) color: Color,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program unchanged and record its locks
    #[command(after_help = examples::RECORD)]
    Record(Box<crate::record::RecordArgs>),
    /// Watch the locks of running processes: waits, owners, threads, refreshed each second
    #[command(after_help = examples::TOP)]
    Top(Box<crate::top::Top>),
    /// Explain a recorded program or a simulated run: where time went, locks, longest convoy
    #[command(after_help = examples::EXPLAIN)]
    Explain(crate::explain::Explain),
    /// Predict a recorded program with other CPUs, threads and locks
    #[command(after_help = examples::PREDICT)]
    Predict(Box<crate::predict::Predict>),
    /// Recommend a change for a recorded program, and print the commands that test it
    #[command(after_help = examples::FIX)]
    Fix(Box<crate::fix::Fix>),
    /// Run a program unchanged with other locks instead of libc's
    #[command(after_help = examples::WITH)]
    With(Box<crate::with::With>),
    /// Compare commands, stored runs or files of measurements
    #[command(after_help = examples::COMPARE)]
    Compare(Box<Compare>),
    /// Write a report as one HTML page: diagnosis, timeline, locks, flame graph
    #[command(after_help = examples::REPORT)]
    Report(Box<crate::report::ReportArgs>),
    /// List, show, tag, export and prune stored runs
    #[command(after_help = examples::RUNS)]
    Runs(Runs),
    /// Find the commit that changed a measured value, in spite of noise
    #[command(after_help = examples::BISECT)]
    Bisect(Box<crate::bisect::Bisect>),
    /// Check whether programs can be recorded here, and list missing requirements
    #[command(after_help = examples::DOCTOR)]
    Doctor(crate::doctor::Doctor),
    /// Check a lock by exploring interleavings of its source
    #[command(after_help = examples::CHECK)]
    Check(crate::check::Check),
    /// Measure locks in a loop, on this machine or a virtual one
    #[command(after_help = examples::LOCKS)]
    Locks(Box<Locks>),
    /// Benchmark Convoy's locks against other libraries on this machine
    #[command(after_help = examples::BENCH)]
    Bench(Box<crate::bench::Bench>),
    /// Run an AIM7 mix on this machine
    #[command(after_help = examples::RUN)]
    Run(Box<Run>),
    /// Run an AIM7 mix on a virtual machine
    #[command(after_help = examples::SIM)]
    Sim(Box<SimArgs>),
    /// Run a published experiment and compare its results
    #[command(after_help = examples::REPRODUCE, visible_alias = "sweep")]
    Reproduce(Box<Reproduce>),
    /// Measure this machine's prices for the virtual machine
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(crate::calibrate::Calibrate),
    /// List machines, kernels, mixes, jobs, locks and experiments
    #[command(after_help = examples::LIST)]
    List(crate::list::List),
    /// Print the JSON schema of the results that `--format json` prints
    #[command(after_help = examples::SCHEMA)]
    Schema,
    /// Print the completions of a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands
    #[command(after_help = examples::MAN)]
    Man(Man),
}

/// `convoy completions`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `convoy man`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Man {
    /// Write the pages of all commands into this directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

/// Prints help and version as the parser does, and its errors in one line.
pub(crate) fn help_or_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _reader_has_closed_it = error.print();
        return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // The error comes first, then the commands that have the flag, then the usage.
    let text = match elsewhere(error) {
        Some(elsewhere) => text.replacen('\n', &format!("\n{elsewhere}\n"), 1),
        None => text.to_owned(),
    };
    output::failure(&Failure::usage(text))
}

/// Names the commands that have the flag that this command does not have.
fn elsewhere(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let all = Args::command();
    let takers: Vec<String> = all
        .get_subcommands()
        .filter(|command| command.get_arguments().any(|argument| argument.get_long() == Some(flag)))
        .map(|command| format!("`convoy {}`", command.get_name()))
        .collect();
    (!takers.is_empty()).then(|| format!("--{flag} belongs to {}", takers.join(", ")))
}
