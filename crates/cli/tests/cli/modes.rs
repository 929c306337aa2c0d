//! All modes of the program of odd ways: under the recorder and under every policy they end as
//! without, with the same output, and the record is complete or names its gaps.

use crate::safe::{acquisitions, program, read};
use crate::{code, directory};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Acquisitions of mutexes that a mode requests, as far as they do not depend on time.
#[derive(Clone, Copy)]
enum Count {
    Exactly(u64),
    AtLeast(u64),
}
use Count::{AtLeast, Exactly};

/// Acquisitions of a worker of the program.
const N: u64 = 20_000;

/// The modes of the program, and their acquisitions, without modes whose ending a shell cannot
/// repeat.
const MODES: [(&str, Count); 59] = [
    ("exit_", Exactly(2 * N)),
    ("abort", Exactly(2 * N)),
    ("kill9", Exactly(2 * N)),
    ("segv", Exactly(2 * N)),
    ("bgexit", AtLeast(4)),
    ("bgkill", AtLeast(4)),
    ("pexit", Exactly(N)),
    ("fork", Exactly(4 * N)),
    ("forkmt", AtLeast(2)),
    ("vfork", Exactly(2 * N)),
    ("exec", Exactly(4 * N)),
    ("plain", Exactly(2 * N)),
    ("daemon", Exactly(2 * N)),
    ("clone", Exactly(2 * N)),
    ("rawfork", Exactly(3 * N)),
    ("closeall", Exactly(4 * N)),
    ("closerange", Exactly(4 * N)),
    ("chroot", Exactly(6 * N)),
    ("setuid", Exactly(24 * N)),
    ("fsize", Exactly(24 * N)),
    ("nofile", Exactly(20 * N)),
    ("strict", Exactly(3_000_001)),
    ("seccomp", Exactly(22 * N)),
    ("dead2", Exactly(4)),
    ("selfdead", Exactly(2)),
    ("selfdead9", Exactly(2)),
    ("sig", Exactly(5)),
    ("handlersem", Exactly(0)),
    ("shared", Exactly(200_002)),
    ("pi", Exactly(4 * N)),
    ("rec", Exactly(1000)),
    ("err", Exactly(2)),
    ("unown", Exactly(4 * N + 1)),
    ("unlocked", Exactly(0)),
    ("memcpy", Exactly(2 * N + 1001)),
    ("reuse", Exactly(20_000)),
    ("garbage", Exactly(1)),
    ("destlocked", Exactly(1)),
    ("cancel", Exactly(101)),
    ("acancel", AtLeast(1)),
    ("tls", Exactly(4000)),
    ("condmono", Exactly(2)),
    ("many", AtLeast(1)),
    ("fd3", Exactly(2 * N)),
    ("lowfd", Exactly(3000)),
    ("errno", Exactly(N + 2)),
    ("spawnmany", Exactly(300)),
    ("threadexec", AtLeast(2 * N)),
    ("dumpable", Exactly(4 * N)),
    ("munmap", AtLeast(2 * N)),
    ("clearenv", AtLeast(2 * N)),
    ("rtsched", Exactly(4 * N)),
    ("memlock", AtLeast(0)),
    ("sigaltsegv", Exactly(4 * N)),
    ("longcond", AtLeast(10_008)),
    ("exitlocked", AtLeast(1)),
    ("stopcont", Exactly(2 * N)),
    ("unrecoverable", AtLeast(0)),
    ("pinned", AtLeast(0)),
];

/// Modes that every change tries: ends of processes, sandboxes, and servers that drop their rights.
const SOME: [&str; 19] = [
    "plain",
    "exit_",
    "fork",
    "forkmt",
    "vfork",
    "clone",
    "closeall",
    "closerange",
    "strict",
    "seccomp",
    "fsize",
    "nofile",
    "kill9",
    "unrecoverable",
    "pinned",
    "daemon",
    "setuid",
    "chroot",
    "exec",
];

/// The ways to run a mode under the recorder.
fn ways(mode: &str) -> Vec<Vec<&'static str>> {
    /// A lock that its thread acquires twice, releases twice, or that is copied while it is held
    /// has no meaning that a policy must keep.
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

