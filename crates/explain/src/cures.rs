//! Sentences of the diagnoses: the cost of waiting, and advice for each activity of the owner.

use convoy_record::account::seconds;
use convoy_record::runtimes::runtime;
use convoy_record::{Kind, Lock, Pending, Process, Record};

use crate::evidence::{Holder, PYTHON, Subject, is_python};
use crate::ill::{Diagnosis, Ill, Reason, percent};

/// Returns the part of their time that threads waited, or the wait time if that part is unknown, as
/// text.
pub(crate) fn part(subject: &Subject<'_>) -> String {
    match subject.share {
        Some(share) => percent(share),
        None => seconds(subject.wait_s),
    }
}

/// Returns a sentence such as `Threads in f (x.c:7) spent 49 % of their time waiting for a mutex`.
pub(crate) fn cost(subject: &Subject<'_>) -> String {
    /// A place with more than this part of the waiting is named as the place.
    const MOST: f64 = 0.6;
    let is_named = subject.is_of_program(subject.place) && subject.place != convoy_record::UNNAMED;
    let is_unnamed = subject.lock.name.starts_with(convoy_record::LOCK_OF);
    let at = match () {
        () if subject.there > MOST && is_named => format!(" in {}", subject.place),
        // An unnamed lock is identified only by its places.
        () if is_named && is_unnamed => format!(", most of them in {},", subject.place),
        () => String::new(),
    };
    let what = match runtime(&subject.lock.runtime) {
        Some(known) => format!("libc's lock of {}", known.guards),
        None if subject.lock.runtime.is_empty() => subject.what(),
        None => "a lock".to_owned(),
    };
    if let Some(share) = subject.share {
        return format!("Threads{at} spent {} of their time waiting for {what}", percent(share));
    }
    let wait = seconds(subject.wait_s);
    format!("Threads{at} waited {wait} for {what}")
}

/// Returns advice for an owner that sleeps in this system call.
pub(crate) fn of_call(call: &str) -> String {
    match call.trim_end_matches("(2)") {
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => format!(
            "Note under the lock what must reach the disk, and call {call} outside of the critical \
             section; another lock will not help."
        ),
        convoy_record::PARKED => {
            "Release the lock before it sleeps or waits there; another lock will \
                                  not help."
                .to_owned()
        }
        "a system call" => "Make system calls outside of the critical section; another lock will \
                            not help."
            .to_owned(),
        "waits for another thread" => "Release the lock before it waits for another thread; \
                                       another lock will not help."
            .to_owned(),
        "" => "Touch the memory before the lock is acquired, or keep it in memory; another lock \
               will not help."
            .to_owned(),
        "read" | "pread64" | "readv" | "write" | "pwrite64" | "writev" | "sendto" | "sendmsg"
        | "openat" | "close" | "mmap" | "munmap" => format!(
            "Prepare the data under the lock, and call {call} outside of the critical section; \
             another lock will not help."
        ),
        _ => format!("Release the lock before it calls {call}; another lock will not help."),
    }
}

/// Returns whether an owner that sleeps in this system call waits for input from any of several
/// sources, like an idle event loop.
pub(crate) fn waits_for_input(call: &str) -> bool {
    let call = call.trim_end_matches("(2)");
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"]
        .contains(&call)
}

/// Returns advice for an event loop that holds a lock while it is idle, and whose waiters release
/// the lock immediately: some programs park idle threads this way.
pub(crate) fn of_parking(call: &str) -> String {
    format!(
        "If the program parks them there until it has work, this costs nothing; if not, release \
         the lock before it calls {call}. Another lock will not help."
    )
}

/// Returns the reason if threads wait for a lock that they already own, until a time limit.
pub(crate) fn itself(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let is_own = subject.lock.kind != Kind::Semaphore && 2 * holder.own > holder.count;
    let why = match holder.place {
        "" => ", which they hold themselves, so that they wait until their time limit".to_owned(),
        place => format!(
            ", which they hold themselves, acquired in {place}, so that they wait until their time \
             limit"
        ),
    };
    let cure = "Release it before, or call a function that expects it to be held.".to_owned();
    is_own.then_some((Ill::Deadlock, why, cure))
}

/// A semaphore that several threads hold at a time, as a pool of connections.
pub(crate) fn limit(subject: &Subject<'_>) -> Option<Reason> {
    /// Minimum mean number of units in use.
    const SEVERAL: f64 = 1.2;
    if subject.lock.kind != Kind::Semaphore || subject.lock.instances > 1 {
        return None;
    }
    let (held_s, _) = subject.lock.held_s(subject.process.cpu_s);
    let used = held_s / subject.process.seconds.max(f64::MIN_POSITIVE);
    let holder = subject.holder.as_ref();
    let call = holder.and_then(|holder| holder.call.filter(|_| holder.asleep > 0.5));
    let (ill, asleep) = match call {
        Some(call) => (Ill::OwnerAsleep, format!(", and sleep in {}", call.what)),
        None => (Ill::LongSection, String::new()),
    };
    let why = format!(
        ", a semaphore: on average {used:.1} threads have one of its units, for {} each{asleep}",
        seconds(subject.hold_s(""))
    );
    let cure = "Initialise it with more units if what it limits can serve more threads, or keep a \
                unit for less time; another lock will not help.";
    (used > SEVERAL).then(|| (ill, why, cure.to_owned()))
}

