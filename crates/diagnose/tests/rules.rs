//! The rules, on made-up records: for each problem, a record that has it and a record that only
//! resembles it. Sentences are tested in `crates/report`.

mod made;

use convoy_diagnose::{
    Call, Counter, Cure, Cycle, Diagnosis, Finding, Gap, HogSign, Kind, Lost, Mover, Problem,
    ProcessWaits, Quiet, Verdict, Wakers,
};
use convoy_record::{
    Blocked, Cause, Counted, Doing, Hot, Inversion, JAVA, Java, JavaWait, KernelObject, KernelWait,
    Kind as Primitive, Lock, Origin, Pending, Process, Record, Scheduler, Scheduling, Seen, Site,
    Times, UNNAMED, Waiters,
};
use made::{cause, mutex, process, record, seen, site, times};

/// Returns the finding that the first sentence is about.
fn first(process: Process) -> Option<Finding> {
    Diagnosis::new(&record(process)).first().cloned()
}

fn kind(process: Process) -> Option<Kind> {
    first(process).map(|finding| finding.kind())
}

fn problem(process: Process) -> Problem {
    first(process).expect("a relevant finding").problem
}

/// Returns the activity of a program without a relevant finding.
fn quiet(record: &Record) -> Quiet {
    match Diagnosis::new(record).verdict {
        Verdict::Quiet(quiet) => *quiet,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn an_owner_that_sleeps_is_named_with_its_call() {
    let asleep = vec![seen(Doing::Sleeps, "fdatasync(2)", 40), seen(Doing::Runs, "", 60)];
    let finding = first(process(mutex(), cause(0.05, asleep.clone()))).expect("threads wait");
    let Problem::OwnerAsleep { owner, call, parks: false, .. } = &finding.problem else {
        panic!("{finding:?}");
    };
    assert_eq!(*call, Call::System("fdatasync".to_owned()));
    assert_eq!(owner.place.as_deref(), Some("sync"));
    assert!(finding.share.is_some_and(|share| (share - 0.5).abs() < 1e-9), "{finding:?}");
    let waiters = finding.waiters.as_ref().expect("threads wait");
    assert_eq!(waiters.place.as_deref(), Some("append"));
    assert_eq!(finding.confidence.observations, 100);
    assert!(!finding.cure().is_lock(), "no lock wakes the owner");
    // The owner runs most of the time: its occasional sleeps are not the reason.
    assert_ne!(kind(process(mutex(), cause(0.9, asleep))), Some(Kind::OwnerAsleep));
}

#[test]
fn threads_that_an_event_loop_parks_are_told_from_threads_that_it_keeps_from_work() {
    fn parks(section_s: f64, call: &str) -> bool {
        let mut lock = mutex();
        lock.sites[0].hold_on = times(2000, section_s);
        let owners = vec![seen(Doing::Sleeps, call, 40), seen(Doing::Runs, "", 60)];
        match problem(process(lock, cause(0.05, owners))) {
            Problem::OwnerAsleep { parks, .. } => parks,
            problem => panic!("{problem:?}"),
        }
    }
    assert!(parks(40e-9, "epoll_wait(2)"));
    assert!(!parks(40e-6, "epoll_wait(2)") && !parks(40e-9, "fdatasync(2)"));
}

#[test]
fn an_owner_that_lost_its_cpu_makes_a_convoy() {
    fn convoy(ran: f64) -> Process {
        // All threads do the same.
        let mut lock = mutex();
        lock.sites.truncate(1);
        lock.sites[0].hold_off = times(300, 3e-3);
        let waits = cause(ran, vec![seen(Doing::Runs, "", 100)]);
        process(lock, Cause { held_at: "append".to_owned(), ..waits })
    }
    assert_eq!(kind(convoy(0.1)), Some(Kind::OwnerPreempted));
    assert_eq!(kind(convoy(0.95)), Some(Kind::LongSection));
    // The hold times are unknown, but samples found the lock free.
    let mut free = convoy(0.1);
    free.causes[0].measured_s = 0.0;
    free.causes[0].owners = vec![seen(Doing::Free, "", 6)];
    let problem = problem(free);
    assert!(matches!(problem, Problem::OwnerPreempted { lost: Lost::Free(_), .. }), "{problem:?}");
}

#[test]
fn small_waits_for_owners_that_lost_their_cpu_to_other_programs_are_no_finding() {
    fn verdict(seconds: f64, others_s: f64) -> Verdict {
        let waits = cause(0.1, vec![seen(Doing::Runs, "", 100)]);
        let mut record = record(Process { seconds, ..process(mutex(), waits) });
        record.program.disturbance.others_s = others_s;
        record.program.disturbance.seconds = seconds;
        let diagnosis = Diagnosis::new(&record);
        assert_eq!(diagnosis.others().count(), 0, "a finding is said once");
        diagnosis.verdict
    }
    let Verdict::Quiet(quiet) = verdict(10.0, 12.0) else { panic!("{:?}", verdict(10.0, 12.0)) };
    assert_eq!(quiet.other_cpus, Some(1.2));
    assert!(matches!(verdict(10.0, 1.0), Verdict::Finding(_)), "other programs ran seldom");
    assert!(matches!(verdict(1.0, 1.2), Verdict::Finding(_)), "threads wait half of the time");
}

#[test]
fn a_convoy_needs_a_queue_for_most_of_the_run() {
    fn cure(queued_s: f64) -> Cure {
        let owners = vec![seen(Doing::Runs, "", 90)];
        let lost = Cause { measured_s: 0.9, ran_s: 0.05, ..cause(0.9, owners) };
        let waiters = Waiters { seconds: queued_s, ..Waiters::default() };
        let finding = first(process(Lock { waiters, ..mutex() }, lost)).expect("waits");
        assert_eq!(finding.kind(), Kind::OwnerPreempted);
        finding.cure()
    }
    assert_eq!([0.9, 0.1].map(cure), [Cure::AnotherLock, Cure::Shorten]);
}

#[test]
fn an_owner_of_lower_priority_without_a_cpu_is_an_inversion() {
    fn cure(samples: u64) -> Cure {
        let lost =
            Cause { measured_s: 0.9, ran_s: 0.05, ..cause(0.9, vec![seen(Doing::Runs, "", 90)]) };
        let (lock, kind) = (lost.lock.clone(), lost.kind);
        let inversion = Inversion { lock, kind, waiter: (12, 50), owner: (10, 0), samples };
        let finding = first(Process { inversions: vec![inversion], ..process(mutex(), lost) });
        let finding = finding.expect("an owner without a CPU");
        assert_eq!(finding.kind(), Kind::OwnerPreempted);
        finding.cure()
    }
    assert_eq!(cure(40), Cure::InheritPriority);
    assert_eq!(cure(1), Cure::AnotherLock, "it may be chance");
}

#[test]
fn too_few_samples_do_not_say_that_an_owner_lost_its_cpu() {
    fn off(samples: u64, held: Option<convoy_record::Held>) -> Finding {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(10, 30e-3);
        lock.held = held;
        let waits = cause(0.03, vec![seen(Doing::Runs, "", samples)]);
        first(process(lock, waits)).expect("threads wait")
    }
    let few = off(2, None);
    let Problem::LongSection { off_unexplained: Some(part), .. } = few.problem else {
        panic!("{few:?}");
    };
    assert!(part > 0.9 && few.gaps == [Gap::FewSamples { samples: 2 }], "{few:?}");
    assert_eq!(off(50, None).kind(), Kind::OwnerPreempted);
    // Kernel events timed the sleeps.
    let held = convoy_record::Held {
        count: 50,
        total_s: 1.5,
        asleep_s: 1.3,
        woken_s: 0.1,
        preempted_s: 0.02,
    };
    assert_ne!(off(50, Some(held)).kind(), Kind::OwnerPreempted);
}

#[test]
fn an_owner_that_leaves_its_cpu_in_each_short_section_sleeps() {
    fn woken(runs: u64) -> Problem {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, 150e-6);
        let owners = vec![seen(Doing::Woken, "", 17), seen(Doing::Runs, "", runs)];
        problem(process(lock, cause(0.25, owners)))
    }
    fn kept(count: u64, alone: Vec<Seen>) -> Problem {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, 150e-6);
        lock.sites[1].hold_on = times(count, 40e-6);
        // Too few samples during waits to find it asleep.
        let waits = cause(0.25, vec![seen(Doing::Runs, "", 12), seen(Doing::Free, "", 4)]);
        problem(process(lock, Cause { alone, ..waits }))
    }
    fn few(samples: u64, doing: Doing) -> Problem {
        let mut lock = mutex();
        lock.sites[1].hold_off = times(300, 150e-6);
        problem(process(lock, cause(0.25, vec![seen(doing, "", samples)])))
    }
    fn is_asleep(problem: &Problem, expected: &Call) -> bool {
        matches!(problem, Problem::OwnerAsleep { call, .. } if call == expected)
    }
    fn is_preempted(problem: &Problem) -> bool {
        matches!(problem, Problem::OwnerPreempted { lost: Lost::Cpu(_), .. })
    }
    assert!(is_asleep(&woken(1), &Call::Unseen), "{:?}", woken(1));
    assert!(is_preempted(&woken(17)), "{:?}", woken(17));
    let sync = || vec![seen(Doing::Sleeps, "fdatasync(2)", 3), seen(Doing::Runs, "", 9)];
    let fdatasync = Call::System("fdatasync".to_owned());
    assert!(is_asleep(&kept(0, sync()), &fdatasync), "{:?}", kept(0, sync()));
    assert!(is_preempted(&kept(0, Vec::new())), "{:?}", kept(0, Vec::new()));
    // Eight samples cannot exclude what 300 of 300 holds show.
    assert!(is_asleep(&few(8, Doing::Runs), &Call::Unseen) && is_preempted(&few(40, Doing::Runs)));
    assert!(is_asleep(&few(6, Doing::Free), &Call::Unseen), "{:?}", few(6, Doing::Free));
    assert!(is_preempted(&kept(600, sync())), "{:?}", kept(600, sync()));
}

