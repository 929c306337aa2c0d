//! Programs that a recorded program starts with an environment that lacks the recorder: they see
//! the same environment as without it, and are recorded if they can be.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;
#[path = "../../host/tests/common/skip.rs"]
mod skip;

use convoy_record::{Process, Why};
use place::Place;
use record::record;
use skip::skip;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

/// Compiles the program, if this compiler supports these flags.
fn compile(to: &Path, compiler: &str, flags: &[&str]) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/starts.c");
    let mut cc = Command::new(compiler);
    cc.args(["-O1", "-g", "-w", "-pthread"]).args(flags).arg("-o").arg(to).arg(source);
    cc.output().ok().filter(|output| output.status.success())?;
    to.to_str().map(str::to_owned)
}

/// Runs a program plainly and recorded.
fn both(place: &Path, words: &[&str]) -> (Output, Output, Vec<Process>) {
    let plain = Command::new(words[0]).args(&words[1..]).output().expect("it starts");
    let (recorded, processes) = record(place, words, &[]);
    (plain, recorded, processes)
}

/// Returns the number of acquisitions in the programs that were started.
fn acquisitions(processes: &[Process]) -> u64 {
    let locks = processes.iter().flat_map(|one| &one.locks).filter(|one| one.name == "in_child");
    locks.map(convoy_record::Lock::count).sum()
}

fn assert_same(mode: &str, plain: &Output, recorded: &Output) {
    fn said(output: &Output) -> ([String; 2], Option<i32>) {
        let texts = [&output.stdout, &output.stderr];
        (texts.map(|text| String::from_utf8_lossy(text).into_owned()), output.status.code())
    }
    assert_eq!(said(plain), said(recorded), "{mode}");
}

#[test]
fn an_environment_that_lacks_the_recorder_gets_it_unseen() {
    let place = Place::new();
    let program = place.compile("starts.c", &["-w"]);
    for (mode, code, started) in [
        ("execve", 7, 1),
        ("null", 7, 1),
        ("execvpe", 7, 1),
        ("execle", 7, 1),
        ("execle_long", 7, 1),
        ("fexecve", 7, 1),
        ("execveat", 7, 1),
        ("preload", 7, 1),
        ("missing", 5, 0),
        ("spawn", 7, 1),
        ("spawnp", 7, 1),
        ("vfork", 20, 20),
        ("again", 7, 1),
        ("execv", 7, 1),
        ("execl", 7, 1),
        ("execvp", 7, 1),
        ("execlp", 7, 1),
        ("system", 3, 0),
    ] {
        let (plain, recorded, processes) = both(&place, &[&program, mode, &program]);
        assert_eq!(plain.status.code(), Some(code), "{mode}: {plain:?}");
        assert_same(mode, &plain, &recorded);
        assert_eq!(acquisitions(&processes), 1000 * started, "{mode}: {processes:#?}");
        let unloaded: Vec<_> = processes.iter().flat_map(|one| &one.unloaded).collect();
        match &unloaded[..] {
            [] => assert_ne!(mode, "system"),
            [one] => assert_eq!((mode, one.why, one.count), ("system", Why::ByLibc, 1)),
            _ => panic!("{mode}: {unloaded:?}"),
        }
    }
}

#[test]
fn programs_that_cannot_take_the_object_do_not_get_it() {
    let place = Place::new();
    let program = place.compile("starts.c", &["-w"]);
    let target = |name: &str, compiler: &str, flags: &[&str]| {
        compile(&place.join(name), compiler, flags).map(|path| (path, name.to_owned()))
    };
    let mut targets = vec![
        (target("static", "cc", &["-static"]), Why::Static, "a static libc"),
        (target("musl", "musl-gcc", &[]), Why::Musl, "musl-gcc"),
        (target("checked", "cc", &["-fsanitize=address"]), Why::Sanitizer, "AddressSanitizer"),
    ];
    if rustix::process::geteuid().is_root() {
        let (path, name) = target("rights", "cc", &[]).expect("a C compiler");
        chown(&path, Some(65534), None).expect("root may");
        let mode = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(&path, mode).expect("root may");
        targets.push((Some((path, name)), Why::Rights, "root"));
    }
    for (target, why, wanted) in targets {
        let Some((path, name)) = target else {
            skip(&format!("{wanted} is not installed"), false);
            continue;
        };
        for mode in ["execve", "spawn", "execv", "inherit"] {
            let (plain, recorded, processes) = both(&place, &[&program, mode, &path]);
            if mode == "inherit" {
                // Its environment contains the inherited variables, as without the exec.
                assert_eq!(plain.status.code(), recorded.status.code(), "{name}: {recorded:?}");
            } else {
                assert_same(&format!("{mode} {name}"), &plain, &recorded);
            }
            let all: Vec<_> = processes.iter().flat_map(|one| &one.unloaded).collect();
            let [one] = &all[..] else { panic!("{mode} {name}: {processes:#?}") };
            assert_eq!((one.program.as_str(), one.why, one.count), (&*name, why, 1), "{mode}");
        }
    }
}

/// Tools that clear the environment in daily use.
#[test]
fn tools_that_clear_the_environment_start_what_they_would() {
    let place = Place::new();
    let program = place.compile("starts.c", &["-w"]);
    let path = program.as_str();
    let perl = format!("%ENV = (A => 1); exec '{path}', 'child'");
    let python =
        format!("import subprocess, sys; sys.exit(subprocess.call(['{path}', 'child'], env={{}}))");
    for words in [
        vec!["env", "-i", "A=1", path, "child"],
        vec!["bash", "-c", &format!("exec -c {path} child")],
        vec!["sh", "-c", &format!("env -i {path} child; exit $?")],
        vec!["perl", "-e", &perl],
        vec!["python3", "-c", &python],
    ] {
        let Ok(plain) = Command::new(words[0]).args(&words[1..]).output() else {
            skip(&format!("{} is not installed", words[0]), false);
            continue;
        };
        let (recorded, processes) = record(&place, &words, &[]);
        assert_eq!(plain.status.code(), Some(7), "{words:?}: {plain:?}");
        assert_same(words[0], &plain, &recorded);
        assert_eq!(acquisitions(&processes), 1000, "{words:?}: {processes:#?}");
    }
}
