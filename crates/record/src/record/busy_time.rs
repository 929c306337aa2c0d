//! Busy time of the threads of a program, against which waits are weighed.

use std::collections::BTreeMap;

use crate::names::named_after;
use crate::record::causes::Doing;
use crate::record::{Process, Record, total};

/// Minimum number of samples to count the threads of a process.
const FEW: u64 = 5;
/// System calls in which a thread is idle until a request arrives or a time is reached.
const IDLE: [&str; 16] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_wait",
    "io_getevents",
    "io_uring_enter",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "rt_sigtimedwait",
    "select",
    "wait4",
    "waitid",
];

/// Returns the average number of threads of a process that live at the same time.
pub fn threads(process: &Process) -> f64 {
    let seen = total(process.activity.iter().map(|seen| seen.count));
    if process.looks >= FEW {
        (seen as f64 / process.looks as f64).max(1.0)
    } else {
        process.threads.max(1) as f64
    }
}

/// Returns the average number of threads of a process that run or are runnable, or `None` if it is
/// not known.
pub fn runnable(process: &Process) -> Option<f64> {
    let seen = process.activity.iter().filter(|seen| seen.doing == Doing::Runs);
    (process.looks >= FEW).then(|| total(seen.map(|seen| seen.count)) as f64 / process.looks as f64)
}

/// Returns the time, in seconds, that all threads of a program were busy: without waits for
/// conditions, for requests and for points in time, as far as these were observed. Waits for locks
/// count as busy.
pub fn busy_s(record: &Record) -> f64 {
    // A process that executes another program has one entry for each program.
    let mut processes: BTreeMap<u64, f64> = BTreeMap::new();
    for process in &record.processes {
        let time_s = processes.entry(process.pid).or_default();
        *time_s = time_s.max(threads(process) * process.seconds * (1.0 - idle(process)));
    }
    let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
    processes.values().sum::<f64>().max(cpu_s)
}

/// Returns the fraction of the time of its threads in which they were idle.
fn idle(process: &Process) -> f64 {
    let all = total(process.activity.iter().map(|seen| seen.count));
    if process.looks < FEW || all == 0 {
        return 0.0;
    }
    let idle = process.activity.iter().filter(|seen| match seen.doing {
        Doing::Idles => true,
        // A semaphore used as a signal.
        Doing::Waits => seen.what.starts_with(&named_after("", false)),
        Doing::Sleeps => IDLE.contains(&seen.what.trim_end_matches("(2)")),
        _ => false,
    });
    total(idle.map(|seen| seen.count)) as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::causes::Seen;

    #[test]
    fn threads_that_have_nothing_to_do_weigh_nothing() {
        fn seen(doing: Doing, what: &str, count: u64) -> Seen {
            Seen { doing, what: what.to_owned(), count, ..Seen::default() }
        }
        let activity = vec![
            seen(Doing::Sleeps, "epoll_wait(2)", 40),
            seen(Doing::Waits, "condition of work", 30),
            seen(Doing::Idles, "condition of more", 10),
            seen(Doing::Waits, "gate", 10),
            seen(Doing::Sleeps, "fdatasync(2)", 5),
            seen(Doing::Runs, "", 5),
        ];
        let process =
            Process { pid: 3, looks: 10, seconds: 2.0, threads: 9, activity, ..Process::default() };
        let other = Process { pid: 3, seconds: 1.0, ..Process::default() };
        assert_eq!(runnable(&other), None);
        assert!((runnable(&process).unwrap_or(0.0) - 0.5).abs() < 1e-9);
        let mut record = Record { processes: vec![process, other], ..Record::default() };
        // Ten threads for two seconds, a fifth of which they worked or waited for a lock.
        assert!((busy_s(&record) - 4.0).abs() < 1e-9, "{}", busy_s(&record));
        record.processes[0].looks = 0;
        assert!((busy_s(&record) - 18.0).abs() < 1e-9, "all of it, if nothing was seen");
    }
}
