//! The `convoy` command: parses the arguments, runs the command, and exits with a documented code.
//!
//! A library, so that a build compiles it in parallel with its dependencies; the program is its
//! `main`.

mod args;
mod bench;
mod bisect;
mod build;
mod calibrate;
mod check;
mod command;
mod compare;
mod doctor;
mod examples;
mod experiment;
mod explain;
mod fail;
mod fix;
mod keep;
mod list;
mod load;
mod locks;
mod look;
mod metric;
mod output;
mod predict;
mod presets;
mod record;
mod report;
mod run;
mod runs;
mod shell;
mod sim;
mod top;
mod with;

use command::{Args, Command, Lab};
use fail::Failure;
use std::process::ExitCode;

/// Runs the command of this process's command line, and returns its exit code.
pub fn main() -> ExitCode {
    if let Err(failure) = check_stack() {
        return output::failure(&failure);
    }
    match command::parse(std::env::args_os()) {
        Ok(args) => execute(&args).unwrap_or_else(|failure| output::failure(&failure)),
        Err(error) => command::help_or_error(&error),
    }
}

/// Does what `words` say, the first of which is the name of the program; for a process that runs
/// many commands. Returns the exit code.
///
/// # Errors
/// The line that the command prints if it fails.
pub fn attempt(words: impl IntoIterator<Item = String>) -> Result<ExitCode, String> {
    let args = command::parse(words).map_err(|error| error.to_string())?;
    execute(&args).map_err(|failure| failure.line())
}

/// Fails if the stack is too small for this program, which would end by a signal.
fn check_stack() -> Result<(), Failure> {
    /// Bytes; with half of it the parser of the command line overflows the stack.
    const LEAST: u64 = 512 << 10;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    match limit.filter(|limit| *limit < LEAST) {
        Some(limit) => Err(Failure::environment(format!(
            "the stack may have {} KB, and {} KB are needed; raise the limit (ulimit -s 8192)",
            limit >> 10,
            LEAST >> 10
        ))),
        None => Ok(()),
    }
}

fn execute(args: &Args) -> Result<ExitCode, Failure> {
    look::set(args.color);
    match &args.command {
        Command::Record(record) => record::run(record),
        Command::Top(top) => top::run(top),
        Command::Explain(explain) => explain::run(explain),
        Command::Fix(fix) => fix::run(fix),
        Command::Compare(compare) => compare::run(compare),
        Command::Report(report) => report::run(report),
        Command::Runs(runs) => runs::run(runs),
        Command::Predict(predict) => predict::run(predict),
        Command::With(with) => with::run(with),
        Command::Doctor(doctor) => doctor::run(doctor),
        Command::Schema => shell::schema(),
        Command::Completions(completions) => shell::completions(completions),
        Command::Man(man) => shell::man(man),
        Command::Lab(lab) | Command::Old(lab) => match lab {
            Lab::Run(run) => run::run(run),
            Lab::Sim(sim) => sim::run(sim),
            Lab::Reproduce(args) => experiment::reproduce(args),
            Lab::Locks(locks) => locks::run(locks),
            Lab::Bench(bench) => bench::run(bench),
            Lab::Check(check) => check::run(check),
            Lab::Calibrate(calibrate) => calibrate::run(calibrate),
            Lab::List(list) => list::run(list),
            Lab::Bisect(bisect) => bisect::run(bisect),
        },
    }
}
