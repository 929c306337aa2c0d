//! Detects counts and times that no recording can contain. With such a damaged or made-up record, a
//! replay would overflow or take hours.

use std::io::{ErrorKind, Write, sink};

use convoy_record::{Process, Record};
use serde::Serialize as _;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Larger than any count of a record: a thread that acquires a lock every nanosecond reaches it
/// after a day and a half.
const MOST: u64 = 1 << 47;

/// Returns whether a process of `record` has an impossible count, or a time that is longer than the
/// recording.
pub(crate) fn is_damaged(record: &Record) -> bool {
    let mut counts = Serializer::with_formatter(sink(), Counts);
    record.processes.serialize(&mut counts).is_err()
        || record.processes.iter().any(|process| !times_fit(process, record.program.wall_s))
}

/// Fails at the first impossible count. Formats nothing else: a record may have 10,000 locks.
struct Counts;

impl Formatter for Counts {
    fn write_u64<W: Write + ?Sized>(&mut self, _: &mut W, count: u64) -> std::io::Result<()> {
        if count < MOST { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }

    fn write_f64<W: Write + ?Sized>(&mut self, _: &mut W, _: f64) -> std::io::Result<()> {
        Ok(())
    }
}

fn times_fit(process: &Process, wall_s: f64) -> bool {
    // The two clocks start at different times, and buckets are rounded.
    let most_ns = (2.0 * wall_s.max(process.seconds) + 1.0) * 1e9;
    let sites = process.locks.iter().flat_map(|lock| &lock.sites);
    let mut times = sites.flat_map(|site| {
        [
            &site.hold_on,
            &site.hold_off,
            &site.wait,
            &site.think_on,
            &site.think_off,
            &site.handoff,
            &site.acquire,
        ]
    });
    most_ns.is_finite()
        && times.all(|times| {
            let longest = times.buckets.iter().map(|bucket| bucket.0).fold(0.0, f64::max);
            let mean_ns = times.total_s * 1e9 / times.count.max(1) as f64;
            longest.max(times.max_s * 1e9).max(mean_ns) <= most_ns
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Lock, Program, Site, Times};

    fn record(count: u64, longest_ns: f64) -> Record {
        let hold_on = Times { count, buckets: vec![(longest_ns, count)], ..Times::default() };
        let site = Site { count, hold_on, ..Site::default() };
        let lock = Lock { sites: vec![site], ..Lock::default() };
        let process = Process { seconds: 1.0, locks: vec![lock], ..Process::default() };
        let program = Program { wall_s: 1.0, ..Program::default() };
        Record { program, processes: vec![process], ..Record::default() }
    }

    #[test]
    fn a_record_with_impossible_counts_or_times_is_damaged() {
        assert!(!is_damaged(&record(1_000_000, 0.9e9)));
        assert!(is_damaged(&record(u64::MAX / 2, 1000.0)));
        assert!(is_damaged(&record(u64::MAX, 1000.0)));
        assert!(is_damaged(&record(10, 4.3e9)));
    }
}
