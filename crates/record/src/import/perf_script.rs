//! `perf script` of lock and sched events, with or without stacks.

use std::collections::BTreeMap;

use super::folded;
use super::waits::{Refused, Waits, kind, number};
use crate::record::origin::Origin;
use crate::record::{Kind, Times};

/// Events that are read.
const EVENTS: [&str; 6] = [
    "lock:contention_begin",
    "lock:contention_end",
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
];

/// Bits of the flags of `contention_begin`, and their meaning; the first set bit counts.
const FLAGS: [(u64, &str, &str); 5] = [
    (32, "MUTEX", "mutex"),
    (16, "PERCPU", "percpu-rwsem"),
    (8, "RT", "rtmutex"),
    (2, "READ", "rwsem:R"),
    (4, "WRITE", "rwsem:W"),
];
const SPIN: u64 = 1;

pub(super) fn is_event(line: &str) -> bool {
    Event::new(line).is_some()
}

struct Event<'a> {
    task: u64,
    /// The time in seconds, as written.
    time: &'a str,
    name: &'a str,
    /// The arguments of the event.
    rest: &'a str,
}

impl<'a> Event<'a> {
    /// Parses `comm pid/tid [cpu] time: event: arguments`. The name of a task may contain spaces.
    fn new(line: &'a str) -> Option<Self> {
        let (name, at) = EVENTS.iter().find_map(|name| {
            let with = line.find(&format!("{name}:"))?;
            Some((&line[with..with + name.len()], with))
        })?;
        let mut before = line[..at].trim_end().trim_end_matches(':').split_ascii_whitespace();
        let time = before.next_back()?;
        let task = before.rfind(|word| !word.starts_with('['))?;
        let task = task.rsplit('/').next()?.parse().ok()?;
        Some(Self { task, time, name, rest: line[at + name.len() + 1..].trim() })
    }

    /// Returns a field of a sched event, such as 12 for `prev_pid` in `prev_pid=12`.
    fn field(&self, key: &str) -> Option<&'a str> {
        let at = self.rest.find(&format!("{key}="))? + key.len() + 1;
        self.rest[at..].split([' ', '\t']).next()
    }
}

/// The current wait of a task.
#[derive(Default)]
struct Task {
    /// The lock, its kind, and the start of the wait in seconds.
    lock: Option<(String, &'static str, f64)>,
    /// Start of the current sleep, in seconds.
    asleep: Option<f64>,
    /// Time of the last wakeup, in seconds.
    woken: Option<f64>,
    /// Stack at the start of the wait, innermost function first.
    stack: Vec<String>,
}

#[derive(Default)]
struct Trace {
    tasks: BTreeMap<u64, Task>,
    /// The task to which the stack in the next lines belongs.
    stack_of: Option<u64>,
    first: Option<f64>,
    last: f64,
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    // With lock events, sleep in lock functions is the same wait a second time.
    let has_locks = text.contains(EVENTS[1]);
    let mut trace = Trace::default();
    for (index, line) in text.lines().enumerate() {
        if let Some(event) = Event::new(line) {
            trace.event(&event, has_locks, waits).map_err(|reason| (index + 1, reason))?;
        } else if line.starts_with(['\t', ' ']) && trace.stack_of.is_some() {
            trace.frame(line);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            trace.stack_of = None;
            waits.pass_over(index + 1);
        }
    }
    waits.seconds = trace.last - trace.first.unwrap_or(trace.last);
    let open = trace.tasks.values().filter(|task| task.lock.is_some()).count();
    if open > 0 {
        waits.notes.push(format!("{open} waits had no end when the trace ended."));
    }
    Ok(())
}

impl Trace {
    fn event(&mut self, event: &Event, has_locks: bool, waits: &mut Waits) -> Result<(), String> {
        let now = number(event.time, "time in seconds")?;
        self.first.get_or_insert(now);
        self.last = self.last.max(now);
        self.stack_of = None;
        match event.name {
            "lock:contention_begin" => {
                let (lock, flags) = event.rest.split_once(" (flags=").unwrap_or((event.rest, ""));
                let task = self.tasks.entry(event.task).or_default();
                task.lock = Some((lock.to_owned(), flagged(flags.trim_end_matches(')')), now));
                (task.woken, task.stack) = (None, Vec::new());
                self.stack_of = Some(event.task);
            }
            "lock:contention_end" => {
                let task = self.tasks.entry(event.task).or_default();
                if let Some((lock, word, since)) = task.lock.take() {
                    task.waited(&lock, word, now - since, now, waits);
                }
            }
            "sched:sched_switch" => self.switch(event, has_locks, now, waits)?,
            _ => {
                let pid = event.field("pid").ok_or("no `pid=` in a wakeup")?;
                self.tasks.entry(number(pid, "task")? as u64).or_default().woken = Some(now);
            }
        }
        Ok(())
    }

