//! The activity of a program whose locks cost little, or whose waits are not known.

use convoy_record::{
    Doing, JvmWait, KernelObject, Origin, Process, Record, Scheduler, Site, Why, java_wait, total,
};
use serde::Serialize;
use std::collections::BTreeMap;

use crate::account::{Account, LockAccount, known};
use crate::cpus::CpusInUse;
use crate::finding::LITTLE;
use crate::gap::{Gap, JavaWaits};
use crate::rules;
use crate::workers::{BusyPool, FewWakers};

/// What threads did in a program without a relevant finding. Times are in seconds, shares are parts
/// of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quiet {
    /// What is not known of the waits. With it the waits may be more than was seen.
    pub gap: Option<Gap>,
    /// Time that threads waited for locks.
    pub wait_s: f64,
    /// Number of recorded acquisitions and waits.
    pub calls: u64,
    /// Whether any lock was seen.
    pub has_locks: bool,
    /// Waits at many places, if they are relevant in total.
    pub spread: Option<Spread>,
    /// Longer waits for a condition or barrier.
    pub condition: Option<ConditionWaits>,
    /// Waits at a pipe of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipe: Option<PipeWaits>,
    /// What threads did, by samples. `None` with too few samples.
    pub activity: Option<Activity>,
    /// Number of samples of CPU time.
    pub cpu_samples: u64,
    /// The CPUs in use, if most waits cost little for that reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<CpusInUse>,
    /// Threads that always had work, so that work queued for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pool: Option<BusyPool>,
}

/// Waits that are relevant in total, although no lock has a large part of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Share of the busy time.
    pub share: f64,
    /// Wait time.
    pub wait_s: f64,
    /// The lock with most of it.
    pub lock: String,
    /// Where threads waited longest for that lock, if its name does not say so.
    pub place: Option<String>,
    /// Wait time for that lock.
    pub first_s: f64,
}

/// Waits of several threads for data that other threads of the process write to a pipe, by samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipeWaits {
    /// The function that reads it, if it is known.
    pub place: Option<String>,
    /// Mean number of threads that wait.
    pub waiting: f64,
}

/// Waits for a condition or barrier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConditionWaits {
    /// The condition.
    pub lock: String,
    /// Its longest waiting place, if its name does not say so.
    pub place: Option<String>,
    /// Wait time.
    pub wait_s: f64,
    /// Number of waits.
    pub count: u64,
    /// What the threads did that ended the waits, if most of them did the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// The threads that end them, if these are few and seldom wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakers: Option<FewWakers>,
    /// Mean number of threads that wait for room in a full queue of Java.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_room: Option<f64>,
}

/// The thread that ends a wait for a condition, while others wait for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndedBy {
    /// Where it wakes them.
    pub place: String,
    /// The system call in which it sleeps. `None` if it runs.
    pub call: Option<String>,
}

/// How threads spent their time, by samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Activity {
    /// Share that they ran or waited for a CPU.
    pub runs: f64,
    /// System calls in which they slept, each with its share.
    pub sleeps: Vec<(String, f64)>,
    /// Share that they waited for conditions.
    pub idles: f64,
    /// Mean number of runnable threads, if there are many more than CPUs.
    pub runnable: Option<f64>,
    /// Number of CPUs.
    pub cpus: u32,
}

/// Returns the activity of a program without a relevant finding.
pub(crate) fn quiet(record: &Record, account: &Account) -> Quiet {
    let activity = activity(record);
    let has_locks = !account.locks.is_empty();
    let calls = account.calls();
    let gap = rules::unknown_processes(record)
        .or_else(|| unrecorded(record, account))
        .or_else(|| unreached(record).filter(|_| !has_locks))
        .or_else(|| java_waits(record, account))
        .or_else(|| {
            (!has_locks && activity.is_some() && sleeps_in_futex(record)).then_some(Gap::FutexWaits)
        });
    let gap = gap.or_else(|| short(record, calls).filter(|_| activity.is_none()));
    let cpu_samples = total(record.processes.iter().map(|process| process.samples));
    let is_nothing = calls == 0 && activity.is_none() && cpu_samples == 0;
    Quiet {
        gap: gap.or_else(|| is_nothing.then_some(Gap::Nothing)),
        wait_s: account.wait_s,
        calls,
        has_locks,
        spread: spread(account),
        condition: account
            .condition(record.program.wall_s)
            .map(|longest| condition(record, longest)),
        pipe: record.processes.iter().find_map(pipe),
        activity,
        cpu_samples,
        in_use: None,
        busy_pool: BusyPool::of(record),
    }
}

