//! A recorded program: what its threads waited for.

use super::{Explain, picture};
use crate::fail::Failure;
use crate::keep::default_path;
use crate::output;
use convoy_explain::folded;
use convoy_record::{Record, import};
use convoy_report::{RecordedReport, flame_html, flame_svg};
use convoy_store::{Store, StoreError};
use std::path::Path;
use std::process::ExitCode;

/// What `perf record` writes begins with this.
const PERF_DATA: &[u8] = b"PERFILE2";

/// The record that `name` stands for: a file that begins as JSON does, one of another tool, or a
/// stored record.
pub(crate) fn find(name: &str, store: Option<&Path>) -> Result<Option<Record>, Failure> {
    let path = Path::new(name);
    if let Ok(bytes) = std::fs::read(path) {
        if bytes.starts_with(PERF_DATA) {
            return Err(Failure::usage(format!(
                "{name} is what perf record writes; name what `perf lock contention -i {name}` or \
                 `perf script -i {name}` prints"
            )));
        }
        if let Some(imported) = import::read_bytes(path, &bytes) {
            return Ok(Some(imported));
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.trim_start().starts_with('{') {
            return Ok(Some(Record::parse(&text, path)?));
        }
        if let Some(imported) = import::read(path, &text) {
            return Ok(Some(imported?));
        }
    }
    if !name.starts_with('@') && !name.chars().all(|c| c.is_ascii_digit()) {
        return Ok(None);
    }
    let store = store.map(Path::to_owned).or_else(default_path).ok_or(StoreError::NoPlace)?;
    let stored = Store::read(store)?.find(name)?;
    if stored.entry.kind != "record" {
        return Ok(None);
    }
    Ok(Some(Record::parse(&stored.entry.body.to_string(), path)?))
}

/// Prints the account and writes the files that were asked for.
pub(super) fn explain(args: &Explain, record: &Record) -> Result<ExitCode, Failure> {
    let foreign = [
        ("--kernel", args.kernel.is_some()),
        ("--users", args.users.is_some()),
        ("--cpus", args.cpus.is_some()),
        ("--machine", args.machine.is_some()),
        ("--seed", args.seed.is_some()),
        ("--proc", args.proc.is_some()),
        ("--trace", args.trace.is_some()),
        ("--ftrace", args.ftrace.is_some()),
    ];
    if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
        let instead = match *flag {
            "--trace" | "--ftrace" => {
                ". It has in order what some threads did in windows of the run (`trace` of each \
                 process, in the file that record -o writes); for every switch of the program, \
                 perf sched record -- CMD, then perf sched timehist"
            }
            _ => ": leave it out",
        };
        return Err(Failure::usage(format!(
            "{flag} belongs to simulated runs; {} is the record of a program{instead}",
            args.run
        )));
    }
    let mut report = RecordedReport::new(record);
    let stacks = report.stacks();
    if let Some(path) = &args.folded {
        output::file(path, &folded(&stacks))?;
        report.notes.push(format!("folded stacks {}: {} stacks", path.display(), stacks.len()));
    }
    if let Some(path) = &args.flame {
        let draw = if picture(path)? { flame_html } else { flame_svg };
        output::file(path, &draw(&report.title, &stacks))?;
        report.notes.push(format!("flame graph {}", path.display()));
    }
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    Ok(ExitCode::SUCCESS)
}