/// Surroundings of a program: words that come before it.
type Surroundings = (&'static str, Vec<String>);

/// A user without rights, a namespace of users, a container with a root that cannot be written and
/// 64 MB of `/dev/shm`, and no `/dev/shm`; those that are permitted here.
fn surroundings(place: &Path) -> Vec<Surroundings> {
    let is_root = rustix::process::geteuid().is_root();
    let mounts = if is_root { "-m" } else { "-Urm" };
    let container = format!(
        "mount --make-rprivate / && mount --rbind / /mnt && mount -o remount,bind,ro /mnt && mount \
         --bind {0} /mnt{0} && mount --rbind /tmp /mnt/tmp && mount --rbind /dev /mnt/dev && mount \
         -t tmpfs -o size=64m none /mnt/dev/shm && mount --rbind /proc /mnt/proc && exec chroot \
         /mnt env -u HOME bash -c 'cd \"$0\" && exec \"$@\"' \"$PWD\" \"$@\"",
        place.display()
    );
    let without = "mount -t tmpfs -o size=4k,mode=0555 none /dev/shm && exec \"$@\"".to_owned();
    let within =
        |script: String| ["unshare", mounts, "bash", "-c", &script, "-"].map(str::to_owned);
    let user = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"];
    let mut all = vec![
        ("a namespace of users", vec!["unshare".to_owned(), "-Ur".to_owned()]),
        ("a container", within(container).to_vec()),
        ("no /dev/shm", within(without).to_vec()),
    ];
    if is_root {
        all.push(("another user", user.map(str::to_owned).to_vec()));
    }
    all.retain(|(name, words)| {
        let works = Command::new(&words[0]).args(&words[1..]).arg("true").output();
        let works = works.is_ok_and(|output| output.status.success());
        let said = if works { "" } else { "skipped: not permitted here\n" };
        let _progress = writeln!(std::io::stderr(), "{name} {said}");
        works
    });
    all
}

/// Runs a command in surroundings.
fn run(place: &Path, around: &[String], words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("600").args(around).args(words).current_dir(place);
    command.env("CONVOY_STORE", "none").output().expect("it starts")
}

/// Runs a mode alone and in some ways in a separate directory. Returns the ways that ended
/// differently, or with a record that lacks something without saying so.
fn wrong_ways(
    mode: &str,
    count: Count,
    program: &str,
    place: &Path,
    around: &[String],
    ways: Vec<Vec<&str>>,
) -> Vec<String> {
    /// The exit code of modes that need rights.
    const NO_RIGHTS: i32 = 77;
    std::fs::create_dir_all(place).expect("a directory");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place, all).expect("it is ours");
    let plain = run(place, around, &["bash", "-c", "\"$@\"; exit $?", "-", program, mode]);
    let count = if code(&plain) == Some(NO_RIGHTS) { Exactly(0) } else { count };
    let wrong = |way: Vec<&str>| {
        let _none = std::fs::remove_file(place.join("r.json"));
        let words = [env!("CARGO_BIN_EXE_convoy"), "record", "-o", "r.json"];
        let output = run(place, around, &[&words[..], &way, &["--", program, mode]].concat());
        let is_same = (code(&output), &output.stdout) == (code(&plain), &plain.stdout);
        let counts = !way.contains(&"--contended") && !way.contains(&"--mutex");
        let lacks = if counts { lacks(&place.join("r.json"), count) } else { None };
        let is_wrong = !is_same || lacks.is_some();
        is_wrong.then(|| format!("{mode} {way:?}: {:?} alone, {output:?} {lacks:?}", code(&plain)))
    };
    ways.into_iter().filter_map(wrong).collect()
}

/// The number of acquisitions in a record, if it is wrong and the record does not say so.
fn lacks(file: &Path, count: Count) -> Option<String> {
    if !file.exists() {
        return Some("no record".to_owned());
    }
    let record = read(file);
    let (found, unseen) = (acquisitions(&record), record["unseen"].to_string());
    let is_said = unseen.contains("not recorded") || unseen.contains("not counted");
    let is_right = match count {
        Exactly(count) => found == count || found < count && is_said,
        AtLeast(count) => found >= count || is_said,
    };
    (!is_right).then(|| format!("{found} acquisitions recorded, {unseen}"))
}

/// Tries modes, several at a time.
fn try_modes(modes: &[(&str, Count)], try_one: impl Fn((&str, Count)) -> Vec<String> + Sync) {
    /// Modes that run at a time: most of them wait for something.
    const WORKERS: usize = 4;
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(mode) = modes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = try_one(*mode);
                    let _progress = writeln!(std::io::stderr(), "{} {}", mode.0, found.join("\n"));
                    wrong.lock().expect("no worker panics").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no worker panics");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_modes_end_as_without_the_recorder() {
    let place = directory("safe-modes");
    let program = program(&place);
    let modes: Vec<_> = MODES.into_iter().filter(|(mode, _)| SOME.contains(mode)).collect();
    assert_eq!(modes.len(), SOME.len());
    try_modes(&modes, |(mode, count)| {
        let off = vec![vec!["--kernel", "off"]];
        wrong_ways(mode, count, &program, &place.join(mode), &[], off)
    });
}

#[test]
#[ignore = "some minutes: cargo xtask nightly runs it"]
fn every_mode_ends_as_without_the_recorder() {
    let place = directory("safe-all");
    let program = program(&place);
    try_modes(&MODES, |mode| {
        wrong_ways(mode.0, mode.1, &program, &place.join(mode.0), &[], ways(mode.0))
    });
}

#[test]
#[ignore = "some minutes: cargo xtask nightly runs it"]
fn every_mode_is_recorded_in_all_surroundings() {
    let place = directory("safe-around");
    let program = program(&place);
    let all = surroundings(&place);
    try_modes(&MODES, |mode| {
        let wrong = |(name, around): &Surroundings| {
            let place = place.join(format!("{}-{name}", mode.0).replace(['/', ' '], "-"));
            let found =
                wrong_ways(mode.0, mode.1, &program, &place, around, vec![vec!["--kernel", "off"]]);
            found.into_iter().map(|text| format!("in {name}: {text}")).collect::<Vec<_>>()
        };
        all.iter().flat_map(wrong).collect()
    });
}