#[test]
fn a_chain_names_the_other_lock() {
    let waits = vec![seen(Doing::Waits, "disk", 80), seen(Doing::Runs, "", 20)];
    let problem = problem(process(mutex(), cause(0.1, waits)));
    let disk = convoy_diagnose::Subject::Variable { name: "disk".to_owned(), instances: 1 };
    assert!(matches!(&problem, Problem::OwnerWaits { next, .. } if *next == disk), "{problem:?}");
}

#[test]
fn a_hog_acquires_the_lock_again_while_others_wake_up() {
    fn hog(held_s: f64, again: u64) -> Process {
        let mut lock = mutex();
        lock.sites[1].hold_on = times(300, held_s / 300.0);
        lock.sites[1].hold_off = Times::default();
        let waits = cause(0.95, vec![seen(Doing::Runs, "", 100)]);
        process(lock, Cause { again, ..waits })
    }
    let sign = problem(hog(0.9, 3000));
    assert!(
        matches!(sign, Problem::Hog { sign: HogSign::Holds { run_share, .. }, .. }
            if (run_share - 0.9).abs() < 1e-9),
        "{sign:?}"
    );
    // It sleeps between critical sections, and meanwhile the others acquire the lock.
    assert_eq!(kind(hog(0.9, 100)), Some(Kind::LongSection));
    assert_eq!(kind(hog(0.3, 0)), Some(Kind::LongSection));
}

