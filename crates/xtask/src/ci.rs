//! `cargo xtask ci`: everything a change must pass, here and on a remote machine alike.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::closing::ClosingLines;
use crate::mutants::{Ended, limited};
use crate::outcome::Outcome;
use crate::stage::{Ending, Pipeline, built, cargo, ended_with, run as show, run_filtered, script};
use crate::{check, golden, tidy};

/// The requirement of tests with Python packages, which shipped code does not need.
pub(crate) const PYTHON: &str = "python3 with venv and pip, and a package index";

/// The requirement of tests on aarch64.
pub(crate) const EMULATOR: &str = "user namespaces of Linux 6.7 or later, apt-get install \
     qemu-user-static gcc-aarch64-linux-gnu, rustup target add aarch64-unknown-linux-gnu";

/// Features with code of this workspace. Not `peers` of `convoy-mm`: building other allocators
/// takes minutes.
const FEATURES: [&str; 2] = ["--features", "convoy-sync/lock_api"];

/// Runs all stages, even after a failure, and ends with the closing lines of the test runner.
pub(crate) fn run(root: &Path) -> Outcome {
    let mut pipeline = Pipeline::default();
    let mut closing = ClosingLines::default();
    pipeline.stage("fmt", || component(root, "fmt", &["fmt", "--all", "--check"]));
    pipeline.stage("clippy", || {
        component(
            root,
            "clippy",
            &[
                "clippy",
                "--workspace",
                FEATURES[0],
                FEATURES[1],
                "--all-targets",
                "--locked",
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ],
        )
    });
    pipeline.stage("tidy", || Ok(tidy::run(root)?.ending()));
    // The dev profile: assertions and overflow checks are on, and its opt-level of 1 keeps
    // simulations fast enough.
    pipeline.stage("test", || {
        let [flag, names] = FEATURES;
        let arguments = ["test", "--workspace", flag, names, "--locked", "--no-fail-fast"];
        let ending = run_filtered(&mut cargo(root, &arguments), |line| closing.hold(line))?;
        Ok(match ending {
            Ending::Failed if closing.pass_when_repeated(root, &arguments)? => Ending::Passed,
            ending => ending,
        })
    });
    // Programs that the tests have built with features of the whole workspace; by itself each would
    // build the simulator again. The interpreter and the fuzzer take one CPU each, and their output
    // is shown when they have ended.
    let convoy = built(root, "debug", "convoy");
    pipeline.stage("check", || check::every_lock(root, &convoy));
    let mut fuzzer = Command::new(built(root, "debug", "convoy-fuzz"));
    fuzzer.args(["--seconds", "45"]);
    std::thread::scope(|scope| {
        let fuzzer = scope.spawn(move || fuzzer.output());
        let interpreter = scope.spawn(|| miri(root));
        pipeline
            .stage("golden", || Ok(golden::with(root, golden::Mode::Compare, &convoy)?.ending()));
        pipeline.stage("doc", || doc(root));
        pipeline.stage("fuzz", || ended_with(fuzzer.join().expect("it only waits")?));
        pipeline.stage("miri", || interpreter.join().expect("it only waits"));
    });
    pipeline.stage("aarch64", || script(root, "tests/aarch64.sh", &["--short"], EMULATOR));
    pipeline.stage("dask", || {
        let convoy = convoy.display().to_string();
        script(root, "python/tests/run.sh", &[&convoy, "dask"], PYTHON)
    });
    pipeline.print_summary();
    println!();
    closing.print();
    let strict = std::env::var_os("CI").is_some();
    if pipeline.passed(strict) { Outcome::Done } else { Outcome::Finding }
}

/// A stage with a cargo subcommand that may not be installed, as in a minimal toolchain.
fn component(root: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<Ending> {
    let mut probe = cargo(root, &[name, "--version"]);
    if !probe.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        return Ok(Ending::Missing("cure: rustup component add clippy rustfmt"));
    }
    show(&mut cargo(root, arguments))
}

/// Documents the workspace. The compiler is called as `cargo clippy` calls it, so that cargo finds
/// the results of the stage of clippy; if it does not, it checks the workspace again.
fn doc(root: &Path) -> anyhow::Result<Ending> {
    let [flag, names] = FEATURES;
    let mut command = cargo(root, &["doc", "--workspace", flag, names, "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    let driver = Path::new(command.get_program()).with_file_name("clippy-driver");
    if driver.is_file() {
        command.env("RUSTC_WORKSPACE_WRAPPER", driver);
        command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
    show(&mut command)
}

/// An interpreter is slow, and CI must end: usually it takes one minute.
const MIRI_LIMIT: Duration = Duration::from_secs(600);

fn interpreter(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri"]).args(arguments).current_dir(root);
    command
}

/// Runs the locks on threads and the page allocator in the interpreter, which finds undefined
/// behaviour where it happens. Excluded: the checker with its coroutines in assembly.
fn miri(root: &Path) -> anyhow::Result<Ending> {
    let version =
        interpreter(root, &["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Ok(Ending::Skipped("rustup toolchain install nightly --component miri rust-src"));
    }
    let crates = ["test", "-p", "convoy-sync", "-p", "convoy-mm"];
    let tests = ["--lib", "--test", "semaphore", "--test", "future"];
    let tests = [&crates[..], &tests].concat();
    let mut command = interpreter(root, &tests);
    // Records of signals live as long as the program.
    command.env("MIRIFLAGS", "-Zmiri-ignore-leaks");
    let output = limited(&command, MIRI_LIMIT).output()?;
    if Ended::of(output.status) == Ended::Hung {
        return Ok(Ending::Skipped("more time: it was ended after ten minutes"));
    }
    ended_with(output)
}
