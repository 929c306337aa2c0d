//! When threads waited: all the time, or in one stretch of the run.

use crate::account::{percent, seconds};
use crate::record::{Process, Record};

/// Whether threads waited for locks in one stretch of the run; with conditions, if a lock is built
/// of one.
pub(crate) fn phases(record: &Record, is_built: bool) -> Option<String> {
    /// Of the waiting, what the stretch has.
    const MOST: f64 = 0.8;
    /// Of the run, what it takes at most.
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

    #[test]
    fn a_stretch_in_which_threads_waited_is_told() {
        let waited = |at: &[usize]| {
            let mut phases_lock_s = vec![0.001; 100];
            for phase in at {
                phases_lock_s[*phase] = 1.0;
            }
            let phases_wait_s = vec![5.0; 100];
            let one = Process { seconds: 10.0, phase_s: 0.1, phases_wait_s, ..Process::default() };
            let processes = vec![Process { phases_lock_s, ..one }];
            phases(&Record { processes, ..Record::default() }, false)
        };
        let said = waited(&[30, 31, 32, 33]).expect("it was in one stretch");
        assert!(said.contains("ended between 3.00 s and 3.40 s of 10.0 s, in 4 % of"), "{said}");
        assert_eq!(waited(&[1, 30, 60, 90]), None);
    }
}
