//! The system calls of jobs on this machine, counted by the kernel and compared with the table of
//! `convoy-workload`, which was counted in the originals.

use std::collections::BTreeMap;
use std::process::Command;

use crate::skip::skip;
use crate::{directory, finish};

/// Calls of a job by name, and `bytes`.
type Calls = BTreeMap<String, u64>;

/// Names of one call on Linux, as the table has them.
fn normalized(name: &str) -> &str {
    match name {
        "openat" | "creat" => "open",
        "lstat" | "fstat" | "newfstatat" | "statx" => "stat",
        "vfork" | "clone" | "clone3" => "fork",
        "unlinkat" => "unlink",
        "linkat" => "link",
        "mknodat" => "mknod",
        "recvfrom" => "read",
        "sendto" => "write",
        "semtimedop" => "semop",
        "pipe2" => "pipe",
        "accept4" => "accept",
        other => other,
    }
}

/// Adds the calls of one log of `strace -f`, `sign` times.
fn add(calls: &mut BTreeMap<String, i64>, log: &str, sign: i64) {
    for line in log.lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        // A call that another process interrupts is counted where it begins, its bytes where it
        // ends.
        let resumed = line.strip_prefix("<... ");
        let Some(name) = resumed.unwrap_or(line).split(['(', ' ']).next() else { continue };
        let name = normalized(name);
        if resumed.is_none() {
            *calls.entry(name.to_owned()).or_default() += sign;
        }
        let result = line.rsplit(" = ").next().and_then(|text| text.trim().parse::<i64>().ok());
        if let (true, Some(moved)) = (matches!(name, "read" | "write"), result) {
            *calls.entry("bytes".to_owned()).or_default() += sign * moved.max(0);
        }
    }
}

/// The log of `strace` for one user that runs `job` this many times.
fn traced(job: &str, dialect: &str, times: u32) -> String {
    let place = directory("calls");
    let log = place.join(format!("{job}-{dialect}-{times}"));
    let times = times.to_string();
    finish(
        Command::new("strace")
            .args(["-f", "-qq", "-e", "signal=none", "-o"])
            .arg(&log)
            .arg(env!("CARGO_BIN_EXE_convoy"))
            .args(["run", "--job", job, "--dialect", dialect, "--jobs", &times, "--users", "1"])
            .args([
                "--filesize",
                "100K",
                "--poolsize",
                "1M",
                "--no-predict",
                "--no-store",
                "--quiet",
            ]),
        0,
    );
    std::fs::read_to_string(log).expect("a log")
}

/// The calls of one run of `job`: the calls of two runs less the calls of one.
fn counted(job: &str, dialect: &str) -> BTreeMap<String, i64> {
    let mut calls = BTreeMap::new();
    add(&mut calls, &traced(job, dialect, 2), 1);
    add(&mut calls, &traced(job, dialect, 1), -1);
    calls
}

#[test]
fn jobs_make_the_calls_of_their_originals() {
    if Command::new("strace").args(["-qq", "true"]).output().is_err() {
        return skip("the calls of jobs as this kernel sees them: install strace", true);
    }
    let table = include_str!("../../../workload/tests/calls.toml");
    let table: BTreeMap<String, BTreeMap<String, Calls>> = toml::from_str(table).expect("valid");
    let mut wrong = Vec::new();
    for (section, dialect) in [("both", "1996"), ("1996", "1996"), ("re-aim", "re-aim")] {
        for (job, expected) in &table[section] {
            if job.starts_with("disk_dio") {
                continue; // By the file system, 1 KB or 4 KB at a time.
            }
            let found = counted(job, dialect);
            for (call, count) in expected {
                let found = found.get(call).copied().unwrap_or(0);
                // Around the jobs the run reads files of /proc, whose length changes a little.
                let near = if call == "bytes" { 200 } else { 0 };
                if found.abs_diff(*count as i64) > near {
                    wrong.push(format!("{job} of {dialect}: {found} {call}, not {count}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The shells: the job's child, `system`, the script, `ls`.
    let shell = counted("shell_rtns_1", "1996");
    assert_eq!((shell["fork"], shell["execve"]), (4, 3));
}
