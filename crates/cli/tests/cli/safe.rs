//! Recording harms nothing and loses nothing, in surroundings that production has.

use crate::common::{interrupt, wait_until, with_default_signals};
use crate::skip::skip;
use crate::{code, compile, convoy, directory, ends, finish, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles the program of all modes.
pub(crate) fn program(place: &Path) -> String {
    let to = place.join("faults");
    compile("../record/tests/programs/faults.c", &to, &["-g0", "-w"]);
    to.to_str().expect("UTF-8").to_owned()
}

/// A shell that runs `script` where mounts are its own; nothing where that is not permitted.
pub(crate) fn in_namespace(script: &str) -> Option<Command> {
    let is_root = rustix::process::geteuid().is_root();
    let flags = if is_root { "-m" } else { "-Urm" };
    let mut works = Command::new("unshare");
    works.args([flags, "mount", "-t", "tmpfs", "none", "/mnt"]);
    if !works.output().is_ok_and(|output| output.status.success()) {
        skip("unshare(1) may make no namespace of mounts here", false);
        return None;
    }
    let mut shell = Command::new("unshare");
    shell.args([flags, "bash", "-c", script]);
    Some(shell)
}

pub(crate) fn record(file: &Path, words: &[&str]) -> Output {
    let file = file.to_str().expect("UTF-8");
    let all = [&["record", "--kernel", "off", "-o", file, "--"], words].concat();
    convoy(&all).output().expect("it starts")
}

/// Records a program that must end with `expected`.
pub(crate) fn recorded(file: &Path, words: &[&str], expected: i32) -> Output {
    let output = record(file, words);
    assert_eq!(code(&output), Some(expected), "{words:?}: {output:?}");
    output
}

pub(crate) fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("a record");
    serde_json::from_str(&text).expect("JSON")
}

/// Acquisitions of mutexes by all processes of a record.
pub(crate) fn acquisitions(record: &Value) -> u64 {
    let processes = record["processes"].as_array().expect("processes");
    let locks = processes.iter().flat_map(|one| one["locks"].as_array().expect("locks"));
    let sites = locks
        .filter(|lock| lock["kind"] == "mutex")
        .flat_map(|one| one["sites"].as_array().expect("sites"));
    let sites = sites.map(|site| &site["count"]);
    // Forked processes have no file for their first ones.
    let brief = processes.iter().map(|one| &one["unrecorded"]["brief"][1]);
    sites.chain(brief).map(|count| count.as_u64().unwrap_or(0)).sum()
}

/// Directories of recordings that are there.
fn left() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let all = entries.map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().contains("convoy-record-")).collect()
}

#[test]
fn all_of_a_sandboxed_program_is_recorded_or_said_to_be_missing() {
    let place = directory("safe-sandbox");
    let (program, file) = (program(&place), place.join("r.json"));
    let output = record(&file, &[&program, "seccomp"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "ok\n"));
    assert!(stderr(&output).contains("limited its system calls"), "{output:?}");
    assert_eq!(acquisitions(&read(&file)), 440_000);
    // A filter that libc did not set shows when the first page is refused.
    let output = record(&file, &[&program, "filter"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "ok\n"));
    assert!(stderr(&output).contains("limited its system calls"), "{output:?}");
    assert!(!stderr(&output).contains("no room"), "{output:?}");
    // In strict mode even the time stamp counter is forbidden: acquisitions are only counted.
    let output = record(&file, &[&program, "strict"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "ok\n"));
    let messages = stderr(&output);
    assert!(messages.contains("Some 3000000 acquisitions were not recorded"), "{messages}");
    assert_eq!(acquisitions(&read(&file)), 1);
    let output = record(&file, &[&program, "fsize"]);
    assert!(stderr(&output).contains("(ulimit -n, -f, -v)"), "{output:?}");
    let output = recorded(&file, &[&program, "descriptors"], 3);
    assert!(stderr(&output).contains("(ulimit -n, -f, -v)"), "{output:?}");
    let output = record(&file, &[&program, "ticks"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "ok\n"));
    let messages = stderr(&output);
    assert!(messages.contains("forbade the time stamp counter"), "{messages}");
    assert!(messages.contains("A process that was forked was not recorded"), "{messages}");
    // The first ones of the forked process are counted.
    assert_eq!(acquisitions(&read(&file)), 40_016);
}

