//! One sentence for each kind of finding, gap and remark.

use convoy_diagnose::{
    BusyPool, Call, Clients, Confidence, Counter, Cycle, Finding, Gap, Herd, HogSign, Inversion,
    JavaActivity, JavaMonitor, Lost, Mover, Owner, Owners, Problem, ProcessWaits, PythonModule,
    Source, Subject, Waited, Waiters, Wakers,
};
use convoy_record::{KernelObject, Kind as Primitive, Origin};

/// Returns a finding on the mutex `log`, for which threads in `append` waited for half of their
/// time.
fn finding(problem: Problem) -> Finding {
    Finding {
        pid: 7,
        lock: "log".to_owned(),
        origin: Some(Origin::Libc),
        subject: Some(Subject::Variable { name: "log".to_owned(), instances: 1 }),
        waiters: Some(Waiters {
            place: Some("append (log.c:7)".to_owned()),
            place_share: 1.0,
            is_only_place: true,
        }),
        owners: None,
        share: Some(0.5),
        weight: Some(0.4),
        cost_s: 2.0,
        problem,
        second: None,
        gaps: Vec::new(),
        confidence: Confidence { source: Source::Counted, observations: 9, interval: None },
    }
}

fn text(problem: Problem) -> String {
    super::text(&finding(problem))
}

fn owner() -> Owner {
    Owner { place: Some("sync (log.c:12)".to_owned()), is_waiting_place: false }
}

fn waited(thread: &str, owner: &str, subject: Subject, place: &str) -> Waited {
    Waited {
        thread: thread.to_owned(),
        place: place.to_owned(),
        subject,
        owner: Some(owner.to_owned()),
        owner_ended: false,
        held_at: Some(place.to_owned()),
    }
}

fn variable(name: &str) -> Subject {
    Subject::Variable { name: name.to_owned(), instances: 1 }
}

fn asleep(call: &str) -> Problem {
    let (call, place) = (Call::System(call.to_owned()), Some("flush (log.c:20)".to_owned()));
    Problem::OwnerAsleep { owner: owner(), call, place, parks: false }
}

#[test]
fn waits_for_an_owner() {
    let long = Problem::LongSection {
        owner: owner(),
        hold_s: Some(3e-3),
        wait_s: None,
        off_unexplained: None,
        interpreter: None,
    };
    let chain = Problem::OwnerWaits {
        owner: owner(),
        place: "commit (log.c:30)".to_owned(),
        next: variable("disk"),
        end: Some(Box::new(asleep("fdatasync"))),
    };
    let problems = [
        asleep("fdatasync"),
        chain,
        preempted(Lost::Cpu(0.7), None),
        preempted(Lost::Free(0.7), None),
        preempted(Lost::HandedOver(0.7), None),
        preempted(
            Lost::Cpu(0.9),
            Some(Inversion {
                waiter: "cyclic (12)".to_owned(),
                waiter_priority: 50,
                owner: "diagnostics (10)".to_owned(),
                owner_priority: 0,
            }),
        ),
        Problem::Hog { owner: owner(), sign: HogSign::Holds { run_share: 0.9, hold_s: 3e-3 } },
        Problem::Hog { owner: owner(), sign: HogSign::Futile { futile: 80, wakeups: 100 } },
        long,
        Problem::ShortSections { owner: Owner::default(), count: Some(9000), hold_s: 2e-6 },
        Problem::Contended { owner: None, unseen_s: Some(1e-3), is_timed: false },
        Problem::Contended { owner: Some(owner()), unseen_s: None, is_timed: false },
        Problem::Spinlock { off: Some(0.5) },
    ];
    insta::assert_snapshot!(problems.map(text).join("\n"));
}

#[test]
fn two_causes_are_named() {
    fn two(problem: Problem, second: Problem) -> String {
        super::sentence(&Finding { second: Some(second), ..finding(problem) })
    }
    let long = || Problem::LongSection {
        owner: owner(),
        hold_s: Some(3e-3),
        wait_s: None,
        off_unexplained: None,
        interpreter: None,
    };
    let short = Problem::ShortSections { owner: owner(), count: Some(9000), hold_s: 2e-6 };
    let hog =
        Problem::Hog { owner: owner(), sign: HogSign::Holds { run_share: 0.9, hold_s: 3e-3 } };
    let sentences = [
        two(long(), preempted(Lost::Cpu(0.4), None)),
        two(long(), preempted(Lost::Free(0.4), None)),
        two(long(), hog),
        two(preempted(Lost::Cpu(0.4), None), long()),
        two(preempted(Lost::Cpu(0.4), None), short),
    ];
    insta::assert_snapshot!(sentences.join("\n"));
}

fn preempted(lost: Lost, inversion: Option<Inversion>) -> Problem {
    Problem::OwnerPreempted { owner: owner(), lost, queued: Some(0.9), inversion }
}

fn kernel_wait(object: KernelObject, call: &str) -> Problem {
    Problem::KernelWait { object, call: call.to_owned() }
}

