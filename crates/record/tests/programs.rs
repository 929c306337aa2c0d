//! Programs in C under the recorder: they behave as without it, and the record is correct.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;
#[path = "../../host/tests/common/skip.rs"]
mod skip;

use convoy_diagnose::{Account, Diagnosis, Remark};
use convoy_record::sites::{RANGES, Sites};
use convoy_record::trace::{Trace, What};
use convoy_record::{
    CONTENDED, DIRECTORY, Kind, Lock, Origin, Process, Program, Record, Site, Times, launch,
};
use place::Place;
use record::record;
use skip::skip;
use std::path::Path;
use std::process::{Command, Output};

/// Returns the output of a program with the object preloaded and these variables, recorded or not.
fn output_of(program: &str, environment: &[(&str, &str)], recorded: bool) -> String {
    let files = Path::new(program).with_extension("files");
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&[program.into()], &object);
    command.envs(environment.iter().copied());
    if recorded {
        command.env(DIRECTORY, &files);
    }
    let output = command.output().expect("the program starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Compiles a program and runs it under the recorder.
fn run(source: &str, flags: &[&str], words: &[&str]) -> (Output, Vec<Process>) {
    let place = Place::new();
    let program = place.compile(source, flags);
    record(&place, &[&[&*program], words].concat(), &[])
}

/// Runs a program with Convoy's locks: `mutex` or `sem`, an equal sign, and the policy.
fn run_with(policies: &str, source: &str, words: &[&str]) -> (Output, Vec<Process>) {
    let place = Place::new();
    let program = place.compile(source, &[]);
    let names = [("mutex", "CONVOY_MUTEX"), ("sem", "CONVOY_SEM")];
    let variables = names.iter().filter_map(|&(kind, name)| {
        let policy = policies.split(' ').find_map(|one| one.strip_prefix(kind)?.strip_prefix('='));
        Some((name, policy?))
    });
    record(&place, &[&[&*program], words].concat(), &variables.collect::<Vec<_>>())
}

fn lock<'a>(process: &'a Process, name: &str) -> &'a Lock {
    let found = process.locks.iter().find(|lock| lock.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", process.locks))
}

#[test]
fn a_lock_is_named_where_the_program_asks_for_it() {
    let place = Place::new();
    let library = place.join("libshelf.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/shelf.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", "-s", "-pthread", "-o"]).arg(&library).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    let folder = place.display().to_string();
    let flags =
        [&format!("-L{folder}"), &format!("-Wl,-rpath,{folder}"), "-Wl,--no-as-needed", "-lshelf"];
    let program = place.compile("wrappers.c", &flags.map(|flag: &str| flag));
    let (output, processes) = record(&place, &[&program], &[]);
    assert!(output.status.success(), "{output:?}");
    let waits = processes[0].locks.iter().flat_map(|lock| &lock.sites);
    let mut places: Vec<String> = waits
        .filter(|site| site.wait.count > 0)
        .map(|site| site.place.split(" (").next().unwrap_or_default().to_owned())
        .collect();
    places.sort_unstable();
    // Neither what passes its argument on, nor what the library does inside.
    assert_eq!(places, ["deposit", "enter", "store"], "{:#?}", processes[0].locks);
}

#[test]
fn threads_have_the_names_that_the_program_gives_them() {
    let names = ["-DLOCK=gate", "-DFUNCTION=pass", "-DNAME=\"flusher\""];
    let (_, processes) = run("named.c", &names, &[]);
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    assert_eq!(process.by_thread.len(), 3, "{:#?}", process.by_thread);
    for thread in &process.by_thread {
        assert!(thread.count == 50 && thread.lock_wait_s > 0.0, "{thread:?}");
        assert_eq!(process.name_of(thread.id), Some("flusher"), "{:?}", process.thread_names);
    }
    // The main thread has the name of the program.
    assert_eq!(process.label_of(process.pid), process.pid.to_string());
}

