//! `convoy lab calibrate`: measures this machine, as data that the virtual one is made from.

use crate::args::Common;
use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use convoy_calibrate::{machine, units};
use convoy_os::{Surroundings, clock};
use convoy_workload::calibration::Calibration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// What to measure
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Caches, line transfers, switches, wakeups and system calls: a machine preset
    Machine,
    /// The units of user-mode work of the jobs: their prices
    Units,
}

pub(crate) fn run(args: &Calibrate) -> Result<ExitCode, Failure> {
    let Calibrate { what, add, output, quiet } = args;
    if *what == What::Machine && add.is_some() {
        return Err(Failure::usage(
            "--add is for units; give `convoy lab calibrate units --add FILE`",
        ));
    }
    let common = Common::plain(output.clone(), *quiet);
    output::ready(output.as_deref())?;
    let (before, children_ns) = (Surroundings::now(), clock::children_cpu_ns());
    let told = Told { common: common.clone(), lines: Arc::default() };
    let Some(text) = measured(*what, add.as_deref(), &told)? else {
        return Err(told.interrupted());
    };
    let children_s = (clock::children_cpu_ns() - children_ns) as f64 / 1e9;
    let text = with_doubt(&common, text, before.since(children_s).sentence());
    output::result(&common, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures on a separate thread; after an interrupt returns `None` immediately.
fn measured(what: What, add: Option<&Path>, told: &Told) -> Result<Option<String>, Failure> {
    let told = told.clone();
    let ns = |told: Told| move |what: &'static str, value: f64| told.tell(what, " ns", value);
    match (what, add) {
        (What::Machine, _) => {
            let calibration = Calibration::embedded().map_err(Failure::environment)?;
            let tell = move |what: &str, value: f64| told.tell(what, "", value);
            apart(move || machine::describe(&calibration, &scratch(), tell))
        }
        (What::Units, None) => apart(move || units::calibrate(ns(told)).map(|all| all.to_toml())),
        (What::Units, Some(path)) => {
            let old = Calibration::load_incomplete(path).map_err(Failure::usage)?;
            apart(move || units::complete(&old, ns(told)).map(|all| all.to_toml()))
        }
    }
}

/// The results so far: on standard error as soon as they are measured, after an interrupt on
/// standard output.
#[derive(Clone)]
struct Told {
    common: Common,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Told {
    fn tell(&self, what: &str, unit: &str, value: f64) {
        let line = format!("{what:<28} {value:>14.3}{unit}");
        output::message(&self.common, &line);
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Prints the results so far as comments, since a file with some of the prices describes no
    /// machine, and leaves `--output` unchanged. The thread that measures ends with the process, so
    /// its files are removed here.
    fn interrupted(&self) -> Failure {
        for directory in [scratch(), std::env::temp_dir().join(directory_name())] {
            let _best_effort = std::fs::remove_dir_all(directory);
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines.iter().fold(String::new(), |text, line| text + "# " + line + "\n");
        let printed = output::result(&Common::plain(None, self.common.quiet), &text);
        printed.err().unwrap_or_else(|| Failure::interrupted(lines.len()))
    }
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
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    parent.join(directory_name())
}

/// The name that the directories of a calibration have.
fn directory_name() -> String {
    format!("convoy-calibrate-{}", std::process::id())
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
