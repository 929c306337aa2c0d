//! Thread dumps of Java processes: what is asked, and what must never be.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use convoy_record::dumps::Dumps;
use convoy_record::{Blocked, Java, JavaOwner, Process};
use place::Place;

/// Longer than until the first dump.
const TIME: Duration = Duration::from_millis(1600);

/// Runs a program that looks like a Java virtual machine with these capabilities and arguments, and
/// takes dumps. Returns them, and the output of the program.
fn dumped(test: &str, capabilities: &str, arguments: &str) -> (Option<Java>, String) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let place = Place::new();
    let program = place.join("java");
    std::fs::rename(place.compile("jvm.c", &[]), &program).expect("the program is there");
    let mut java = Command::new(&program);
    java.arg(&*place).arg(programs.join("../dumps/monitor17.txt")).args([capabilities, arguments]);
    let mut child = java.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it says that it is ready");
    assert_eq!(line, "ready\n");
    let dumps = Dumps::start().expect("a thread");
    dumps.add(child.id());
    std::thread::sleep(TIME);
    let mut processes = [Process { pid: child.id().into(), ..Process::default() }];
    dumps.finish(&mut processes);
    drop(child.stdin.take());
    let mut printed = String::new();
    output.read_to_string(&mut printed).expect("text");
    assert!(child.wait().expect("it ends").success(), "{test}: a signal ended it");
    let note = format!("/tmp/.attach_pid{}", child.id());
    assert!(!Path::new(&note).exists(), "{note} is left");
    let [Process { java, .. }] = processes;
    (java, printed)
}

#[test]
fn a_machine_that_permits_it_is_dumped_and_prints_nothing() {
    let (java, printed) = dumped("permits", "1100", "-Xmx1g");
    let java = java.expect("dumps");
    assert_eq!(printed, "", "the program's output is its own");
    assert!(java.dumps >= 2 && java.refused.is_empty(), "{java:?}");
    let wait = &java.waits[0];
    assert_eq!((wait.blocked, wait.class.as_str()), (Blocked::Monitor, "Broker.class"));
    assert_eq!(wait.place, "Broker.serversToIgnore (Broker.java:5)");
    assert_eq!(wait.holder, "Broker.serversToIgnore (Broker.java:5)");
    assert_eq!((wait.owner, wait.count), (JavaOwner::Runs, 4 * java.dumps));
}

#[test]
fn a_machine_that_must_not_be_asked_hears_nothing() {
    for (test, capabilities, arguments, reason) in [
        ("xrs", "1100", "-Xmx1g -Xrs", "it does not handle SIGQUIT (-Xrs)"),
        ("disabled", "0100", "", "it was started with -XX:+DisableAttachMechanism"),
        (
            "flag",
            "1100",
            "-XX:+DisableAttachMechanism",
            "it was started with -XX:+DisableAttachMechanism",
        ),
    ] {
        let (java, printed) = dumped(test, capabilities, arguments);
        let java = java.expect("a reason");
        assert_eq!((java.dumps, java.refused.as_str()), (0, reason), "{test}");
        assert_eq!(printed, "", "{test}");
    }
}
