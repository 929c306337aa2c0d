//! `convoy record` and the explanation of its records.

use crate::safe::read;
use crate::{code, compile, convoy, directory, ends, json, run, stderr, stdout};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const SOURCE: &str = "../record/tests/programs/convoy.c";
const TURNS: &str = "../record/tests/programs/turns.c";
const HANDLERS: &str = "../record/tests/programs/handlers.c";

#[test]
fn handlers_that_reach_one_lock_differ_by_their_callers() {
    let place = directory("handlers");
    compile(HANDLERS, &place.join("program"), &[]);
    let [program, file] = ["program", "r.json"].map(|name| place.path(name));
    ends(&["record", "-q", "-o", file, "--", program], 0);
    let [folded, profile, trace, firefox] =
        ["f.txt", "f.pb.gz", "f.pftrace", "f.json"].map(|name| place.path(name));
    let files = ["--folded", folded, "--pprof", profile, "--trace", trace];
    ends(&[&["explain", file, "--firefox", firefox], &files[..]].concat(), 0);
    let stacks = std::fs::read_to_string(folded).expect("stacks");
    for [outer, inner] in [["reader", "read_row"], ["writer", "write_row"]] {
        let stack = format!("{outer};{inner};update (handlers.c:10);lock;table (mutex);");
        assert!(stacks.contains(&stack), "{stack}: {stacks}");
    }
    assert!(std::fs::read(profile).expect("a profile").starts_with(&[0x1f, 0x8b]));
    // Both formats have the callers as text.
    for file in [trace, firefox] {
        let bytes = std::fs::read(file).expect("written");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("read_row") && text.contains("write_row"), "{file}");
    }
}

#[test]
fn a_device_is_not_suggested_as_a_record() {
    let output = ends(&["record", "--kernel", "off", "-o", "/dev/null", "--", "true"], 0);
    assert!(!stderr(&output).contains("convoy explain"), "{output:?}");
}

#[test]
fn a_program_is_recorded_and_explained() {
    let place = directory("record");
    let program = place.join("program");
    compile(SOURCE, &program, &[]);
    let [program, file] = ["program", "r.json"].map(|name| place.path(name));
    let output = run(&["record", "-o", file, "--", program]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "320\n"), "{output:?}");
    let messages = stderr(&output);
    let verdict = "of their time waiting for `cache_lock`, which another thread in use_cache \
                   (convoy.c:10) holds while it sleeps in clock_nanosleep(2)";
    assert!(messages.contains(verdict), "{messages}");
    assert!(messages.contains(&format!("convoy explain {file}")), "{messages}");

    let report = json(&["explain", file, "--format", "json"], 0);
    assert!(report["verdict"].as_str().expect("text").contains(verdict));
    assert_eq!(report["diagnoses"][0]["ill"], "owner-asleep");
    assert_eq!(report["causes"][0]["held_at"], "use_cache (convoy.c:10)");
    assert_eq!(report["locks"][0]["name"], "cache_lock");
    assert!(report["locks"][0]["owner_off_cpu_percent"].as_f64().expect("a number") > 80.0);
    let flame = place.path("f.svg");
    let text = run(&["explain", file, "--all", "--flame", flame]);
    assert!(stdout(&text).contains("The longest convoy at `cache_lock`"), "{text:?}");
    assert!(std::fs::read_to_string(flame).expect("a picture").contains("cache_lock (mutex)"));
    ends(&["explain", file, "--kernel", "3.0"], 2);
    let words = ["predict", file, "--policy", "sleep,handoff", "--split", "8", "--rounds", "1"];
    let predicted = json(&[&words[..], &["--format", "json"]].concat(), 0);
    let text = predicted["verdict"].as_str().expect("text");
    assert!(text.starts_with("`cache_lock` in use_cache (convoy.c:10) limits"), "{text}");
    let points = predicted["anchor"].as_array().expect("points");
    let rate = |point: &serde_json::Value| point["acquisitions_per_s"].as_f64().expect("a number");
    // The last one has no other programs.
    let (recorded, alone) = (rate(&points[0]), rate(&points[points.len() - 1]));
    assert!((0.7..2.5).contains(&(alone / recorded)), "{predicted}");
    // Threads wait for nothing but this lock: after a split, more of them sleep at the same time.
    let row = &predicted["rows"][2];
    assert_eq!(row["split"], 8, "{predicted}");
    assert!(row["high_percent"].as_f64().expect("a number") > 50.0, "{predicted}");
    // Next to other programs, a record without the events of the kernel is not simulated.
    if predicted["doubt"].is_null() {
        assert!(row["low_percent"].as_f64().expect("a number") > 50.0, "{predicted}");
    }
    // A thread that sleeps in a section gains nothing from another lock, and fix says so.
    let advice = stdout(&run(&["fix", file, "--rounds", "1", "--split", "8"]));
    let advice = advice.replace("\n  ", " ");
    assert!(
        advice.contains("Sleeping outside of `cache_lock` in use_cache (convoy.c:"),
        "{advice}"
    );
    // Unless a thread starved, which another lock bounds.
    assert!(!advice.contains("convoy with") || advice.contains("Starvation: "), "{advice}");
    let cut = place.write("cut.json", "{\"recorded\": 1,\n \"program\":");
    let cut = ends(&["explain", cut], 2);
    assert!(stderr(&cut).contains("line 2"), "{cut:?}");
}