/// Returns the first place of a lock, unless the name of the lock contains it.
fn place(account: &LockAccount) -> Option<String> {
    let site: Option<&Site> = account.lock.sites.first();
    site.map(|site| &site.place).filter(|place| !account.lock.name.contains(*place)).cloned()
}

fn condition(record: &Record, account: &LockAccount) -> ConditionWaits {
    // A process that executes another program has one entry for each.
    let process = record.processes.iter().find(|process| {
        let mut locks = process.locks.iter().chain(&process.futexes).chain(&process.runtime_locks);
        process.pid == account.pid && locks.any(|lock| lock.name == account.lock.name)
    });
    // All waits of Java's classes are in one function of its virtual machine.
    let parks = process.filter(|_| wait_of(account) == Some(JvmWait::Park));
    let queue = parks.and_then(rules::queue);
    ConditionWaits {
        lock: queue.map_or(&account.lock.name, |wait| &wait.class).clone(),
        place: queue.map(|wait| wait.place.clone()).or_else(|| place(account)),
        wait_s: account.waited_s,
        count: account.lock.count(),
        ended_by: process.and_then(|process| ended_by(process, account)),
        wakers: process.and_then(|process| FewWakers::of(process, &account.lock)),
        for_room: process.zip(queue).and_then(|(process, it)| rules::waiting_for_room(process, it)),
    }
}

/// Returns the waits of a process at pipes into which it writes, if more than one thread waits most
/// of the time: one thread alone is idle.
fn pipe(process: &Process) -> Option<PipeWaits> {
    /// Minimum mean number of threads.
    const SEVERAL: f64 = 1.5;
    let waits = process.kernel_waits.iter().filter(|wait| wait.object == KernelObject::Pipe);
    let samples = total(waits.clone().map(|wait| wait.samples));
    let waiting = samples as f64 / process.looks.max(1) as f64;
    let place = waits.max_by_key(|wait| wait.samples).and_then(|wait| known(&wait.place));
    (waiting >= SEVERAL).then_some(PipeWaits { place, waiting })
}

/// Returns what the thread that ends the waits for a condition does, by samples of it.
fn ended_by(process: &Process, account: &LockAccount) -> Option<EndedBy> {
    /// Minimum number of samples, and minimum part of them.
    const SAMPLES: u64 = 10;
    const MOST: f64 = 0.8;
    let causes = process.causes.iter().filter(|cause| cause.lock == account.lock.name);
    let longest = causes.max_by(|a, b| a.wait_s.total_cmp(&b.wait_s))?;
    let samples = total(longest.owners.iter().map(|seen| seen.count));
    let first = longest.owners.iter().max_by_key(|seen| seen.count)?;
    let is_clear = samples >= SAMPLES && first.count as f64 >= MOST * samples as f64;
    let call = match first.doing {
        Doing::Sleeps => Some(first.what.clone()),
        Doing::Runs => None,
        _ => return None,
    };
    let place = known(&longest.held_at).filter(|_| is_clear)?;
    Some(EndedBy { place, call })
}

/// Returns the wait of Java's virtual machine at the first place of a lock.
fn wait_of(account: &LockAccount) -> Option<JvmWait> {
    java_wait(&account.lock.sites.first()?.place)
}

