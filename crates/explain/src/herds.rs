//! Herds: broadcasts that wake threads for nothing.

use convoy_record::{CONDITION_OF, Kind, Lock, Process, Record, Site, total};

use crate::evidence::function;
use crate::ill::{Diagnosis, Ill};

/// Cost of a wakeup with its switches in seconds, if the record contains no price.
const WAKEUP_S: f64 = 5e-6;
/// Minimum part of the wakeups that are futile.
const HERD: f64 = 0.4;
/// Where Java threads wait in `Object.wait`.
const OBJECT_WAIT: &str = "ObjectMonitor::wait";
/// Minimum number of events for a diagnosis.
const FEW: u64 = 100;

/// Returns the part of the CPU time of the process that this many seconds make up.
pub(crate) fn of_cpu(process: &Process, cost_s: f64) -> Option<f64> {
    (process.cpu_s > 0.0).then(|| (cost_s / process.cpu_s).min(1.0))
}

/// Returns a diagnosis if a broadcast wakes many threads although one of them can do the work.
pub(crate) fn herd(record: &Record, process: &Process, lock: &Lock) -> Option<Diagnosis> {
    let waiting = || lock.sites.iter().filter(|site| site.act == "wait");
    let sum = |of: fn(&Site) -> u64| total(waiting().map(of));
    let waiter = waiting().max_by_key(|site| site.wait.count)?;
    let signalling = || lock.sites.iter().filter(|site| site.act == "signal");
    // At a barrier, the function that waits also wakes all, and each of them goes on: it returns
    // soon if there is little to do between two barriers.
    let is_barrier = signalling().any(|site| function(&site.place) == function(&waiter.place));
    let (failed, futile) = (sum(|site| site.failed), sum(|site| site.futile));
    let went_on = if is_barrier { sum(|site| site.returned) } else { 0 };
    let futile = futile.saturating_sub(went_on);
    // Threads with a separate condition each may also wake each other in a circle. Java's `notify`
    // wakes one thread, and only `notifyAll` makes each thread wake the next.
    let is_of_libc = process.locks.iter().any(|own| std::ptr::eq(own, lock));
    let is_of_java = is_of_libc && waiter.place.starts_with(OBJECT_WAIT);
    let passed = if is_of_libc && !is_of_java { 0 } else { sum(|site| site.passed) };
    let from = signalling().max_by_key(|site| site.count);
    let signals = total(signalling().map(|site| site.count));
    let woken = sum(|site| site.wait.count).saturating_sub(failed);
    // Outside of libc, only broadcasts are counted, with the number of threads that they woke; or
    // each thread wakes the next.
    let by_broadcasts = total(signalling().map(|site| site.contended));
    let is_past_libc = by_broadcasts > 0 || passed > 0;
    let useful = woken.saturating_sub(futile);
    let wakes_many = if is_past_libc {
        by_broadcasts > 2 * signals && 2 * by_broadcasts > woken || 2 * passed > woken
    } else {
        woken > 2 * signals && useful < 2 * signals
    };
    let is_futile = futile >= FEW && futile as f64 >= HERD * woken as f64;
    if lock.kind != Kind::Condition || !is_futile || !wakes_many {
        return None;
    }
    let price = record.program.prices_ns.get("wakeup").map_or(WAKEUP_S, |price| price[1] / 1e9);
    let wakeups_s = futile as f64 * price.max(1e-6);
    // After that, all woken threads want the mutex.
    let cost_s = wakeups_s + wants_mutex_s(process, &waiter.place);
    if is_of_java {
        return Some(of_java(process, lock, wakeups_s, &format!("{futile} of {woken} times")));
    }
    let is_unnamed = lock.name.starts_with(CONDITION_OF);
    let named = if is_unnamed { "a condition".to_owned() } else { format!("`{}`", lock.name) };
    let calls = match from {
        Some(from) => {
            let each = (if is_past_libc { by_broadcasts } else { woken }) as f64 / signals as f64;
            let at = &from.place;
            format!(
                "{at} broadcasts on {named}, and each of {signals} calls wakes {each:.0} threads"
            )
        }
        None => format!("Broadcasts on {named} wake one thread after the other"),
    };
    Some(Diagnosis {
        ill: Ill::ThunderingHerd,
        pid: process.pid,
        lock: lock.name.clone(),
        share: of_cpu(process, wakeups_s),
        weight: None,
        cost_s,
        sentence: format!(
            "{calls} in {}, of which most find next to nothing to do and wait again ({futile} \
             times): a thundering herd.",
            waiter.place
        ),
        cure: "Call pthread_cond_signal (notify_one) once for each item instead.".to_owned(),
    })
}

/// Returns the diagnosis of `notifyAll` of Java. The woken threads cost `cost_s` seconds, and
/// `often` says how many wakeups were futile.
fn of_java(process: &Process, lock: &Lock, cost_s: f64, often: &str) -> Diagnosis {
    let named = match crate::java::notified(process) {
        named if named.is_empty() => " (Object.wait)".to_owned(),
        named => named,
    };
    Diagnosis {
        ill: Ill::ThunderingHerd,
        pid: process.pid,
        lock: lock.name.clone(),
        share: of_cpu(process, cost_s),
        weight: None,
        cost_s,
        sentence: format!(
            "Java's notifyAll() wakes all threads that wait for an object{named}, and most find \
             next to nothing to do and wait again ({often}): a thundering herd."
        ),
        cure: "Call notify() once for each item, or use a queue of java.util.concurrent."
            .to_owned(),
    }
}

/// Returns the wait time in seconds for mutexes whose waits are mostly in the function that waits
/// for a condition.
fn wants_mutex_s(process: &Process, place: &str) -> f64 {
    let there_s = |lock: &Lock| -> f64 {
        let own = lock.sites.iter().filter(|site| function(&site.place) == function(place));
        own.map(|site| site.wait.total_s).sum()
    };
    let all = process.locks.iter().chain(&process.futexes);
    let mutexes = all.filter(|lock| lock.kind == Kind::Mutex);
    mutexes.filter(|lock| 2.0 * there_s(lock) > lock.wait_s()).map(Lock::wait_s).sum()
}
