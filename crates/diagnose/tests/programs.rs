//! Records programs and checks the class of their first diagnosis. Each mode of `ills.c` shows one
//! cause of lost time, or resembles such a program without losing time.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "../../record/tests/common/place.rs"]
mod place;
#[path = "../../host/tests/common/skip.rs"]
mod skip;

use convoy_diagnose::{Call, Diagnosis, Finding, Kind, Problem, Subject};
use convoy_record::{DIRECTORY, Looks, Program, Record, Sampling, launch, raw};
use place::Place;
use skip::skip;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Records a program as `convoy record` does without root, with samples of CPU time where they are
/// permitted.
fn record(place: &Place, words: &[&str]) -> Record {
    let files = place.join("files");
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let sampling = Sampling::of_children();
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&words, &object);
    let mut child = command.env(DIRECTORY, &files).spawn().expect("the program starts");
    let mut looks = Looks::at(&files).with(sampling);
    while child.try_wait().expect("a child").is_none() {
        std::thread::sleep(looks.look().min(Duration::from_millis(20)));
    }
    let processes = raw::read_with(&files, &mut looks).expect("the files can be read");
    std::fs::remove_dir_all(&files).expect("they go away");
    let wall_s = processes.iter().fold(0.0, |most, one| one.seconds.max(most));
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let program = Program { wall_s, cpus, ..Program::default() };
    Record { program, processes, ..Record::default() }
}

/// Returns the finding that the first sentence is about.
fn first(record: &Record) -> Option<Finding> {
    Diagnosis::new(record).first().cloned()
}

/// Returns the record with another name for each function and each variable of the program.
fn renamed(record: &Record) -> Record {
    let mut text = serde_json::to_string(record).expect("a record is text");
    let locks = record.processes.iter().flat_map(|process| &process.locks);
    let places = locks.clone().flat_map(|lock| &lock.sites).map(|site| site.place.as_str());
    let functions = places.filter_map(|place| Some(place.split_once(" (ills.c:")?.0));
    for (number, function) in functions.collect::<BTreeSet<_>>().into_iter().enumerate() {
        text = text.replace(&format!("{function} (ills.c:"), &format!("q{number} (ills.c:"));
    }
    let variables: BTreeSet<&str> = locks.map(|lock| lock.name.as_str()).collect();
    let variables = variables.into_iter().filter(|name| !name.contains(' '));
    for (number, variable) in variables.enumerate() {
        text = text.replace(&format!(":\"{variable}\""), &format!(":\"v{number}\""));
    }
    Record::parse(&text, Path::new("renamed.json")).expect("a record")
}

#[test]
fn names_do_not_decide_kinds() {
    let place = Place::new();
    let program = place.compile("ills.c", &[]);
    for mode in ["asleep", "chain", "starves", "herd", "stdio", "abba", "pool"] {
        let record = record(&place, &[&program, mode, "0.4"]);
        let [kinds, renamed] = [&record, &renamed(&record)].map(|record| {
            let findings = Diagnosis::new(record).findings;
            findings.iter().map(Finding::kind).collect::<Vec<_>>()
        });
        assert!(!kinds.is_empty() && kinds == renamed, "{mode}: {kinds:?}, {renamed:?}");
    }
}

/// Records modes of `ills.c`, each for this number of seconds. The first diagnosis must be in the
/// list, unless the list is empty, and must not be the third element.
fn check(seconds: &str, modes: &[(&str, &[Kind], Option<Kind>)]) {
    let place = Place::new();
    let program = place.compile("ills.c", &[]);
    for (mode, expected, never) in modes {
        let finding = first(&record(&place, &[&program, mode, seconds]));
        let kind = finding.as_ref().map(Finding::kind);
        let is_expected = expected.is_empty() || kind.is_some_and(|kind| expected.contains(&kind));
        assert!(is_expected && (never.is_none() || kind != *never), "{mode}: {finding:?}");
    }
}

#[test]
fn owners_that_sleep_and_writers_that_starve_are_told_from_others() {
    let asleep = Some(Kind::OwnerAsleep);
    check(
        "0.7",
        &[
            ("asleep", &[Kind::OwnerAsleep], None),
            ("asleep-write", &[Kind::OwnerAsleep], None),
            ("chain", &[Kind::OwnerWaits, Kind::OwnerAsleep], None),
            ("not-asleep", &[], asleep),
            ("starves", &[Kind::WriterStarvation], None),
            ("not-starves", &[], Some(Kind::WriterStarvation)),
        ],
    );
}

