//! The account of a record: how long threads waited for each lock. All shares of a lock that any
//! command prints are computed here, once.

use std::cmp::Reverse;

use convoy_record::{
    HANDOFF, JvmWait, Kind as Primitive, LOCK_OF, Lock, Process, Record, busy_s, java_wait, total,
};
use serde::Serialize;

use crate::evidence;
use crate::problem::Owners;

/// Share of the wait time for all locks above which a lock that nothing replaces is mentioned.
const IRREPLACEABLE: f64 = 0.5;
/// The same, as a share of the busy time of all threads.
const WEIGHT: f64 = 0.02;

/// Summary of the waits of a program's threads.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Time that threads waited for locks, in seconds, summed over threads.
    pub wait_s: f64,
    /// Time that threads waited on condition variables and at barriers, where waiting may be
    /// intended, in seconds.
    pub idle_s: f64,
    /// The locks of all processes, in descending order of wait time; conditions come last.
    pub locks: Vec<LockAccount>,
    /// Busy time of all threads, in seconds.
    #[serde(skip)]
    pub busy_s: f64,
}

/// Summary of one lock. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct LockAccount {
    /// The process that the lock belongs to; 0 for the kernel.
    pub pid: u64,
    /// Time that threads waited for it, unfinished waits included.
    pub waited_s: f64,
    /// Share of all lock wait time, in percent; for a condition variable, share of all condition
    /// wait time.
    pub wait_percent: f64,
    /// Share of acquisitions that had to wait, in percent. `None` if only waits were recorded.
    pub contended_percent: Option<f64>,
    /// Time that it was held, from samples.
    pub held_s: f64,
    /// Share of that time with the owner off CPU, in percent.
    pub owner_off_cpu_percent: f64,
    /// The lock.
    #[serde(flatten)]
    pub lock: Lock,
}

/// A lock that no replacement of libc's locks can help, with the largest part of the waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Irreplaceable {
    /// Share of all lock wait time, from 0 to 1.
    pub share: f64,
    /// Name of the lock.
    pub lock: String,
    /// Whether the name is a variable.
    pub is_named: bool,
    /// Its longest waiting place.
    pub place: Option<String>,
    /// The kernel's name of its kind, if it is the kernel's.
    pub kernel: Option<String>,
    /// The runtime that builds it, if one does. Otherwise the program calls futex(2).
    pub runtime: Option<String>,
}

/// A lock with its process, and whether only its waits were recorded.
struct Entry<'a> {
    process: &'a Process,
    lock: &'a Lock,
    only_waits: bool,
}

fn entries(process: &Process) -> impl Iterator<Item = Entry<'_>> {
    let counted = process.locks.iter().map(|lock| (lock, false));
    let of_runtimes = process.runtime_locks.iter().map(|lock| (lock, true));
    let futexes = process.futexes.iter().map(|lock| (lock, true));
    counted.chain(of_runtimes).chain(futexes).map(move |(lock, is_futex)| Entry {
        process,
        lock,
        only_waits: is_futex || !lock.kernel.is_empty() || !lock.runtime.is_empty(),
    })
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

impl LockAccount {
    /// Returns the account of a lock. With `hands_over`, the woken thread owns the lock already
    /// while it wakes up, so that time counts as held and off CPU. `whole_s` is the wait time for
    /// all locks.
    fn new(entry: &Entry<'_>, hands_over: bool, whole_s: f64) -> Self {
        let Entry { process, lock, only_waits } = entry;
        let (held_s, off_s) = match lock.held.filter(|_| *only_waits) {
            Some(held) => (held.total_s, held.off_s()),
            None => lock.held_s(process.cpu_s),
        };
        let woken_s = if hands_over { lock.all(|site| &site.handoff).total_s } else { 0.0 };
        let waited_s = evidence::wait_s(process, lock);
        // Of a sample of the waits, the number is an estimate.
        let contended = percent(lock.contended() as f64, lock.count() as f64).min(100.0);
        Self {
            pid: process.pid,
            waited_s,
            wait_percent: percent(waited_s, whole_s),
            contended_percent: (!only_waits).then_some(contended),
            held_s: held_s + woken_s,
            owner_off_cpu_percent: percent(off_s + woken_s, held_s + woken_s),
            lock: (*lock).clone(),
        }
    }

    /// Returns what is known of the owners of a kernel lock.
    pub fn owners(&self) -> Owners {
        let Lock { owners_known_s: known_s, owners_off_s: off_s, .. } = self.lock;
        if known_s <= 0.0 || known_s < self.lock.wait_s() / 2.0 {
            Owners::Unknown
        } else if off_s >= known_s / 2.0 {
            Owners::OffCpu
        } else {
            Owners::Ran
        }
    }

