//! What thread dumps of a Java process show about its locks.

pub(crate) mod dump;
pub mod dumps;
pub(crate) mod jvm;
pub(crate) mod perf_data;
pub(crate) mod vm_waits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::java::dump::{Blocked, Dump, Thread};
use crate::record::scheduling::is_default;

/// Thread dumps of a Java process. They are samples: they name locks, methods and owners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Java {
    /// Number of thread dumps.
    pub dumps: u64,
    /// Time for which they stopped the threads, in seconds.
    pub stopped_s: f64,
    /// Why dumps were not taken, or no more of them. Empty if they were taken to the end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Number of threads that ran Java code, summed over the dumps.
    pub ran: u64,
    /// Number of different threads that waited for a lock in a dump.
    pub waiters: u64,
    /// Waits for locks and in queues, most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<JavaWait>,
    /// Threads that wait for each other according to the last two dumps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlock: Vec<JavaLink>,
}

/// A wait of a Java thread, with the owner of the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JavaWait {
    /// How it waits.
    pub blocked: Blocked,
    /// Class of the monitor or lock: `Broker.class` for the monitor of a class.
    pub class: String,
    /// The waiting method: `Broker.get (Broker.java:5)`.
    pub place: String,
    /// The method that acquired the lock, with the line where its owner is. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holder: String,
    /// Activity of the owner.
    pub owner: JavaOwner,
    /// The function in which the owner sleeps, or the class and place of the lock that it waits
    /// for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doing: String,
    /// Number of waiting threads, summed over the dumps.
    pub count: u64,
    /// Number of dumps that contain such a wait.
    pub dumps: u64,
    /// For a semaphore, a queue, a condition or a pool of threads: number of threads that had a
    /// permit, an element or a task, summed over these dumps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub units: u64,
    /// The maximum of it in one dump.
    #[serde(default, skip_serializing_if = "is_default")]
    pub units_max: u64,
    /// The sum of its squares over these dumps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub units_squared: u64,
}

/// Activity of the owner of a Java lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JavaOwner {
    /// The dump shows no owner.
    #[default]
    Unknown,
    /// It runs, or waits for a CPU.
    Runs,
    /// It is in a native function, where it may sleep.
    Native,
    /// It sleeps or waits for another thread.
    Sleeps,
    /// It waits for another lock.
    Waits,
}

/// A thread of a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaLink {
    /// Name of the thread.
    pub thread: String,
    /// Class of the lock that it waits for.
    pub class: String,
    /// The waiting method.
    pub place: String,
    /// Name of the owner.
    pub owner: String,
}

impl JavaWait {
    /// Returns whether two waits differ in nothing but their numbers.
    fn is_like(&self, other: &Self) -> bool {
        let Self { count, dumps, units, units_max, units_squared, .. } = *other;
        Self { count, dumps, units, units_max, units_squared, ..self.clone() } == *other
    }
}

/// Maximum number of distinct waits in a record.
const KEPT: usize = 64;

impl Java {
    pub(crate) fn add(&mut self, dump: &Dump) {
        self.dumps += 1;
        let runs = |one: &&Thread| one.waits.is_none() && one.state == "RUNNABLE";
        self.ran += dump.threads.iter().filter(runs).filter(|one| !one.is_native()).count() as u64;
        let mut found: BTreeMap<JavaWait, u64> = BTreeMap::new();
        for thread in &dump.threads {
            let Some((blocked, object, class, at)) = &thread.waits else { continue };
            if *blocked == Blocked::Other {
                continue;
            }
            let mut wait = JavaWait {
                blocked: *blocked,
                class: class.clone(),
                place: thread.place(*at),
                ..JavaWait::default()
            };
            if matches!(
                blocked,
                Blocked::Permit | Blocked::Queue | Blocked::Condition | Blocked::Task
            ) {
                let holders = dump.holders(thread);
                wait.units_max = holders.len() as u64;
                if let Some((holder, place)) = holders.first() {
                    wait.holder.clone_from(place);
                    (wait.owner, wait.doing) = activity(holder);
                }
            } else if let Some((owner, place)) = dump.owner(*object) {
                wait.holder = place.unwrap_or_else(|| owner.place(0));
                (wait.owner, wait.doing) = activity(owner);
            }
            *found.entry(wait).or_default() += 1;
        }
        for (wait, count) in found {
            if let Some(known) = self.waits.iter_mut().find(|known| known.is_like(&wait)) {
                known.count += count;
                known.dumps += 1;
                known.units += wait.units_max;
                known.units_squared += wait.units_max * wait.units_max;
                known.units_max = known.units_max.max(wait.units_max);
            } else {
                let (units, units_squared) = (wait.units_max, wait.units_max * wait.units_max);
                self.waits.push(JavaWait { count, dumps: 1, units, units_squared, ..wait });
            }
        }
        self.waits.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
        self.waits.truncate(KEPT);
    }
}

