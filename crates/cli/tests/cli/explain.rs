//! `convoy explain`: the report, its files, and its errors.

use crate::{directory, ends, json, stderr};
use convoy_explain::Trace;
use prost::Message as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A run of a fraction of a second that convoys.
const SMALL: [&str; 6] = ["semaphore-2008", "--kernel", "2.6.26-rc1", "--users", "30", "--quiet"];

fn explain(more: &[&str]) -> Vec<&'static str> {
    let all = [&["explain"], SMALL.as_slice(), more].concat();
    // The arguments of one test live as long as the test program.
    all.into_iter().map(|word| &*word.to_owned().leak()).collect()
}

fn seconds(shares: &Value) -> f64 {
    let shares = shares.as_array().expect("a list");
    shares.iter().map(|share| share["seconds"].as_f64().expect("a number")).sum()
}

#[test]
fn the_account_adds_up() {
    let report = json(&explain(&["--format", "json"]), 0);
    let summary = &report["summary"];
    let all = summary["window_s"].as_f64().expect("a number") * 4.0;
    assert!((seconds(&summary["states"]) / all - 1.0).abs() < 1e-6, "{summary:#}");
    let idle = &summary["states"][6];
    assert_eq!(idle["name"], "idle");
    let idle = idle["seconds"].as_f64().expect("a number");
    assert!((seconds(&summary["idle"]) / idle - 1.0).abs() < 1e-3, "{summary:#}");
    let chain = seconds(&summary["chain"]["shares"]);
    assert!((chain / (all / 4.0) - 1.0).abs() < 0.02, "a chain is as long as the run: {chain}");
    for lock in summary["locks"].as_array().expect("a list") {
        let of = |key: &str| lock[key].as_f64().expect("a number");
        assert!(of("owner_not_running_s") <= of("owned_s") + 1e-9, "{lock:#}");
        let each = of("instances") * all / 4.0;
        assert!(of("owned_s") <= each + 1e-9, "{lock:#}");
    }
    for (row, call) in [(0, "rmqueue_bulk"), (1, "free_pages_bulk")] {
        let row = &report["bulk"][row];
        assert!(row["call"] == call && row["calls"].as_u64() > Some(100), "{row:#}");
        let batch = row["count"]["mean"].as_f64().expect("a number");
        let whole = (batch - 31.0).abs() < 1e-9;
        assert!(whole || call == "free_pages_bulk" && batch < 31.0, "{row:#}");
    }
    let longest = &summary["longest"];
    assert_eq!(longest["idle_ms"].as_array().map(Vec::len), Some(4), "{longest:#}");
}

#[test]
fn recording_changes_nothing_and_a_stored_run_is_explained() {
    let place = directory("explain-stored");
    let store = place.path("runs.sqlite3");
    let args = ["--kernel", "2.6.26-rc1", "--users", "15", "--seed", "3", "--fs", "journal"];
    let args =
        [&["sim", "--quiet"], args.as_slice(), &["--store", store, "--format", "json"]].concat();
    let ran = json(&args, 0);
    let explained = json(&["explain", "1", "--store", store, "--quiet", "--format", "json"], 0);
    assert_eq!(ran["points"][0]["hash"], explained["hash"]);
    assert_eq!(explained["replay"], "convoy explain 1 --at 'users=15' --seed 3");
    ends(&["explain", "7", "--store", store], 2);
}

#[test]
fn threads_of_rcu_that_cost_much_are_named_first() {
    let place = directory("rcu-threads");
    let store = place.path("store");
    let load = ["--users", "256", "--first", "3", "--machine", "xeon-64-2011-8x8"];
    let sim = [&["sim", "--kernel", "3.0-rc", "--mix", "shared", "--store", store][..], &load];
    ends(&sim.concat(), 0);
    let report = json(&["explain", "1", "--store", store, "--format", "json"], 0);
    let verdict = report["verdict"].as_str().expect("a sentence");
    assert!(verdict.starts_with("RCU's real-time threads are woken on "), "{verdict}");
    let threads = &report["rcu_threads"];
    let locks = threads["vector_locks"].as_f64().expect("a number");
    // Two vectors when the thread comes, and two when it goes.
    assert!((locks - 4.0).abs() < 0.2, "{threads:#}");
}

