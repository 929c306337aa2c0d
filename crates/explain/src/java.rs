//! Java's monitors and locks, by the names that thread dumps give them.

use std::collections::BTreeMap;

use convoy_record::{Blocked, JAVA, Java, JavaOwner, JavaWait, Process, UNNAMED, total};

use crate::evidence::{Subject, function};
use crate::ill::{Diagnosis, Ill, Reason, percent};
use crate::runtimes::{FLIGHT, MONITOR};

/// Minimum number of dumps, and of waiting threads in them, to say which lock it is for which part
/// of the time.
const DUMPS: u64 = 3;
const FEW: u64 = 5;
/// Minimum number of dumps if the dumps alone show how long threads wait.
const ALONE: u64 = 5;
/// One lock with this part of the waiting is named alone.
const MOST: f64 = 0.9;
/// Collections that lock every access.
const SYNCHRONIZED: [&str; 3] =
    ["java.util.Collections$Synchronized", "java.util.Hashtable", "java.util.Vector"];

/// The lock for which most threads wait in the dumps.
struct Named<'a> {
    class: &'a str,
    is_monitor: bool,
    /// Waiting threads, summed over the dumps, and the part of all waiting threads.
    count: u64,
    part: f64,
    /// The method that waits, and the one that holds the lock most often.
    place: &'a str,
    holder: &'a str,
    owner: JavaOwner,
    doing: &'a str,
}