#[test]
fn a_convoy_is_told_with_lock_site_and_owner() {
    let (output, processes) = run("convoy.c", &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "320\n");
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    assert!(process.ended && process.threads == 8 && process.seconds > 0.15, "{process:#?}");
    let cache = lock(process, "cache_lock");
    assert_eq!((cache.kind, cache.count(), cache.instances), (Kind::Mutex, 320, 1));
    assert_eq!(cache.sites.len(), 1);
    assert_eq!(cache.sites[0].place, "use_cache (convoy.c:10)");
    assert_eq!(cache.sites[0].threads, 8);
    assert!(cache.contended() >= 4, "each thread waits at least once: {}", cache.contended());
    assert!(cache.waiters.most >= 4 && cache.waiters.longest_s > 0.05, "{:?}", cache.waiters);
    let (held, off) = cache.held_s(process.cpu_s);
    let wall_s = process.seconds;
    assert!(held > 0.5 * wall_s && held < 1.1 * wall_s, "held {held} of {wall_s}");
    assert!(process.sees_switches, "libc registers rseq");
    assert!(off > 0.8 * held, "an owner that sleeps is off CPU: {off} of {held}");
    let program = Program { wall_s, cpus: 2, ..Program::default() };
    let account = Account::new(&Record { program, processes, ..Record::default() });
    let first = &account.locks[0];
    assert_eq!(first.lock.name, "cache_lock", "{first:#?}");
    assert!((first.wait_percent - 100.0).abs() < 1e-9, "{first:#?}");
    assert!(first.owner_off_cpu_percent > 80.0, "{first:#?}");
}

/// Returns the steps and locks of `rate.c`, which runs for this many milliseconds.
fn trace_of(kind: &str, ms: &str) -> (Trace, Vec<Lock>) {
    let (_, mut processes) = run("rate.c", &[], &[kind, "8", ms]);
    let process = processes.remove(0);
    (process.trace, process.locks)
}

/// Returns the steps of one operation, each with its class and the name of its lock.
fn steps<'a>(trace: &'a Trace, locks: &'a [Lock], what: What) -> Vec<(u64, &'a str)> {
    let all =
        trace.strips.iter().flat_map(|strip| strip.steps.iter().map(|one| (strip.class, one)));
    let of = all.filter(|(_, step)| step.what == what);
    of.map(|(class, step)| {
        let lock = trace.places[step.place].lock as usize;
        (class, locks[lock].name.as_str())
    })
    .collect()
}

#[test]
fn steps_tell_who_waits_for_whom() {
    let (trace, locks) = trace_of("buffer", "300");
    // Producers and consumers. The main thread makes only few calls.
    let many: Vec<u64> =
        trace.classes.iter().filter(|one| one.calls > 1000).map(|one| one.threads).collect();
    assert_eq!(many, [4, 4], "{:?}", trace.classes);
    let signals = steps(&trace, &locks, What::Signal);
    let waits = steps(&trace, &locks, What::Wait);
    assert!(signals.len() > 100 && !waits.is_empty(), "{} {}", signals.len(), waits.len());
    // Each class waits for the condition that the other class signals.
    for (class, name) in &waits {
        let other = signals.iter().find(|(_, signalled)| signalled == name).expect("somebody does");
        assert_ne!(other.0, *class, "{name}");
    }
}

#[test]
fn steps_tell_what_is_held_around_what() {
    let (trace, locks) = trace_of("nested", "300");
    let mut around = 0;
    for strip in &trace.strips {
        let mut outer = false;
        for step in &strip.steps {
            match (step.what, locks[trace.places[step.place].lock as usize].name.as_str()) {
                (What::Lock, "outer") => outer = true,
                (What::Unlock, "outer") => outer = false,
                (What::Lock, "inner") => around += u32::from(outer),
                _ => {}
            }
        }
    }
    assert!(around > 100, "{around}");
}

