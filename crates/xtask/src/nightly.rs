//! `cargo xtask nightly`: the long variants of what `ci` runs in small.

use std::path::Path;
use std::process::Command;

use crate::outcome::Outcome;
use crate::stage::{Ending, Pipeline, built, cargo, run as show};
use crate::{
    aarch64, bench, book, dask, deny, dist, fuzz, golden, mutants, notebooks, races, semver,
};

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
    ("semver-break", &["test", "-p", "convoy-xtask", "--", "--ignored", "semver"]),
    ("check", &["run", "--release", "--", "check", "all"]),
    ("reproduce", &["run", "--release", "--", "reproduce", "semaphore-2008", "--full"]),
    ("sensitivity", &["run", "--release", "--", "reproduce", "semaphore-2008-sensitivity"]),
    ("bisect", BISECT),
    ("oracles", &["run", "--release", "-p", "convoy-kernel", "--example", "oracles"]),
    ("bench", &["bench", "--workspace"]),
];

/// Runs a script that records servers, if its programs are installed.
fn servers(root: &Path, script: &str, wanted: &'static str) -> anyhow::Result<Ending> {
    const NONE: i32 = 2;
    let build = show(&mut cargo(root, &["build", "--release", "-p", "convoy"]))?;
    if !matches!(build, Ending::Passed) {
        return Ok(build);
    }
    let mut script = Command::new(root.join("tests/servers").join(script));
    let status = script.arg(built(root, "release", "convoy")).status()?;
    Ok(match status.code() {
        Some(0) => Ending::Passed,
        Some(NONE) => Ending::Skipped(wanted),
        _ => Ending::Failed,
    })
}

/// Decodes the trace of a run with Perfetto's own schema, where its Python package is installed.
fn perfetto(root: &Path) -> anyhow::Result<Ending> {
    let have = Command::new("python3").args(["-c", "import perfetto"]).output();
    if !have.is_ok_and(|have| have.status.success()) {
        return Ok(Ending::Skipped("python3 with the package perfetto: pip install perfetto"));
    }
    let run = ["run", "--release", "--", "explain", "semaphore-2008", "--kernel", "2.6.26-rc1"];
    let trace = root.join("target/nightly.pftrace");
    let written = show(cargo(root, &run).arg("--trace").arg(&trace))?;
    if !matches!(written, Ending::Passed) {
        return Ok(written);
    }
    let script = root.join("tests/perfetto/decode.py");
    show(Command::new("python3").arg(script).arg(&trace))
}

/// Runs every command, even after a failure.
pub(crate) fn run(root: &Path) -> Outcome {
    let budget = std::env::var("CONVOY_BUDGET").unwrap_or_else(|_| BUDGET.to_owned());
    let mut pipeline = Pipeline::default();
    for (name, arguments) in COMMANDS {
        pipeline.stage(name, || show(cargo(root, arguments).env("CONVOY_BUDGET", &budget)));
    }
    pipeline.stage("perfetto", || perfetto(root));
    let servers = |script, wanted| servers(root, script, wanted);
    pipeline
        .stage("servers", || servers("record.sh", "root, and nginx, PostgreSQL, MariaDB or sshd"));
    pipeline.stage("verdicts", || {
        servers("verdicts.sh", "root, and a server of docs/servers.md with its load program")
    });
    pipeline.stage("hour", || servers("hour.sh", "a C compiler"));
    // Building for a release, and installing it, is too long for every change.
    for arguments in [&[][..], &["--check"], &["crates"]] {
        pipeline.stage("dist", || Ok(dist::run(root, arguments)?.unwrap_or(Ending::Failed)));
    }
    pipeline.stage("aarch64", || aarch64::run(root, true));
    pipeline.stage("dist-aarch64", || aarch64::release(root));
    pipeline.stage("dask", || {
        dask::run(root, &built(root, "release", "convoy"), &["--cells", "1000", "--workers", "4"])
    });
    pipeline.stage("pipelines", || {
        let build = show(&mut cargo(root, &["build", "--release", "-p", "convoy"]))?;
        let test = root.join("ci/test.sh");
        match build {
            Ending::Passed => {
                let path = notebooks::path(root)?;
                let convoy = built(root, "release", "convoy");
                show(Command::new(test).arg(convoy).env("PATH", path))
            }
            failed => Ok(failed),
        }
    });
    pipeline.stage("notebooks", || notebooks::run(root, &built(root, "release", "convoy")));
    pipeline.stage("book", || book::run(root));
    pipeline.stage("deny", || deny::run(root));
    pipeline.stage("semver", || semver::run(root));
    pipeline.stage("instructions", || bench::run(root, false));
    pipeline.stage("races", || races::run(root));
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
