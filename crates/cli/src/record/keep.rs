//! Keeping a record: what can be refused is refused before the program starts; what fails
//! afterwards goes to the next place.

use super::args::RecordArgs;
use crate::args::Common;
use crate::fail::Failure;
use crate::keep::{self, StoreArgs, warn};
use crate::output;
use convoy_diagnose::Diagnosis;
use convoy_os::groups;
use convoy_record::layout::{File, SPACE_SHARE};
use convoy_record::{Process, Record};
use convoy_report::diagnosis;
use convoy_store::Store;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// Where a record is written, and the messages about it.
#[derive(Clone, Copy)]
pub(crate) struct Destination<'a> {
    /// A file instead of the store.
    pub(crate) output: Option<&'a Path>,
    /// No messages on standard error.
    pub(crate) quiet: bool,
    pub(crate) store: &'a StoreArgs,
    /// Number of words at the end of the command line that are left out of the store.
    pub(crate) left_out: usize,
}

impl RecordArgs {
    /// Returns where the record is written.
    pub(super) fn destination(&self) -> Destination<'_> {
        let left_out = if self.redact { self.words.len().saturating_sub(1) } else { 0 };
        let Self { quiet, store, .. } = self;
        Destination { output: self.output.as_deref(), quiet: *quiet, store, left_out }
    }
}

/// Asks for all that a record needs before the program starts.
pub(crate) fn ready(to: Destination<'_>) -> Result<(), Failure> {
    to.store.check_tags()?;
    if let Some(path) = to.output {
        output::ready(Some(path))?;
        return output::can_write(path);
    }
    if to.store.is_off() {
        return Ok(());
    }
    match to.store.path().map(Store::open) {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) if to.store.is_named() => Err(error.into()),
        // The usual place does not serve; the next ones do, or there is none.
        _ if spare().iter().any(|place| output::can_write(&place.join("x")).is_ok()) => Ok(()),
        _ => Err(Failure::environment(
            "there is no place for the record: name one with --output FILE or --store FILE",
        )),
    }
}

/// Refuses limits under which nothing could be recorded: the program would have the same.
pub(crate) fn limits() -> Result<(), Failure> {
    /// Descriptors that the recorder has open at a time (seven for its directories and signals),
    /// and as many again for files of symbols and what libraries open.
    const DESCRIPTORS: usize = 16;
    /// Bytes of the file of a process, which is sparse.
    const FILE: u64 = size_of::<File>() as u64;
    /// Bytes of the recorder after the program has ended: with 16 MB the kernel kills it then.
    const MEMORY: u64 = 32 << 20;
    let left = groups::left(&groups::MEMORY);
    if let Some((bytes, _)) = left.filter(|(bytes, _)| *bytes < MEMORY) {
        return Err(Failure::environment(format!(
            "a recording needs {} MB of memory, and the control group permits {} MB more; raise \
             its limit (memory.max), or record from outside of it with --pid or --cgroup",
            MEMORY >> 20,
            bytes >> 20
        )));
    }
    let opened: Result<Vec<_>, _> =
        (0..DESCRIPTORS).map(|_| std::fs::File::open("/dev/null")).collect();
    if opened.is_err_and(|error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error())) {
        return Err(Failure::environment(format!(
            "a recording needs {DESCRIPTORS} more descriptors than may be open here (ulimit -n)"
        )));
    }
    let megabytes = FILE / 1_000_000;
    if let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < FILE) {
        return Err(Failure::environment(format!(
            "files may have {most} bytes at most here (ulimit -f), and the recorder's have \
             {megabytes} MB"
        )));
    }
    match getrlimit(Resource::As).current.filter(|most| most / SPACE_SHARE < FILE) {
        None => Ok(()),
        Some(most) => Err(Failure::environment(format!(
            "programs may have {} MB of address space here (ulimit -v), and the recorder maps \
             {megabytes} MB in each; raise the limit to {} MB, or record from outside of it with \
             --pid",
            most / 1_000_000,
            FILE * SPACE_SHARE / 1_000_000
        ))),
    }
}

/// Where a record goes if neither the file nor the store that it was meant for takes it.
fn spare() -> [PathBuf; 2] {
    [PathBuf::from("."), std::env::temp_dir()]
}

/// Removes the arguments of commands, and the text that servers add to their names after a colon.
pub(super) fn redact(processes: &mut [Process]) {
    for process in processes {
        process.command.truncate(1);
        for word in &mut process.command {
            word.truncate(word.find(": ").unwrap_or(word.len()));
        }
    }
}

/// Prints the first sentence of the record and its path; returns `false` if it cannot be written.
/// In the store it has the arguments of the command that recorded it.
pub(crate) fn keep(to: Destination<'_>, record: &Record, arguments: Vec<String>) -> bool {
    let common = Common::plain(None, to.quiet);
    let say = |text: &str| output::message(&common, &format!("convoy: {text}"));
    say(&diagnosis::verdict(&Diagnosis::new(record)));
    for sentence in &record.unseen {
        say(sentence);
    }
    if let Some(sentence) = record.program.disturbance.sentence() {
        say(&sentence);
    }
    let body = serde_json::to_value(record).expect("a record has string keys");
    if let Some(path) = to.output {
        match output::private(path, &format!("{body}\n")) {
            Ok(()) => {
                // A device or a pipe keeps no record.
                if path.is_file() {
                    say(&format!("more: convoy explain {}", path.display()));
                }
                return true;
            }
            Err(failure) => warn(failure.message()),
        }
    }
    stored(to, &common, &body, arguments)
}

/// In the store, or in a file where there is one.
fn stored(
    to: Destination<'_>,
    common: &Common,
    body: &serde_json::Value,
    arguments: Vec<String>,
) -> bool {
    let keeper = to.store.keeper("record", None);
    if keeper.is_none() && to.output.is_none() {
        return true;
    }
    if let Some(mut keeper) = keeper {
        keeper.set_command(arguments);
        keeper.leave_out(to.left_out);
        match keeper.update(body.clone()) {
            Ok(id) => {
                output::message(common, &format!("convoy: more: convoy explain {id}"));
                return true;
            }
            Err(error) => warn(&error.to_string()),
        }
    }
    let name = format!("convoy-record-{}.json", keep::unique());
    for path in spare().map(|place| place.join(&name)) {
        if output::private(&path, &format!("{body}\n")).is_ok() {
            warn(&format!("the record is in {0}: convoy explain {0}", path.display()));
            return true;
        }
    }
    false
}

/// Prints that the record could not be written anywhere.
pub(super) fn nowhere(left: &Path) {
    warn(&format!(
        "the record could be written nowhere; what was recorded is in {}: make room, then convoy \
         record --recover",
        left.display()
    ));
}
