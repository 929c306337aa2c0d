//! Observing a simulated run does not change it: each flag that only observes leaves the schedule
//! hash, and with it every number, as it was.
//!
//! The flags are those of the help. Each of them is either a choice, which makes another run or
//! another record, or is tried here with every one of its values: a flag that is in neither list
//! fails the test.

use crate::{code, directory, ends, json, run, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LOAD: [&str; 10] =
    ["--kernel", "2.6.26-rc1", "--users", "9", "--first", "8", "--seed", "3", "--fs", "journal"];

/// Commands that simulate, each with a test below.
const SIMULATE: [&str; 3] = ["sim", "explain", "reproduce"];
/// Commands whose flags are the same or fewer (`locks`: an experiment of one grid; `report`:
/// `explain` as a page), that replay records of programs, or that do not simulate.
const OTHERS: &str = "top locks report predict fix compare bisect runs record with doctor check \
                      bench run calibrate list lab help";

/// What a command is asked, and the flags of it that observe, with their values. A value with a
/// suffix is a file.
struct Flags {
    choices: &'static str,
    observers: &'static [(&'static str, &'static [&'static str])],
}

const SIM: Flags = Flags {
    choices: "kernel machine cpus set fs disk-ms directories fs-mib journal-mib journal-async \
              labels mix job jobs dialect sizes filesize poolsize start-delay seed first \
              shrink shell-sleep users start end increment",
    observers: &[
        ("color", &["always"]),
        ("timeline", &["5", "0.37", "0.05", "0.001"]),
        ("plot", &["curve.svg", "curve.html"]),
        ("record", &["whole.json"]),
        ("store", &["other.sqlite3"]),
        ("no-store", &[""]),
        ("tag", &["seen"]),
        ("format", &["table", "markdown", "json", "csv"]),
        ("output", &["results.txt"]),
        ("quiet", &[""]),
    ],
};

/// `--firefox` and `--symbols` are for records of programs.
const EXPLAIN: Flags = Flags {
    choices: "only at kernel users cpus machine seed shrink set store firefox \
              symbols",
    observers: &[
        ("all", &[""]),
        ("color", &["always"]),
        ("trace", &["t.pftrace"]),
        ("trace-limit", &["1"]),
        ("folded", &["t.folded"]),
        ("pprof", &["t.pb.gz"]),
        ("flame", &["t.svg", "t.html"]),
        ("format", &["table", "markdown", "json", "csv"]),
        ("output", &["report.txt"]),
        ("quiet", &[""]),
    ],
};

/// `--measure` measures this machine.
const REPRODUCE: Flags = Flags {
    choices: "only full quick scale seeds seed kernel machine set measure dir shard merge",
    observers: &[
        ("color", &["always"]),
        ("threads", &["1", "3"]),
        ("plot", &["curves.svg"]),
        ("store", &["other.sqlite3"]),
        ("no-store", &[""]),
        ("tag", &["again"]),
        ("format", &["json"]),
        ("output", &["results.txt"]),
        ("quiet", &[""]),
    ],
};

/// What `word` finds in the lines of a help.
fn of_help(args: &[&str], word: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let help = run(args);
    assert_eq!(code(&help), Some(0), "{args:?}");
    stdout(&help).lines().filter_map(word).collect()
}

/// The long name of the flag that a line of the help begins with.
fn flag(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line =
        line.strip_prefix('-').and_then(|rest| rest.split_once(", ")).map_or(line, |it| it.1);
    let name = line.strip_prefix("--")?;
    let end = name.find(|char: char| !(char.is_ascii_lowercase() || char == '-'));
    Some(name[..end.unwrap_or(name.len())].to_owned())
}

impl Flags {
    /// Fails if the help of `command` has a flag that is in neither list, or lacks one.
    fn check(&self, command: &str) {
        let known = self.choices.split_whitespace().chain(self.observers.iter().map(|it| it.0));
        let known: BTreeSet<String> = known.chain(["help"]).map(str::to_owned).collect();
        assert_eq!(of_help(&[command, "--help"], flag), known, "the flags of {command}");
    }

    /// The arguments of each observing flag with each of its values; files are in `place`.
    fn each(&self, place: &Path) -> impl Iterator<Item = Vec<String>> {
        let arguments = |flag: &str, value: &str| {
            let suffix = value.rsplit_once('.').map_or("", |(_, suffix)| suffix);
            let is_file = suffix.starts_with(|char: char| char.is_ascii_alphabetic());
            let value = if is_file { file(place, value) } else { value.to_owned() };
            [format!("--{flag}"), value].into_iter().filter(|word| !word.is_empty()).collect()
        };
        self.observers
            .iter()
            .flat_map(move |(flag, values)| values.iter().map(move |value| arguments(flag, value)))
    }
}