/// The convoy of 2008, in user space: a semaphore that hands over costs a switch a turn.
#[test]
fn a_semaphore_that_hands_over_is_recorded_explained_and_fixed() {
    // And so it is: the fastest of three runs of each.
    fn fastest(words: &[&str]) -> std::time::Duration {
        let one = |_| {
            let begin = Instant::now();
            let output = Command::new(words[0]).args(&words[1..]).output().expect("it starts");
            assert_eq!(stdout(&output), "64000\n");
            begin.elapsed()
        };
        (0..3).map(one).min().expect("three runs")
    }
    let place = directory("record-handoff");
    let [program, file] = ["turns", "r.json"].map(|name| place.path(name));
    compile(TURNS, Path::new(program), &[]);
    let words = [program, "64", "400"];
    let recorded = run(&[&["record", "-o", file, "--sem", "handoff", "--"], &words[..]].concat());
    assert_eq!((code(&recorded), stdout(&recorded).as_str()), (Some(0), "25600\n"));
    let report = json(&["explain", file, "--format", "json"], 0);
    let verdict = report["verdict"].as_str().expect("text");
    assert!(verdict.starts_with("Threads in body (turns.c:17) spent"), "{verdict}");
    assert!(verdict.contains("waiting for `turn`"), "{verdict}");
    assert!(verdict.contains("of the time that it was held: a lock convoy."), "{verdict}");
    let off = report["locks"][0]["owner_off_cpu_percent"].as_f64().expect("a number");
    assert!(off > 50.0, "{off} %: an owner that is being woken is on no CPU");

    let fixed = json(&["fix", file, "--rounds", "1", "--format", "json"], 0);
    let command = words.join(" ");
    // A machine that is busy with something else may have been another one for the record.
    if fixed["doubt"].is_null() {
        assert_eq!(fixed["rows"][0]["policy"], "sleep");
        assert!(fixed["rows"][0]["change_percent"].as_f64().expect("a number") > 20.0, "{fixed}");
    }
    // On a machine that is busy with something else the anchor leaves too much to be sure.
    if !fixed["command"].is_null() {
        assert_eq!(fixed["command"], command.as_str(), "{fixed}");
        let check = format!("convoy compare 'convoy with --sem handoff -- {command}' '{command}'");
        assert_eq!(fixed["check"], check.as_str());
        let advice = fixed["advice"].as_str().expect("text");
        assert!(advice.starts_with("`sleep` instead of `handoff` gives"), "{advice}");
    }
    let convoy = env!("CARGO_BIN_EXE_convoy");
    let words = [convoy, "with", "--sem", "handoff", "--", program, "64", "1000"];
    let (handoff, libc) = (fastest(&words), fastest(&words[5..]));
    assert!(handoff > libc.mul_f64(1.2), "{handoff:?} beside {libc:?}");
}

#[test]
fn the_exit_code_is_that_of_the_program_and_the_store_keeps_the_record() {
    let place = directory("record-codes");
    let store = place.join("runs.sqlite3");
    let record = |words: &[&str]| {
        let mut command = convoy(&["record", "--tag", "mine", "--"]);
        command.args(words).env("CONVOY_STORE", &store).output().expect("it starts")
    };
    assert_eq!(code(&record(&["sh", "-c", "exit 7"])), Some(7));
    let killed = record(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&killed), Some(137));
    let explained = convoy(&["explain", "@mine"]).env("CONVOY_STORE", &store).output();
    let explained = explained.expect("it starts");
    assert!(stdout(&explained).contains("killed by signal 9"), "{explained:?}");
    let with = |words: &[&str]| convoy(words).output().expect("it starts");
    assert_eq!(code(&with(&["with", "--mutex", "spin", "--", "sh", "-c", "exit 5"])), Some(5));
    let nothing = with(&["with", "--", "true"]);
    assert_eq!(code(&nothing), Some(2));
    assert!(stderr(&nothing).contains("--mutex POLICY"), "{nothing:?}");
    let missing = record(&["./no-such-program"]);
    assert_eq!(code(&missing), Some(127));
    assert!(stderr(&missing).contains("cannot start `./no-such-program`"), "{missing:?}");
}

