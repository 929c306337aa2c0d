//! Recovers and removes the files of recorders that were killed.

use super::args::RecordArgs;
use super::keep::{keep, redact};
use super::unseen;
use crate::fail::Failure;
use crate::keep::{self, warn};
use crate::output;
use convoy_host::describe_host;
use convoy_os::cpus::threads_per_core;
use convoy_record::place::{self, Left, programs_lost};
use convoy_record::{Program, Record, VERSION, raw};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) fn recover(args: &RecordArgs) -> Result<ExitCode, Failure> {
    super::keep::ready(args.destination())?;
    let mut found = 0;
    for left in place::left(args.buffer.as_deref()) {
        if left.is_in_use() {
            warn(&format!("{} is still written to, so it stays", left.path().display()));
            continue;
        }
        found += usize::from(keep_left(args, left));
    }
    if found == 0 {
        let text = "no interrupted recording of yours has left anything; there is nothing to do";
        return Err(Failure::usage(text));
    }
    Ok(ExitCode::SUCCESS)
}

/// Before another run: prints where killed recorders of this user left data, which belongs to their
/// commands and stores. Removes directories without data.
pub(super) fn mention(args: &RecordArgs) {
    for left in place::left(args.buffer.as_deref()) {
        if left.is_empty() {
            left.remove();
        } else if !left.is_in_use() && !args.quiet {
            let note: Note = serde_json::from_str(&left.note()).unwrap_or_default();
            output::say(&format!(
                "convoy: a killed recording of {} is in {}; convoy record --recover keeps it",
                note.program.command.first().map_or("a program", String::as_str),
                left.path().display()
            ));
        }
    }
}

/// Description of a run, for [`keep_left`].
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    #[serde(flatten)]
    program: Program,
    /// Whether the arguments of commands are left out.
    redacted: bool,
    /// Arguments of the command that recorded it.
    arguments: Vec<String>,
    /// The path of the file that the record was meant for, which may be no text.
    output: Option<OsString>,
    /// The path of the store that the record was meant for, if not for a file.
    store: Option<OsString>,
}

/// Returns the description of the recorded program, and where its record is kept.
pub(super) fn note(args: &RecordArgs, program: &Program) -> String {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path).into_os_string();
    let mut arguments = keep::arguments();
    if args.redact {
        arguments.truncate(arguments.len().saturating_sub(args.words.len().saturating_sub(1)));
    }
    let note = Note {
        program: program.clone(),
        redacted: args.redact,
        arguments,
        output: args.output.clone().map(absolute),
        store: if args.store.is_off() { None } else { args.store.path().map(absolute) },
    };
    serde_json::to_string(&note).expect("a program has string keys")
}

/// Keeps a recording where its command would have, unless this command names another place. Returns
/// whether it held anything; it is removed if that is kept, or if there is nothing.
fn keep_left(args: &RecordArgs, left: Left) -> bool {
    let mut processes = raw::read(left.files()).unwrap_or_default();
    processes.retain(|process| process.threads > 0);
    if processes.is_empty() {
        left.remove();
        return false;
    }
    let note: Note = serde_json::from_str(&left.note()).unwrap_or_default();
    let mut args = args.clone();
    args.redact |= note.redacted;
    if args.redact {
        redact(&mut processes);
    }
    if args.output.is_none() && args.store.store.is_none() {
        args.output = note.output.map(PathBuf::from);
        args.store.store = note.store.map(PathBuf::from);
    }
    let program = note.program;
    let seconds = processes.iter().map(|process| process.seconds).fold(0.0, f64::max);
    let host = describe_host();
    let program = Program {
        ending: "the recorder was killed".to_owned(),
        wall_s: seconds,
        cpu_s: processes.iter().map(|process| process.cpu_s).sum(),
        cpus: host.cpus,
        cpu_model: host.cpu,
        threads_per_core: threads_per_core(),
        kernel: host.kernel,
        programs_lost: programs_lost(left.files()),
        ..program
    };
    let mut sentences = vec![format!(
        "The recorder was killed; this was recovered from {}: kernel events are lost.",
        left.path().display()
    )];
    sentences.extend(unseen::not_seen(&processes, program.programs_lost, 0, false));
    let record = Record { recorded: VERSION, program, processes, unseen: sentences };
    if keep(args.destination(), &record, note.arguments) {
        left.remove();
    }
    true
}
