//! The rule on herds: broadcasts that wake threads for nothing.

use convoy_record::{
    JvmWait, Kind as Primitive, Lock, Origin, Process, Record, Site, java_wait, total,
};

use super::java::notified;
use super::plain::Plain;
use crate::evidence::function;
use crate::finding::{Finding, Source};
use crate::problem::{Herd, Problem, Wakers};

/// Cost of a wakeup with its switches in seconds, if the record contains no price.
const WAKEUP_S: f64 = 5e-6;
/// Minimum cost of a wakeup in seconds.
const LEAST_WAKEUP_S: f64 = 1e-6;
/// Minimum part of the wakeups that are futile.
const HERD: f64 = 0.4;
/// Minimum number of events for a finding.
const FEW: u64 = 100;

/// Returns the part of the CPU time of the process that this many seconds make up.
pub(super) fn of_cpu(process: &Process, cost_s: f64) -> Option<f64> {
    (process.cpu_s > 0.0).then(|| (cost_s / process.cpu_s).min(1.0))
}

/// Counts of the calls on a condition.
struct Counts {
    /// Wakeups, futile wakeups, and wakeups that were passed on to the next waiter.
    woken: u64,
    futile: u64,
    passed: u64,
    /// Calls that wake, and the threads that broadcasts woke, where only broadcasts are counted.
    signals: u64,
    by_broadcasts: u64,
}

impl Counts {
    fn new(lock: &Lock, is_of_java: bool, is_of_libc: bool) -> Option<(Self, &Site)> {
        let waiting: Vec<&Site> = lock.sites.iter().filter(|site| site.act == "wait").collect();
        let signalling: Vec<&Site> =
            lock.sites.iter().filter(|site| site.act == "signal").collect();
        let sum = |value: fn(&Site) -> u64| total(waiting.iter().map(|site| value(site)));
        let waiter = waiting.iter().copied().max_by_key(|site| site.wait.count)?;
        // At a barrier, the function that waits also wakes all, and each of them goes on: it
        // returns soon if there is little to do between two barriers.
        let is_barrier =
            signalling.iter().any(|site| function(&site.place) == function(&waiter.place));
        let continued = if is_barrier { sum(|site| site.returned) } else { 0 };
        let counts = Self {
            woken: sum(|site| site.wait.count).saturating_sub(sum(|site| site.failed)),
            futile: sum(|site| site.futile).saturating_sub(continued),
            // Threads with a separate condition each may also wake each other in a circle. Java's
            // `notify` wakes one thread, and only `notifyAll` makes each thread wake the next.
            passed: if is_of_libc && !is_of_java { 0 } else { sum(|site| site.passed) },
            signals: total(signalling.iter().map(|site| site.count)),
            by_broadcasts: total(signalling.iter().map(|site| site.contended)),
        };
        Some((counts, waiter))
    }

    /// Returns whether only broadcasts are counted, with the number of threads that they woke, or
    /// each thread wakes the next: outside of libc.
    fn is_past_libc(&self) -> bool {
        self.by_broadcasts > 0 || self.passed > 0
    }

    /// Returns whether calls wake many threads, most of them for nothing.
    fn is_herd(&self) -> bool {
        let useful = self.woken.saturating_sub(self.futile);
        let wakes_many = if self.is_past_libc() {
            self.by_broadcasts > 2 * self.signals && 2 * self.by_broadcasts > self.woken
                || 2 * self.passed > self.woken
        } else {
            self.woken > 2 * self.signals && useful < 2 * self.signals
        };
        wakes_many && self.futile >= FEW && self.futile as f64 >= HERD * self.woken as f64
    }
}

/// Returns a finding if a broadcast wakes many threads although one of them can do the work.
pub(crate) fn of_lock(record: &Record, process: &Process, lock: &Lock) -> Option<Finding> {
    if lock.kind != Primitive::Condition {
        return None;
    }
    let is_of_libc = process.locks.iter().any(|counted| std::ptr::eq(counted, lock));
    let is_of_java = lock.origin == Origin::JavaVm
        && lock.sites.iter().any(|site| java_wait(&site.place) == Some(JvmWait::ObjectWait));
    // Several conditions of one name wake threads in turn, and nothing tells their waiters apart.
    let is_many = !is_of_libc && lock.instances > 1;
    let (counts, waiter) = Counts::new(lock, is_of_java, is_of_libc)?;
    if !counts.is_herd() || is_many && counts.by_broadcasts == 0 {
        return None;
    }
    let price = record.program.prices_ns.get("wakeup").map_or(WAKEUP_S, |price| price[1] / 1e9);
    let wakeups_s = counts.futile as f64 * price.max(LEAST_WAKEUP_S);
    let (class, place) = match notified(process).filter(|_| is_of_java) {
        Some((class, place)) => (Some(class), place),
        None => (None, waiter.place.clone()),
    };
    // After that, all woken threads want the mutex.
    let mutex_s = if is_of_java { 0.0 } else { mutex_wait_s(process, &waiter.place) };
    let per_call = if counts.is_past_libc() { counts.by_broadcasts } else { counts.woken };
    let from = lock.sites.iter().filter(|site| site.act == "signal").max_by_key(|site| site.count);
    let plain = Plain {
        pid: process.pid,
        lock: &lock.name,
        share: of_cpu(process, wakeups_s),
        cost_s: wakeups_s + mutex_s,
        source: Source::Counted,
        observations: counts.futile,
    };
    let finding = plain.finding(Problem::ThunderingHerd(Herd {
        wakers: if is_of_java { Wakers::NotifyAll } else { Wakers::Broadcasts },
        from: from.map(|site| site.place.clone()),
        calls: counts.signals,
        woken_per_call: per_call as f64 / counts.signals.max(1) as f64,
        place,
        class,
        futile: counts.futile,
        wakeups: counts.woken,
    }));
    Some(finding.about(condition(lock), lock.origin))
}

/// Returns the condition as findings refer to it.
fn condition(lock: &Lock) -> crate::problem::Subject {
    let Lock { name, kind, instances, .. } = lock;
    if name.starts_with(convoy_record::CONDITION_OF) {
        return crate::problem::Subject::Unnamed { primitive: *kind, instances: *instances };
    }
    crate::problem::Subject::Variable { name: name.clone(), instances: 1 }
}

/// Returns the wait time in seconds for mutexes whose waits are mostly in the function that waits
/// for a condition.
fn mutex_wait_s(process: &Process, place: &str) -> f64 {
    let locks = process.locks.iter().chain(&process.futexes);
    let mutexes = locks.filter(|lock| lock.kind == Primitive::Mutex);
    let mostly = mutexes.filter(|lock| {
        let sites = lock.sites.iter().filter(|site| function(&site.place) == function(place));
        2.0 * sites.map(|site| site.wait.total_s).sum::<f64>() > lock.wait_s()
    });
    mostly.map(Lock::wait_s).sum()
}
