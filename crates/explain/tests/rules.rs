//! Rules of the diagnoses that weigh evidence, each with records on both sides of the rule.

mod made;

use convoy_explain::verdict;
use convoy_record::{Cause, Doing, Kind, Lock, Process, Site};
use made::{cause, mutex, process, record, seen, site, times};

#[test]
fn a_reader_that_waits_in_turn_is_not_the_one_that_all_wait_for() {
    fn said(act: &str) -> String {
        let mut lock = mutex();
        lock.kind = Kind::Rwlock;
        let owners = vec![seen(Doing::Sleeps, "futex(2)", 60), seen(Doing::Runs, "", 40)];
        let one = Cause { kind: Kind::Rwlock, held_act: act.to_owned(), ..cause(0.2, owners) };
        verdict(&record(process(lock, one)))
    }
    assert!(said("write").contains("waits in futex(2)"), "{}", said("write"));
    assert!(!said("read").contains("futex(2)"), "{}", said("read"));
}

#[test]
fn a_spinlock_of_the_kernel_needs_more_weight() {
    fn said(kernel: &str, kind: Kind) -> String {
        let at = "exit_to_user_mode_loop";
        let wait = Site { contended: 1000, wait: times(1000, 50e-6), ..site(at, "lock", 1000) };
        let (kernel, sites) = (kernel.to_owned(), vec![wait]);
        let lock = Lock { name: at.to_owned(), kind, kernel, sites, ..Lock::default() };
        let process = Process { pid: 7, seconds: 1.0, threads: 2, ..Process::default() };
        verdict(&record(Process { kernel_locks: vec![lock], ..process }))
    }
    assert!(!said("spinlock", Kind::Spinlock).contains("kernel's"));
    assert!(said("rwsem", Kind::Rwlock).contains("the kernel's rwsem"));
}

#[test]
fn notify_all_of_java_is_told_from_threads_that_wake_each_other() {
    fn said(place: &str, passed: u64) -> String {
        let wait = Site {
            futile: 18_000,
            passed,
            wait: times(20_000, 1e-3),
            ..site(place, "wait", 20_000)
        };
        let signal = site("ObjectMonitor::ExitEpilog", "signal", 20_000);
        let (kind, sites) = (Kind::Condition, vec![wait, signal]);
        let lock = Lock { name: "condition of a".to_owned(), kind, sites, ..Lock::default() };
        let java = Process { pid: 7, seconds: 1.0, cpu_s: 1.0, threads: 16, ..Process::default() };
        verdict(&record(Process { locks: vec![lock], ..java }))
    }
    let herd = said("ObjectMonitor::wait+0x905 (libjvm.so)", 15_000);
    assert!(herd.contains("notifyAll()") && herd.contains("Call notify()"), "{herd}");
    for (place, passed) in [("ObjectMonitor::wait+0x905 (libjvm.so)", 300), ("ring.c:7", 19_000)] {
        assert!(!said(place, passed).contains("herd"), "{}", said(place, passed));
    }
}

#[test]
fn a_semaphore_that_several_threads_hold_is_a_limit() {
    fn said(holds: u64) -> String {
        let held = times(holds, 3e-3);
        let wait = Site { hold_off: held, wait: times(200, 5e-3), ..site("query", "lock", 600) };
        let owners = vec![seen(Doing::Sleeps, "recvfrom(2)", 90)];
        let lock = Lock { kind: Kind::Semaphore, sites: vec![wait], ..mutex() };
        verdict(&record(process(lock, Cause { kind: Kind::Semaphore, ..cause(0.2, owners) })))
    }
    let pool = said(1000);
    assert!(pool.contains("3.0 threads have one of its units, for 3.00 ms each"), "{pool}");
    assert!(pool.contains("with more units"), "{pool}");
    assert!(said(300).contains("while it sleeps in recvfrom(2)"), "{}", said(300));
}

#[test]
fn threads_that_sleep_in_flock_wait_for_the_lock_of_a_file() {
    fn said(waits: u64) -> String {
        let activity =
            vec![seen(Doing::Sleeps, "flock(2)", waits), seen(Doing::Sleeps, "read(2)", 100)];
        let process = Process { pid: 7, seconds: 1.0, threads: 4, looks: 50, ..Process::default() };
        verdict(&record(Process { activity, ..process }))
    }
    assert!(said(300).contains("75 % of their time in flock(2)"), "{}", said(300));
    assert!(!said(1).contains("lock of a file"), "{}", said(1));
}
