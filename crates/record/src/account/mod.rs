//! Summary of a record: how long threads waited, and why.

pub(crate) mod elsewhere;
pub(crate) mod phases;
pub(crate) mod scheduling;
pub(crate) mod shares;
pub(crate) mod text;
pub(crate) mod weight;

use serde::Serialize;
use std::fmt::Write as _;

use crate::account::phases::{longest_s, phases, working_s};
use crate::account::scheduling::{Held, Scheduling};
use crate::account::text::percent;
pub use crate::account::text::seconds;
use crate::account::weight::busy_s;
use crate::names::{LOCK_OF, known_as};
use crate::record::{HANDOFF, Kind, Lock, Process, Record, total};

/// Minimum share of hold time with the owner off CPU for the verdict of a lock convoy.
const OFF_CPU: f64 = 0.10;
/// Share of the run below which a lock is held too rarely for its critical sections to be the
/// cause.
const SELDOM: f64 = 0.10;
/// Wait time for locks, as a share of the run, below which no lock is blamed.
const LITTLE: f64 = 0.01;
/// The same threshold, as a share of the busy time of all threads.
const WEIGHT: f64 = 0.02;
/// The same threshold, as a share of the time that working threads waited for a condition.
const FEW: f64 = 0.05;

/// Summary of the waits of a program's threads.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// First sentence of the account.
    pub verdict: String,
    /// Time that threads waited for locks, in seconds, summed over threads.
    pub wait_s: f64,
    /// Time that threads waited on condition variables and at barriers, where waiting may be
    /// intended, in seconds.
    pub idle_s: f64,
    /// The locks of all processes, in descending order of wait time.
    pub locks: Vec<LockAccount>,
    /// Further sentences: the longest convoy, owners, scheduling, phases.
    pub findings: Vec<String>,
    /// Limits of the record: what could not be observed.
    pub unseen: Vec<String>,
}

/// Summary of one lock. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct LockAccount {
    /// The process that the lock belongs to; 0 for the kernel.
    pub pid: u64,
    /// Share of all lock wait time, in percent; for a condition variable, share of all condition
    /// wait time.
    pub wait_percent: f64,
    /// Share of acquisitions that had to wait, in percent; NaN if only waits were recorded.
    pub contended_percent: f64,
    /// Time that it was held, from samples.
    pub held_s: f64,
    /// Share of that time with the owner off CPU, in percent.
    pub owner_off_cpu_percent: f64,
    /// The lock.
    #[serde(flatten)]
    pub lock: Lock,
}

