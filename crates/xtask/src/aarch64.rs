//! `cargo xtask aarch64`: the locks, the checker and the recorder on aarch64, under qemu.
//!
//! qemu executes the instructions and system calls of aarch64. It orders memory as this machine
//! does and offers neither rseq nor `perf_event_open(2)`, so a missing fence, restartable sequences
//! and samples of CPU time need real hardware.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::stage::{Ending, cargo, shown, starts};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Where Debian's cross compiler has the libraries.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";
/// Runs a command where programs of aarch64 can be started.
const EMULATED: &str = "packaging/emulated.sh";

/// The tests of every change. What differs between machines is atomic instructions, system calls,
/// and the recorder's object: the locks on threads, and the recorder on the program of the
/// tutorial.
const TESTS: [&[&str]; 2] =
    [&["-p", "convoy-checker", "--test", "native"], &["-p", "convoy-record", "--test", "tutorial"]];

/// The tests of each lock, and the checker on known algorithms: two minutes under qemu, and as much
/// to compile.
const LONG: [&[&str]; 2] = [
    &["-p", "convoy-checker", "--test", "famous"],
    &["-p", "convoy-sync", "--lib", "--test", "semaphore", "--test", "rcu", "--test", "future"],
];

/// Compiles and runs the tests, also the long ones if `is_long`, if this machine has the tools. The
/// profile `xtask` optimises nothing, which halves the time: compiling takes most of it.
pub(crate) fn run(root: &Path, is_long: bool) -> anyhow::Result<Ending> {
    if let Some(requirement) = missing(root)? {
        return Ok(Ending::Skipped(requirement));
    }
    let mut passed = true;
    let long = if is_long { &LONG[..] } else { &[] };
    for tests in TESTS.iter().chain(long) {
        let flags = ["test", "--locked", "--profile", "xtask", "--target", TARGET];
        let test = cargo(root, &[&flags[..], *tests].concat());
        let mut emulated = Command::new(root.join(EMULATED));
        emulated.arg(test.get_program()).args(test.get_args()).current_dir(root);
        // The test of the recorder compiles its program with `$CC`.
        emulated.env("QEMU_LD_PREFIX", SYSROOT).env("CC", COMPILER);
        emulated.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
        println!("qemu$ {}", shown(&test));
        passed &= emulated.status()?.success();
    }
    Ok(if passed { Ending::Passed } else { Ending::Failed })
}

/// Builds the release for aarch64 and follows the tutorial with it, if this machine has the tools.
pub(crate) fn release(root: &Path) -> anyhow::Result<Ending> {
    if let Some(requirement) = missing(root)? {
        return Ok(Ending::Skipped(requirement));
    }
    for arguments in [&["--machine", "aarch64"][..], &["--check", "--machine", "aarch64"]] {
        let ending = dist::run(root, arguments)?.unwrap_or(Ending::Failed);
        if !matches!(ending, Ending::Passed) {
            return Ok(ending);
        }
    }
    Ok(Ending::Passed)
}

/// Returns a missing requirement.
fn missing(root: &Path) -> anyhow::Result<Option<&'static str>> {
    let libraries = Path::new(SYSROOT).join("lib/ld-linux-aarch64.so.1");
    let emulates = Command::new(root.join(EMULATED)).arg("true").output();
    if !emulates.is_ok_and(|run| run.status.success()) || !starts(COMPILER) || !libraries.exists() {
        return Ok(Some(
            "qemu for aarch64 and user namespaces of Linux 6.7 or later: apt-get install \
             qemu-user-static gcc-aarch64-linux-gnu",
        ));
    }
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root).args(["--print", "target-libdir", "--target", TARGET]);
    let output = rustc.output()?;
    let directory = String::from_utf8(output.stdout)?;
    let has_target = output.status.success() && Path::new(directory.trim()).exists();
    Ok((!has_target).then_some("rustup target add aarch64-unknown-linux-gnu"))
}
