//! The diagnoses of made-up records: for each problem, a record that has it and a record that only
//! resembles it.

mod made;

use convoy_explain::{Diagnosis, Ill, diagnose, verdict};
use convoy_record::{
    Cause, Counted, Doing, Hot, JAVA, Kind, Lock, ONLY_SAMPLES, Pending, Process, Record,
    Scheduling, Seen, Site, Times, UNNAMED,
};
use made::{cause, mutex, process, record, seen, site, times};

fn ill(process: Process) -> Option<Ill> {
    diagnose(&record(process)).into_iter().find(Diagnosis::is_much).map(|one| one.ill)
}

#[test]
fn an_owner_that_sleeps_is_named_with_its_call() {
    let asleep = vec![seen(Doing::Sleeps, "fdatasync(2)", 40), seen(Doing::Runs, "", 60)];
    let said = verdict(&record(process(mutex(), cause(0.05, asleep.clone()))));
    for words in ["in append", "50 % of their time", "`log`", "which sync holds while it sleeps"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(said.contains("fdatasync(2) outside of the critical section"), "{said}");
    // The owner runs most of the time: its occasional sleeps are not the reason.
    assert_ne!(ill(process(mutex(), cause(0.9, asleep))), Some(Ill::OwnerAsleep));
}

#[test]
fn threads_that_an_event_loop_parks_are_told_from_threads_that_it_keeps_from_work() {
    fn said(section_s: f64, call: &str) -> String {
        let mut lock = mutex();
        lock.sites[0].hold_on = times(2000, section_s);
        let owners = vec![seen(Doing::Sleeps, call, 40), seen(Doing::Runs, "", 60)];
        verdict(&record(process(lock, cause(0.05, owners))))
    }
    let parked = said(40e-9, "epoll_wait(2)");
    assert!(parked.contains("release it at once. If the program parks them there"), "{parked}");
    for (section_s, call) in [(40e-6, "epoll_wait(2)"), (40e-9, "fdatasync(2)")] {
        let other = said(section_s, call);
        assert!(other.contains(call) && !other.contains("parks"), "{other}");
    }
}

#[test]
fn an_owner_that_lost_its_cpu_makes_a_convoy() {
    fn convoy(ran: f64) -> Process {
        // All threads do the same.
        let mut lock = mutex();
        lock.sites.truncate(1);
        lock.sites[0].hold_off = times(300, 3e-3);
        let one = cause(ran, vec![seen(Doing::Runs, "", 100)]);
        process(lock, Cause { held_at: "append".to_owned(), ..one })
    }
    assert_eq!(ill(convoy(0.1)), Some(Ill::OwnerPreempted));
    assert_eq!(ill(convoy(0.95)), Some(Ill::LongSection));
    // The hold times are unknown, but samples found the lock free.
    let mut free = convoy(0.1);
    free.causes[0].measured_s = 0.0;
    free.causes[0].owners = vec![seen(Doing::Free, "", 6)];
    assert!(verdict(&record(free)).contains("was to have it next had no CPU yet"));
}

#[test]
fn an_owner_that_leaves_its_cpu_in_each_short_section_sleeps() {
    fn woken(runs: u64) -> String {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, 150e-6);
        let owners = vec![seen(Doing::Woken, "", 17), seen(Doing::Runs, "", runs)];
        verdict(&record(process(lock, cause(0.25, owners))))
    }
    let said = |kept: u64, alone: Vec<Seen>| {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, 150e-6);
        lock.sites[1].hold_on = times(kept, 40e-6);
        // Too few samples during waits to find it asleep.
        let one = cause(0.25, vec![seen(Doing::Runs, "", 12), seen(Doing::Free, "", 4)]);
        verdict(&record(process(lock, Cause { alone, ..one })))
    };
    assert!(woken(1).contains("while it sleeps in a system call"), "{}", woken(1));
    assert!(woken(17).contains("had lost its CPU"), "{}", woken(17));
    let sync = || vec![seen(Doing::Sleeps, "fdatasync(2)", 3), seen(Doing::Runs, "", 9)];
    assert!(said(0, sync()).contains("while it sleeps in fdatasync(2)"), "{}", said(0, sync()));
    assert!(said(0, Vec::new()).contains("had lost its CPU"), "{}", said(0, Vec::new()));
    assert!(said(600, sync()).contains("had lost its CPU"), "{}", said(600, sync()));
}