impl LockAccount {
    /// Returns the account of a lock. With `hands_over`, the woken thread owns the lock already
    /// while it wakes up, so that time counts as held and off CPU.
    fn new(process: &Process, lock: &Lock, hands_over: bool, all_s: f64) -> Self {
        let only_waits =
            !lock.kernel.is_empty() || !lock.runtime.is_empty() || process.futexes.contains(lock);
        let percent = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 0.0 };
        let (held_s, off_s) = match lock.held.filter(|_| only_waits) {
            Some(held) => (held.total_s, held.off_s()),
            None => lock.held_s(process.cpu_s),
        };
        let woken_s = if hands_over { lock.all(|site| &site.handoff).total_s } else { 0.0 };
        let (held_s, off_s) = (held_s + woken_s, off_s + woken_s);
        Self {
            pid: process.pid,
            wait_percent: percent(lock.wait_s(), all_s),
            contended_percent: if only_waits {
                f64::NAN
            } else {
                // Of a sample of the waits, the number is an estimate.
                percent(lock.contended() as f64, lock.count() as f64).min(100.0)
            },
            held_s,
            owner_off_cpu_percent: percent(off_s, held_s),
            lock: lock.clone(),
        }
    }

    /// Returns whether the owners of a kernel lock were running, as a clause; empty unless that is
    /// known for at least half of the wait time.
    fn owners(&self) -> String {
        let Lock { owners_known_s: known_s, owners_off_s: off_s, .. } = self.lock;
        if known_s <= 0.0 || known_s < self.lock.wait_s() / 2.0 {
            return String::new();
        }
        let off = 100.0 * off_s / known_s;
        let convoy = if off >= 50.0 { ": a lock convoy" } else { "" };
        format!("; its owner was off CPU when waits began that make {} of it{convoy}", percent(off))
    }

    /// Returns, for a lock of a language runtime, how much of the waiting was at its first place:
    /// such a lock serves many users.
    fn mostly(&self) -> String {
        let Some(site) = self.lock.sites.first().filter(|_| !self.lock.runtime.is_empty()) else {
            return String::new();
        };
        let part = percent(100.0 * site.wait.total_s / self.lock.wait_s());
        if part == percent(100.0) { String::new() } else { format!(" ({part} of it)") }
    }

    /// Returns why owners were off CPU, if kernel events were recorded.
    fn off_cpu(&self) -> Option<String> {
        let held = self.lock.held.filter(|held| held.off_s() > 0.0)?;
        let part = |part: f64| percent(100.0 * part / held.off_s());
        Some(format!(
            "In {} holds of `{}` after a wait, {} in all, its owner was off CPU for {}: {} of that \
             after it had lost its CPU, {} asleep, {} woken and waiting for a CPU.",
            held.count,
            self.lock.name,
            seconds(held.total_s),
            seconds(held.off_s()),
            part(held.preempted_s),
            part(held.asleep_s),
            part(held.woken_s)
        ))
    }

    /// Returns the name of the lock and the place with the longest waits for it, such as
    /// `Cache::lock in Cache::find (cache.cc:214)`, with the name in backticks.
    pub(crate) fn place(&self) -> String {
        let site = self.lock.sites.first();
        let name = &self.lock.name;
        if !self.lock.kernel.is_empty() {
            let place = site.map_or("?", |site| &site.place);
            let named = name.strip_prefix(LOCK_OF) != Some(place);
            let name = if named { format!(" `{name}`") } else { String::new() };
            return format!("the kernel's {}{name} in {place}", self.lock.kernel);
        }
        let known = match self.lock.runtime.as_str() {
            "" => known_as(name).map(|what| format!(" ({what})")).unwrap_or_default(),
            runtime if name.starts_with(LOCK_OF) => format!(" (taken by {runtime})"),
            runtime => format!(" ({runtime})"),
        };
        match site.filter(|site| !name.contains(&site.place)) {
            Some(site) => format!("`{name}`{known} in {}", site.place),
            None => format!("the {name}{known}"),
        }
    }
}

impl Account {
    /// Returns a sentence if threads waited mostly for locks that cannot be replaced: the kernel's,
    /// or those implemented by the program or its runtime.
    pub fn beyond(&self, record: &Record) -> Option<String> {
        /// Minimum share of all lock wait time, in percent.
        const MOST: f64 = 50.0;
        let others =
            || self.locks.iter().filter(|one| one.lock.is_lock() && one.contended_percent.is_nan());
        let all: f64 = others().map(|one| one.wait_percent).sum();
        let wait_s: f64 = others().map(|one| one.lock.wait_s()).sum();
        let is_much = all > MOST && wait_s > WEIGHT * busy_s(record);
        let first = others().next().filter(|_| self.is_finite() && is_much)?;
        let whose = match (first.lock.kernel.as_str(), first.lock.runtime.as_str()) {
            ("", "") => "the program calls futex(2) for it itself",
            ("", _) => "the program's runtime builds it",
            _ => "it is the kernel's",
        };
        Some(format!(
            "{} of the time that threads waited for locks was for {}; {whose}, so no replacement \
             of libc's locks can help there.",
            percent(first.wait_percent),
            first.place()
        ))
    }

