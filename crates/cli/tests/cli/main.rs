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

use std::ops::Deref;
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

/// Runs a command that must end with `expected`.
fn ends(args: &[&str], expected: i32) -> Output {
    finish(&mut convoy(args), expected)
}

/// Runs any command that must end with `expected`.
fn finish(command: &mut Command, expected: i32) -> Output {
    let output = command.output().expect("it starts");
    assert_eq!(code(&output), Some(expected), "{command:?}: {}", stderr(&output));
    output
}

/// The JSON on standard output of a command that must end with `expected`.
fn json(args: &[&str], expected: i32) -> serde_json::Value {
    let output = ends(args, expected);
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// Runs a command that is refused with `expected`: it prints one line with all of `words` on
/// standard error, and nothing else.
fn refused(args: &[&str], expected: i32, words: &[&str]) {
    let output = ends(args, expected);
    let text = stderr(&output);
    assert_eq!(stdout(&output), "", "{args:?}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("convoy: "), "{args:?}: {text}");
    assert!(!text.contains("; ;") && !text.contains(".;"), "{args:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{args:?}: no {word:?} in {text}");
    }
}

/// Compiles a C program to `to`.
fn compile(source: impl AsRef<Path>, to: &Path, flags: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread"]).arg(source.as_ref()).arg("-o").arg(to).args(flags);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
}

/// A directory for one test, in cargo's directory for such. It is removed with this value, unless
/// the test fails.
struct Place(PathBuf);

/// A fresh directory for one test.
fn directory(test: &str) -> Place {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("convoy-{test}-{}", std::process::id()));
    // Numbers of processes come again, soonest in a PID namespace.
    let _none = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for the test");
    Place(path)
}

impl Place {
    /// The path of a file in it, as an argument.
    fn path(&self, name: &str) -> &'static str {
        self.join(name).into_os_string().into_string().expect("UTF-8").leak()
    }

    /// Writes a file in it; returns its path.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &'static str {
        std::fs::write(self.join(name), content).expect("written");
        self.path(name)
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _best_effort = std::fs::remove_dir_all(&self.0);
        }
    }
}
