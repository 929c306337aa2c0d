//! `convoy calibrate`: measures this machine, as data that the virtual one is made from.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use convoy_calibrate::{machine, units};
use convoy_host::{Surroundings, clock};
use convoy_workload::calibration::Calibration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `convoy calibrate`.
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// The measured part
    #[arg(value_enum, default_value = "machine")]
    what: What,
    /// Keep the prices of this file and measure only the units that it lacks, on its scale
    #[arg(long, value_name = "FILE")]
    add: Option<PathBuf>,
    /// Write the result to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// The measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Caches, line transfers, switches, wakeups and system calls: a machine preset
    Machine,
    /// The units of user-mode work of the jobs: their prices
    Units,
}

/// The command.
pub(crate) fn run(args: &Calibrate) -> Result<ExitCode, Failure> {
    let Calibrate { what, add, output, quiet } = args;
    if *what == What::Machine && add.is_some() {
        return Err(Failure::usage("--add is for units; give `convoy calibrate units --add FILE`"));
    }
    let common = Common::plain(output.clone(), *quiet);
    output::ready(output.as_deref())?;
    let tell = |what: &str, unit: &str, value: f64| {
        output::message(&common, &format!("{what:<28} {value:>14.3}{unit}"));
    };
    let ns = |unit: &'static str, value: f64| tell(unit, " ns", value);
    let (before, children_ns) = (Surroundings::now(), clock::children_cpu_ns());
    let text = match (what, add) {
        (What::Machine, _) => {
            let calibration = Calibration::embedded().map_err(Failure::environment)?;
            let tell = |what: &str, value: f64| tell(what, "", value);
            machine::describe(&calibration, &scratch(), tell).map_err(Failure::environment)?
        }
        (What::Units, None) => units::calibrate(ns).map_err(Failure::environment)?.to_toml(),
        (What::Units, Some(path)) => {
            let old = Calibration::load_incomplete(path).map_err(Failure::usage)?;
            units::complete(&old, ns).map_err(Failure::environment)?.to_toml()
        }
    };
    let children_s = (clock::children_cpu_ns() - children_ns) as f64 / 1e9;
    let text = with_doubt(&common, text, before.since(children_s).sentence());
    output::result(&common, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The file `text` below the sentence that doubts its numbers, if there is one.
fn with_doubt(common: &Common, text: String, doubt: Option<String>) -> String {
    let Some(doubt) = doubt else { return text };
    output::message(common, &format!("convoy: {doubt}"));
    format!("# {doubt}\n{text}")
}

/// A new directory for the calls that are measured: in memory where there is one, as AIM7's is.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let name = format!("convoy-calibrate-{}", std::process::id());
    if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_doubted_says_so_first() {
        let common = Common::plain(None, true);
        let with = |doubt: Option<&str>| {
            with_doubt(&common, "speed = 1.0\n".to_owned(), doubt.map(str::to_owned))
        };
        assert_eq!(with(None), "speed = 1.0\n");
        assert_eq!(with(Some("Do not.")), "# Do not.\nspeed = 1.0\n");
    }
}
