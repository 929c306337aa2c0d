//! The examples of external code, `examples/own-lock` and `examples/ring`, are built and tested as
//! their authors would: with cargo, outside of this workspace.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the name and version of each crate in a `Cargo.lock`.
fn locked(path: &str) -> BTreeSet<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).expect("a Cargo.lock");
    let mut words = text.lines().map(str::to_owned).filter(|line| !line.starts_with("source"));
    let mut all = BTreeSet::new();
    while let Some(line) = words.next() {
        if line.starts_with("name = ") {
            all.insert((line, words.next().unwrap_or_default()));
        }
    }
    all
}

/// A new machine has fetched only the workspace's crates, and the test below does not fetch.
#[test]
fn the_example_needs_no_crate_that_the_workspace_has_not_got() {
    for example in ["own-lock", "ring"] {
        let mut crates = locked(&format!("../../examples/{example}/Cargo.lock"));
        crates.retain(|(name, _)| *name != format!("name = \"{example}\""));
        let unknown: Vec<_> = crates.difference(&locked("../../Cargo.lock")).cloned().collect();
        assert_eq!(unknown, []);
    }
}

/// Runs the tests of an example. Returns what they print.
fn tested(example: &str, arguments: &[&str]) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--manifest-path"]).arg(directory.join("Cargo.toml"));
    // Cargo sets variables for its tests. The example is built as by a user.
    command.env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"));
    let output = command.args(arguments).output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_lock_from_elsewhere_is_checked_by_its_own_tests() {
    let text = tested("own-lock", &["--test", "check", "--", "--nocapture"]);
    assert!(text.contains("first-version violates no-lost-wakeup"), "{text}");
    assert!(text.contains("Subject::replay(\"cv1:first-version/"), "{text}");
}

#[test]
fn a_ring_over_std_is_checked_by_switching_an_import() {
    let text = tested("ring", &["--features", "checked", "--test", "ring", "--", "--nocapture"]);
    assert!(text.contains("visibility: task 0 writes"), "{text}");
    assert!(text.contains("convoy_checker::program::replay(\"cv1-c11:program:"), "{text}");
}