#[test]
fn a_chain_names_the_other_lock() {
    let waits = vec![seen(Doing::Waits, "disk", 80), seen(Doing::Runs, "", 20)];
    let said = verdict(&record(process(mutex(), cause(0.1, waits))));
    assert!(said.contains("while it waits in") && said.contains("`disk`"), "{said}");
}

#[test]
fn a_hog_acquires_the_lock_again_while_others_wake_up() {
    fn hog(held_s: f64, again: u64) -> Process {
        let mut lock = mutex();
        lock.sites[1].hold_on = times(300, held_s / 300.0);
        lock.sites[1].hold_off = Times::default();
        let one = cause(0.95, vec![seen(Doing::Runs, "", 100)]);
        process(lock, Cause { again, ..one })
    }
    assert_eq!(ill(hog(0.9, 3000)), Some(Ill::Hog));
    // It sleeps between critical sections, and meanwhile the others acquire the lock.
    assert_eq!(ill(hog(0.9, 100)), Some(Ill::LongSection));
    assert_eq!(ill(hog(0.3, 0)), Some(Ill::LongSection));
}

#[test]
fn a_thread_that_waits_for_itself_until_a_time_limit_is_told_so() {
    fn said(own: u64) -> String {
        let one = cause(0.0, vec![seen(Doing::Waits, "log", 100)]);
        verdict(&record(process(mutex(), Cause { own, ..one })))
    }
    assert!(said(900).contains("which they hold themselves, acquired in sync"), "{}", said(900));
    assert!(!said(100).contains("themselves"), "{}", said(100));
}

#[test]
fn waits_for_the_mutex_of_a_herd_are_part_of_it() {
    let wait = Site { wait: times(20_000, 1e-3), futile: 18_000, ..site("append", "wait", 20_000) };
    let sites = vec![wait, site("dispatch", "signal", 1500)];
    let (name, kind) = ("work".to_owned(), Kind::Condition);
    let mut process = process(mutex(), cause(0.2, Vec::new()));
    process.locks.push(Lock { name, kind, instances: 1, sites, ..Lock::default() });
    assert_eq!(ill(process.clone()), Some(Ill::ThunderingHerd));
    process.locks[0].sites[0].place = "other".to_owned();
    assert_ne!(ill(process), Some(Ill::ThunderingHerd));
}

#[test]
fn a_section_that_takes_long_on_a_cpu_is_long_on_a_full_machine_too() {
    fn full(cpu_s: f64, ran: f64) -> Process {
        let mut lock = mutex();
        lock.sites[1].hold_on = times(20, cpu_s);
        process(lock, cause(ran, vec![seen(Doing::Runs, "", 100)]))
    }
    let said = verdict(&record(full(2e-3, 0.5)));
    assert!(said.contains("at a time; its owner had no CPU during 50 %"), "{said}");
    assert_eq!(ill(full(2e-3, 0.2)), Some(Ill::OwnerPreempted), "hardly anything else counts");
    assert_eq!(ill(full(50e-6, 0.5)), Some(Ill::OwnerPreempted));
}

#[test]
fn a_writer_starves_only_if_readers_overtake_it() {
    fn rwlock(again: u64, wait_s: f64) -> Process {
        let mut lock = mutex();
        lock.kind = Kind::Rwlock;
        lock.sites[0].act = "write".to_owned();
        lock.sites[0].wait = times(100, wait_s);
        lock.sites[1] = Site { hold_on: times(9000, 100e-6), ..site("sync", "read", 9000) };
        let one = cause(1.0, vec![seen(Doing::Runs, "", 50)]);
        let (act, held_act) = ("write".to_owned(), "read".to_owned());
        let (count, wait_s) = (100, 100.0 * wait_s);
        process(lock, Cause { act, held_act, count, wait_s, again, kind: Kind::Rwlock, ..one })
    }
    assert_eq!(ill(rwlock(2000, 9e-3)), Some(Ill::WriterStarvation));
    assert_ne!(ill(rwlock(10, 90e-6)), Some(Ill::WriterStarvation));
}

