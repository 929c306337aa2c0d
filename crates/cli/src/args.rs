//! Flags: definition and documentation in one place.

use crate::compare::Compare;
use crate::examples;
use crate::experiment::{Reproduce, SweepArgs};
use crate::runs::Runs;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

use crate::locks::Locks;
use crate::look::Color;
use crate::run::Run;
use crate::sim::SimArgs;

/// Finds, explains, predicts and fixes lock-scaling regressions.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(after_help = examples::CONVOY)]
pub(crate) struct Args {
    /// When results are in colour
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
    /// Run an AIM7 mix on this machine
    #[command(after_help = examples::RUN)]
    Run(Box<Run>),
    /// Run an AIM7 mix on a virtual machine
    #[command(after_help = examples::SIM)]
    Sim(Box<SimArgs>),
    /// Measure locks in a loop, on this machine or a virtual one
    #[command(after_help = examples::LOCKS)]
    Locks(Box<Locks>),
    /// Measure our locks beside those of libraries, on this machine
    #[command(after_help = examples::BENCH)]
    Bench(Box<crate::bench::Bench>),
    /// Reproduce an experiment on the virtual machine, beside what was published
    #[command(after_help = examples::REPRODUCE)]
    Reproduce(Box<Reproduce>),
    /// Run the cells of an experiment in parts, each kept as soon as it is done
    #[command(after_help = examples::SWEEP)]
    Sweep(Box<SweepArgs>),
    /// Check a lock by exploring interleavings of its source
    #[command(after_help = examples::CHECK)]
    Check(crate::check::Check),
    /// Compare commands, stored runs or files of measurements
    #[command(after_help = examples::COMPARE)]
    Compare(Box<Compare>),
    /// Run a program of yours and record what its locks do
    #[command(after_help = examples::RECORD)]
    Record(Box<crate::record::RecordArgs>),
    /// Predict a recorded program with other CPUs, threads and locks
    #[command(after_help = examples::PREDICT)]
    Predict(Box<crate::predict::Predict>),
    /// Find the lock that pays for a recorded program, and the commands that check it
    #[command(after_help = examples::FIX)]
    Fix(Box<crate::fix::Fix>),
    /// Run a program of yours with other locks in place of libc's
    #[command(after_help = examples::WITH)]
    With(Box<crate::with::With>),
    /// List, show, tag, export and prune stored runs
    #[command(after_help = examples::RUNS)]
    Runs(Runs),
    /// Explain a recorded program or a simulated run: where time went, locks, longest convoy
    #[command(after_help = examples::EXPLAIN)]
    Explain(crate::explain::Explain),
    /// Write a report as one HTML page: diagnosis, timeline, locks, flame graph
    #[command(after_help = examples::REPORT)]
    Report(Box<crate::report::ReportArgs>),
    /// Find the commit that changed a measured value, in spite of noise
    #[command(after_help = examples::BISECT)]
    Bisect(Box<crate::bisect::Bisect>),
    /// List what has a name: machines, kernels, mixes, jobs, locks, experiments
    #[command(after_help = examples::LIST)]
    List(crate::list::List),
    /// Measure this machine for the virtual one
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(crate::calibrate::Calibrate),
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

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For pull requests.
    Markdown,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

/// Flags of every command.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// Form of results
    #[arg(long, value_enum, default_value = "table", hide_default_value = true)]
    #[arg(help_heading = "Output")]
    pub(crate) format: Format,
    /// Write results to a file instead of standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

impl Common {
    /// The flags of a command whose result is a text of its own.
    pub(crate) fn plain(output: Option<PathBuf>, quiet: bool) -> Self {
        Self { format: Format::Table, output, quiet }
    }
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
