//! Processes that wait for each other: for locks in shared memory, or for messages. The evidence is
//! wakeups that the kernel recorded, or else shared semaphores.

use convoy_record::account::seconds;
use convoy_record::{Doing, Kind, Lock, Process, Record, Scheduling, Seen, total};
use std::collections::BTreeMap;

use crate::ill::{Diagnosis, Ill, percent};

/// Minimum number of wakeups.
const FEW: u64 = 100;
/// Minimum part of the wakeups by other processes that are mutual: a process that only ever waits
/// for another one has asked it for something.
const MUTUAL: f64 = 0.3;
/// A process is affected if it has this part of the mean number of wakeups, or waits.
const CONCERNED: f64 = 0.2;
/// Minimum number of processes if there are no kernel events.
const MANY: usize = 3;
/// A system call is mentioned if it has this part of the sleeps.
const WORTH: f64 = 0.1;

/// Views of programs that show such waits themselves, by program name.
const VIEWS: [(&str, &str); 1] = [("postgres", "wait_event of pg_stat_activity, and pg_locks")];

/// Returns the diagnosis of waits between processes, if they are relevant.
pub(crate) fn between(record: &Record) -> Option<Diagnosis> {
    let seen = record.processes.iter().filter_map(|one| Some((one, one.scheduling?)));
    // A process that executes another program has one entry for each.
    let by_pid: BTreeMap<u64, (&Process, Scheduling)> =
        seen.map(|(one, scheduling)| (one.pid, (one, scheduling))).collect();
    if by_pid.is_empty() { semaphores(record) } else { wakeups(&by_pid) }
}

/// Returns the diagnosis of waits for locks of files, according to samples.
pub(crate) fn file_locks(process: &Process) -> Option<Diagnosis> {
    /// Minimum number of samples.
    const LEAST: u64 = 10;
    /// System calls that sleep only for the lock of a file.
    const CALLS: [&str; 2] = ["flock(2)", "fcntl(2)"];
    let is_it = |one: &&Seen| one.doing == Doing::Sleeps && CALLS.contains(&one.what.as_str());
    let call = process.activity.iter().find(is_it)?;
    let waits = total(process.activity.iter().filter(is_it).map(|one| one.count));
    let all = total(process.activity.iter().map(|one| one.count));
    if waits < LEAST || process.looks == 0 {
        return None;
    }
    let share = waits as f64 / all as f64;
    let cost_s = waits as f64 * process.seconds / process.looks as f64;
    let sentence = format!(
        "Threads spent {} of their time in {}, waiting for the lock of a file, which another \
         process or thread holds.",
        percent(share),
        call.what
    );
    Some(Diagnosis {
        ill: Ill::Processes,
        pid: process.pid,
        lock: "lock of a file".to_owned(),
        share: Some(share),
        weight: None,
        cost_s,
        sentence,
        cure: "Hold the lock for less time, or lock a range of the file (fcntl(2)); another lock \
               will not help."
            .to_owned(),
    })
}

/// Returns the sentence about processes that seldom wait for each other at semaphores and sleep
/// otherwise, if no kernel events show why.
pub(crate) fn unknown(record: &Record) -> Option<String> {
    /// Minimum mean number of waits of a process. A single wait only shows that processes start or
    /// end together.
    const SOME: u64 = 3;
    if record.processes.iter().any(|one| one.scheduling.is_some()) {
        return None;
    }
    let (place, found) = most_posted(record)?;
    let processes: Vec<&Process> = found.iter().map(|one| one.process).collect();
    let waits = total(found.iter().map(|one| one.waits));
    if processes.len() < MANY || waits < SOME * processes.len() as u64 {
        return None;
    }
    let program = name(processes[0]);
    let view = VIEWS.iter().find(|(known, _)| *known == program);
    let view = view.map_or_else(String::new, |(_, view)| {
        format!(" The program's own views name their waits, too ({view}).")
    });
    Some(format!(
        "What waits cost is not known: {} processes of {program} wait for each other in {place}, \
         at semaphores ({waits} times){}. Only kernel events, as root, tell whether they sleep for \
         each other there, too.{view}",
        processes.len(),
        sleeping(&processes)
    ))
}

/// Returns the diagnosis that follows from the wakeups that the kernel recorded.
fn wakeups(by_pid: &BTreeMap<u64, (&Process, Scheduling)>) -> Option<Diagnosis> {
    // Waits for locks that processes share have separate diagnoses, with owners.
    fn locks_s(process: &Process) -> f64 {
        process.locks.iter().filter(|lock| lock.is_lock()).map(Lock::wait_s).sum()
    }
    let answered = |one: &&(&Process, Scheduling)| one.1.woken_by_others.min(one.1.wakes_others);
    let woken = total(by_pid.values().map(|one| one.1.woken_by_others));
    let mutual = total(by_pid.values().map(|one| answered(&one)));
    let part = |one: &(&Process, Scheduling)| one.1.woken_by_others as f64 / woken.max(1) as f64;
    let concerned: Vec<&(&Process, Scheduling)> =
        by_pid.values().filter(|one| part(one) > CONCERNED / by_pid.len() as f64).collect();
    if woken < FEW || (mutual as f64) < MUTUAL * woken as f64 || concerned.len() < 2 {
        return None;
    }
    let rest_s =
        |one: &&&(&Process, Scheduling)| (one.1.asleep_by_others_s - locks_s(one.0)).max(0.0);
    let cost_s: f64 = concerned.iter().map(|one| rest_s(&one)).sum();
    let time_s: f64 = concerned.iter().map(|one| one.0.seconds).sum();
    let processes: Vec<&Process> = concerned.iter().map(|one| one.0).collect();
    let share = (cost_s / time_s.max(f64::MIN_POSITIVE)).min(1.0);
    let sentence = format!(
        "Processes wait for each other: {} of them ({}) spent {} of their time asleep until \
         another one woke them, {woken} times{}.",
        processes.len(),
        name(processes[0]),
        percent(share),
        sleeping(&processes)
    );
    Some(diagnosis(&processes, share, cost_s, sentence))
}

