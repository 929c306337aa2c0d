//! Problems that are visible without waits for a lock: futile wakeups, cache lines that move, and
//! spinning. Also the activity of threads if locks cost little.

use convoy_record::account::seconds;
use convoy_record::runtimes::runtime;
use convoy_record::{Account, Doing, Hot, Process, Record, Why, runnable, threads, total};
use std::collections::BTreeMap;

use crate::herds::{herd, of_cpu};
use crate::ill::{Diagnosis, Ill, LITTLE, percent};
use crate::lines::{false_sharing, readers};

/// Cost of a `sched_yield` call in seconds, without the switch to another thread.
const YIELD_S: f64 = 0.3e-6;
/// Cost of a failed attempt to acquire a lock, in seconds.
const ATTEMPT_S: f64 = 15e-9;
/// Cost of that switch in seconds, if the record contains no price.
const SWITCH_S: f64 = 0.7e-6;
/// Minimum number of CPU-time samples at waiting or adding instructions.
const SAMPLES: u64 = 10;
/// Minimum part of all samples at such instructions.
const SPINS: f64 = 0.1;
/// Minimum number of events for a diagnosis.
const FEW: u64 = 100;

/// Returns all diagnoses of this module for a process.
pub(crate) fn of_process(record: &Record, process: &Process) -> Vec<Diagnosis> {
    let mut all: Vec<Diagnosis> = Vec::new();
    let own = process.locks.iter().chain(&process.futexes);
    all.extend(own.filter_map(|lock| herd(record, process, lock)));
    all.extend(process.locks.iter().filter_map(|lock| readers(process, lock)));
    all.extend(false_sharing(process));
    all.extend(spinning(record, process));
    all.extend(attempts(process));
    all.extend(counter(process));
    all
}

/// Runtime libraries of OpenMP.
const OPENMP: [&str; 3] = ["libgomp", "libomp", "libiomp5"];

/// Returns a diagnosis if threads wait in a loop, according to samples of CPU time, or because they
/// yield their CPU repeatedly.
fn spinning(record: &Record, process: &Process) -> Option<Diagnosis> {
    // A loop that adds to a counter succeeds as often as it fails. A loop that waits for a lock
    // almost never succeeds.
    let waits = |hot: &Hot| hot.spins >= SAMPLES && hot.spins > 2 * hot.atomics;
    let spins = |hot: &&Hot| !is_of_libc(hot) && waits(hot) && part(hot.spins, process) >= SPINS;
    let hot = process.hot.iter().filter(spins).max_by_key(|hot| hot.spins);
    let yields = process.yields.first().filter(|one| one.count > 10 * FEW);
    let all = total(process.yields.iter().map(|one| one.count));
    let prices = &record.program.prices_ns;
    let switch_s = prices.get("price_ns.switch").map_or(SWITCH_S, |price| price[1] / 1e9);
    let cost_s = all as f64 * (YIELD_S + switch_s);
    let (place, share, what) = match (hot, yields) {
        // Most samples of such a loop are at its other instructions.
        (Some(hot), _) => {
            let share = part(hot.count, process);
            (&hot.place, Some(share), format!("spend {} of the CPU time spinning", percent(share)))
        }
        // A lower cost comes from a library that spins briefly before it sleeps.
        (None, Some(one)) if cost_s > LITTLE * process.seconds => {
            (&one.place, of_cpu(process, cost_s), "spin".to_owned())
        }
        (None, _) => return None,
    };
    let yields = match yields {
        Some(one) => format!(" (sched_yield(2) was called {all} times, most in {})", one.place),
        None => String::new(),
    };
    let running = runnable(process).unwrap_or_else(|| threads(process));
    let cpus = f64::from(record.program.cpus.max(1));
    let owner = if running > 1.2 * cpus {
        format!("; its owner often has no CPU: {running:.0} threads share {cpus} CPUs")
    } else {
        String::new()
    };
    let is_of_openmp = OPENMP.iter().any(|library| place.contains(library));
    let (whose, cure) = if is_of_openmp {
        let cure = "OpenMP's threads spin before they sleep: give all threads of a loop the same \
                    work (schedule(dynamic)), shorten its critical sections, or set \
                    OMP_WAIT_POLICY=passive.";
        ("for other threads, at a barrier or a critical section of OpenMP, or for work", cure)
    } else {
        let cure = "Take a mutex there, which sleeps until the owner has released it, or a \
                    condition for work; or run fewer such threads than CPUs.";
        ("for a lock or a flag of the program's own, or for work", cure)
    };
    Some(Diagnosis {
        ill: Ill::Spinning,
        pid: process.pid,
        lock: place.clone(),
        share,
        weight: None,
        cost_s: share.map_or(cost_s, |share| share * process.cpu_s),
        sentence: format!("Threads {what} in {place} {whose}{yields}{owner}."),
        cure: cure.to_owned(),
    })
}

