//! Rules of the diagnoses that weigh evidence, each with records on both sides of the rule.

mod made;

use convoy_explain::verdict;
use convoy_record::{Cause, Doing, Kind, Lock, Process, Site};
use made::{cause, mutex, process, record, seen, site, times};

#[test]
fn a_reader_that_waits_in_turn_is_not_the_one_that_all_wait_for() {
    let said = |act: &str| {
        let mut lock = mutex();
        lock.kind = Kind::Rwlock;
        let owners = vec![seen(Doing::Sleeps, "futex(2)", 60), seen(Doing::Runs, "", 40)];
        let one = Cause { kind: Kind::Rwlock, held_act: act.to_owned(), ..cause(0.2, owners) };
        verdict(&record(process(lock, one)))
    };
    assert!(said("write").contains("waits in futex(2)"), "{}", said("write"));
    assert!(!said("read").contains("futex(2)"), "{}", said("read"));
}

#[test]
fn a_spinlock_of_the_kernel_needs_more_weight() {
    let said = |kernel: &str, kind: Kind| {
        let at = "exit_to_user_mode_loop";
        let wait = Site { contended: 1000, wait: times(1000, 50e-6), ..site(at, "lock", 1000) };
        let (kernel, sites) = (kernel.to_owned(), vec![wait]);
        let lock = Lock { name: at.to_owned(), kind, kernel, sites, ..Lock::default() };
        let process = Process { pid: 7, seconds: 1.0, threads: 2, ..Process::default() };
        verdict(&record(Process { kernel_locks: vec![lock], ..process }))
    };
    assert!(!said("spinlock", Kind::Spinlock).contains("kernel's"));
    assert!(said("rwsem", Kind::Rwlock).contains("the kernel's rwsem"));
}