/// Returns the diagnosis of a cycle of waits.
pub(crate) fn deadlock(process: &Process, cycle: &[&Pending]) -> Diagnosis {
    let of_python = |wait: &Pending| is_python(process, &wait.place, wait.kind);
    // The places are in the interpreter.
    if cycle.iter().all(|wait| of_python(wait) && !convoy_record::is_python(&wait.place)) {
        return deadlock_of_python(process, cycle);
    }
    let what = |wait: &Pending| {
        if of_python(wait) {
            return "a Python lock (`threading.Lock`)".to_owned();
        }
        format!("`{}`", wait.lock)
    };
    let one = |wait: &&Pending| {
        let held = cycle.iter().find(|other| other.owner == wait.thread);
        let holds = match held {
            Some(held) if held.held_at.is_empty() => format!(" and holds {}", what(held)),
            Some(held) => format!(" and holds {}, acquired in {}", what(held), held.held_at),
            None => String::new(),
        };
        format!("thread {} waits in {} for {}{holds}", wait.thread, wait.place, what(wait))
    };
    let (sentence, cure) = match cycle {
        [wait] if wait.owner_ended => (
            format!(
                "Deadlock: thread {} waits in {} for {}, whose owner, thread {}, has ended \
                 without releasing it.",
                wait.thread,
                wait.place,
                what(wait),
                wait.owner
            ),
            "Release the lock on every way out of the thread, or make the mutex robust.",
        ),
        [wait] => (
            format!(
                "Deadlock: thread {} waits in {} for {}, which it holds itself{}.",
                wait.thread,
                wait.place,
                what(wait),
                if wait.held_at.is_empty() {
                    String::new()
                } else {
                    format!(", acquired in {}", wait.held_at)
                }
            ),
            "Release it before, or call a function that expects it to be held.",
        ),
        all => (
            format!("Deadlock: {}.", all.iter().map(one).collect::<Vec<_>>().join("; ")),
            "Acquire these locks in one order everywhere.",
        ),
    };
    of_cycle(process, cycle, sentence + &behind(process, cycle), cure)
}

/// Returns a description of the waits outside the cycle.
fn behind(process: &Process, cycle: &[&Pending]) -> String {
    let all = process.pending.iter().filter(|one| one.act != "wait").count();
    match all.saturating_sub(cycle.len()) {
        0 => String::new(),
        1 => " One more thread waits behind them.".to_owned(),
        many => format!(" {many} more threads wait behind them."),
    }
}

/// Returns the diagnosis of a cycle of waits for Python locks.
fn deadlock_of_python(process: &Process, cycle: &[&Pending]) -> Diagnosis {
    let (sentence, cure) = match cycle {
        [wait] => (
            format!(
                "Deadlock: thread {} waits for a Python lock (`threading.Lock`) that it already \
                 holds.",
                wait.thread
            ),
            "Release it first, or use a `threading.RLock`.",
        ),
        all => {
            let threads: Vec<String> = all.iter().map(|wait| wait.thread.to_string()).collect();
            let sentence = format!(
                "Deadlock: the threads {} wait for each other: each of them holds a Python lock \
                 (`threading.Lock`) that another one waits for.",
                threads.join(", ")
            );
            (sentence, "Acquire these locks in one order everywhere.")
        }
    };
    of_cycle(process, cycle, sentence + &behind(process, cycle), &[cure, PYTHON].concat())
}

fn of_cycle(process: &Process, cycle: &[&Pending], sentence: String, cure: &str) -> Diagnosis {
    Diagnosis {
        ill: Ill::Deadlock,
        pid: process.pid,
        lock: cycle[0].lock.clone(),
        share: None,
        weight: None,
        cost_s: cycle.iter().map(|one| one.wait_s).sum(),
        sentence,
        cure: cure.to_owned(),
    }
}

/// Returns the diagnosis of waits for locks in a program without any runnable thread and without a
/// cycle of known owners.
pub(crate) fn stuck(process: &Process, waits: &[&Pending]) -> Option<Diagnosis> {
    if waits.is_empty() {
        return None;
    }
    let sentence = format!(
        "Deadlock: all threads wait for each other, and none is left that could run: {}.",
        named(waits)
    );
    Some(of_cycle(process, waits, sentence, ORDER))
}

