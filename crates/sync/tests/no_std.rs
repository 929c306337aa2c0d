//! Without the standard library and without an allocator: `examples/no-std` is built as by its
//! author, linked with a program in C that has neither, and run.

#![cfg(all(target_os = "linux", not(miri)))]
#![expect(clippy::print_stderr, reason = "a test that lacks what it needs says so")]

use std::path::Path;
use std::process::Command;

const MAIN: &str = "int sections(void);\nint main(void) { return sections(); }\n";

fn run(command: &mut Command) {
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

#[test]
fn the_locks_run_without_the_standard_library_and_an_allocator() {
    if Command::new("cc").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "cc is missing in CI");
        eprintln!("skipped: there is no `cc` (a compiler for C)");
        return;
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/no-std/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-std");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--offline", "--quiet", "--manifest-path"]).arg(manifest);
    run(build.env("CARGO_TARGET_DIR", &target));
    let (main, program) = (target.join("main.c"), target.join("program"));
    std::fs::write(&main, MAIN).expect("a place for the program");
    let library = target.join("release/libno_std.a");
    let mut link = Command::new("cc");
    link.args(["-Wl,--gc-sections", "-o"]).arg(&program).arg(&main).arg(library);
    run(&mut link);
    run(&mut Command::new(&program));
}
