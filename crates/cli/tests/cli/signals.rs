//! Interrupts: results so far, exit code 3, nothing left behind.

use crate::{code, convoy, directory, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Output};
use std::time::Duration;

const ENVIRONMENT: i32 = 3;

/// Waits until `ready` says so; a child that ends before is an error of the test.
fn wait(child: &mut Child, ready: impl Fn(u32) -> bool) {
    while !ready(child.id()) {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "ended too early: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process catches SIGINT and SIGTERM by now.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let both = [Signal::INT, Signal::TERM].map(|signal| 1 << (signal.as_raw() - 1));
    mask.is_some_and(|mask| both.iter().all(|bit| mask & bit != 0))
}

fn interrupt(child: Child, signal: Signal) -> Output {
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, signal).expect("sent");
    child.wait_with_output().expect("ends")
}

#[test]
fn an_interrupt_ends_a_reproduction_in_order() {
    // Full size: it cannot have finished.
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = convoy(&["reproduce", "--full", "--threads", "1"]).spawn().expect("starts");
        wait(&mut child, catches_interrupts);
        let output = interrupt(child, signal);
        assert_eq!(code(&output), Some(ENVIRONMENT), "{}", stdout(&output));
        let text = stderr(&output);
        assert!(text.starts_with("convoy: interrupted") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn an_interrupt_ends_a_check_and_a_lock_experiment_in_order() {
    // Neither can have finished: the one has a budget for days, the other takes a minute.
    let check = ["check", "handoff", "--budget", "1000000000000"];
    for args in [check.as_slice(), &["reproduce", "semaphore-native"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut child = convoy(args).spawn().expect("starts");
            wait(&mut child, catches_interrupts);
            let output = interrupt(child, signal);
            assert_eq!(code(&output), Some(ENVIRONMENT), "{}", stdout(&output));
            let text = stderr(&output);
            assert!(text.starts_with("convoy: interrupted") && text.lines().count() == 1, "{text}");
        }
    }
}

#[test]
fn an_interrupt_before_the_first_point_is_one_sentence() {
    let kernel = ["--kernel", "2.6.26-rc1", "--users", "2000"];
    let explain = [&["explain", "semaphore-2008"], &kernel[..]].concat();
    let sim = [&["sim"], &kernel[..]].concat();
    for args in [explain, sim] {
        let mut child = convoy(&args).spawn().expect("starts");
        wait(&mut child, catches_interrupts);
        let output = interrupt(child, Signal::INT);
        assert_eq!((code(&output), stdout(&output).as_str()), (Some(ENVIRONMENT), ""), "{args:?}");
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
        let mut child = convoy(&[args.as_slice(), &[&name]].concat()).spawn().expect("starts");
        wait(&mut child, |pid| users_of(pid) == 5);
        let output = interrupt(child, signal);
        assert_eq!(code(&output), Some(ENVIRONMENT), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
        let left = std::fs::read_dir(&directory).expect("readable").count();
        assert_eq!(left, 0, "the work directory is gone");
        std::fs::remove_dir(directory).expect("removed");
    }
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

/// The second field after the name, which stands in parentheses and may hold blanks; `None` for a
/// process that is gone.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