fn file(place: &Path, name: &str) -> String {
    place.join(name).to_str().expect("UTF-8").to_owned()
}

/// Runs `args` with the arguments `more`, which must end well.
fn observed(args: &[&str], more: &[String]) -> std::process::Output {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    ends(&[args, &more].concat(), 0)
}

/// A file of JSON.
fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON")
}

/// The result of one load point without its samples.
fn point(ran: &Value) -> Value {
    let mut point = ran["points"][0].clone();
    let fields = point.as_object_mut().expect("a point");
    fields.remove("timeline");
    assert!(fields["hash"].is_string());
    point
}

#[test]
fn every_command_that_simulates_is_tried() {
    fn command(line: &str) -> Option<String> {
        let name = line.strip_prefix("  ")?.split("  ").next()?;
        let is_name = !name.is_empty() && name.chars().all(|char| char.is_ascii_lowercase());
        is_name.then(|| name.to_owned())
    }
    let known: BTreeSet<String> =
        SIMULATE.into_iter().chain(OTHERS.split_whitespace()).map(str::to_owned).collect();
    let mut commands = of_help(&["--help"], command);
    commands.extend(of_help(&["lab", "--help"], command));
    assert_eq!(commands, known);
}

#[test]
fn flags_of_sim_and_explain_that_observe_leave_the_run_as_it_was() {
    SIM.check("sim");
    EXPLAIN.check("explain");
    let place = directory("observing");
    let (store, whole) = (file(&place, "runs.sqlite3"), place.join("record.json"));
    let sim = |more: &[&str]| json(&[&["sim", "--format", "json"], &LOAD[..], more].concat(), 0);
    let plain = point(&sim(&["--quiet", "--store", &store]));
    sim(&["--quiet", "--store", &store, "--timeline", "0.37"]);
    for more in SIM.each(&place) {
        // The record has the results, whatever is printed; only one can be written.
        let path = if more[0] == "--record" { PathBuf::from(&more[1]) } else { whole.clone() };
        let record = path.to_str().expect("UTF-8").to_owned();
        let asked = [&["sim", "--record", &record], &LOAD[..]].concat();
        let asked = if more[0] == "--record" { [&["sim"], &LOAD[..]].concat() } else { asked };
        observed(&asked, &more);
        assert_eq!(point(&read(&path)["results"]), plain, "{more:?}");
    }
    // Number 2 was sampled, number 1 was not.
    let sampled = json(&["explain", "2", "--store", &store, "--format", "json"], 0);
    assert_eq!(sampled["hash"], plain["hash"]);
    for more in EXPLAIN.each(&place) {
        let prints = ["--format", "--output"].contains(&more[0].as_str());
        let args = ["explain", "1", "--store", &store, "--format", "json"];
        let output = observed(if prints { &args[..4] } else { &args }, &more);
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains("not what was stored"), "{more:?}: {said}");
        if !prints {
            let explained: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(explained["hash"], plain["hash"], "{more:?}");
        }
    }
}

#[test]
fn flags_of_reproduce_that_observe_leave_the_runs_as_they_were() {
    fn hash(text: &[u8]) -> Value {
        let mut report: Value = serde_json::from_slice(text).expect("JSON");
        report["hash"].take()
    }
    REPRODUCE.check("reproduce");
    let place = directory("observing-reproduce");
    let text = "title = \"small\"\n[inputs]\nmachine = \"quad-2008-two-dies\"\nfirst = 4\n\
                kernel = \"2.6.26-rc1\"\n[[grid]]\nname = \"small\"\ntarget = \"sim\"\n\
                view = \"plot\"\nseeds = 2\nmetrics = [\"jobs_per_min\"]\n[[grid.axis]]\n\
                key = \"users\"\nvalues = [2, 4]\n";
    let experiment = file(&place, "small.toml");
    std::fs::write(&experiment, text).expect("written");
    let args = ["reproduce", &experiment, "--format", "json"];
    let plain = hash(&observed(&args, &[]).stdout);
    assert!(plain.is_string());
    for more in REPRODUCE.each(&place) {
        let args = if more[0] == "--format" { &args[..2] } else { &args };
        let output = observed(args, &more);
        let written = (more[0] == "--output").then(|| std::fs::read(&more[1]).expect("written"));
        assert_eq!(hash(&written.unwrap_or(output.stdout)), plain, "{more:?}");
    }
}
