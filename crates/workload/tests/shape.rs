//! Workloads beside the programs whose shape they have: calls that belong to a file, a directory or
//! a block, counted by the kernel under `strace` and by the counting kernel.
//!
//! What differs by the age of the programs is not compared: GNU find of today takes the kind of a
//! file from its directory, that of 2007 looked at each, and today's grep reads more at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_catalogue::{Sheet, WORKLOADS};
use convoy_workload::api::Kernel as _;
use convoy_workload::counting::Counting;
use convoy_workload::workload::{Place, Workload};

#[path = "../../host/tests/common/skip.rs"]
mod common;
use common::skip;

/// Whether every program answers to `--version`.
fn installed(programs: &[&str]) -> bool {
    let answers = |program: &&str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    programs.iter().all(answers)
}

/// An empty directory for one test.
fn directory(name: &str) -> PathBuf {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if place.exists() {
        std::fs::remove_dir_all(&place).expect("what was there before goes");
    }
    std::fs::create_dir_all(&place).expect("a directory");
    place
}

/// Successful calls of a shell line, by name.
fn traced(place: &Path, line: &str) -> BTreeMap<String, u64> {
    let log = place.join("log");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&log)
        .args(["sh", "-c", line])
        .current_dir(place)
        .env("PATH", "/usr/bin:/bin")
        // Where the loader would look first, in vain.
        .env_remove("LD_LIBRARY_PATH")
        .stderr(std::process::Stdio::null())
        .status();
    status.expect("strace starts");
    let mut calls = BTreeMap::new();
    for line in std::fs::read_to_string(log).expect("a log").lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        // A call that another process came into ends on a line of its own, and counts there.
        let resumed = line.strip_prefix("<... ").and_then(|line| line.split_once(" resumed>"));
        let Some((name, rest)) = resumed.or_else(|| line.split_once('(')) else { continue };
        if !rest.contains(" = -1 ") && !rest.ends_with("<unfinished ...>") {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// What `workload` calls.
fn shape(workload: &Workload) -> BTreeMap<&'static str, u64> {
    let mut kernel = Counting::new();
    kernel.mkdir("/w").expect("a directory");
    let place = Place { directory: "/w".to_owned(), volumes: vec!["/w".to_owned()] };
    workload.prepare(&mut kernel, &place).expect("prepared");
    kernel.reset();
    workload.run(&mut kernel, &place, 1).expect("runs");
    kernel.calls().clone()
}

fn shipped(name: &str) -> Workload {
    Sheet::open(&WORKLOADS, name, None).expect("shipped").read(&[]).expect("valid").value
}

/// `ours` lies within 15 % of `theirs`.
fn near(what: &str, ours: u64, theirs: u64) {
    let off = ours as f64 / theirs as f64 - 1.0;
    assert!(off.abs() <= 0.15, "{what}: {ours}, and {theirs} of the program");
}

#[test]
fn a_search_opens_and_lists_as_find_and_grep_do() {
    if !installed(&["strace", "find", "xargs", "grep"]) {
        return skip("the shape of find: install strace, findutils and grep", true);
    }
    // Of a large tree less a small one: what starts a program is no part of it.
    let sides = [(2, 40), (12, 400)].map(|(directories, files)| {
        let place = directory("shape-find");
        for at in 0..directories {
            std::fs::create_dir_all(place.join(format!("t/d{at}"))).expect("a directory");
            for file in 0..files / directories {
                let path = place.join(format!("t/d{at}/f{file}"));
                std::fs::write(path, [b'x'; 7000]).expect("a file");
            }
        }
        let files = files / directories * directories;
        let theirs = traced(&place, "find t -type f | xargs grep -e nothing");
        let mut workload = shipped("find");
        let find = workload.find.as_mut().expect("a search");
        (find.instances, find.loops_per_file) = (1, 0);
        (find.files, find.directories) = ([files; 2], [directories; 2]);
        find.bytes = [7000 * u64::from(files); 2];
        (theirs, shape(&workload))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    for (ours, theirs) in [("open", "openat"), ("getdents", "getdents64"), ("close", "close")] {
        let what = format!("{theirs} of find and grep");
        near(&what, ours_large[ours] - ours_small[ours], large[theirs] - small[theirs]);
    }
}

#[test]
fn dd_writes_block_by_block() {
    if !installed(&["strace", "dd"]) {
        return skip("the shape of dd: install strace and coreutils", true);
    }
    let place = directory("shape-dd");
    let theirs = traced(&place, "dd if=/dev/zero of=foo bs=16k count=2048; rm foo");
    let mut workload = shipped("dd");
    workload.script.as_mut().expect("a script").loops_per_unit = 0;
    let ours = shape(&workload);
    near("write of dd", ours["write"], theirs["write"]);
    near("unlink of rm", ours["unlink"], theirs["unlinkat"]);
}

#[test]
fn a_build_starts_as_many_processes_as_make_and_the_compiler() {
    if !installed(&["strace", "make", "cc"]) {
        return skip("the shape of pmake: install strace, make and a C compiler", true);
    }
    let sides = [2, 10].map(|sources| {
        let place = directory("shape-pmake");
        let names: Vec<String> = (0..sources).map(|source| format!("c{source}.o")).collect();
        for source in 0..sources {
            let text = format!("int f{source}(int a) {{ return a + {source}; }}\n");
            std::fs::write(place.join(format!("c{source}.c")), text).expect("a source");
        }
        let rules = format!("all: {}\n", names.join(" "));
        std::fs::write(place.join("Makefile"), rules).expect("a makefile");
        let theirs = traced(&place, "make -s -j 2 CC=cc CFLAGS=-O1");
        let mut workload = shipped("pmake");
        let pmake = workload.pmake.as_mut().expect("a build");
        (pmake.lines, pmake.loops_per_line) = (vec![1; sources], 0);
        (theirs, shape(&workload))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    let sum = |calls: &BTreeMap<String, u64>, names: &[&str]| -> u64 {
        names.iter().filter_map(|name| calls.get(*name)).sum()
    };
    let forks = ["fork", "vfork", "clone", "clone3"];
    let theirs = sum(&large, &forks) - sum(&small, &forks);
    near("fork of make and cc", ours_large["fork"] - ours_small["fork"], theirs);
    let removed = ["unlink", "unlinkat"];
    let theirs = sum(&large, &removed) - sum(&small, &removed);
    near("unlink of cc", ours_large["unlink"] - ours_small["unlink"], theirs);
}