#[test]
fn herds_and_locks_of_libc_are_told_from_others() {
    check(
        "0.7",
        &[
            ("herd", &[Kind::ThunderingHerd], None),
            ("not-herd", &[], Some(Kind::ThunderingHerd)),
            ("phases", &[], Some(Kind::ThunderingHerd)),
            ("stdio", &[Kind::LibcLock], None),
            ("zone", &[Kind::LibcLock], None),
            ("locale", &[Kind::LibcLock], None),
            ("input", &[], Some(Kind::OwnerAsleep)),
        ],
    );
}

#[test]
fn attempts_with_sleeps_and_counters_on_one_line_are_told_from_others() {
    check(
        "0.7",
        &[
            ("polls", &[Kind::Contended], None),
            ("not-polls", &[], Some(Kind::Contended)),
            ("counts", &[Kind::ReaderCounter], None),
            ("counts-apart", &[], Some(Kind::ReaderCounter)),
        ],
    );
}

#[test]
fn conditions_that_admit_some_threads_are_told_from_those_of_idle_threads() {
    check(
        "0.7",
        &[
            ("pool", &[Kind::PoolExhausted], None),
            ("flag", &[Kind::OwnerAsleep, Kind::LongSection], None),
        ],
    );
    let place = Place::new();
    let program = place.compile("ills.c", &[]);
    for mode in ["leader", "served", "phases"] {
        let record = record(&place, &[&program, mode, "0.7"]);
        let locks = record.processes.iter().flat_map(|process| &process.locks);
        let mut conditions = locks.filter(|lock| lock.kind == convoy_record::Kind::Condition);
        assert!(conditions.all(|lock| !lock.is_lock()), "{mode}: {:#?}", record.processes);
    }
}

/// `notifyAll` of Java makes each thread wake the next one. A ring does the same on purpose.
#[test]
fn a_thread_that_wakes_the_next_one_is_counted_and_is_no_herd() {
    let place = Place::new();
    let record = record(&place, &[&place.compile("ills.c", &[]), "ring", "0.5"]);
    let locks = record.processes.iter().flat_map(|process| &process.locks);
    let waits: Vec<_> =
        locks.flat_map(|lock| &lock.sites).filter(|one| one.act == "wait").collect();
    let passed: u64 = waits.iter().map(|site| site.passed).sum();
    let woken: u64 = waits.iter().map(|site| site.wait.count).sum();
    assert!(woken > 100 && 4 * passed > woken, "{passed} of {woken}: {waits:#?}");
    let mut findings = Diagnosis::new(&record).findings.into_iter();
    let herd = findings.find(|finding| finding.kind() == Kind::ThunderingHerd);
    assert!(herd.is_none(), "{herd:?}");
}

#[test]
fn deadlocks_are_told_from_long_waits() {
    check(
        "0.7",
        &[
            ("abba", &[Kind::Deadlock], None),
            ("units", &[Kind::Deadlock], None),
            ("twice", &[Kind::Deadlock], None),
            ("left", &[Kind::Deadlock], None),
            ("upgrade", &[Kind::Deadlock], None),
            ("join", &[Kind::Deadlock], None),
            ("itself", &[Kind::Deadlock], None),
            ("long-wait", &[], Some(Kind::Deadlock)),
        ],
    );
}

/// The results depend on which thread has a CPU, so a busy machine changes them.
#[test]
#[ignore = "needs CPUs of its own: cargo xtask nightly"]
fn what_owners_do_on_cpus_is_told() {
    check(
        "2",
        &[
            ("preempted", &[Kind::OwnerPreempted], None),
            ("long", &[Kind::LongSection, Kind::OwnerPreempted], None),
            ("hog", &[Kind::Hog], None),
            ("short", &[Kind::ShortSections, Kind::OwnerPreempted], None),
        ],
    );
}

#[test]
#[ignore = "needs CPUs of its own: cargo xtask nightly"]
fn loops_that_wait_are_told_from_loops_that_compute() {
    if let Some(reason) = Sampling::of_children().refused {
        return skip(&format!("CPU time cannot be sampled: {reason}"), false);
    }
    check(
        "2",
        &[
            ("spin", &[Kind::Spinning], None),
            ("spin-and-look", &[Kind::Spinning], None),
            ("spin-exchange", &[Kind::Spinning], None),
            ("own-locks", &[], Some(Kind::Spinning)),
            ("spin-yield", &[Kind::Spinning], None),
            ("tries", &[Kind::Spinning], None),
            ("computes", &[], Some(Kind::Spinning)),
        ],
    );
}

