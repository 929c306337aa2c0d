//! Imports waits for locks from the output of other tools as a record: `perf lock contention`,
//! `perf script` of lock and sched events, `/proc/lock_stat`, folded stacks of sleeping threads,
//! mutex and block profiles of Go, flight recordings of Java and stacks of async-profiler.
//!
//! Lines that belong to no table are skipped and counted. An invalid line of a table is refused
//! with its number. None of these formats contains the CPU time of critical sections or the work
//! between them, so an imported record can be explained but not replayed.

mod async_profiler;
mod flight;
mod folded;
mod jfr;
mod lock_stat;
mod perf_lock;
mod perf_script;
mod pprof;
mod waits;

pub use flight::is_flight;
pub(crate) use pprof::is_of_go;

use std::path::Path;

use crate::RecordError;
use crate::record::Record;
use waits::{Refused, Waits};

/// Number of lines from which a format is recognized.
const HEAD: usize = 200;

type Reader = fn(&str, &mut Waits) -> Result<(), Refused>;

/// Returns the record in `text`, the content of `path`, or `None` if the format is not known.
pub fn read(path: &Path, text: &str) -> Option<Result<Record, RecordError>> {
    let head: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(HEAD).collect();
    let any = |is: fn(&str) -> bool| head.iter().any(|line| is(line));
    let (source, reader): (_, Reader) = match () {
        () if any(lock_stat::is_head) => ("/proc/lock_stat", lock_stat::read),
        () if any(perf_lock::is_head) => ("perf lock contention", perf_lock::read),
        () if any(jfr::is_event) => ("a Java flight recording", jfr::read),
        () if any(jfr::is_json) => ("a Java flight recording", jfr::read_json),
        () if any(perf_script::is_event) => ("perf script", perf_script::read),
        () if !head.is_empty() && head.iter().all(|line| async_profiler::is_stack(line)) => {
            ("async-profiler", async_profiler::read)
        }
        () if !head.is_empty() && head.iter().all(|line| folded::is_stack(line)) => {
            ("folded stacks", folded::read)
        }
        () => return None,
    };
    let mut waits = Waits::default();
    Some(match reader(text, &mut waits) {
        Ok(()) => Ok(waits.record(source, path)),
        Err((line, reason)) => {
            let reason = format!("line {line}: {reason}; it looks like {source}");
            Err(RecordError::NoRecord { path: path.to_owned(), reason })
        }
    })
}

/// Returns whether the text is JSON of a flight recording of Java, not a record of this program.
pub fn is_recording(text: &str) -> bool {
    text.lines().filter(|line| !line.trim().is_empty()).take(2).any(jfr::is_json)
}

/// Returns the record in `bytes`, the content of `path`, if they are a Go profile.
pub fn read_bytes(path: &Path, bytes: &[u8]) -> Option<Record> {
    let bytes = pprof::unpacked(bytes).filter(|bytes| pprof::is_profile(bytes))?;
    let mut waits = Waits::default();
    pprof::read(&bytes, &mut waits);
    Some(waits.record("a profile of Go", path))
}

/// Returns the record in a Java flight recording, which the `jfr` of a JDK reads.
///
/// # Errors
/// [`RecordError::NoRecord`] if there is no `jfr`, or if it cannot read the file.
pub fn read_flight(path: &Path) -> Result<Record, RecordError> {
    let mut waits = Waits::default();
    let read = flight::printed(path).and_then(|printed| {
        jfr::read_printed(printed, &mut waits)
            .map_err(|(event, reason)| format!("event {event}: {reason}"))
    });
    read.map_err(|reason| RecordError::NoRecord { path: path.to_owned(), reason })?;
    Ok(waits.record("a Java flight recording", path).with_short_names())
}
