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
use clap::{Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::num::{ParseFloatError, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;

/// Finds, explains, predicts and fixes lock-scaling regressions.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(after_help = examples::CONVOY, after_long_help = examples::CONVOY_LONG)]
pub(crate) struct Args {
    /// When to colour results
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", global = true)]
    #[arg(hide_short_help = true)]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, the ones for users first.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program unchanged and record its locks
    #[command(after_help = examples::RECORD)]
    Record(Box<crate::record::RecordArgs>),
    /// Watch the locks of running processes, refreshed each second
    #[command(after_help = examples::TOP)]
    Top(Box<crate::top::Top>),
    /// Explain a record or a simulated run: lock, owner, cure
    #[command(after_help = examples::EXPLAIN)]
    Explain(crate::explain::Explain),
    /// Recommend a change for a record, and print the commands that test it
    #[command(after_help = examples::FIX)]
    Fix(Box<crate::fix::Fix>),
    /// Compare commands, records, stored runs or files of measurements
    #[command(after_help = examples::COMPARE)]
    Compare(Box<Compare>),
    /// Write one HTML page: diagnosis, timeline, locks, flame graph
    #[command(after_help = examples::REPORT)]
    Report(Box<crate::report::ReportArgs>),
    /// List, show, tag, export and prune stored runs
    #[command(after_help = examples::RUNS)]
    Runs(Runs),
    /// Predict a recorded program with other CPUs, threads and locks
    #[command(after_help = examples::PREDICT)]
    Predict(Box<crate::predict::Predict>),
    /// Run a program unchanged with other locks instead of libc's
    #[command(after_help = examples::WITH)]
    With(Box<crate::with::With>),
    /// Check whether programs can be recorded here
    #[command(after_help = examples::DOCTOR)]
    Doctor(crate::doctor::Doctor),
    /// The laboratory: loads, simulations, locks, experiments, bisection
    #[command(subcommand, after_help = examples::LAB)]
    Lab(Lab),
    /// Print the JSON schema of the results that `--format json` prints
    #[command(after_help = examples::SCHEMA, hide = true)]
    Schema,
    /// Print the completions of a shell
    #[command(after_help = examples::COMPLETIONS, hide = true)]
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands
    #[command(after_help = examples::MAN, hide = true)]
    Man(Man),
    /// Commands of the laboratory as they were called before version 0.1.
    #[command(flatten)]
    Old(Lab),
}

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run an AIM7 mix on this machine
    #[command(after_help = examples::RUN)]
    Run(Box<Run>),
    /// Run an AIM7 mix on a virtual machine
    #[command(after_help = examples::SIM)]
    Sim(Box<SimArgs>),
    /// Run a published experiment and compare its results
    #[command(after_help = examples::REPRODUCE, visible_alias = "sweep")]
    Reproduce(Box<Reproduce>),
    /// Measure locks in a loop, on this machine or a virtual one
    #[command(after_help = examples::LOCKS)]
    Locks(Box<Locks>),
    /// Benchmark Convoy's locks against other libraries on this machine
    #[command(after_help = examples::BENCH)]
    Bench(Box<crate::bench::Bench>),
    /// Check a lock by exploring interleavings of its source
    #[command(after_help = examples::CHECK)]
    Check(crate::check::Check),
    /// Measure this machine's prices for the virtual machine
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(crate::calibrate::Calibrate),
    /// List machines, kernels, mixes, jobs, locks and experiments
    #[command(after_help = examples::LIST)]
    List(crate::list::List),
    /// Find the commit that changed a measured value, in spite of noise
    #[command(after_help = examples::BISECT)]
    Bisect(Box<crate::bisect::Bisect>),
}

/// The options of the short help, which fits a screen; the long help has all of them.
const SHORT: [(&str, &[&str]); 9] = [
    ("record", &["pid", "seconds", "output"]),
    ("top", &["pid", "once", "serve"]),
    ("explain", &["all", "trace", "flame"]),
    ("fix", &["split", "plot", "format"]),
    ("compare", &["runs", "metric-regex"]),
    ("report", &["output", "predict"]),
    ("runs", &["last"]),
    ("predict", &["cpus", "threads", "plot"]),
    ("with", &["mutex", "lock"]),
];

/// The definition of the command line for its parser, its help and its pages.
pub(crate) fn definition() -> clap::Command {
    let command = Args::command().mut_subcommands(|command| {
        let is_old = Lab::has_subcommand(command.get_name());
        if is_old { command.hide(true) } else { command }
    });
    SHORT.into_iter().fold(command, |command, (name, options)| {
        command.mut_subcommand(name, |command| {
            command.mut_args(|arg| {
                let is_short = arg.get_long().is_none_or(|long| options.contains(&long));
                if is_short { arg } else { arg.hide_short_help(true) }
            })
        })
    })
}

/// Parses a command line; the first word is the name of the program.
pub(crate) fn parse(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Args, clap::Error> {
    let matches = definition().try_get_matches_from(words)?;
    if let Some(name) = matches.subcommand_name() {
        hint(name);
    }
    Args::from_arg_matches(&matches)
}

/// Names the new word in place of an old one, on a terminal. The command of the README stays.
fn hint(name: &str) {
    if Lab::has_subcommand(name) && name != "reproduce" && std::io::stderr().is_terminal() {
        output::say(&format!(
            "convoy: `convoy {name}` is now `convoy lab {name}`; the old word ends with version 0.2"
        ));
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

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
    let problem = problem(error);
    let command = named(std::env::args_os().skip(1));
    output::failure(&Failure::usage(format!("{problem}; see `{command} --help`")))
}

/// The command that the words name: `convoy runs list`.
fn named(words: impl Iterator<Item = OsString>) -> String {
    let (mut command, mut name) = (definition(), "convoy".to_owned());
    for word in words.take_while(|word| word != "--") {
        if let Some(inner) = command.find_subcommand(&word).cloned() {
            name.push_str(if inner.is_hide_set() { " lab " } else { " " });
            name.push_str(inner.get_name());
            command = inner;
        }
    }
    name
}

/// An error of the parser, in the style of all messages.
fn problem(error: &clap::Error) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let flag = argument.split(' ').next().unwrap_or_default();
    let value = context(error, ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let hint = meant(error, ContextKind::SuggestedArg);
            format!("unknown option {flag}{hint}{}", elsewhere(flag))
        }
        ErrorKind::InvalidSubcommand => {
            let name = context(error, ContextKind::InvalidSubcommand);
            format!("unknown command {name}{}", meant(error, ContextKind::SuggestedSubcommand))
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{flag} needs a value"),
        ErrorKind::InvalidValue => {
            let hint = meant(error, ContextKind::SuggestedValue);
            let known = context(error, ContextKind::ValidValue);
            format!("{flag} {value}: not one of {known}{hint}")
        }
        ErrorKind::ValueValidation => format!("{flag} {value}: {}", reason(error)),
        ErrorKind::MissingRequiredArgument => format!("{argument} is missing"),
        ErrorKind::MissingSubcommand => {
            format!("a command is missing: {}", context(error, ContextKind::ValidSubcommand))
        }
        ErrorKind::ArgumentConflict => match context(error, ContextKind::PriorArg) {
            prior if prior == argument => format!("{flag} is given twice"),
            prior => format!("{flag} does not go with {prior}"),
        },
        _ => {
            let text = error.render().to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    }
}

/// A fact about an error; empty if it lacks it.
fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

/// The suggestion of an error as a question; empty if there is none.
fn meant(error: &clap::Error, kind: ContextKind) -> String {
    match context(error, kind).as_str() {
        "" => String::new(),
        known => format!("; did you mean {}?", known.replace(", ", " or ")),
    }
}

/// Why a value is refused.
fn reason(error: &clap::Error) -> String {
    let Some(source) = error.source() else { return "not a valid value".to_owned() };
    if source.is::<ParseIntError>() {
        "not a whole number in range".to_owned()
    } else if source.is::<ParseFloatError>() {
        "not a number".to_owned()
    } else {
        source.to_string()
    }
}

/// Names the commands that have the flag that this command does not have; empty if none has it.
fn elsewhere(flag: &str) -> String {
    let Some(flag) = flag.strip_prefix("--") else { return String::new() };
    let commands = definition();
    let lab = commands.find_subcommand("lab").into_iter().flat_map(clap::Command::get_subcommands);
    let takers: Vec<String> = commands
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| ("", command))
        .chain(lab.map(|command| ("lab ", command)))
        .filter(|(_, command)| command.get_arguments().any(|arg| arg.get_long() == Some(flag)))
        .map(|(group, command)| format!("`convoy {group}{}`", command.get_name()))
        .collect();
    if takers.is_empty() {
        return String::new();
    }
    format!("; --{flag} belongs to {}", takers.join(", "))
}
