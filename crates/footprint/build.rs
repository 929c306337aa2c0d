//! Builds `crates/lockcode` and writes the sizes of its functions. Generic code would otherwise be
//! inlined into its callers. The same cargo is called once more, with a target directory of its
//! own: the outer cargo has locked the other one.

mod sizes;

use std::env::var;
use std::process::Command;

/// Variables of the outer cargo that must not change the code: other linters, flags and profiles
/// are for the crates that it builds itself.
const OF_THE_OUTER_BUILD: [&str; 4] = [
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_INCREMENTAL",
    "CARGO_BUILD_INCREMENTAL",
    "CARGO_ENCODED_RUSTFLAGS",
];

/// A variable of cargo.
fn set(name: &str) -> String {
    var(name).unwrap_or_default()
}

fn main() {
    for input in ["footprint/sizes.rs", "lockcode", "sync/src", "sync/Cargo.toml"] {
        println!("cargo::rerun-if-changed=../{input}");
    }
    let (place, target) = (set("OUT_DIR"), set("TARGET"));
    let list = format!("{place}/sizes.in");
    if set("CARGO_CFG_TARGET_OS") != "linux"
        || set("RUSTC_WORKSPACE_WRAPPER").ends_with("clippy-driver")
    {
        // `convoy lab list locks --sizes` fails with a message. Clippy does not run it.
        std::fs::write(&list, "&[]").expect("the build directory is writable");
        return;
    }
    let mut cargo = Command::new(set("CARGO"));
    // Offline: the outer cargo has resolved the workspace, and the code needs no other packages.
    cargo.args(["build", "--package", "convoy-lockcode", "--profile", "release", "--quiet"]);
    cargo.args(["--locked", "--offline", "--target", &target, "--target-dir", &place]);
    for variable in OF_THE_OUTER_BUILD {
        cargo.env_remove(variable);
    }
    let status = cargo.status().expect("the cargo that builds this crate starts");
    assert!(status.success(), "crates/lockcode does not compile: {cargo:?}");
    let built = format!("{place}/{target}/release/libconvoy_lockcode.rlib");
    let archive = std::fs::read(built).expect("cargo has written it");
    let sizes = sizes::sizes(&archive).expect("object files of this compiler");
    std::fs::write(&list, format!("&{sizes:?}")).expect("the build directory is writable");
}
