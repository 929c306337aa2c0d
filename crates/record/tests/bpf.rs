//! Kernel events of programs, if permitted: as root, on kernels that support it.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "../../host/tests/common/skip.rs"]
mod skip;

use convoy_diagnose::{Account, Diagnosis, Remark};
use convoy_record::bpf::Watching;
use convoy_record::{DIRECTORY, Doing, Kind, Lock, Process, Program, Record, VERSION, launch, raw};
use place::Place;
use skip::skip;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the watch, or reports that the test is skipped.
fn watching() -> Option<Watching> {
    match Watching::new() {
        Ok(watching) => Some(watching),
        Err(error) => {
            skip(&format!("the kernel cannot be asked: {error}"), false);
            None
        }
    }
}

/// Samples until the program has exited. Returns for how long it ran.
fn attend(watching: &mut Watching, mut child: Child) -> f64 {
    let begin = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        watching.look();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().expect("it is ours").success());
    begin.elapsed().as_secs_f64()
}

fn record(wall_s: f64, processes: Vec<Process>, unseen: Vec<String>) -> Record {
    let program = Program { wall_s, cpus: 2, ..Program::default() };
    Record { recorded: VERSION, program, processes, unseen }
}

fn only<'a>(locks: &'a [Lock], name: &str) -> &'a Lock {
    let found: Vec<&Lock> = locks.iter().filter(|lock| lock.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {locks:#?}");
    found[0]
}

#[test]
fn a_program_that_calls_futex_itself_has_its_lock_named() {
    // With and without frame pointers, with libc linked dynamically and statically.
    for flags in [&[][..], &["-O2"], &["-fno-omit-frame-pointer"], &["-static"]] {
        let Some(mut watching) = watching() else { return };
        let place = Place::new();
        let program = place.compile("futex.c", flags);
        let child = watching.with(|| Command::new(&program).spawn()).expect("it starts");
        let wall_s = attend(&mut watching, child);
        let mut processes = Vec::new();
        let unseen = watching.finish(&mut processes);
        let [process] = &processes[..] else { panic!("{flags:?}: {processes:#?}") };
        let gate = only(&process.futexes, "gate");
        assert_eq!(gate.kind, Kind::Futex, "{gate:#?}");
        assert!(gate.is_lock() && gate.contended() > 50, "{gate:#?}");
        assert!(gate.waiters.most >= 2, "{gate:#?}");
        assert!(gate.waiters.longest_s < process.seconds, "{gate:#?}");
        let threads = gate.sites.iter().map(|site| site.threads).max();
        assert!((2..=4).contains(&threads.unwrap_or(0)), "{gate:#?}");
        let held = gate.held.expect("owners that had waited gave it up");
        let is_off = held.off_s() > 0.5 * held.total_s && held.asleep_s > 0.0;
        assert!(is_off, "owners sleep in their section: {held:?}");
        let scheduling = process.scheduling.expect("switches were seen");
        assert!(scheduling.sleeps > 400 && scheduling.asleep_s > 0.1, "{scheduling:?}");
        assert!(process.ended && process.threads == 5 && process.cpu_s > 0.0, "{process:#?}");
        let account = Account::new(&record(wall_s, processes, unseen));
        let first = &account.locks[0];
        assert_eq!(first.lock.name, "gate", "{flags:?}: {first:#?}");
        assert!(first.owner_off_cpu_percent > 50.0, "{flags:?}: {first:#?}");
    }
}

#[test]
fn a_lock_of_the_kernel_is_named_with_the_system_call() {
    let Some(mut watching) = watching() else { return };
    let place = Place::new();
    let program = place.compile("renames.c", &[]);
    let mut command = Command::new(program);
    command.arg(&*place);
    let child = watching.with(|| command.spawn()).expect("it starts");
    let wall_s = attend(&mut watching, child);
    let mut processes = Vec::new();
    let unseen = watching.finish(&mut processes);
    let locks = &processes[0].kernel_locks;
    assert!(!locks.is_empty(), "four threads rename on {wall_s} s: {processes:#?}");
    if unseen.iter().any(|sentence| sentence.contains("kptr_restrict")) {
        skip("the kernel hides the names of its functions", false);
        return;
    }
    let is_rename = |lock: &&Lock| lock.sites.iter().any(|site| site.place.contains("rename"));
    let lock = locks.iter().find(is_rename).unwrap_or_else(|| panic!("{locks:#?}"));
    assert!(!lock.kernel.is_empty() && lock.is_lock() && lock.wait_s() > 0.0, "{lock:#?}");
    let json = serde_json::to_string(&record(wall_s, processes, unseen)).expect("it is text");
    let read = Record::parse(&json, Path::new("r.json")).expect("what was written is read");
    let account = Account::new(&read);
    let first = account.locks.first().expect("there is one");
    assert!(first.is_of_kernel() && first.pid == 0, "{first:#?}");
}

#[test]
fn what_libc_tells_and_what_the_kernel_sees_are_one_lock() {
    let Some(mut watching) = watching() else { return };
    let place = Place::new();
    let program = place.compile("convoy.c", &[]);
    let files = place.join("files");
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&[program.into()], &object);
    command.env(DIRECTORY, &files);
    let child = watching.with(|| command.spawn()).expect("it starts");
    let wall_s = attend(&mut watching, child);
    let mut processes = raw::read(&files).expect("the files can be read");
    let unseen = watching.finish(&mut processes);
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    let held = only(&process.locks, "cache_lock").held.expect("the kernel saw its owners");
    let is_off = held.off_s() > 0.5 * held.total_s && held.asleep_s > 0.0;
    assert!(is_off, "owners sleep in their section: {held:?}");
    assert!(process.futexes.iter().all(|lock| !lock.is_lock()), "{:#?}", process.futexes);
    let diagnosis = Diagnosis::new(&record(wall_s, processes, unseen));
    let first = &diagnosis.account.locks[0].lock;
    assert_eq!(first.name, "cache_lock", "{first:#?}");
    assert!(first.sites[0].place.starts_with("use_cache"), "{first:#?}");
    let mut asleep = diagnosis.remarks.iter().filter_map(|remark| match remark {
        Remark::OffCpu { lock, asleep, .. } if lock == "cache_lock" => Some(*asleep),
        _ => None,
    });
    assert!(asleep.next().is_some_and(|part| part > 0.0), "{:?}", diagnosis.remarks);
}