#[test]
fn the_interpreter_lock_of_python_is_named() {
    if Command::new("python3").arg("-V").output().is_err() {
        return skip("there is no Python", false);
    }
    let text = "import threading, time
end = time.time() + 1
def count():
    while time.time() < end: sum(range(1000))
all = [threading.Thread(target=count) for _ in range(3)]
[one.start() for one in all]; [one.join() for one in all]";
    let place = Place::new();
    let finding = first(&record(&place, &["python3", "-c", text]));
    assert!(finding.as_ref().is_some_and(|it| it.kind() == Kind::InterpreterLock), "{finding:?}");
}

/// Returns whether the version of Python is one of these, and says so if not.
fn is_python(versions: &[&str]) -> bool {
    let version = Command::new("python3").arg("-V").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let version = version.unwrap_or_default();
    let is_known = versions.iter().any(|known| version.contains(known));
    if !is_known {
        skip(&format!("no Python with known frames: {version}"), false);
    }
    is_known
}

/// Returns the first finding on a script of Python, which ends at the time `end`.
fn of_python(place: &Place, body: &str) -> Option<Finding> {
    let script = place.join("pool.py");
    let begin = "import threading, time\nend = time.time() + 1\n";
    std::fs::write(&script, format!("{begin}{body}")).expect("a script");
    first(&record(place, &["python3", script.to_str().expect("a path")]))
}

/// Each waiter of Python's conditions has a semaphore, up to version 3.12.
#[test]
fn a_semaphore_of_python_is_a_pool_and_the_end_of_a_thread_is_no_lock() {
    if !is_python(&["3.11.", "3.12."]) {
        return;
    }
    let place = Place::new();
    let pool = of_python(
        &place,
        "units = threading.BoundedSemaphore(2)
def query():
    while time.time() < end:
        with units: time.sleep(0.005)
for _ in range(8): threading.Thread(target=query).start()
",
    );
    let pool = pool.expect("threads wait for a unit");
    let Problem::PoolExhausted { in_use, .. } = pool.problem else { panic!("{pool:?}") };
    assert!((1.2..2.5).contains(&in_use), "{pool:?}");
    let waiters = pool.waiters.and_then(|waiters| waiters.place);
    assert_eq!(waiters.as_deref(), Some("query (pool.py:6)"));
    let ends = of_python(
        &place,
        "while time.time() < end:
    threads = [threading.Thread(target=time.sleep, args=(0.005,)) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
",
    );
    let kind = ends.as_ref().map(Finding::kind);
    assert!([None, Some(Kind::InterpreterLock)].contains(&kind), "{ends:?}");
}

#[test]
fn the_python_function_that_holds_a_lock_is_named() {
    if !is_python(&["3.11.", "3.12.", "3.13."]) {
        return;
    }
    let text = |held: &str| {
        format!(
            "import hashlib, threading, time; data = bytes(8000000)
class Ledger:
    def __init__(self):
        self.lock = threading.RLock()
    def settle(self):
        with self.lock:
            {held}
    def audit(self):
        self.lock.acquire()
        self.lock.release()
ledger = Ledger()
end = time.time() + 1
def repeat(what):
    while time.time() < end: what(); time.sleep(0.001)
all = [threading.Thread(target=repeat, args=(ledger.settle,))]
all += [threading.Thread(target=repeat, args=(ledger.audit,)) for _ in range(3)]
[one.start() for one in all]; [one.join() for one in all]
"
        )
    };
    let place = Place::new();
    let script = place.join("bank.py");
    let recorded = |held: &str| {
        std::fs::write(&script, text(held)).expect("a script");
        first(&record(&place, &["python3", script.to_str().expect("a path")]))
            .expect("threads wait for the lock")
    };
    let settle = Some("Ledger.settle (bank.py:6)");
    let asleep = recorded("time.sleep(0.02)");
    let Problem::OwnerAsleep { owner, call, .. } = &asleep.problem else {
        panic!("{asleep:?}");
    };
    assert!(matches!(call, Call::System(_) | Call::Unseen), "{asleep:?}");
    assert_eq!(owner.place.as_deref(), settle, "{asleep:?}");
    assert!(matches!(asleep.subject, Some(Subject::Python { .. })) && asleep.gaps.is_empty());
    let waiters = asleep.waiters.expect("threads wait");
    assert_eq!(waiters.place.as_deref(), Some("Ledger.audit (bank.py:9)"));
    // It computes without the interpreter's lock.
    let computing = recorded("hashlib.sha256(data).digest()");
    let Problem::LongSection { owner, .. } = &computing.problem else {
        panic!("{computing:?}");
    };
    assert_eq!(owner.place.as_deref(), settle, "{computing:?}");
}
