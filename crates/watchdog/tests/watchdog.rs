//! Programs that hang, started by the test that checks how they end.

#![cfg(all(target_os = "linux", not(miri)))]

use convoy_watchdog::{BUDGET, EXIT, SIGN, doing};
use rustix::thread::futex::Flags;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Runs the test called `name` of this program in a separate process.
fn run(name: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", name]).env(BUDGET, "2");
    command.output().unwrap()
}

/// Returns the output of the test called `name`, which the watchdog must have aborted.
fn ended(name: &str) -> String {
    let output = run(name);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(EXIT), "{text}");
    assert!(text.contains(SIGN) && text.contains(name), "{text}");
    text
}

#[test]
#[ignore = "runs as the process of another test"]
fn sleeps_for_good() {
    let (send, receive) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        doing("lock seven");
        receive.recv()
    });
    drop(sleeper.join());
    drop(send);
}

/// A lost wakeup: the sleeping thread would return if it rechecked its condition.
#[test]
#[ignore = "runs as the process of another test"]
fn is_not_woken() {
    let word = AtomicU32::new(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let wakes = rustix::thread::futex::wait(&word, Flags::empty(), 1, None);
            assert!(wakes.is_err(), "{wakes:?}");
        });
        // Time for it to fall asleep.
        thread::sleep(Duration::from_millis(200));
        word.store(0, Ordering::SeqCst);
    });
}

#[test]
#[ignore = "runs as the process of another test"]
fn spins_for_good() {
    doing("lock eight");
    while thread::current().name().is_some() {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "runs as the process of another test"]
fn does_something_now_and_then() {
    for _ in 0..4 {
        thread::sleep(Duration::from_secs(4));
    }
}

#[test]
#[ignore = "runs as the process of another test"]
fn waits_for_another_program() {
    let status = Command::new("sleep").arg("14").status().unwrap();
    assert!(status.success());
}

#[test]
fn idle_threads_are_named_with_what_they_wait_for() {
    let text = ended("sleeps_for_good");
    for part in ["doing: lock seven", "sleeps for good while 0x", "tests/watchdog.rs"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn what_the_watchdog_wakes_does_not_pass() {
    ended("is_not_woken");
}

#[test]
fn spinning_threads_are_named() {
    let text = ended("spins_for_good");
    assert!(text.contains("doing: lock eight"), "{text}");
}

#[test]
fn what_goes_on_is_left_alone() {
    thread::scope(|scope| {
        for name in ["does_something_now_and_then", "waits_for_another_program"] {
            scope.spawn(move || {
                let output = run(name);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            });
        }
    });
}