#[test]
fn a_thread_that_waits_for_itself_until_a_time_limit_is_told_so() {
    fn waits(own: u64) -> Problem {
        let waits = cause(0.0, vec![seen(Doing::Waits, "log", 100)]);
        problem(process(mutex(), Cause { own, ..waits }))
    }
    let Problem::Deadlock { cycle: Cycle::TimedOut, waits: timed_out, .. } = waits(900) else {
        panic!("{:?}", waits(900));
    };
    assert_eq!(timed_out[0].held_at.as_deref(), Some("sync"));
    assert!(!matches!(waits(100), Problem::Deadlock { .. }));
}

#[test]
fn waits_for_the_mutex_of_a_herd_are_part_of_it() {
    let wait = Site { wait: times(20_000, 1e-3), futile: 18_000, ..site("append", "wait", 20_000) };
    let sites = vec![wait, site("dispatch", "signal", 1500)];
    let (name, kind_of_lock) = ("work".to_owned(), Primitive::Condition);
    let mut process = process(mutex(), cause(0.2, Vec::new()));
    let condition = Lock { name, kind: kind_of_lock, instances: 1, sites, ..Lock::default() };
    process.locks.push(condition);
    assert_eq!(kind(process.clone()), Some(Kind::ThunderingHerd));
    process.locks[0].sites[0].place = "other".to_owned();
    assert_ne!(kind(process), Some(Kind::ThunderingHerd));
}

#[test]
fn a_section_that_takes_long_on_a_cpu_is_long_on_a_full_machine_too() {
    fn full(cpu_s: f64, ran: f64) -> Process {
        let mut lock = mutex();
        lock.sites[1].hold_on = times(20, cpu_s);
        process(lock, cause(ran, vec![seen(Doing::Runs, "", 100)]))
    }
    let long = problem(full(2e-3, 0.5));
    let Problem::LongSection { preempted: Some(part), .. } = long else { panic!("{long:?}") };
    assert!((part - 0.5).abs() < 1e-9);
    assert_eq!(kind(full(2e-3, 0.2)), Some(Kind::OwnerPreempted), "it explains most of the time");
    assert_eq!(kind(full(50e-6, 0.5)), Some(Kind::OwnerPreempted));
}

#[test]
fn a_writer_starves_only_if_readers_overtake_it() {
    fn rwlock(again: u64, wait_s: f64) -> Process {
        let mut lock = mutex();
        lock.kind = Primitive::Rwlock;
        lock.sites[0].act = "write".to_owned();
        lock.sites[0].wait = times(100, wait_s);
        lock.sites[1] = Site { hold_on: times(9000, 100e-6), ..site("sync", "read", 9000) };
        let waits = cause(1.0, vec![seen(Doing::Runs, "", 50)]);
        let (act, held_act) = ("write".to_owned(), "read".to_owned());
        let (count, wait_s, kind) = (100, 100.0 * wait_s, Primitive::Rwlock);
        process(lock, Cause { act, held_act, count, wait_s, again, kind, ..waits })
    }
    assert_eq!(kind(rwlock(2000, 9e-3)), Some(Kind::WriterStarvation));
    assert_ne!(kind(rwlock(10, 90e-6)), Some(Kind::WriterStarvation));
}

