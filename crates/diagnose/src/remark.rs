//! Facts on a record besides its findings: the most contended lock, scheduling, phases.

use convoy_record::{Process, Record, Scheduling, total};
use serde::Serialize;

use crate::account::{Account, LockAccount};

/// A fact on the run or on its most contended lock. Times are in seconds, shares are parts of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "remark", rename_all = "kebab-case")]
pub enum Remark {
    /// How long threads waited in the run.
    Waits {
        /// For locks.
        locks_s: f64,
        /// For conditions and barriers.
        conditions_s: f64,
        /// Length of the run; 0 if unknown.
        wall_s: f64,
        /// Number of CPUs; 0 if unknown.
        cpus: u32,
    },
    /// A condition that the program uses as a lock.
    Built {
        /// The condition.
        lock: String,
        /// Signals by the thread that had waited for it last.
        by_owner: u64,
        /// All signals.
        signals: u64,
        /// Share of the wait time for its mutex.
        inner_share: f64,
        /// Its mutex.
        mutex: String,
    },
    /// The longest period in which threads waited for a lock without a pause.
    LongestConvoy {
        /// The lock.
        lock: String,
        /// Its length.
        length_s: f64,
        /// When it began.
        begin_s: f64,
        /// Maximum number of threads that waited at the same time during the run.
        waiters: u64,
        /// Part of the run in which at least one thread waited.
        run_share: f64,
    },
    /// Why owners were off CPU, by kernel events.
    OffCpu {
        /// The lock.
        lock: String,
        /// Number of holds that began with a wait.
        holds: u64,
        /// Their total time.
        held_s: f64,
        /// Time off CPU.
        off_s: f64,
        /// Share of it after the owner had been preempted.
        preempted: f64,
        /// Share of it asleep.
        asleep: f64,
        /// Share of it woken and waiting for a CPU.
        woken: f64,
    },
    /// Time from a release to the next owner.
    Handover(Handover),
    /// How the kernel scheduled the threads.
    Scheduling(Scheduling),
    /// Threads waited mostly in one part of the run.
    Uneven {
        /// That part's share of the wait time.
        share: f64,
        /// Its begin.
        begin_s: f64,
        /// Its end.
        end_s: f64,
        /// Length of the run.
        run_s: f64,
        /// The part's share of the run.
        run_share: f64,
    },
}

/// A hand-over from a release to the next owner.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Handover {
    /// Median time in seconds.
    pub median_s: f64,
    /// Mean hold time on the CPU in seconds, if holds were timed.
    pub hold_s: Option<f64>,
}

/// Returns the remarks on a record, most important first.
pub(crate) fn remarks(record: &Record, account: &Account) -> Vec<Remark> {
    let Some(first) = account.first().filter(|_| account.is_finite()) else { return Vec::new() };
    let program = &record.program;
    let waits = Remark::Waits {
        locks_s: account.wait_s,
        conditions_s: account.idle_s,
        wall_s: program.wall_s,
        cpus: program.cpus,
    };
    let optional = [
        built(account, first),
        longest_convoy(first, program.wall_s),
        off_cpu(first),
        handover(first),
        scheduling(record),
        uneven(record, first.lock.is_built()),
    ];
    std::iter::once(waits).chain(optional.into_iter().flatten()).collect()
}

fn built(account: &Account, first: &LockAccount) -> Option<Remark> {
    let lock = &first.lock;
    lock.is_built().then(|| Remark::Built {
        lock: lock.name.clone(),
        by_owner: lock.given_by_owner,
        signals: total([lock.given_by_owner, lock.given_by_others]),
        inner_share: account.inner(first).map_or(0.0, |inner| inner.wait_percent / 100.0),
        mutex: lock.mutex.clone(),
    })
}

fn longest_convoy(first: &LockAccount, wall_s: f64) -> Option<Remark> {
    let waiters = first.lock.waiters;
    (waiters.most > 0).then(|| Remark::LongestConvoy {
        lock: first.lock.name.clone(),
        length_s: waiters.longest_s,
        begin_s: waiters.longest_at_s,
        waiters: waiters.most,
        run_share: (waiters.seconds / wall_s).min(1.0),
    })
}

