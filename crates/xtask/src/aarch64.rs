//! `cargo xtask aarch64`: the locks, the checker and the recorder on aarch64, under qemu.
//!
//! qemu executes the instructions and system calls of aarch64. It orders memory as this machine
//! does and offers neither rseq nor `perf_event_open(2)`, so a missing fence, restartable sequences
//! and samples of CPU time need real hardware.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::emulator::{CURE, Emulator, sysroot};
use crate::stage::{Ending, cargo, shown};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const TARGET_CURE: &str = "rustup target add aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// The tests of every change. What differs between machines is atomic instructions, system calls,
/// and the recorder's object: the locks on threads, and the recorder on the program of the
/// tutorial.
const TESTS: [&[&str]; 2] =
    [&["-p", "convoy-checker", "--test", "native"], &["-p", "convoy-record", "--test", "tutorial"]];

/// The tests of each lock, and the checker on known algorithms: two minutes under qemu, and as much
/// to compile.
const MORE: [&[&str]; 2] = [
    &["-p", "convoy-checker", "--test", "famous"],
    &["-p", "convoy-sync", "--lib", "--test", "semaphore", "--test", "rcu", "--test", "future"],
];

/// Compiles and runs the tests, if this machine has the tools. The profile `xtask` optimises
/// nothing, which halves the time: compiling takes most of it.
pub(crate) fn run(root: &Path, more: bool) -> anyhow::Result<Ending> {
    let Some(emulator) = Emulator::find() else { return Ok(Ending::Skipped(CURE)) };
    let (Ok(libraries), true) = (sysroot(), starts(COMPILER)) else {
        return Ok(Ending::Skipped(CURE));
    };
    if !has_target(root)? {
        return Ok(Ending::Skipped(TARGET_CURE));
    }
    let mut passed = true;
    let more = if more { &MORE[..] } else { &[] };
    for tests in TESTS.iter().chain(more) {
        let flags = ["test", "--locked", "--profile", "xtask", "--target", TARGET];
        let test = cargo(root, &[&flags[..], *tests].concat());
        let mut inside = emulator.enter(test.get_program());
        inside.args(test.get_args()).current_dir(root);
        // The test of the recorder compiles its program with `$CC`.
        inside.env("QEMU_LD_PREFIX", libraries).env("CC", COMPILER);
        inside.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
        println!("qemu$ {}", shown(&test));
        passed &= inside.status()?.success();
    }
    Ok(if passed { Ending::Passed } else { Ending::Failed })
}

/// Builds the release for aarch64 and follows the tutorial with it, if this machine has the tools.
pub(crate) fn release(root: &Path) -> anyhow::Result<Ending> {
    if Emulator::find().is_none() || sysroot().is_err() {
        return Ok(Ending::Skipped(CURE));
    }
    if !has_target(root)? {
        return Ok(Ending::Skipped(TARGET_CURE));
    }
    for check in [&["--machine", "aarch64"][..], &["--check", "--machine", "aarch64"]] {
        dist::run(root, check)?;
    }
    Ok(Ending::Passed)
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success())
}

/// Whether the standard library of the target is installed.
fn has_target(root: &Path) -> anyhow::Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root).args(["--print", "target-libdir", "--target", TARGET]);
    let output = rustc.output()?;
    let place = String::from_utf8(output.stdout)?;
    Ok(output.status.success() && Path::new(place.trim()).exists())
}
