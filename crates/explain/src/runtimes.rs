//! Locks that the program did not implement: locks of libc and Python, and advice on Java.

use convoy_record::runtimes::{runtime, stream_of_rust};

use crate::cures;
use crate::evidence::Subject;
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
    let why = format!(", which {function}() takes");
    Some((Ill::LibcLock, why, known.advice.to_owned()))
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
    let cure = "Make its sections shorter or fewer; no lock in place of libc's can help.";
    Some((Ill::RuntimeLock, format!(" ({name})"), cure.to_owned()))
}

/// Python's interpreter lock.
pub(crate) fn interpreter(subject: &Subject<'_>) -> Option<Diagnosis> {
    let lock = subject.lock;
    let is_gil = lock.name.split("+0x").next() == Some("_PyRuntime")
        || lock.sites.first().is_some_and(|site| site.place.starts_with("take_gil"));
    if !is_gil || subject.wait_s <= 0.0 {
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