#[test]
fn a_small_place_ends_the_recording_and_not_the_program() {
    let place = directory("safe-shm");
    let (program, file) = (program(&place), place.join("r.json"));
    let convoy = env!("CARGO_BIN_EXE_convoy");
    for (size, mode, lost) in [("4m", "tables", true), ("64m", "tables", false)] {
        let script = format!(
            "mount -t tmpfs -o size={size} none /dev/shm && {convoy} record --kernel off --buffer \
             /dev/shm -o {} -- {program} {mode}",
            file.display()
        );
        let Some(mut shell) = in_namespace(&script) else { return };
        let output = shell.output().expect("it starts");
        assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "10000\n"), "{output:?}");
        let messages = stderr(&output);
        assert!(!messages.contains("768 locks"), "it is room that is missing: {output:?}");
        let count = acquisitions(&read(&file));
        if lost {
            assert!(messages.contains("acquisitions") && count < 10_000, "{count}: {messages}");
            continue;
        }
        // On a busy machine there are more waits, which take room for their times, so that some
        // acquisitions find none: they are counted as missing.
        let missing = messages.split(" acquisitions were not counted").next().unwrap_or_default();
        let missing = missing.rsplit(' ').next().and_then(|number| number.parse().ok());
        assert_eq!(count + missing.unwrap_or(0), 10_000, "{messages}");
        assert!(count > 9_000, "{messages}");
    }
    let script = format!(
        "mount -t tmpfs -o size=64m none /dev/shm && {convoy} record --kernel off --buffer \
         /dev/shm -o {} -- {program} spawnmany",
        file.display()
    );
    let Some(mut shell) = in_namespace(&script) else { return };
    let output = finish(&mut shell, 0);
    assert_eq!(acquisitions(&read(&file)), 300 * 17, "each child fits: {output:?}");
}

#[test]
fn no_object_of_others_is_loaded_and_none_is_left_where_they_write() {
    let place = directory("safe-object");
    let (program, file, temporary) = (program(&place), place.join("r.json"), place.join("tmp"));
    std::fs::create_dir_all(&temporary).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(&temporary, mode).expect("it is ours");
    let file = file.to_str().expect("UTF-8");
    let mut command = convoy(&["record", "--kernel", "off", "-o", file, "--", &program, "maps"]);
    command.env("TMPDIR", &temporary).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    let output = finish(&mut command, 0);
    let maps = stdout(&output);
    let object = maps.lines().find(|line| line.contains("convoy") && line.contains("r-xp"));
    let object = object.expect("the object is loaded");
    assert!(!object.contains(temporary.to_str().expect("UTF-8")), "{object}");
    let rest = std::fs::read_dir(&temporary).expect("it is there").count();
    assert_eq!(rest, 0, "nothing is left in {}", temporary.display());
    // Root does not use HOME, which may belong to the user that became root.
    if rustix::process::geteuid().is_root() {
        let mut command =
            convoy(&["record", "--kernel", "off", "-o", file, "--", &program, "maps"]);
        let output = command.env("HOME", &temporary).env_remove("XDG_CACHE_HOME").output();
        assert_eq!(code(&output.expect("it starts")), Some(0));
        assert_eq!(std::fs::read_dir(&temporary).expect("it is there").count(), 0);
    }
}

#[test]
fn what_can_be_refused_is_refused_before_the_program_starts() {
    let place = directory("safe-refused");
    let mark = place.join("it ran");
    let touch = ["touch", mark.to_str().expect("UTF-8")];
    let nowhere = place.path("no such directory/r.json");
    for (words, expected) in [
        (vec!["record", "--tag", "two words", "--"], 2),
        (vec!["record", "-o", nowhere, "--"], 3),
        (vec!["record", "--store", "/proc/no store", "--"], 3),
        (vec!["record", "-o", "/proc/r.json", "--"], 3),
    ] {
        ends(&[&words[..], &touch[..]].concat(), expected);
        assert!(!mark.exists(), "{words:?}");
    }
    for (limit, expected) in
        [("-n 8", "descriptors"), ("-f 0", "(ulimit -f)"), ("-v 3000000", "(ulimit -v)")]
    {
        let script = format!(
            "ulimit {limit} && exec {} record --kernel off -- touch {}",
            env!("CARGO_BIN_EXE_convoy"),
            touch[1]
        );
        let output = finish(Command::new("bash").args(["-c", &script]), 3);
        assert!(stderr(&output).contains(expected), "{output:?}");
        assert!(!mark.exists(), "{limit}");
    }
    // Without its own place the record goes to the next one, and the last line names it.
    let mut command = convoy(&["record", "--kernel", "off", "--", "sh", "-c", "exit 7"]);
    command.env_remove("CONVOY_STORE").env_remove("HOME").env_remove("XDG_DATA_HOME");
    let output = finish(command.current_dir(&*place).env("TMPDIR", &*place), 7);
    let messages = stderr(&output);
    let last = messages.lines().last().expect("a line");
    assert!(last.contains("the record is in ./convoy-record-"), "{messages}");
}

