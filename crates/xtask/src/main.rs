//! Developer commands; `cargo xtask help` lists them.
//!
//! `ci` is the only entry point: it accepts a change exactly if the CI server does, because the
//! server runs nothing else (see `.ci/run`).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks")]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "names of this tree are spelt one way"
)]

mod book;
mod check;
mod ci;
mod closing;
mod deny;
mod dist;
mod fuzz;
mod golden;
mod mutants;
mod nightly;
mod outcome;
mod outline;
mod semver;
mod stage;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use outcome::Outcome;
use stage::script;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                what every change must pass: fmt, clippy, tidy, test, check, doc, golden
  tidy [--wrap]     the house rules of STYLE.md; --wrap wraps wide comments first
  golden [--bless]  run tests/golden/*.toml and compare, or rewrite what they expect
  mutants [NAME]... faults put into the locks, those whose description or file has one of these in
                    it, or all: which do the tests not see?
  fuzz [--seconds N | --inputs N] [--seed N] [TARGET | FILE]
                    every reader of files against bytes that nobody meant; FILE: one input again
  peers [--json]    the lock-contention model here and on other simulators
  predictions [--real] [--only NAME] [--threads LIST] [--cpus LIST] [--pairs N] [--rounds N]
                    [--nice N] [--write] [CONVOY]: convoy predict beside measurements of loops,
                    or of programs of packages, with a release build or that program; --write:
                    into results/predictions.md
  stability [--only NAMES] [--records N] [--seconds LIST] [--users LIST] [--loads LIST]
            [--write FILE]
                    records programs of tests/stability many times: is the answer right, and always
                    the same?
  power [--runs LIST] [--factors LIST] [--seconds N] [--write FILE]
                    convoy compare next to a busy program: are planted slowdowns found?
  size [BINARY]     the program of a release by section and by package, into docs/dependencies.md;
                    BINARY: prints that of target/release/convoy
  aarch64           locks, checker and recorder on aarch64, under qemu
  races             the recorder and the locks of convoy with, under ThreadSanitizer
  bench [--record]  instructions that fixed work executes, against results/instructions.jsonl;
                    --record: and adds this commit to it
  book              the documents as a site with search, and the crates' documentation, in
                    target/book/VERSION
  deny              licences, duplicates, sources and advisories of dependencies (deny.toml)
  semver            public interfaces of the published crates against the last tag
  notebooks CONVOY  the notebooks and the tables of the Python package, with that program
  dist [--machine NAME [--binary FILE]]
                    the files of a release in target/dist, for x86_64 or aarch64; FILE: a built one
  dist --check [--machine NAME] [--root DIR]
                    installs and uses them where there is nothing but glibc, or in the system DIR;
                    programs of another kind of machine run under qemu
  dist crates       packs the crates for the registry and uses them outside this tree
  nightly           the long variants: bigger checker budget, full-size reproduction, benches";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&root(), &arguments) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Finding) => ExitCode::from(1),
        Ok(Outcome::Usage) => ExitCode::from(2),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn dispatch(root: &Path, arguments: &[&str]) -> anyhow::Result<Outcome> {
    match arguments {
        // After any command, so that none starts a run of hours for a word it does not know.
        _ if arguments.first() == Some(&"help")
            || arguments.contains(&"--help")
            || arguments.contains(&"-h") =>
        {
            println!("{USAGE}");
            Ok(Outcome::Done)
        }
        ["ci"] => Ok(ci::run(root)),
        ["tidy"] => tidy::run(root),
        ["tidy", "--wrap"] => tidy::wrap(root),
        ["golden"] => golden::run(root, golden::Mode::Compare),
        ["golden", "--bless"] => golden::run(root, golden::Mode::Bless),
        ["mutants", wanted @ ..] if !wanted.iter().any(|word| word.starts_with('-')) => {
            mutants::run(root, wanted)
        }
        ["fuzz", rest @ ..] => Ok(fuzz::run(root, rest)?.into()),
        ["peers"] | ["peers", "--json"] => {
            Outcome::of(Command::new(root.join("benches/peers/run.py")).args(&arguments[1..]))
        }
        ["predictions", flags @ ..] => {
            Outcome::of(Command::new(root.join("benches/predictions.py")).args(flags))
        }
        ["stability", flags @ ..] => {
            let convoy = stage::release(root)?;
            let matrix = root.join("tests/stability/matrix.py");
            Outcome::of(Command::new(matrix).arg(convoy).args(flags))
        }
        ["power", flags @ ..] => {
            let convoy = stage::release(root)?;
            let study = root.join("tests/power/study.py");
            Outcome::of(Command::new(study).arg(convoy).args(flags))
        }
        ["size", binary @ ..] if binary.len() <= 1 => {
            Ok(script(root, "packaging/size.sh", binary, "python3 and readelf")?.into())
        }
        ["aarch64"] => Ok(script(root, "tests/aarch64.sh", &[], ci::EMULATOR)?.into()),
        ["bench"] | ["bench", "--record"] => {
            Outcome::of(Command::new(root.join("benches/instructions.py")).args(&arguments[1..]))
        }
        ["book"] => Ok(book::run(root)?.into()),
        ["deny"] => Ok(deny::run(root)?.into()),
        ["notebooks", program] => {
            Ok(script(root, "python/tests/run.sh", &[program, "notebooks"], ci::PYTHON)?.into())
        }
        ["semver"] => Ok(semver::run(root)?.into()),
        ["races"] => Ok(script(root, "tests/races.sh", &[], nightly::NIGHTLY)?.into()),
        ["dist", rest @ ..] => Ok(dist::run(root, rest)?.map_or_else(usage, Outcome::from)),
        ["nightly"] => Ok(nightly::run(root)),
        _ => Ok(usage()),
    }
}

fn usage() -> Outcome {
    eprintln!("{USAGE}");
    Outcome::Usage
}

/// The root of the workspace: two levels above this crate. Cargo sets the path at run time; the
/// path at build time is for runs without cargo.
fn root() -> PathBuf {
    let manifests = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifests = manifests.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifests.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}
