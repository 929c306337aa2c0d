//! All modes of the program of odd ways: under the recorder and under every policy they end as
//! without, with the same output.

use crate::safe::program;
use crate::{code, directory};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All modes of the program; those that end by what the shell may not say again are left out.
const MODES: [&str; 57] = [
    "exit_",
    "abort",
    "kill9",
    "segv",
    "bgexit",
    "bgkill",
    "pexit",
    "fork",
    "forkmt",
    "vfork",
    "exec",
    "plain",
    "daemon",
    "clone",
    "rawfork",
    "closeall",
    "closerange",
    "chroot",
    "setuid",
    "fsize",
    "nofile",
    "strict",
    "seccomp",
    "dead2",
    "selfdead",
    "selfdead9",
    "sig",
    "handlersem",
    "shared",
    "pi",
    "rec",
    "err",
    "unown",
    "unlocked",
    "memcpy",
    "reuse",
    "garbage",
    "destlocked",
    "cancel",
    "acancel",
    "tls",
    "condmono",
    "many",
    "fd3",
    "lowfd",
    "errno",
    "spawnmany",
    "threadexec",
    "dumpable",
    "munmap",
    "clearenv",
    "rtsched",
    "memlock",
    "sigaltsegv",
    "longcond",
    "exitlocked",
    "stopcont",
];

/// The ways to run a mode under the recorder.
fn ways(mode: &str) -> Vec<Vec<&'static str>> {
    /// A lock that its thread takes twice, gives up twice, or that is copied while it is held has
    /// no meaning that a policy must keep.
    const UNDEFINED: [&str; 5] = ["unown", "unlocked", "garbage", "memcpy", "destlocked"];
    let mut ways = vec![vec!["--kernel", "off"], vec!["--kernel", "off", "--contended"]];
    if rustix::process::geteuid().is_root() {
        ways.push(Vec::new());
    }
    if !UNDEFINED.contains(&mode) {
        let policies = ["spin", "sleep", "fair", "handoff"];
        ways.extend(policies.map(|policy| vec!["--kernel", "off", "--mutex", policy]));
    }
    ways
}

/// Runs a mode alone and in all ways in a directory of its own. Returns the ways that ended
/// differently.
fn wrong_ways(mode: &str, program: &str, place: &Path) -> Vec<String> {
    std::fs::create_dir_all(place).expect("a directory");
    let run = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["600"]).args(words).current_dir(place);
        command.env("CONVOY_STORE", "none").output().expect("it starts")
    };
    let plain = run(&["bash", "-c", "\"$@\"; exit $?", "-", program, mode]);
    let wrong = |way: Vec<&str>| {
        let words = [env!("CARGO_BIN_EXE_convoy"), "record", "-o", "r.json"];
        let output = run(&[&words[..], &way, &["--", program, mode]].concat());
        let is_same = (code(&output), &output.stdout) == (code(&plain), &plain.stdout);
        (!is_same).then(|| format!("{mode} {way:?}: {:?} alone, {output:?}", code(&plain)))
    };
    ways(mode).into_iter().filter_map(wrong).collect()
}

#[test]
#[ignore = "some minutes: cargo xtask nightly runs it"]
fn every_mode_ends_as_without_the_recorder() {
    /// Modes that run at a time: most of them wait for something.
    const WORKERS: usize = 4;
    let place = directory("safe-all");
    let program = program(&place);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(mode) = MODES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = wrong_ways(mode, &program, &place.join(mode));
            let _progress = writeln!(std::io::stderr(), "{mode} {}", found.join("\n"));
            wrong.lock().expect("no worker panics").extend(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no worker panics");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    std::fs::remove_dir_all(place).expect("it goes away");
}
