//! Thread dumps of `HotSpot`: what each Java thread waits for, and which locks it holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How a Java thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocked {
    /// For a monitor: `synchronized`.
    #[default]
    Monitor,
    /// For the monitor after a notification, in `Object.wait`.
    Again,
    /// For a lock of `java.util.concurrent`.
    Lock,
    /// For a permit of a semaphore of `java.util.concurrent`.
    Permit,
    /// For an element of a queue of `java.util.concurrent`, in a method of the program: for a
    /// connection of a pool, or for work.
    Queue,
    /// For room in a full queue of `java.util.concurrent`, or for a thread that takes an element.
    Room,
    /// For a notification (`Object.wait`) or a condition, in a method of the program.
    Condition,
    /// For the result of a task that a pool of threads is to execute.
    Task,
    /// For something else: the end of a thread, work of an executor.
    Other,
}

impl Blocked {
    /// Returns whether it is a wait for a lock or semaphore.
    pub(crate) fn is_for_lock(self) -> bool {
        matches!(self, Self::Monitor | Self::Again | Self::Lock | Self::Permit)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Thread {
    pub(crate) name: String,
    /// The state, such as `RUNNABLE` or `TIMED_WAITING (sleeping)`.
    pub(crate) state: String,
    /// Frames, innermost first: `Broker.get (Broker.java:5)`.
    pub(crate) frames: Vec<String>,
    /// What it waits for: how, the object, its class, and the index of the frame.
    pub(crate) waits: Option<(Blocked, u64, String, usize)>,
    /// Monitors that it holds, each with the index of the frame that acquired it.
    monitors: BTreeMap<u64, usize>,
    /// Locks of `java.util.concurrent` that it holds.
    locks: BTreeSet<u64>,
}

/// A dump: its threads, and the deadlocked ones as pairs of a waiting thread and the owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Dump {
    pub(crate) threads: Vec<Thread>,
    pub(crate) deadlocked: Vec<(String, String)>,
}

/// Beginning of the line about a deadlock.
const DEADLOCK: &str = "Found one Java-level deadlock:";
/// Packages of Java's own classes.
const OWN: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];
/// Name of what threads wait for in `Object.wait`.
pub const NOTIFICATION: &str = "notification";
/// Maximum number of functions that only take an element for their callers.
const CALLERS: usize = 5;
/// Parts of the class names of locks of `java.util.concurrent`.
const LOCKS: [&str; 3] = ["ReentrantLock", "ReentrantReadWriteLock", "StampedLock"];
/// Beginning of the class names of its semaphores.
const SEMAPHORE: &str = "java.util.concurrent.Semaphore$";