    fn switch(
        &mut self,
        event: &Event,
        has_locks: bool,
        now: f64,
        waits: &mut Waits,
    ) -> Result<(), String> {
        let field = |key: &str| event.field(key).ok_or_else(|| format!("no `{key}=` in a switch"));
        let (before, after) = (number(field("prev_pid")?, "task")?, field("next_pid")?);
        let after = self.tasks.entry(number(after, "task")? as u64).or_default();
        if let Some(since) = after.asleep.take()
            && !has_locks
        {
            let frames: Vec<&str> = after.stack.iter().rev().map(String::as_str).collect();
            folded::add(&frames, now - since, waits);
        }
        if !field("prev_state")?.starts_with('R') {
            let task = self.tasks.entry(before as u64).or_default();
            task.asleep = Some(now);
            if !has_locks {
                task.stack.clear();
                self.stack_of = Some(before as u64);
            }
        }
        Ok(())
    }

    /// Adds a line of a stack: address, function with offset, object in brackets.
    fn frame(&mut self, line: &str) {
        let function = line.split_ascii_whitespace().nth(1).unwrap_or("?");
        let name = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
        if let Some(task) = self.stack_of.and_then(|task| self.tasks.get_mut(&task)) {
            task.stack.push(name.to_owned());
        }
    }
}

impl Task {
    /// Records the end of a wait for a kernel lock after this number of seconds.
    fn waited(&mut self, lock: &str, word: &str, seconds: f64, now: f64, waits: &mut Waits) {
        let (kind, act) = kind(word);
        let caller = self.stack.iter().find(|name| !is_lock_function(name));
        let place = caller.map_or("a place without a stack", String::as_str);
        let site = waits.site(&format!("lock {lock}"), (kind, Origin::Kernel), place, act);
        site.waited(1, seconds, seconds);
        // If the waiter was woken, the release woke it.
        if let Some(woken) =
            self.woken.take().filter(|woken| *woken <= now && kind != Kind::Spinlock)
        {
            site.handoff.add(&Times::one(now - woken));
        }
    }
}

/// Returns the kind of a lock for flags that are given as a number or as words.
fn flagged(flags: &str) -> &'static str {
    let bits = flags
        .strip_prefix("0x")
        .map_or_else(|| flags.parse::<u64>().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    let has = |bit: u64, name: &str| match bits {
        Some(bits) => bits & bit != 0,
        None => flags.split('|').any(|flag| flag == name),
    };
    let spins = has(SPIN, "SPIN");
    match FLAGS.iter().find(|(bit, name, _)| has(*bit, name)).map(|(.., word)| *word) {
        Some("rwsem:R") if spins => "rwlock:R",
        Some("rwsem:W") if spins => "rwlock:W",
        Some(word) => word,
        None if spins => "spinlock",
        None => "mutex",
    }
}

/// Returns whether it is a function between the event and the caller that acquires the lock.
fn is_lock_function(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    [
        "trace",
        "perf",
        "bpf",
        "mutex",
        "rwsem",
        "down",
        "queued",
        "native_queued",
        "raw_spin",
        "rt_",
        "percpu",
        "do_raw",
        "lock_",
        "ww_mutex",
        "pv_queued",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