#[test]
fn a_full_disk_costs_neither_the_record_nor_the_exit_code() {
    let place = directory("safe-full");
    let convoy = env!("CARGO_BIN_EXE_convoy");
    let script = format!(
        "mkdir -p {0}/full && mount -t tmpfs -o size=8k none {0}/full && cd {0} && TMPDIR={0} \
         {convoy} record --kernel off -o {0}/full/r.json -- sh -c 'head -c 8192 /dev/zero > \
         {0}/full/zeros; exit 9'",
        place.display()
    );
    let Some(mut shell) = in_namespace(&script) else { return };
    shell.env("CONVOY_STORE", place.join("runs.sqlite3"));
    let output = finish(&mut shell, 9);
    let messages = stderr(&output);
    assert!(messages.contains("more: convoy explain 1"), "in the store: {messages}");
}

/// A program that says which signal it got.
const SAYS: &str = "trap 'echo HUP; exit 3' HUP; trap 'echo QUIT; exit 4' QUIT; \
                    trap 'echo TERM; exit 5' TERM; touch READY; while :; do sleep 0.01; done";

#[test]
fn signals_come_to_the_program_as_what_they_are() {
    for (signal, name, expected) in
        [(Signal::HUP, "HUP\n", 3), (Signal::QUIT, "QUIT\n", 4), (Signal::TERM, "TERM\n", 5)]
    {
        let place = directory(&format!("safe-signal-{expected}"));
        let (ready, file) = (place.path("ready"), place.path("r.json"));
        let script = SAYS.replace("READY", ready);
        let words = ["record", "--kernel", "off", "-o", file, "--", "bash", "-c", &script];
        let mut command = with_default_signals(&convoy(&words));
        let mut child = command.spawn().expect("it starts");
        wait_until(&mut child, |_| Path::new(ready).exists());
        let output = interrupt(child, signal);
        assert_eq!((code(&output), stdout(&output).as_str()), (Some(expected), name));
        assert!(Path::new(file).exists(), "{output:?}");
    }
}