/// Returns a diagnosis if threads repeatedly try to acquire a lock that another thread owns.
fn attempts(process: &Process) -> Option<Diagnosis> {
    let most = process.attempts.first()?;
    let all = total(process.attempts.iter().map(|one| one.count));
    let cost_s = all as f64 * ATTEMPT_S;
    let share = of_cpu(process, cost_s)?;
    (all > 10 * FEW && share >= SPINS).then(|| Diagnosis {
        ill: Ill::Spinning,
        pid: process.pid,
        lock: most.place.clone(),
        share: Some(share),
        weight: None,
        cost_s,
        sentence: format!(
            "Threads spin in {}: they tried {all} times to acquire a lock that another thread \
             held (pthread_mutex_trylock and the like).",
            most.place
        ),
        cure: "Call pthread_mutex_lock there, which sleeps until the owner has released it."
            .to_owned(),
    })
}

/// Returns the part of the CPU-time samples that `count` samples make up.
fn part(count: u64, process: &Process) -> f64 {
    count as f64 / process.samples.max(1) as f64
}

/// Returns whether a function belongs to libc. Waits for libc's internal locks are recorded in
/// another way.
fn is_of_libc(hot: &Hot) -> bool {
    let place = &hot.place;
    let name = place.trim_start_matches('_');
    let function = name.split([' ', '+']).next().unwrap_or(name);
    ["libc", "libpthread", "ld-linux-x86-64"].iter().any(|begin| {
        hot.library.strip_prefix(*begin).is_some_and(|rest| rest.starts_with(['.', '-']))
    }) || ["pthread_", "lll_", "sem_", "new_sem_", "mtx_", "cnd_"]
        .iter()
        .any(|one| name.starts_with(one))
        || runtime(function).is_some()
        || place.contains("(libc")
        || place.contains("(libpthread")
}

/// Returns a diagnosis if threads add to one counter.
fn counter(process: &Process) -> Option<Diagnosis> {
    let hot = process.hot.iter().filter(|hot| !is_of_libc(hot));
    let hot = hot.max_by_key(|hot| hot.atomics)?;
    let share = part(hot.atomics, process);
    let is_alone = threads(process) < 1.5;
    if hot.atomics < SAMPLES || share < SPINS || is_alone {
        return None;
    }
    Some(Diagnosis {
        ill: Ill::ReaderCounter,
        pid: process.pid,
        lock: hot.place.clone(),
        share: Some(share),
        weight: None,
        cost_s: share * process.cpu_s,
        sentence: format!(
            "Threads do not wait, but spend {} of the CPU time at atomic additions in {}: they \
             write one counter, such as that of a lock for readers, whose cache line moves between \
             CPUs.",
            percent(share),
            hot.place
        ),
        cure: "Read without a lock: let writers replace the data and readers follow an atomic \
               pointer, or count in each thread or CPU."
            .to_owned(),
    })
}