/// Waits of a process at semaphores that other processes post.
struct Posted<'a> {
    process: &'a Process,
    waits: u64,
    wait_s: f64,
}

/// Returns the place where processes wait longest until others post a semaphore. Only processes
/// with one thread count: that thread cannot post the semaphore itself.
fn most_posted(record: &Record) -> Option<(&str, Vec<Posted<'_>>)> {
    let mut places: BTreeMap<&str, Vec<Posted<'_>>> = BTreeMap::new();
    for process in record.processes.iter().filter(|one| one.threads <= 1) {
        let semaphores = process.locks.iter().filter(|one| one.kind == Kind::Semaphore);
        for site in semaphores.filter(|one| !one.is_lock()).flat_map(|lock| &lock.sites) {
            let (waits, wait_s) = (site.wait.count, site.wait.total_s);
            places.entry(&site.place).or_default().push(Posted { process, waits, wait_s });
        }
    }
    let sum_s = |all: &[Posted<'_>]| all.iter().map(|one| one.wait_s).sum::<f64>();
    places.into_iter().max_by(|a, b| sum_s(&a.1).total_cmp(&sum_s(&b.1)))
}

/// Returns the diagnosis that follows from semaphores without an owner at which several processes
/// wait.
fn semaphores(record: &Record) -> Option<Diagnosis> {
    let (place, mut found) = most_posted(record)?;
    let waits = total(found.iter().map(|one| one.waits));
    // Processes that waited only briefly are not affected.
    let least = CONCERNED * waits as f64 / found.len() as f64;
    found.retain(|one| one.waits as f64 > least);
    let processes: Vec<&Process> = found.iter().map(|one| one.process).collect();
    if processes.len() < MANY || waits < FEW * processes.len() as u64 {
        return None;
    }
    let cost_s: f64 = found.iter().map(|one| one.wait_s).sum();
    let time_s: f64 = processes.iter().map(|one| one.seconds).sum();
    let share = (cost_s / time_s.max(f64::MIN_POSITIVE)).min(1.0);
    let sentence = format!(
        "Processes wait for each other: {} of them ({}) spent {} of their time in {place}, at \
         semaphores that others post ({waits} waits, {}){}. Only root sees which process wakes \
         which, and whether other sleep is for each other, too.",
        processes.len(),
        name(processes[0]),
        percent(share),
        seconds(cost_s),
        sleeping(&processes)
    );
    Some(diagnosis(&processes, share, cost_s, sentence))
}

fn diagnosis(processes: &[&Process], share: f64, cost_s: f64, sentence: String) -> Diagnosis {
    let name = name(processes[0]);
    let view = VIEWS.iter().find(|(program, _)| *program == name);
    let view = view.map_or_else(String::new, |(_, view)| format!(" ({view})"));
    Diagnosis {
        ill: Ill::Processes,
        pid: processes[0].pid,
        lock: name.to_owned(),
        share: Some(share),
        weight: None,
        cost_s,
        sentence,
        cure: format!(
            "What they wait for lies in memory that they share, or in messages: the program's own \
             views name it{view}. Make the work that others wait for shorter."
        ),
    }
}

/// Returns the name of its program.
fn name(process: &Process) -> &str {
    let command = process.command.first().map_or("?", String::as_str);
    let first = command.split([' ', ':']).next().unwrap_or(command);
    first.rsplit('/').next().unwrap_or(first)
}

/// Returns their most frequent system calls and waiting places, from samples.
fn sleeping(processes: &[&Process]) -> String {
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in processes.iter().flat_map(|process| &process.activity) {
        let what = match seen.doing {
            Doing::Sleeps => &seen.what,
            Doing::Idles | Doing::Waits => &seen.place,
            _ => continue,
        };
        *calls.entry(what).or_default() += seen.count;
    }
    let all = total(calls.values().copied());
    let mut calls: Vec<(&str, u64)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let calls = calls.iter().filter(|(_, count)| *count as f64 > WORTH * all as f64).take(3);
    let calls: Vec<String> = calls
        .map(|(what, count)| format!("{what} ({})", percent(*count as f64 / all as f64)))
        .collect();
    if calls.is_empty() {
        String::new()
    } else {
        format!("; they sleep in {}", calls.join(" and "))
    }
}
