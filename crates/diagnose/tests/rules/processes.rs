//! Rules on processes, on locks of files, and on locks of the kernel.

use convoy_diagnose::{Call, Diagnosis, Finding, Gap, Kind, Problem, ProcessWaits, Verdict};
use convoy_record::{
    Cause, Doing, KernelObject, KernelWait, Kind as Primitive, Lock, Origin, Process, Record,
    Scheduling, Site, SystemLock,
};

use crate::made::{cause, mutex, process, record, seen, site, times};
use crate::{first, kind, problem};

#[test]
fn processes_that_wake_each_other_are_told_from_those_that_serve_one() {
    fn server(pid: u64, answered: u64, threads: u64) -> Process {
        let scheduling = Scheduling {
            woken_by_others: 1000,
            wakes_others: answered,
            asleep_by_others_s: 0.6,
            ..Scheduling::default()
        };
        Process {
            pid,
            command: vec!["/usr/bin/postgres".to_owned()],
            seconds: 1.0,
            threads,
            scheduling: Some(scheduling),
            activity: vec![seen(Doing::Sleeps, "epoll_wait(2)", 60), seen(Doing::Runs, "", 40)],
            ..Process::default()
        }
    }
    fn first(answered: u64, threads: u64) -> Option<Finding> {
        let processes = (1..5).map(|pid| server(pid, answered, threads)).collect();
        let record = Record { processes, ..record(Process::default()) };
        Diagnosis::new(&record).first().cloned()
    }
    let mutual = first(1000, 1).expect("they wait for each other");
    assert!(mutual.share.is_some_and(|share| (share - 0.6).abs() < 1e-9), "{mutual:?}");
    let Problem::Processes { waits, processes: 4, program, sleeps } = mutual.problem else {
        panic!("{mutual:?}");
    };
    assert_eq!(waits, ProcessWaits::Wakeups { wakeups: 4000 });
    assert_eq!((program.as_str(), sleeps[0].0.as_str()), ("postgres", "epoll_wait(2)"));
    assert!(first(10, 1).is_none());
    assert!(first(1000, 400).is_none(), "signals that end their threads");
}

#[test]
fn semaphores_of_several_processes_show_without_the_kernel() {
    fn server(pid: u64) -> Process {
        let wait = site("LWLockAcquire", "lock", 900);
        let wait = Site { contended: 900, wait: times(900, 2e-4), ..wait };
        let (name, kind) = ("condition of LWLockAcquire".to_owned(), Primitive::Semaphore);
        let lock = Lock { name, kind, instances: 1, sites: vec![wait], ..Lock::default() };
        let command = vec!["postgres: writer".to_owned()];
        Process { pid, command, seconds: 1.0, threads: 1, locks: vec![lock], ..Process::default() }
    }
    fn first(count: u64) -> Option<Finding> {
        let processes = (0..count).map(server).collect();
        let record = Record { processes, ..record(Process::default()) };
        Diagnosis::new(&record).first().cloned()
    }
    let four = first(4).expect("they wait for each other");
    let Problem::Processes { waits: ProcessWaits::Semaphores { place, waits }, .. } = four.problem
    else {
        panic!("{four:?}");
    };
    assert_eq!((place.as_str(), waits), ("LWLockAcquire", 3600));
    assert!(first(1).is_none());
}

#[test]
fn a_reader_that_waits_in_turn_is_not_the_one_that_all_wait_for() {
    fn is_asleep(act: &str) -> bool {
        let mut lock = mutex();
        lock.kind = Primitive::Rwlock;
        let owners = vec![seen(Doing::Sleeps, "futex(2)", 60), seen(Doing::Runs, "", 40)];
        let waits = cause(0.2, owners);
        let waits = Cause { kind: Primitive::Rwlock, held_act: act.to_owned(), ..waits };
        matches!(problem(process(lock, waits)), Problem::OwnerAsleep { call: Call::Futex, .. })
    }
    assert!(is_asleep("write") && !is_asleep("read"));
}

#[test]
fn an_owner_in_futex_2_may_wait_for_this_lock_again_if_its_sections_are_short() {
    fn is_asleep(hold_s: f64) -> bool {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, hold_s);
        let owners = vec![seen(Doing::Sleeps, "futex(2)", 60), seen(Doing::Runs, "", 40)];
        let problem = problem(process(lock, cause(0.2, owners)));
        matches!(problem, Problem::OwnerAsleep { call: Call::Futex, .. })
    }
    assert!(is_asleep(3e-3) && !is_asleep(4e-6));
}

