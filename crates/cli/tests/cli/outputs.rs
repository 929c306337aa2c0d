//! The output for terminals of 80 columns, for pull requests and for other programs.

use crate::compare::{NUMBER, noisy};
use crate::hostile::record_of;
use crate::{code, compile, convoy, directory, ends, json, run, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The problems of a value under a schema: of its keywords those that `convoy schema` uses.
pub(crate) fn problems(
    value: &Value,
    schema: &Value,
    all: &Value,
    at: &str,
    found: &mut Vec<String>,
) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").expect("a definition");
        return problems(value, &all["$defs"][name], all, at, found);
    }
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec![own],
    };
    if !types.contains(&own) {
        found.push(format!("{at} is {own} and not {types:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            found.push(format!("{at} lacks {name}"));
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(inner) = value.get(name) {
            problems(inner, part, all, &format!("{at}.{name}"), found);
        }
    }
    let items = value.as_array().into_iter().flatten().filter(|_| schema.get("items").is_some());
    for (number, item) in items.enumerate() {
        problems(item, &schema["items"], all, &format!("{at}[{number}]"), found);
    }
}

const AS_JSON: [&str; 3] = ["--format", "json", "--quiet"];

/// A command that prints a number which is larger by a third from the third commit of [`history`]
/// on.
const MEASURE: [&str; 4] =
    ["--", "sh", "-c", "echo $(($(cat level) + $(od -An -N1 -tu1 /dev/urandom) % 5))"];

/// The example of the tutorial, compiled.
pub(crate) fn compile_orders(place: &Path) -> String {
    let program = place.join("orders");
    compile("../../examples/slow-program/orders.c", &program, &[]);
    program.into_os_string().into_string().expect("UTF-8")
}

/// A record of the example of the tutorial.
fn record_orders(place: &Path, record: &str) {
    let program = &compile_orders(place);
    let words = ["record", "--quiet", "--kernel", "off", "--no-store", "-o", record, "--", program];
    ends(&words, 0);
}

/// A repository of five commits.
fn history(place: &Path) -> PathBuf {
    std::fs::create_dir(place).expect("made");
    let git = |args: &[&str]| {
        let names = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        assert!(git.args(names).args(args).current_dir(place).status().expect("git").success());
    };
    git(&["init", "--quiet"]);
    for (number, level) in [100, 100, 133, 133, 133].iter().enumerate() {
        std::fs::write(place.join("level"), format!("{level}")).expect("written");
        std::fs::write(place.join("number"), format!("{number}")).expect("written");
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "next"]);
    }
    place.to_owned()
}