#[test]
fn what_need_not_wait_is_not_recorded_if_nobody_wants_it() {
    let place = Place::new();
    let program = place.compile("convoy.c", &[]);
    let (output, processes) = record(&place, &[&program], &[(CONTENDED, "1")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "320\n");
    let cache = lock(&processes[0], "cache_lock");
    assert!(cache.contended() > 20 && cache.count() == cache.contended(), "{cache:#?}");
    assert!(cache.held_s(0.0).0 > 0.01, "{cache:#?}");
}

#[test]
fn who_gives_it_up_makes_a_semaphore_or_a_condition_a_lock_or_a_signal() {
    let (output, processes) = run("roles.c", &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let one = |name| lock(&processes[0], name);
    for (name, is_lock) in [
        ("section", true),
        ("pool", true),
        ("there", false),
        ("back", false),
        ("flag_free", true),
        ("line_changed", false),
    ] {
        assert_eq!(one(name).is_lock(), is_lock, "{name}: {:#?}", one(name));
    }
    let flag = one("flag_free");
    assert!(flag.is_built() && flag.mutex == "flag_mutex", "{flag:#?}");
    // Each turn releases it once. Threads that had waited held it while they slept.
    assert_eq!(flag.count(), 240, "{flag:#?}");
    let (held_s, off_s) = flag.held_s(0.0);
    assert!(held_s > 0.01 && off_s > 0.5 * held_s, "{held_s} {off_s}");
}

#[test]
fn owners_do_not_run_for_longer_than_their_process() {
    let of = |count, total_s| Times { count, total_s, ..Times::default() };
    // 319 critical sections with a switch, and one in which the loss of the CPU was not seen.
    let (hold_on, hold_off) = (of(1, 0.001), of(319, 0.247));
    let site = Site { hold_on, hold_off, ..Site::default() };
    let lock = Lock { sites: vec![site], ..Lock::default() };
    let (held, off) = lock.held_s(0.0);
    assert!(off < 0.1 * held, "what one long hold without a switch makes of it: {off} of {held}");
    let (held, off) = lock.held_s(0.015);
    assert!(off > 0.9 * held, "the process ran for 15 ms: {off} of {held}");
}

#[test]
fn every_kind_of_lock_behaves_and_is_counted() {
    let (output, processes) = run("every_kind.c", &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "failures 0\n");
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    for (name, kind, count) in [
        ("rwlock", Kind::Rwlock, 8),
        ("spinlock", Kind::Spinlock, 7),
        ("c11", Kind::Mutex, 7),
        ("recursive", Kind::Mutex, 2),
        ("checked", Kind::Mutex, 2),
        ("barrier", Kind::Barrier, 2),
        ("semaphore", Kind::Semaphore, 2),
    ] {
        let lock = lock(process, name);
        assert_eq!((lock.kind, lock.count()), (kind, count), "{name}: {lock:#?}");
    }
    let acts = |name| -> Vec<(String, u64)> {
        let sites = lock(process, name).sites.iter();
        let mut acts: Vec<_> = sites.map(|site| (site.act.clone(), site.count)).collect();
        acts.sort();
        acts
    };
    assert_eq!(acts("rwlock"), [("read".to_owned(), 7), ("write".to_owned(), 1)]);
    let condition = lock(process, "condition");
    let failed: u64 = condition.sites.iter().map(|site| site.failed).sum();
    assert!(condition.count() >= 2 && failed == 1, "{condition:#?}");
    assert!(acts("condition").contains(&("signal".to_owned(), 1)), "{condition:#?}");
}

#[test]
fn forks_short_threads_handlers_cancellation_and_a_kill_cost_nothing() {
    let (output, processes) = run("family.c", &[], &["exec"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "handled some\nhandled some\n");
    assert_eq!(output.status.code(), None, "killed");
    // Both images of the program, and a child of each.
    assert_eq!(processes.len(), 4, "{processes:#?}");
    for process in &processes {
        let count = lock(process, "mutex").count();
        if process.threads > 1 {
            assert!(!process.ended && process.threads_lost == 0, "{process:#?}");
            assert!(count >= 5001, "{count}");
            assert_eq!(process.unrecorded.brief, [1, 16], "{process:#?}");
        } else {
            assert_eq!(count, 100 - 16);
        }
    }
}

#[test]
fn who_is_cancelled_waits_no_more() {
    let (output, processes) = run_with("mutex=handoff sem=handoff", "cancelled.c", &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 1 done\n");
    let waiters = ["gate", "bell"].map(|name| lock(&processes[0], name).waiters);
    assert!(waiters.iter().all(|one| one.most == 1 && one.seconds > 0.01), "{waiters:?}");
}

#[test]
fn a_static_program_is_refused_with_a_reason() {
    let place = Place::new();
    let program = place.compile("convoy.c", &["-static"]);
    let reason = launch::refusal(program.as_ref()).expect("a reason");
    assert!(reason.problem.contains("linked statically"), "{reason}");
    assert_eq!(launch::refusal("sh".as_ref()), None);
}

#[test]
fn locks_of_ours_keep_every_promise_of_libc() {
    for policies in
        ["mutex=spin", "mutex=sleep", "mutex=fair", "mutex=handoff", "mutex=handoff sem=handoff"]
    {
        let (output, _) = run_with(policies, "every_kind.c", &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "failures 0\n", "{policies}");
        let (output, processes) = run_with(policies, "family.c", &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "handled some\n", "{policies}");
        assert_eq!(processes.len(), 2, "{policies}: {processes:#?}");
        let (output, _) = run_with(policies, "queue.c", &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "sum 79810000\n", "{policies}");
    }
}

#[test]
fn every_policy_conforms_as_libc_does() {
    let policies = [
        (&[][..], "libc"),
        (&[("CONVOY_MUTEX", "spin")], "spin"),
        (&[("CONVOY_MUTEX", "sleep")], "sleep"),
        (&[("CONVOY_MUTEX", "fair"), ("CONVOY_SEM", "handoff")], "fair"),
        (&[("CONVOY_MUTEX", "handoff"), ("CONVOY_SEM", "handoff")], "handoff"),
    ];
    for (source, all) in [("conform_mutex.c", "0 of 17"), ("conform_others.c", "0 of 12")] {
        let place = Place::new();
        let program = place.compile(source, &[]);
        let plain = Command::new(&program).output().expect("the program starts");
        let expected = format!("failures {all}\n");
        assert_eq!(String::from_utf8_lossy(&plain.stdout), expected, "plain libc");
        for (environment, name) in policies {
            for recorded in [false, true] {
                let said = output_of(&program, environment, recorded);
                assert_eq!(said, expected, "{source} under {name}, recorded: {recorded}");
            }
        }
    }
}

/// A program that is killed at any system call that it does not make itself. It ends with 9.
#[test]
fn a_program_that_filters_system_calls_ends_as_without_the_object() {
    let place = Place::new();
    let program = place.compile("filtered.c", &[]);
    let policies: [&[(&str, &str)]; 3] =
        [&[], &[("CONVOY_MUTEX", "fair")], &[("CONVOY_MUTEX", "handoff")]];
    for (environment, mode) in
        policies.into_iter().flat_map(|policy| [(policy, "0"), (policy, "1")])
    {
        let object = launch::object().expect("the object can be written");
        for _ in 0..4 {
            let words = [program.clone().into(), mode.into()];
            let mut command = launch::command(&words, &object);
            let output = command.envs(environment.iter().copied()).output().expect("it starts");
            let ending = (output.status.code(), String::from_utf8_lossy(&output.stdout));
            assert_eq!(ending, (Some(9), "done\n".into()), "{environment:?}, {mode}: {output:?}");
        }
    }
}

#[test]
fn a_lock_is_chosen_by_its_variable_or_by_where_it_is_made_or_first_taken() {
    let place = Place::new();
    let program = place.compile("chosen.c", &[]);
    let sites = Sites::of(program.as_ref()).expect("a program");
    let ranges = |wanted: &[(&str, &str)]| {
        let own = |(site, policy): &(&str, &str)| ((*site).to_owned(), (*policy).to_owned());
        sites.ranges(&wanted.iter().map(own).collect::<Vec<_>>())
    };
    let four = [
        ("journals", "fair"),
        ("take_here (chosen.c:23)", "handoff"),
        ("make_queue", "spin"),
        ("lock of find_in_cache (chosen.c:34)", "fair"),
    ];
    // 1: libc's, 3: spin, 4: fair, 5: handoff.
    for (wanted, others, expected) in [
        (&four[..], "", "453411"),
        (&four[..3], "spin", "453333"),
        (&[("chosen.c:39", "handoff")], "", "115151"),
        (&[("journals+0x28", "fair"), ("go_around", "sleep")], "", "412121"),
        (&[("journals+0x50", "fair")], "", "111111"),
    ] {
        let ranges = ranges(wanted).expect("they are there");
        let environment = [(RANGES, ranges.as_str()), ("CONVOY_MUTEX", others)];
        for recorded in [false, true] {
            let said = output_of(&program, &environment, recorded);
            assert_eq!(said, format!("{expected} 0 0 0 0 0 0\n"), "{wanted:?} {recorded}");
        }
    }
    let error = ranges(&[("nowhere.c:7", "fair")]).expect_err("no such place").to_string();
    assert!(error.contains("`nowhere.c:7`") && error.contains("program"), "{error}");
}

#[test]
fn who_waited_in_the_parent_does_not_wait_in_a_child() {
    for (policy, words) in [
        ("mutex=libc", &[][..]),
        ("mutex=spin", &[]),
        ("mutex=fair", &[]),
        ("mutex=handoff", &[]),
        ("sem=libc", &["semaphore"]),
        ("sem=handoff", &["semaphore"]),
        ("mutex=handoff sem=handoff", &["semaphore"]),
    ] {
        let (output, _) = run_with(policy, "waiters_fork.c", words);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "16000 0\n", "{policy}");
    }
}

#[test]
fn every_way_to_take_a_mutex_excludes_every_other() {
    for policy in ["mutex=libc", "mutex=spin", "mutex=sleep", "mutex=fair", "mutex=handoff"] {
        for threads in ["3", "24"] {
            let (output, _) = run_with(policy, "stress.c", &[threads, "200"]);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "0 wrong, handled\n", "{policy}, {threads} threads");
        }
    }
}

#[test]
fn a_fair_mutex_starves_nobody() {
    // Under libc's policy, hundreds of a thousand threads get no turn in a second.
    let (output, _) = run_with("mutex=fair", "shares.c", &["1000"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 starved, one at a time\n");
}

#[test]
fn all_threads_may_use_each_caller_of_a_function_that_takes_locks_for_others() {
    let (_, processes) = run("callers.c", &[], &[]);
    let only = lock(&processes[0], "only");
    let of = |place: &str| only.sites.iter().find(|site| site.place.starts_with(place));
    let (Some(first), Some(second)) = (of("first ("), of("second (")) else { panic!("{only:#?}") };
    assert!(first.contended > 0 && second.contended > 0, "{only:#?}");
    assert_eq!((first.threads, second.threads), (5, 5), "{only:#?}");
}

#[test]
fn a_semaphore_that_hands_over_is_seen_as_one() {
    fn passed(policies: &str) -> f64 {
        let (output, processes) = run_with(policies, "turns.c", &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "20000\n");
        let semaphore = lock(&processes[0], "turn");
        assert!(semaphore.is_lock(), "{semaphore:#?}");
        semaphore.contended() as f64 / semaphore.count() as f64
    }
    // A thread that reacquires its own unit does not wait; after a handoff it does. On a busy
    // machine a run may lose its convoy: threads that are preempted outside do not wait either.
    let libc = passed("sem=libc");
    let handoff = (0..4).map(|_| passed("sem=handoff")).fold(0.0, f64::max);
    // On a busy machine every unit may be waited for under both.
    assert!(handoff > 0.9 && (handoff > libc || libc > 0.9), "{libc} {handoff}");
}

#[test]
fn two_thousand_threads_are_recorded_one_by_one() {
    let (output, processes) = run_with("sem=handoff", "turns.c", &["2000", "20"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "40000\n");
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    assert!(process.threads >= 2000 && process.threads_lost == 0, "{}", process.threads);
    let semaphore = lock(process, "turn");
    assert_eq!((semaphore.count(), semaphore.sites[0].threads), (40_000, 2000));
    // Most of them wait for the first unit, however busy the machine is.
    assert!(semaphore.waiters.most > 1000, "{}", semaphore.waiters.most);
    let (handoff, waits) = (semaphore.all(|site| &site.handoff), semaphore.all(|site| &site.wait));
    assert!(handoff.count > 10_000 && waits.count > 10_000, "{} {}", handoff.count, waits.count);
}

#[test]
fn a_lock_whose_waiters_sleep_each_on_a_condition_of_its_own_is_named_by_who_takes_it() {
    let (output, processes) = run("parkers.c", &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "79600\n");
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    let [taken] = &process.runtime_locks[..] else { panic!("{:#?}", process.runtime_locks) };
    assert!(taken.name.starts_with("lock of enter (parkers.c:"), "{}", taken.name);
    let kind = (taken.runtime.as_str(), taken.origin, taken.is_lock());
    assert_eq!(kind, ("park_mutex_lock", Origin::Library, true));
    assert!(taken.sites[0].wait.count > 100 && taken.sites[0].threads >= 2, "{taken:#?}");
    let mut conditions = process.locks.iter().filter(|lock| lock.kind == Kind::Condition);
    let idle = conditions.find(|one| one.sites[0].place.starts_with("wait_for_work ("));
    assert!(idle.is_some_and(|idle| !idle.is_lock()), "{:#?}", process.locks);
    let program = Program { wall_s: process.seconds, cpus: 2, ..Program::default() };
    let account = Account::new(&Record { program, processes, ..Record::default() });
    let irreplaceable = account.irreplaceable().expect("libc has no such lock");
    assert!(irreplaceable.lock.starts_with("lock of enter (parkers.c:"), "{irreplaceable:?}");
    assert_eq!(irreplaceable.runtime.as_deref(), Some("park_mutex_lock"));
}

#[test]
fn a_stretch_in_which_threads_waited_is_told_with_its_time() {
    let (output, processes) = run("stretch.c", &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "over\n");
    let waited = |of: fn(&Process) -> &Vec<f64>| of(&processes[0]).iter().sum::<f64>();
    let gate = lock(&processes[0], "gate").wait_s();
    assert!((waited(|one| &one.phases_lock_s) - gate).abs() < 0.01 * gate, "locks alone");
    assert!(waited(|one| &one.phases_wait_s) >= gate, "with barriers");
    let program = Program { wall_s: processes[0].seconds, cpus: 2, ..Program::default() };
    let diagnosis = Diagnosis::new(&Record { program, processes, ..Record::default() });
    let is_uneven = |remark: &Remark| matches!(remark, Remark::Uneven { .. });
    assert!(diagnosis.remarks.iter().any(is_uneven), "{:?}", diagnosis.remarks);
}

#[test]
fn monitors_of_java_are_named_by_the_method_that_waits() {
    let place = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/Ledger.java");
    let mut javac = Command::new("javac");
    match javac.arg("-d").arg(&*place).arg(source).status() {
        Ok(status) => assert!(status.success(), "{javac:?}"),
        Err(error) => return skip(&format!("there is no Java: {error}"), false),
    }
    let path = place.display().to_string();
    let flags = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", &path];
    let words = [&["java"], &flags[..], &["Ledger"]].concat();
    let (output, processes) = record(&place, &words, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4\n", "{output:?}");
    let mut origins = processes[0].runtime_locks.iter().map(|lock| lock.origin);
    assert!(origins.any(|origin| origin == Origin::JavaMonitor), "{processes:#?}");
    let program = Program { wall_s: processes[0].seconds, cpus: 2, ..Program::default() };
    let account = Account::new(&Record { program, processes, ..Record::default() });
    let first = &account.locks[0].lock;
    assert_eq!((first.name.as_str(), first.origin), ("ObjectMonitor::enter", Origin::JavaMonitor));
    assert!(first.sites[0].place.starts_with("Ledger."), "{first:#?}");
}
