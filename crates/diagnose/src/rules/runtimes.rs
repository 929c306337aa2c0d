//! Rules on locks that the program did not implement: locks of libc, Rust and Python.

use convoy_record::runtimes::stream_of_rust;
use convoy_record::{Origin, Process};

use crate::evidence::{Evidence, is_of_python};
use crate::problem::{Call, Problem};

/// Sleep is the reason if the owner sleeps for this part of the hold time of a libc lock.
const ASLEEP: f64 = 0.5;

/// A lock of libc, which it acquires in a function that the program calls.
pub(crate) fn libc(evidence: &Evidence<'_>) -> Option<Problem> {
    if !evidence.lock.origin.is_inside_libc() {
        return None;
    }
    let held = evidence.lock.held.unwrap_or_default();
    let asleep = (held.asleep_s + held.woken_s) / held.total_s.max(f64::MIN_POSITIVE);
    Some(Problem::LibcLock {
        function: evidence.lock.runtime.clone(),
        asleep: (asleep >= ASLEEP).then_some(asleep),
    })
}

/// The lock of a standard stream of Rust's library.
pub(crate) fn stream(evidence: &Evidence<'_>) -> Option<Problem> {
    let lock = evidence.lock;
    let is_stream = lock.origin == Origin::Rust && stream_of_rust(&lock.name).is_some();
    is_stream.then(|| Problem::RustStream { lock: lock.name.clone() })
}

/// A lock that another runtime implements.
pub(crate) fn other(evidence: &Evidence<'_>) -> Option<Problem> {
    let runtime = crate::account::known(&evidence.lock.runtime)?;
    Some(Problem::RuntimeLock { runtime })
}

/// Returns whether the lock with this name is Python's interpreter lock.
fn is_interpreter(process: &Process, name: &str) -> bool {
    let mut locks = process.locks.iter().chain(&process.futexes);
    locks.any(|lock| lock.name == name && lock.origin == Origin::PythonInterpreter)
}

/// Returns whether threads waited for Python's interpreter lock.
fn has_interpreter(process: &Process) -> bool {
    let mut locks = process.locks.iter().chain(&process.futexes);
    locks.any(|lock| lock.origin == Origin::PythonInterpreter && lock.wait_s() > 0.0)
}

/// Python's interpreter lock.
pub(crate) fn interpreter(evidence: &Evidence<'_>) -> Option<Problem> {
    (evidence.lock.origin == Origin::PythonInterpreter).then_some(Problem::InterpreterLock)
}

/// The owner of a Python lock runs Python code, and so also waits for the interpreter's lock.
pub(crate) fn computes(evidence: &Evidence<'_>) -> Option<Problem> {
    /// Minimum part of the waiting.
    const LEAST: f64 = 0.12;
    let (process, holder) = (evidence.process, evidence.holder.as_ref()?);
    let idle = match &holder.call {
        Some((Call::OtherThread(Some(name)), _)) if is_interpreter(process, name) => holder.asleep,
        // Python's other locks would be known.
        Some((Call::Futex, _)) if has_interpreter(process) => holder.asleep,
        _ => 0.0,
    };
    let is_gil = holder.other.is_some_and(|seen| is_interpreter(process, &seen.what));
    let waited = idle + if is_gil { holder.waited } else { 0.0 };
    if !is_of_python(evidence.lock) || waited < LEAST {
        return None;
    }
    let hold_s = evidence.hold_s(holder.place);
    Some(Problem::LongSection {
        owner: evidence.owner(),
        hold_s: (hold_s > 0.0).then_some(hold_s),
        wait_s: None,
        off_unexplained: None,
        interpreter: Some(waited),
    })
}