#[test]
fn the_json_of_commands_is_that_of_the_schema() {
    let all = json(&["schema"], 0);
    assert_eq!(all["$id"], "urn:convoy:output:1");
    let place = directory("schema");
    let record = place.write("r.json", record_of("\"m\""));
    let explained = ["explain", "semaphore-2008", "--kernel", "2.6.26-rc1", "--users", "10"];
    let locks = ["locks", "--kernel", "6.18", "--lock", "ticket,mutex", "--window-ms", "2"];
    let reproduce = ["reproduce", "--scale", "500", "--seeds", "2", "--only", "table"];
    let recorded = place.path("orders.json");
    record_orders(&place, recorded);
    let history = history(&place.join("history"));
    let history = history.to_str().expect("UTF-8");
    let bisect = ["bisect", "--repo", history, "--good", "HEAD~4", "--bad", "HEAD"];
    let bisect = [&bisect[..], &["--metric-regex", "[0-9]+"], &AS_JSON, &MEASURE].concat();
    let store = place.path("runs.sqlite3");
    let bench = ["bench", "locks", "--threads", "2", "--section-ns", "100", "--lock", "std"];
    let kept = ["--window-ms", "5", "--rounds", "1", "--store", store];
    let bench = [&bench[..], &kept].concat();
    let schedule = "cv1:published-fix/two-ups:0,1,2,0";
    let cases: [(&str, i32, &[&str]); 20] = [
        ("explain-record", 0, &["explain", recorded]),
        ("predict", 0, &["predict", recorded, "--rounds", "1", "--policy", "sleep"]),
        ("fix", 0, &["fix", recorded, "--rounds", "1"]),
        ("experiment", 0, &bench),
        ("hogs", 0, &["bench", "hogs", "--lock", "std", "--rounds", "1", "--window-ms", "5"]),
        ("run", 0, &["runs", "show", "1", "--store", store]),
        ("load", 0, &["run", "--users", "1", "--shrink", "1000000", "--no-predict"]),
        ("promises", 0, &["check", "--list"]),
        ("replay", 1, &["check", "--replay", schedule]),
        ("bisect", 1, &bisect),
        ("explain-record", 0, &["explain", record]),
        ("explain-simulation", 0, &explained),
        ("experiment", 0, &locks),
        ("experiment", 0, &reproduce),
        ("load", 0, &["sim", "--kernel", "2.6.25", "--users", "5"]),
        ("check", 1, &["check", "semaphore", "--budget", "500"]),
        ("compare", 0, &["compare", "--runs", "4", "--warmup", "0", "true", "true", "--aa"]),
        ("compare-records", 0, &["compare", record, recorded]),
        ("runs", 0, &["runs"]),
        ("list", 0, &["list"]),
    ];
    for (name, expected, args) in cases {
        // What follows a command to measure would be of that command.
        let flags: &[&str] = if name == "bisect" { &[] } else { &AS_JSON };
        let output = run(&[args, flags].concat());
        // Whether `true` is slower than itself does not matter here.
        let known = name == "compare" || code(&output) == Some(expected);
        assert!(known, "{args:?}: {}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut found = Vec::new();
        problems(&value, &all["$defs"][name], &all, name, &mut found);
        assert!(found.is_empty(), "{args:?}: {found:#?}");
        // The schema is not trivial: it refuses the document of another command.
        let mut other = Vec::new();
        problems(&Value::from("text"), &all["$defs"][name], &all, name, &mut other);
        assert!(!other.is_empty(), "{name}");
    }
}

#[test]
fn tables_are_pipe_tables_in_markdown() {
    let locks = ["locks", "--kernel", "6.18", "--lock", "ticket,mutex", "--window-ms", "2"];
    let text = stdout(&run(&[&locks[..], &["--quiet", "--format", "markdown"]].concat()));
    assert!(text.contains("\n| ") && text.contains("| ---: |") && !text.contains('─'), "{text}");
    let place = directory("markdown");
    let path = place.write("r.json", record_of("\"a|b\""));
    let text = stdout(&run(&["explain", path, "--format", "markdown"]));
    assert!(text.contains("a\\|b") && !text.contains('─'), "{text}");
}

/// Each form of output without a golden, at most as wide as the terminal.
#[test]
fn no_line_is_wider_than_the_terminal() {
    let place = directory("columns");
    let long = format!("\"std::{}::lock\"", "very_long_name_".repeat(12));
    let record = place.write("r.json", record_of(&long));
    let lines = [
        format!("explain {record}"),
        format!("explain {record} --all"),
        "explain semaphore-2008 --kernel 2.6.26-rc1 --users 8 --quiet --all".to_owned(),
        "check all --budget 100 --quiet".to_owned(),
        "list".to_owned(),
        "runs".to_owned(),
    ];
    for columns in ["80", "120"] {
        let width: usize = columns.parse().expect("a number");
        for command in &lines {
            let words: Vec<&str> = command.split(' ').collect();
            let output = convoy(&words).env("COLUMNS", columns).output().expect("starts");
            let text = stdout(&output);
            assert!(!text.is_empty(), "{command:?}: {}", stderr(&output));
            let wide = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(wide, None, "{command:?} at {columns}");
        }
    }
}

#[test]
fn an_explained_run_is_one_screen() {
    /// Lines of a screen. The account of the longest convoy takes eight to ten of them.
    const SCREEN: usize = 42;
    let args = ["explain", "semaphore-2008", "--kernel", "2.6.26-rc1", "--users", "25", "--quiet"];
    let lines = |more: &[&str]| {
        let command = [&args[..], more].concat();
        let output = convoy(&command).env("COLUMNS", "80").output().expect("starts");
        stdout(&output)
    };
    let [screen, all] = [lines(&[]), lines(&["--all"])];
    assert!(screen.lines().count() <= SCREEN, "{screen}");
    assert!(all.lines().count() > 2 * SCREEN, "{all}");
    assert!(screen.contains("BKL") && screen.contains("--all shows"), "{screen}");
    assert!(all.contains("The critical chain") && !screen.contains("The critical chain"));
}

#[test]
fn a_pipeline_fails_only_beyond_its_limit() {
    let place = directory("fail-if");
    let [old, new] = [("old", 1.0), ("new", 1.1)].map(|(name, mean)| noisy(&place, name, 7, mean));
    let compare = |more: &[&str]| {
        let args = [&NUMBER[..], &["--runs", "12", "--no-store", &old, &new], more].concat();
        code(&run(&args))
    };
    assert_eq!(compare(&[]), Some(1), "10 % slower");
    assert_eq!(compare(&["--fail-if", "slower:30%"]), Some(0));
    assert_eq!(compare(&["--fail-if", "slower:3%"]), Some(1));
    assert_eq!(compare(&["--fail-if", "faster:3%"]), Some(2));
    assert_eq!(compare(&["--fail-if", "slower"]), Some(2));
}

#[test]
fn a_plot_that_cannot_be_drawn_is_refused_before_anything_runs() {
    let place = directory("plots");
    let record = place.write("r.json", record_of("\"m\""));
    let svg = place.path("plot.svg");
    let cases: [&[&str]; 6] = [
        &["predict", record, "--plot", svg],
        &["predict", record, "--cpus", "1,2", "--plot", "plot.pdf"],
        &["fix", record, "--plot", "plot"],
        &["locks", "--plot", svg],
        &["reproduce", "--plot", svg],
        &["compare", "true", "false", "--plot", "plot.txt"],
    ];
    for args in cases {
        let output = ends(args, 2);
        assert!(stderr(&output).contains("--plot") && stdout(&output).is_empty(), "{args:?}");
    }
    let drawn = ["locks", "--kernel", "6.18", "--lock", "ticket,mutex", "--window-ms", "2"];
    let more = ["--threads", "2,4", "--no-store", "--quiet", "--plot", svg];
    ends(&[&drawn[..], &more].concat(), 0);
    let plot = std::fs::read_to_string(svg).expect("the plot");
    assert!(plot.contains(">ticket</text>") && plot.contains(">threads</text>"), "{plot}");
}

/// Files in a place that takes none, also for root, are refused before the command does anything.
#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_runs() {
    let place = directory("unwritable");
    let record = place.write("r.json", record_of("\"m\""));
    let ran = place.join("ran");
    let touch = format!("touch {}", ran.display());
    let [svg, any] = ["/proc/convoy.svg", "/proc/convoy"];
    let bisect = ["bisect", "--good", "a", "--bad", "b", "--plot", svg, "--", "true"];
    let cases: [&[&str]; 22] = [
        &["compare", &touch, &touch, "--plot", svg],
        &["compare", &touch, &touch, "--output", any],
        &["record", "--output", any, "--", "sh", "-c", &touch],
        &["predict", record, "--cpus", "1,2", "--plot", svg],
        &["predict", record, "--output", any],
        &["fix", record, "--plot", svg],
        &["report", record, "--output", any],
        &["explain", record, "--trace", any],
        &["explain", record, "--firefox", any],
        &["explain", record, "--folded", any],
        &["explain", record, "--pprof", any],
        &["explain", record, "--flame", svg],
        &["locks", "--threads", "2,4", "--plot", svg],
        &["bench", "locks", "--plot", svg],
        &["bench", "hogs", "--output", any],
        &bisect,
        &["check", "semaphore", "--output", any],
        &["run", "--plot", svg],
        &["sim", "--kernel", "6.18", "--plot", svg],
        &["sim", "--kernel", "6.18", "--record", any],
        &["reproduce", "scaling", "--plot", svg],
        &["calibrate", "--output", any],
    ];
    for args in cases {
        let output = ends(args, 3);
        let said = stderr(&output);
        assert!(said.starts_with("convoy: cannot write /proc/convoy"), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && stdout(&output).is_empty(), "{args:?}: {said}");
    }
    assert!(!ran.exists(), "a command ran");
    // The numbers of a plot go to a file of the same name, and it is left as it is.
    std::fs::create_dir(place.join("plot.csv")).expect("made");
    let output = ends(&["locks", "--threads", "2,4", "--plot", place.path("plot.svg")], 3);
    assert!(stderr(&output).contains("plot.csv: it is a directory"), "{output:?}");
    let left = std::fs::read_dir(&*place).expect("listed").count();
    assert_eq!(left, 2, "the record and the directory; no temporary file");
}

