//! What no recording can contain: counts and times of a damaged or made-up record, with which a
//! replay would overflow or take hours.

use convoy_record::{Process, Record, Times};

/// Acquisitions and the like of a whole record: a lock is acquired once in a nanosecond at most, and
/// this is a day of 100 threads.
const MOST: u64 = 1 << 53;

/// Returns whether a process of `record` has more events than can be counted, or one that took
/// longer than the recording.
pub(crate) fn is_damaged(record: &Record) -> bool {
    record.processes.iter().any(|process| !is_plausible(process, record.program.wall_s))
}

fn is_plausible(process: &Process, wall_s: f64) -> bool {
    // Both clocks begin at their own time, and buckets are rounded down.
    let most_ns = (2.0 * wall_s.max(process.seconds) + 1.0) * 1e9;
    let sites = || process.locks.iter().flat_map(|lock| &lock.sites);
    let times = sites().flat_map(|site| {
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
    let counts = sites().map(|site| site.count);
    let all = times.clone().flat_map(|times| times.buckets.iter().map(|bucket| bucket.1));
    let sum = counts.chain(all).fold(0, u64::saturating_add);
    let fits = |times: &Times| {
        let longest = times.buckets.iter().map(|bucket| bucket.0).fold(0.0, f64::max);
        longest <= most_ns && times.max_s * 1e9 <= most_ns
    };
    sum < MOST && most_ns.is_finite() && times.clone().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Lock, Program, Site};

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