#[test]
fn what_a_killed_recorder_leaves_is_recovered() {
    let begun = |file: PathBuf| {
        let found = std::fs::metadata(&file);
        found.is_ok_and(|found| std::os::unix::fs::MetadataExt::blocks(&found) > 0)
            && !file.ends_with("budget")
    };
    let place = directory("safe-killed");
    let program = program(&place);
    let (buffer, file) = (place.path("buffer"), place.path("r.json"));
    std::fs::create_dir_all(buffer).expect("a directory");
    let words =
        ["record", "--kernel", "off", "--buffer", buffer, "-o", file, "--", &program, "goeson"];
    let mut command = with_default_signals(&convoy(&words));
    let mut child = command.spawn().expect("it starts");
    // Until the program has begun its file, which has a page then: from there on it records alone.
    let entries = |at: &Path| {
        let entries = std::fs::read_dir(at).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let files = || entries(Path::new(buffer)).into_iter().flat_map(|at| entries(&at));
    wait_until(&mut child, |_| files().any(|at| entries(&at).into_iter().any(begun)));
    child.kill().expect("killed");
    child.wait().expect("it is dead");
    let left = || std::fs::read_dir(buffer).expect("it is there").count();
    assert_eq!(left(), 1);
    // Another command leaves it alone, and mentions it once the program has ended: after a second
    // or, on a busy machine, some seconds.
    let other = place.path("other.json");
    let words = ["record", "--buffer", buffer, "-o", other, "--", "true"];
    let begin = std::time::Instant::now();
    loop {
        let messages = stderr(&convoy(&words).output().expect("it starts"));
        assert_eq!(left(), 1, "{messages}");
        if messages.contains("convoy record --recover keeps it") {
            break;
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(120), "{messages}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let output = ends(&["record", "--recover", "--buffer", buffer], 0);
    assert_eq!(left(), 0, "{output:?}");
    let record = read(Path::new(file));
    assert_eq!(record["program"]["ending"], "the recorder was killed");
    assert!(record["program"]["command"][0].as_str().expect("text").ends_with("faults"));
    assert!(acquisitions(&record) > 1000);
}

#[test]
fn programs_that_would_not_bear_the_object_are_told_beforehand() {
    let place = directory("safe-unbearable");
    let source = place.join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let compile = |name: &str, flags: &[&str]| {
        let to = place.join(name);
        let mut cc = Command::new("cc");
        cc.args(flags).arg(&source).arg("-o").arg(&to);
        let made = cc.output().is_ok_and(|output| output.status.success());
        made.then(|| to.to_str().expect("UTF-8").to_owned())
    };
    let musl = compile("musl", &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
    let checked = compile("checked", &["-fsanitize=address"]);
    for (program, words) in [(musl, "musl"), (checked, "AddressSanitizer")] {
        let Some(program) = program else { continue };
        let mut command = convoy(&["record", "--kernel", "off", "--", &program]);
        let output = command.output().expect("it starts");
        // Where CPU time may be sampled the program runs without the object, if it can be started.
        let says = |words| stderr(&output).contains(words);
        assert!(says("cannot start") || says(words) && says("--pid"), "{output:?}");
        assert!(!says("No process took"), "one reason is enough: {output:?}");
        let with = convoy(&["with", "--mutex", "fair", "--", &program]).output();
        assert_eq!(code(&with.expect("it starts")), Some(2));
    }
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    ends(&["record", "--kernel", "off", "--", pipe], 126);
}

#[test]
fn nothing_stays_in_memory_when_a_recording_is_over() {
    let place = directory("safe-trace");
    let program = program(&place);
    // A recorder that was killed before this test may have left a directory.
    let before = left();
    record(&place.join("r.json"), &[&program, "plain"]);
    let mode = std::fs::metadata(place.join("r.json")).expect("a record").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    // Other tests record at the same time. The directory of a living process is locked, except just
    // after its creation and just before its removal.
    for path in left().into_iter().filter(|path| !before.contains(path)) {
        let is_left = (0..20).all(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let lock = std::fs::File::open(path.join("lock"));
            lock.is_ok_and(|lock| {
                rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok()
            })
        });
        assert!(!is_left, "{} was left", path.display());
    }
}

/// The same program with other names, at `to`.
pub(crate) fn named(to: &Path, prefix: &str) {
    let defined = [format!("-DLOCK={prefix}_lock"), format!("-DFUNCTION={prefix}_function")];
    compile("../record/tests/programs/named.c", to, &defined.each_ref().map(String::as_str));
}

#[test]
fn names_are_those_of_the_file_that_was_mapped() {
    let place = directory("safe-names");
    let (inside, real, file) = (place.join("inside"), place.join("real"), place.join("r.json"));
    std::fs::create_dir_all(&inside).expect("a directory");
    named(&real, "real");
    // At the path of the program lies another one, in this namespace.
    let program = inside.join("program");
    named(&program, "wrong");
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {2} && exec {2} long",
        inside.display(),
        real.display(),
        program.display()
    );
    let Some(mut shell) = in_namespace(&script) else { return };
    let mut child = shell.spawn().expect("it starts");
    wait_until(&mut child, |pid| {
        std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"program\n")
    });
    let (pid, name) = (child.id().to_string(), file.to_str().expect("UTF-8"));
    let words = ["record", "--kernel", "off", "--pid", &pid, "--seconds", "1", "-o", name];
    let output = convoy(&words).output().expect("it starts");
    child.kill().expect("it is ours");
    child.wait().expect("it is dead");
    assert_eq!(code(&output), Some(0), "{output:?}");
    let text = std::fs::read_to_string(&file).expect("a record");
    assert!(text.contains("real_lock") && !text.contains("wrong_"), "{text}");

    // A program that is gone has offsets, which the old file names.
    let script = format!("cp {0} {1} && {1}; rm {1}", real.display(), place.join("x").display());
    let output = record(&file, &["sh", "-c", &script]);
    let text = std::fs::read_to_string(&file).expect("a record");
    assert!(text.contains("x+0x") && !text.contains("real_"), "{text}");
    assert!(stderr(&output).contains("--symbols DIR"), "{output:?}");
    let words = ["explain", name, "--symbols", place.to_str().expect("UTF-8")];
    let output = convoy(&words).output().expect("it starts");
    assert!(["real_lock", "real_function"].iter().all(|name| stdout(&output).contains(name)));
}
