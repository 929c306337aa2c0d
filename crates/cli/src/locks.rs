//! `convoy locks`: locks in a loop, on this machine or a virtual one.

use crate::args::Common;
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use clap::Args;
use convoy_host::Interrupts;
use convoy_lab::native::{self, NativeExperiment};
use convoy_report::{native_csv, native_json, native_text};
use convoy_workload::user::Next;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `convoy locks`.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// An experiment file such as experiments/semaphore-native.toml
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Seed of the order of the runs instead of the file's
    #[arg(long)]
    seed: Option<u64>,
    /// Where the record goes.
    #[command(flatten)]
    store: StoreArgs,
    /// Flags of every command.
    #[command(flatten)]
    common: Common,
}

/// The command.
pub(crate) fn run(args: &Locks) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    let mut experiment = read(&args.file)?;
    if let Some(seed) = args.seed {
        experiment.seed = seed;
    }
    let interrupts = Interrupts::catch();
    let bar = output::progress(&args.common, experiment.runs() as u64);
    let record = native::run(&experiment, &mut |at, what| {
        bar.set_position(at as u64);
        bar.set_message(what.to_owned());
        if interrupts.pending() { Next::Stop } else { Next::Continue }
    });
    bar.finish_and_clear();
    let record = record.map_err(Failure::environment)?;
    let done = record.runs.len();
    if done == 0 {
        return Err(Failure::interrupted(0));
    }
    output::print(
        &args.common,
        || native_text(&record),
        || native_json(&record),
        || native_csv(&record),
    )?;
    let body = serde_json::to_value(&record).map_err(Failure::environment)?;
    args.store.keep(&args.common, "native", Some(experiment.seed), body);
    if done < experiment.runs() {
        return Err(Failure::interrupted(done));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<NativeExperiment, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read experiment {name}: {error}; name a readable file"))
    })?;
    NativeExperiment::parse(&text)
        .map_err(|error| Failure::usage(format!("experiment {name}: {error}")))
}
