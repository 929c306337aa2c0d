//! Rules on waits that never end: cycles, locks that are not released, and programs in which no
//! thread is left that could run.

use convoy_record::{Kind as Primitive, Pending, Process};
use std::collections::BTreeMap;

use super::plain::Plain;
use crate::evidence::{function, subject_of_wait};
use crate::finding::{Finding, Source};
use crate::problem::{Cycle, Problem, Waited};

/// A wait of at least this length, in seconds, may never end.
const LONG_S: f64 = 0.1;
/// Maximum number of waits in a finding that is no cycle.
const NAMED: usize = 4;

/// Returns the findings on waits that never end.
pub(crate) fn of_process(process: &Process) -> Vec<Finding> {
    let cycles = cycles(process);
    if !cycles.is_empty() {
        return cycles.iter().map(|cycle| closed(process, cycle)).collect();
    }
    let (stuck, unreleased) = (stuck(process), unreleased(process));
    let open = match (stuck.is_empty(), unreleased.is_empty()) {
        (false, _) => Some((Cycle::Stuck, stuck)),
        (true, false) => Some((Cycle::Unreleased, unreleased)),
        (true, true) => None,
    };
    open.map(|(cycle, waits)| finding(process, cycle, &waits, NAMED, 0)).into_iter().collect()
}

fn closed(process: &Process, cycle: &[&Pending]) -> Finding {
    let waiting = process.pending.iter().filter(|wait| wait.act != "wait").count();
    let behind = waiting.saturating_sub(cycle.len());
    finding(process, Cycle::Closed, cycle, usize::MAX, behind)
}

fn finding(
    process: &Process,
    cycle: Cycle,
    waits: &[&Pending],
    named: usize,
    behind: usize,
) -> Finding {
    let plain = Plain {
        pid: process.pid,
        lock: &waits[0].lock,
        share: None,
        cost_s: waits.iter().map(|wait| wait.wait_s).sum(),
        source: Source::Counted,
        observations: waits.len() as u64,
    };
    plain.finding(Problem::Deadlock {
        cycle,
        waits: waits.iter().take(named).map(|wait| waited(process, wait)).collect(),
        behind,
        longest_s: waits.iter().map(|wait| wait.wait_s).fold(0.0, f64::max),
    })
}

fn waited(process: &Process, wait: &Pending) -> Waited {
    Waited {
        thread: process.label_of(wait.thread),
        place: wait.place.clone(),
        subject: subject_of_wait(process, wait),
        owner: (wait.owner != 0).then(|| process.label_of(wait.owner)),
        owner_ended: wait.owner_ended,
        held_at: crate::account::known(&wait.held_at),
    }
}

/// Returns cycles of waits, each for a lock that the thread of the next wait owns. A single wait
/// for a thread that has ended also counts.
fn cycles(process: &Process) -> Vec<Vec<&Pending>> {
    let waits: BTreeMap<u64, &Pending> = process
        .pending
        .iter()
        .filter(|one| one.owner != 0 && one.act != "wait" && one.wait_s > LONG_S && !one.timed)
        .filter(|one| !is_signal(process, one))
        .map(|one| (one.thread, one))
        .collect();
    let mut cycles: Vec<Vec<&Pending>> = Vec::new();
    for first in waits.values() {
        if first.owner_ended {
            // Any thread may post a semaphore, so the thread that took it last need not post it.
            if first.kind != Primitive::Semaphore || process.is_stuck {
                cycles.push(vec![first]);
            }
            continue;
        }
        let mut path = vec![*first];
        while let Some(next) = path.last().and_then(|last| waits.get(&last.owner)) {
            if next.thread == first.thread {
                // Report each cycle once, starting at its lowest thread.
                if path.iter().all(|one| one.thread >= first.thread) {
                    cycles.push(path.clone());
                }
                break;
            }
            if path.iter().any(|one| one.thread == next.thread) {
                break;
            }
            path.push(next);
        }
    }
    cycles
}

/// Returns whether the wait is for a semaphore that is used as a signal and therefore has no owner.
fn is_signal(process: &Process, wait: &Pending) -> bool {
    let lock = process.locks.iter().find(|lock| lock.name == wait.lock && lock.kind == wait.kind);
    // A thread that waits for a signal received the previous signal, and so appears to own it.
    let is_own = wait.owner == wait.thread;
    wait.kind == Primitive::Semaphore && lock.map_or(is_own, |lock| !lock.is_lock())
}

/// Returns the waits for locks that cannot end, since no thread is left that could wake others.
fn stuck(process: &Process) -> Vec<&Pending> {
    let waits = process.pending.iter().filter(|one| {
        let kinds =
            [Primitive::Mutex, Primitive::Rwlock, Primitive::Spinlock, Primitive::Semaphore];
        let is_lock =
            kinds.contains(&one.kind) && one.act != "wait" || one.kind == Primitive::Futex;
        is_lock && one.wait_s > LONG_S && !one.timed
    });
    if process.is_stuck { waits.collect() } else { Vec::new() }
}

