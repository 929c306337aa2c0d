//! Other users, filters of system calls, and odd ways of programs: none of them harms the program,
//! changes its surroundings, or is left out of the record without a sentence.

use crate::safe::{acquisitions, in_namespace, read, recorded};
use crate::skip::skip;
use crate::{code, compile, directory, finish, stderr, stdout};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const CONVOY: &str = env!("CARGO_BIN_EXE_convoy");

/// Compiles the program of all modes.
fn program(place: &Path) -> String {
    let to = place.join("rough");
    compile("../record/tests/programs/rough.c", &to, &["-g0", "-w"]);
    to.to_str().expect("UTF-8").to_owned()
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root can become another user", false);
    }
    is_root
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Runs a script with `CONVOY` and `FILE` in its environment.
fn shell(place: &Path, script: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(place).env("CONVOY_STORE", "none");
    shell.env("CONVOY", CONVOY).env("FILE", place.join("r.json"));
    shell.output().expect("it starts")
}

/// Runs a script that must end with `expected`.
fn ends(place: &Path, script: &str, expected: i32) -> Output {
    let output = shell(place, script);
    assert_eq!(code(&output), Some(expected), "{output:?}");
    output
}

#[test]
fn a_program_starts_with_the_signals_and_streams_of_its_caller() {
    let place = directory("hardship-start");
    let recorded = "$CONVOY record -q --kernel off -o $FILE --";
    let with = "$CONVOY with --mutex fair --";
    for script in [
        "trap '' PIPE HUP; exec RUN grep -E 'Sig(Blk|Ign)' /proc/self/status",
        "env --block-signal=USR1 --ignore-signal=PIPE RUN grep -E 'Sig[BIC]' /proc/self/status",
        "exec RUN grep -E 'Sig(Blk|Ign)' /proc/self/status",
        "RUN sh -c 'ls /proc/self/fd | wc -l' 0<&-",
        "RUN sh -c 'echo lost; exit $?' >&-",
        "RUN sh -c 'ls -d /proc/self/fd/2; echo lost >&2' 2>&-",
        "umask 027; ulimit -c 0; RUN sh -c 'umask; ulimit -a; nice'",
    ] {
        let plain = shell(&place, &script.replace("RUN ", ""));
        for way in [recorded, with] {
            let output = shell(&place, &script.replace("RUN", way));
            let both = [&plain, &output].map(|one| (code(one), stdout(one)));
            assert_eq!(both[0], both[1], "{script}: {output:?}");
        }
    }
}

#[test]
fn nothing_that_another_user_planted_is_loaded_or_overwritten() {
    if !is_root() {
        return;
    }
    let place = directory("hardship-planted");
    let [theirs, temporary, home] = ["theirs", "tmp", "home"].map(|name| place.join(name));
    for directory in [&theirs, &temporary, &home] {
        std::fs::create_dir_all(directory).expect("a directory");
        set_mode(directory, 0o1777);
    }
    let source = place.join("evil.c");
    let evil = "#include <fcntl.h>\n__attribute__((constructor)) static void run(void) \
                { open(OWNED, O_CREAT, 0600); }\n";
    std::fs::write(&source, evil).expect("written");
    let [object, owned, victim] = ["evil.so", "owned", "victim"].map(|name| place.join(name));
    let defined = format!("-DOWNED=\"{}\"", owned.display());
    compile(&source, &object, &["-shared", "-fPIC", &defined]);
    std::fs::write(&victim, "mine").expect("written");
    // The other user learns the name by a recording of its own, and puts its file there.
    let script = format!(
        "setpriv --reuid 54321 --regid 54321 --clear-groups bash -c 'cd {theirs} && umask 0 && \
         XDG_CACHE_HOME={theirs} $CONVOY record -q --kernel off -o {theirs}/r.json -- true; \
         name=$(basename {theirs}/convoy/*.so); for at in {tmp} {home}/.cache/convoy; do mkdir -p \
         $at; cp {evil} $at/$name; for n in $(seq 200); do ln -s {victim} $at/$name.$n.part; done; \
         ln -s {victim} $at/$name.part; done; ls {home}/.cache/convoy/'",
        theirs = theirs.display(),
        tmp = temporary.display(),
        home = home.display(),
        evil = object.display(),
        victim = victim.display(),
    );
    let planted = shell(&place, &script);
    assert!(stdout(&planted).contains("libconvoy_record-"), "{planted:?}");
    for more in ["", "XDG_CACHE_HOME=$HOME/.cache"] {
        for way in ["record -q --kernel off -o $FILE", "with --mutex fair"] {
            let script = format!(
                "export HOME={} TMPDIR={}; {more} $CONVOY {way} -- sh -c 'true & wait; exit 7'",
                home.display(),
                temporary.display()
            );
            ends(&place, &script, 7);
            assert!(!owned.exists(), "{way}: code of another user ran");
            assert_eq!(std::fs::read(&victim).expect("it is there"), b"mine", "{way}");
        }
    }
}

