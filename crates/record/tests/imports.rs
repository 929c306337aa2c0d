//! Records from the output of other tools. The samples are in `tests/imports`: `perf` 6.1 on a 6.18
//! kernel, `perf lock contention -x` and `/proc/lock_stat` as in the documentation of the kernel.

use convoy_diagnose::Account;
use convoy_record::{Kind, Lock, Record, import};
use std::path::Path;

fn imported(name: &str, text: &str) -> Result<Record, String> {
    let record = import::read(Path::new(name), text).expect("a known format");
    record.map_err(|error| error.to_string())
}

fn sample(name: &str) -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(name);
    let text = std::fs::read_to_string(path).expect("a sample");
    imported(name, &text).expect("it can be read")
}

fn lock<'a>(record: &'a Record, name: &str) -> &'a Lock {
    let locks = &record.processes[0].locks;
    locks.iter().find(|lock| lock.name == name).unwrap_or_else(|| panic!("no {name}: {locks:#?}"))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.max(1e-3)
}

#[test]
fn perf_lock_contention_in_each_of_its_forms() {
    let record = sample("perf-lock.txt");
    let rename = lock(&record, "lock of __x64_sys_rename+0x76");
    assert_eq!((rename.kind, rename.count(), rename.contended()), (Kind::Rwlock, 731, 731));
    assert_eq!(rename.sites[0].act, "write");
    // `29.31 s`, `110.93 ms`: the unit varies from cell to cell.
    assert!(near(rename.wait_s(), 29.31) && near(rename.sites[0].wait.max_s, 0.11093));
    // Two rows with the same caller are one place.
    assert_eq!(lock(&record, "lock of __legitimize_path+0x2a").count(), 1167 + 173);
    let first = &Account::new(&record).locks[0];
    assert!(first.lock.name.starts_with("lock of __x64_sys_rename"), "{first:#?}");
    assert_eq!(sample("perf-lock-tasks.txt").processes[0].locks[0].sites[0].place, ":32181");
    let separated = sample("perf-lock.csv");
    let fault = lock(&separated, "lock of do_user_addr_fault+0x40e");
    assert!(fault.kind == Kind::Rwlock && near(fault.wait_s(), 162_748e-9), "{fault:#?}");
    assert_eq!(fault.sites[0].act, "read");
}

#[test]
fn perf_script_with_lock_events_stacks_and_wakeups() {
    let record = sample("perf-script.txt");
    let locks = &record.processes[0].locks;
    assert_eq!(locks.iter().map(Lock::count).sum::<u64>(), 6, "{locks:#?}");
    let semaphore = &locks[0];
    assert_eq!((semaphore.kind, semaphore.sites[0].act.as_str()), (Kind::Rwlock, "write"));
    assert!(semaphore.name.starts_with("lock 0xffff"), "{}", semaphore.name);
    let site = &semaphore.sites[0];
    assert!(!site.place.contains("rwsem") && !site.place.contains("down"), "{}", site.place);
    // The last part of a wait is the time from the wakeup until the thread runs.
    assert!(site.handoff.count > 0 && site.handoff.total_s < site.wait.total_s, "{site:#?}");
    assert!(record.program.wall_s > 0.0);
}

#[test]
fn sleep_in_lock_functions_is_found_in_stacks() {
    let record = sample("folded.txt");
    let cache = lock(&record, "lock of Cache::find(int)");
    assert!(cache.kind == Kind::Mutex && near(cache.wait_s(), 63.5e-3), "{cache:#?}");
    assert_eq!(lock(&record, "lock of Queue::pop()").kind, Kind::Condition);
    assert!(record.unseen.iter().any(|line| line.starts_with("1 lines were passed over")));
    let switches = "\
worker 11 [000] 10.000000: sched:sched_switch: prev_comm=worker prev_pid=11 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
\tffffffff82201d7e __schedule+0x10e ([kernel.kallsyms])
\t           93a10 ___pthread_mutex_lock+0x10 (/usr/lib/libc.so.6)
\t            1234 find+0x20 (/srv/server)

swapper 0 [000] 10.002000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=worker next_pid=11 next_prio=120
";
    let record = imported("switches.txt", switches).expect("it can be read");
    assert!(near(lock(&record, "lock of find").wait_s(), 2e-3), "{record:#?}");
}