/// Returns the gap if waits in a function of Java's virtual machine may be for locks. Java's locks
/// and its idle workers wait in the same function; only method names distinguish them.
pub(crate) fn java_waits(record: &Record, account: &Account) -> Option<Gap> {
    if record.processes.iter().any(rules::is_dumped) {
        return None;
    }
    let wall_s = record.program.wall_s;
    // Threads of the virtual machine itself may wait longer than those of the program park.
    let parks = account.locks.iter().filter(|lock| wait_of(lock) == Some(JvmWait::Park));
    let longest = parks.max_by(|a, b| a.waited_s.total_cmp(&b.waited_s));
    let parks = longest.filter(|lock| lock.waited_s > wall_s.max(account.wait_s));
    let account = parks.or_else(|| account.condition(wall_s))?;
    let waits = match wait_of(account)? {
        JvmWait::Park => JavaWaits::Concurrent,
        JvmWait::Monitor | JvmWait::ObjectWait => JavaWaits::Monitors,
        JvmWait::Internal | JvmWait::Sleep => return None,
    };
    let mut dumped = record.processes.iter().filter_map(|process| process.java.as_ref());
    Some(Gap::JavaWaits {
        waits,
        lock: account.lock.name.clone(),
        wait_s: account.waited_s,
        count: account.lock.count(),
        refused: dumped.find_map(|java| known(&java.refused)),
    })
}

/// Returns whether threads sleep in futex(2) outside of the recorded functions for a relevant part
/// of their time. One thread may do so all the time: it joins the others.
fn sleeps_in_futex(record: &Record) -> bool {
    /// Minimum part of the time of the threads.
    const MUCH: f64 = 0.05;
    record.processes.iter().any(|process| {
        let samples = total(process.activity.iter().map(|seen| seen.count)) as f64;
        let futex = process.activity.iter().filter(|seen| seen.what == "futex(2)");
        let futex = total(futex.map(|seen| seen.count)) as f64;
        futex - process.looks as f64 > MUCH * samples
    })
}

/// Returns the waits at many places if they are significant in total, although no single lock has a
/// large part of them.
fn spread(account: &Account) -> Option<Spread> {
    /// Above this part of the wait time, one lock dominates. It has its own finding.
    const MOST: f64 = 0.6;
    // Waits for the kernel's locks also depend on other programs.
    let locks: Vec<&LockAccount> = account.owned_locks().filter(|lock| lock.pid != 0).collect();
    let first = locks.first().filter(|lock| !lock.lock.sites.is_empty())?;
    let wait_s: f64 = locks.iter().map(|lock| lock.waited_s).sum();
    let share = wait_s / account.busy_s;
    let is_spread = first.waited_s < MOST * wait_s && share.is_finite() && share >= LITTLE;
    is_spread.then(|| Spread {
        share: share.min(1.0),
        wait_s,
        lock: first.lock.name.clone(),
        place: place(first),
        first_s: first.waited_s,
    })
}

/// Returns the gap if several threads ran, but too short to be sampled: waits inside of libc are
/// known by samples and kernel events alone.
fn short(record: &Record, calls: u64) -> Option<Gap> {
    /// Maximum length of the run, in seconds.
    const SHORT_S: f64 = 1.0;
    /// Maximum number of recorded acquisitions.
    const FEW: u64 = 20;
    /// Minimum mean number of CPUs that the program used.
    const SEVERAL: f64 = 1.2;
    /// The same if other programs used this number, too.
    const HALF: f64 = 0.5;
    let run_s = record.program.wall_s;
    let is_timed = record.processes.iter().any(|process| process.scheduling.is_some());
    let in_use = CpusInUse::of(record);
    let may_be_several =
        in_use.program >= SEVERAL || in_use.program >= HALF && in_use.others >= HALF;
    let is_short = run_s < SHORT_S && calls < FEW && may_be_several;
    (is_short && !is_timed).then_some(Gap::Short { seconds: run_s })
}

/// Returns the gap of a program whose locks could not be recorded.
fn unreached(record: &Record) -> Option<Gap> {
    if let Some(reason) = record.program.only_samples.clone() {
        return Some(Gap::OnlySamples { reason });
    }
    // The kernel sees the waits of any program.
    if record.processes.iter().any(|process| process.scheduling.is_some()) {
        return None;
    }
    let mut unloaded = record.processes.iter().flat_map(|process| &process.unloaded);
    let program = unloaded.find(|program| program.why == Why::Static)?;
    Some(Gap::StaticProgram { program: program.program.clone() })
}

