//! The example of a lock from elsewhere, `examples/own-lock`, is built and tested as its author
//! would: with cargo, outside of this workspace.

use std::path::Path;
use std::process::Command;

#[test]
fn a_lock_from_elsewhere_is_checked_by_its_own_tests() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-lock/Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--test", "check", "--manifest-path"]).arg(manifest);
    // Cargo tells its tests about themselves; the example is built as by a user.
    command.env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR")).arg("--").arg("--nocapture");
    let output = command.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("first-version violates no-lost-wakeup"), "{text}");
    assert!(text.contains("Subject::replay(\"cv1:first-version/"), "{text}");
}
