//! `cargo xtask nightly`: the long variants of what `ci` runs in small.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::ci::{EMULATOR, PYTHON};
use crate::outcome::Outcome;
use crate::stage::{Ending, Pipeline, cargo, release, run as show, script};
use crate::{book, deny, dist, fuzz, golden, mutants, semver};

/// The requirement of `ThreadSanitizer`.
pub(crate) const NIGHTLY: &str = "a nightly toolchain: rustup toolchain install nightly";

/// The factor by which explorations grow; `convoy check` reads it as `CONVOY_BUDGET`.
const BUDGET: &str = "100";

/// The simulated searches, which put their tables into the document.
const BISECT: &[&str] = &[
    "run",
    "--release",
    "-p",
    "convoy-stats",
    "--example",
    "bisect_simulation",
    "--",
    "--seed",
    "2026",
    "--write",
    "results/bisect.md",
];

/// The commands, each with the name of its stage. Release builds: these are hours of simulation in
/// all.
const COMMANDS: &[(&str, &[&str])] = &[
    ("test", &["test", "--workspace", "--release", "--no-fail-fast"]),
    (
        "coverage",
        &["test", "-p", "convoy-stats", "--release", "--test", "stats", "--", "--ignored"],
    ),
    (
        "diagnoses",
        &["test", "-p", "convoy-explain", "--release", "--test", "programs", "--", "--ignored"],
    ),
    ("compare", &["test", "-p", "convoy", "--release", "--", "--ignored", "a_hundred_pairs"]),
    ("determinism", &["test", "-p", "convoy-lab", "--release", "--", "--ignored", "every_pair"]),
    ("thousand", &["test", "-p", "convoy-lab", "--release", "--", "--ignored", "a_thousand_cpus"]),
    (
        "mixes",
        &["test", "-p", "convoy-host", "--release", "--test", "host", "--", "--ignored", "load"],
    ),
    (
        "faults",
        &["test", "-p", "convoy", "--release", "--test", "cli", "--", "--ignored", "every_mode"],
    ),
    ("check", &["run", "--release", "--", "check", "all"]),
    (
        "orderings",
        &["test", "-p", "convoy-checker", "--release", "--test", "orderings", "--", "--ignored"],
    ),
    ("reproduce", &["run", "--release", "--", "reproduce", "semaphore-2008", "--full"]),
    ("sensitivity", &["run", "--release", "--", "reproduce", "semaphore-2008-sensitivity"]),
    ("bisect", BISECT),
    ("oracles", &["run", "--release", "-p", "convoy-kernel", "--example", "oracles"]),
    ("bench", &["bench", "--workspace"]),
];

/// Scripts that get the path of convoy: the stage, the script, its arguments and its requirement.
const SCRIPTS: &[(&str, &str, &[&str], &str)] = &[
    ("perfetto", "python/tests/run.sh", &["perfetto"], PYTHON),
    ("servers", "tests/servers/record.sh", &[], "root, and nginx, PostgreSQL, MariaDB or sshd"),
    (
        "verdicts",
        "tests/servers/verdicts.sh",
        &[],
        "root, and a server of results/servers.md with its load program",
    ),
    (
        "posix",
        "tests/posix.py",
        &[],
        "OPEN_POSIX_SUITE: testcases/open_posix_testsuite of the Linux Test Project",
    ),
    ("predicted", "tests/predictions/measure.py", &[], "python3 and a compiler of its languages"),
    (
        "cost",
        "tests/servers/cost.py",
        &[],
        "root, and a server of results/record.md with its load program",
    ),
    ("stability", "tests/stability/matrix.py", &[], "python3 and a C compiler"),
    ("hour", "tests/servers/hour.sh", &[], "a C compiler"),
    ("power", "tests/power/study.py", &[], "a C compiler"),
    ("dask", "python/tests/run.sh", &["dask", "--cells", "1000", "--workers", "4"], PYTHON),
    ("pipelines", "python/tests/run.sh", &["pipelines"], PYTHON),
    ("notebooks", "python/tests/run.sh", &["notebooks"], PYTHON),
];

/// Compiles the tree with the oldest compiler that the manifests allow.
fn oldest_compiler(root: &Path) -> anyhow::Result<Ending> {
    const VERSION: &str = env!("CARGO_PKG_RUST_VERSION");
    let toolchain = |arguments: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", VERSION, "cargo"]).args(arguments).current_dir(root);
        command
    };
    if !toolchain(&["--version"]).stderr(Stdio::null()).status().is_ok_and(|it| it.success()) {
        return Ok(Ending::Skipped("rustup toolchain install 1.88 --profile minimal"));
    }
    let check = ["check", "--workspace", "--locked", "--target-dir", "target/oldest"];
    show(&mut toolchain(&check))
}

/// Runs every command, even after a failure.
pub(crate) fn run(root: &Path) -> Outcome {
    let budget = std::env::var("CONVOY_BUDGET").unwrap_or_else(|_| BUDGET.to_owned());
    let mut pipeline = Pipeline::default();
    for (name, arguments) in COMMANDS {
        pipeline.stage(name, || show(cargo(root, arguments).env("CONVOY_BUDGET", &budget)));
    }
    for (name, path, arguments, requirement) in SCRIPTS {
        pipeline.stage(name, || {
            let convoy = release(root)?;
            script(root, path, &[&[convoy.as_str()], *arguments].concat(), requirement)
        });
    }
    // Building for a release, and installing it, is too long for every change.
    for arguments in [&[][..], &["--check"], &["crates"]] {
        pipeline.stage("dist", || Ok(dist::run(root, arguments)?.unwrap_or(Ending::Failed)));
    }
    pipeline.stage("aarch64", || script(root, "tests/aarch64.sh", &[], EMULATOR));
    pipeline.stage("dist-aarch64", || script(root, "tests/aarch64.sh", &["--release"], EMULATOR));
    pipeline.stage("book", || book::run(root));
    pipeline.stage("msrv", || oldest_compiler(root));
    pipeline.stage("deny", || deny::run(root));
    pipeline.stage("semver", || semver::run(root));
    pipeline.stage("instructions", || script(root, "benches/instructions.py", &[], "valgrind"));
    pipeline.stage("races", || script(root, "tests/races.sh", &[], NIGHTLY));
    // Other inputs every time; the seed is printed.
    let seed = std::process::id().to_string();
    let hour = ["--seconds", "3600", "--seed", &seed];
    pipeline.stage("fuzz", || fuzz::run(root, &hour));
    pipeline.stage("mutants", || Ok(mutants::run(root, &[])?.ending()));
    pipeline.stage("cargo-mutants", || mutants::generated(root));
    pipeline.stage("golden", || Ok(golden::run(root, golden::Mode::Compare)?.ending()));
    pipeline.print_summary();
    if pipeline.passed(true) { Outcome::Done } else { Outcome::Finding }
}