#[test]
fn an_owner_that_runs_python_code_waits_in_futex_2_for_the_interpreter() {
    fn interpreter(wait_s: f64) -> Option<f64> {
        let (origin, kind) = (Origin::Python, Primitive::Semaphore);
        let mut lock = Lock { origin, kind, given_by_owner: 300, ..mutex() };
        lock.sites.iter_mut().for_each(|site| site.place = "h (p.py:92)".to_owned());
        let owners = vec![seen(Doing::Sleeps, "futex(2)", 60), seen(Doing::Runs, "", 40)];
        let waits = cause(0.2, owners);
        let (place, held_at) = ("h (p.py:92)".to_owned(), "h (p.py:92)".to_owned());
        let waits = Cause { kind: Primitive::Semaphore, place, held_at, ..waits };
        let (name, origin) = ("_PyRuntime".to_owned(), Origin::PythonInterpreter);
        let wait = times(20, wait_s);
        let gil =
            Lock { name, origin, sites: vec![Site { wait, ..site("f", "lock", 20) }], ..mutex() };
        let mut process = process(lock, waits);
        process.locks.push(gil);
        match problem(process) {
            Problem::LongSection { interpreter, .. } => interpreter,
            problem => panic!("{problem:?}"),
        }
    }
    assert!(interpreter(1e-4).is_some_and(|part| (part - 0.6).abs() < 0.01));
    assert_eq!(interpreter(0.0), None);
}

#[test]
fn processes_show_by_their_own_holds_what_the_owner_of_a_semaphore_does() {
    fn worker(pid: u64, asleep: u64) -> Process {
        let hold_off = times(100, 2.5e-3);
        let wait = Site {
            threads: 1,
            contended: 100,
            wait: times(100, 7.5e-3),
            hold_off,
            ..site("acquire", "lock", 100)
        };
        let (name, kind) = ("lock of acquire".to_owned(), Primitive::Semaphore);
        let lock = Lock {
            name,
            kind,
            instances: 1,
            given_by_owner: 100,
            sites: vec![wait],
            ..Lock::default()
        };
        let activity = vec![seen(Doing::Waits, "", 30), seen(Doing::Sleeps, "fsync(2)", asleep)];
        let (looks, seconds, threads) = (40, 1.0, 1);
        Process { pid, seconds, threads, looks, activity, locks: vec![lock], ..Process::default() }
    }
    fn first(asleep: u64) -> Option<Problem> {
        let processes = (1..5).map(|pid| worker(pid, asleep)).collect();
        let record = Record { processes, ..record(Process::default()) };
        Diagnosis::new(&record).first().map(|finding| finding.problem.clone())
    }
    let Some(Problem::OwnerAsleep { call, .. }) = first(10) else { panic!("{:?}", first(10)) };
    assert_eq!(call, Call::System("fsync".to_owned()));
    let unknown = first(1);
    assert!(matches!(unknown, Some(Problem::LongSection { .. })), "a rare sleep: {unknown:?}");
}

#[test]
fn a_spinlock_of_the_kernel_needs_more_weight() {
    fn kernel(kernel: &str, primitive: Primitive, threads: u64) -> Option<Kind> {
        let place = "exit_to_user_mode_loop";
        let (contended, wait) = (1000, times(1000, 50e-6));
        let wait = Site { contended, threads, wait, ..site(place, "lock", 1000) };
        let (name, kernel, sites) = (place.to_owned(), kernel.to_owned(), vec![wait]);
        let lock = Lock { name, kind: primitive, kernel, sites, ..Lock::default() };
        let process = Process { pid: 7, seconds: 1.0, threads: 2, ..Process::default() };
        kind(Process { kernel_locks: vec![lock], ..process })
    }
    assert_eq!(kernel("spinlock", Primitive::Spinlock, 2), None);
    assert_eq!(kernel("rwsem", Primitive::Rwlock, 2), Some(Kind::KernelLock));
    assert_eq!(kernel("rwsem", Primitive::Rwlock, 8), None, "0.6 % of their time");
}