    /// Returns whether it is a lock of the kernel.
    pub fn is_of_kernel(&self) -> bool {
        !self.lock.kernel.is_empty()
    }
}

/// Returns whether waits for a lock are waits for its owner. A thread that polls a semaphore or
/// a word with a time limit while no other thread waits is idle: another thread would post it.
pub fn is_owned(lock: &Lock) -> bool {
    let waits = total(lock.sites.iter().map(|site| site.wait.count));
    let timed_out = total(lock.sites.iter().map(|site| site.failed));
    let is_signal =
        matches!(lock.kind, Primitive::Semaphore | Primitive::Condition | Primitive::Futex);
    let is_alone = waits > 0 && lock.waiters.most <= 1;
    let is_polled = is_signal && is_alone && timed_out >= waits.div_ceil(2);
    lock.is_lock() && !is_polled
}

/// Returns whether internal threads of Java's virtual machine wait there for work, or threads of
/// the program sleep for some time.
fn is_of_machine(lock: &Lock) -> bool {
    let place = lock.sites.first().and_then(|site| java_wait(&site.place));
    matches!(place, Some(JvmWait::Internal | JvmWait::Sleep))
}

/// Returns a text, or `None` if it is empty.
pub(crate) fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Account {
    /// Returns the account of a record.
    pub fn new(record: &Record) -> Self {
        let kernel = kernel_locks(record);
        let locks: Vec<Entry<'_>> =
            record.processes.iter().chain([&kernel]).flat_map(entries).collect();
        let sum = |is_lock: bool| -> f64 {
            let entries = locks.iter().filter(|entry| is_owned(entry.lock) == is_lock);
            // The sum of none is -0.0.
            entries.map(|entry| evidence::wait_s(entry.process, entry.lock)).sum::<f64>() + 0.0
        };
        let (wait_s, idle_s) = (sum(true), sum(false));
        let mut locks: Vec<LockAccount> = locks
            .iter()
            .map(|entry| {
                let whole_s = if is_owned(entry.lock) { wait_s } else { idle_s };
                let hands_over = record.program.policy(entry.lock.kind) == HANDOFF;
                LockAccount::new(entry, hands_over, whole_s)
            })
            .collect();
        // Locks come first: a thread may have nothing to do but wait for a condition.
        // The bits of times, which are not negative, have their order.
        locks.sort_by_cached_key(|account| {
            (!is_owned(&account.lock), Reverse(account.waited_s.to_bits()))
        });
        Self { wait_s, idle_s, locks, busy_s: busy_s(record) }
    }

    /// Returns the locks, without conditions and barriers.
    pub fn owned_locks(&self) -> impl Iterator<Item = &LockAccount> {
        self.locks.iter().filter(|account| is_owned(&account.lock))
    }

    /// Returns the lock that most waiting was for, if it cannot be replaced (it is the kernel's, or
    /// implemented by the program or its runtime) and such locks have most of the waiting.
    pub fn irreplaceable(&self) -> Option<Irreplaceable> {
        let locks: Vec<&LockAccount> =
            self.owned_locks().filter(|account| account.contended_percent.is_none()).collect();
        let percent: f64 = locks.iter().map(|account| account.wait_percent).sum();
        let wait_s: f64 = locks.iter().map(|account| account.waited_s).sum();
        let is_relevant = percent > 100.0 * IRREPLACEABLE && wait_s > WEIGHT * self.busy_s;
        let first = locks.first().filter(|_| self.is_finite() && is_relevant)?;
        let site = first.lock.sites.first();
        Some(Irreplaceable {
            share: first.wait_percent / 100.0,
            lock: first.lock.name.clone(),
            is_named: !first.lock.name.starts_with(LOCK_OF),
            place: site.map(|site| site.place.clone()),
            kernel: known(&first.lock.kernel),
            runtime: known(&first.lock.runtime),
        })
    }

    /// Returns the most contended lock; if that is the mutex inside a program-built lock, returns
    /// the program-built lock.
    pub(crate) fn first(&self) -> Option<&LockAccount> {
        let first = self.locks.first()?;
        let around = self
            .locks
            .iter()
            .find(|account| self.inner(account).is_some_and(|inner| std::ptr::eq(inner, first)));
        let first = around.unwrap_or(first);
        Some(first).filter(|account| is_owned(&account.lock) && account.waited_s > 0.0)
    }

    /// Returns the condition or barrier with the longest waits, if they are relevant. A wait that
    /// lasts for much of the run belongs to an idle thread, and counts only if there are several.
    pub(crate) fn condition(&self, wall_s: f64) -> Option<&LockAccount> {
        let least_s = wall_s.max(self.wait_s);
        let longest = |time_s: fn(&Lock, f64) -> f64| {
            let conditions = self.locks.iter().filter(|account| !is_owned(&account.lock));
            let conditions = conditions.filter(|account| !is_of_machine(&account.lock));
            let timed = conditions.map(|account| (account, time_s(&account.lock, wall_s)));
            timed.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, time_s)| *time_s > least_s)
        };
        let condition =
            longest(working_s).or_else(|| longest(|lock, _| lock.wait_s() - longest_s(lock)));
        condition.map(|(account, _)| account)
    }

    /// Returns the mutex inside a lock that the program has built from a mutex and a condition.
    pub(crate) fn inner(&self, built: &LockAccount) -> Option<&LockAccount> {
        if !built.lock.is_built() {
            return None;
        }
        self.locks.iter().find(|account| {
            account.pid == built.pid
                && account.lock.kind == Primitive::Mutex
                && account.lock.name == built.lock.mutex
        })
    }

    /// Returns whether the sum of all waits is finite; a misbehaving program may have overwritten
    /// the recorded numbers.
    pub fn is_finite(&self) -> bool {
        self.wait_s.is_finite() && self.idle_s.is_finite()
    }

    /// Returns the number of acquisitions and waits that were recorded.
    pub(crate) fn calls(&self) -> u64 {
        total(self.locks.iter().map(|account| account.lock.count()))
    }
}

