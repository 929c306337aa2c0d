//! Interrupts: results so far, the exit code of a shell, nothing left behind.

use crate::common::{interrupt, wait_until, with_default_signals};
use crate::{code, convoy, directory, stderr, stdout};
use rustix::process::Signal;
use std::process::Child;

/// The exit code after a signal, as in a shell.
fn after(signal: Signal) -> i32 {
    128 + signal.as_raw()
}

/// Whether the process catches SIGINT and SIGTERM by now.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let both = [Signal::INT, Signal::TERM].map(|signal| 1 << (signal.as_raw() - 1));
    mask.is_some_and(|mask| both.iter().all(|bit| mask & bit != 0))
}

fn start(args: &[&str]) -> Child {
    with_default_signals(&convoy(args)).spawn().expect("starts")
}

#[test]
fn an_interrupt_ends_a_reproduction_in_order() {
    // Full size: it cannot have finished.
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = start(&["reproduce", "--full", "--threads", "1"]);
        wait_until(&mut child, catches_interrupts);
        let output = interrupt(child, signal);
        assert_eq!(code(&output), Some(after(signal)), "{}", stdout(&output));
        let text = stderr(&output);
        assert!(text.starts_with("convoy: interrupted") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn an_interrupt_ends_a_check_and_a_lock_experiment_in_order() {
    // Neither can have finished: one has a budget for days, the other takes a minute.
    let check = ["check", "handoff", "--budget", "1000000000000"];
    for args in [check.as_slice(), &["reproduce", "semaphore-native"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut child = start(args);
            wait_until(&mut child, catches_interrupts);
            let output = interrupt(child, signal);
            assert_eq!(code(&output), Some(after(signal)), "{}", stdout(&output));
            let text = stderr(&output);
            // Rounds of the experiment that ended before are stored.
            let said: Vec<&str> =
                text.lines().filter(|line| !line.starts_with("stored as run")).collect();
            assert!(matches!(said[..], [one] if one.starts_with("convoy: interrupted")), "{text}");
        }
    }
}

#[test]
fn an_interrupt_ends_a_calibration_with_the_prices_so_far() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = start(&["calibrate", "machine", "--quiet"]);
        wait_until(&mut child, catches_interrupts);
        let id = child.id();
        let output = interrupt(child, signal);
        assert_eq!(code(&output), Some(after(signal)), "{}", stdout(&output));
        assert!(stderr(&output).starts_with("convoy: interrupted"), "{}", stderr(&output));
        assert!(stdout(&output).lines().all(|line| line.starts_with("# ")), "{}", stdout(&output));
        for parent in ["/dev/shm".into(), std::env::temp_dir()] {
            assert!(!parent.join(format!("convoy-calibrate-{id}")).exists());
        }
    }
}

#[test]
fn an_interrupt_before_the_first_point_is_one_sentence() {
    let kernel = ["--kernel", "2.6.26-rc1", "--users", "2000"];
    let explain = [&["explain", "semaphore-2008"], &kernel[..]].concat();
    let sim = [&["sim"], &kernel[..]].concat();
    for args in [explain, sim] {
        let mut child = start(&args);
        wait_until(&mut child, catches_interrupts);
        let output = interrupt(child, Signal::INT);
        assert_eq!(
            (code(&output), stdout(&output).as_str()),
            (Some(after(Signal::INT)), ""),
            "{args:?}"
        );
        let text = stderr(&output);
        assert!(text.starts_with("convoy: interrupted") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn an_interrupt_ends_a_load_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let directory = directory("interrupt");
        let name = directory.to_string_lossy().into_owned();
        // The delay lies inside the run: the users exist and wait.
        let args = ["run", "--users", "5", "--shrink", "1000000", "--start-delay", "3000", "--dir"];
        let mut child = start(&[args.as_slice(), &[&name]].concat());
        wait_until(&mut child, |pid| users_of(pid) == 5);
        let output = interrupt(child, signal);
        assert_eq!(code(&output), Some(after(signal)), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
        let left = std::fs::read_dir(&*directory).expect("readable").count();
        assert_eq!(left, 0, "the work directory is gone");
    }
}

#[test]
fn a_run_that_is_killed_keeps_its_finished_points() {
    let place = directory("killed-run");
    let name = |name: &str| place.path(name);
    let (store, record) = (name("runs.sqlite3"), name("r.json"));
    let work = name("work");
    std::fs::create_dir(work).expect("made");
    // The delay holds the last point up.
    let args = ["run", "--users", "1,2,3,4", "--shrink", "1000000", "--start-delay", "1"];
    let more = ["--no-predict", "--dir", work, "--store", store, "--record", record];
    let mut child = start(&[&args[..], &more].concat());
    let points = || {
        let text = std::fs::read_to_string(record).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        value["points"].as_array().map_or(0, Vec::len)
    };
    wait_until(&mut child, |pid| points() == 3 && users_of(pid) == 4);
    interrupt(child, Signal::KILL);
    assert_eq!(points(), 3);
    let output = convoy(&["runs", "export", "--store", store]).output().expect("starts");
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
    let body = &runs[0]["entry"]["body"];
    assert_eq!(body["points"].as_array().map(Vec::len), Some(3));
    assert_eq!(body["unfinished"], true);
}

/// Users of the command: the supervisor's children but its anchor.
fn users_of(pid: u32) -> usize {
    let supervisors = children(pid);
    let users = supervisors.iter().map(|&supervisor| children(supervisor).len());
    users.sum::<usize>().saturating_sub(1)
}

fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent_of(pid) == Some(parent)).collect()
}

/// The second field after the name, which is in parentheses and may contain blanks; `None` for a
/// process that has exited.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