#[test]
fn a_mutex_of_go_is_named_although_its_threads_never_wait_for_it() {
    let Some(mut watching) = watching() else { return };
    let place = Place::new();
    let program = place.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mutex.go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source).env("GOFLAGS", "-mod=mod");
    match go.status() {
        Ok(status) => assert!(status.success(), "{go:?}"),
        Err(error) => return skip(&format!("there is no Go: {error}"), false),
    }
    let child = watching.with(|| Command::new(&program).spawn()).expect("it starts");
    let wall_s = attend(&mut watching, child);
    let mut processes = Vec::new();
    let unseen = watching.finish(&mut processes);
    let causes = processes.iter().flat_map(|process| &process.causes);
    let cause = causes.max_by(|a, b| a.wait_s.total_cmp(&b.wait_s)).expect("there are causes");
    assert!(cause.held_at.starts_with("main.(*ledger).book (mutex.go:"), "{cause:#?}");
    assert!(cause.count > 50 && cause.samples() as f64 >= 1e3 * cause.wait_s, "{cause:#?}");
    let sleeps = cause.owners.iter().find(|seen| seen.doing == Doing::Sleeps).expect("they sleep");
    assert!(2 * sleeps.count > cause.samples(), "goroutines sleep under the mutex: {cause:#?}");
    let account = Account::new(&record(wall_s, processes, unseen));
    let first = account.locks.first().expect("there are locks");
    assert_eq!(first.lock.kind, Kind::Mutex, "{first:#?}");
    let site = &first.lock.sites[0];
    assert!(site.place.starts_with("main.(*ledger).book (mutex.go:"), "{site:#?}");
    assert!(site.wait.count > 50 && site.threads >= 2, "{site:#?}");
}

#[test]
fn a_process_that_runs_already_is_followed_with_its_threads() {
    let Some(mut watching) = watching() else { return };
    let place = Place::new();
    let program = place.compile("futex.c", &[]);
    let child = Command::new(&program).spawn().expect("it starts");
    watching.follow(child.id());
    attend(&mut watching, child);
    let mut processes = Vec::new();
    watching.finish(&mut processes);
    let gate = only(&processes[0].futexes, "gate");
    assert!(gate.is_lock() && gate.contended() > 20, "{gate:#?}");
}

/// Records threads that wait frequently and returns the recorded part of the time that they waited
/// by their own clock.
fn frequent_waits(mut watching: Watching) -> f64 {
    let place = Place::new();
    let program = place.compile("often.c", &["-fno-omit-frame-pointer"]);
    let mut command = Command::new(&program);
    let child = watching.with(|| command.stdout(Stdio::piped()).spawn());
    let mut child = child.expect("it starts");
    let mut output = child.stdout.take().expect("it is piped");
    attend(&mut watching, child);
    let mut counted = String::new();
    output.read_to_string(&mut counted).expect("numbers");
    let mut processes = Vec::new();
    let share = watching.recorded_share();
    watching.finish(&mut processes);
    let counted: Vec<f64> =
        counted.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [process] = &processes[..] else { panic!("{processes:#?}") };
    let [turn, gate] = ["turn", "gate"].map(|name| only(&process.futexes, name));
    let near = |found: f64, expected: f64, part: f64| (found / expected - 1.0).abs() < part;
    // The recorder counts a wait from the sleep on, the program from the call on.
    assert!(near(gate.wait_s(), counted[3], 0.05), "{} of {counted:?}", gate.wait_s());
    assert!(near(gate.contended() as f64, counted[2], 0.1), "{gate:#?} of {counted:?}");
    let is_limited = counted[0] > 150_000.0;
    assert!(!is_limited || share.is_some_and(|share| share < 0.9), "{share:?}");
    assert!(turn.wait_s() < 2.0 * process.seconds, "{turn:#?}");
    turn.wait_s() / counted[1]
}

#[test]
fn frequent_waits_are_scaled_and_long_ones_complete() {
    // The windows are few, and other programs may run in them but not between them.
    let ratios = std::iter::from_fn(|| watching().map(frequent_waits)).take(3);
    let missed: Vec<f64> = ratios.take_while(|ratio| !(0.5..2.0).contains(ratio)).collect();
    assert!(missed.len() < 3, "{missed:?}");
}
