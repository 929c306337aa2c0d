//! Costs without waits, waits that are no problem, and waits that a record does not contain.

use convoy_diagnose::{Counter, CpusInUse, Diagnosis, Finding, Gap, Kind, Mover, Problem, Verdict};
use convoy_record::{
    Cause, Counted, Doing, Hot, Kind as Primitive, Lock, Origin, PARKED, Process, Record,
    Scheduler, Scheduling, Seen, Site, Times,
};

use crate::made::{cause, mutex, process, record, seen, site, times};
use crate::{first, kind, problem, quiet};

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
    assert_eq!(quiet.in_use.map(|cpus| cpus.others), Some(1.2));
    assert!(matches!(verdict(10.0, 1.0), Verdict::Finding(_)), "other programs ran seldom");
    assert!(matches!(verdict(1.0, 1.2), Verdict::Finding(_)), "threads wait half of the time");
}

#[test]
fn small_waits_for_short_sections_are_no_finding_while_the_cpus_are_in_use() {
    fn verdict(cpu_s: f64, wait_s: f64) -> Verdict {
        let entries = Site {
            contended: 2000,
            wait: times(2000, wait_s / 2000.0),
            hold_on: times(100_000, 3e-6),
            ..site("look_up", "lock", 100_000)
        };
        let lock = Lock { sites: vec![entries], ..mutex() };
        let waits = Cause { wait_s, ran_s: wait_s, measured_s: wait_s, ..cause(1.0, Vec::new()) };
        Diagnosis::new(&record(Process { cpu_s, ..process(lock, waits) })).verdict
    }
    let Verdict::Quiet(quiet) = verdict(1.9, 0.5) else { panic!("{:?}", verdict(1.9, 0.5)) };
    assert_eq!(quiet.in_use, Some(CpusInUse { program: 1.9, others: 0.0, cpus: 2.0 }));
    assert!(matches!(verdict(1.5, 0.5), Verdict::Finding(_)), "a quarter of the CPUs is idle");
    assert!(matches!(verdict(1.9, 1.6), Verdict::Finding(_)), "threads wait much of the time");
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
fn a_run_that_is_too_short_to_sample_is_no_proof_that_locks_cost_little() {
    fn next_to(others_s: f64, wall_s: f64, cpu_s: f64, looks: u64) -> Option<Gap> {
        let seen = Seen { doing: Doing::Runs, count: 2 * looks, ..Seen::default() };
        let process = Process {
            seconds: wall_s,
            cpu_s,
            samples: 40,
            looks,
            activity: vec![seen],
            ..Process::default()
        };
        let mut record = record(process);
        record.program.wall_s = wall_s;
        record.program.disturbance.others_s = others_s;
        quiet(&record).gap
    }
    fn gap(wall_s: f64, cpu_s: f64, looks: u64) -> Option<Gap> {
        next_to(0.0, wall_s, cpu_s, looks)
    }
    assert!(next_to(0.18, 0.2, 0.2, 3).is_some(), "others left it one CPU");
    assert_eq!(gap(0.2, 0.38, 3), Some(Gap::Short { seconds: 0.2 }));
    assert_eq!(gap(0.2, 0.2, 3), None, "one thread");
    assert_eq!(gap(0.2, 0.38, 20), None, "sampled");
    assert_eq!(gap(2.0, 3.8, 3), None, "long");
}

#[test]
fn tasks_without_a_thread_are_hidden() {
    use Scheduler::{Asyncio, DotNet, Go, GoChannels, Ruby, Tokio};
    fn asleep(call: &str) -> Option<Gap> {
        let what = format!("{call}(2)");
        let activity = vec![Seen { doing: Doing::Sleeps, what, count: 90, ..Seen::default() }];
        let process = Process { activity, ..Process::default() };
        quiet(&record(Process { schedulers: vec![Asyncio], ..process })).gap
    }
    for scheduler in [Go, GoChannels, Tokio, Asyncio, DotNet, Ruby] {
        let process = Process { threads: 4, schedulers: vec![scheduler], ..Process::default() };
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
        let mutex = waits(Primitive::Mutex, Origin::Libc, 0.006);
        let atomics = waits(Primitive::Condition, Origin::JavaScript, atomics_s);
        let process = Process { seconds: 1.0, threads: 4, cpu_s: 2.0, ..Process::default() };
        Diagnosis::new(&record(Process { locks: vec![mutex, atomics], ..process })).verdict
    }
    // A lock with 6 % of the time is not the first thing to say of such a program.
    assert!(matches!(minor(0.03), Verdict::Quiet(_)), "{:?}", minor(0.03));
    assert!(matches!(minor(1e-3), Verdict::Finding(_)), "{:?}", minor(1e-3));
    assert!(matches!(gap(0.03), Some(Gap::Atomics { count: 40, .. })), "{:?}", gap(0.03));
    assert_eq!(gap(1e-6), None);
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
    // Each thread adds to a counter on a cache line of its own.
    let mut padded = hot(0, 300);
    padded.hot[0].apart = 290;
    assert_eq!(kind(padded), None);
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
    // OpenMP spins at barriers, too, so a lock for which threads sleep is named first.
    let mut openmp = hot(600, 0);
    openmp.hot[0].place = "libgomp.so.1.0.0+0x1ef4b".into();
    openmp.futexes = vec![lock(Origin::OpenMp)];
    assert_eq!(kind(openmp.clone()), Some(Kind::Spinning), "they seldom sleep");
    openmp.futexes[0].sites[0].wait = times(900, 1e-3);
    assert_eq!(kind(openmp), Some(Kind::Contended));
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
fn threads_that_sleep_after_each_attempt_poll() {
    /// Four threads and one that waits for their end are looked at 100 times in a second.
    fn tries(count: u64, acquired: u64, waits: u64, asleep: u64) -> Option<Finding> {
        let place = "update (db.c:9)";
        let mut at = site(place, "lock", acquired);
        (at.hold_off, at.wait) = (times(acquired, 1e-3), times(waits, 1e-6));
        let mut polling = process(Lock { sites: vec![at], ..mutex() }, Cause::default());
        polling.causes = Vec::new();
        polling.attempts = vec![Counted { place: place.to_owned(), count }];
        polling.looks = 100;
        let sleeps = seen(Doing::Sleeps, "clock_nanosleep(2)", asleep);
        polling.activity = vec![sleeps, seen(Doing::Runs, "", 500 - asleep)];
        first(polling)
    }
    let finding = tries(2000, 300, 0, 450).expect("threads wait for most of their time");
    assert!(matches!(finding.problem, Problem::Polls { count: 2000, .. }), "{finding:?}");
    // 4.5 s of sleep, without the thread that waits, and 0.3 s with the lock.
    assert!((finding.cost_s - 3.2).abs() < 1e-9, "{finding:?}");
    assert!(tries(2000, 1500, 0, 450).is_none(), "most attempts succeed");
    assert!(tries(2000, 300, 300, 450).is_none(), "it waits after some attempts");
    assert!(tries(900_000, 300, 0, 450).is_none_or(|it| it.kind() == Kind::Spinning));
    assert!(tries(2000, 300, 0, 100).is_none(), "only the first thread sleeps");
}

#[test]
fn a_goroutine_without_a_thread_may_wait_for_a_cpu() {
    fn verdict(cpu_s: f64, preempted_s: f64) -> Kind {
        let parked = vec![seen(Doing::Sleeps, PARKED, 80), seen(Doing::Runs, "", 20)];
        let mut process = Process { cpu_s, ..process(mutex(), cause(0.1, parked)) };
        process.scheduling = Some(Scheduling { preempted_s, ..Scheduling::default() });
        kind(process).expect("threads wait half of their time")
    }
    assert_eq!(verdict(0.3, 0.1), Kind::OwnerAsleep);
    assert_ne!(verdict(1.0, 0.9), Kind::OwnerAsleep, "both CPUs have a runnable thread");
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
