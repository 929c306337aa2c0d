//! The JSON and the CSV that programs read, where no golden has them.

use crate::{code, json, run, stderr, stdout};
use serde_json::Value;

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn reproduce_keeps_the_spread() {
    let small = ["reproduce", "--scale", "1000", "--seeds", "2", "--format", "json"];
    let value = json(&small, 0);
    assert!(value["grids"]["spread"].is_null(), "it is run on request");
    let notes = value["notes"].to_string();
    assert!(notes.contains("--only spread"), "{notes}");
    let value = json(&[small.as_slice(), &["--only", "spread"]].concat(), 0);
    let spread = value["grids"]["spread"].as_array().expect("spread");
    assert_eq!(spread.len(), 10, "two machines, two HZ, two preemption models; no groups");
    assert!(spread[0]["machine"].is_string(), "{}", spread[0]);
    assert!(spread[0]["loss_percent 2.6.26-rc1"].is_f64(), "{}", spread[0]);
}

#[test]
fn a_kernel_without_the_big_lock_says_nothing_of_it() {
    let args = ["sim", "--kernel", "3.0", "--users", "2", "--timeline", "0.1"];
    let output = run(&args);
    let text = stdout(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(text.contains("by interval") && text.contains("memory operations"), "{text}");
    for word in ["big kernel lock", "BKL", "owner", "hand-offs"] {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
    let value = json(&[args.as_slice(), &["--format", "json"]].concat(), 0);
    assert!(value["points"][0]["owner_not_running_percent"].is_null(), "{value}");
}

#[test]
fn a_record_of_a_simulation_has_its_inputs() {
    let place = crate::directory("sim-record");
    let path = place.path("r.json");
    let args = ["sim", "--kernel", "3.0", "--users", "2", "--seed", "4", "--fs", "journal"];
    let printed = json(&[args.as_slice(), &["--record", path, "--format", "json"]].concat(), 0);
    let text = std::fs::read_to_string(path).expect("a record");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(record["output_version"], 1);
    record["results"]["output_version"] = 1.into();
    assert_eq!(record["results"], printed);
    let cell = &record["grids"][0]["cells"][0];
    assert_eq!((&cell["inputs"]["fs"], &cell["inputs"]["seed"]), (&"journal".into(), &4.into()));
    let kernel = cell["parts"]["kernel"].as_str().expect("a hash");
    assert_eq!(record["parts"][kernel]["label"], "3.0");
    assert!(record["parts"][kernel]["content"]["sched"].is_object(), "{record:#}");
    assert!(record["build"].is_string() && record["hash"].is_string());
    assert_eq!((&printed["kernel"]["name"], &printed["seed"]), (&"3.0".into(), &4.into()));
    assert_eq!((&printed["file_system"], &printed["disk_ms"]), (&"journal".into(), &5.5.into()));
    assert_eq!(printed["kernel"]["changed"], false);
    assert_eq!(printed["mix"]["sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn everything_with_a_name_is_listed_with_a_line() {
    let all = json(&["list", "--format", "json"], 0);
    let all = all.as_array().expect("entries");
    for kind in ["machines", "kernels", "mixes", "jobs", "locks", "experiments"] {
        let listed = json(&["list", kind, "--format", "json"], 0);
        let listed = listed.as_array().expect("entries");
        assert!(listed.len() > 2, "{kind}");
        assert!(listed.iter().all(|entry| all.contains(entry) && entry["kind"] == kind));
        assert!(listed.iter().all(|entry| entry["name"].is_string()), "{kind}");
        let output = run(&["list", kind]);
        assert!(
            listed
                .iter()
                .all(|entry| { stdout(&output).contains(entry["name"].as_str().expect("text")) })
        );
    }
    let about =
        |name: &str| all.iter().find(|entry| entry["name"] == name).expect("listed").clone();
    assert!(about("3.0")["description"].as_str().expect("text").starts_with("Linux 3.0"));
    assert_eq!(about("compute")["description"], "A compute server");
}

#[test]
fn keys_of_files_and_calls_of_jobs_are_listed() {
    let entry = |kind: &str, name: &str| {
        let entries = json(&["list", kind, "--format", "json"], 0);
        let entries = entries.as_array().expect("entries");
        entries.iter().find(|entry| entry["name"] == name).expect("listed").clone()
    };
    assert_eq!(entry("kernel-keys", "config.hz")["takes"], "100 to 1000");
    assert_eq!(entry("machine-keys", "speed")["presence"], "required");
    assert_eq!(entry("experiment-keys", "inputs.threads")["takes"], "1 to 16384");
    let udp = entry("job-calls", "udp_test");
    assert_eq!(udp["calls"], "2 bind, 2 close, 2 connect, 99 read, 2 socket, 99 write");
    assert_eq!(entry("job-calls", "trig_rtns")["units"], "10000 trigonometric_functions");
    assert_eq!(entry("units", "matrix_product")["description"], "One 4-vector times a 4x4 matrix.");
    let text = stdout(&run(&["list", "kernel-keys"]));
    assert!(text.contains("config.hz: 100 to 1000; required. Ticks a second"), "{text}");
}

/// An edited copy kept the name inside the file, and titles and JSON claimed the shipped preset.
#[test]
fn a_changed_preset_is_called_changed() {
    fn sim(kernel: &str, rest: &[&str]) -> Value {
        let args = ["sim", "--kernel", kernel, "--users", "1", "--job", "add_int"];
        json(&[args.as_slice(), rest, &["--format", "json"]].concat(), 0)
    }
    let place = crate::directory("changed");
    let write = |name: &str, text: &str| place.write(name, text);
    let shipped = include_str!("../../../../kernels/2.6.25.toml");
    let kernel = write("2.6.25.toml", &shipped.replace("hz = 250", "hz = 1000"));
    let machine = write("fast.toml", "based_on = \"quad-2008-two-dies\"\nspeed = 2.0\n");
    let plain = sim("2.6.25", &[]);
    let edited = sim(kernel, &["--machine", machine]);
    let set = sim("2.6.25", &["--set", "kernel.config.hz=1000", "--set", "machine.speed=2"]);
    let sha =
        |value: &Value, kind: &str| value[kind]["sha256"].as_str().expect("a hash").to_owned();
    let (title, hash) = (edited["title"].as_str().expect("text"), sha(&edited, "kernel"));
    assert!(title.contains(&format!("2.6.25.toml ({})", &hash[..8])), "{title}");
    assert!(title.contains("fast.toml (based on quad-2008-two-dies; "), "{title}");
    for kind in ["kernel", "machine"] {
        assert_eq!(plain[kind]["changed"], false);
        assert_eq!((&edited[kind]["changed"], &set[kind]["changed"]), (&true.into(), &true.into()));
        assert_ne!(sha(&edited, kind), sha(&plain, kind));
        assert_eq!(sha(&edited, kind), sha(&set, kind), "equal content, equal hash");
    }
    assert_eq!(set["kernel"]["overrides"], serde_json::json!(["config.hz=1000"]));
    let title = set["title"].as_str().expect("text");
    assert!(title.contains("2.6.25 (changed: config.hz=1000; "), "{title}");
    assert_eq!(edited["points"], set["points"]);
    assert_ne!(edited["points"][0]["hash"], plain["points"][0]["hash"]);
}

#[test]
fn csv_keeps_the_timeline_and_the_jobs() {
    let args = ["sim", "--kernel", "2.6.26-rc1", "--users", "2,3", "--timeline", "0.1"];
    let text = stdout(&run(&[&args[..], &["--format", "csv"]].concat()));
    let (points, timeline) = text.split_once("\n\n").expect("two tables");
    assert_eq!(points.lines().count(), 3, "{text}");
    let head = "users,at_s,idle_percent,runnable,switches_per_s,acquisitions_per_s,handoffs_per_s,";
    assert!(timeline.starts_with(head), "{text}");
    for users in ["\n2,", "\n3,"] {
        assert!(timeline.contains(users), "{text}");
    }
    let args = ["run", "--users", "1", "--shrink", "1000000", "--no-predict", "--per-job"];
    let text = stdout(&run(&[&args[..], &["--format", "csv"]].concat()));
    let (_, jobs) = text.split_once("\n\n").expect("two tables");
    assert!(jobs.starts_with("users,job,runs,failed,p50_us,") && jobs.contains("disk_wrt"));
}

#[test]
fn json_keeps_the_timeline_and_leads_with_the_verdict() {
    let args = ["sim", "--kernel", "2.6.26-rc1", "--users", "2,3", "--timeline", "0.1"];
    let value = json(&[&args[..], &["--format", "json"]].concat(), 0);
    let verdict = value["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("Throughput ") && verdict.ends_with('.'), "{verdict}");
    for point in value["points"].as_array().expect("points") {
        let samples = point["timeline"].as_array().expect("intervals");
        assert!(!samples.is_empty(), "{point}");
        for sample in samples {
            assert_eq!(keys(sample).len(), 7, "{sample}");
            assert!(sample["at_s"].is_f64() && sample["runnable"].is_u64(), "{sample}");
        }
    }
    let text = stdout(&run(&args));
    assert!(text.lines().next().is_some_and(|line| line.starts_with("Throughput ")), "{text}");
    let account = stdout(&run(&["explain", "semaphore-2008", "--kernel", "3.0", "--users", "3"]));
    assert!(account.starts_with("The CPUs "), "{account}");
}

#[test]
fn run_gives_points_of_this_machine() {
    let args = ["run", "--users", "1,2", "--shrink", "1000000", "--format", "json"];
    let value = json(&args, 0);
    let points = value["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for point in points {
        assert!(point["jobs_per_min"].is_f64() && point["context_switches_per_s"].is_f64());
        assert!(point["owner_not_running_percent"].is_null() && point["hash"].is_null());
        assert_eq!(point["failed_jobs"], 0);
    }
}