/// The profiles and the recording are of programs that hold a mutex during fdatasync(2) (Go 1.24),
/// and call a `synchronized` method from eight threads (Java 17).
#[test]
fn profiles_of_go_name_the_holder_or_the_waiter() {
    fn sample(name: &str) -> Record {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(name);
        let bytes = std::fs::read(&path).expect("a sample");
        import::read_bytes(&path, &bytes).expect("a profile")
    }
    let record = sample("go-mutex.pb.gz");
    let cause = record.processes[0].causes.iter().max_by(|a, b| a.wait_s.total_cmp(&b.wait_s));
    let cause = cause.expect("a place that holds");
    assert_eq!(cause.held_at, "main.(*SegmentWAL).Sync (main.go:18)");
    assert!(cause.count > 100 && (1.0..10.0).contains(&cause.wait_s), "{cause:#?}");
    let record = sample("go-block.pb.gz");
    let waits = lock(&record, "lock of main.(*SegmentWAL).Log (main.go:17)");
    assert!(waits.contended() > 1000 && (1.0..10.0).contains(&waits.wait_s()), "{waits:#?}");
    assert_eq!(waits.sites[0].threads, 0, "a profile does not say how many");
}

#[test]
fn flight_recordings_of_java_are_the_same_as_text_and_as_json() {
    fn of(record: &Record) -> (u64, u64, u64) {
        let site = lock(record, "monitor of java.lang.Class").sites[0].clone();
        assert_eq!(site.place, "Broker.serversToIgnore (line 5)");
        (site.count, site.threads, record.processes[0].threads)
    }
    let [text, json] = ["jfr.txt", "jfr.json"].map(sample);
    assert_eq!(of(&text), (6, 6, 6));
    assert_eq!(of(&text), of(&json));
    let seconds = [&text, &json].map(|record| record.processes[0].seconds);
    assert!((seconds[0] - seconds[1]).abs() < 0.01 && seconds[0] > 0.1, "{seconds:?}");
}

/// The sample is from the documentation of async-profiler.
#[test]
fn stacks_of_async_profiler_name_class_and_method() {
    let record = sample("async-profiler.txt");
    let monitor = lock(&record, "monitor of java.lang.Class");
    assert_eq!(monitor.sites[0].place, "Broker.serversToIgnore");
    assert!(near(monitor.wait_s(), 0.812_345_678), "{monitor:#?}");
    let name = "java.util.concurrent.locks.ReentrantLock$NonfairSync in Broker.load";
    assert!(near(lock(&record, name).wait_s(), 0.002_345_678));
    let counts = "java/lang/Thread.run;Broker.get;java.lang.Class 12\n";
    let error = imported("counts.txt", counts).expect_err("no time");
    assert!(error.contains("--total"), "{error}");
}

#[test]
fn lock_stat_with_its_classes_and_places() {
    let record = sample("lock-stat.txt");
    let mmap = lock(&record, "&mm->mmap_sem");
    assert_eq!((mmap.kind, mmap.contended()), (Kind::Rwlock, 184));
    // Microseconds.
    assert!(near(mmap.wait_s(), (16_371.53 + 325_629.52) / 1e6), "{}", mmap.wait_s());
    assert_eq!(lock(&record, "&rq->lock").count(), 3_453_404);
    assert!(record.unseen.iter().any(|line| line.contains("contended 645 times at task_rq_lock")));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line_and_what_is_no_format_is_left_alone() {
    let head = " contended   total wait     max wait     avg wait         type   caller\n\n";
    let wrong = head.to_owned() + " 5  1.00 us  1.00 parsec  1.00 us  mutex  f+0x1\n";
    let error = imported("a.txt", &wrong).expect_err("no unit");
    assert!(error.contains("a.txt") && error.contains("line 3: `parsec`"), "{error}");
    let class = "lock_stat version 0.4\n  &rq->lock:  1  2  3\n";
    let error = imported("b.txt", class).expect_err("numbers are missing");
    assert!(error.contains("line 2") && error.contains("has 3 numbers"), "{error}");
    let event = "a 1 [000] 1.5.2: lock:contention_begin: 0x1 (flags=0x1)\n";
    assert!(imported("c.txt", event).expect_err("no time").contains("line 1"));
    for other in ["", "key = 1\n", "a;b twice\n"] {
        assert!(import::read(Path::new("d.txt"), other).is_none(), "{other:?}");
    }
}