/// Returns a description of the activity of the threads if locks cost little.
pub(crate) fn elsewhere(record: &Record, account: &Account) -> String {
    if let Some(unknown) = crate::processes::unknown(record) {
        return unknown;
    }
    let mut said = account.elsewhere(record);
    if let Some(spread) = spread(record, account) {
        let waits = said.find("They waited longer").map_or("", |at| &said[at..]);
        let both = format!("{spread} {waits}");
        said.clear();
        said.push_str(both.trim_end());
    }
    // Java's locks and its idle workers wait in the same function; only method names distinguish
    // them.
    if said.contains("Parker::park") && !record.processes.iter().any(crate::java::is_dumped) {
        said.push_str(
            " It may be a lock of java.util.concurrent: record it under \
             -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit.",
        );
    }
    if let Some((_, waited)) = said.split_once("They waited longer ")
        && waited.contains("PlatformEvent::park")
        && !record.processes.iter().any(crate::java::is_dumped)
    {
        said = format!(
            "What monitors of Java cost is not known: threads waited {waited} A look from outside \
             does not tell monitors from idle threads there: start java under `convoy record`, or \
             `jcmd PID JFR.start filename=/tmp/run.jfr settings=profile locking-threshold=0ms \
             duration=10s`, then `convoy explain /tmp/run.jfr`."
        );
    }
    if account.locks.is_empty()
        && let Some(reason) = unreached(record)
    {
        return reason;
    }
    match activity(record) {
        None if account.locks.is_empty() && samples(record) > 0 => {
            "No lock was seen: only samples of CPU time were recorded, and they show no waiting \
             in a loop."
                .to_owned()
        }
        Some(doing) if account.locks.is_empty() && sleeps_in_futex(record) => format!(
            "What locks cost is not known: threads sleep in futex(2), which the program calls \
             itself, and only kernel events, as root, tell for what. {doing}"
        ),
        Some(doing) if account.locks.is_empty() => {
            format!("Locks cost little: no thread was seen waiting for one. {doing}")
        }
        Some(doing) => format!("{said} {doing}"),
        None => said,
    }
}

/// Returns whether threads sleep in futex(2) outside of the recorded functions for a relevant part
/// of their time. One thread may do so all the time: it joins the others.
fn sleeps_in_futex(record: &Record) -> bool {
    /// Minimum part of the time of the threads.
    const MUCH: f64 = 0.05;
    record.processes.iter().any(|process| {
        let count = |what: &str| {
            let seen = process.activity.iter().filter(|seen| what.is_empty() || seen.what == what);
            total(seen.map(|seen| seen.count)) as f64
        };
        count("futex(2)") - process.looks as f64 > MUCH * count("")
    })
}

/// Returns a sentence if waits are significant in total, although no single lock has a large part
/// of them.
fn spread(record: &Record, account: &Account) -> Option<String> {
    /// Above this part of the wait time, one lock dominates. It has been diagnosed separately.
    const MOST: f64 = 0.6;
    // Waits for the kernel's locks also depend on other programs.
    let own = || account.locks.iter().filter(|one| one.pid != 0 && one.lock.is_lock());
    let first = own().next()?;
    let wait_s: f64 = own().map(|one| one.lock.wait_s()).sum();
    let part = wait_s / convoy_record::busy_s(record);
    let is_spread = first.lock.wait_s() < MOST * wait_s;
    let site = first.lock.sites.first()?;
    let is_named = first.lock.name.contains(&site.place);
    let at = if is_named { String::new() } else { format!(" in {}", site.place) };
    (is_spread && part.is_finite() && part >= LITTLE).then(|| {
        format!(
            "Threads spent {} of their time waiting for locks, {} in all, at many places; most for \
             `{}`{at}, {}.",
            percent(part.min(1.0)),
            seconds(wait_s),
            first.lock.name,
            seconds(first.lock.wait_s())
        )
    })
}

/// Returns advice for a program whose locks could not be recorded.
fn unreached(record: &Record) -> Option<String> {
    let only = |line: &String| line.strip_prefix(convoy_record::ONLY_SAMPLES).map(str::to_owned);
    if let Some(reason) = record.unseen.iter().find_map(only) {
        return Some(format!("What locks cost is not known: {}", reason.trim_start()));
    }
    // The kernel sees the waits of any program.
    if record.processes.iter().any(|process| process.scheduling.is_some()) {
        return None;
    }
    let mut started = record.processes.iter().flat_map(|process| &process.unloaded);
    let program = &started.find(|one| one.why == Why::Static)?.program;
    Some(format!(
        "What locks cost is not known: `{program}`, which was started, is linked statically, so \
         libc's functions in it cannot be reached; record it as root with kernel events, or give \
         convoy explain the mutex profile of a program in Go (/debug/pprof/mutex)."
    ))
}

/// Returns the number of samples of CPU time.
fn samples(record: &Record) -> u64 {
    total(record.processes.iter().map(|process| process.samples))
}