#[test]
fn another_user_can_neither_end_the_program_nor_rename_the_recording() {
    let place = directory("hardship-truncated");
    let (program, file) = (program(&place), place.join("r.json"));
    let open = place.join("open");
    std::fs::create_dir(&open).expect("a directory");
    set_mode(&open, 0o777);
    let script = format!("$CONVOY record -o $FILE --buffer {} -- true", open.display());
    let output = ends(&place, &script, 3);
    assert!(stderr(&output).contains("other users may rename or remove"), "{output:?}");
    set_mode(&open, 0o1777);
    assert_eq!(code(&shell(&place, &script)), Some(0));
    if is_root() {
        let output = recorded(&file, &[&program, "truncated"], 0);
        assert_eq!(acquisitions(&read(&file)), 5000, "{output:?}");
        // A program of another user counts its pages itself; each forked process has some.
        let user = "setpriv --reuid 54321 --regid 54321 --clear-groups";
        for (size, are_all) in [("256M", true), ("1M", false)] {
            let script = format!(
                "$CONVOY record --kernel off --buffer-size {size} -o $FILE -- {user} {program} \
                 children"
            );
            let output = ends(&place, &script, 0);
            assert_eq!(acquisitions(&read(&file)) == 17 * 300, are_all, "{output:?}");
            assert_eq!(stderr(&output).contains("--buffer-size"), !are_all, "{output:?}");
        }
    }
}

#[test]
fn a_filter_that_ends_processes_ends_neither_convoy_nor_the_program() {
    let place = directory("hardship-filter");
    let program = program(&place);
    let script = format!(
        "{program} filtered $CONVOY record --buffer-size 64M -o $FILE -- {program} threads 500"
    );
    let output = ends(&place, &script, 0);
    let record = read(&place.join("r.json"));
    assert_eq!(acquisitions(&record), 500, "{output:?}");
    let text = record["unseen"].to_string();
    assert!(text.contains("a filter of system calls (seccomp) ends processes"), "{text}");
    // A filter that is there before the program starts, but not before the recorder.
    let script =
        format!("$CONVOY record --kernel off -o $FILE -- {program} filtered sh -c 'exit 7'");
    let output = ends(&place, &script, 7);
    let messages = stderr(&output);
    assert!(messages.contains("A program that was started was not recorded: their"), "{messages}");
}

#[test]
fn programs_without_room_or_memory_are_counted() {
    let place = directory("hardship-room");
    let program = program(&place);
    let loops = "for i in $(seq 400); do /bin/true; done; exit 7";
    let script =
        format!("$CONVOY record --kernel off --buffer-size 1M -o $FILE -- bash -c '{loops}'");
    let output = ends(&place, &script, 7);
    let record = read(&place.join("r.json"));
    let lost = record["program"]["programs_lost"][0].as_u64().expect("a count");
    let recorded = record["processes"].as_array().expect("processes").len() as u64;
    assert!(lost > 0, "{output:?}");
    assert!(lost + recorded >= 400, "{lost} and {recorded}");
    let sentence = format!("{lost} programs that were started were not recorded");
    assert!(stderr(&output).contains(&sentence), "{output:?}");
    // Too little address space for the recorder's file, and enough for it, but then the program
    // would run short.
    for limit in [200_000, 1_000_000] {
        let script = format!(
            "$CONVOY record --kernel off -o $FILE -- bash -c 'ulimit -s 256; ulimit -v {limit}; \
             exec {program} threads 50'"
        );
        let output = ends(&place, &script, 0);
        let messages = stderr(&output);
        assert!(messages.contains("A program that was started was not recorded"), "{messages}");
        assert!(messages.contains("ulimit -n, -f, -v"), "{messages}");
    }
}