/// Returns the gap if too much was not recorded to draw a conclusion from a record with almost no
/// waits.
pub(crate) fn unrecorded(record: &Record, account: &Account) -> Option<Gap> {
    let processes = &record.processes;
    let lost = processes.iter().map(|process| process.threads_lost).sum();
    let threads = processes.iter().map(|process| process.threads).sum();
    if is_much(lost, threads) {
        return Some(Gap::Threads { lost, of: threads });
    }
    if let Some(gap) = hidden_tasks(record).or_else(|| atomics(account)) {
        return Some(gap);
    }
    let children = processes.iter().flat_map(|process| process.unrecorded.children);
    let lost = total(children.chain(record.program.programs_lost));
    let of = (processes.len() as u64).saturating_add(lost);
    if is_much(lost, of) {
        return Some(Gap::Processes { lost, of });
    }
    let (call, share) = processes.iter().find_map(rules::unknown_kernel_wait)?;
    Some(Gap::KernelWait { call: call.to_owned(), share })
}

fn is_much(lost: u64, of: u64) -> bool {
    /// Unrecorded share, in percent, from which the record is not conclusive.
    const MUCH: u64 = 10;
    lost > 0 && lost.saturating_mul(100) >= of * MUCH
}

/// Returns the gap if any process has tasks that wait without a thread. Many programs load
/// `asyncio` and do not use it: its tasks wait only while a thread sleeps in its event loop.
fn hidden_tasks(record: &Record) -> Option<Gap> {
    record.processes.iter().find_map(|process| {
        let mut schedulers = process.schedulers.iter().copied();
        schedulers
            .find(|scheduler| match scheduler {
                Scheduler::Asyncio => polls(process),
                // One of its threads is a timer.
                Scheduler::Ruby => process.threads > 2,
                _ => true,
            })
            .map(|scheduler| Gap::Tasks { scheduler })
    })
}

/// Returns whether threads sleep in an event loop, or no thread was sampled.
fn polls(process: &Process) -> bool {
    const CALLS: [&str; 2] = ["epoll_wait(2)", "epoll_pwait(2)"];
    let mut sleeps = process.activity.iter().filter(|seen| seen.doing == Doing::Sleeps);
    process.activity.is_empty() || sleeps.any(|seen| CALLS.contains(&seen.what.as_str()))
}

/// Returns the gap if threads wait in `Atomics.wait` for a relevant part of their time.
fn atomics(account: &Account) -> Option<Gap> {
    let waits = account.locks.iter().filter(|lock| lock.lock.origin == Origin::JavaScript);
    let (wait_s, count) = waits.fold((0.0, 0), |(wait_s, count), lock| {
        (wait_s + lock.waited_s, total([count, lock.lock.count()]))
    });
    (wait_s > LITTLE * account.busy_s).then_some(Gap::Atomics { wait_s, count })
}

