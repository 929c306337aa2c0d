//! `convoy doctor` tries the requirements of a recording.

use crate::{code, compile, directory, ends, json, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|one| one["check"] == name).expect("a check")
}

#[test]
fn a_machine_that_records_is_told_from_a_program_that_cannot_be_recorded() {
    let report = json(&["doctor", "--format", "json"], 0);
    assert_eq!(report["records"], true, "{report}");
    assert_eq!(check(&report, "locks")["works"], true, "{report}");
    let is_root = rustix::process::geteuid().is_root();
    let events = check(&report, "kernel events");
    assert!(is_root || events["works"] == false && events["text"] != "", "{report}");

    let place = directory("doctor");
    let source = place.write("static.c", "int main(void) { return 0; }\n");
    let program = place.path("static");
    compile(source, Path::new(program), &["-static"]);
    let report = json(&["doctor", program, "--format", "json"], 1);
    let reason = check(&report, "program")["text"].to_string();
    assert!(reason.contains("linked statically"), "{reason}");
    assert_eq!(report["records"], false, "{report}");
    let output = ends(&["doctor", "/nonexistent/program"], 1);
    assert!(stdout(&output).contains("is not found"), "{}", stdout(&output));
    let dynamic = json(&["doctor", "sh", "--format", "json"], 0);
    assert_eq!(check(&dynamic, "program")["works"], true, "{dynamic}");
}

#[test]
fn what_is_missing_has_its_cure() {
    // Without HOME the store has no path, and a recording needs more descriptors.
    let script = "unset HOME XDG_DATA_HOME CONVOY_STORE; exec \"$0\" doctor --format json";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_convoy")]).output();
    let report: Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    let store = check(&report, "store");
    assert_eq!(store["works"], false, "{report}");
    assert!(store["text"].to_string().contains("--output"), "{store}");
    let script = "ulimit -n 12; exec \"$0\" doctor";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_convoy")]).output();
    let output = output.expect("it starts");
    assert_eq!(code(&output), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("ulimit -n"), "{}", stdout(&output));
}