#[test]
fn timelines_of_a_record_need_times() {
    let place = directory("timelines");
    let record = place.write("r.json", record_of("\"m\""));
    let file = place.path("trace");
    for flag in ["--trace", "--firefox"] {
        let output = ends(&["explain", record, flag, file], 2);
        assert!(stderr(&output).contains("does not say when threads waited"), "{output:?}");
    }
    ends(&["explain", "semaphore-2008", "--users", "5", "--firefox", file], 2);
}

#[test]
fn a_profile_has_the_waits_and_the_main_thread_of_a_program() {
    let place = directory("profile");
    let [record, file] = ["r.json", "profile.json"].map(|name| place.path(name));
    record_orders(&place, record);
    ends(&["explain", record, "--firefox", file], 0);
    let text = std::fs::read_to_string(file).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    // A field that the published types require and the library leaves out.
    assert_eq!(profile["meta"]["stackwalk"], 0);
    let threads = profile["threads"].as_array().expect("threads");
    assert_eq!(threads.iter().filter(|one| one["isMainThread"] == true).count(), 1, "one process");
    let markers = threads.iter().filter_map(|one| one["markers"]["data"].as_array()).flatten();
    let waits = markers.filter(|data| data["type"] == "LockWait").count();
    assert!(waits > 100, "{waits} waits for the lock of the example");
}
