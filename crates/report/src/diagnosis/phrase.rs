//! Parts of sentences: locks, owners, calls, lists.

use convoy_diagnose::{Call, Owner, PythonModule, Subject};
use convoy_record::Kind as Primitive;
use convoy_record::runtimes::{runtime, stream_of_rust};

/// Returns a part of one in whole percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// Returns a time with its unit.
pub(super) fn seconds(time_s: f64) -> String {
    if time_s.is_finite() {
        crate::format::duration(time_s * 1e6)
    } else {
        "an unknown time".to_owned()
    }
}

/// Returns a count with its noun.
pub(super) fn count(number: u64, noun: &str) -> String {
    match (number, noun.ends_with('x')) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{number} {noun}es"),
        (_, false) => format!("{number} {noun}s"),
    }
}

/// Returns words separated by commas, with "and" before the last one.
pub(super) fn list(mut words: Vec<String>) -> String {
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

/// Returns a place of the program after "in", or nothing.
pub(super) fn at(place: Option<&String>) -> String {
    place.map_or(String::new(), |place| format!(" in {place}"))
}

/// Returns a lock in words: `` `log` ``, `3 mutexes`, `libc's lock of the heap`.
pub(super) fn lock(subject: &Subject) -> String {
    match subject {
        Subject::Variable { name, instances: 0 | 1 } => format!("`{name}`"),
        Subject::Variable { name, instances } => format!("`{name}` ({instances} of them)"),
        Subject::Element { name, instances } => {
            format!("`{name}`, one of {instances} locks of that name")
        }
        Subject::Unnamed { primitive, instances: 0 | 1 } => format!("a {}", noun(*primitive)),
        Subject::Unnamed { primitive, instances } => count(*instances, noun(*primitive)),
        Subject::Python { module: PythonModule::Threading } => {
            "a Python lock (`threading.Lock`)".to_owned()
        }
        Subject::Python { module: PythonModule::Multiprocessing } => {
            "a Python lock (`multiprocessing.Lock`)".to_owned()
        }
        Subject::RustStream { lock } => match stream_of_rust(lock) {
            Some([stream, _]) => format!("the lock of Rust's {stream}"),
            None => format!("`{lock}`"),
        },
        Subject::Libc { function } => match runtime(function) {
            Some(known) => format!("libc's lock of {}", known.guards),
            None => "a lock of libc".to_owned(),
        },
        Subject::JavaLock { class } => format!("the lock of a `{class}`"),
        Subject::Runtime { .. } => "a lock".to_owned(),
    }
}

fn noun(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Futex => "lock",
        Primitive::Condition => "condition",
        primitive => primitive.name(),
    }
}

/// Returns a clause such as `, which Wal::sync (wal.cc:16) holds`.
pub(super) fn holds(owner: &Owner) -> String {
    match &owner.place {
        None => ", which another thread holds".to_owned(),
        Some(place) if owner.is_waiting_place => {
            format!(", which another thread in {place} holds")
        }
        Some(place) => format!(", which {place} holds"),
    }
}

/// Returns what an owner does in a call: `it sleeps in fdatasync(2)`.
pub(super) fn sleeps(call: &Call) -> String {
    match call {
        Call::PageFault => "its memory is read in".to_owned(),
        _ => format!("it {}", away(call)),
    }
}

/// Returns the activity of an owner in that call, as a verb without a subject.
pub(super) fn away(call: &Call) -> String {
    match call {
        Call::System(name) => format!("sleeps in {name}(2)"),
        Call::Unseen => "sleeps in a system call".to_owned(),
        Call::PageFault => "reads its memory in".to_owned(),
        Call::Futex => "waits in futex(2) for something else".to_owned(),
        Call::OtherThread(None) => "waits for another thread".to_owned(),
        Call::OtherThread(Some(name)) => format!("waits for another thread (`{name}`)"),
        Call::GoScheduler => format!("sleeps in {}", convoy_record::PARKED),
    }
}
