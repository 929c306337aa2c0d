//! A recorded program: what its threads waited for.

use super::{Explain, picture};
use crate::fail::Failure;
use crate::keep::default_path;
use crate::look::plain;
use crate::output;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use convoy_explain::{Lanes, Named, folded};
use convoy_record::{Record, import};
use convoy_report::{RecordedReport, flame_html, flame_svg};
use convoy_store::{Store, StoreError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::io::{ErrorKind, Read as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What `perf record` writes begins with this.
const PERF_DATA: &[u8] = b"PERFILE2";

/// The record that `name` stands for: a file that begins as JSON does, one of another tool, or a
/// stored record.
pub(crate) fn find(name: &str, store: Option<&Path>) -> Result<Option<Record>, Failure> {
    let path = Path::new(name);
    if let Some(bytes) = input(path)? {
        if bytes.starts_with(PERF_DATA) {
            return Err(Failure::usage(format!(
                "{name} is what perf record writes; name what `perf lock contention -i {name}` or \
                 `perf script -i {name}` prints"
            )));
        }
        if let Some(imported) = import::read_bytes(path, &bytes) {
            return Ok(Some(imported));
        }
        if import::is_flight(&bytes) {
            return Ok(Some(import::read_flight(path)?));
        }
        if let Some(what) = no_record(&bytes) {
            return Err(Failure::usage(format!("{name} is no record: {what}")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.trim_start().starts_with('{') && !import::is_recording(&text) {
            return Ok(Some(Record::parse(&text, path)?));
        }
        if let Some(imported) = import::read(path, &text) {
            return Ok(Some(imported?.with_short_names()));
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

/// Why these bytes are no record, nor anything else that is read, as far as they tell.
fn no_record(bytes: &[u8]) -> Option<&'static str> {
    const PACKED: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh"];
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Some("it is empty");
    }
    if PACKED.iter().any(|magic| bytes.starts_with(magic)) {
        return Some("it is compressed; unpack it first");
    }
    bytes.contains(&0).then_some("it is no text")
}

/// What a file or a pipe holds; nothing if there is none of this name. Neither one that goes on
/// without end nor one that nobody writes to is waited for.
fn input(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    /// More than any record has.
    const MOST: u64 = 1 << 30;
    /// How long a pipe may give nothing.
    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
    let Ok(found) = std::fs::metadata(path) else { return Ok(None) };
    if found.is_dir() {
        return Ok(None);
    }
    let name = path.display();
    let refused = |text: &str| Err(Failure::usage(format!("{name} is no record: {text}")));
    let cannot =
        |error: std::io::Error| Failure::environment(format!("cannot read {name}: {error}"));
    // A pipe that somebody writes to is `explain <(perf script)`.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| cannot(error.into()))?;
    let mut file = std::fs::File::from(file);
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let mut ready = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut ready, Some(&PATIENCE)).is_ok_and(|count| count == 0) {
            return refused("nobody writes to it");
        }
        match file.read(&mut part) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(length) => bytes.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot(error)),
        }
        let is_special = !found.is_file();
        if bytes.len() as u64 > MOST || is_special && bytes.contains(&0) {
            return refused(if is_special { "it is no text" } else { "it is longer than 1 GiB" });
        }
    }
}

/// A name on the command line. A path that is no text stands for the file that it names, opened.
pub(crate) fn word(word: &OsStr) -> Result<String, std::io::Error> {
    if let Some(text) = word.to_str() {
        return Ok(text.to_owned());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(word, flags, Mode::empty())?;
    Ok(format!("/proc/self/fd/{}", file.into_raw_fd()))
}

/// The parser of [`word()`].
pub(crate) fn parser() -> impl clap::builder::TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| word(&text))
}

/// The place of `--symbols` that asks servers.
const SERVERS: &str = "debuginfod";

/// Names places of files that were gone by those in a directory, or those that servers have.
pub(super) fn name(record: &mut Record, place: &Path) -> Result<(), Failure> {
    let wanted: Vec<String> =
        record.processes.iter().flat_map(|one| &one.gone).map(|(_, id)| id.clone()).collect();
    let wanted = wanted.join(" or ");
    let is_asked = place == Path::new(SERVERS);
    match if is_asked { record.name_by(from_servers) } else { record.name_from(place) } {
        (_, 0) => Err(Failure::usage("no file of this record was gone; leave out --symbols")),
        (0, _) if is_asked => Err(Failure::environment(format!(
            "debuginfod-find of elfutils gives nothing for the build-id {wanted}; is it installed, \
             and does DEBUGINFOD_URLS name the servers of this distribution?"
        ))),
        (0, _) => Err(Failure::usage(format!(
            "no file below {} has the build-id {wanted}; name a directory with the program that \
             ran or its debug data",
            place.display(),
        ))),
        _ => Ok(()),
    }
}

/// The debug data with a build-id: a file in the cache of debuginfod-find(1), which asks the
/// servers of `DEBUGINFOD_URLS`.
fn from_servers(build_id: &str) -> Option<PathBuf> {
    let mut find = Command::new("debuginfod-find");
    find.args(["debuginfo", build_id]).stdin(Stdio::null()).stderr(Stdio::null());
    let found = find.output().ok().filter(|output| output.status.success())?;
    let path = found.stdout.strip_suffix(b"\n").unwrap_or(&found.stdout);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Writes what threads did over time, for other tools; returns what is in the files.
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
        let arrows = lanes.handovers.len();
        let bytes = lanes.perfetto(&named.commands, args.trace_limit as usize * 1_000_000);
        output::file(path, &bytes)?;
        let joined = match lanes.joined_ns {
            0 => String::new(),
            ns => {
                format!("; acts shorter than {:.0} us are joined (--trace-limit)", ns as f64 / 1e3)
            }
        };
        notes.push(format!(
            "trace {}: {} threads, {arrows} waits with the release that ended them{joined}; open \
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
        ("--proc", args.proc.is_some()),
        ("--ftrace", args.ftrace.is_some()),
    ];
    if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
        let instead = match *flag {
            "--ftrace" => {
                ". --trace writes what its threads did as a Perfetto trace; for every switch of \
                 the program, perf sched record -- CMD, then perf sched timehist"
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
        output::file(path, plain(&folded(&stacks)).as_bytes())?;
        report.notes.push(format!("folded stacks {}: {} stacks", path.display(), stacks.len()));
    }
    if let Some(path) = &args.flame {
        let draw = if picture(path)? { flame_html } else { flame_svg };
        output::file(path, plain(&draw(&report.title, &stacks)).as_bytes())?;
        report.notes.push(format!("flame graph {}", path.display()));
    }
    report.notes.extend(timelines(args, record)?);
    let text = || if args.all { report.to_text() } else { report.to_screen() };
    output::print(&args.common, text, || report.to_json(), || report.to_csv())?;
    Ok(ExitCode::SUCCESS)
}