#[test]
fn locks_of_libc_come_with_advice_and_others_do_not() {
    let mut lock = mutex();
    lock.runtime = "localtime_r".to_owned();
    let said = verdict(&record(process(lock, Cause::default())));
    assert!(said.contains("libc's lock of the time zone, which localtime_r() takes"), "{said}");
    assert!(said.contains("once for each second"), "{said}");
    let mut lock = mutex();
    lock.runtime = "Java's monitors, `synchronized`".to_owned();
    assert_eq!(ill(process(lock, Cause::default())), Some(Ill::RuntimeLock));
}

#[test]
fn what_has_no_names_or_no_locks_comes_with_what_to_do() {
    let mut lock = mutex();
    lock.runtime = JAVA.to_owned();
    lock.sites[0].place = UNNAMED.to_owned();
    let said = verdict(&record(process(lock, Cause::default())));
    for words in
        ["Threads spent 50 %", "a volatile", "-XX:StartFlightRecording:", "convoy explain run.jfr"]
    {
        assert!(said.contains(words), "{said}");
    }
    let mut servers = record(Process::default());
    let waits = Site { wait: times(9, 1e-3), ..site("LWLockAcquire", "lock", 9) };
    let (name, kind) = ("condition of LWLockAcquire".to_owned(), Kind::Semaphore);
    let semaphore = Lock { name, kind, instances: 1, sites: vec![waits], ..Lock::default() };
    let server = |pid| Process {
        pid,
        command: vec!["/usr/bin/postgres".to_owned()],
        seconds: 1.0,
        threads: 1,
        locks: vec![semaphore.clone()],
        ..Process::default()
    };
    servers.processes = (1..=2).map(server).collect();
    assert!(!verdict(&servers).contains("pg_stat_activity"));
    servers.processes = (1..=3).map(server).collect();
    let said = verdict(&servers);
    assert!(said.starts_with("What waits cost is not known: 3 processes of postgres"), "{said}");
    let mut record = record(Process::default());
    record.unseen =
        vec![format!("{ONLY_SAMPLES} ./server is linked statically; record it as root.")];
    let said = verdict(&record);
    let expected =
        "What locks cost is not known: ./server is linked statically; record it as root.";
    assert_eq!(said, expected);
}

#[test]
fn goroutines_are_hidden_without_kernel_events() {
    fn said(place: &str, events: bool) -> String {
        let sites = vec![Site { wait: times(4, 0.3), ..site(place, "wait", 4) }];
        let name = "condition of the scheduler".to_owned();
        let lock = Lock { name, kind: Kind::Condition, instances: 1, sites, ..Lock::default() };
        let scheduling = events.then(Scheduling::default);
        verdict(&record(Process { scheduling, locks: vec![lock], ..Process::default() }))
    }
    let hidden = "What locks cost is not known: a look from outside does not show goroutines";
    assert!(said("runtime.futexsleep (os_linux.go:73)", false).starts_with(hidden));
    assert!(said("runtime.futexsleep (os_linux.go:73)", true).starts_with("Locks cost little"));
    assert!(said("sleeps", false).starts_with("Locks cost little"));
}

