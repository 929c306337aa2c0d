//! When threads waited: throughout the run, or mostly in one part of it.

use crate::account::text::{percent, seconds};
use crate::record::{Lock, Process, Record};

/// Returns the total of the finished waits for a lock, in seconds, without waits that last for much
/// of the run of `wall_s` seconds, since these are waits for work or for the exit of other threads.
pub(crate) fn working_s(lock: &Lock, wall_s: f64) -> f64 {
    /// Fraction of the run.
    const MUCH: f64 = 0.1;
    /// Ratio of the middle of a bucket to its lower bound.
    const MIDDLE: f64 = 1.25;
    let waits = lock.all(|site| &site.wait);
    let long = waits.buckets.iter().filter(|(ns, _)| ns / 1e9 >= MUCH * wall_s);
    let idle = long.map(|(ns, count)| *count as f64 * (ns / 1e9 * MIDDLE).min(waits.max_s));
    (waits.total_s - idle.sum::<f64>()).max(0.0)
}

/// Returns the longest wait for a lock, in seconds.
pub(crate) fn longest_s(lock: &Lock) -> f64 {
    lock.all(|site| &site.wait).max_s
}

/// Describes the part of the run in which threads waited for locks, if they waited mostly in one
/// part. Waits for conditions count if a lock is built from a condition (`is_built`).
pub(crate) fn phases(record: &Record, is_built: bool) -> Option<String> {
    /// The period's share of the wait time.
    const MOST: f64 = 0.8;
    /// The period's largest share of the run.
    const SHORT: f64 = 0.5;
    let of = |one: &Process| {
        let with_conditions = one.phases_lock_s.is_empty() || is_built;
        let phases = if with_conditions { &one.phases_wait_s } else { &one.phases_lock_s };
        phases.clone()
    };
    let sum = |phases: &[f64]| phases.iter().sum::<f64>();
    let process = record.processes.iter().max_by(|a, b| sum(&of(a)).total_cmp(&sum(&of(b))))?;
    let phases = of(process);
    let all = sum(&phases);
    let mut shortest: Option<std::ops::Range<usize>> = None;
    let (mut from, mut within) = (0, 0.0);
    for (to, one) in phases.iter().enumerate() {
        within += one;
        while from < to && within - phases[from] >= MOST * all {
            within -= phases[from];
            from += 1;
        }
        let is_shorter = shortest.as_ref().is_none_or(|known| to + 1 - from < known.len());
        if within >= MOST * all && is_shorter {
            shortest = Some(from..to + 1);
        }
    }
    let stretch = shortest.filter(|one| one.len() as f64 <= SHORT * phases.len() as f64)?;
    (all > 0.0).then(|| {
        let at = |phase: usize| seconds(phase as f64 * process.phase_s);
        format!(
            "Waiting was not even: {} of it ended between {} and {} of {}, in {} of the run.",
            percent(100.0 * sum(&phases[stretch.clone()]) / all),
            at(stretch.start),
            at(stretch.end),
            seconds(process.seconds),
            percent(100.0 * stretch.len() as f64 / phases.len() as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Site, Times};

    #[test]
    fn a_stretch_in_which_threads_waited_is_told() {
        fn waited(at: &[usize]) -> Option<String> {
            let mut phases_lock_s = vec![0.001; 100];
            for phase in at {
                phases_lock_s[*phase] = 1.0;
            }
            let phases_wait_s = vec![5.0; 100];
            let one = Process { seconds: 10.0, phase_s: 0.1, phases_wait_s, ..Process::default() };
            let processes = vec![Process { phases_lock_s, ..one }];
            phases(&Record { processes, ..Record::default() }, false)
        }
        let said = waited(&[30, 31, 32, 33]).expect("it was in one stretch");
        assert!(said.contains("ended between 3.00 s and 3.40 s of 10.0 s, in 4 % of"), "{said}");
        assert_eq!(waited(&[1, 30, 60, 90]), None);
    }

    #[test]
    fn who_waits_for_the_end_of_others_does_not_work() {
        // Sixteen short waits, and one for nearly all of four seconds.
        let buckets = vec![(1e6, 16), (3e9, 1)];
        let wait = Times { count: 17, total_s: 3.92, max_s: 3.9, buckets };
        let site = Site { count: 17, wait, ..Site::default() };
        let lock = Lock { sites: vec![site], ..Lock::default() };
        assert!(working_s(&lock, 4.0) < 0.2, "{}", working_s(&lock, 4.0));
        assert!(working_s(&lock, 400.0) > 3.9);
        assert!(lock.wait_s() - longest_s(&lock) < 0.1);
    }
}
