//! Recovers and removes the files of recorders that were killed.

use super::args::RecordArgs;
use super::keep::{keep, redact};
use super::unseen;
use crate::fail::Failure;
use crate::keep::warn;
use convoy_host::describe_host;
use convoy_os::cpus::threads_per_core;
use convoy_record::place::{self, Left, programs_lost};
use convoy_record::{Program, Record, VERSION, raw};
use serde_json::Value;
use std::process::ExitCode;

/// `convoy record --recover`.
pub(super) fn recover(args: &RecordArgs) -> Result<ExitCode, Failure> {
    super::keep::ready(args)?;
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

/// Before another run: keeps what earlier ones left, so that nothing takes memory for good.
pub(super) fn tidy(args: &RecordArgs) {
    for left in place::left(args.buffer.as_deref()) {
        if !left.is_in_use() {
            let into_store = RecordArgs { output: None, quiet: true, ..args.clone() };
            keep_left(&into_store, left);
        }
    }
}

/// Key of a note: whether the arguments of commands are to be left out.
const REDACTED: &str = "redacted";

/// The recorded program, and whether its arguments are left out, for [`keep_left`].
pub(super) fn note(program: &Program, is_redacted: bool) -> String {
    let mut note = serde_json::to_value(program).expect("a program has string keys");
    note[REDACTED] = is_redacted.into();
    note.to_string()
}

/// Whether it held anything; it goes away if that is kept, or nothing.
fn keep_left(args: &RecordArgs, left: Left) -> bool {
    let mut processes = raw::read(left.files()).unwrap_or_default();
    processes.retain(|process| process.threads > 0);
    if processes.is_empty() {
        left.remove();
        return false;
    }
    let note: Value = serde_json::from_str(&left.note()).unwrap_or_default();
    if args.redact || note[REDACTED] == true {
        redact(&mut processes);
    }
    let program = serde_json::from_value::<Program>(note).unwrap_or_default();
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
    if keep(args, &record) {
        left.remove();
    }
    true
}
