//! Locks that call futex(2) through libc's `syscall`, as those in Rust do: this test program is
//! recorded while it runs one of its tests. No test needs more rights than a user has.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use convoy_record::{Cause, DIRECTORY, Kind, Lock, Origin, Pending, Process, launch, raw};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, RwLock};
use std::thread::{scope, sleep};
use std::time::Duration;

const LONG: Duration = Duration::from_millis(2);
const SHORT: Duration = Duration::from_micros(200);
const ROUNDS: usize = 60;

static LEDGER: Mutex<u64> = Mutex::new(0);
static TABLE: RwLock<u64> = RwLock::new(0);
static QUEUE: Mutex<usize> = Mutex::new(0);
static FILLED: Condvar = Condvar::new();
static POOL: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
static OUT: Mutex<u64> = Mutex::new(0);
static ENDS: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn sync_ledger() {
    let mut held = LEDGER.lock().expect("no thread panics");
    sleep(LONG);
    *held += 1;
}

#[inline(never)]
fn append_to_ledger() {
    *LEDGER.lock().expect("no thread panics") += 1;
}

#[inline(never)]
fn write_table() {
    let mut held = TABLE.write().expect("no thread panics");
    sleep(LONG);
    *held += 1;
}

#[inline(never)]
fn read_table() {
    assert!(*TABLE.read().expect("no thread panics") < 1 << 40);
}

#[inline(never)]
fn fill_queue() {
    *QUEUE.lock().expect("no thread panics") += 1;
    FILLED.notify_one();
}

#[inline(never)]
fn empty_queue() {
    let mut left = QUEUE.lock().expect("no thread panics");
    while *left == 0 {
        left = FILLED.wait(left).expect("no thread panics");
    }
    *left -= 1;
}

#[inline(never)]
fn clean_pool() {
    let mut held = POOL.lock();
    sleep(LONG);
    *held += 1;
}

#[inline(never)]
fn take_from_pool() {
    *POOL.lock() += 1;
}

/// One thread holds a lock for long, and three threads need it for a moment.
fn contend(holds: impl Fn(), needs: impl Fn() + Sync) {
    scope(|all| {
        for _ in 0..3 {
            all.spawn(|| {
                while !ENDS.load(Ordering::Relaxed) {
                    needs();
                    sleep(SHORT);
                }
            });
        }
        for _ in 0..ROUNDS {
            holds();
            sleep(SHORT);
        }
        ENDS.store(true, Ordering::Relaxed);
    });
}

#[test]
#[ignore = "runs as the process of another test"]
fn mutex() {
    contend(sync_ledger, append_to_ledger);
}

#[test]
#[ignore = "runs as the process of another test"]
fn rwlock() {
    contend(write_table, read_table);
}

#[test]
#[ignore = "runs as the process of another test"]
fn condvar() {
    scope(|all| {
        all.spawn(|| (0..ROUNDS).for_each(|_| empty_queue()));
        for _ in 0..ROUNDS {
            sleep(SHORT);
            fill_queue();
        }
    });
}

#[test]
#[ignore = "runs as the process of another test"]
fn parking() {
    contend(clean_pool, take_from_pool);
}

/// Two threads acquire two locks in opposite orders, and the program ends while they wait.
#[test]
#[ignore = "runs as the process of another test"]
fn orders() {
    fn both(one: &'static Mutex<u64>, other: &'static Mutex<u64>) {
        let _one = one.lock();
        sleep(10 * LONG);
        let _other = other.lock();
    }
    std::thread::spawn(|| both(&LEDGER, &OUT));
    std::thread::spawn(|| both(&OUT, &LEDGER));
    sleep(Duration::from_millis(200));
}

#[test]
fn waits_that_do_not_end_name_their_locks() {
    let pending = record("orders").pending;
    let is_left = |name: &str| {
        let waits = |one: &&Pending| one.lock.contains(name) && one.act == "lock";
        pending.iter().filter(waits).all(|one| one.wait_s > 0.1)
            && pending.iter().filter(waits).count() == 1
    };
    assert!(is_left("LEDGER") && is_left("OUT"), "{pending:#?}");
}

