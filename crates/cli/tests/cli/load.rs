//! `convoy run` on this machine: run control, failures, curves, records.

use crate::{code, convoy, directory, ends, finish, json, stderr, stdout};

/// A load of milliseconds.
const SMALL: [&str; 5] = ["run", "--shrink", "1000000", "--no-predict", "--quiet"];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [SMALL.as_slice(), more].concat()
}

#[test]
fn the_same_seed_gives_every_user_the_same_order() {
    let directory = directory("orders");
    let record = |name: &str, seed: &str| {
        let path = directory.path(name);
        ends(&small(&["--users", "3,1", "--seed", seed, "--record", path]), 0);
        let text = std::fs::read_to_string(path).expect("written");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let (first, again, other) = (record("a", "7"), record("b", "7"), record("c", "8"));
    let orders = first["orders"].as_array().expect("orders");
    assert_eq!((orders.len(), &first["seed"]), (3, &serde_json::json!(7)));
    assert!(orders.iter().all(|order| order.as_str().expect("text").split(' ').count() == 97));
    assert_ne!(orders[0], orders[1]);
    assert_eq!(first["orders"], again["orders"]);
    assert_ne!(first["orders"], other["orders"]);
    for key in ["p50_ns", "p99_ns"] {
        assert!(first["points"][0]["jobs"][0][key].is_u64(), "{key}");
    }
}

#[test]
fn a_failed_point_keeps_the_others_and_ends_with_3() {
    let args = ["--users", "1,2", "--on-error", "continue", "--format", "json"];
    let output = finish(convoy(&small(&args)).env("CONVOY_INJECT", "enospc@disk_wrt:1"), 3);
    assert!(stderr(&output).contains("2 of 2 load points failed"), "{}", stderr(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for point in value["points"].as_array().expect("points") {
        let failed = &point["failed"];
        assert_eq!((&failed["job"], &failed["errno"]), (&"disk_wrt".into(), &"ENOSPC".into()));
        assert!(failed["user"].is_u64() && failed["call"].is_string(), "{failed}");
    }
    let stopped = convoy(&small(&["--users", "1,2"]))
        .env("CONVOY_INJECT", "eaddrinuse@udp_test:1")
        .output()
        .expect("starts");
    assert_eq!(code(&stopped), Some(3));
    assert!(stdout(&stopped).contains("FAILED") && stderr(&stopped).contains("EADDRINUSE"));
    let wrong = convoy(&small(&[])).env("CONVOY_INJECT", "nonsense").output().expect("starts");
    assert_eq!(code(&wrong), Some(2));
}

#[test]
fn curves_are_written() {
    let directory = directory("curves");
    let (svg, html) = (directory.path("curve.svg"), directory.path("curve.html"));
    let args = ["--users", "1,2", "--repeat", "2", "--plot", svg, "--plot", html];
    ends(&small(&args), 0);
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    assert!(read(svg).starts_with("<svg") && read(html).contains(r#""kind":"plot""#));
    ends(&small(&["--plot", "x.gif"]), 2);
}

#[test]
fn sweeps_repeat_and_precision_are_as_asked() {
    let args =
        ["--start", "1", "--end", "5", "--increment", "3", "--repeat", "2", "--format", "json"];
    let value = json(&small(&args), 0);
    let users: Vec<u64> = value["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|point| point["users"].as_u64().expect("a number"))
        .collect();
    assert_eq!(users, [1, 4, 5]);
    assert!(value["points"].as_array().expect("points").iter().all(|point| {
        point["repeats"].as_array().is_some_and(|repeats| repeats.len() == 2)
            && point["jobs_per_min_ci95"].is_array()
    }));
    // Far above any rate: the crossover is immediate.
    let args = ["--crossover", "1e15", "--format", "json"];
    assert_eq!(json(&small(&args), 0)["points"].as_array().map(Vec::len), Some(1));
    let args = ["--job", "sieve", "--users", "1", "--precise", "50%", "--format", "json"];
    let value = json(&small(&args), 0);
    assert!(value["points"][0]["precise"].is_boolean(), "{value}");
    assert!(value["points"][0]["repeats"].as_array().is_some_and(|all| all.len() >= 3));
    for wrong in [
        ["--precise", "0"],
        ["--crossover", "-1"],
        ["--sizes", "1997"],
        ["--filesize", "10"],
        ["--job", "none"],
    ] {
        ends(&small(&wrong), 2);
    }
}

#[test]
fn a_limit_is_named_before_anything_is_started() {
    // `ulimit -n` binds root as well; 12 descriptors start the program but not its users.
    let output = finish(
        std::process::Command::new("sh")
            .args(["-c", "ulimit -n 12; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_convoy")])
            .args(small(&["--users", "1"])),
        3,
    );
    let text = stderr(&output);
    assert!(text.contains("ulimit -n") && text.lines().count() == 1, "{text}");
}