#[test]
fn a_herd_wakes_in_vain_and_a_phase_does_not() {
    fn herd(futile: u64) -> Process {
        let wait = Site { wait: times(20_000, 1e-3), futile, ..site("worker", "wait", 20_000) };
        let sites = vec![wait, site("dispatch", "signal", 1500)];
        let name = "work".to_owned();
        let lock = Lock { name, kind: Kind::Condition, instances: 1, sites, ..Lock::default() };
        process(lock, Cause::default())
    }
    assert_eq!(ill(herd(18_000)), Some(Ill::ThunderingHerd));
    assert_eq!(ill(herd(20)), None);
    // Short phases: the function that waits wakes all, and each of them leaves it.
    let barrier = |waker: &str, returned: u64| {
        let mut process = herd(18_000);
        process.locks[0].sites[0].returned = returned;
        process.locks[0].sites[1].place = waker.to_owned();
        ill(process)
    };
    assert_eq!(barrier("worker", 18_000), None);
    assert_eq!(barrier("dispatch", 18_000), Some(Ill::ThunderingHerd));
    assert_eq!(barrier("worker", 300), Some(Ill::ThunderingHerd), "they find nothing to do");
}

/// Only threads that wait reach the kernel: critical sections of 3 us that begin with a wait do not
/// make threads wait all the time.
#[test]
fn an_owner_that_the_kernel_does_not_show_is_not_known() {
    fn held(count: u64, seconds: f64) -> Process {
        let wait = times(2000, 4e-3);
        let lookup = Site {
            contended: 2000,
            wait,
            hold_on: times(2000, 3e-6),
            ..site("lookup", "lock", count)
        };
        let waiters = convoy_record::Waiters { seconds, ..Default::default() };
        let lock = Lock { waiters, sites: vec![lookup], ..mutex() };
        let mut process = process(Lock::default(), Cause::default());
        (process.locks, process.causes, process.futexes) = (Vec::new(), Vec::new(), vec![lock]);
        process
    }
    let said = verdict(&record(held(2000, 2.0)));
    assert!(
        said.contains("held for about 1.00 ms at a time by a thread that is not known"),
        "{said}"
    );
    // 20 us for each critical section with its wakeup.
    assert_eq!(ill(held(100_000, 2.0)), Some(Ill::ShortSections));
}

#[test]
fn a_herd_past_libc_does_next_to_nothing_between_two_wakeups() {
    fn herd(futile: u64, woken: u64, passed: u64) -> Process {
        let wait =
            Site { wait: times(20_000, 1e-3), futile, passed, ..site("worker", "wait", 20_000) };
        let notify = Site { contended: woken, ..site("push", "signal", 1500) };
        let sites = if woken > 0 { vec![wait, notify] } else { vec![wait] };
        let name = "condition of worker".to_owned();
        let lock = Lock { name, kind: Kind::Condition, instances: 1, sites, ..Lock::default() };
        let mut process = process(Lock::default(), Cause::default());
        (process.locks, process.futexes) = (Vec::new(), vec![lock]);
        process
    }
    let said = verdict(&record(herd(19_000, 19_500, 0)));
    let expected = "push broadcasts on a condition, and each of 1500 calls wakes 13 threads in \
                    worker, of which most find next to nothing to do and wait again (19000 \
                    times): a thundering herd.";
    assert!(said.starts_with(expected), "{said}");
    // First, work for all threads; then one item after the other, with a call for each.
    assert_eq!(ill(herd(2000, 19_500, 0)), None);
    assert_eq!(ill(herd(19_000, 0, 0)), None);
    // A library wakes the first thread, and each thread wakes the next.
    assert_eq!(ill(herd(19_000, 0, 18_000)), Some(Ill::ThunderingHerd));
    assert_eq!(ill(herd(19_000, 1000, 18_000)), Some(Ill::ThunderingHerd));
}

#[test]
fn readers_that_move_a_counter_are_told_without_waits() {
    fn readers(each_s: f64, threads: u64) -> Process {
        let acquire = times(5_000_000, each_s);
        let read = Site { acquire, threads, ..site("lookup", "read", 5_000_000) };
        let lock = Lock { name: "routes".to_owned(), kind: Kind::Rwlock, ..Lock::default() };
        process(Lock { sites: vec![read], ..lock }, Cause::default())
    }
    assert_eq!(ill(readers(90e-9, 4)), Some(Ill::ReaderCounter));
    assert_eq!(ill(readers(12e-9, 4)), None);
    assert_eq!(ill(readers(90e-9, 1)), Some(Ill::FalseSharing), "other threads write its line");
    // The line stays in one cache, but a large part of the CPU time is spent there.
    assert_eq!(ill(readers(24e-9, 4)), Some(Ill::ReaderCounter));
    let said = verdict(&record(readers(24e-9, 4)));
    assert!(said.contains("would move between CPUs if they ran"), "{said}");
}