/// Returns the diagnosis of waits for locks that no thread released until the end of the record,
/// although other threads could run.
pub(crate) fn unreleased(process: &Process, waits: &[&Pending]) -> Option<Diagnosis> {
    let longest_s = waits.iter().map(|one| one.wait_s).fold(0.0, f64::max);
    let locks: std::collections::BTreeSet<u64> = waits.iter().map(|one| one.address).collect();
    let which = match locks.len() {
        0 => return None,
        1 => "a lock that was not released",
        _ => "locks that were not released",
    };
    let sentence = format!(
        "Deadlock, or an owner that keeps its lock: threads wait for {which} in the last {} of \
         the record: {}.",
        seconds(longest_s),
        named(waits)
    );
    Some(of_cycle(process, waits, sentence, ORDER))
}

/// Advice against deadlocks.
const ORDER: &str = "Acquire locks in one order everywhere, and do not acquire a lock twice or \
                     wait for a thread while holding a lock that this thread needs.";

/// Returns a description of these waits, or of the first of them.
fn named(waits: &[&Pending]) -> String {
    /// Maximum number of waits that are named.
    const NAMED: usize = 4;
    let one = |wait: &&Pending| {
        let what = if wait.lock.starts_with(convoy_record::LOCK_OF) {
            format!("a {}", wait.kind.name())
        } else {
            format!("`{}`", wait.lock)
        };
        let owner = match (wait.owner, wait.held_at.as_str()) {
            (0, _) => String::new(),
            (owner, "") => format!(", which thread {owner} holds"),
            (owner, at) => format!(", which thread {owner} holds, acquired in {at}"),
        };
        format!("thread {} waits in {} for {what}{owner}", wait.thread, wait.place)
    };
    waits.iter().take(NAMED).map(one).collect::<Vec<_>>().join("; ")
}

/// Returns whether the kernel is there to switch threads after an interrupt or a sleep, rather than
/// in a system call.
fn is_of_scheduler(place: &str) -> bool {
    let function = place.split([' ', ',']).next().unwrap_or(place).trim_start_matches('_');
    ["exit_to_user_mode", "schedule", "irqentry_exit", "preempt_schedule"]
        .iter()
        .any(|begin| function.starts_with(begin))
}

/// Returns the diagnosis of waits for a lock of the kernel, if they are relevant.
pub(crate) fn kernel(lock: &Lock, process: &Process, record: &Record) -> Option<Diagnosis> {
    /// Minimum number of waits.
    const FEW: u64 = 20;
    /// Minimum part of the time spent waiting for a spinlock. These waits include interrupts and
    /// the time that a hypervisor takes from the owner. Servers with another bottleneck had 2 %.
    const SPINS: f64 = 0.05;
    let time_s = convoy_record::busy_s(record);
    let (wait_s, site) = (lock.wait_s(), lock.sites.first()?);
    if lock.count() < FEW || wait_s <= 0.0 || time_s <= 0.0 {
        return None;
    }
    let share = (wait_s / time_s).min(1.0);
    if lock.kernel == "spinlock" && share < SPINS {
        return None;
    }
    let known = lock.owners_known_s;
    let off = lock.owners_off_s / known.max(f64::MIN_POSITIVE);
    let owner = match () {
        () if known < wait_s / 2.0 => "",
        () if off >= 0.5 => "; its owner was off CPU when most of the waiting began: a lock convoy",
        () => "; its owner ran",
    };
    Some(Diagnosis {
        ill: Ill::KernelLock,
        pid: process.pid,
        lock: lock.name.clone(),
        share: Some(share),
        weight: None,
        cost_s: wait_s,
        sentence: format!(
            "Threads spent {} of their time waiting for the kernel's {} in {}{owner}.",
            percent(share),
            lock.kernel,
            site.place
        ),
        cure: if is_of_scheduler(&site.place) {
            "It is the scheduler's: let threads wake each other less often, or run fewer."
        } else {
            "No lock in the program can help: make that system call less often, or let fewer \
             threads share what it works on (a directory, an address space, a file)."
        }
        .to_owned(),
    })
}

/// Like [`holds`], also for an unknown owner.
pub(crate) fn held(subject: &Subject<'_>) -> String {
    let unknown = || ", which another thread holds".to_owned();
    subject.holder.as_ref().map_or_else(unknown, |holder| holds(subject, holder))
}

/// Returns a phrase such as `, which Wal::sync (wal.cc:16) holds`.
pub(crate) fn holds(subject: &Subject<'_>, holder: &Holder<'_>) -> String {
    match holder.place {
        place if !subject.is_of_program(place) => ", which another thread holds".to_owned(),
        place if place == subject.place => format!(", which another thread in {place} holds"),
        place => format!(", which {place} holds"),
    }
}
