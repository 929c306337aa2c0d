//! Rules on Java: monitors, locks of `java.util.concurrent` and pools, by thread dumps.

use convoy_diagnose::{Cure, Finding, Gap, Kind, Problem, Quiet, Wakers};
use convoy_record::{Blocked, Java, JavaWait, Kind as Primitive, Lock, Origin, Process, Site};

use crate::made::{mutex, record, site, times};
use crate::{first, quiet};

#[test]
fn a_class_of_the_program_named_as_one_of_java_is_not_java() {
    fn waits(place: &str) -> Quiet {
        let sites = vec![Site { wait: times(20, 0.5), ..site(place, "wait", 20) }];
        let (name, kind) = ("condition of work".to_owned(), Primitive::Condition);
        let lock = Lock { name, kind, instances: 1, sites, ..Lock::default() };
        quiet(&record(Process { locks: vec![lock], seconds: 1.0, ..Process::default() }))
    }
    for (place, is_java) in [
        ("Parker::park (parker.cc:12)", false),
        ("PlatformEvent::park+0x20", false),
        ("Parker::park+0x90 (libjvm.so)", true),
        ("PlatformEvent::park+0x20 (libjvm.so)", true),
    ] {
        let gap = waits(place).gap;
        assert_eq!(matches!(gap, Some(Gap::JavaWaits { .. })), is_java, "{place}: {gap:?}");
    }
}

#[test]
fn threads_of_the_virtual_machine_and_sleeps_are_no_waits_of_the_program() {
    fn longest(places: [&str; 2]) -> Option<String> {
        let locks = places.into_iter().zip([0.09, 0.05]).map(|(place, each_s)| {
            let sites = vec![Site { wait: times(40, each_s), ..site(place, "wait", 40) }];
            let (name, kind) = (format!("condition of {place}"), Primitive::Condition);
            Lock { name, kind, instances: 1, sites, ..Lock::default() }
        });
        let locks = locks.collect();
        let process = Process { locks, threads: 9, seconds: 1.0, ..Process::default() };
        quiet(&record(process)).condition.map(|waits| waits.lock)
    }
    let queue = "take (queue.cc:8)";
    let of_queue = Some(format!("condition of {queue}"));
    assert_eq!(longest(["os::PlatformMonitor::wait+0x60 (libjvm.so)", queue]), of_queue);
    assert_eq!(longest(["JavaThread::sleep+0xae (libjvm.so)", queue]), of_queue);
    assert_ne!(longest(["JavaThread::sleep (threads.cc:9)", queue]), of_queue);
}

/// A process whose threads parked for two seconds, and these waits in thread dumps.
fn parked(dumps: u64, waits: Vec<JavaWait>) -> Process {
    let place = "Parker::park+0x90 (libjvm.so)";
    let signals = Site { threads: 12, ..site("Unsafe_Unpark (libjvm.so)", "signal", 400) };
    let sites = vec![Site { wait: times(400, 5e-3), ..site(place, "wait", 400) }, signals];
    let (name, kind) = (format!("condition of {place}"), Primitive::Condition);
    let lock = Lock { name, kind, instances: 4, sites, ..Lock::default() };
    let java = Java { dumps, waiters: 4, waits, ..Java::default() };
    let process = Process { pid: 7, seconds: 1.0, threads: 9, ..Process::default() };
    Process { locks: vec![lock], java: Some(java), ..process }
}

fn java_wait(blocked: Blocked, count: u64, dumps: u64) -> JavaWait {
    let (class, place) = ("java.util.concurrent.X".to_owned(), "Db.ask (Db.java:7)".to_owned());
    let holder = "Db.ask (Db.java:8)".to_owned();
    JavaWait { blocked, class, place, holder, count, dumps, ..JavaWait::default() }
}

#[test]
fn a_few_thread_dumps_show_what_parked_threads_wait_for() {
    fn with(dumps: u64, count: u64, with_wait: u64) -> Option<Finding> {
        first(parked(dumps, vec![java_wait(Blocked::Lock, count, with_wait)]))
    }
    fn without(dumps: u64) -> Option<Gap> {
        quiet(&record(parked(dumps, Vec::new()))).gap
    }
    let finding = with(3, 9, 3).expect("three threads wait in each dump");
    assert_eq!((finding.kind(), &finding.gaps[..]), (Kind::RuntimeLock, &[][..]));
    assert!(finding.cost_s <= 2.0 + 1e-9, "not more than they parked: {}", finding.cost_s);
    let finding = with(1, 3, 1).expect("three threads wait");
    assert_eq!(finding.gaps, [Gap::FewDumps]);
    assert!(with(3, 1, 1).is_none(), "one wait in three dumps");
    assert!(matches!(without(1), Some(Gap::JavaWaits { .. })), "{:?}", without(1));
    assert_eq!(without(3), None, "three dumps, and no thread waits for a lock");
    let mut process = parked(1, Vec::new());
    let place = "os::PlatformMonitor::wait+0x60 (libjvm.so)";
    let sites = vec![Site { wait: times(400, 9e-3), ..site(place, "wait", 400) }];
    let (name, kind) = (format!("condition of {place}"), Primitive::Condition);
    process.locks.push(Lock { name, kind, instances: 4, sites, ..Lock::default() });
    let gap = quiet(&record(process)).gap;
    assert!(matches!(gap, Some(Gap::JavaWaits { .. })), "other threads of the machine: {gap:?}");
}