#[test]
fn a_lock_of_one_thread_on_a_line_of_others_shares_it_falsely() {
    fn lock(name: &str, count: u64) -> Lock {
        let threads = 1;
        let lock = Site { acquire: times(count, 80e-9), threads, ..site(name, "lock", count) };
        Lock { name: name.to_owned(), sites: vec![lock], ..Lock::default() }
    }
    let two = |count: u64| {
        let mut process = process(lock("left", 2_000_000), Cause::default());
        process.locks.push(lock("right", count));
        process.neighbours = vec![vec!["left".to_owned(), "right".to_owned()]];
        process
    };
    let said = |process: Process| verdict(&record(process));
    assert!(said(two(2_000_000)).contains("`left` and `right` share a cache line"));
    // Another thread writes something else on the line.
    let one = || Process { neighbours: Vec::new(), ..two(100) };
    assert!(said(one()).contains("in left shares a cache line with data"), "{}", said(one()));
    // The line of a lock that two threads use has to move.
    let mut many = two(2_000_000);
    many.locks.iter_mut().for_each(|lock| lock.sites[0].threads = 2);
    assert_eq!(ill(many.clone()), None);
    // One lock for each thread, next to each other.
    many.locks[0].instances = 2;
    many.neighbours = vec![vec!["left".to_owned(), "left".to_owned()]];
    assert!(said(many.clone()).contains("acquire in left share cache lines"), "{}", said(many));
}

#[test]
fn loops_that_wait_are_told_by_samples_or_by_yields() {
    fn hot(spins: u64, atomics: u64) -> Process {
        let place = "acquire (spin.c:9)".to_owned();
        let hot = vec![Hot { place, count: 900, spins, atomics, ..Hot::default() }];
        let empty = process(mutex(), Cause::default());
        Process { hot, samples: 1000, locks: Vec::new(), causes: Vec::new(), ..empty }
    }
    assert_eq!(ill(hot(300, 0)), Some(Ill::Spinning));
    assert_eq!(ill(hot(0, 300)), Some(Ill::ReaderCounter));
    // A loop that computes.
    assert_eq!(ill(hot(3, 0)), None);
    // libc's internal locks do not need another mutex.
    let mut malloc = hot(600, 0);
    (malloc.hot[0].place, malloc.hot[0].library) =
        ("_int_free (malloc.c:9)".into(), "libc.so.6".into());
    assert_eq!(ill(malloc), None);
    let mut yields = hot(0, 0);
    yields.yields = vec![Counted { place: "acquire".to_owned(), count: 100_000 }];
    let said = verdict(&record(yields));
    assert!(said.contains("sched_yield(2) was called 100000 times"), "{said}");
}

#[test]
fn a_deadlock_comes_first_with_both_places() {
    let wait = |thread: u64, owner: u64, lock: &str, place: &str, held_at: &str| Pending {
        thread,
        owner,
        lock: lock.to_owned(),
        place: place.to_owned(),
        held_at: held_at.to_owned(),
        act: "lock".to_owned(),
        wait_s: 0.9,
        ..Pending::default()
    };
    let mut process = process(mutex(), cause(0.9, Vec::new()));
    process.pending =
        vec![wait(1, 2, "b", "transfer", "refund"), wait(2, 1, "a", "refund", "transfer")];
    let said = verdict(&record(process.clone()));
    let expected = "Deadlock: thread 1 waits in transfer for `b` and holds `a`, acquired in \
                    transfer; thread 2 waits in refund for `a` and holds `b`, acquired in refund. \
                    Acquire these locks in one order everywhere.";
    assert_eq!(said, expected);
    let mut python = process.clone();
    python.command = vec!["/usr/bin/python3".to_owned()];
    for wait in &mut python.pending {
        (wait.kind, wait.place) = (Kind::Semaphore, "python3.11+0x5899af".to_owned());
    }
    let said = verdict(&record(python));
    assert!(said.contains("the threads 1, 2 wait for each other"), "{said}");
    assert!(said.contains("py-spy dump") && !said.contains("+0x"), "{said}");
    // A queue behind a working owner is not a deadlock.
    process.pending.truncate(1);
    assert_ne!(ill(process), Some(Ill::Deadlock));
}