/// Returns the total of the finished waits for a lock, in seconds, without waits that last for much
/// of the run of `wall_s` seconds, since these are waits for work or for the exit of other threads.
fn working_s(lock: &Lock, wall_s: f64) -> f64 {
    /// Fraction of the run.
    const MUCH: f64 = 0.1;
    shorter_s(lock, MUCH * wall_s)
}

/// Returns the total of the finished waits for a lock that are shorter than `limit_s`, in seconds.
pub(crate) fn shorter_s(lock: &Lock, limit_s: f64) -> f64 {
    /// Ratio of the middle of a bucket to its lower bound.
    const MIDDLE: f64 = 1.25;
    let waits = lock.all(|site| &site.wait);
    let long = waits.buckets.iter().filter(|(ns, _)| ns / 1e9 >= limit_s);
    let long_s = long.map(|(ns, count)| *count as f64 * (ns / 1e9 * MIDDLE).min(waits.max_s));
    (waits.total_s - long_s.sum::<f64>()).max(0.0)
}

/// Returns the longest wait for a lock, in seconds.
fn longest_s(lock: &Lock) -> f64 {
    lock.all(|site| &site.wait).max_s
}

/// Returns the kernel locks, which processes share, as a process with the number 0.
fn kernel_locks(record: &Record) -> Process {
    let mut locks: Vec<Lock> = Vec::new();
    for lock in record.processes.iter().flat_map(|process| &process.kernel_locks) {
        match locks.iter_mut().find(|sum| sum.name == lock.name && sum.kernel == lock.kernel) {
            Some(sum) => {
                let instances = sum.instances.max(lock.instances);
                sum.join(lock.clone());
                sum.instances = instances;
            }
            None => locks.push(lock.clone()),
        }
    }
    Process { locks, ..Process::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Program, Site, Times};

    #[test]
    fn waits_without_a_finite_sum_are_no_number() {
        for total_s in [f64::MAX, f64::NAN, f64::INFINITY] {
            let wait = Times { count: 2, total_s, ..Times::default() };
            let site = Site { count: 2, wait, ..Site::default() };
            let lock = Lock { sites: vec![site.clone(), site], ..Lock::default() };
            let process = Process { locks: vec![lock], ..Process::default() };
            let record = Record { processes: vec![process], ..Record::default() };
            let account = Account::new(&record);
            assert!(!account.is_finite() && account.irreplaceable().is_none());
        }
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
        let futex = Lock { name: "gate".to_owned(), kernel: String::new(), ..lock.clone() };
        let kernel_locks = vec![lock];
        let first = Process { pid: 7, kernel_locks, ..Process::default() };
        let second = Process { pid: 8, futexes: vec![futex], ..first.clone() };
        let program = Program { wall_s: 4.0, ..Program::default() };
        let account =
            Account::new(&Record { program, processes: vec![first, second], ..Record::default() });
        let kernel = &account.locks[0];
        assert!(kernel.is_of_kernel() && kernel.owners() == Owners::OffCpu);
        assert!((kernel.wait_percent - 200.0 / 3.0).abs() < 1e-9);
        let pids: Vec<u64> = account.locks.iter().map(|account| account.pid).collect();
        assert_eq!(pids, [0, 8]);
        assert!(account.locks.iter().all(|account| account.contended_percent.is_none()));
        let irreplaceable = account.irreplaceable().expect("all of them");
        assert_eq!(irreplaceable.kernel.as_deref(), Some("mutex"));
        assert!(!irreplaceable.is_named);
    }

    #[test]
    fn a_thread_that_waits_for_the_end_of_others_does_not_work() {
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