    /// Returns the account of a record.
    pub fn new(record: &Record) -> Self {
        fn locks(process: &Process) -> impl Iterator<Item = (&Process, &Lock)> {
            Process::locks_with(process)
        }
        let common = kernel_locks(record);
        let every = || record.processes.iter().chain([&common]).flat_map(locks);
        let sum = |locks: bool| -> f64 {
            let of = every().filter(|(_, lock)| lock.is_lock() == locks);
            of.map(|(_, lock)| lock.wait_s()).sum()
        };
        let (wait_s, idle_s) = (sum(true), sum(false));
        let mut locks: Vec<LockAccount> = every()
            .map(|(process, lock)| {
                let all = if lock.is_lock() { wait_s } else { idle_s };
                let hands_over = record.program.policy(lock.kind) == HANDOFF;
                LockAccount::new(process, lock, hands_over, all)
            })
            .collect();
        // Locks come first: a thread may have nothing to do but wait for a condition.
        locks.sort_by(|a, b| {
            let by_kind = b.lock.is_lock().cmp(&a.lock.is_lock());
            by_kind.then(b.lock.wait_s().total_cmp(&a.lock.wait_s()))
        });
        let mut account = Self {
            verdict: String::new(),
            wait_s,
            idle_s,
            locks,
            findings: Vec::new(),
            unseen: record.unseen.clone(),
        };
        account.verdict = account.judge(record);
        account.findings = account.findings(record);
        account
    }

    /// Returns the most contended lock; if that is the mutex inside a program-built lock, returns
    /// the program-built lock.
    fn first(&self) -> Option<&LockAccount> {
        let first = self.locks.first()?;
        let around = self
            .locks
            .iter()
            .find(|one| self.inner(one).is_some_and(|inner| std::ptr::eq(inner, first)));
        Some(around.unwrap_or(first)).filter(|one| one.lock.is_lock() && one.lock.wait_s() > 0.0)
    }

    /// Returns the condition or barrier with the longest waits, if they are relevant. A wait that
    /// lasts for much of the run belongs to an idle thread, and counts only if there are several.
    pub(crate) fn condition(&self, wall_s: f64) -> Option<&LockAccount> {
        let others = || self.locks.iter().filter(|one| !one.lock.is_lock());
        let much = wall_s.max(self.wait_s);
        let most = |of: fn(&Lock, f64) -> f64| {
            let of = move |one: &&LockAccount| of(&one.lock, wall_s);
            others().max_by(|a, b| of(a).total_cmp(&of(b))).filter(|one| of(one) > much)
        };
        most(working_s).or_else(|| most(|lock, _| lock.wait_s() - longest_s(lock)))
    }

    /// Returns the mutex inside a lock that the program has built from a mutex and a condition.
    fn inner(&self, built: &LockAccount) -> Option<&LockAccount> {
        let of = |one: &&LockAccount| {
            one.pid == built.pid
                && one.lock.kind == Kind::Mutex
                && one.lock.name == built.lock.mutex
        };
        built.lock.is_built().then(|| self.locks.iter().find(of)).flatten()
    }

    /// Returns whether the sum of all waits is finite; a misbehaving program may have overwritten
    /// the recorded numbers.
    pub fn is_finite(&self) -> bool {
        self.wait_s.is_finite() && self.idle_s.is_finite()
    }