/// Returns the waits for locks with unknown owners that no thread ended before the end of the
/// record. They were much longer than all other waits for these locks.
fn unreleased(process: &Process) -> Vec<&Pending> {
    /// Minimum duration in seconds, and in multiples of the longest wait that ended.
    const LEFT_S: f64 = 0.5;
    const LONGER: f64 = 10.0;
    let locks = || process.locks.iter().chain(&process.futexes);
    let longest_s = |wait: &Pending| {
        let same = locks().filter(|lock| lock.name == wait.lock && lock.kind == wait.kind);
        same.flat_map(|lock| &lock.sites).map(|site| site.wait.max_s).fold(0.0, f64::max)
    };
    // The owner may wait for work in the same function, as threads of a pool do.
    let waits_for_work = |wait: &Pending| {
        let mut others = process.pending.iter().filter(|other| other.act == "wait");
        others.any(|other| function(&other.place) == function(&wait.place))
    };
    let is_left = |wait: &&Pending| {
        [Primitive::Mutex, Primitive::Rwlock].contains(&wait.kind)
            && wait.act != "wait"
            && wait.owner == 0
            && !wait.timed
            && wait.wait_s > LEFT_S.max(LONGER * longest_s(wait))
            && !waits_for_work(wait)
    };
    process.pending.iter().filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(thread: u64, owner: u64) -> Pending {
        Pending { thread, owner, wait_s: 1.0, act: "lock".to_owned(), ..Pending::default() }
    }

    fn threads(pending: Vec<Pending>) -> Vec<Vec<u64>> {
        let process = Process { pending, ..Process::default() };
        let of = |cycle: Vec<&Pending>| cycle.into_iter().map(|one| one.thread).collect();
        cycles(&process).into_iter().map(of).collect()
    }

    #[test]
    fn threads_that_wait_for_each_other_are_found_once() {
        assert_eq!(threads(vec![wait(2, 1), wait(1, 2), wait(3, 1)]), [[1, 2]]);
        assert_eq!(threads(vec![wait(1, 1)]), [[1]]);
        assert_eq!(threads(vec![wait(5, 7), wait(7, 6), wait(6, 5)]), [[5, 7, 6]]);
    }

    #[test]
    fn a_semaphore_that_others_post_has_no_owner() {
        fn semaphore(held: u64) -> usize {
            let hold_on = convoy_record::Times { count: held, ..Default::default() };
            let site =
                convoy_record::Site { count: 4, contended: 4, hold_on, ..Default::default() };
            let lock = convoy_record::Lock {
                name: "work".to_owned(),
                kind: Primitive::Semaphore,
                sites: vec![site],
                ..Default::default()
            };
            let kind = Primitive::Semaphore;
            let pending = vec![Pending { lock: "work".to_owned(), kind, ..wait(1, 1) }];
            let process = Process { pending, locks: vec![lock], ..Process::default() };
            cycles(&process).len()
        }
        assert_eq!(semaphore(0), 0, "its last taker waits for more work");
        assert_eq!(semaphore(4), 1, "it excludes, and its owner takes it again");
    }

    #[test]
    fn a_semaphore_whose_taker_has_ended_may_be_posted_by_another_thread() {
        let left = |kind| Pending { kind, owner_ended: true, ..wait(2, 1) };
        assert_eq!(threads(vec![left(Primitive::Mutex)]), [[2]]);
        assert!(threads(vec![left(Primitive::Semaphore)]).is_empty());
    }

    #[test]
    fn a_queue_and_a_short_wait_are_no_deadlock() {
        assert!(threads(vec![wait(1, 2), wait(2, 3)]).is_empty());
        assert!(threads(vec![Pending { wait_s: 0.01, ..wait(2, 1) }, wait(1, 2)]).is_empty());
        let timed = Pending { timed: true, ..wait(1, 1) };
        assert!(threads(vec![timed]).is_empty());
        // A worker that waits for its next task.
        let signal = Pending { kind: Primitive::Semaphore, ..wait(1, 1) };
        assert!(threads(vec![signal]).is_empty());
    }

    #[test]
    fn waits_that_no_thread_ended_are_much_longer_than_the_others() {
        let kind = Primitive::Mutex;
        let left = |place: &str| Pending { kind, place: place.to_owned(), ..wait(1, 0) };
        let process = |pending| Process { pending, ..Process::default() };
        assert_eq!(unreleased(&process(vec![left("take"), wait(2, 3)])).len(), 1);
        // The threads of a pool take turns to wait for work.
        let worker = Pending { act: "wait".to_owned(), ..left("take (a.rs:9)") };
        assert!(unreleased(&process(vec![left("take (a.rs:7)"), worker])).is_empty());
        let mut busy = process(vec![left("take")]);
        let waits = convoy_record::Times { max_s: 0.3, ..Default::default() };
        let site = convoy_record::Site { wait: waits, ..Default::default() };
        let sites = vec![site];
        busy.futexes = vec![convoy_record::Lock { kind, sites, ..Default::default() }];
        assert!(unreleased(&busy).is_empty(), "the owner may need this long");
    }

    #[test]
    fn waits_of_a_program_without_a_running_thread_do_not_end() {
        let pending = vec![wait(1, 0), Pending { act: "wait".to_owned(), ..wait(2, 0) }];
        let mut process = Process { pending, ..Process::default() };
        assert!(stuck(&process).is_empty());
        process.is_stuck = true;
        assert_eq!(stuck(&process).len(), 1);
        // A lock that the program implements with futex(2).
        process.pending[1].kind = Primitive::Futex;
        assert_eq!(stuck(&process).len(), 2);
    }
}
