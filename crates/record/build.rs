//! Compiles the object that is loaded before a program and makes its bytes a part of this crate, so
//! that one binary is all that a user needs. The object uses nothing but the standard library and
//! the locks, so two calls of the compiler make it: no second cargo, no lock on the target
//! directory.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../preload/src");
    println!("cargo::rerun-if-changed=../sync/src");
    println!("cargo::rerun-if-changed=src/layout.rs");
    let set = |name: &str| var(name).unwrap_or_default();
    let object = set("OUT_DIR") + "/libconvoy_record.so";
    println!("cargo::rustc-env=CONVOY_OBJECT={object}");
    let here = (set("CARGO_CFG_TARGET_ARCH"), set("CARGO_CFG_TARGET_OS"));
    if here.1 != "linux" || !["x86_64", "aarch64"].contains(&here.0.as_str()) {
        // Recording says that it is not built for this kind of machine.
        std::fs::write(&object, []).expect("the build directory can be written");
        return;
    }
    let locks = set("OUT_DIR") + "/libconvoy_sync.rlib";
    // The locks as they are where there is no library below them.
    compile(
        &["--crate-type", "rlib", "--crate-name", "convoy_sync", "-C", "opt-level=3"],
        &["-o", &locks, "../sync/src/lib.rs"],
    );
    let with = format!("convoy_sync={locks}");
    compile(
        &["--crate-type", "cdylib", "--crate-name", "convoy_record", "--extern", &with],
        &[
            "-C",
            "opt-level=3",
            "-C",
            "lto=fat",
            "-C",
            "strip=debuginfo",
            "-o",
            &object,
            "../preload/src/lib.rs",
        ],
    );
}

/// Calls the compiler of this crate.
fn compile(kind: &[&str], rest: &[&str]) {
    let set = |name: &str| var(name).unwrap_or_default();
    let mut rustc = Command::new(set("RUSTC"));
    rustc.args(["--edition", "2024", "--target", &set("TARGET")]).args(kind);
    // A thread may be cancelled while it waits inside: the unwinder must find its way out.
    rustc.args(["-C", "panic=abort", "-C", "force-unwind-tables=yes", "-C", "codegen-units=1"]);
    rustc.args(["--cap-lints", "allow"]).args(rest);
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let status = rustc.status().expect("the compiler that builds this crate starts");
    assert!(status.success(), "crates/preload does not compile: {rustc:?}");
}
