//! The record that a word of the command line names, and the names of its places.

use crate::fail::Failure;
use crate::keep::{default_path, is_stored};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use convoy_catalogue::{EXPERIMENTS, suggest::hint};
use convoy_record::{Record, import};
use convoy_store::{LAST, Store, StoreError, Stored};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::io::{ErrorKind, Read as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `perf record` writes begins with this.
const PERF_DATA: &[u8] = b"PERFILE2";

/// Returns the record called `name`: a file of JSON, a file of another tool, or a stored record.
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
            return Err(Failure::usage(format!("{name} is not a record: {what}")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.trim_start().starts_with('{') && !import::is_recording(&text) {
            return Ok(Some(Record::parse(&text, path)?));
        }
        if let Some(imported) = import::read(path, &text) {
            return Ok(Some(imported?.with_short_names()));
        }
    }
    if !is_stored(name) {
        return Ok(None);
    }
    let stored = stored(name, store)?;
    if stored.entry.kind != "record" {
        return Ok(None);
    }
    Ok(Some(Record::parse(&stored.entry.body.to_string(), path)?))
}

/// The entry of the store that is called `name`.
fn stored(name: &str, store: Option<&Path>) -> Result<Stored, Failure> {
    let store = store.map(Path::to_owned).or_else(default_path).ok_or(StoreError::NoPlace)?;
    match Store::read(store).and_then(|store| store.find(name)) {
        Err(StoreError::Missing { .. } | StoreError::Unknown { .. }) if name == LAST => {
            Err(Failure::usage(
                "the store has no record of a program; `convoy record -- CMD` makes one, and a \
                 file or a number of `convoy runs list` is named after the command",
            ))
        }
        entry => Ok(entry?),
    }
}

/// The number of the newest record in place of [`LAST`], which another recording would change.
pub(crate) fn numbered(name: &str, store: Option<&Path>) -> Result<String, Failure> {
    if name == LAST { Ok(stored(name, store)?.id.to_string()) } else { Ok(name.to_owned()) }
}

/// Fails if `name` is neither a stored run, a file nor a shipped experiment.
pub(super) fn known(name: &str) -> Result<(), Failure> {
    let is_known = is_stored(name) || Path::new(name).exists();
    if is_known || EXPERIMENTS.shipped(name).is_some() {
        return Ok(());
    }
    let hint = hint(name, EXPERIMENTS.names());
    Err(Failure::usage(format!(
        "there is no file or experiment \"{name}\"{hint}; name a file that convoy record wrote, a \
         number of `convoy runs list`, or an experiment of `convoy lab list experiments`"
    )))
}

/// Returns why these bytes are not a file that can be read, if they show it.
fn no_record(bytes: &[u8]) -> Option<&'static str> {
    const PACKED: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh"];
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Some("it is empty");
    }
    if PACKED.iter().any(|magic| bytes.starts_with(magic)) {
        return Some("it is compressed; unpack it first");
    }
    bytes.contains(&0).then_some("it is not text")
}

/// Reads a file or a pipe; returns `None` if it does not exist. Fails if the input has no end, or
/// if a pipe has no writer.
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
    let refused = |text: &str| Err(Failure::usage(format!("{name} is not a record: {text}")));
    let cannot =
        |error: std::io::Error| Failure::environment(format!("cannot read {name}: {error}"));
    // `explain <(perf script)` names a pipe that has a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| cannot(error.into()))?;
    let mut file = std::fs::File::from(file);
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let mut ready = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut ready, Some(&PATIENCE)).is_ok_and(|count| count == 0) {
            return refused("no process writes to it");
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
            return refused(if is_special { "it is not text" } else { "it is longer than 1 GiB" });
        }
    }
}

/// A name on the command line. A path that is not UTF-8 is opened, and its descriptor is named.
pub(crate) fn word(word: &OsStr) -> Result<String, std::io::Error> {
    if let Some(text) = word.to_str() {
        return Ok(text.to_owned());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(format!("/proc/self/fd/{}", rustix::fs::open(word, flags, Mode::empty())?.into_raw_fd()))
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
