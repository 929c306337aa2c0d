//! `convoy record` and the account of what it wrote.

use crate::{code, convoy, directory, json, run, stderr, stdout};
use std::process::Command;

const SOURCE: &str = "../record/tests/programs/convoy.c";

#[test]
fn a_program_is_recorded_and_explained() {
    let place = directory("record");
    let program = place.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread", SOURCE, "-o"]).arg(&program);
    assert!(cc.status().expect("a C compiler").success());
    let (program, file) = (program.to_str().expect("UTF-8"), place.join("r.json"));
    let file = file.to_str().expect("UTF-8");
    let output = run(&["record", "-o", file, "--", program]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "320\n"), "{output:?}");
    let messages = stderr(&output);
    let verdict = "convoy: 100 % of the time that threads waited for locks was for `cache_lock` in \
                   use_cache (convoy.c:10); its owner was off CPU for";
    assert!(messages.contains(verdict), "{messages}");
    assert!(messages.contains(&format!("convoy explain {file}")), "{messages}");

    let report = json(&["explain", file, "--format", "json"], 0);
    assert!(format!("convoy: {}", report["verdict"].as_str().expect("text")).contains(verdict));
    assert_eq!(report["locks"][0]["name"], "cache_lock");
    assert!(report["locks"][0]["owner_off_cpu_percent"].as_f64().expect("a number") > 80.0);
    let flame = place.join("f.svg");
    let text = run(&["explain", file, "--flame", flame.to_str().expect("UTF-8")]);
    assert!(stdout(&text).contains("The longest convoy at `cache_lock`"), "{text:?}");
    assert!(std::fs::read_to_string(flame).expect("a picture").contains("cache_lock (mutex)"));
    let refused = run(&["explain", file, "--kernel", "3.0"]);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    let words = ["predict", file, "--policy", "sleep,handoff", "--split", "8", "--rounds", "1"];
    let predicted = json(&[&words[..], &["--format", "json"]].concat(), 0);
    let text = predicted["verdict"].as_str().expect("text");
    assert!(text.starts_with("`cache_lock` in use_cache (convoy.c:10) limits"), "{text}");
    let [recorded, replayed] =
        [0, 1].map(|at| predicted["anchor"][at]["acquisitions_per_s"].as_f64().expect("a number"));
    assert!((0.7..1.4).contains(&(replayed / recorded)), "{predicted}");
    // The lock is all there is to wait for: split, more threads sleep at once.
    assert_eq!(predicted["rows"][2]["split"], 8);
    assert!(predicted["rows"][2]["low_percent"].as_f64().expect("a number") > 50.0, "{predicted}");
    std::fs::write(place.join("cut.json"), "{\"recorded\": 1,\n \"program\":").expect("written");
    let cut = place.join("cut.json");
    let cut = run(&["explain", cut.to_str().expect("UTF-8")]);
    assert_eq!(code(&cut), Some(2));
    assert!(stderr(&cut).contains("line 2"), "{cut:?}");
    std::fs::remove_dir_all(place).expect("it goes away");
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
    assert_eq!(code(&missing), Some(2));
    assert!(stderr(&missing).contains("cannot start `./no-such-program`"), "{missing:?}");
    std::fs::remove_dir_all(place).expect("it goes away");
}