fn off_cpu(first: &LockAccount) -> Option<Remark> {
    let held = first.lock.held.filter(|held| held.off_s() > 0.0)?;
    Some(Remark::OffCpu {
        lock: first.lock.name.clone(),
        holds: held.count,
        held_s: held.total_s,
        off_s: held.off_s(),
        preempted: held.preempted_s / held.off_s(),
        asleep: held.asleep_s / held.off_s(),
        woken: held.woken_s / held.off_s(),
    })
}

fn handover(first: &LockAccount) -> Option<Remark> {
    let hold = first.lock.all(|site| &site.hold_on);
    let median_s = first.lock.all(|site| &site.handoff).percentile_s(50.0)?;
    let hold_s = (hold.count > 0).then(|| hold.mean_s());
    Some(Remark::Handover(Handover { median_s, hold_s }))
}

fn scheduling(record: &Record) -> Option<Remark> {
    let observed = record.processes.iter().filter_map(|process| process.scheduling);
    let sum = observed.reduce(|sum, process| Scheduling {
        preemptions: total([sum.preemptions, process.preemptions]),
        preempted_s: sum.preempted_s + process.preempted_s,
        sleeps: total([sum.sleeps, process.sleeps]),
        asleep_s: sum.asleep_s + process.asleep_s,
        woken_s: sum.woken_s + process.woken_s,
        ..sum
    });
    sum.map(Remark::Scheduling)
}

/// Returns the wait time of each phase, in seconds. Waits for conditions count if a lock is built
/// from a condition (`is_built`).
fn waits(process: &Process, is_built: bool) -> &[f64] {
    let with_conditions = process.phases_lock_s.is_empty() || is_built;
    if with_conditions { &process.phases_wait_s } else { &process.phases_lock_s }
}

/// Returns the part of the run in which threads waited for locks, if they waited mostly in one
/// part.
fn uneven(record: &Record, is_built: bool) -> Option<Remark> {
    /// The part's share of the wait time.
    const MOST: f64 = 0.8;
    /// The part's largest share of the run.
    const SHORT: f64 = 0.5;
    let process = record.processes.iter().max_by(|a, b| {
        let [a, b] = [a, b].map(|process| waits(process, is_built).iter().sum::<f64>());
        a.total_cmp(&b)
    })?;
    let phases = waits(process, is_built);
    let whole_s: f64 = phases.iter().sum();
    let mut shortest: Option<std::ops::Range<usize>> = None;
    let (mut begin, mut within_s) = (0, 0.0);
    for (end, phase_s) in phases.iter().enumerate() {
        within_s += phase_s;
        while begin < end && within_s - phases[begin] >= MOST * whole_s {
            within_s -= phases[begin];
            begin += 1;
        }
        let is_shorter = shortest.as_ref().is_none_or(|range| end + 1 - begin < range.len());
        if within_s >= MOST * whole_s && is_shorter {
            shortest = Some(begin..end + 1);
        }
    }
    let range = shortest.filter(|range| range.len() as f64 <= SHORT * phases.len() as f64)?;
    (whole_s > 0.0).then(|| Remark::Uneven {
        share: phases[range.clone()].iter().sum::<f64>() / whole_s,
        begin_s: range.start as f64 * process.phase_s,
        end_s: range.end as f64 * process.phase_s,
        run_s: process.seconds,
        run_share: range.len() as f64 / phases.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_one_part_of_the_run_are_uneven() {
        fn waited(phases: &[usize]) -> Option<Remark> {
            let mut phases_lock_s = vec![0.001; 100];
            for phase in phases {
                phases_lock_s[*phase] = 1.0;
            }
            let phases_wait_s = vec![5.0; 100];
            let process =
                Process { seconds: 10.0, phase_s: 0.1, phases_wait_s, ..Process::default() };
            let processes = vec![Process { phases_lock_s, ..process }];
            uneven(&Record { processes, ..Record::default() }, false)
        }
        let remark = waited(&[30, 31, 32, 33]);
        let Some(Remark::Uneven { begin_s, end_s, run_share, .. }) = remark else {
            panic!("they waited in one part: {remark:?}");
        };
        assert!((begin_s - 3.0).abs() < 1e-9 && (end_s - 3.4).abs() < 1e-9);
        assert!((run_share - 0.04).abs() < 1e-9);
        assert_eq!(waited(&[1, 30, 60, 90]), None);
    }
}