/// Runs one of the tests above as a recorded program.
fn record(test: &str) -> Process {
    let name = format!("futexes-{test}-{}", std::process::id());
    let files = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let object = launch::object().expect("the object can be written");
    let own = std::env::current_exe().expect("a test has a file");
    let words = ["--ignored", "--exact", test].map(Into::into);
    let all: Vec<std::ffi::OsString> = std::iter::once(own.into()).chain(words).collect();
    let mut command = launch::command(&all, &object);
    let output = command.env(DIRECTORY, &files).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let mut processes = raw::read(&files).expect("the files can be read");
    std::fs::remove_dir_all(files).expect("it goes away");
    assert_eq!(processes.len(), 1, "{processes:#?}");
    processes.remove(0)
}

fn find<'a>(process: &'a Process, name: &str) -> &'a Lock {
    let found = process.futexes.iter().find(|lock| lock.name.contains(name));
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", process.futexes))
}

/// Returns the lock with this name for which `waits` waited, and the part of these waits that is
/// known to have ended because `holds` woke the thread.
fn blamed<'a>(process: &'a Process, name: &str, waits: &str, holds: &str) -> (&'a Lock, f64) {
    let lock = find(process, name);
    assert!(lock.is_lock() && lock.instances >= 1, "{lock:#?}");
    let site = lock.sites.iter().find(|site| site.place.contains(waits));
    let site = site.unwrap_or_else(|| panic!("no {waits} in {lock:#?}"));
    assert!(site.wait.count > 10 && site.wait.total_s > 0.01, "{site:#?}");
    let of = |cause: &&Cause| cause.lock == lock.name && cause.place.contains(waits);
    let sum = |of: &dyn Fn(&&Cause) -> bool| -> f64 {
        process.causes.iter().filter(of).map(|cause| cause.wait_s).sum()
    };
    let all = sum(&of);
    assert!(all > 0.9 * site.wait.total_s, "{all} of {site:#?}");
    (lock, sum(&|cause| of(cause) && cause.held_at.contains(holds)) / all)
}

#[test]
fn a_mutex_of_rust_is_recorded_with_its_places_and_its_holder() {
    let process = record("mutex");
    let (lock, part) = blamed(&process, "LEDGER", "append_to_ledger", "sync_ledger");
    assert_eq!((lock.kind, lock.origin), (Kind::Mutex, Origin::Rust));
    assert!(part > 0.5, "{part} of {:#?}", process.causes);
    let waited: Vec<f64> = lock.sites.iter().map(|site| site.wait.max_s).collect();
    assert!(waited.iter().any(|most| *most > 0.001), "{waited:?}");
}

#[test]
fn a_reader_writer_lock_of_rust_tells_readers_from_writers() {
    let process = record("rwlock");
    let (lock, part) = blamed(&process, "TABLE", "read_table", "write_table");
    assert_eq!(lock.kind, Kind::Rwlock);
    assert!(part > 0.5, "{part} of {:#?}", process.causes);
    let acts = |place: &str| -> Vec<&str> {
        let sites = lock.sites.iter().filter(|site| site.place.contains(place));
        sites.map(|site| site.act.as_str()).collect()
    };
    assert_eq!(acts("read_table"), ["read"], "{lock:#?}");
    assert!(acts("write_table").iter().all(|act| *act == "write"), "{lock:#?}");
}

#[test]
fn a_condition_of_rust_has_no_owner() {
    let process = record("condvar");
    let filled = find(&process, "FILLED");
    assert_eq!((filled.kind, filled.is_lock()), (Kind::Condition, false), "{filled:#?}");
    assert!(filled.sites.iter().all(|site| site.place.contains("empty_queue")), "{filled:#?}");
    assert!(process.causes.iter().all(|cause| cause.lock != filled.name), "{:#?}", process.causes);
}

#[test]
fn a_lock_whose_waiters_park_is_named_by_its_place() {
    let process = record("parking");
    let (lock, part) = blamed(&process, "take_from_pool", "take_from_pool", "clean_pool");
    assert_eq!((lock.kind, lock.instances), (Kind::Mutex, 1), "{lock:#?}");
    assert_eq!(lock.origin, Origin::Library);
    assert!(part > 0.5, "{part} of {:#?}", process.causes);
}