impl Java {
    /// Returns what the dumps after `then`, an earlier state of these, have shown.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let mut java = self.clone();
        java.dumps = self.dumps.saturating_sub(then.dumps);
        java.stopped_s = (self.stopped_s - then.stopped_s).max(0.0);
        java.ran = self.ran.saturating_sub(then.ran);
        for wait in &mut java.waits {
            if let Some(before) = then.waits.iter().find(|before| before.is_like(wait)) {
                wait.count = wait.count.saturating_sub(before.count);
                wait.dumps = wait.dumps.saturating_sub(before.dumps);
                wait.units = wait.units.saturating_sub(before.units);
                wait.units_squared = wait.units_squared.saturating_sub(before.units_squared);
            }
        }
        java.waits.retain(|wait| wait.count > 0);
        java.waits.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
        java
    }
}

pub(crate) fn deadlock(dump: &Dump) -> Vec<JavaLink> {
    let link = |(thread, owner): &(String, String)| {
        let waiter = dump.threads.iter().find(|one| one.name == *thread)?;
        let (_, _, class, at) = waiter.waits.as_ref()?;
        let (class, place) = (class.clone(), waiter.place(*at));
        Some(JavaLink { thread: thread.clone(), class, place, owner: owner.clone() })
    };
    dump.deadlocked.iter().filter_map(link).collect()
}

