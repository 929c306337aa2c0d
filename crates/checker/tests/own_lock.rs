//! The example of an external lock, `examples/own-lock`, is built and tested as its author would:
//! with cargo, outside of this workspace.

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
    let mut own = locked("../../examples/own-lock/Cargo.lock");
    own.retain(|(name, _)| name != "name = \"own-lock\"");
    let unknown: Vec<_> = own.difference(&locked("../../Cargo.lock")).cloned().collect();
    assert_eq!(unknown, []);
}

#[test]
fn a_lock_from_elsewhere_is_checked_by_its_own_tests() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-lock/Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--test", "check", "--manifest-path"]).arg(manifest);
    // Cargo sets variables for its tests. The example is built as by a user.
    command.env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR")).arg("--").arg("--nocapture");
    let output = command.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("first-version violates no-lost-wakeup"), "{text}");
    assert!(text.contains("Subject::replay(\"cv1:first-version/"), "{text}");
}