#[test]
fn a_semaphore_of_java_is_a_pool_if_others_have_its_permits_whenever_a_thread_waits() {
    fn pool(units: u64, units_max: u64, without: u64) -> Option<Finding> {
        let waits = java_wait(Blocked::Permit, 30, 10);
        let held = JavaWait { units, units_max, ..waits.clone() };
        let free = JavaWait { holder: String::new(), count: without, dumps: without, ..waits };
        first(parked(10 + without, vec![held, free]))
    }
    let finding = pool(20, 2, 0).expect("two of the threads are admitted");
    let Problem::Java { monitor: Some(monitor), .. } = &finding.problem else {
        panic!("{finding:?}")
    };
    assert_eq!((finding.kind(), finding.cure()), (Kind::PoolExhausted, Cure::MoreUnits));
    assert_eq!(monitor.units, Some(2.0));
    assert!(pool(20, 2, 9).is_none(), "often no thread has a permit: a signal");
    assert!(pool(20, 5, 0).is_none(), "workers of a queue, few of which are busy");
}

#[test]
fn a_queue_of_java_is_a_pool_if_the_same_number_of_threads_has_its_elements() {
    fn with(units: u64, units_squared: u64, dumps: u64) -> Process {
        let waits = java_wait(Blocked::Queue, 3 * dumps, dumps);
        parked(dumps, vec![JavaWait { units, units_max: 4, units_squared, ..waits }])
    }
    let finding = first(with(30, 90, 10)).expect("three connections");
    assert_eq!((finding.kind(), finding.cure()), (Kind::PoolExhausted, Cure::MoreUnits));
    assert!(first(with(31, 97, 10)).is_some(), "four in one dump: a connection changes hands");
    assert!(first(with(20, 54, 10)).is_none(), "workers, more or less of which have work");
    assert!(first(with(9, 27, 3)).is_none(), "by chance, in three dumps");
    let mut pool = with(30, 90, 10);
    let sites =
        vec![Site { wait: times(4, 1e-6), ..site("Parker::park+0x1f (libjvm.so)", "lock", 9) }];
    pool.locks.push(Lock { sites, instances: 4, ..mutex() });
    assert!(first(pool).is_some(), "the mutex of a condition has no signals");
    let mut workers = with(30, 90, 10);
    workers.locks[0].sites[1].threads = 4;
    assert!(first(workers).is_none(), "one other thread gives them work");
    let condition = quiet(&record(with(20, 54, 10))).condition.expect("they wait for work");
    let named = (condition.lock.as_str(), condition.place.as_deref());
    assert_eq!(named, ("java.util.concurrent.X", Some("Db.ask (Db.java:7)")));
    let full = java_wait(Blocked::Room, 30, 10);
    let condition = quiet(&record(parked(10, vec![full]))).condition.expect("they wait for room");
    assert_eq!(condition.for_room, Some(3.0));
}

#[test]
fn notify_all_of_java_is_told_from_threads_that_wake_each_other() {
    fn herd(place: &str, passed: u64) -> Option<Finding> {
        let wait = Site {
            futile: 18_000,
            passed,
            wait: times(20_000, 1e-3),
            ..site(place, "wait", 20_000)
        };
        let signal = site("ObjectMonitor::ExitEpilog", "signal", 20_000);
        let (kind, sites) = (Primitive::Condition, vec![wait, signal]);
        let origin = Origin::JavaVm;
        let lock =
            Lock { name: "condition of a".to_owned(), kind, origin, sites, ..Lock::default() };
        let java = Process { pid: 7, seconds: 1.0, cpu_s: 1.0, threads: 16, ..Process::default() };
        first(Process { locks: vec![lock], ..java })
    }
    let java = herd("ObjectMonitor::wait+0x905 (libjvm.so)", 15_000).expect("a herd");
    let Problem::ThunderingHerd(found) = java.problem else { panic!("{java:?}") };
    assert_eq!(found.wakers, Wakers::NotifyAll);
    for (place, passed) in [("ObjectMonitor::wait+0x905 (libjvm.so)", 300), ("ring.c:7", 19_000)] {
        let kind = herd(place, passed).map(|finding| finding.kind());
        assert_ne!(kind, Some(Kind::ThunderingHerd), "{place}");
    }
}