#[test]
fn locks_of_libc_and_of_runtimes_are_told_by_their_origin() {
    let mut lock = mutex();
    (lock.runtime, lock.origin) = ("localtime_r".to_owned(), Origin::LibcInternal);
    let libc = problem(process(lock, Cause::default()));
    assert!(
        matches!(&libc, Problem::LibcLock { function, asleep: None } if function == "localtime_r"),
        "{libc:?}"
    );
    let mut lock = mutex();
    (lock.runtime, lock.origin) = ("another runtime".to_owned(), Origin::Library);
    assert_eq!(kind(process(lock, Cause::default())), Some(Kind::RuntimeLock));
    // A monitor that no thread dump names.
    let mut lock = mutex();
    (lock.runtime, lock.origin) = (JAVA.to_owned(), Origin::JavaMonitor);
    lock.sites[0].place = UNNAMED.to_owned();
    let java = first(process(lock, Cause::default())).expect("threads wait");
    assert!(matches!(java.problem, Problem::Java { monitor: None, .. }), "{java:?}");
    assert!(matches!(java.gaps[..], [Gap::JavaMonitor { .. }]), "{java:?}");
}

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
fn a_finding_costs_no_more_than_the_record_contains() {
    fn cost_s(threads: u64) -> f64 {
        let lock = Lock {
            sites: vec![Site { wait: times(400, 0.1), ..site("f", "lock", 400) }],
            ..mutex()
        };
        let process = Process { threads, ..process(lock, cause(40.0, Vec::new())) };
        first(process).expect("a finding").cost_s
    }
    assert!((cost_s(4) - 4.0).abs() < 1e-9, "four threads for a second: {}", cost_s(4));
    assert!((cost_s(100) - 40.0).abs() < 1e-9, "{}", cost_s(100));
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
}

#[test]
fn waits_for_a_thread_that_initialises_something_name_what_it_does() {
    fn ended_by(samples: u64) -> Option<(String, Option<String>)> {
        let owners = vec![seen(Doing::Sleeps, "clock_nanosleep(2)", samples)];
        let wait = Site { wait: times(4, 0.5), ..site("append", "wait", 4) };
        let lock = Lock { kind: Primitive::Barrier, sites: vec![wait], ..mutex() };
        let waits = Cause { kind: Primitive::Barrier, ..cause(0.0, owners) };
        let condition = quiet(&record(process(lock, waits))).condition.expect("they wait");
        condition.ended_by.map(|by| (by.place, by.call))
    }
    let sleeps = ("sync".to_owned(), Some("clock_nanosleep(2)".to_owned()));
    assert_eq!(ended_by(40), Some(sleeps));
    assert_eq!(ended_by(4), None, "too few samples");
}

#[test]
fn waits_that_were_not_recorded_are_a_gap() {
    let waits = Site { wait: times(9, 1e-3), ..site("LWLockAcquire", "lock", 9) };
    let (name, kind) = ("condition of LWLockAcquire".to_owned(), Primitive::Semaphore);
    let semaphore = Lock { name, kind, instances: 1, sites: vec![waits], ..Lock::default() };
    let server = |pid| Process {
        pid,
        command: vec!["/usr/bin/postgres".to_owned()],
        seconds: 1.0,
        threads: 1,
        locks: vec![semaphore.clone()],
        ..Process::default()
    };
    let mut servers = record(Process::default());
    servers.processes = (1..=2).map(server).collect();
    assert_eq!(quiet(&servers).gap, None);
    servers.processes = (1..=3).map(server).collect();
    let gap = quiet(&servers).gap;
    let Some(Gap::ProcessWaits { processes: 3, program, .. }) = &gap else { panic!("{gap:?}") };
    assert_eq!(program, "postgres");
    let mut sampled = record(Process::default());
    let reason = "./server is linked statically.".to_owned();
    sampled.program.only_samples = Some(reason.clone());
    assert_eq!(quiet(&sampled).gap, Some(Gap::OnlySamples { reason }));
}

#[test]
fn tasks_without_a_thread_are_hidden() {
    use Scheduler::{Asyncio, DotNet, Go, GoChannels, Tokio};
    fn asleep(call: &str) -> Option<Gap> {
        let what = format!("{call}(2)");
        let activity = vec![Seen { doing: Doing::Sleeps, what, count: 90, ..Seen::default() }];
        let process = Process { activity, ..Process::default() };
        quiet(&record(Process { schedulers: vec![Asyncio], ..process })).gap
    }
    for scheduler in [Go, GoChannels, Tokio, Asyncio, DotNet] {
        let process = Process { schedulers: vec![scheduler], ..Process::default() };
        assert_eq!(quiet(&record(process)).gap, Some(Gap::Tasks { scheduler }));
    }
    // Loaded, but no thread sleeps in its event loop.
    assert_eq!(asleep("clock_nanosleep"), Some(Gap::Nothing));
    assert_eq!(asleep("epoll_wait"), Some(Gap::Tasks { scheduler: Scheduler::Asyncio }));
}

