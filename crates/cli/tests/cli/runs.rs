//! `convoy runs`, and what happens to a result that cannot be stored.

use crate::{code, convoy, directory, run, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ENVIRONMENT: i32 = 3;

/// A comparison that takes no time, kept in `store`, run in `place`.
fn compare(store: &Path, place: &Path) -> Output {
    let args = ["compare", "--metric-regex", r"\d+", "-w", "0", "-r", "2", "echo 1", "echo 1"];
    convoy(&args).env("CONVOY_STORE", store).current_dir(place).output().expect("starts")
}

fn runs(store: &Path, args: &[&str]) -> Output {
    convoy(&[&["runs"], args].concat()).env("CONVOY_STORE", store).output().expect("starts")
}

/// The record that was written to a file because the store was unusable.
fn beside(place: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(place).expect("readable").flatten().map(|entry| entry.path());
    files.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("convoy-compare-") && name.ends_with(".json")
    })
}

#[test]
fn runs_are_listed_shown_tagged_exported_and_pruned() {
    let place = directory("runs");
    let store = place.join("store/runs.sqlite3");
    assert_eq!(stdout(&runs(&store, &["list"])), "no stored runs\n");
    for _ in 0..3 {
        let output = compare(&store, &place);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
    assert_eq!(code(&runs(&store, &["tag", "2", "before", "v1.0"])), Some(0));
    let list = stdout(&runs(&store, &["list"]));
    assert_eq!(list.lines().filter(|line| line.contains("compare")).count(), 3, "{list}");
    assert!(list.contains("before v1.0") && list.contains("echo 1"), "{list}");
    let shown = stdout(&runs(&store, &["show", "before"]));
    assert!(
        shown.contains("run 2") && shown.contains("seed ") && shown.contains("Verdict"),
        "{shown}"
    );
    let exported = runs(&store, &["export", "--tag", "before"]);
    let json: serde_json::Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    assert_eq!((&json[0]["id"], &json[0]["entry"]["kind"]), (&2.into(), &"compare".into()));
    assert_eq!(
        json[0]["entry"]["body"]["sides"][1]["series"][0]["values"],
        serde_json::json!([1.0, 1.0])
    );
    let csv = stdout(&runs(&store, &["export", "--format", "csv"]));
    assert_eq!(csv.lines().count(), 4, "{csv}");
    // Stored sides are compared like any others.
    let again = ["compare", "--quiet", "--format", "json", "@2#echo", "@before#echo 1 #2"];
    let output = convoy(&again).env("CONVOY_STORE", &store).output().expect("starts");
    assert!(stderr(&output).contains("has the sides echo 1 #1, echo 1 #2"), "{}", stderr(&output));

    assert_eq!(code(&runs(&store, &["prune"])), Some(2), "everything is no default");
    let dry = stdout(&runs(&store, &["prune", "--keep", "1", "--dry-run"]));
    assert!(dry.contains("1 runs would be removed"), "{dry}");
    let pruned = stdout(&runs(&store, &["prune", "--older-than", "0"]));
    assert!(pruned.contains("2 runs removed"), "the tagged one stays: {pruned}");
    let list = stdout(&runs(&store, &["list", "--format", "csv"]));
    assert!(list.lines().count() == 2 && list.contains("before"), "{list}");
    assert_eq!(code(&runs(&store, &["show", "1"])), Some(2));
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn a_store_that_cannot_be_used_costs_no_result() {
    let place = directory("unusable");
    let newer = place.join("newer.sqlite3");
    compare(&newer, &place);
    let connection = rusqlite::Connection::open(&newer).expect("opens");
    connection.pragma_update(None, "user_version", 99).expect("set");
    drop(connection);
    let before = std::fs::read(&newer).expect("readable");
    let text = place.join("text");
    std::fs::write(&text, "no database\n".repeat(20)).expect("written");
    for (store, words) in [
        (newer.as_path(), "schema 99"),
        (text.as_path(), "not a store of convoy"),
        (Path::new("/proc/none/runs.sqlite3"), "/proc/none"),
    ] {
        let output = compare(store, &place);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("Verdict"), "{}", stdout(&output));
        let warning = stderr(&output);
        assert!(warning.contains("convoy: warning:") && warning.contains(words), "{warning}");
        assert!(warning.contains("--store"), "names the cure: {warning}");
        let record = beside(&place).expect("the record is beside");
        let json = std::fs::read_to_string(&record).expect("readable");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["kind"], "compare");
        std::fs::remove_file(record).expect("removed");
    }
    assert_eq!(std::fs::read(&newer).expect("readable"), before, "untouched");
    let output = runs(&newer, &["list"]);
    assert_eq!(code(&output), Some(ENVIRONMENT));
    assert!(stderr(&output).contains("newer convoy"), "{}", stderr(&output));
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn a_full_disk_costs_neither_result_nor_record() {
    let place = directory("full-disk");
    let store = place.join("runs.sqlite3");
    compare(&store, &place);
    // No file may grow any more: the same as a full disk, for one process.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_convoy"));
    command.args(["compare", "--metric-regex", r"\d+", "-w", "0", "-r", "2", "echo 1", "echo 1"]);
    command.env("CONVOY_STORE", &store).current_dir(&place);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().expect("starts");
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("Verdict"));
    let warning = stderr(&output);
    assert!(warning.contains("warning") && warning.contains("free space"), "{warning}");
    // There is no room for a file either, so the record itself is in the warning.
    let line = warning.lines().find_map(|line| line.split_once("the record: "));
    let record: serde_json::Value = serde_json::from_str(line.expect("a record").1).expect("JSON");
    assert_eq!(record["kind"], "compare");
    let list = stdout(&runs(&store, &["list", "--format", "csv"]));
    assert_eq!(list.lines().count(), 2, "the first record is still there: {list}");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn a_run_of_locks_is_kept_and_shown_as_it_was_printed() {
    let place = directory("native");
    let store = place.join("runs.sqlite3");
    let args = ["locks", "--lock", "handoff,opportunistic", "--rounds", "2"];
    let times = ["--warmup-ms", "1", "--window-ms", "5"];
    let printed = convoy(&[args.as_slice(), &times].concat());
    let printed = { printed }.env("CONVOY_STORE", &store).output().expect("starts");
    assert_eq!(code(&printed), Some(0), "{}", stderr(&printed));
    let table = stdout(&printed);
    assert!(table.contains("opportunistic"), "{table}");
    let shown = stdout(&runs(&store, &["show", "1"]));
    assert!(shown.contains("convoy locks") && shown.ends_with(&table), "{shown}\n{table}");
    let csv = stdout(&runs(&store, &["show", "1", "--format", "csv"]));
    assert_eq!(csv.lines().count(), 1 + 2, "one line for each lock: {csv}");
    let exported = runs(&store, &["export", "--kind", "locks"]);
    let json: serde_json::Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    let cells = &json[0]["entry"]["body"]["grids"][0]["cells"];
    assert_eq!(cells.as_array().map(Vec::len), Some(4), "{json}");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn every_kind_of_run_is_kept_and_compared_by_its_tag() {
    let place = directory("kinds");
    let store = place.join("runs.sqlite3");
    let kept = |args: &[&str]| {
        let output = convoy(args).env("CONVOY_STORE", &store).output().expect("starts");
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("stored as run"), "{args:?}: {}", stderr(&output));
    };
    kept(&["sim", "--kernel", "2.6.25", "--users", "2", "--shrink", "50", "--tag", "before"]);
    kept(&["sim", "--kernel", "2.6.26-rc1", "--users", "2", "--shrink", "50", "--tag", "after"]);
    kept(&["run", "--users", "1", "--shrink", "1000000", "--tag", "here"]);
    kept(&["reproduce", "--scale", "200", "--seeds", "2", "--only", "table", "--tag", "paper"]);
    let args = ["compare", "--quiet", "--format", "json", "@before", "@after"];
    let output = convoy(&args).env("CONVOY_STORE", &store).output().expect("starts");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["rows"][0]["users"], 2, "{report}");
    let list = stdout(&runs(&store, &["list"]));
    assert_eq!(list.matches("jobs/min").count(), 3, "{list}");
    let list = stdout(&runs(&store, &["list", "--kind", "sim"]));
    assert_eq!(list.matches("jobs/min").count(), 2, "{list}");
    let list = stdout(&runs(&store, &["list", "--kind", "reproduce"]));
    assert!(list.contains("semaphore"), "{list}");
    // One record that cannot be read hides no other.
    let connection = rusqlite::Connection::open(&store).expect("opens");
    connection.execute("UPDATE run SET entry = '{' WHERE id = 2", []).expect("damaged");
    let output = runs(&store, &["list"]);
    assert_eq!(code(&output), Some(0));
    assert!(stderr(&output).contains("run 2 cannot be read"), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("jobs/min").count(), 2, "{}", stdout(&output));
    assert_eq!(code(&runs(&store, &["prune", "--tagged", "--id", "2"])), Some(0));
    assert_eq!(stderr(&runs(&store, &["list"])), "");
    let shown = stdout(&runs(&store, &["show", "paper"]));
    assert!(shown.contains("published"), "{shown}");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn no_store_keeps_nothing() {
    let place = directory("no-store");
    let store = place.join("runs.sqlite3");
    let args = ["compare", "--no-store", "-w", "0", "-r", "1", "true", "true"];
    let output = convoy(&args).env("CONVOY_STORE", &store).output().expect("starts");
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(!store.exists());
    assert_eq!(code(&run(&["compare", "--no-store", "--tag", "x", "true", "true"])), Some(2));
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn records_are_listed_with_their_result() {
    let place = directory("records");
    let store = place.join("runs.sqlite3");
    let store = store.to_str().expect("UTF-8");
    let program = crate::outputs::compile_orders(&place);
    let record = ["record", "--quiet", "--kernel", "off", "--store", store, "--"];
    assert_eq!(code(&run(&[&record[..], &[&program]].concat())), Some(0));
    assert_eq!(code(&run(&[&record[..], &["true"]].concat())), Some(0));
    let list = ["runs", "--kind", "record", "--store", store];
    let list = stdout(&run(&[&list[..], &["--format", "csv"]].concat()));
    let rows: Vec<&str> = list.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{list}");
    assert!(rows[0].contains("waits ") && rows[0].contains(" %: journals"), "{list}");
    assert!(rows[1].contains("no lock limits it"), "{list}");
}

#[test]
fn commands_without_a_name_take_the_last_record() {
    let place = directory("last");
    let store = place.join("runs.sqlite3");
    let of = |args: &[&str]| {
        let output = convoy(args).env("CONVOY_STORE", &store).current_dir(&place).output();
        output.expect("starts")
    };
    let none = of(&["explain"]);
    assert_eq!(code(&none), Some(2), "{none:?}");
    assert!(stderr(&none).contains("`convoy record -- CMD` makes one"), "{none:?}");
    for program in ["true", "echo"] {
        assert_eq!(code(&of(&["record", "--kernel", "off", "--", program])), Some(0));
    }
    // A later run that is no record.
    assert_eq!(code(&compare(&store, &place)), Some(0));
    for command in ["explain", "predict", "fix"] {
        let [last, named] = [of(&[command]), of(&[command, "2"])];
        assert_eq!(stdout(&last), stdout(&named), "{command}: {}", stderr(&last));
        assert_eq!(stderr(&last), stderr(&named).replace("2: ", "@last: "), "{command}");
    }
    assert!(stdout(&of(&["explain"])).contains("echo"));
    assert_eq!(code(&of(&["report", "--quiet"])), Some(0));
    let page = std::fs::read_to_string(place.join("report.html")).expect("a page");
    assert!(page.contains("convoy report 2") && !page.contains("@last"));
    let tag = of(&["runs", "tag", "1", "last"]);
    assert_eq!(code(&tag), Some(2), "{tag:?}");
    std::fs::remove_dir_all(place).expect("removed");
}