#[test]
fn sleeps_for_locks_of_the_kernel_are_found_without_kernel_events() {
    fn diagnosis(object: KernelObject, samples: u64, events: bool) -> Diagnosis {
        let call = "rename(2)".to_owned();
        let activity = vec![seen(Doing::Sleeps, &call, 200), seen(Doing::Runs, "", 200)];
        let places = [("rotate (log.c:7)", samples - samples / 4), ("", samples / 4)];
        let kernel_waits = places.map(|(place, samples)| {
            let (place, call) = (place.to_owned(), call.clone());
            KernelWait { call, object, place, samples }
        });
        let kernel_waits = kernel_waits.to_vec();
        let scheduling = events.then(Scheduling::default);
        let process =
            Process { pid: 7, seconds: 1.0, looks: 100, threads: 4, ..Process::default() };
        Diagnosis::new(&record(Process { activity, kernel_waits, scheduling, ..process }))
    }
    let found = diagnosis(KernelObject::Directory, 200, false);
    let first = found.first().expect("half of the time");
    assert!(first.kind() == Kind::KernelLock && (first.cost_s - 2.0).abs() < 1e-9, "{first:?}");
    assert!(first.share.is_some_and(|share| (share - 0.5).abs() < 0.1), "{first:?}");
    let place = first.waiters.as_ref().and_then(|waiters| waiters.place.as_deref());
    assert_eq!(place, Some("rotate (log.c:7)"), "{first:?}");
    assert!(diagnosis(KernelObject::Directory, 200, true).first().is_none(), "events time it");
    assert!(diagnosis(KernelObject::Directory, 5, false).first().is_none(), "too few");
    let Verdict::Quiet(quiet) = diagnosis(KernelObject::Unknown, 200, false).verdict else {
        panic!("a device");
    };
    assert!(matches!(quiet.gap, Some(Gap::KernelWait { .. })), "{quiet:?}");
}

#[test]
fn threads_that_sleep_in_flock_wait_for_the_lock_of_a_file() {
    fn first(waits: u64) -> Option<Finding> {
        let activity =
            vec![seen(Doing::Sleeps, "flock(2)", waits), seen(Doing::Sleeps, "read(2)", 100)];
        let process = Process { pid: 7, seconds: 1.0, threads: 4, looks: 50, ..Process::default() };
        self::first(Process { activity, ..process })
    }
    let finding = first(300).expect("threads sleep for the lock");
    assert!(finding.share.is_some_and(|share| (share - 0.75).abs() < 1e-9));
    assert!(first(1).is_none());
}

#[test]
fn units_of_a_semaphore_that_processes_share_are_added_up() {
    fn problem(hold_s: f64, threads: u64) -> Option<Problem> {
        let waits =
            Site { wait: times(90, 8e-3), hold_off: times(90, hold_s), ..site("run", "lock", 90) };
        let lock = Lock { kind: Primitive::Semaphore, sites: vec![waits], ..mutex() };
        let one = Process { threads, cpu_s: 0.1, ..process(lock, Cause::default()) };
        let processes = [7, 8, 9, 10].map(|pid| Process { pid, ..one.clone() }).to_vec();
        let diagnosis = Diagnosis::new(&Record { processes, ..record(Process::default()) });
        diagnosis.findings.first().map(|finding| finding.problem.clone())
    }
    let shared = problem(5e-3, 1);
    let Some(Problem::PoolExhausted { in_use, waiting, .. }) = shared else { panic!("{shared:?}") };
    assert!((in_use - 1.8).abs() < 1e-9, "{in_use}");
    assert!((waiting - 4.0 * 0.72).abs() < 1e-9, "in all processes: {waiting}");
    assert!(
        !matches!(problem(2e-3, 1), Some(Problem::PoolExhausted { .. }) | None),
        "one unit is enough"
    );
    let several = problem(5e-3, 4);
    assert!(
        !matches!(several, Some(Problem::PoolExhausted { .. }) | None),
        "each process may have its own"
    );
}

#[test]
fn processes_that_wait_for_the_lock_of_a_file_are_added_up() {
    let woken = Scheduling { woken_by_others: 300, wakes_others: 300, ..Scheduling::default() };
    let scheduling = Some(Scheduling { asleep_by_others_s: 0.8, ..woken });
    let activity = vec![seen(Doing::Sleeps, "flock(2)", 40), seen(Doing::Runs, "", 10)];
    let waits = Process { seconds: 1.0, threads: 1, looks: 50, activity, ..Process::default() };
    let processes = [7, 8, 9].map(|pid| Process { pid, scheduling, ..waits.clone() }).to_vec();
    let diagnosis = Diagnosis::new(&Record { processes, ..record(Process::default()) });
    let finding = diagnosis.first().expect("they sleep for the lock");
    let Problem::Processes { waits: ProcessWaits::System { call, object }, processes: 3, .. } =
        &finding.problem
    else {
        panic!("{finding:?}");
    };
    assert_eq!(*object, SystemLock::File);
    assert!(call == "flock(2)" && (finding.cost_s - 2.4).abs() < 1e-9, "{finding:?}");
    assert_eq!(diagnosis.others().count(), 0, "the wakeups are those of the lock");
}