/// Returns how the threads of all processes spent their time, according to samples.
fn activity(record: &Record) -> Option<Activity> {
    /// Minimum number of samples of a process.
    const LOOKS: u64 = 10;
    /// Share of the time from which a state is mentioned.
    const WORTH: f64 = 0.05;
    /// Maximum number of system calls that are mentioned.
    const CALLS: usize = 2;
    let sampled: Vec<&Process> =
        record.processes.iter().filter(|process| process.looks >= LOOKS).collect();
    // A process is sampled only from its first lock on.
    let sampled_s: f64 = sampled.iter().map(|process| process.cpu_s).sum();
    let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
    if sampled_s < 0.5 * cpu_s {
        return None;
    }
    // Samples are converted to seconds, because processes are sampled at different rates.
    let mut spent: BTreeMap<(Doing, &str), f64> = BTreeMap::new();
    for process in sampled {
        let sample_s = process.seconds / process.looks as f64;
        for seen in &process.activity {
            let call = if seen.doing == Doing::Sleeps { seen.what.as_str() } else { "" };
            *spent.entry((seen.doing, call)).or_default() += seen.count as f64 * sample_s;
        }
    }
    let whole_s: f64 = spent.values().sum();
    if whole_s <= 0.0 {
        return None;
    }
    let runs_s = spent.get(&(Doing::Runs, "")).copied().unwrap_or(0.0);
    let idles_s = spent.get(&(Doing::Idles, "")).copied().unwrap_or(0.0);
    let sleeps = spent.iter().filter(|((doing, _), _)| *doing == Doing::Sleeps);
    let mut sleeps: Vec<(String, f64)> =
        sleeps.map(|((_, call), time_s)| ((*call).to_owned(), time_s / whole_s)).collect();
    sleeps.sort_by(|a, b| b.1.total_cmp(&a.1));
    sleeps.truncate(CALLS);
    sleeps.retain(|(_, share)| *share > WORTH);
    let cpus = record.program.cpus;
    let runnable = runs_s / record.program.wall_s.max(f64::MIN_POSITIVE);
    let idles = idles_s / whole_s;
    Some(Activity {
        runs: runs_s / whole_s,
        sleeps,
        idles: if idles > WORTH { idles } else { 0.0 },
        runnable: (runnable > 1.5 * f64::from(cpus.max(1))).then_some(runnable),
        cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{KernelWait, Kind, Lock, Seen, Times};

    #[test]
    fn one_lock_that_has_most_of_the_waiting_is_not_many_places() {
        fn lock(number: usize) -> Lock {
            let wait = Times { count: 50, total_s: 0.1, ..Times::default() };
            let site = Site { place: format!("f{number}"), wait, ..Site::default() };
            let name = format!("m{number}");
            Lock { name, kind: Kind::Mutex, sites: vec![site], ..Lock::default() }
        }
        fn of(others: usize) -> Quiet {
            let wait = Times { count: 90, total_s: 2.0, ..Times::default() };
            let sites = vec![Site { act: "wait".to_owned(), count: 90, wait, ..Site::default() }];
            let (name, kind) = ("commit".to_owned(), Kind::Condition);
            let condition = Lock { name, kind, sites, ..Lock::default() };
            let locks = (0..=others).map(lock).chain([condition]).collect();
            let process = Process { pid: 1, seconds: 1.0, threads: 4, locks, ..Process::default() };
            let record = Record { processes: vec![process], ..Record::default() };
            quiet(&record, &Account::new(&record))
        }
        assert_eq!(of(0).spread, None);
        let several = of(3);
        let spread = several.spread.expect("four locks have an equal part");
        assert!(spread.lock.starts_with('m') && (spread.first_s - 0.1).abs() < 1e-9);
        assert_eq!(several.condition.map(|waits| waits.lock).as_deref(), Some("commit"));
    }

    #[test]
    fn a_thread_that_joins_others_waits_for_no_lock() {
        fn seen(what: &str, count: u64) -> Seen {
            Seen { doing: Doing::Sleeps, what: what.to_owned(), count, ..Seen::default() }
        }
        fn asleep(count: u64) -> bool {
            let activity = vec![seen("read(2)", 300), seen("futex(2)", count)];
            let process = Process { looks: 100, activity, ..Process::default() };
            sleeps_in_futex(&Record { processes: vec![process], ..Record::default() })
        }
        assert!(!asleep(0) && !asleep(100) && !asleep(110));
        assert!(asleep(200));
    }

    #[test]
    fn several_threads_that_read_a_pipe_of_their_process_may_wait_for_each_other() {
        fn waiting(samples: u64) -> Option<f64> {
            let (call, place) = ("read(2)".to_owned(), "asks (pool.c:6)".to_owned());
            let wait = KernelWait { call, object: KernelObject::Pipe, place, samples };
            let process = Process { looks: 100, kernel_waits: vec![wait], ..Process::default() };
            pipe(&process).map(|waits| waits.waiting)
        }
        assert_eq!([waiting(1400), waiting(100)], [Some(14.0), None]);
    }
}
