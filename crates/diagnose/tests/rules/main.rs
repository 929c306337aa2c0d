//! The rules, on made-up records: for each problem, a record that has it and a record that only
//! resembles it. Sentences are tested in `crates/report`.

mod costs;
mod java;
#[path = "../made/mod.rs"]
mod made;
mod processes;

use convoy_diagnose::{
    Call, Cure, Cycle, Diagnosis, Finding, Gap, HogSign, Kind, Lost, Problem, Quiet, Verdict,
};
use convoy_record::{
    Cause, Doing, Held, Inversion, JAVA, Kind as Primitive, Lock, Origin, Pending, Process, Record,
    Seen, Site, Times, UNNAMED, Waiters,
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
fn a_count_near_the_limit_of_a_rule_gives_two_causes() {
    fn second(held_s: f64, again: u64) -> Option<Kind> {
        let mut lock = mutex();
        lock.sites[1].hold_on = times(300, held_s / 300.0);
        lock.sites[1].hold_off = Times::default();
        let waits = cause(0.95, vec![seen(Doing::Runs, "", 100)]);
        let finding = first(process(lock, Cause { again, ..waits }))?;
        finding.second.map(|problem| problem.kind())
    }
    assert_eq!(second(0.7, 1020), Some(Kind::LongSection));
    assert_eq!(second(0.7, 980), Some(Kind::Hog));
    assert_eq!(second(0.9, 100), Some(Kind::Hog), "it leaves little to others");
    assert_eq!([3000, 100].map(|again| second(0.7, again)), [None, None]);
}

#[test]
fn few_preemptions_leave_two_causes() {
    /// Sections of 2 ms whose owner was on no CPU during this part of the waiting, with this many
    /// preemptions.
    fn second(lost: f64, preemptions: u64) -> Option<Kind> {
        let mut lock = mutex();
        lock.sites[1].threads = 2;
        lock.sites[1].hold_on = times(200, 2e-3);
        lock.sites[1].hold_off = times(preemptions, 3e-3);
        let waits = cause(1.0 - lost, vec![seen(Doing::Runs, "", 100)]);
        first(process(lock, waits))?.second.map(|problem| problem.kind())
    }
    assert_eq!(second(0.2, 9), Some(Kind::OwnerPreempted));
    assert_eq!(second(0.2, 900), None, "the share is known well");
    assert_eq!(second(0.9, 9), Some(Kind::LongSection));
    assert_eq!(second(0.9, 900), None);
    assert_eq!(second(0.5, 900), Some(Kind::OwnerPreempted), "both explain much");
}

#[test]
fn an_owner_that_was_switched_away_but_not_observed_is_not_known_to_compute() {
    let unseen = Process { causes: Vec::new(), ..process(mutex(), cause(1.0, Vec::new())) };
    let finding = first(unseen).expect("threads wait");
    assert_eq!(
        (finding.kind(), finding.gaps),
        (Kind::LongSection, vec![Gap::FewSamples { samples: 0 }])
    );
}

#[test]
fn a_few_waits_with_little_time_are_no_finding() {
    fn is_found(count: u64, each_s: f64) -> bool {
        let mut lock = mutex();
        lock.sites[0].wait = times(count, each_s);
        first(process(lock, cause(1.0, vec![seen(Doing::Runs, "", 50)]))).is_some()
    }
    // Of one second of four threads.
    assert!(is_found(1000, 0.12e-3) && !is_found(9, 13e-3), "3 %");
    assert!(is_found(2, 0.12), "6 %");
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
        lock.sites[1].threads = 2;
        process(lock, cause(ran, vec![seen(Doing::Runs, "", 100)]))
    }
    let long = first(full(2e-3, 0.5)).expect("threads wait");
    let Some(Problem::OwnerPreempted { lost: Lost::Cpu(part), .. }) = long.second else {
        panic!("{long:?}")
    };
    assert!((part - 0.5).abs() < 1e-9 && long.kind() == Kind::LongSection);
    let rarely = first(full(2e-3, 0.95)).expect("threads wait");
    assert!(rarely.second.is_none(), "{rarely:?}");
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
    assert_ne!(kind(rwlock(10, 9e-3)), Some(Kind::WriterStarvation), "a reader without a CPU");
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
        woken(count, seconds, hold_on, times(2000, 50e-6))
    }
    fn woken(count: u64, seconds: f64, hold_on: Times, handoff: Times) -> Process {
        let lookup = Site {
            contended: 2000,
            wait: times(2000, 4e-3),
            hold_on,
            handoff,
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
    assert_eq!(kind(held(100_000, 2.0, timed.clone())), Some(Kind::ShortSections));
    // Samples miss most waits.
    let sampled = problem(woken(2000, 2.0, Times::default(), Times::default()));
    assert!(matches!(sampled, Problem::Contended { unseen_s: None, .. }), "{sampled:?}");
    // Threads were woken at once and waited for a CPU. Some holds ended long before the owner next
    // woke a thread.
    let mut uneven = timed;
    uneven.add(&times(100, 3e-3));
    let full = problem(woken(2000, 2.0, uneven.clone(), times(2000, 3e-3)));
    let Problem::OwnerPreempted { lost: Lost::Free(free), .. } = full else { panic!("{full:?}") };
    assert!((free - 0.75).abs() < 1e-9);
    let mut long = woken(2000, 2.0, uneven, times(2000, 50e-6));
    assert_eq!(kind(long.clone()), Some(Kind::LongSection));
    // Only the kernel saw that the owner sleeps.
    let held = Held { count: 2000, total_s: 1.9, asleep_s: 1.8, ..Held::default() };
    long.futexes[0].held = Some(held);
    let asleep = problem(long);
    assert!(matches!(asleep, Problem::OwnerAsleep { call: Call::Unseen, .. }), "{asleep:?}");
}

/// Three of twelve threads have a unit for 4 ms at a time. The holds of a lock do not overlap.
#[test]
fn a_word_that_several_threads_own_at_a_time_is_a_pool() {
    fn word(given_by_owner: u64, hold_off: Times) -> Problem {
        let take = Site { wait: times(1000, 11e-3), hold_off, ..site("take", "wait", 1000) };
        let waiters = Waiters { seconds: 1.5, most: 9, ..Waiters::default() };
        let kind = Primitive::Futex;
        let lock = Lock { kind, given_by_owner, waiters, sites: vec![take], ..mutex() };
        let mut process = process(Lock::default(), Cause::default());
        (process.locks, process.causes, process.futexes) = (Vec::new(), Vec::new(), vec![lock]);
        problem(process)
    }
    let pool = word(1125, times(60, 4e-3));
    let Problem::PoolExhausted { in_use, .. } = pool else { panic!("{pool:?}") };
    assert!((in_use - 3.0).abs() < 1e-9);
    assert!(!matches!(word(370, times(60, 4e-3)), Problem::PoolExhausted { .. }), "one owner");
    let mut uneven = times(60, 3e-6);
    uneven.add(&times(40, 10e-3));
    assert!(!matches!(word(1125, uneven), Problem::PoolExhausted { .. }), "unseen releases");
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
