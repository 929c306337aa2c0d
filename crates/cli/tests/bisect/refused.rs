//! What cannot be searched ends with one line that names the cure.

use crate::repo::Repo;
use crate::{ENVIRONMENT, NOISY, USAGE, ends, line};
use std::process::Command;

/// Nothing but one line with all of `words` on standard error.
fn refused(command: Command, expected: i32, words: &[&str]) {
    let output = ends(command, expected);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"", "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("convoy: "), "{text}");
    for word in words {
        assert!(last.contains(word), "no {word:?} in {last}");
    }
}

fn search(repo: &Repo, more: &[&str], command: &str) -> Command {
    let [good, bad] = [repo.id(1), repo.id(20)];
    let args = ["--good", good, "--bad", bad, "--metric-regex", "value: (.*)", "--quiet"];
    repo.bisect(&[args.as_slice(), &["--restart"], more, &["--", command]].concat())
}

#[test]
fn revisions_that_are_none() {
    let repo = line("names", 20, 9, ["100", "120"]);
    let [first, last] = [repo.id(1), repo.id(20)];
    let from = |good: &str, bad: &str| repo.bisect(&["--good", good, "--bad", bad, "--", "true"]);
    refused(from("v1.0", "main"), USAGE, &["--good v1.0", "no such commit"]);
    refused(from(first, "mian"), USAGE, &["--bad mian", "correct the name"]);
    refused(from("--help", "main"), USAGE, &["--good"]);
    refused(from(last, last), USAGE, &["are one commit"]);
    refused(from(last, first), USAGE, &["ancestor", "exchange"]);
    let mut lone = Repo::new("lone");
    lone.commit(&[], "one", &[("a", "1")]);
    lone.commit(&[], "other", &[("a", "2")]);
    let lone = lone.make();
    let unrelated = lone.bisect(&["--good", lone.id(1), "--bad", lone.id(2), "--", "true"]);
    refused(unrelated, USAGE, &["no common ancestor"]);
}

#[test]
fn no_repository_no_command_no_search() {
    let repo = line("nothing", 20, 9, ["100", "120"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoy"));
    command.args(["bisect", "--good", "a", "--bad", "b", "--repo", "/", "--", "true"]);
    refused(command, USAGE, &["not in a git repository", "--repo"]);
    refused(repo.bisect(&["--resume"]), USAGE, &["no search to go on with"]);
    refused(repo.bisect(&["--good", "a", "--bad", "b"]), USAGE, &["COMMAND"]);
    let text = ["--confidence", "2"];
    refused(search(&repo, &text, NOISY), USAGE, &["--confidence 2", "0.5"]);
    refused(search(&repo, &["--path", "nowhere"], NOISY), USAGE, &["nowhere", "--path"]);
    refused(search(&repo, &["--cpus", "x"], NOISY), USAGE, &["--cpus x: "]);
    assert!(!repo.state().exists(), "nothing is written before the settings are understood");
}

#[test]
fn ends_that_cannot_be_measured_say_why() {
    let repo = line("ends", 20, 9, ["100", "120"]);
    let before = repo.footprint();
    let fails = ["--build", "echo fatal: no rule >&2; exit 2"];
    refused(search(&repo, &fails, NOISY), USAGE, &["--good end", "exit code 2", "no rule"]);
    let at_bad = ["--build", "if grep -q 120 level; then exit 1; fi"];
    refused(search(&repo, &at_bad, NOISY), USAGE, &["--bad end", "exit code 1"]);
    refused(search(&repo, &[], "echo value: nan"), USAGE, &["\"nan\"", "no finite number"]);
    let other = "echo rate: 12";
    refused(search(&repo, &[], other), USAGE, &["is not in the output", "ends with: rate: 12"]);
    let units = "if grep -q 100 level; then echo value: 980 ms; else echo value: 1.2 s; fi";
    refused(search(&repo, &[], units), USAGE, &["\"s\"", "\"ms\"", "print all in one unit"]);
    refused(search(&repo, &[], "./nothing"), USAGE, &["./nothing"]);
    refused(search(&repo, &[], "kill -SEGV $$"), USAGE, &["signal 11"]);
    let [good, bad] = [repo.id(1), repo.id(20)];
    let slow = ["--good", good, "--bad", bad, "--timeout", "0.05", "--restart", "--quiet"];
    let slow = repo.bisect(&[slow.as_slice(), &["--", "sleep 5"]].concat());
    refused(slow, USAGE, &["longer than --timeout", "raise it"]);
    assert_eq!(repo.footprint(), before);
}

#[test]
fn an_unfinished_search_is_not_thrown_away() {
    let repo = line("unfinished", 20, 9, ["100", "120"]);
    refused(search(&repo, &["--build", "false"], NOISY), USAGE, &["--good end"]);
    let [good, bad] = [repo.id(1), repo.id(20)];
    let again = repo.bisect(&["--good", good, "--bad", bad, "--", "true"]);
    refused(again, USAGE, &["unfinished", "--resume", "--restart"]);
    std::fs::write(repo.state().join("log.jsonl"), "nonsense\n").expect("written");
    refused(repo.bisect(&["--resume"]), USAGE, &["log.jsonl:1:", "--restart"]);
}

#[test]
fn a_state_directory_that_cannot_be_made() {
    let repo = line("state", 20, 9, ["100", "120"]);
    std::fs::write(repo.state(), "a file").expect("written");
    refused(search(&repo, &[], NOISY), ENVIRONMENT, &["--state"]);
}
