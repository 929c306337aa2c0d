//! Rules on processes that wait for each other: for locks in shared memory, or for messages. The
//! evidence is wakeups that the kernel recorded, or else shared semaphores.

use convoy_record::{
    Doing, Kind as Primitive, Lock, Process, Record, Scheduling, Seen, SystemLock, total,
};
use std::collections::BTreeMap;

use super::plain::Plain;
use crate::finding::{Finding, Source};
use crate::gap::Gap;
use crate::problem::{Problem, ProcessWaits};

/// Minimum number of wakeups.
const FEW: u64 = 100;
/// A signal may wake each thread of a process this many times.
const ENDS: u64 = 3;
/// Minimum part of the wakeups by other processes that are mutual: a process that only ever waits
/// for another one has asked it for something.
const MUTUAL: f64 = 0.3;
/// A process is affected if it has this part of the mean number of wakeups, or waits.
const CONCERNED: f64 = 0.2;
/// Minimum number of processes if there are no kernel events.
const MANY: usize = 3;
/// A system call is mentioned if it has this part of the sleeps.
const WORTH: f64 = 0.1;
/// Maximum number of system calls that are mentioned.
const CALLS: usize = 3;

/// Returns the finding of waits between processes, if they are relevant.
pub(crate) fn between(record: &Record) -> Option<Finding> {
    let observed = record
        .processes
        .iter()
        .filter_map(|process| process.scheduling.map(|scheduling| (process, scheduling)));
    // A process that executes another program has one entry for each.
    let by_pid: BTreeMap<u64, (&Process, Scheduling)> =
        observed.map(|(process, scheduling)| (process.pid, (process, scheduling))).collect();
    if by_pid.is_empty() { semaphores(record) } else { wakeups(&by_pid) }
}

/// Returns the finding of waits for locks that the kernel keeps, according to samples.
pub(crate) fn system_locks(record: &Record) -> Option<Finding> {
    /// Minimum number of samples.
    const LEAST: u64 = 10;
    let (mut waits, mut samples, mut cost_s) = (0, 0, 0.0);
    let (mut waiting, mut calls) = (Vec::new(), BTreeMap::<&str, u64>::new());
    for process in record.processes.iter().filter(|process| process.looks > 0) {
        let sleeps = process.activity.iter().filter(|seen| {
            seen.doing == Doing::Sleeps && SystemLock::of_call(&seen.what).is_some()
        });
        let mut slept = 0;
        for Seen { what, count, .. } in sleeps {
            slept += count;
            *calls.entry(what).or_default() += count;
        }
        if slept > 0 {
            waiting.push(process);
            waits += slept;
            samples += total(process.activity.iter().map(|seen| seen.count));
            cost_s += slept as f64 * process.seconds / process.looks as f64;
        }
    }
    let call = calls.into_iter().max_by_key(|(_, count)| *count)?.0.to_owned();
    if waits < LEAST {
        return None;
    }
    let object = SystemLock::of_call(&call)?;
    let lock = match object {
        SystemLock::File => "lock of a file",
        SystemLock::Semaphore => "semaphore of System V",
    };
    let plain = Plain {
        pid: waiting[0].pid,
        lock,
        share: Some(waits as f64 / samples as f64),
        cost_s,
        source: Source::Sampled,
        observations: waits,
    };
    Some(plain.finding(Problem::Processes {
        waits: ProcessWaits::System { call, object },
        processes: waiting.len(),
        program: program(waiting[0]).to_owned(),
        sleeps: Vec::new(),
    }))
}

/// Returns the gap of processes that seldom wait for each other at semaphores and sleep otherwise,
/// if no kernel events show why.
pub(crate) fn unknown(record: &Record) -> Option<Gap> {
    /// Minimum mean number of waits of a process. A single wait only shows that processes start or
    /// end together.
    const SOME: u64 = 3;
    if record.processes.iter().any(|process| process.scheduling.is_some()) {
        return None;
    }
    let (place, posted) = most_posted(record)?;
    let processes: Vec<&Process> = posted.iter().map(|posted| posted.process).collect();
    let waits = total(posted.iter().map(|posted| posted.waits));
    if processes.len() < MANY || waits < SOME * processes.len() as u64 {
        return None;
    }
    Some(Gap::ProcessWaits {
        processes: processes.len(),
        program: program(processes[0]).to_owned(),
        place: place.to_owned(),
        waits,
        sleeps: sleeps(&processes),
    })
}

