//! Rules on Java's monitors and locks, by the names that thread dumps give them.

use std::collections::BTreeMap;

use convoy_record::{
    Blocked, Java, JavaOwner, JavaWait, JvmWait, Kind as Primitive, NOTIFICATION, Origin, Process,
    Site, java_wait, total,
};

use super::plain::Plain;
use crate::account::known;
use crate::evidence::{Evidence, function};
use crate::finding::{Finding, Source};
use crate::gap::Gap;
use crate::problem::{Cycle, JavaActivity, JavaMonitor, Problem, Subject, Waited};

/// Minimum number of dumps, and of waiting threads in them, to say which lock it is for which part
/// of the time.
const DUMPS: u64 = 3;
const WAITING: u64 = 5;
/// Minimum number of dumps if the dumps alone show how long threads wait.
const DUMPS_ALONE: u64 = 5;
/// Minimum mean number of waiting threads in fewer dumps.
const QUEUE: u64 = 2;

/// Returns the value with the largest count among equal keys.
fn most<'a, K: Ord>(
    waits: &[&'a JavaWait],
    key: impl Fn(&'a JavaWait) -> K,
) -> Option<(&'a JavaWait, u64)> {
    let mut sums: BTreeMap<K, (&JavaWait, u64)> = BTreeMap::new();
    for wait in waits {
        let sum = &mut sums.entry(key(wait)).or_insert((wait, 0)).1;
        *sum = sum.saturating_add(wait.count);
    }
    sums.into_values().max_by_key(|(_, count)| *count)
}

const MONITOR: &[Blocked] = &[Blocked::Monitor, Blocked::Again];
/// Waits for something that another thread of the same sort gives back: all but its holders wait.
const RETURNED: [&[Blocked]; 2] = [&[Blocked::Queue], &[Blocked::Condition]];

fn is_monitor(wait: &JavaWait) -> bool {
    MONITOR.contains(&wait.blocked)
}

/// Returns the mean number of threads that have a permit of a semaphore, if its waits are for
/// these threads: whenever a thread waits, about the same number of others has one. A semaphore
/// with which some threads give work to others has any number of them, or none. A queue or the like
/// is a pool if that number is nearly always the same: with workers, it is the number that have
/// work. A dump may show one unit with two threads while it changes hands.
fn units(waits: &[&JavaWait]) -> Option<f64> {
    /// Minimum part of the dumps with a waiting thread in which others have a permit.
    const NEARLY_ALL: f64 = 0.8;
    /// Minimum ratio of the mean number of these to the maximum, for a semaphore.
    const EVEN: f64 = 0.6;
    /// Maximum standard deviation of that number for a queue: so many threads, or this part of the
    /// mean. The number of workers with work has a deviation of about the square root of its mean.
    const STEADY: [f64; 2] = [0.35, 0.15];
    /// Minimum number of dumps that show how many threads have an element of a queue or the like.
    const DUMPS_OF_QUEUE: f64 = 4.0;
    let of_queue = waits.iter().any(|wait| wait.blocked != Blocked::Permit);
    let dumps = total(waits.iter().map(|wait| wait.dumps)) as f64;
    let held = waits.iter().filter(|wait| wait.units > 0).map(|wait| wait.dumps);
    let held = total(held) as f64;
    let mean = total(waits.iter().map(|wait| wait.units)) as f64 / held.max(1.0);
    let is_even = if of_queue {
        let squares = total(waits.iter().map(|wait| wait.units_squared)) as f64 / held.max(1.0);
        let deviation = (squares - mean * mean).max(0.0).sqrt();
        held >= DUMPS_OF_QUEUE && squares > 0.0 && deviation <= STEADY[0].max(STEADY[1] * mean)
    } else {
        let most = waits.iter().map(|wait| wait.units_max).max().unwrap_or(0) as f64;
        mean >= EVEN * most
    };
    (held > 0.0 && held >= NEARLY_ALL * dumps && is_even).then_some(mean)
}

/// Returns whether tasks wait for the threads of a pool that execute `units` tasks at a time: more
/// threads wait for tasks.
fn has_queue(waits: &[&JavaWait], units: f64) -> bool {
    /// Minimum ratio of the numbers.
    const QUEUE: f64 = 1.25;
    let waiting = total(waits.iter().map(|wait| wait.count)) as f64;
    let dumps = total(waits.iter().map(|wait| wait.dumps));
    waiting >= QUEUE * units * dumps as f64
}

/// Returns the identity of a lock in dumps. A lock of `java.util.concurrent` has a class that many
/// locks share.
fn key(wait: &JavaWait) -> (&str, &str) {
    let place = if is_monitor(wait) { "" } else { function(&wait.place) };
    (wait.class.as_str(), place)
}

/// Returns the lock for which most threads wait, among the waits of this sort.
fn busiest(java: &Java, sort: &[Blocked]) -> Option<JavaMonitor> {
    let waits = java.waits.iter().filter(|wait| sort.contains(&wait.blocked));
    let waits: Vec<&JavaWait> = waits.collect();
    let waiting = total(waits.iter().map(|wait| wait.count));
    let (first, count) = most(&waits, key)?;
    let same: Vec<&JavaWait> = waits.into_iter().filter(|wait| key(wait) == key(first)).collect();
    let (waiter, _) = most(&same, |wait| function(&wait.place))?;
    let held: Vec<&JavaWait> =
        same.iter().copied().filter(|wait| !wait.holder.is_empty()).collect();
    let holding = most(&held, |wait| (function(&wait.holder), wait.owner, &wait.doing));
    let owner = holding.map_or(waiter, |(wait, _)| wait);
    let has_units = !is_monitor(first) && first.blocked != Blocked::Lock;
    let units = if has_units { Some(units(&same)?) } else { None };
    // Each task that a thread of the pool executes has a thread that waits for it.
    if first.blocked == Blocked::Task && units.is_some_and(|units| !has_queue(&same, units)) {
        return None;
    }
    Some(JavaMonitor {
        class: first.class.clone(),
        is_monitor: is_monitor(first),
        is_notification: first.blocked == Blocked::Condition && first.class == NOTIFICATION,
        part: count as f64 / waiting.max(1) as f64,
        place: waiter.place.clone(),
        holder: known(&owner.holder),
        is_same_place: function(&owner.holder) == function(&waiter.place),
        activity: activity(java, owner),
        dumps: java.dumps,
        waiting: count,
        units,
    })
}

/// Returns what the owner of the lock of this wait does.
fn activity(java: &Java, wait: &JavaWait) -> JavaActivity {
    let doing = wait.doing.as_str();
    match wait.owner {
        JavaOwner::Sleeps => JavaActivity::Sleeps { method: known(doing) },
        JavaOwner::Native if !doing.is_empty() => JavaActivity::Native { method: doing.to_owned() },
        JavaOwner::Waits => {
            // The recorder writes `CLASS in METHOD`.
            let (class, place) = doing.split_once(" in ").unwrap_or((doing, ""));
            let next =
                java.waits.iter().find(|next| next.class == class && !next.holder.is_empty());
            JavaActivity::Waits {
                class: class.to_owned(),
                place: place.to_owned(),
                holder: next.map(|next| next.holder.clone()),
                is_same_place: next.is_some_and(|next| function(&next.holder) == function(place)),
            }
        }
        _ => JavaActivity::Runs,
    }
}

/// Returns the problem of waits for monitors, which were measured; `None` for other locks.
pub(crate) fn monitors(evidence: &Evidence<'_>) -> Option<(Problem, Vec<Gap>)> {
    // Other tools name the monitors that they measure.
    if evidence.lock.origin != Origin::JavaMonitor || evidence.lock.runtime.is_empty() {
        return None;
    }
    let java = evidence.process.java.as_ref();
    let monitor = java.and_then(|java| busiest(java, MONITOR));
    let gaps = match &monitor {
        None => vec![unnamed(evidence.process)],
        Some(monitor) => few(monitor),
    };
    Some((Problem::Java { monitor, is_measured: true }, gaps))
}

/// Returns the gap if too few dumps show this lock.
fn few(monitor: &JavaMonitor) -> Vec<Gap> {
    let is_few = monitor.dumps < DUMPS || monitor.waiting < WAITING;
    if is_few { vec![Gap::FewDumps] } else { Vec::new() }
}

/// Returns why no dump names the monitors of this process.
fn unnamed(process: &Process) -> Gap {
    /// A run of this length in seconds has at least one dump.
    const SHORT_S: f64 = 1.0;
    Gap::JavaMonitor {
        refused: process.java.as_ref().and_then(|java| known(&java.refused)),
        is_short: process.java.is_none() && process.seconds < SHORT_S,
    }
}

/// Returns the findings on waits that only dumps show: locks and semaphores of
/// `java.util.concurrent`, and all locks of a process that is observed from outside.
pub(crate) fn unmeasured(process: &Process) -> Vec<Finding> {
    let sorts: [&[Blocked]; 4] = [MONITOR, &[Blocked::Lock], &[Blocked::Permit], &[Blocked::Task]];
    let returned = if are_returned(process) { &RETURNED[..] } else { &[] };
    let sorts = sorts.iter().chain(returned);
    sorts
        .filter_map(|sort| {
            let are_monitors = *sort == MONITOR;
            let java = process.java.as_ref().filter(|_| !is_measured(process, are_monitors))?;
            let parked_s = if are_monitors { 0.0 } else { parked_s(process) };
            of_dumps(process, java, &busiest(java, sort)?, parked_s)
        })
        .collect()
}

/// Returns whether the recorder timed waits for Java's monitors, or for its other locks.
fn is_measured(process: &Process, monitors: bool) -> bool {
    let origin = if monitors { Origin::JavaMonitor } else { Origin::JavaLock };
    process.runtime_locks.iter().any(|lock| lock.origin == origin && lock.wait_s() > 0.0)
}

/// Returns the waits of threads for locks of `java.util.concurrent`, for notifications or for work.
/// Only dumps distinguish these.
fn parks(process: &Process) -> impl Iterator<Item = &Site> {
    process.locks.iter().flat_map(|lock| &lock.sites).filter(|site| is_park(site))
}

fn is_park(site: &Site) -> bool {
    [Some(JvmWait::Park), Some(JvmWait::ObjectWait)].contains(&java_wait(&site.place))
}

/// Returns the time of these waits, in seconds.
fn parked_s(process: &Process) -> f64 {
    parks(process).map(|site| site.wait.total_s).sum()
}

/// Returns whether each thread that waits in this way is woken by several others in turn, as by
/// those that return the units of a pool. Workers without work are woken by the thread that has it.
fn are_returned(process: &Process) -> bool {
    /// Minimum mean number of threads that wake a thread.
    const WAKERS: u64 = 2;
    let conditions = process.locks.iter().filter(|lock| lock.kind == Primitive::Condition);
    let parks = conditions.filter(|lock| lock.sites.iter().any(is_park));
    parks.max_by(|a, b| a.wait_s().total_cmp(&b.wait_s())).is_some_and(|lock| {
        let signals = lock.sites.iter().filter(|site| site.act == "signal");
        total(signals.map(|site| site.threads)) >= WAKERS.saturating_mul(lock.instances)
    })
}

/// Returns the finding of a lock in dumps. Threads parked for `parked_s` seconds, if that was
/// measured: then a few dumps show what for.
fn of_dumps(
    process: &Process,
    java: &Java,
    monitor: &JavaMonitor,
    parked_s: f64,
) -> Option<Finding> {
    let is_enough = java.dumps >= DUMPS_ALONE && monitor.waiting >= WAITING;
    let is_crowd = parked_s > 0.0 && monitor.waiting >= QUEUE * java.dumps;
    let waiting = monitor.waiting as f64 / java.dumps.max(1) as f64;
    let is_permit =
        |wait: &JavaWait| wait.blocked == Blocked::Permit && wait.class == monitor.class;
    let waiters = match monitor.units {
        Some(units) if !java.waits.iter().any(is_permit) => waiting + units,
        _ => java.waiters as f64,
    };
    if waiters <= 0.0 || !is_enough && !is_crowd {
        return None;
    }
    let waited_s = waiting * process.seconds;
    let plain = Plain {
        pid: process.pid,
        lock: &monitor.class,
        share: Some((waiting / waiters).min(1.0)),
        cost_s: if parked_s > 0.0 { waited_s.min(parked_s) } else { waited_s },
        source: Source::Sampled,
        observations: monitor.waiting,
    };
    let problem = Problem::Java { monitor: Some(monitor.clone()), is_measured: false };
    Some(Finding { gaps: few(monitor), ..plain.finding(problem) })
}

/// Returns the finding of a deadlock in the last two dumps.
pub(crate) fn deadlock(process: &Process) -> Option<Finding> {
    let java = process.java.as_ref()?;
    let first = java.deadlock.first()?;
    let waits = java.deadlock.iter().map(|link| Waited {
        thread: link.thread.clone(),
        place: link.place.clone(),
        subject: Subject::JavaLock { class: link.class.clone() },
        owner: Some(link.owner.clone()),
        owner_ended: false,
        held_at: None,
    });
    let plain = Plain {
        pid: process.pid,
        lock: &first.class,
        share: None,
        cost_s: process.seconds,
        source: Source::Counted,
        observations: java.deadlock.len() as u64,
    };
    Some(plain.finding(Problem::Deadlock {
        cycle: Cycle::Closed,
        waits: waits.collect(),
        behind: 0,
        longest_s: process.seconds,
    }))
}

/// Returns whether dumps would show the locks that threads wait for.
pub(crate) fn is_dumped(process: &Process) -> bool {
    process.java.as_ref().is_some_and(|java| java.dumps >= DUMPS)
}

/// Returns the most frequent wait for an element of a queue, or for room in one.
pub(crate) fn queue(process: &Process) -> Option<&JavaWait> {
    let waits = &process.java.as_ref()?.waits;
    waits.iter().find(|wait| matches!(wait.blocked, Blocked::Queue | Blocked::Room))
}

/// Returns the mean number of threads that wait for room in a full queue, if this is such a wait.
pub(crate) fn waiting_for_room(process: &Process, wait: &JavaWait) -> Option<f64> {
    let dumps = process.java.as_ref()?.dumps;
    (wait.blocked == Blocked::Room && dumps >= DUMPS && wait.count >= WAITING)
        .then(|| wait.count as f64 / dumps as f64)
}

/// Returns the object that threads wait for after a notification, with its method.
pub(crate) fn notified(process: &Process) -> Option<(String, String)> {
    let java = process.java.as_ref()?;
    let monitor = busiest(java, &[Blocked::Again])?;
    Some((monitor.class, monitor.place))
}