#[test]
fn waits_of_javascript_are_no_proof_that_locks_cost_little() {
    fn gap(each_s: f64) -> Option<Gap> {
        let wait = times(40, each_s);
        let sites = vec![Site { wait, threads: 4, ..site("wait", "wait", 40) }];
        let (kind, origin) = (Primitive::Condition, Origin::JavaScript);
        let lock = Lock { name: "a".to_owned(), kind, origin, sites, ..Lock::default() };
        let process = Process { seconds: 1.0, threads: 4, cpu_s: 2.0, ..Process::default() };
        quiet(&record(Process { locks: vec![lock], ..process })).gap
    }
    fn waits(kind: Primitive, origin: Origin, each_s: f64) -> Lock {
        let wait = times(40, each_s);
        let sites = vec![Site { wait, contended: 40, threads: 4, ..site("push", "lock", 4000) }];
        Lock { name: format!("{origin:?}"), kind, origin, sites, ..Lock::default() }
    }
    fn minor(atomics_s: f64) -> Verdict {
        let mutex = waits(Primitive::Mutex, Origin::Libc, 0.003);
        let atomics = waits(Primitive::Condition, Origin::JavaScript, atomics_s);
        let process = Process { seconds: 1.0, threads: 4, cpu_s: 2.0, ..Process::default() };
        Diagnosis::new(&record(Process { locks: vec![mutex, atomics], ..process })).verdict
    }
    // A lock with 3 % of the time is not the first thing to say of such a program.
    assert!(matches!(minor(0.03), Verdict::Quiet(_)), "{:?}", minor(0.03));
    assert!(matches!(minor(1e-3), Verdict::Finding(_)), "{:?}", minor(1e-3));
    assert!(matches!(gap(0.03), Some(Gap::Atomics { count: 40, .. })), "{:?}", gap(0.03));
    assert_eq!(gap(1e-6), None);
}

#[test]
fn a_herd_wakes_for_nothing_and_a_phase_does_not() {
    fn herd(futile: u64) -> Process {
        let wait = Site { wait: times(20_000, 1e-3), futile, ..site("worker", "wait", 20_000) };
        let sites = vec![wait, site("dispatch", "signal", 1500)];
        let (name, kind) = ("work".to_owned(), Primitive::Condition);
        let lock = Lock { name, kind, instances: 1, sites, ..Lock::default() };
        process(lock, Cause::default())
    }
    fn barrier(waker: &str, returned: u64) -> Option<Kind> {
        let mut process = herd(18_000);
        process.locks[0].sites[0].returned = returned;
        process.locks[0].sites[1].place = waker.to_owned();
        kind(process)
    }
    assert_eq!(kind(herd(18_000)), Some(Kind::ThunderingHerd));
    assert_eq!(kind(herd(20)), None);
    // Short phases: the function that waits wakes all, and each of them leaves it.
    assert_eq!(barrier("worker", 18_000), None);
    assert_eq!(barrier("dispatch", 18_000), Some(Kind::ThunderingHerd));
    assert_eq!(barrier("worker", 300), Some(Kind::ThunderingHerd), "they find nothing to do");
}

/// Only threads that wait reach the kernel: critical sections of 3 us that begin with a wait do not
/// make threads wait all the time.
#[test]
fn an_owner_that_the_kernel_does_not_show_is_not_known() {
    fn held(count: u64, seconds: f64, hold_on: Times) -> Process {
        let lookup = Site {
            contended: 2000,
            wait: times(2000, 4e-3),
            hold_on,
            ..site("lookup", "lock", count)
        };
        let waiters = Waiters { seconds, ..Waiters::default() };
        let lock = Lock { waiters, sites: vec![lookup], ..mutex() };
        let mut process = process(Lock::default(), Cause::default());
        (process.locks, process.causes, process.futexes) = (Vec::new(), Vec::new(), vec![lock]);
        process
    }
    let unseen = problem(held(2000, 2.0, Times::default()));
    let Problem::Contended { unseen_s: Some(each_s), .. } = unseen else { panic!("{unseen:?}") };
    assert!((each_s - 1e-3).abs() < 1e-9);
    // The holds that began with a wait were timed, and nothing says that others are longer.
    let timed = times(2000, 3e-6);
    assert_eq!(kind(held(2000, 2.0, timed.clone())), Some(Kind::ShortSections));
    assert_eq!(kind(held(100_000, 2.0, timed)), Some(Kind::ShortSections));
}

#[test]
fn a_herd_past_libc_does_next_to_nothing_between_two_wakeups() {
    fn herd(futile: u64, woken: u64, passed: u64) -> Process {
        let wait =
            Site { wait: times(20_000, 1e-3), futile, passed, ..site("worker", "wait", 20_000) };
        let notify = Site { contended: woken, ..site("push", "signal", 1500) };
        let sites = if woken > 0 { vec![wait, notify] } else { vec![wait] };
        let (name, kind) = ("condition of worker".to_owned(), Primitive::Condition);
        let lock = Lock { name, kind, instances: 1, sites, ..Lock::default() };
        let mut process = process(Lock::default(), Cause::default());
        (process.locks, process.futexes) = (Vec::new(), vec![lock]);
        process
    }
    let Problem::ThunderingHerd(broadcasts) = problem(herd(19_000, 19_500, 0)) else {
        panic!("{:?}", problem(herd(19_000, 19_500, 0)));
    };
    assert_eq!(broadcasts.from.as_deref(), Some("push"));
    assert!((broadcasts.woken_per_call - 13.0).abs() < 1e-9);
    // First, work for all threads; then one item after the other, with a call for each.
    assert_eq!(kind(herd(2000, 19_500, 0)), None);
    assert_eq!(kind(herd(19_000, 0, 0)), None);
    // A library wakes the first thread, and each thread wakes the next.
    assert_eq!(kind(herd(19_000, 0, 18_000)), Some(Kind::ThunderingHerd));
    assert_eq!(kind(herd(19_000, 1000, 18_000)), Some(Kind::ThunderingHerd));
    // Threads with a condition each that call notify_one in turn do the same.
    let mut ring = herd(19_000, 0, 18_000);
    ring.futexes[0].instances = 4;
    assert_eq!(kind(ring), None);
}