    fn judge(&self, record: &Record) -> String {
        if !self.is_finite() {
            return "The waits of this record have no finite sum: it is damaged. Record the program \
                    again."
                .to_owned();
        }
        let wall_s = record.program.wall_s;
        let works = self.condition(wall_s).map_or(0.0, |one| working_s(&one.lock, wall_s));
        let least_s = (LITTLE * wall_s).max(WEIGHT * busy_s(record)).max(FEW * works);
        let Some(first) = self.first().filter(|_| self.wait_s > least_s) else {
            return self.elsewhere(record);
        };
        let what = first.place();
        let mut text = format!(
            "{} of the time that threads waited for locks was for {what}",
            percent(first.wait_percent + self.inner(first).map_or(0.0, |one| one.wait_percent))
        );
        text += &first.mostly();
        if !first.lock.kernel.is_empty() {
            text += &first.owners();
        } else if first.owner_off_cpu_percent >= 100.0 * OFF_CPU {
            let _ = write!(
                text,
                "; its owner was off CPU for {} of the time that it was held: a lock convoy",
                percent(first.owner_off_cpu_percent)
            );
        } else if first.held_s > 0.0 && wall_s > 0.0 {
            let busy = 100.0 * first.held_s / wall_s.max(f64::MIN_POSITIVE);
            // Here, holds are known only for threads that had waited; on a futex there may be few
            // of them.
            let only_waits = first.contended_percent.is_nan();
            let is_partly = first.lock.is_built() || only_waits;
            if only_waits && busy < 100.0 * SELDOM {
                return text + ".";
            }
            let least = if is_partly { "at least " } else { "" };
            let _ =
                write!(text, "; it was held for {least}{} of the run", percent(busy.min(100.0)));
            let handoff = first.lock.all(|site| &site.handoff);
            let hold_s = first.lock.all(|site| &site.hold_on).mean_s();
            if busy < 100.0 * SELDOM
                && let Some(way) = handoff.percentile_s(50.0).filter(|way| *way > hold_s)
            {
                let _ = write!(text, ", but who waited ran only {} after a release", seconds(way));
            }
        }
        text + "."
    }

    fn findings(&self, record: &Record) -> Vec<String> {
        let mut found = Vec::new();
        let Some(first) = self.first().filter(|_| self.is_finite()) else { return found };
        let name = &first.lock.name;
        let program = &record.program;
        let span = match (program.wall_s > 0.0, program.cpus) {
            (false, _) => String::new(),
            (true, 0) => format!(", in {}", seconds(program.wall_s)),
            (true, cpus) => format!(", in {} of {cpus} CPUs", seconds(program.wall_s)),
        };
        found.push(format!(
            "Threads waited {} for locks and {} for conditions and barriers{span}.",
            seconds(self.wait_s),
            seconds(self.idle_s)
        ));
        if first.lock.is_built() {
            let inner = self.inner(first).map_or(0.0, |one| one.wait_percent);
            found.push(format!(
                "`{name}` is a condition variable that the program has made a lock of: in {} of \
                 {} cases it was signalled by the thread that had waited for it last. {} of the \
                 waiting was for its mutex, `{}`.",
                first.lock.given_by_owner,
                total([first.lock.given_by_owner, first.lock.given_by_others]),
                percent(inner),
                first.lock.mutex
            ));
        }
        let waiters = first.lock.waiters;
        if waiters.most > 0 {
            found.push(format!(
                "The longest convoy at `{name}` lasted {}, from {} on; at most {} threads waited \
                 at once, and at least one waited during {} of the run.",
                seconds(waiters.longest_s),
                seconds(waiters.longest_at_s),
                waiters.most,
                percent((100.0 * waiters.seconds / program.wall_s).min(100.0))
            ));
        }
        found.extend(first.off_cpu());
        let handoff = first.lock.all(|site| &site.handoff);
        let hold = first.lock.all(|site| &site.hold_on);
        if let Some(median) = handoff.percentile_s(50.0) {
            let held = match hold.count {
                0 => String::new(),
                _ => format!(", held for {} on the CPU (mean)", seconds(hold.mean_s())),
            };
            found.push(format!(
                "From its release to the next owner that had waited: {} (median){held}.",
                seconds(median)
            ));
        }
        found.extend(scheduling(record));
        found.extend(phases(record, first.lock.is_built()));
        found
    }
}

/// Returns the kernel locks, which processes share, as a process with the number 0.
fn kernel_locks(record: &Record) -> Process {
    let mut all: Vec<Lock> = Vec::new();
    for lock in record.processes.iter().flat_map(|process| &process.kernel_locks) {
        match all.iter_mut().find(|one| one.name == lock.name && one.kernel == lock.kernel) {
            Some(known) => {
                let instances = known.instances.max(lock.instances);
                known.join(lock.clone());
                known.instances = instances;
            }
            None => all.push(lock.clone()),
        }
    }
    Process { locks: all, ..Process::default() }
}