#[test]
fn the_bound_of_fair_mutexes_is_a_choice_that_the_record_keeps() {
    let place = directory("record-bound");
    let file = place.join("r.json");
    let words = ["record", "--kernel", "off", "--mutex", "fair:2.5ms", "-o"];
    let output = convoy(&words).arg(&file).args(["--", "true"]).output().expect("it starts");
    assert_eq!(read(&file)["program"]["mutex"], "fair:2.5ms", "{output:?}");
    for bound in ["fair:", "fair:0ms", "fair:2", "fair:1s", "spin:1ms"] {
        let output = convoy(&["with", "--mutex", bound, "--", "true"]).output();
        assert_eq!(code(&output.expect("it starts")), Some(2), "{bound}");
    }
}

#[test]
fn what_perf_printed_is_explained_and_not_replayed() {
    let file = "../record/tests/imports/perf-lock.txt";
    let report = json(&["explain", file, "--format", "json"], 0);
    let verdict = report["verdict"].as_str().expect("text");
    assert!(verdict.starts_with("Threads in __x64_sys_rename"), "{verdict}");
    assert_eq!(report["title"], format!("{file}: perf lock contention"));
    for command in ["predict", "fix"] {
        let refused = ends(&[command, file], 2);
        assert!(stderr(&refused).contains("record the program with convoy record"), "{refused:?}");
    }
    let place = directory("record-perf");
    let data = place.write("perf.data", b"PERFILE2\xff");
    let refused = ends(&["explain", data], 2);
    assert!(stderr(&refused).contains("perf script -i"), "{refused:?}");
}

/// A user without the rights to record kernel events is told which rights are needed, or refused
/// before anything starts.
#[test]
fn whoever_may_not_ask_the_kernel_is_told_what_it_takes() {
    const NOBODY: u32 = 65_534;
    let place = directory("record-kernel");
    let off = ["record", "--kernel", "off", "-o"];
    let file = place.path("off.json");
    ends(&[&off[..], &[file, "--", "true"]].concat(), 0);
    let text = std::fs::read_to_string(file).expect("it was written");
    assert!(!text.contains("scheduling") && !text.contains("bpf"), "{text}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&*place, open).expect("it is ours");
    let as_nobody = |kernel: &str, words: &[&str]| {
        let mut command =
            convoy(&["record", "--kernel", kernel, "-o", place.path("nobody.json"), "--"]);
        command.args(words).env("XDG_CACHE_HOME", &*place).current_dir("/");
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY).output()
    };
    // The tree may be in a directory that other users cannot enter.
    let Ok(auto) = as_nobody("auto", &["true"]) else { return };
    assert_eq!(code(&auto), Some(0), "{auto:?}");
    assert!(stderr(&auto).contains("Kernel events were not recorded"), "{auto:?}");
    let mark = place.path("started");
    let on = as_nobody("on", &["touch", mark]).expect("as before");
    assert_eq!(code(&on), Some(3), "{on:?}");
    // Or the kernel has none of this.
    let cures = ["run as root or with CAP_BPF", "Linux 5.19 or later"];
    assert!(cures.iter().any(|cure| stderr(&on).contains(cure)), "{on:?}");
    assert!(!Path::new(mark).exists(), "nothing was started");
}

#[test]
fn the_cost_of_wakeups_is_measured_once_after_each_start_of_the_machine() {
    let place = directory("record-prices");
    let [program, file, prices, store] =
        ["program", "r.json", "prices.json", "runs.sqlite3"].map(|name| place.path(name));
    compile(SOURCE, Path::new(program), &[]);
    let recorded = || {
        ends(&["record", "--kernel", "off", "-o", file, "--store", store, "--", program], 0);
        read(Path::new(file))["program"]["prices_ns"].clone()
    };
    recorded();
    // Other prices stand for the measured ones, which a busy machine may lack.
    let kept = serde_json::json!({"price_ns.switch": [1.0, 2.0, 3.0]});
    let mut file_content = read(Path::new(prices));
    (file_content["prices"], file_content["failure"]) = (kept.clone(), serde_json::Value::Null);
    place.write("prices.json", file_content.to_string());
    assert_eq!(recorded(), kept);
    file_content["boot"] = "an earlier one".into();
    place.write("prices.json", file_content.to_string());
    assert_ne!(recorded(), kept);
    assert_ne!(read(Path::new(prices))["boot"], file_content["boot"]);
}
