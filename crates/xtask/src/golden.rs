//! `cargo xtask golden`: commands of the convoy binary with outputs that must not change by
//! accident.
//!
//! A case is one file `tests/golden/NAME.toml` next to its expected output:
//!
//! ```toml
//! # One sentence: what this case pins.
//! args = ["check", "semaphore", "--format", "json"]
//! exit = 1
//! stdout = "check-semaphore.json"
//! columns = 80
//! ```
//!
//! Each case runs in two processes at a time, one of them with one worker thread: the two outputs
//! must be the same to the byte before either is compared with the file. So a golden is a
//! determinism test across processes as well.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::stage::release;

/// What to do with the output of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Compare it with the expected file.
    Compare,
    /// Write it to the expected file.
    Bless,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    args: Vec<String>,
    #[serde(default)]
    exit: i32,
    stdout: PathBuf,
    /// Columns of the terminal; 0 for a file.
    #[serde(default = "wide")]
    columns: u32,
}

fn wide() -> u32 {
    120
}

/// Runs every case with a release build.
pub(crate) fn run(root: &Path, mode: Mode) -> anyhow::Result<Outcome> {
    with(root, mode, Path::new(&release(root)?))
}

/// Runs every case with `program`.
pub(crate) fn with(root: &Path, mode: Mode, program: &Path) -> anyhow::Result<Outcome> {
    let directory = root.join("tests/golden");
    let cases = cases(&directory)?;
    ensure!(!cases.is_empty(), "no case in tests/golden: the goldens are gone");
    ensure!(program.is_file(), "{} is not there: it was not built", program.display());
    let mut broken = 0;
    for path in &cases {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let verdict = read(path).and_then(|case| {
            let outputs = std::thread::scope(|scope| {
                let alone = scope.spawn(|| output(root, program, &case, Some("1")));
                [output(root, program, &case, None), alone.join().expect("it only waits")]
            });
            judge(&directory, &case, mode, outputs)
        });
        match verdict.with_context(|| name.clone().into_owned())? {
            None => println!("golden {name}: ok"),
            Some(difference) => {
                println!("golden {name}: {difference}");
                broken += 1;
            }
        }
    }
    if broken > 0 {
        println!("{broken} broken; when the change is meant: cargo xtask golden --bless");
    }
    Ok(if broken == 0 { Outcome::Done } else { Outcome::Finding })
}

/// Returns the case files of `directory`, in the order of their names.
fn cases(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(directory).context("tests/golden")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            cases.push(path);
        }
    }
    cases.sort();
    Ok(cases)
}

fn read(path: &Path) -> anyhow::Result<Case> {
    Ok(toml::from_str(&std::fs::read_to_string(path)?)?)
}

/// Compares the outputs of two processes with the expected output. Returns the differences.
fn judge(
    directory: &Path,
    case: &Case,
    mode: Mode,
    outputs: [anyhow::Result<String>; 2],
) -> anyhow::Result<Option<String>> {
    let [output, again] = outputs;
    let (output, again) = (output?, again?);
    if let Some(difference) = difference(&output, &again) {
        return Ok(Some(format!("two processes disagree, first and second: {difference}")));
    }
    let file = directory.join(&case.stdout);
    if mode == Mode::Bless {
        std::fs::write(&file, &output)?;
        return Ok(None);
    }
    let expected = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}; bless it first", case.stdout.display()))?;
    Ok(difference(&expected, &output).map(|text| format!("expected and got: {text}")))
}

/// Returns the standard output of one run of `case`; fails if the exit code differs from the
/// case's.
fn output(
    root: &Path,
    program: &Path,
    case: &Case,
    threads: Option<&str>,
) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    // Records of goldens are not needed.
    command
        .current_dir(root)
        .args(&case.args)
        .env("CONVOY_STORE", "none")
        .env("LC_ALL", "C.UTF-8")
        .env("COLUMNS", case.columns.to_string());
    if let Some(threads) = threads {
        command.env("CONVOY_THREADS", threads);
    }
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(case.exit),
        "ended with {} instead of exit code {}\n{errors}",
        output.status,
        case.exit
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the first line in which two outputs differ.
fn difference(expected: &str, got: &str) -> Option<String> {
    if expected == got {
        return None;
    }
    let mut left = expected.split('\n');
    let mut right = got.split('\n');
    for line in 1.. {
        let pair = (left.next(), right.next());
        if pair.0 != pair.1 {
            let [a, b] = [pair.0, pair.1].map(|side| side.unwrap_or("(end of output)"));
            return Some(format!("line {line}\n  - {a}\n  + {b}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_the_first_line() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n").unwrap(), "line 2\n  - b\n  + c");
        assert_eq!(difference("a\n", "a").unwrap(), "line 2\n  - \n  + (end of output)");
    }

    #[test]
    fn a_case_with_an_unknown_key_is_refused() {
        let good = "args = ['check']\nstdout = 'check.json'\n";
        assert_eq!(toml::from_str::<Case>(good).unwrap().exit, 0);
        assert!(toml::from_str::<Case>(&format!("{good}exti = 1\n")).is_err());
    }
}