/// Returns how threads got CPUs, if kernel events were recorded.
fn scheduling(record: &Record) -> Option<String> {
    let mut all = record.processes.iter().filter_map(|process| process.scheduling.as_ref());
    let first = *all.next()?;
    let sum = all.fold(first, |sum, one| Scheduling {
        preemptions: total([sum.preemptions, one.preemptions]),
        preempted_s: sum.preempted_s + one.preempted_s,
        sleeps: total([sum.sleeps, one.sleeps]),
        asleep_s: sum.asleep_s + one.asleep_s,
        woken_s: sum.woken_s + one.woken_s,
        ..sum
    });
    Some(format!(
        "Threads lost their CPU {} times and waited {} to have one again; they slept {} times, for \
         {}, and waited {} for a CPU after they had been woken.",
        sum.preemptions,
        seconds(sum.preempted_s),
        sum.sleeps,
        seconds(sum.asleep_s),
        seconds(sum.woken_s)
    ))
}

impl Held {
    /// Returns the time that the owner was off CPU, in seconds.
    pub fn off_s(&self) -> f64 {
        self.preempted_s + self.asleep_s + self.woken_s
    }

    /// Adds the counts of another lock.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count = total([self.count, other.count]);
        self.total_s += other.total_s;
        self.preempted_s += other.preempted_s;
        self.asleep_s += other.asleep_s;
        self.woken_s += other.woken_s;
    }
}

impl Process {
    fn locks_with(&self) -> impl Iterator<Item = (&Self, &Lock)> {
        let own = self.locks.iter().chain(&self.runtime_locks);
        own.chain(&self.futexes).map(move |lock| (self, lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Site, Times};

    #[test]
    fn waits_without_a_finite_sum_are_no_number() {
        for total_s in [f64::MAX, f64::NAN, f64::INFINITY] {
            let wait = Times { count: 2, total_s, ..Times::default() };
            let held = Times { count: 2, total_s: 1.0, ..Times::default() };
            let site = Site { count: 2, wait, hold_on: held, ..Site::default() };
            let lock = Lock { sites: vec![site.clone(), site], ..Lock::default() };
            let process = Process { locks: vec![lock], ..Process::default() };
            let record = Record { processes: vec![process], ..Record::default() };
            let account = Account::new(&record);
            assert!(account.verdict.contains("no finite sum"), "{}", account.verdict);
            assert!(account.findings.is_empty(), "{:?}", account.findings);
        }
        assert_eq!(seconds(f64::NAN), "an unknown time");
    }

    #[test]
    fn locks_of_the_kernel_are_those_of_all_processes_and_only_their_waits_are_known() {
        let wait = Times { count: 3, total_s: 2.0, max_s: 1.0, ..Times::default() };
        let place = "lock_rename, in rename(2)".to_owned();
        let site = Site { place: place.clone(), count: 3, contended: 3, wait, ..Site::default() };
        let lock = Lock {
            name: format!("{LOCK_OF}{place}"),
            kernel: "mutex".to_owned(),
            owners_known_s: 1.5,
            owners_off_s: 1.2,
            sites: vec![site],
            ..Lock::default()
        };
        let own = Lock { name: "gate".to_owned(), kernel: String::new(), ..lock.clone() };
        let kernel_locks = vec![lock];
        let first = Process { pid: 7, kernel_locks, ..Process::default() };
        let second = Process { pid: 8, futexes: vec![own], ..first.clone() };
        let program = crate::record::Program { wall_s: 4.0, ..Default::default() };
        let processes = vec![first, second];
        let account = Account::new(&Record { program, processes, ..Record::default() });
        let expected = "67 % of the time that threads waited for locks was for the kernel's mutex \
                        in lock_rename, in rename(2); its owner was off CPU when waits began that \
                        make 80 % of it: a lock convoy.";
        assert_eq!(account.verdict, expected);
        let pids: Vec<u64> = account.locks.iter().map(|one| one.pid).collect();
        assert_eq!(pids, [0, 8]);
        assert!(account.locks.iter().all(|one| one.contended_percent.is_nan()));
    }
}