#[test]
fn readers_that_move_a_counter_are_found_without_waits() {
    fn readers(acquire: Times, threads: u64) -> Process {
        let read = Site { acquire, threads, ..site("lookup", "read", 5_000_000) };
        let lock = Lock { name: "routes".to_owned(), kind: Primitive::Rwlock, ..Lock::default() };
        process(Lock { sites: vec![read], ..lock }, Cause::default())
    }
    fn moves(process: Process) -> Option<bool> {
        match problem(process) {
            Problem::ReaderCounter { counter: Counter::Rwlock { moves, .. } } => Some(moves),
            _ => None,
        }
    }
    let count = 5_000_000;
    assert_eq!(moves(readers(times(count, 90e-9), 4)), Some(true));
    assert_eq!(kind(readers(times(count, 12e-9), 4)), None);
    let alone = || readers(times(count, 90e-9), 1);
    assert_eq!(kind(alone()), None, "the processor may be slow");
    let mut compared = alone();
    let fast = Site { acquire: times(1000, 12e-9), ..site("fast", "lock", 1000) };
    compared.locks.push(Lock { name: "fast".to_owned(), sites: vec![fast], ..Lock::default() });
    assert_eq!(kind(compared), Some(Kind::FalseSharing), "other threads write its line");
    // The line stays in one cache, but a large part of the CPU time is spent there.
    assert_eq!(moves(readers(times(count, 24e-9), 4)), Some(false));
    // A lock for each thread shares no line.
    let mut private = readers(times(count, 90e-9), 4);
    private.locks[0].instances = 4;
    assert_ne!(kind(private), Some(Kind::ReaderCounter));
    // Preemption in an acquisition is no transfer, and readers cannot use more than all CPU time.
    let mut preempted = times(count, 12e-9);
    preempted.buckets.push((2e6, 500));
    (preempted.count, preempted.total_s, preempted.max_s) = (count + 500, 1.06, 4e-3);
    assert_eq!(kind(readers(preempted, 4)), None);
    assert_eq!(kind(readers(times(count, 500e-9), 4)), None);
}

#[test]
fn a_lock_of_one_thread_on_a_line_of_others_shares_it_falsely() {
    fn lock(name: &str, count: u64) -> Lock {
        let threads = 1;
        let site = Site { acquire: times(count, 80e-9), threads, ..site(name, "lock", count) };
        Lock { name: name.to_owned(), sites: vec![site], ..Lock::default() }
    }
    fn two(count: u64) -> Process {
        let mut process = process(lock("left", 2_000_000), Cause::default());
        process.locks.push(lock("right", count));
        process.neighbours = vec![vec!["left".to_owned(), "right".to_owned()]];
        process
    }
    fn mover(process: Process) -> Mover {
        match problem(process) {
            Problem::FalseSharing { mover, .. } => mover,
            problem => panic!("{problem:?}"),
        }
    }
    assert!(matches!(mover(two(2_000_000)), Mover::Locks { locks } if locks.len() == 2));
    // Another thread writes something else on the line.
    let mut alone = Process { neighbours: Vec::new(), ..two(100) };
    alone.locks[1].sites[0].acquire = times(1000, 12e-9);
    assert!(matches!(mover(alone), Mover::Data { place } if place == "left"));
    // The line of a lock that two threads use has to move.
    let mut many = two(2_000_000);
    many.locks.iter_mut().for_each(|lock| lock.sites[0].threads = 2);
    assert_eq!(kind(many.clone()), None);
    // One lock for each thread, next to each other.
    many.locks[0].instances = 2;
    many.neighbours = vec![vec!["left".to_owned(), "left".to_owned()]];
    assert!(matches!(mover(many), Mover::SameName { place } if place == "left"));
}

