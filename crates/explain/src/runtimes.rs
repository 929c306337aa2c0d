//! Locks that the program did not implement: locks of libc and Python, and advice on Java.

use convoy_record::Seen;
use convoy_record::account::seconds;
use convoy_record::runtimes::{runtime, stream_of_rust};

use crate::cures;
use crate::evidence::{Subject, is_of_python};
use crate::ill::{Diagnosis, Ill, Reason, percent};

/// Advice on a monitor of Java.
pub(crate) const MONITOR: &str = "Make the monitor's section shorter, or read without it: a \
                                  volatile or an atomic variable, a concurrent collection.";

/// How to find the class and the method of a monitor. Without a threshold, waits below 10 ms would
/// not be recorded under `profile`.
pub(crate) const FLIGHT: &str = "Class and method: `java -XX:StartFlightRecording:filename=run.jfr,\
                                 settings=profile,locking-threshold=0ms ...`, then `convoy explain \
                                 run.jfr`.";

/// Sleep is the reason if the owner sleeps for this part of the hold time of a libc lock.
const ASLEEP: f64 = 0.5;

/// A lock of libc, which it acquires in a function that the program calls.
pub(crate) fn libc(subject: &Subject<'_>) -> Option<Reason> {
    let function = &subject.lock.runtime;
    let known = runtime(function)?;
    let held = subject.lock.held.unwrap_or_default();
    let asleep = (held.asleep_s + held.woken_s) / held.total_s.max(f64::MIN_POSITIVE);
    if asleep >= ASLEEP {
        let why = format!(
            ", which {function}() takes; its owner sleeps during {} of the time that it holds it",
            percent(asleep)
        );
        let cure = ["Make the call in which it sleeps without that lock. ", known.advice].concat();
        return Some((Ill::LibcLock, why, cure));
    }
    Some((Ill::LibcLock, format!(", which {function}() takes"), known.advice.to_owned()))
}

/// The lock of a standard stream of Rust's library.
pub(crate) fn stream(subject: &Subject<'_>) -> Option<Reason> {
    let [_, call] = stream_of_rust(&subject.lock.name)?;
    let why = format!(", which a call such as {call} takes");
    let cure = "Lock it once for all lines (`lock()`) and put a `BufWriter` in front of it, or \
                format into a buffer of the thread and write that with one call; another lock \
                cannot help.";
    Some((Ill::RuntimeLock, why, cure.to_owned()))
}

/// A lock that another runtime implements.
pub(crate) fn other_runtime(subject: &Subject<'_>) -> Option<Reason> {
    let name = &subject.lock.runtime;
    if name.is_empty() {
        return None;
    }
    let cure = "Make its sections shorter or fewer; no replacement of libc's lock can help.";
    Some((Ill::RuntimeLock, format!(" ({name})"), cure.to_owned()))
}

/// Returns whether a lock of this name, which threads wait for at this place, is Python's
/// interpreter lock.
pub(crate) fn is_interpreter(lock: &str, place: &str) -> bool {
    lock.split("+0x").next() == Some("_PyRuntime") || place.starts_with("take_gil")
}

/// Python's interpreter lock.
pub(crate) fn interpreter(subject: &Subject<'_>) -> Option<Diagnosis> {
    let lock = subject.lock;
    let place = lock.sites.first().map_or("", |site| site.place.as_str());
    if !is_interpreter(&lock.name, place) || subject.wait_s <= 0.0 {
        return None;
    }
    let sentence = format!(
        "Threads spent {} of their time waiting for Python's interpreter lock, the GIL, which lets \
         one thread run Python code at a time.",
        cures::part(subject)
    );
    let cure = "Use processes instead of threads for work on the CPU (multiprocessing, \
                concurrent.futures). Waits of 5 ms are sys.getswitchinterval(): a shorter one \
                helps threads that do input and output.";
    Some(Diagnosis {
        ill: Ill::InterpreterLock,
        pid: subject.process.pid,
        lock: lock.name.clone(),
        share: subject.share,
        weight: None,
        cost_s: subject.wait_s,
        sentence,
        cure: cure.to_owned(),
    })
}

/// The owner of a Python lock runs Python code, and so also waits for the interpreter's lock.
pub(crate) fn computes(subject: &Subject<'_>) -> Option<Reason> {
    /// Minimum part of the waiting.
    const LEAST: f64 = 0.12;
    let holder = subject.holder.as_ref()?;
    let is_gil = |seen: &Seen| is_interpreter(&seen.what, &seen.place);
    let idle = if holder.call.is_some_and(is_gil) { holder.asleep } else { 0.0 };
    let waited = idle + if holder.other.is_some_and(is_gil) { holder.waited } else { 0.0 };
    if !is_of_python(subject.process, subject.lock) || waited < LEAST {
        return None;
    }
    let each = match subject.hold_s(holder.place) {
        hold_s if hold_s > 0.0 => format!(", {} at a time,", seconds(hold_s)),
        _ => String::new(),
    };
    let why = format!(
        "{}{each} while it runs Python code; for {} of that time it waits for the interpreter's \
         lock, the GIL",
        cures::holds(subject, holder),
        percent(waited)
    );
    let cure = "Compute outside of the critical section, and only exchange the result in it; \
                another lock will not help.";
    Some((Ill::LongSection, why, cure.to_owned()))
}