/// Returns the finding that follows from the wakeups that the kernel recorded.
fn wakeups(by_pid: &BTreeMap<u64, (&Process, Scheduling)>) -> Option<Finding> {
    let woken = total(by_pid.values().map(|(_, one)| one.woken_by_others));
    let mutual = by_pid.values().map(|(_, one)| one.woken_by_others.min(one.wakes_others));
    let mutual = total(mutual) as f64;
    let least = CONCERNED / by_pid.len() as f64 * woken.max(1) as f64;
    let concerned: Vec<&(&Process, Scheduling)> =
        by_pid.values().filter(|(_, one)| one.woken_by_others as f64 > least).collect();
    // Signals end all threads of a process, such as the idle workers of a server.
    let ended: u64 =
        concerned.iter().map(|(process, _)| ENDS.saturating_mul(process.threads)).sum();
    if woken < FEW.max(ended) || mutual < MUTUAL * woken as f64 || concerned.len() < 2 {
        return None;
    }
    // Waits for locks that processes share have separate findings, with owners.
    let cost_s = concerned.iter().map(|(process, one)| {
        let locks = process.locks.iter().filter(|lock| lock.is_lock());
        (one.asleep_by_others_s - locks.map(Lock::wait_s).sum::<f64>()).max(0.0)
    });
    let cost_s = cost_s.sum();
    let processes: Vec<&Process> = concerned.iter().map(|(process, _)| *process).collect();
    Some(finding(&processes, cost_s, woken, ProcessWaits::Wakeups { wakeups: woken }))
}

/// Waits of a process at semaphores that other processes post.
struct Posted<'a> {
    process: &'a Process,
    waits: u64,
    wait_s: f64,
}

fn wait_s(posted: &[Posted<'_>]) -> f64 {
    posted.iter().map(|posted| posted.wait_s).sum()
}

/// Returns the place where processes wait longest until others post a semaphore. Only processes
/// with one thread count: that thread cannot post the semaphore itself.
fn most_posted(record: &Record) -> Option<(&str, Vec<Posted<'_>>)> {
    let mut places: BTreeMap<&str, Vec<Posted<'_>>> = BTreeMap::new();
    for process in record.processes.iter().filter(|process| process.threads <= 1) {
        let semaphores = process.locks.iter().filter(|lock| lock.kind == Primitive::Semaphore);
        for site in semaphores.filter(|lock| !lock.is_lock()).flat_map(|lock| &lock.sites) {
            let (waits, wait_s) = (site.wait.count, site.wait.total_s);
            places.entry(&site.place).or_default().push(Posted { process, waits, wait_s });
        }
    }
    places.into_iter().max_by(|a, b| wait_s(&a.1).total_cmp(&wait_s(&b.1)))
}

/// Returns the finding that follows from semaphores without an owner at which several processes
/// wait.
fn semaphores(record: &Record) -> Option<Finding> {
    let (place, mut posted) = most_posted(record)?;
    let waits = total(posted.iter().map(|posted| posted.waits));
    // Processes that waited only briefly are not affected.
    let least = CONCERNED * waits as f64 / posted.len() as f64;
    posted.retain(|posted| posted.waits as f64 > least);
    let processes: Vec<&Process> = posted.iter().map(|posted| posted.process).collect();
    if processes.len() < MANY || waits < FEW * processes.len() as u64 {
        return None;
    }
    let place = place.to_owned();
    Some(finding(&processes, wait_s(&posted), waits, ProcessWaits::Semaphores { place, waits }))
}

fn finding(processes: &[&Process], cost_s: f64, observations: u64, waits: ProcessWaits) -> Finding {
    let time_s: f64 = processes.iter().map(|process| process.seconds).sum();
    let program = program(processes[0]);
    let plain = Plain {
        pid: processes[0].pid,
        lock: program,
        share: Some((cost_s / time_s.max(f64::MIN_POSITIVE)).min(1.0)),
        cost_s,
        source: Source::Counted,
        observations,
    };
    plain.finding(Problem::Processes {
        waits,
        processes: processes.len(),
        program: program.to_owned(),
        sleeps: sleeps(processes),
    })
}

fn program(process: &Process) -> &str {
    let command = process.command.first().map_or("?", String::as_str);
    let first = command.split([' ', ':']).next().unwrap_or(command);
    first.rsplit('/').next().unwrap_or(first)
}

/// Returns the most frequent system calls and waiting places of processes, from samples, each with
/// its part of all of them.
fn sleeps(processes: &[&Process]) -> Vec<(String, f64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in processes.iter().flat_map(|process| &process.activity) {
        let name = match seen.doing {
            Doing::Sleeps => &seen.what,
            Doing::Idles | Doing::Waits => &seen.place,
            _ => continue,
        };
        *counts.entry(name).or_default() += seen.count;
    }
    let samples = total(counts.values().copied()).max(1) as f64;
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts = counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64 / samples));
    parts.filter(|(_, part)| *part > WORTH).take(CALLS).collect()
}
