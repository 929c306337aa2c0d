//! The account of a recorded program.

use super::args::Explain;
use super::files::stacks;
use crate::fail::Failure;
use crate::look::plain;
use crate::output;
use convoy_explain::{Lanes, Named};
use convoy_record::Record;
use convoy_report::RecordedReport;
use std::process::ExitCode;

/// Writes the activity of threads over time for other tools; returns a note on each file.
fn timelines(args: &Explain, record: &Record) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let Some(first) = args.trace.as_ref().or(args.firefox.as_ref()) else { return Ok(notes) };
    let mut lanes = Lanes::new(record);
    if lanes.is_empty() {
        return Err(Failure::usage(format!(
            "{}: the record does not say when threads waited, only how long; record the program \
             with convoy record -- CMD",
            first.display()
        )));
    }
    let program = &record.program;
    let commands = record.processes.iter().map(|one| (one.pid, shell_words::join(&one.command)));
    let named = Named {
        title: shell_words::join(&program.command),
        system: format!("Linux {}", program.kernel),
        date: program.date.clone(),
        commands: commands.collect(),
    };
    if let Some(path) = &args.firefox {
        let mut profile =
            serde_json::to_value(lanes.firefox(&named)).map_err(Failure::environment)?;
        // The published types demand it, and the library leaves it out: 1 is for native stacks.
        profile["meta"]["stackwalk"] = 0.into();
        let profile = serde_json::to_string(&profile).map_err(Failure::environment)?;
        output::file(path, plain(&profile).as_bytes())?;
        notes.push(format!(
            "profile {}: {} threads; open it in profiler.firefox.com",
            path.display(),
            lanes.threads.len()
        ));
    }
    if let Some(path) = &args.trace {
        let bytes = lanes.perfetto(&named.commands, args.trace_limit as usize * 1_000_000);
        let arrows = lanes.handovers.len();
        output::file(path, &bytes)?;
        let less = match lanes.least_ns {
            0 => String::new(),
            ns => {
                let least_us = ns as f64 / 1e3;
                format!("; acts shorter than {least_us:.1} us are left out (--trace-limit)")
            }
        };
        notes.push(format!(
            "trace {}: {} threads, {arrows} waits with the release that ended them{less}; open \
             it in ui.perfetto.dev",
            path.display(),
            lanes.threads.len()
        ));
    }
    Ok(notes)
}

/// Prints the account and writes the files that were asked for.
pub(super) fn explain(args: &Explain, record: &Record) -> Result<ExitCode, Failure> {
    let foreign = [
        ("--kernel", args.kernel.is_some()),
        ("--users", args.users.is_some()),
        ("--cpus", args.cpus.is_some()),
        ("--machine", args.machine.is_some()),
        ("--seed", args.seed.is_some()),
    ];
    if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{flag} belongs to simulated runs; {} is the record of a program: leave it out",
            args.run
        )));
    }
    let mut report = RecordedReport::new(record);
    let notes = stacks(args, &report.title, &report.stacks(), record.program.wall_s)?;
    report.notes.extend(notes);
    report.notes.extend(timelines(args, record)?);
    let text = || if args.all { report.to_text() } else { report.to_screen() };
    output::print(&args.common, text, || report.to_json(), || report.to_csv())?;
    Ok(ExitCode::SUCCESS)
}