#[test]
fn waits_for_locks_that_the_program_did_not_write() {
    let monitor = JavaMonitor {
        class: "Broker.class".to_owned(),
        is_monitor: true,
        is_notification: false,
        part: 1.0,
        place: "Broker.get (Broker.java:5)".to_owned(),
        holder: Some("Broker.put (Broker.java:9)".to_owned()),
        is_same_place: false,
        activity: JavaActivity::Sleeps { method: Some("Thread.sleep".to_owned()) },
        dumps: 9,
        waiting: 40,
        units: None,
    };
    let stream = JavaMonitor {
        class: "java.io.PrintStream".to_owned(),
        activity: JavaActivity::Native { method: "PrintStream.println".to_owned() },
        ..monitor.clone()
    };
    let problems = [
        Problem::InterpreterLock,
        Problem::LibcLock { function: "localtime_r".to_owned(), asleep: None },
        Problem::RustStream { lock: "std::io::stdio::STDOUT+0x8".to_owned() },
        Problem::RuntimeLock { runtime: "a runtime".to_owned() },
        Problem::Java { monitor: Some(monitor), is_measured: true },
        Problem::Java { monitor: Some(stream), is_measured: true },
        Problem::KernelLock {
            primitive: "rwsem".to_owned(),
            place: "lock_rename, in rename(2)".to_owned(),
            owners: Owners::OffCpu,
            is_of_scheduler: false,
        },
        kernel_wait(KernelObject::FilePosition, "write(2)"),
        kernel_wait(KernelObject::AddressSpace, ""),
    ];
    let of_vm = Problem::LongSection {
        owner: owner(),
        hold_s: Some(1e-3),
        wait_s: None,
        off_unexplained: None,
        interpreter: None,
    };
    let of_vm = Finding { origin: Some(Origin::JavaVm), ..finding(of_vm) };
    let sentences = problems.map(text).into_iter().chain([super::text(&of_vm)]);
    insta::assert_snapshot!(sentences.collect::<Vec<_>>().join("\n"));
}

#[test]
fn limits_starvation_and_deadlocks() {
    let python = || Subject::Python { module: PythonModule::Threading };
    let cycle = |waits: Vec<Waited>| Problem::Deadlock {
        cycle: Cycle::Closed,
        waits,
        behind: 1,
        longest_s: 0.9,
    };
    let interpreter = "python3.11+0x58";
    let problems = [
        Problem::WriterStarvation {
            readers: Some("query (db.c:4)".to_owned()),
            reads: 9000,
            longest_s: 2.0,
        },
        Problem::PoolExhausted {
            in_use: 3.0,
            waiting: 5.0,
            hold_s: 3e-3,
            call: Some(Call::System("recvfrom".to_owned())),
        },
        cycle(vec![
            waited("1", "2", variable("b"), "transfer"),
            waited("2", "1", variable("a"), "refund"),
        ]),
        cycle(vec![
            waited("1", "2", python(), interpreter),
            waited("2", "1", python(), interpreter),
        ]),
        cycle(vec![waited("1", "1", variable("a"), "transfer")]),
    ];
    insta::assert_snapshot!(problems.map(text).join("\n"));
}

#[test]
fn costs_without_waits() {
    let place = || "lookup (routes.c:3)".to_owned();
    let problems = [
        Problem::ThunderingHerd(Herd {
            wakers: Wakers::Broadcasts,
            from: Some("push (queue.c:9)".to_owned()),
            calls: 1500,
            woken_per_call: 13.0,
            place: "work (queue.c:20)".to_owned(),
            class: None,
            futile: 19_000,
            wakeups: 20_000,
        }),
        Problem::ReaderCounter {
            counter: Counter::Rwlock { place: place(), count: 9000, each_s: 9e-8, moves: true },
        },
        Problem::ReaderCounter { counter: Counter::Additions { place: place() } },
        Problem::FalseSharing {
            mover: Mover::Locks { locks: vec![variable("left"), variable("right")] },
            count: 9000.0,
            each_s: 8e-8,
        },
        Problem::Spinning {
            place: place(),
            cpu_share: Some(0.9),
            yields: Some((100_000, place())),
            runnable: Some(8.0),
            cpus: 2,
            is_of_openmp: false,
        },
        Problem::Attempts { place: place(), count: 100_000 },
        Problem::Polls { place: place(), count: 8000 },
        Problem::Processes {
            waits: ProcessWaits::Wakeups { wakeups: 4000 },
            processes: 4,
            program: "postgres".to_owned(),
            sleeps: vec![("epoll_wait(2)".to_owned(), 0.6)],
        },
    ];
    insta::assert_snapshot!(problems.map(text).join("\n"));
}

#[test]
fn gaps_of_findings_follow_the_cure() {
    let mut vague = finding(Problem::LongSection {
        owner: owner(),
        hold_s: Some(1e-4),
        wait_s: None,
        off_unexplained: Some(0.97),
        interpreter: None,
    });
    vague.gaps = vec![Gap::FewSamples { samples: 2 }];
    vague.subject = Some(Subject::Unnamed { primitive: Primitive::Mutex, instances: 3 });
    insta::assert_snapshot!(super::text(&vague));
}

#[test]
fn a_busy_pool_is_named_with_the_threads_that_wait_for_it() {
    fn pool(threads: u64, clients: Option<Clients>) -> String {
        super::quiet::busy_pool(&BusyPool { threads, busy: 0.99, clients })
    }
    let clients = Some(Clients { place: "ask (jobs.c:3)".to_owned(), waiting: 6.9 });
    assert_eq!(
        pool(1, clients.clone()),
        "The only thread of a pool had work during 99 % of its time, while 6.9 threads on average \
         waited for it in ask (jobs.c:3): work waits for a thread. Give the pool more threads, if \
         several can do this work at a time."
    );
    assert!(pool(2, clients).starts_with("The 2 threads of a pool had work during 99 % of their"));
    assert!(pool(4, None).ends_with("UV_THREADPOOL_SIZE=16."));
}