#[test]
fn the_trace_decodes_and_its_arrows_arrive() {
    let place = directory("explain-trace");
    let trace = place.path("run.pftrace");
    ends(&explain(&["--trace", trace, "--trace-limit", "3"]), 0);
    let bytes = std::fs::read(trace).expect("the trace");
    assert!(bytes.len() <= 3_000_000, "{}", bytes.len());
    let trace = Trace::decode(bytes.as_slice()).expect("a trace");
    let mut tracks = BTreeMap::new();
    let (mut begun, mut ended) = (BTreeSet::<u64>::new(), BTreeSet::<u64>::new());
    let (mut switches, mut depth) = (0, BTreeMap::<u64, i32>::new());
    for packet in &trace.packet {
        if let Some(track) = &packet.track_descriptor {
            tracks.insert(track.uuid(), track.name().to_owned());
        }
        if let Some(bundle) = &packet.ftrace_events {
            let times: Vec<u64> = bundle.event.iter().filter_map(|event| event.timestamp).collect();
            assert!(times.is_sorted(), "CPU {}", bundle.cpu());
            switches += bundle.event.iter().filter(|event| event.sched_switch.is_some()).count();
        }
        if let Some(event) = &packet.track_event {
            assert!(tracks.contains_key(&event.track_uuid()), "{event:?} has no track");
            begun.extend(&event.flow_ids);
            ended.extend(&event.terminating_flow_ids);
            let open = depth.entry(event.track_uuid()).or_default();
            *open += [0, 1, -1, 0, 0][event.r#type() as usize];
            assert!((0..=1).contains(open), "slices of {:?}", tracks[&event.track_uuid()]);
        }
    }
    assert!(tracks.values().any(|name| name.starts_with("BKL")), "{tracks:?}");
    assert!(switches > 20, "{switches}");
    assert!(!ended.is_empty() && ended.is_subset(&begun), "{} arrows", ended.len());
}

#[test]
fn the_stacks_and_the_flame_graph() {
    let place = directory("explain-files");
    let (stacks, picture) = (place.path("stacks.txt"), place.path("flame.html"));
    ends(&explain(&["--folded", stacks, "--flame", picture]), 0);
    let stacks = std::fs::read_to_string(stacks).expect("the stacks");
    for line in stacks.lines() {
        let (frames, us) = line.rsplit_once(' ').expect("frames and a number");
        assert!(frames.split(';').count() >= 3 && us.parse::<u64>().is_ok(), "{line}");
    }
    let convoy = stacks.lines().filter(|line| line.contains(";BKL;asleep, owner waits for a CPU "));
    let us = convoy.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>();
    assert!(us > 1_000_000, "most waits for the lock are for an owner without a CPU: {stacks}");
    let picture = std::fs::read_to_string(picture).expect("the picture");
    assert!(picture.contains("<svg") && picture.contains("a convoy</text>"));
    assert!(!picture.contains("href=") && !picture.contains("src="), "nothing from outside");
}

#[test]
fn pages_in_a_loop_and_workloads_are_explained() {
    fn again(report: &Value) -> f64 {
        let lock = &report["summary"]["locks"][0];
        assert_eq!(lock["name"], "zone->lock");
        let of = |key: &str| lock[key].as_u64().expect("a count");
        (of("acquisitions") - of("owner_changes")) as f64 / of("acquisitions") as f64
    }
    let loops = |policy: &str| {
        let at = format!("policy={policy}");
        let args = ["explain", "zone-law", "--only", "cpus-8", "--at", "batch=63", "--at", &at];
        let small = [
            "--set",
            "experiment.inputs.window_ms=30",
            "--set",
            "experiment.inputs.warmup_ms=10",
            "--quiet",
        ];
        json(&[args.as_slice(), &small, &["--format", "json"]].concat(), 0)
    };
    // Why a look for waiters helps under one and not under the other.
    let (first_come, any) = (loops("ticket, hold all"), loops("test-and-set, hold all"));
    assert!(again(&first_come) + 0.1 < again(&any), "{first_come:#} {any:#}");
    assert_eq!(first_come["target"], "zone");
    assert!(first_come["metrics"]["pages_per_s"].as_f64().expect("a number") > 0.0);

    let dd = ["explain", "ticket-lock-2008", "--at", "workload=dd", "--kernel", "2.6.24-rc7"];
    let report = json(&[dd.as_slice(), &["--quiet", "--format", "json"]].concat(), 0);
    let (all, states) = (&report["summary"], seconds(&report["summary"]["states"]));
    let window = all["window_s"].as_f64().expect("a number");
    let cpus = all["cpus"].as_f64().expect("a number");
    assert!((states / (window * cpus) - 1.0).abs() < 0.02, "{states} s of {window} s x {cpus}");
    let real = report["metrics"]["real_s"].as_f64().expect("a number");
    assert!((window / real - 1.0).abs() < 1e-3, "{window} s, {real} s");
    let refused = ends(&[dd.as_slice(), &["--users", "3"]].concat(), 2);
    assert!(stderr(&refused).contains("--set workload."), "{}", stderr(&refused));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    fn refused(args: &[&str], expected: i32, word: &str) {
        crate::refused(args, expected, &[word]);
    }
    let which = "has 4 simulations; name one, such as --kernel 2.6.25; kernel: 2.6.25, 2.6.26-rc1";
    refused(&["explain", "semaphore-2008"], 2, which);
    refused(&["explain", "host"], 2, "name one, such as --at 'kept_to=");
    refused(&["explain", "semaphore-native"], 2, "name another experiment or a stored run");
    refused(&["explain", "nothing"], 2, "no file or experiment");
    refused(&["explain", "semaphore-2008", "--kernel", "nothing"], 2, "2.6.26-rc1");
    refused(&explain(&["--flame", "picture.png"]), 2, ".svg or .html");
    refused(&explain(&["--trace", "/nowhere/at/all"]), 3, "no directory");
}

#[test]
fn traces_name_kernel_threads_with_their_priorities() {
    let place = directory("kthreads");
    let file = place.path("trace");
    let rcu = ["explain", "rcu-2011", "--kernel", "3.0-rc", "--at", "machine=xeon-64-2011-8x8"];
    let size = ["--cpus", "2", "--users", "4", "--shrink", "100", "--quiet", "--trace"];
    ends(&[rcu.as_slice(), &size, &[file]].concat(), 0);
    let trace = Trace::decode(&*std::fs::read(file).expect("written")).expect("a trace");
    let events = trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref());
    let switches =
        events.flat_map(|events| &events.event).filter_map(|one| one.sched_switch.as_ref());
    let threads: BTreeSet<(&str, i32)> = switches
        .filter_map(|switch| Some((switch.next_comm.as_deref()?, switch.next_prio?)))
        .collect();
    assert!(threads.contains(&("rcuc1", 98)), "SCHED_FIFO 1 is 98: {threads:?}");
    assert!(threads.iter().any(|(name, priority)| name.starts_with("user-") && *priority == 120));
}

/// An experiment with ranges of users, of which each runs one number.
const RANGED: &str = r#"title = "ranges"
inputs = { machine = "quad-2008-two-dies", kernel = "2.6.25", first = 2 }
[[grid]]
name = "g"
target = "sim"
[[grid.axis]]
key = "users"
[[grid.axis.range]]
label = "few"
values = [2, 3]
run = [3]
[[grid.axis.range]]
label = "many"
values = [4, 5]
run = [4]
"#;

#[test]
fn a_cell_is_named_by_the_range_that_tables_print() {
    let place = directory("ranges");
    let file = place.write("ranges.toml", RANGED);
    let named = |at: &'static str| ["explain", file, "--at", at, "--quiet", "--format", "json"];
    let by_range = json(&named("users=few"), 0);
    assert_eq!(by_range["hash"], json(&named("users=3"), 0)["hash"], "{by_range}");
    let refused = ends(&named("users=2"), 2);
    assert!(stderr(&refused).contains("known: 3, few, 4, many"), "{}", stderr(&refused));
}
