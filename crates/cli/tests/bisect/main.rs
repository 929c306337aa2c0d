//! `convoy bisect` on real repositories: real builds, real runs, real kills.

mod history;
mod kernel;
mod refused;
mod repo;
mod resume;

use repo::Repo;
use serde_json::Value;
use std::process::{Command, Output};

const DONE: i32 = 0;
const FINDING: i32 = 1;
const USAGE: i32 = 2;
const ENVIRONMENT: i32 = 3;

/// Runs a command to an end that must be `expected`.
fn ends(mut command: Command, expected: i32) -> Output {
    let output = command.output().expect("starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(expected), "{command:?}: {text}");
    output
}

/// The JSON on standard output of a command that must end with `expected`.
fn json(command: Command, expected: i32) -> Value {
    let output = ends(command, expected);
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// A history of `n` commits in one line; file `level` contains the output of the command: `good`
/// before commit `culprit` and `bad` from it on.
fn line(test: &str, n: usize, culprit: usize, [good, bad]: [&str; 2]) -> Repo {
    let mut repo = Repo::new(test);
    for number in 1..=n {
        let level = if number < culprit { good } else { bad };
        let note = format!("step {number}\n");
        let parent = [number.saturating_sub(1)];
        let parents = if number == 1 { &[][..] } else { &parent[..] };
        repo.commit(parents, &format!("step {number}"), &[("level", level), ("note", &note)]);
    }
    repo.make()
}

/// A command that prints the level of the commit with a noise of up to 4, the same in each search:
/// its source is the random size of the environment.
const NOISY: &str = "echo value: $(( $(cat level) + ${#CONVOY_PAD} / 1000 ))";