#[test]
fn loops_that_wait_are_told_by_samples_or_by_yields() {
    fn hot(spins: u64, atomics: u64) -> Process {
        let place = "acquire (spin.c:9)".to_owned();
        let hot = vec![Hot { place, count: 900, spins, atomics, ..Hot::default() }];
        let empty = process(mutex(), Cause::default());
        Process { hot, samples: 1000, locks: Vec::new(), causes: Vec::new(), ..empty }
    }
    assert_eq!(kind(hot(300, 0)), Some(Kind::Spinning));
    assert_eq!(kind(hot(0, 300)), Some(Kind::ReaderCounter));
    // A loop that computes.
    assert_eq!(kind(hot(3, 0)), None);
    // libc's internal locks do not need another mutex.
    let mut malloc = hot(600, 0);
    (malloc.hot[0].place, malloc.hot[0].library) =
        ("_int_free (malloc.c:9)".into(), "libc.so.6".into());
    assert_eq!(kind(malloc), None);
    // Locks of Rust's standard library spin before they sleep, and their waits are recorded. A
    // function of the same name in C++ is the program's.
    let mut rust = hot(600, 0);
    rust.hot[0].place = "<&std::io::Stdout>::write_fmt (stdio.rs:8)".into();
    let lock = |origin| {
        let wait = times(9, 1e-3);
        Lock { origin, sites: vec![Site { wait, ..site("f", "lock", 9) }], ..mutex() }
    };
    rust.futexes = vec![lock(Origin::Libc)];
    assert_eq!(kind(rust.clone()), Some(Kind::Spinning));
    rust.futexes = vec![lock(Origin::Rust)];
    assert_ne!(kind(rust.clone()), Some(Kind::Spinning));
    rust.hot[0].place = "f".to_owned();
    assert_eq!(kind(rust.clone()), Some(Kind::Spinning), "threads seldom sleep");
    rust.futexes[0].sites[0].wait = times(900, 1e-3);
    assert_ne!(kind(rust.clone()), Some(Kind::Spinning), "inlined into the function that waits");
    rust.hot[0].place = "g".to_owned();
    rust.futexes[0].sites[0].wait = times(9, 1e-3);
    assert_eq!(kind(rust), Some(Kind::Spinning));
    let mut parking_lot = hot(0, 0);
    let (place, count) = ("parking_lot::RawMutex::lock_slow".to_owned(), 300_000);
    parking_lot.yields = vec![Counted { place, count }];
    assert_eq!(kind(parking_lot.clone()), Some(Kind::Spinning));
    parking_lot.futexes = vec![lock(Origin::Library)];
    assert_eq!(kind(parking_lot.clone()), Some(Kind::Spinning), "threads seldom sleep");
    parking_lot.futexes[0].sites[0].wait = times(900, 1e-3);
    assert_ne!(kind(parking_lot), Some(Kind::Spinning));
    let mut yielding = hot(0, 0);
    yielding.yields = vec![Counted { place: "acquire".to_owned(), count: 200_000 }];
    let problem = problem(yielding.clone());
    assert!(matches!(problem, Problem::Spinning { yields: Some((200_000, _)), .. }), "{problem:?}");
    let sleeps = |count: u64| {
        let sites = vec![Site { wait: times(count, 1e-4), ..site("acquire", "wait", count) }];
        vec![Lock { kind: Primitive::Futex, instances: 1, sites, ..Lock::default() }]
    };
    yielding.futexes = sleeps(400);
    assert_eq!(kind(yielding.clone()), Some(Kind::Spinning), "other threads sleep");
    yielding.futexes = sleeps(40_000);
    assert!(first(yielding).is_none(), "threads yield a few times before they sleep");
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
    let Problem::Deadlock { cycle, waits, behind, .. } = problem(process.clone()) else {
        panic!("{:?}", problem(process));
    };
    assert_eq!((cycle, waits.len(), behind), (Cycle::Closed, 2, 0));
    let places: Vec<_> = waits.iter().map(|wait| wait.place.as_str()).collect();
    assert_eq!(places, ["transfer", "refund"]);
    // A queue behind a working owner is not a deadlock.
    process.pending.truncate(1);
    assert_ne!(kind(process), Some(Kind::Deadlock));
}

#[test]
fn waits_that_cost_little_are_no_problem() {
    let mut lock = mutex();
    lock.sites[0].wait = times(10, 2e-3);
    let quiet = quiet(&record(process(lock, Cause::default())));
    assert!(quiet.gap.is_none() && quiet.has_locks && quiet.spread.is_none());
}

#[test]
fn a_lock_that_few_threads_wait_for_weighs_little_next_to_the_work_of_many() {
    fn with(doing: Doing, call: &str) -> Record {
        let mut process = process(mutex(), cause(0.05, vec![]));
        process.locks[0].sites[0].wait = times(16, 5e-3);
        process.locks[0].sites[0].threads = 1;
        (process.looks, process.threads) = (20, 30);
        process.activity = vec![seen(doing, call, 500), seen(Doing::Runs, "", 20)];
        record(process)
    }
    let busy = Diagnosis::new(&with(Doing::Sleeps, "fdatasync(2)"));
    assert!(busy.first().is_none());
    assert!(busy.findings[0].weight.is_some_and(|weight| weight < 0.01));
    // The other threads are idle: the busy thread loses much of its time.
    let idle = Diagnosis::new(&with(Doing::Sleeps, "epoll_wait(2)"));
    assert_eq!(idle.first().map(|finding| finding.lock.as_str()), Some("log"));
}