impl Dump {
    /// Parses the text. Unknown lines are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let (threads, rest) = text.split_once(DEADLOCK).unwrap_or((text, ""));
        let mut dump = Self { threads: Vec::new(), deadlocked: deadlocked(rest) };
        for line in threads.lines() {
            if let Some(name) = line.strip_prefix('"') {
                let name = name.rsplit_once("\" ").map_or(name, |(name, _)| name).to_owned();
                dump.threads.push(Thread { name, ..Thread::default() });
            } else if let Some(thread) = dump.threads.last_mut() {
                thread.read(line);
            }
        }
        // Threads of the virtual machine itself have no Java frames.
        dump.threads.retain(|thread| !thread.frames.is_empty());
        for thread in &mut dump.threads {
            // A frame that waits for an object is also printed as its owner.
            if let Some((_, object, ..)) = thread.waits {
                thread.monitors.remove(&object);
            }
            thread.name_wait();
        }
        dump.name_pool();
        dump
    }

    /// Returns the names of the threads that wait for a lock.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &str> {
        let is_lock =
            |one: &&Thread| one.waits.as_ref().is_some_and(|(blocked, ..)| blocked.is_for_lock());
        self.threads.iter().filter(is_lock).map(|one| one.name.as_str())
    }

    /// Returns the threads that have a permit, an element of a queue or the like for which this
    /// thread waits: they are in the method that waits, past the wait. None if each thread at that
    /// place waits for a semaphore of its own, which another thread then signals with.
    pub(crate) fn holders(&self, waiter: &Thread) -> Vec<(&Thread, String)> {
        let Some((blocked, object, _, at)) = &waiter.waits else { return Vec::new() };
        if *blocked == Blocked::Task {
            return self.workers();
        }
        let place = waiter.place(*at);
        let waits_for = |one: &Thread| {
            let waits = one.waits.as_ref()?;
            (one.place(waits.3) == place).then_some(waits.1)
        };
        let objects: Vec<u64> = self.threads.iter().filter_map(waits_for).collect();
        let same = objects.iter().filter(|other| *other == object).count();
        if same < 2 && objects.len() > 1 {
            return Vec::new();
        }
        let past = |one: &Thread, method: &str| {
            let is_waiting = one.waits.as_ref().is_some_and(|waits| {
                waits.1 == *object || waits.0 == *blocked && one.place(waits.3) == place
            });
            one.frames.iter().find(|frame| !is_waiting && self::method(frame) == method).cloned()
        };
        // A method that only takes an element for its caller has returned.
        let has_returned = matches!(blocked, Blocked::Queue | Blocked::Condition);
        let frames = waiter.frames.iter().skip(*at).skip_while(|frame| is_own(frame));
        let frames = frames.take_while(|frame| !is_own(frame));
        let mut methods =
            frames.map(|frame| method(frame)).take(if has_returned { CALLERS } else { 1 });
        let holders = |method: &str| -> Vec<(&Thread, String)> {
            self.threads.iter().filter_map(|one| Some((one, past(one, method)?))).collect()
        };
        methods
            .find_map(|method| Some(holders(method)).filter(|found| !found.is_empty()))
            .unwrap_or_default()
    }

    /// Returns the threads of the pool that executes tasks, if all of them are busy. None if there
    /// are several pools: a task may be for any of them.
    fn workers(&self) -> Vec<(&Thread, String)> {
        /// Functions of a thread of a pool that waits for a task.
        const IDLE: [&str; 2] = [
            "java.util.concurrent.ThreadPoolExecutor.getTask",
            "java.util.concurrent.ForkJoinPool.awaitWork",
        ];
        let mut pools: BTreeMap<&str, Option<Vec<(&Thread, String)>>> = BTreeMap::new();
        for thread in &self.threads {
            if thread.pool().is_none() {
                continue;
            }
            let is_idle = thread.frames.iter().any(|frame| IDLE.contains(&method(frame)));
            // Threads of a pool have numbers: `pool-1-thread-2`.
            let name = thread.name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            let pool = pools.entry(name).or_insert_with(|| Some(Vec::new()));
            if is_idle {
                *pool = None;
            } else if let Some(busy) = pool {
                busy.push((thread, thread.place(0)));
            }
        }
        let mut pools = pools.into_values();
        let only = pools.next().filter(|_| pools.next().is_none());
        only.flatten().unwrap_or_default()
    }

    /// Names the class of the pool that executes the tasks that threads wait for.
    fn name_pool(&mut self) {
        let pool = self.threads.iter().find_map(Thread::pool);
        for thread in &mut self.threads {
            if let (Some((Blocked::Task, _, class, _)), Some(pool)) = (&mut thread.waits, pool) {
                pool.clone_into(class);
            }
        }
    }

    /// Returns the owner of an object, and the place that acquired it if that is known.
    pub(crate) fn owner(&self, object: u64) -> Option<(&Thread, Option<String>)> {
        let owner = self.threads.iter().find(|one| one.monitors.contains_key(&object));
        let owner = owner.map(|one| (one, Some(one.place(one.monitors[&object]))));
        owner.or_else(|| Some((self.threads.iter().find(|one| one.locks.contains(&object))?, None)))
    }
}

impl Thread {
    fn read(&mut self, line: &str) {
        /// A line of compiled code, which does not keep the object.
        const UNKNOWN: &str = "waiting on <no object reference available>";
        let text = line.trim_start();
        if let Some(state) = text.strip_prefix("java.lang.Thread.State: ") {
            state.clone_into(&mut self.state);
        } else if let Some(frame) = text.strip_prefix("at ") {
            self.frames.push(named(frame));
        } else if text.ends_with(UNKNOWN) && self.waits.is_none() && !self.frames.is_empty() {
            self.waits = Some((Blocked::Other, 0, String::new(), self.frames.len() - 1));
        } else if let Some(at) = self.frames.len().checked_sub(1)
            && let Some(text) = text.strip_prefix("- ")
            && let Some((what, (object, class))) = lock(text)
        {
            let blocked = match what.trim() {
                "locked" => {
                    self.monitors.insert(object, at);
                    return;
                }
                // A line below `Locked ownable synchronizers`.
                "" => {
                    self.locks.insert(object);
                    return;
                }
                "waiting to lock" => Blocked::Monitor,
                "waiting to re-lock in wait()" => Blocked::Again,
                "parking to wait for" if LOCKS.iter().any(|one| class.contains(one)) => {
                    Blocked::Lock
                }
                "parking to wait for" if class.starts_with(SEMAPHORE) => Blocked::Permit,
                "waiting on" | "parking to wait for" => Blocked::Other,
                _ => return,
            };
            // A thread that waits again for a monitor also has a line for each outer frame.
            let is_first = self.waits.as_ref().is_none_or(|waits| waits.1 == 0);
            if is_first {
                self.waits = Some((blocked, object, class, at));
            }
        }
    }