#[test]
fn a_place_that_fills_up_during_the_recording_costs_the_program_nothing() {
    let place = directory("hardship-fills");
    let program = program(&place);
    let script = format!(
        "mount -t tmpfs -o size=64m none /dev/shm && {CONVOY} record --kernel off --buffer \
         /dev/shm --buffer-size 32M -o {0}/r.json -- {program} fills /dev/shm/full",
        place.display()
    );
    let Some(mut shell) = in_namespace(&script) else { return };
    let output = finish(&mut shell, 6);
    let record = read(&place.join("r.json"));
    let count = acquisitions(&record);
    assert!((1000..6000 + 20 * 17).contains(&count), "{count}: {output:?}");
    let messages = stderr(&output);
    assert!(messages.contains("no room in the directory of the recording"), "{messages}");
}

#[test]
fn jumps_handlers_storms_and_daemons_are_recorded_and_end_as_they_would() {
    let place = directory("hardship-odd");
    let (program, file) = (program(&place), place.join("r.json"));
    for (words, expected, count) in [
        (vec!["jumps"], 5, 2),
        (vec!["handlers"], 0, 50),
        (vec!["storm"], 0, 200),
        (vec!["threads", "20000"], 0, 20_000),
        (vec!["twice"], 3, 2000),
        (vec!["relay"], 3, 2000),
    ] {
        let all = [&[program.as_str()][..], &words].concat();
        recorded(&file, &all, expected);
        let record = read(&file);
        // A wait that ends by a jump may be counted as an acquisition or not.
        let found = acquisitions(&record);
        let is_right = if words == ["jumps"] { found >= count } else { found == count };
        assert!(is_right, "{words:?}: {found}, {}", record["unseen"]);
        std::fs::remove_file(&file).expect("it goes away");
    }
}

#[test]
fn objects_of_the_user_stay_before_the_program() {
    let place = directory("hardship-preload");
    let (source, object) = (place.join("own.c"), place.join("own.so"));
    std::fs::write(&source, "int getppid(void) { return 4711; }\n").expect("written");
    compile(&source, &object, &["-shared", "-fPIC"]);
    let script = format!(
        "LD_PRELOAD={} $CONVOY record --kernel off -q -o $FILE -- bash -c 'echo $PPID; unset \
         LD_PRELOAD; sh -c \"exit 7\"'",
        object.display()
    );
    let output = shell(&place, &script);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(7), "4711\n"), "{output:?}");
}

#[test]
fn sockets_of_a_service_manager_are_for_the_program_and_a_loader_is_recorded() {
    let place = directory("hardship-unit");
    let program = program(&place);
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 WATCHDOG_PID=1 exec $CONVOY record -q --kernel off \
                  -o $FILE -- sh -c 'test \"$LISTEN_PID\" = $$ && test $WATCHDOG_PID = 1 && cat \
                  <&3; sh -c \"test \\$LISTEN_PID = $$\"' 3< file";
    std::fs::write(place.join("file"), "passed on\n").expect("written");
    let output = shell(&place, script);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "passed on\n"), "{output:?}");
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if std::path::Path::new(loader).exists() {
        let script =
            format!("$CONVOY record -q --kernel off -o $FILE -- {loader} {program} threads 50");
        let output = ends(&place, &script, 0);
        assert_eq!(read(&place.join("r.json"))["processes"][0]["threads"], 50, "{output:?}");
    }
}