/// Returns a description of how the threads of all processes spent their time, according to
/// samples.
fn activity(record: &Record) -> Option<String> {
    /// Minimum number of samples of a process.
    const LOOKS: u64 = 10;
    let known = || record.processes.iter().filter(|process| process.looks >= LOOKS);
    // A process is sampled only from its first lock on.
    let cpu_s = |all: &mut dyn Iterator<Item = &Process>| all.map(|one| one.cpu_s).sum::<f64>();
    if cpu_s(&mut known()) < 0.5 * cpu_s(&mut record.processes.iter()) {
        return None;
    }
    // Samples are converted to seconds, because processes are sampled at different rates.
    let mut spent: BTreeMap<(Doing, &str), f64> = BTreeMap::new();
    for process in known() {
        let look_s = process.seconds / process.looks as f64;
        for seen in &process.activity {
            let what = if seen.doing == Doing::Sleeps { seen.what.as_str() } else { "" };
            *spent.entry((seen.doing, what)).or_default() += seen.count as f64 * look_s;
        }
    }
    let all_s: f64 = spent.values().sum();
    if all_s <= 0.0 {
        return None;
    }
    let of = |doing| spent.get(&(doing, "")).copied().unwrap_or(0.0);
    let (runs_s, idles) = (of(Doing::Runs), of(Doing::Idles) / all_s);
    let mut words = vec![format!("ran or waited for a CPU during {}", percent(runs_s / all_s))];
    let mut sleeps: Vec<(&str, f64)> = spent
        .iter()
        .filter(|((doing, _), _)| *doing == Doing::Sleeps)
        .map(|((_, what), time_s)| (*what, time_s / all_s))
        .collect();
    sleeps.sort_by(|a, b| b.1.total_cmp(&a.1));
    let slept = sleeps.into_iter().take(2).filter(|(_, part)| *part > 0.05);
    words.extend(slept.map(|(what, part)| format!("slept in {what} during {}", percent(part))));
    if idles > 0.05 {
        words.push(format!("waited for conditions during {}", percent(idles)));
    }
    let running = runs_s / record.program.wall_s.max(f64::MIN_POSITIVE);
    let full = if running > 1.5 * f64::from(record.program.cpus.max(1)) {
        format!(
            " On average {running:.1} threads could run on {} CPUs: they wait for CPUs.",
            record.program.cpus
        )
    } else {
        String::new()
    };
    let last = words.pop().unwrap_or_default();
    let list = if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) };
    Some(format!("Threads {list} of their time.{full}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Kind, Lock, Seen, Site, Times};

    #[test]
    fn one_lock_that_has_most_of_the_waiting_is_not_many_places() {
        fn lock(at: usize) -> Lock {
            let wait = Times { count: 50, total_s: 0.1, ..Times::default() };
            let site = Site { place: format!("f{at}"), wait, ..Site::default() };
            let name = format!("m{at}");
            Lock { name, kind: Kind::Mutex, sites: vec![site], ..Lock::default() }
        }
        let said = |others: usize| {
            let wait = Times { count: 90, total_s: 2.0, ..Times::default() };
            let sites = vec![Site { act: "wait".to_owned(), count: 90, wait, ..Site::default() }];
            let (name, kind) = ("commit".to_owned(), Kind::Condition);
            let condition = Lock { name, kind, sites, ..Lock::default() };
            let locks = (0..=others).map(lock).chain([condition]).collect();
            let process = Process { pid: 1, seconds: 1.0, threads: 4, locks, ..Process::default() };
            let record = Record { processes: vec![process], ..Record::default() };
            elsewhere(&record, &Account::new(&record))
        };
        assert!(!said(0).contains("at many places"));
        let said = said(3);
        for words in ["at many places; most for `m", ", 100 ms. They waited longer for work or"] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_thread_that_joins_others_waits_for_no_lock() {
        fn seen(what: &str, count: u64) -> Seen {
            Seen { doing: Doing::Sleeps, what: what.to_owned(), count, ..Seen::default() }
        }
        let asleep = |count: u64| {
            let activity = vec![seen("read(2)", 300), seen("futex(2)", count)];
            let process = Process { looks: 100, activity, ..Process::default() };
            sleeps_in_futex(&Record { processes: vec![process], ..Record::default() })
        };
        assert!(!asleep(0) && !asleep(100) && !asleep(110));
        assert!(asleep(200));
    }
}
