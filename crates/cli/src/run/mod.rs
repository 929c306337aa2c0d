//! `convoy run`: AIM7 on this machine or a virtual one, or a native lock experiment.

pub(crate) mod args;
mod control;
mod host;
mod progress;
mod simulated;
mod single;

use crate::fail::Failure;
use crate::output;
use args::{ColumnsOf, Run};
use convoy_host::Interrupts;
use convoy_lab::native::{self, NativeExperiment};
use convoy_report::{Columns, RunReport, native_csv, native_json, native_text};
use convoy_workload::mix::Mix;
use convoy_workload::schedule::Schedule;
use convoy_workload::user::Next;
use std::path::Path;
use std::process::ExitCode;

/// The command.
pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready(args.results.record.as_deref())?;
    for path in &args.results.export {
        export_of(path)?;
        output::ready(Some(path))?;
    }
    for path in &args.results.plot {
        plot_of(path)?;
        output::ready(Some(path))?;
    }
    if let Some(path) = &args.experiment {
        return locks(args, path);
    }
    let config = control::config(&args.load)?;
    let mix = control::mix(&args.load, &config)?;
    let schedule = control::schedule(&args.points, &config)?;
    if !(0.0..=3600.0).contains(&args.load.start_delay) {
        return Err(Failure::usage("--start-delay must be 0 to 3600 seconds"));
    }
    if args.timeline.is_some_and(|interval| !(0.001..=3600.0).contains(&interval)) {
        return Err(Failure::usage("--timeline must be 0.001 to 3600 seconds"));
    }
    if !(0.0..=1e6).contains(&args.disk_ms) {
        return Err(Failure::usage("--disk-ms must be 0 to 1000000"));
    }
    if args.load.aim9 {
        return single::run(args, mix, &config);
    }
    match (&args.kernel, schedule) {
        (Some(kernel), Schedule::List(users)) => simulated::run(args, &mix, &users, kernel),
        (Some(kernel), sweep @ Schedule::Sweep(_)) if !sweep.looks() => {
            simulated::run(args, &mix, &sweep.planned(), kernel)
        }
        (Some(_), Schedule::Sweep(_)) => Err(Failure::usage(
            "virtual load points run side by side: --adaptive, --crossover and --peak need this \
             machine; name the points with --users or --start, --end, --increment",
        )),
        (None, schedule) => host::run(args, mix, schedule, &config),
    }
}

/// The mix that a run on the virtual machine was given.
pub(crate) fn simulated_mix(args: &Run) -> Result<Mix, Failure> {
    control::mix(&args.load, &control::config(&args.load)?)
}

fn locks(args: &Run, path: &Path) -> Result<ExitCode, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read experiment {name}: {error}; name a readable file"))
    })?;
    let mut experiment = NativeExperiment::parse(&text)
        .map_err(|error| Failure::usage(format!("experiment {name}: {error}")))?;
    if let Some(seed) = args.load.seed {
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

/// Prints `report` (in a text for people with `details` beneath it) and writes the files that were
/// asked for. `machine` and `date` tell where and when it ran.
fn finish(
    args: &Run,
    report: &RunReport,
    machine: &str,
    date: &str,
    details: &str,
) -> Result<(), Failure> {
    let columns = match args.results.columns {
        ColumnsOf::Aim7 => Columns::Aim7,
        ColumnsOf::Reaim => Columns::Reaim,
    };
    output::print(
        &args.common,
        || report.to_text(columns) + details,
        || report.to_json(),
        || report.to_csv(),
    )?;
    for path in &args.results.export {
        match export_of(path)? {
            Export::Suite7 => output::append(path, &report.to_suite7(machine, date))?,
            Export::Reaim => output::file(path, &report.to_reaim_csv())?,
        }
    }
    for path in &args.results.plot {
        let svg = || report.curve(machine).to_svg();
        match plot_of(path)? {
            Picture::Svg => output::file(path, &svg())?,
            Picture::Html => output::file(path, &report.to_html(machine, columns))?,
            Picture::Png => {
                let picture = convoy_report::png(&svg()).map_err(Failure::environment)?;
                output::file(path, &picture)?;
            }
        }
    }
    Ok(())
}

enum Export {
    Suite7,
    Reaim,
}

enum Picture {
    Svg,
    Html,
    Png,
}

/// The format that the name of the file says.
fn export_of(path: &Path) -> Result<Export, Failure> {
    match extension(path).as_deref() {
        Some("ss") => Ok(Export::Suite7),
        Some("csv") => Ok(Export::Reaim),
        _ => Err(Failure::usage(format!(
            "--export {}: the name says no format; end it with .ss (AIM7) or .csv (re-aim)",
            path.display()
        ))),
    }
}

fn plot_of(path: &Path) -> Result<Picture, Failure> {
    match extension(path).as_deref() {
        Some("svg") => Ok(Picture::Svg),
        Some("html" | "htm") => Ok(Picture::Html),
        Some("png") => Ok(Picture::Png),
        _ => Err(Failure::usage(format!(
            "--plot {}: the name says no format; end it with .svg, .html or .png",
            path.display()
        ))),
    }
}

fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}