#[test]
fn what_costs_little_is_no_problem() {
    let mut lock = mutex();
    lock.sites[0].wait = times(10, 2e-3);
    let said = verdict(&record(process(lock, Cause::default())));
    assert!(said.starts_with("Locks cost little"), "{said}");
}

#[test]
fn a_lock_that_few_threads_wait_for_weighs_little_beside_the_work_of_many() {
    fn with(doing: Doing, what: &str) -> Process {
        let mut one = process(mutex(), cause(0.05, vec![]));
        one.locks[0].sites[0].wait = times(16, 5e-3);
        one.locks[0].sites[0].threads = 1;
        (one.looks, one.threads) = (20, 30);
        one.activity = vec![seen(doing, what, 500), seen(Doing::Runs, "", 20)];
        one
    }
    let busy = record(with(Doing::Sleeps, "fdatasync(2)"));
    assert!(verdict(&busy).starts_with("Locks cost little"), "{}", verdict(&busy));
    // The other threads are idle: the busy thread loses much of its time.
    let idle = record(with(Doing::Sleeps, "epoll_wait(2)"));
    assert!(verdict(&idle).contains("waiting for `log`"), "{}", verdict(&idle));
    assert!(diagnose(&busy)[0].weight.is_some_and(|weight| weight < 0.01));
}

#[test]
fn processes_that_wake_each_other_are_told_from_those_that_serve_one() {
    fn said(answered: u64) -> String {
        let one = |pid: u64| {
            let (woken_by_others, asleep_by_others_s) = (1000, 0.6);
            let scheduling = Scheduling {
                woken_by_others,
                wakes_others: answered,
                asleep_by_others_s,
                ..Scheduling::default()
            };
            Process {
                pid,
                command: vec!["/usr/bin/postgres".to_owned()],
                seconds: 1.0,
                threads: 1,
                scheduling: Some(scheduling),
                activity: vec![seen(Doing::Sleeps, "epoll_wait(2)", 60), seen(Doing::Runs, "", 40)],
                ..Process::default()
            }
        };
        let processes = (1..5).map(one).collect();
        verdict(&Record { processes, ..record(Process::default()) })
    }
    let mutual = said(1000);
    for words in ["4 of them (postgres) spent 60 %", "4000 times", "epoll_wait(2)", "pg_locks"] {
        assert!(mutual.contains(words), "{mutual}");
    }
    assert!(!said(10).contains("for each other: "), "{}", said(10));
}

#[test]
fn semaphores_of_several_processes_show_without_the_kernel() {
    fn one(pid: u64) -> Process {
        let wait = site("LWLockAcquire", "lock", 900);
        let wait = Site { contended: 900, wait: times(900, 2e-4), ..wait };
        let (name, kind) = ("condition of LWLockAcquire".to_owned(), Kind::Semaphore);
        let lock = Lock { name, kind, instances: 1, sites: vec![wait], ..Lock::default() };
        let command = vec!["postgres: writer".to_owned()];
        Process { pid, command, seconds: 1.0, threads: 1, locks: vec![lock], ..Process::default() }
    }
    let said = |count: u64| {
        let processes = (0..count).map(one).collect();
        verdict(&Record { processes, ..record(Process::default()) })
    };
    let four = said(4);
    for words in ["4 of them (postgres) spent 18 %", "in LWLockAcquire", "3600 waits"] {
        assert!(four.contains(words), "{four}");
    }
    assert!(!said(1).contains("Processes wait"), "{}", said(1));
}
