//! Builds `crates/preload`, the object that is loaded before a program, and embeds it in this
//! crate: users need one binary. Cargo cannot depend on the dynamic library of a package without an
//! unstable feature, so this calls the same cargo once more, for that package and with a target
//! directory of its own: the outer cargo has locked the other one.

use std::env::var;
use std::process::Command;

/// Variables of the outer cargo that must not change the object: other linters, flags and profiles
/// are for the crates that it builds itself.
const OF_THE_OUTER_BUILD: [&str; 3] =
    ["RUSTC_WORKSPACE_WRAPPER", "CARGO_INCREMENTAL", "CARGO_BUILD_INCREMENTAL"];

fn main() {
    for input in ["preload", "layout", "sync/src", "sync/Cargo.toml"] {
        println!("cargo::rerun-if-changed=../{input}");
    }
    let set = |name: &str| var(name).unwrap_or_default();
    let (place, target) = (set("OUT_DIR"), set("TARGET"));
    let object = format!("{place}/libconvoy_record.so");
    println!("cargo::rustc-env=CONVOY_OBJECT={object}");
    let kind = (set("CARGO_CFG_TARGET_ARCH"), set("CARGO_CFG_TARGET_OS"));
    let supported = kind.1 == "linux" && ["x86_64", "aarch64"].contains(&kind.0.as_str());
    let linted = set("RUSTC_WORKSPACE_WRAPPER").ends_with("clippy-driver");
    if !supported || linted {
        // `convoy record` says that it does not support this kind of machine. Clippy runs nothing.
        std::fs::write(&object, []).expect("the build directory is writable");
        return;
    }
    let mut cargo = Command::new(set("CARGO"));
    // Offline: the outer cargo has resolved the workspace, and the object has no other packages.
    cargo.args(["build", "--package", "convoy-preload", "--profile", "preload", "--quiet"]);
    cargo.args(["--locked", "--offline", "--target", &target, "--target-dir", &place]);
    for variable in OF_THE_OUTER_BUILD {
        cargo.env_remove(variable);
    }
    // A thread may be cancelled while it waits in the object, so the unwinder needs its frames.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Cforce-unwind-tables=yes");
    if let Ok(linker) = var("RUSTC_LINKER") {
        let name = target.to_uppercase().replace(['-', '.'], "_");
        cargo.env(format!("CARGO_TARGET_{name}_LINKER"), linker);
    }
    let status = cargo.status().expect("the cargo that builds this crate starts");
    assert!(status.success(), "crates/preload does not compile: {cargo:?}");
    let built = format!("{place}/{target}/preload/libconvoy_preload.so");
    std::fs::copy(built, object).expect("the build directory is writable");
}
