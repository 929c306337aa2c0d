//! `program.c` is compiled against the header, linked with the library of this crate, and run. The
//! program and the layouts below verify that the header matches the library.

#![cfg(all(target_os = "linux", not(miri)))]
#![expect(clippy::print_stderr, reason = "a test says so if a tool is missing")]

use convoy_sync::{Barrier, NativeQuota, NativeQuotaCondvar, NativeQuotaRwLock, Once};
use std::path::Path;
use std::process::Command;

/// Returns the words of a lock.
fn words<T, const N: usize>(lock: T) -> [u32; N] {
    const { assert!(size_of::<T>() == size_of::<[u32; N]>()) };
    let lock = std::mem::ManuallyDrop::new(lock);
    // SAFETY: the sizes are equal, locks are aligned for words, and each byte of one is
    // initialised.
    unsafe { std::ptr::from_ref(&*lock).cast::<[u32; N]>().read() }
}

#[test]
fn the_initialisers_of_the_header_are_free_locks() {
    assert_eq!(words(NativeQuota::native(1)), [8, 0]);
    assert_eq!(words(NativeQuota::native(7)), [8 * 7, 0]);
    assert_eq!(words(NativeQuotaRwLock::native()), [0, 8, 0]);
    assert_eq!(words(Once::new()), [0]);
    assert_eq!(words(Barrier::new(9)), [0, 9]);
    let words_of_c = size_of::<[*const u8; 4]>();
    assert_eq!(size_of::<NativeQuotaCondvar>(), words_of_c);
}

/// Runs `command` and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_in_c_takes_every_lock() {
    if Command::new("cc").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "cc is missing in CI");
        eprintln!("skipped: `cc` (a compiler for C) is missing");
        return;
    }
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    let mut build = Command::new(env!("CARGO"));
    build.args(["rustc", "--offline", "--quiet", "--lib", "--crate-type", "staticlib"]);
    build.arg("--manifest-path").arg(crate_root.join("Cargo.toml"));
    run(build.env("CARGO_TARGET_DIR", &target));
    let program = target.join("program");
    let mut link = Command::new("cc");
    link.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    link.arg("-I").arg(crate_root.join("include")).arg(crate_root.join("tests/program.c"));
    link.arg(target.join("debug/libconvoy_capi.a")).args(["-lpthread", "-ldl"]);
    run(&mut link);
    assert_eq!(run(&mut Command::new(&program)), "480000 sections\n");
}
