//! The `convoy` binary as its users meet it: exit codes, messages, JSON, interrupts.

mod bad_input;
mod calls;
mod check;
#[path = "../common/signals.rs"]
mod common;
mod compare;
mod doctor;
mod explain;
mod hardship;
mod hostile;
mod json;
mod laws;
mod load;
mod locks;
mod look;
mod modes;
mod named;
mod observing;
mod outputs;
mod record;
mod report;
mod runs;
mod safe;
mod shell;
mod signals;
#[path = "../../../host/tests/common/skip.rs"]
mod skip;
mod sources;
mod surroundings;
mod sweep;
mod top;
mod trust;
mod tutorial;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command with `args`, nothing to read, output and messages caught.
fn convoy(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoy"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Not into the store of the user of the tests.
    command.env("CONVOY_STORE", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("runs.sqlite3"));
    command
}

/// Runs the command to its end.
fn run(args: &[&str]) -> Output {
    convoy(args).output().expect("the binary starts")
}

/// The exit code; a process that a signal ended has none.
fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// The JSON on standard output of a command that must end with `expected`.
fn json(args: &[&str], expected: i32) -> serde_json::Value {
    let output = run(args);
    assert_eq!(code(&output), Some(expected), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// Compiles a C program to `to`.
fn compile(source: impl AsRef<Path>, to: &Path, flags: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread"]).arg(source.as_ref()).arg("-o").arg(to).args(flags);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
}

/// A fresh directory for one test, in cargo's directory for such.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("convoy-{test}-{}", std::process::id()));
    // Numbers of processes come again, soonest in a PID namespace.
    let _none = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for the test");
    path
}