    /// Names the object of a wait that is not for a lock: an element of a queue, whose class then
    /// replaces the class of its condition, a condition of the program, or a task.
    fn name_wait(&mut self) {
        /// Methods that take an element.
        const TAKES: [&str; 4] = ["take", "poll", "takeFirst", "pollFirst"];
        /// Methods that wait for room.
        const PUTS: [&str; 5] = ["put", "offer", "putFirst", "putLast", "transfer"];
        let function = self.calls().and_then(|function| function.split_once('.'));
        let Some((class, method)) = function else { return };
        let named = match class {
            _ if TAKES.contains(&method) => (Blocked::Queue, class),
            _ if PUTS.contains(&method) => (Blocked::Room, class),
            "Object" => (Blocked::Condition, NOTIFICATION),
            _ if class.ends_with("$ConditionObject") => (Blocked::Condition, "Condition"),
            "FutureTask" | "CompletableFuture" | "ForkJoinTask" => (Blocked::Task, "executor"),
            _ => return,
        };
        let named = (named.0, named.1.to_owned());
        if let Some((blocked @ Blocked::Other, _, of, _)) = &mut self.waits {
            *blocked = named.0;
            *of = named.1;
        }
    }

    /// Returns the innermost frame from this index on that is not in a class of Java itself.
    pub(crate) fn place(&self, from: usize) -> String {
        let frames = self.frames.get(from..).unwrap_or_default();
        let own = frames.iter().find(|frame| !is_own(frame));
        own.or(frames.first()).cloned().unwrap_or_default()
    }

    /// Returns the function of Java itself that the program has called, if it is in one.
    pub(crate) fn calls(&self) -> Option<&str> {
        let count = self.frames.iter().take_while(|frame| is_own(frame)).count();
        let last = self.frames.get(count.checked_sub(1)?)?;
        let function = method(last);
        // Without the package: `FileChannelImpl.force`.
        let class = function.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        (count < self.frames.len()).then(|| &function[class..])
    }

    /// Returns the class of the pool that this is a thread of.
    fn pool(&self) -> Option<&'static str> {
        /// The function in which a thread of a pool executes a task or waits for one.
        const WORKERS: [(&str, &str); 2] = [
            ("java.util.concurrent.ThreadPoolExecutor.runWorker", "ThreadPoolExecutor"),
            ("java.util.concurrent.ForkJoinPool.runWorker", "ForkJoinPool"),
        ];
        self.frames.iter().find_map(|frame| {
            let worker = WORKERS.iter().find(|(function, _)| *function == method(frame));
            worker.map(|(_, class)| *class)
        })
    }

    /// Returns whether the innermost frame is native code.
    pub(crate) fn is_native(&self) -> bool {
        self.frames.first().is_some_and(|frame| frame.ends_with("(Native Method)"))
    }
}

fn is_own(frame: &str) -> bool {
    OWN.iter().any(|own| frame.starts_with(own))
}

fn method(frame: &str) -> &str {
    frame.split(" (").next().unwrap_or(frame)
}

/// Returns `a.B.get (B.java:5)` for `a.B.get(module@17/B.java:5)`.
fn named(frame: &str) -> String {
    let (name, at) = frame.split_once('(').unwrap_or((frame, ""));
    let at = at.trim_end_matches(')').rsplit('/').next().unwrap_or(at);
    if at.is_empty() { name.to_owned() } else { format!("{name} ({at})") }
}

/// Splits `waiting to lock <0x7f> (a java.lang.Class for Broker)` into the words before the object,
/// the object, and its class: `Broker.class`.
fn lock(text: &str) -> Option<(&str, (u64, String))> {
    let (what, rest) = text.split_once('<')?;
    let (object, class) = rest.split_once('>')?;
    let object = u64::from_str_radix(object.strip_prefix("0x")?, 16).ok()?;
    let class = class.trim().strip_prefix("(a ")?.trim_end_matches(')');
    let class = match class.strip_prefix("java.lang.Class for ") {
        Some(of) => format!("{}.class", of.rsplit('/').next().unwrap_or(of)),
        None => class.to_owned(),
    };
    Some((what, (object, class)))
}

/// Returns the pairs of a thread and the owner that it waits for, from the text about deadlocks.
fn deadlocked(text: &str) -> Vec<(String, String)> {
    let quoted = |line: &str| Some(line.split_once('"')?.1.rsplit_once('"')?.0.to_owned());
    let (mut all, mut waiter) = (Vec::new(), None);
    for line in text.lines().take_while(|line| !line.starts_with("Java stack information")) {
        if line.starts_with('"') {
            waiter = quoted(line);
        } else if line.contains("held by \"")
            && let (Some(waiter), Some(owner)) = (waiter.take(), quoted(line))
        {
            all.push((waiter, owner));
        }
    }
    all
}