/// Returns the value with the largest count among equal keys.
fn most<'a, K: Ord>(
    waits: &[&'a JavaWait],
    key: impl Fn(&'a JavaWait) -> K,
) -> Option<(&'a JavaWait, u64)> {
    let mut all: BTreeMap<K, (&JavaWait, u64)> = BTreeMap::new();
    for wait in waits {
        let sum = &mut all.entry(key(wait)).or_insert((wait, 0)).1;
        *sum = sum.saturating_add(wait.count);
    }
    all.into_values().max_by_key(|(_, count)| *count)
}

fn is_monitor(wait: &JavaWait) -> bool {
    matches!(wait.blocked, Blocked::Monitor | Blocked::Again)
}

impl<'a> Named<'a> {
    fn of(java: &'a Java, is: fn(&JavaWait) -> bool) -> Option<Self> {
        // A lock of java.util.concurrent has a class that many locks share.
        fn key(wait: &JavaWait) -> (&str, &str) {
            let place = if is_monitor(wait) { "" } else { function(&wait.place) };
            (wait.class.as_str(), place)
        }
        let waits: Vec<&JavaWait> = java.waits.iter().filter(|wait| is(wait)).collect();
        let all = total(waits.iter().map(|wait| wait.count));
        let (first, count) = most(&waits, key)?;
        let own: Vec<&JavaWait> =
            waits.into_iter().filter(|wait| key(wait) == key(first)).collect();
        let (waiting, _) = most(&own, |wait| function(&wait.place))?;
        let held: Vec<&JavaWait> =
            own.iter().copied().filter(|wait| !wait.holder.is_empty()).collect();
        let holding = most(&held, |wait| (function(&wait.holder), wait.owner, &wait.doing));
        let owner = holding.map_or(waiting, |(wait, _)| wait);
        Some(Self {
            class: &first.class,
            is_monitor: is_monitor(first),
            count,
            part: count as f64 / all.max(1) as f64,
            place: &waiting.place,
            holder: &owner.holder,
            owner: owner.owner,
            doing: &owner.doing,
        })
    }

    /// Returns the lock in words: ``the monitor of `Broker.class` ``.
    fn what(&self) -> String {
        let class = self.class;
        if !self.is_monitor {
            let name = class.split('$').next().unwrap_or(class);
            return format!("a `{}`", name.rsplit('.').next().unwrap_or(name));
        }
        let is_class = class.rsplit('.').next() == Some("class");
        let a = if is_class { "" } else { "a " };
        format!("the monitor of {a}`{class}`")
    }

    /// Returns the owner in words, after a comma.
    fn holds(&self, java: &Java) -> String {
        let holder = match self.holder {
            "" => return String::new(),
            holder if function(holder) == function(self.place) => {
                format!(", which another thread in {} holds", function(holder))
            }
            holder => format!(", which {holder} holds"),
        };
        let doing = match self.owner {
            JavaOwner::Sleeps if !self.doing.is_empty() => {
                format!(" while it sleeps in {}", self.doing)
            }
            JavaOwner::Sleeps => " while it sleeps".to_owned(),
            JavaOwner::Native if !self.doing.is_empty() => {
                format!(" while it calls {}", self.doing)
            }
            JavaOwner::Waits => {
                let (class, place) = self.doing.split_once(" in ").unwrap_or((self.doing, ""));
                let next =
                    java.waits.iter().find(|wait| wait.class == class && !wait.holder.is_empty());
                let end = match next {
                    Some(next) if function(&next.holder) == function(place) => {
                        ", which another thread there holds".to_owned()
                    }
                    Some(next) => format!(", which {} holds", next.holder),
                    None => String::new(),
                };
                format!(" while it waits in {place} for the lock of a `{class}`{end}")
            }
            _ => String::new(),
        };
        holder + &doing
    }

    fn cure(&self) -> String {
        match self.owner {
            JavaOwner::Sleeps | JavaOwner::Native if !self.doing.is_empty() => format!(
                "Call {} outside of the critical section; another lock will not help.",
                self.doing
            ),
            JavaOwner::Waits => {
                "Fix the other lock first, or acquire it before this one.".to_owned()
            }
            _ if SYNCHRONIZED.iter().any(|one| self.class.starts_with(one)) => {
                "Use a collection of java.util.concurrent, such as ConcurrentHashMap.".to_owned()
            }
            _ if self.is_monitor => MONITOR.to_owned(),
            _ => "Make the critical section shorter, or read without it: a volatile or an atomic \
                  variable, a concurrent collection."
                .to_owned(),
        }
    }
}

/// Returns the diagnosis of waits for monitors, which were measured; `None` for other locks.
pub(crate) fn monitors(subject: &Subject<'_>) -> Option<(String, Reason)> {
    if subject.lock.runtime != JAVA {
        return None;
    }
    let java = subject.process.java.as_ref();
    let named = java.and_then(|java| Some((java, Named::of(java, is_monitor)?)));
    let cost = crate::cures::cost(subject);
    let Some((java, named)) = named else {
        return Some((cost, (Ill::RuntimeLock, format!(" ({JAVA})"), unnamed(subject.process))));
    };
    if java.dumps < DUMPS || named.count < FEW {
        let dumps = if java.dumps == 1 { "one thread dump" } else { "two thread dumps" };
        let cure = format!(
            "In {dumps}, too few to say more, {} threads wait for {} in {}. {}",
            named.count,
            named.what(),
            named.place,
            named.cure()
        );
        return Some((cost, (Ill::RuntimeLock, format!(" ({JAVA})"), cure)));
    }
    let at = if subject.place == UNNAMED { named.place } else { subject.place };
    let time = crate::cures::part(subject);
    let what = if named.part >= MOST {
        named.what()
    } else {
        format!("Java's monitors, {} of it for {}", percent(named.part), named.what())
    };
    let cost = format!("Threads in {at} spent {time} of their time waiting for {what}");
    Some((cost, (Ill::RuntimeLock, named.holds(java), named.cure())))
}

/// Returns why no dump names the monitors of this process, and how to find them.
fn unnamed(process: &Process) -> String {
    /// A run of this length in seconds has at least one dump.
    const SHORT_S: f64 = 1.0;
    let why = match &process.java {
        Some(java) if !java.refused.is_empty() => {
            format!(" Convoy took no thread dump, because {}.", java.refused)
        }
        None if process.seconds < SHORT_S => {
            " The run was too short for thread dumps, which name the monitor.".to_owned()
        }
        _ => String::new(),
    };
    format!("{MONITOR}{why} {FLIGHT}")
}

/// Returns the diagnoses of waits that only dumps show: locks of `java.util.concurrent`, and all
/// locks of a process that is observed from outside.
pub(crate) fn unmeasured(process: &Process) -> Vec<Diagnosis> {
    let is_measured = |is_java: bool| {
        let of = |lock: &&convoy_record::Lock| {
            (lock.runtime == JAVA) == is_java && lock.runtime.starts_with("Java's")
        };
        process.runtime_locks.iter().any(|lock| of(&lock) && lock.wait_s() > 0.0)
    };
    let of = |is: fn(&JavaWait) -> bool, is_java| {
        let java = process.java.as_ref().filter(|_| !is_measured(is_java))?;
        let named = Named::of(java, is)?;
        if java.dumps < ALONE || named.count < FEW || java.waiters == 0 {
            return None;
        }
        let waiting = named.count as f64 / java.dumps as f64;
        let share = (waiting / java.waiters as f64).min(1.0);
        Some(Diagnosis {
            ill: Ill::RuntimeLock,
            pid: process.pid,
            lock: named.class.to_owned(),
            share: Some(share),
            weight: None,
            cost_s: waiting * process.seconds,
            sentence: format!(
                "Threads in {} spent about {} of their time waiting for {}{}.",
                named.place,
                percent(share),
                named.what(),
                named.holds(java)
            ),
            cure: named.cure(),
        })
    };
    [of(is_monitor, true), of(|wait| wait.blocked == Blocked::Lock, false)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the diagnosis of a deadlock in the last two dumps.
pub(crate) fn deadlock(process: &Process) -> Option<Diagnosis> {
    fn one(link: &convoy_record::JavaLink) -> String {
        format!(
            "thread `{}` waits in {} for the lock of a `{}` that `{}` holds",
            link.thread, link.place, link.class, link.owner
        )
    }
    let java = process.java.as_ref()?;
    let first = java.deadlock.first()?;
    let links: Vec<String> = java.deadlock.iter().map(one).collect();
    Some(Diagnosis {
        ill: Ill::Deadlock,
        pid: process.pid,
        lock: first.class.clone(),
        share: None,
        weight: None,
        cost_s: process.seconds,
        sentence: format!("Deadlock: {}.", links.join("; ")),
        cure: "Acquire these locks in one order everywhere.".to_owned(),
    })
}

/// Returns whether dumps would show the locks that threads wait for.
pub(crate) fn is_dumped(process: &Process) -> bool {
    process.java.as_ref().is_some_and(|java| java.dumps >= ALONE)
}

/// Returns the object that threads wait for after a notification: `` (a `X` in f) ``.
pub(crate) fn notified(process: &Process) -> String {
    let is = |wait: &JavaWait| wait.blocked == Blocked::Again;
    let named = process.java.as_ref().and_then(|java| Named::of(java, is));
    named.map_or(String::new(), |named| format!(" (a `{}` in {})", named.class, named.place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnoses::{diagnose, verdict};
    use convoy_record::{JavaLink, Kind, Lock, Record, Site, Times};

    fn wait(blocked: Blocked, class: &str, count: u64) -> JavaWait {
        JavaWait {
            blocked,
            class: class.to_owned(),
            place: "Broker.get (Broker.java:5)".to_owned(),
            holder: "Broker.get (Broker.java:6)".to_owned(),
            owner: JavaOwner::Runs,
            count,
            dumps: 3,
            ..JavaWait::default()
        }
    }

    /// A process of eight threads that waited for monitors during half of two seconds.
    fn process(java: Java) -> Process {
        let wait = Times { count: 100, total_s: 8.0, ..Times::default() };
        let place = UNNAMED.to_owned();
        let site = Site { place, count: 100, threads: 8, wait, ..Site::default() };
        let monitors = Lock {
            name: "ObjectMonitor::enter".to_owned(),
            kind: Kind::Mutex,
            instances: 1,
            runtime: JAVA.to_owned(),
            sites: vec![site],
            ..Lock::default()
        };
        let (seconds, threads) = (2.0, 8);
        let runtime_locks = vec![monitors];
        Process { pid: 7, seconds, threads, runtime_locks, java: Some(java), ..Process::default() }
    }

    fn said(process: Process) -> String {
        verdict(&Record { processes: vec![process], ..Record::default() })
    }

    #[test]
    fn dumps_name_the_monitor_its_owner_and_the_method() {
        let waits = vec![wait(Blocked::Monitor, "Broker.class", 20)];
        let java = Java { dumps: 3, waits, ..Java::default() };
        let expected = "Threads in Broker.get (Broker.java:5) spent 50 % of their time waiting for \
                        the monitor of `Broker.class`, which another thread in Broker.get holds.";
        let text = said(process(java.clone()));
        assert!(text.starts_with(expected) && text.contains("a volatile"), "{text}");
        let other = wait(Blocked::Monitor, "java.util.Hashtable", 40);
        let both = Java { waits: vec![other, java.waits[0].clone()], ..java.clone() };
        let text = said(process(both));
        let part = "Java's monitors, 67 % of it for the monitor of a `java.util.Hashtable`";
        assert!(text.contains(part) && text.contains("ConcurrentHashMap"), "{text}");
        let few = said(process(Java { dumps: 1, ..java }));
        assert!(few.starts_with("Threads spent 50 % of their time waiting for a lock"), "{few}");
        assert!(few.contains("In one thread dump, too few to say more, 20 threads wait"), "{few}");
    }

    #[test]
    fn without_dumps_the_reason_is_given() {
        let refused = "it was started with -Xrs".to_owned();
        let text = said(process(Java { refused, ..Java::default() }));
        assert!(text.contains("no thread dump, because it was started with -Xrs."), "{text}");
        assert!(text.contains("StartFlightRecording"), "{text}");
    }

    #[test]
    fn locks_that_only_dumps_show_have_an_estimate_and_a_sleeping_owner() {
        let mut lock = wait(Blocked::Lock, "java.util.concurrent.locks.ReentrantLock$FairSync", 30);
        (lock.owner, lock.doing) = (JavaOwner::Sleeps, "Thread.sleep".to_owned());
        let java = |dumps| Java { dumps, waiters: 6, waits: vec![lock.clone()], ..Java::default() };
        let outside = |dumps| Process { runtime_locks: Vec::new(), ..process(java(dumps)) };
        let text = said(outside(6));
        let expected = "Threads in Broker.get (Broker.java:5) spent about 83 % of their time \
                        waiting for a `ReentrantLock`, which another thread in Broker.get holds \
                        while it sleeps in Thread.sleep. Call Thread.sleep outside";
        assert!(text.starts_with(expected), "{text}");
        assert!(!said(outside(4)).contains("ReentrantLock"), "four dumps are too few");
    }

    #[test]
    fn a_deadlock_is_the_first_diagnosis() {
        let link = |thread: &str, owner: &str| JavaLink {
            thread: thread.to_owned(),
            class: "java.lang.Object".to_owned(),
            place: "Dead.pass (Dead.java:4)".to_owned(),
            owner: owner.to_owned(),
        };
        let deadlock = vec![link("p", "q"), link("q", "p")];
        let record = Record {
            processes: vec![process(Java { dumps: 2, deadlock, ..Java::default() })],
            ..Record::default()
        };
        let first = diagnose(&record).remove(0);
        assert_eq!(first.ill, Ill::Deadlock);
        assert!(first.sentence.contains("`p` waits in Dead.pass (Dead.java:4)"), "{first:?}");
    }
}
