//! What other tools tell of waits for locks, as a record: `perf lock contention`, `perf script` of
//! lock and sched events, `/proc/lock_stat`, folded stacks of what threads slept in, mutex and
//! block profiles of Go, flight recordings of Java and stacks of async-profiler.
//!
//! Lines that belong to no table are passed over and counted; a line of a table that makes no sense
//! is refused with its number. None of these formats has holds on the CPU or work between them, so
//! an imported record can be explained and not replayed.

mod async_profiler;
mod flight;
mod folded;
mod jfr;
mod lock_stat;
mod perf_lock;
mod perf_script;
mod pprof;

pub use flight::is_flight;
pub(crate) use pprof::is_of_go;

use std::collections::BTreeMap;
use std::path::Path;

use crate::RecordError;
use crate::causes::Cause;
use crate::layout;
use crate::record::{Kind, Lock, Process, Program, Record, Site, Times, VERSION, total};

/// Lines in which a format shows itself.
const HEAD: usize = 200;

/// A line that makes no sense: its number from 1, and why.
type Refused = (usize, String);
type Reader = fn(&str, &mut Waits) -> Result<(), Refused>;

/// The record in `text`, the content of `path`; none if it is of no format that is known here.
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

/// The record in the bytes of `path`, if they are those of a profile of Go.
pub fn read_bytes(path: &Path, bytes: &[u8]) -> Option<Record> {
    let bytes = pprof::unpacked(bytes).filter(|bytes| pprof::is_profile(bytes))?;
    let mut waits = Waits::default();
    pprof::read(&bytes, &mut waits);
    Some(waits.record("a profile of Go", path))
}

/// The record in a flight recording of Java, as the `jfr` of a JDK reads it.
///
/// # Errors
/// [`RecordError::NoRecord`]: there is no `jfr`, or it cannot read the file.
pub fn read_flight(path: &Path) -> Result<Record, RecordError> {
    let mut waits = Waits::default();
    let read = flight::printed(path).and_then(|printed| {
        let refused = |(event, reason): Refused| format!("event {event}: {reason}");
        jfr::read_printed(printed, &mut waits).map_err(refused)
    });
    let refused = |reason| RecordError::NoRecord { path: path.to_owned(), reason };
    read.map_err(refused)?;
    Ok(waits.record("a Java flight recording", path).with_short_names())
}

/// The waits that a reader has found.
#[derive(Default)]
struct Waits {
    locks: BTreeMap<(String, Kind), Lock>,
    /// Lines that were passed over, and the first of them.
    passed_over: usize,
    first_passed: usize,
    /// What else the account must say.
    notes: Vec<String>,
    /// From the first to the last event, seconds; 0: not known.
    seconds: f64,
    /// Threads that waited; 0: not known.
    threads: u64,
    /// Places that held locks.
    causes: Vec<Cause>,
}

impl Waits {
    /// The site at which a lock is taken, made when first asked for.
    fn site(&mut self, lock: &str, kind: Kind, place: &str, act: &str) -> &mut Site {
        let key = (lock.to_owned(), kind);
        let lock = self.locks.entry(key).or_insert_with(|| Lock {
            name: lock.to_owned(),
            kind,
            instances: 1,
            ..Lock::default()
        });
        let same = |site: &Site| site.place == place && site.act == act;
        let at = lock.sites.iter().position(same).unwrap_or_else(|| {
            let site = Site { place: place.to_owned(), act: act.to_owned(), ..Site::default() };
            lock.sites.push(site);
            lock.sites.len() - 1
        });
        &mut lock.sites[at]
    }

    fn pass_over(&mut self, line: usize) {
        if self.passed_over == 0 {
            self.first_passed = line;
        }
        self.passed_over += 1;
    }

    fn record(self, source: &str, path: &Path) -> Record {
        let mut unseen = vec![format!(
            "Read from {source}: it has waits, not how long owners worked and what threads did \
             between; nothing can be replayed."
        )];
        unseen.extend(self.notes);
        if self.passed_over > 0 {
            unseen.push(format!(
                "{} lines were passed over, the first is line {}.",
                self.passed_over, self.first_passed
            ));
        }
        let mut locks: Vec<Lock> = self.locks.into_values().collect();
        for lock in &mut locks {
            lock.sites.sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s));
        }
        locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()));
        let program = Program {
            command: vec![path.display().to_string()],
            source: source.to_owned(),
            wall_s: self.seconds,
            ..Program::default()
        };
        let (seconds, threads, causes) = (self.seconds, self.threads, self.causes);
        let process = Process { seconds, threads, locks, causes, ..Process::default() };
        Record { recorded: VERSION, program, processes: vec![process], unseen }
    }
}

impl Site {
    /// Waits of which only these are known.
    fn waited(&mut self, count: u64, total_s: f64, max_s: f64) {
        self.count = total([self.count, count]);
        self.contended = total([self.contended, count]);
        self.wait.add(&Times::summed(count, total_s, max_s));
    }
}

impl Times {
    /// A time by itself.
    fn one(seconds: f64) -> Self {
        let least = layout::least(layout::bucket((seconds * 1e9) as u64)) as f64;
        Self { count: 1, total_s: seconds, max_s: seconds, buckets: vec![(least, 1)] }
    }

    /// Times of which only these are known: they have no distribution.
    fn summed(count: u64, total_s: f64, max_s: f64) -> Self {
        Self { count, total_s, max_s, buckets: Vec::new() }
    }
}

/// A kind and what is done with it, from the words that the kernel's tools have for them.
fn kind(word: &str) -> (Kind, &'static str) {
    let (name, side) = word.split_once(':').unwrap_or((word, ""));
    let kind = match name {
        "spinlock" => Kind::Spinlock,
        "rwlock" | "rwsem" | "percpu-rwsem" | "pcpu-sem" => Kind::Rwlock,
        "semaphore" => Kind::Semaphore,
        _ => Kind::Mutex,
    };
    let act = match side {
        "R" => "read",
        "W" => "write",
        _ => "lock",
    };
    (kind, act)
}

/// A number of a column, or why not.
fn number(word: &str, what: &str) -> Result<f64, String> {
    match word.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{}` is no {what}", word.trim())),
    }
}