fn activity(owner: &Thread) -> (JavaOwner, String) {
    let calls = || owner.calls().unwrap_or_default().to_owned();
    match &owner.waits {
        Some((blocked, ..)) if !blocked.is_for_lock() => (JavaOwner::Sleeps, calls()),
        Some((_, _, class, at)) => (JavaOwner::Waits, format!("{class} in {}", owner.place(*at))),
        None if owner.state.contains("WAITING") => (JavaOwner::Sleeps, calls()),
        None if owner.is_native() => (JavaOwner::Native, calls()),
        None => (JavaOwner::Runs, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Dump, Java) {
        let (dump, mut java) = (Dump::parse(text), Java::default());
        java.add(&dump);
        (dump, java)
    }

    #[test]
    fn waiting_threads_and_the_owner_of_a_monitor_are_named() {
        let (dump, java) = read(include_str!("../../tests/dumps/monitor17.txt"));
        let place = "Broker.serversToIgnore (Broker.java:5)".to_owned();
        let expected = JavaWait {
            blocked: Blocked::Monitor,
            class: "Broker.class".to_owned(),
            holder: place.clone(),
            place,
            owner: JavaOwner::Runs,
            doing: String::new(),
            count: 4,
            dumps: 1,
            ..JavaWait::default()
        };
        assert_eq!(java.waits, [expected], "the main thread waits in Thread.join and counts not");
        assert_eq!(java.ran, 1, "Thread-0; Thread-3 has just acquired the monitor");
        assert_eq!(dump.waiting().count(), 4);
    }

    #[test]
    fn a_window_has_the_dumps_in_it_alone() {
        let (monitor, then) = read(include_str!("../../tests/dumps/monitor17.txt"));
        let mut now = then.clone();
        now.add(&Dump::parse(include_str!("../../tests/dumps/lock25.txt")));
        now.stopped_s = 0.5;
        let window = now.since(&then);
        assert!(window.dumps == 1 && (window.stopped_s - 0.5).abs() < 1e-9, "{window:?}");
        let [wait] = &window.waits[..] else { panic!("{window:?}") };
        assert_eq!((wait.blocked, wait.dumps), (Blocked::Lock, 1));
        now.add(&monitor);
        let window = now.since(&then);
        let counts: Vec<u64> = window.waits.iter().map(|wait| wait.count).collect();
        assert_eq!((counts[0], window.dumps), (4, 2), "{window:?}");
    }

    #[test]
    fn the_owner_of_a_lock_sleeps_in_the_function_that_the_program_called() {
        let (_, java) = read(include_str!("../../tests/dumps/lock25.txt"));
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!(wait.class, "java.util.concurrent.locks.ReentrantLock$NonfairSync");
        assert_eq!(
            (wait.blocked, wait.place.as_str()),
            (Blocked::Lock, "Slow.flush (Slow.java:7)")
        );
        assert_eq!(wait.holder, "Slow.flush (Slow.java:8)");
        assert_eq!((wait.owner, wait.doing.as_str()), (JavaOwner::Sleeps, "Thread.sleep"));
    }

    #[test]
    fn deadlocks_are_read_with_their_places() {
        let (dump, java) = read(include_str!("../../tests/dumps/deadlock17.txt"));
        let links = deadlock(&dump);
        assert_eq!(links.len(), 2);
        let JavaLink { thread, class, place, owner } = &links[0];
        assert_eq!((thread.as_str(), owner.as_str()), ("p", "q"));
        assert_eq!(
            (class.as_str(), place.as_str()),
            ("java.lang.Object", "Dead.pass (Dead.java:4)")
        );
        assert!(java.waits.iter().all(|wait| wait.owner == JavaOwner::Waits), "{java:?}");
    }

    /// Threads of a dump: the line of `Db.ask` where each is, and the semaphore that it waits for.
    fn asking(threads: &[(u64, Option<&str>)]) -> Java {
        let thread = |(line, semaphore): &(u64, Option<&str>)| {
            let waits = semaphore.map_or(String::new(), |object| {
                let class = "java.util.concurrent.Semaphore$NonfairSync";
                format!("\t- parking to wait for  <{object}> (a {class})\n")
            });
            format!(
                "\"t\" #1\n   java.lang.Thread.State: WAITING\n\
                 \tat java.lang.Thread.sleep(java.base@17/Native Method)\n{waits}\
                 \tat Db.ask(Db.java:{line})\n\tat Db.run(Db.java:1)\n"
            )
        };
        read(&threads.iter().map(thread).collect::<String>()).1
    }

    #[test]
    fn threads_past_the_wait_for_a_semaphore_have_its_permits() {
        let pool = [(8, None), (7, Some("0x10")), (7, Some("0x10")), (8, None), (7, Some("0x10"))];
        let java = asking(&pool);
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!((wait.blocked, wait.count, wait.units), (Blocked::Permit, 3, 2));
        assert_eq!(
            (wait.holder.as_str(), wait.doing.as_str()),
            ("Db.ask (Db.java:8)", "Thread.sleep")
        );
        let ring = [(7, Some("0x10")), (7, Some("0x20")), (7, Some("0x30")), (8, None)];
        let java = asking(&ring);
        assert!(java.waits.iter().all(|wait| wait.units == 0), "each has its own: {java:?}");
    }

    #[test]
    fn threads_past_the_wait_in_a_queue_have_its_elements() {
        let waiter = "\"t\" #1\n   java.lang.Thread.State: WAITING (parking)\n\
                      \tat jdk.internal.misc.Unsafe.park(java.base@17/Native Method)\n\
                      \t- parking to wait for  <0x10> (a java.util.concurrent.locks.\
                      AbstractQueuedSynchronizer$ConditionObject)\n\
                      \tat java.util.concurrent.ArrayBlockingQueue.take(java.base@17/A.java:420)\n";
        let asks = "\tat Db.ask(Db.java:7)\n";
        let holder = "\"h\" #2\n   java.lang.Thread.State: RUNNABLE\n\tat Db.ask(Db.java:8)\n";
        let java = read(&[waiter, asks, holder, waiter, asks].concat()).1;
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!((wait.blocked, wait.count, wait.units), (Blocked::Queue, 2, 1));
        assert_eq!((&*wait.class, &*wait.place), ("ArrayBlockingQueue", "Db.ask (Db.java:7)"));
        let full = waiter.replace("ArrayBlockingQueue.take", "ArrayBlockingQueue.put");
        let java = read(&[&full, asks].concat()).1;
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!(
            (wait.blocked, &*wait.class, wait.count),
            (Blocked::Room, "ArrayBlockingQueue", 1)
        );
        let worker =
            "\tat java.util.concurrent.ThreadPoolExecutor.getTask(java.base@17/T.java:1)\n";
        assert!(read(&[waiter, worker].concat()).1.waits.is_empty(), "a worker of an executor");
    }

    #[test]
    fn callers_of_a_method_that_takes_a_unit_have_the_units() {
        // Compiled code does not keep the object; `take` has returned to its caller.
        let waiter = "\"t\" #1\n   java.lang.Thread.State: WAITING (on object monitor)\n\
                      \tat java.lang.Object.wait(java.base@17/Native Method)\n\
                      \t- waiting on <no object reference available>\n\
                      \tat Pool.take(Pool.java:4)\n\tat Db.ask(Db.java:7)\n";
        let holder = "\"h\" #2\n   java.lang.Thread.State: TIMED_WAITING (sleeping)\n\
                      \tat java.lang.Thread.sleep(java.base@17/Native Method)\n\
                      \tat Db.ask(Db.java:8)\n";
        let joins = "\"main\" #3\n   java.lang.Thread.State: WAITING (on object monitor)\n\
                     \tat java.lang.Object.wait(java.base@17/Native Method)\n\
                     \t- waiting on <no object reference available>\n\
                     \tat java.lang.Thread.join(java.base@17/T.java:1)\n\tat Db.main(Db.java:1)\n";
        let java = read(&[waiter, holder, waiter, joins].concat()).1;
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!((wait.blocked, wait.count, wait.units), (Blocked::Condition, 2, 1));
        assert_eq!(
            (&*wait.place, &*wait.holder),
            ("Pool.take (Pool.java:4)", "Db.ask (Db.java:8)")
        );
    }

    #[test]
    fn busy_threads_of_a_pool_have_the_tasks_that_others_wait_for() {
        fn worker(at: &str) -> String {
            format!(
                "\"pool-1-thread-2\" #2\n   java.lang.Thread.State: WAITING (parking)\n\tat {at}\n\
                 \tat java.util.concurrent.ThreadPoolExecutor.runWorker(java.base@17/T.java:1)\n"
            )
        }
        let waiter = "\"t\" #1\n   java.lang.Thread.State: WAITING (parking)\n\
                      \tat jdk.internal.misc.Unsafe.park(java.base@17/Native Method)\n\
                      \t- parking to wait for  <0x10> (a java.util.concurrent.FutureTask)\n\
                      \tat java.util.concurrent.FutureTask.get(java.base@17/F.java:190)\n\
                      \tat Db.ask(Db.java:7)\n";
        let busy = worker("Db.query(Db.java:9)");
        let java = read(&[waiter, &busy, waiter].concat()).1;
        let [wait] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!((wait.blocked, wait.count, wait.units), (Blocked::Task, 2, 1));
        assert_eq!((&*wait.class, &*wait.holder), ("ThreadPoolExecutor", "Db.query (Db.java:9)"));
        let idle = worker("java.util.concurrent.ThreadPoolExecutor.getTask(java.base@17/T.java:1)");
        let java = read(&[waiter, &busy, &idle].concat()).1;
        assert_eq!(java.waits[0].units, 0, "a thread of the pool has no task: {java:?}");
        let waiter = waiter.replace("FutureTask", "CompletableFuture");
        let busy = busy.replace("ThreadPoolExecutor", "ForkJoinPool");
        let java = read(&[waiter, busy].concat()).1;
        let wait = &java.waits[0];
        assert_eq!((&*wait.class, wait.blocked, wait.units), ("ForkJoinPool", Blocked::Task, 1));
    }

    #[test]
    fn a_notified_thread_and_a_waiting_one_hold_no_monitor() {
        let text = "\"a\" #1\n   java.lang.Thread.State: BLOCKED (on object monitor)\n\
                    \tat java.lang.Object.wait(java.base@17/Native Method)\n\
                    \t- waiting on <no object reference available>\n\
                    \tat Herd.take(Herd.java:4)\n\
                    \t- waiting to re-lock in wait() <0x10> (a java.lang.Object)\n\
                    \"b\" #2\n   java.lang.Thread.State: WAITING (on object monitor)\n\
                    \tat java.lang.Object.wait(java.base@17/Native Method)\n\
                    \t- waiting on <0x10> (a java.lang.Object)\n\
                    \tat Herd.take(Herd.java:4)\n\t- locked <0x10> (a java.lang.Object)\n";
        let (_, java) = read(text);
        let [wait, waits] = &java.waits[..] else { panic!("{java:?}") };
        assert_eq!((wait.blocked, wait.holder.as_str()), (Blocked::Again, ""));
        assert_eq!(wait.place, "Herd.take (Herd.java:4)");
        assert_eq!((waits.blocked, waits.units), (Blocked::Condition, 0));
        for end in 0..text.len() {
            let _no_panic = read(&text[..end]);
        }
    }
}