#[test]
fn processes_that_wake_each_other_are_told_from_those_that_serve_one() {
    fn server(pid: u64, answered: u64) -> Process {
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
            threads: 1,
            scheduling: Some(scheduling),
            activity: vec![seen(Doing::Sleeps, "epoll_wait(2)", 60), seen(Doing::Runs, "", 40)],
            ..Process::default()
        }
    }
    fn first(answered: u64) -> Option<Finding> {
        let processes = (1..5).map(|pid| server(pid, answered)).collect();
        let record = Record { processes, ..record(Process::default()) };
        Diagnosis::new(&record).first().cloned()
    }
    let mutual = first(1000).expect("they wait for each other");
    assert!(mutual.share.is_some_and(|share| (share - 0.6).abs() < 1e-9), "{mutual:?}");
    let Problem::Processes { waits, processes: 4, program, sleeps } = mutual.problem else {
        panic!("{mutual:?}");
    };
    assert_eq!(waits, ProcessWaits::Wakeups { wakeups: 4000 });
    assert_eq!((program.as_str(), sleeps[0].0.as_str()), ("postgres", "epoll_wait(2)"));
    assert!(first(10).is_none());
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
fn a_spinlock_of_the_kernel_needs_more_weight() {
    fn kernel(kernel: &str, primitive: Primitive) -> Option<Kind> {
        let place = "exit_to_user_mode_loop";
        let wait = Site { contended: 1000, wait: times(1000, 50e-6), ..site(place, "lock", 1000) };
        let (name, kernel, sites) = (place.to_owned(), kernel.to_owned(), vec![wait]);
        let lock = Lock { name, kind: primitive, kernel, sites, ..Lock::default() };
        let process = Process { pid: 7, seconds: 1.0, threads: 2, ..Process::default() };
        kind(Process { kernel_locks: vec![lock], ..process })
    }
    assert_eq!(kernel("spinlock", Primitive::Spinlock), None);
    assert_eq!(kernel("rwsem", Primitive::Rwlock), Some(Kind::KernelLock));
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

#[test]
fn a_semaphore_that_several_threads_hold_is_a_pool() {
    fn pool(holds: u64) -> Problem {
        let held = times(holds, 3e-3);
        let wait = Site { hold_off: held, wait: times(200, 5e-3), ..site("query", "lock", 600) };
        let owners = vec![seen(Doing::Sleeps, "recvfrom(2)", 90)];
        let lock = Lock { kind: Primitive::Semaphore, sites: vec![wait], ..mutex() };
        problem(process(lock, Cause { kind: Primitive::Semaphore, ..cause(0.2, owners) }))
    }
    let Problem::PoolExhausted { in_use, waiting, hold_s, call } = pool(1000) else {
        panic!("{:?}", pool(1000));
    };
    assert!((in_use - 3.0).abs() < 1e-9 && (hold_s - 3e-3).abs() < 1e-9 && waiting > 0.9);
    assert_eq!(call, Some(Call::System("recvfrom".to_owned())));
    assert!(matches!(pool(300), Problem::OwnerAsleep { .. }), "{:?}", pool(300));
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
fn processes_that_wait_for_the_lock_of_a_file_are_added_up() {
    let woken = Scheduling { woken_by_others: 300, wakes_others: 300, ..Scheduling::default() };
    let scheduling = Some(Scheduling { asleep_by_others_s: 0.8, ..woken });
    let activity = vec![seen(Doing::Sleeps, "flock(2)", 40), seen(Doing::Runs, "", 10)];
    let waits = Process { seconds: 1.0, threads: 1, looks: 50, activity, ..Process::default() };
    let processes = [7, 8, 9].map(|pid| Process { pid, scheduling, ..waits.clone() }).to_vec();
    let diagnosis = Diagnosis::new(&Record { processes, ..record(Process::default()) });
    let finding = diagnosis.first().expect("they sleep for the lock");
    let Problem::Processes { waits: ProcessWaits::File { call }, processes: 3, .. } =
        &finding.problem
    else {
        panic!("{finding:?}");
    };
    assert!(call == "flock(2)" && (finding.cost_s - 2.4).abs() < 1e-9, "{finding:?}");
    assert_eq!(diagnosis.others().count(), 0, "the wakeups are those of the lock");
}

#[test]
fn a_thread_that_polls_with_a_time_limit_is_idle() {
    fn polls(failed: u64, most: u64) -> Option<Kind> {
        let wait = Site { failed, threads: 1, wait: times(8, 0.1), ..site("get", "lock", 9) };
        let waiters = Waiters { most, ..Waiters::default() };
        let (kind_of_lock, sites) = (Primitive::Semaphore, vec![wait]);
        let lock = Lock { waiters, kind: kind_of_lock, given_by_owner: 9, sites, ..mutex() };
        kind(process(lock, Cause::default()))
    }
    assert_eq!(polls(8, 1), None);
    assert!(polls(8, 3).is_some(), "others wait, too");
    assert!(polls(0, 1).is_some(), "another thread releases it");
}
