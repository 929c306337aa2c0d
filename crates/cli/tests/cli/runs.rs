//! `convoy runs`, and what happens to a result that cannot be stored.

use crate::{convoy, directory, ends, finish, run, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A comparison that takes no time, kept in `store`, run in `place`.
fn compare(store: &Path, place: &Path) -> Output {
    let args = ["compare", "--metric-regex", r"\d+", "-w", "0", "-r", "2", "echo 1", "echo 1"];
    finish(convoy(&args).env("CONVOY_STORE", store).current_dir(place), 0)
}

fn runs(store: &Path, args: &[&str], expected: i32) -> Output {
    finish(convoy(&[&["runs"], args].concat()).env("CONVOY_STORE", store), expected)
}

/// What a command that ends well prints.
fn printed(store: &Path, args: &[&str]) -> String {
    stdout(&runs(store, args, 0))
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
    assert_eq!(printed(&store, &["list"]), "no stored runs\n");
    for _ in 0..3 {
        compare(&store, &place);
    }
    runs(&store, &["tag", "2", "before", "v1.0"], 0);
    let list = printed(&store, &["list"]);
    assert_eq!(list.lines().filter(|line| line.contains("compare")).count(), 3, "{list}");
    assert!(list.contains("before v1.0") && list.contains("echo 1"), "{list}");
    let shown = printed(&store, &["show", "before"]);
    assert!(
        shown.contains("run 2") && shown.contains("seed ") && shown.contains("Verdict"),
        "{shown}"
    );
    let exported = runs(&store, &["export", "--tag", "before"], 0);
    let json: serde_json::Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    assert_eq!((&json[0]["id"], &json[0]["entry"]["kind"]), (&2.into(), &"compare".into()));
    assert_eq!(
        json[0]["entry"]["body"]["sides"][1]["series"][0]["values"],
        serde_json::json!([1.0, 1.0])
    );
    let csv = printed(&store, &["export", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 4, "{csv}");
    // Stored sides are compared like any others.
    let again = ["compare", "--quiet", "--format", "json", "@2#echo", "@before#echo 1 #2"];
    let output = convoy(&again).env("CONVOY_STORE", &store).output().expect("starts");
    assert!(stderr(&output).contains("has the sides echo 1 #1, echo 1 #2"), "{}", stderr(&output));

    // Everything is no default.
    runs(&store, &["prune"], 2);
    let dry = printed(&store, &["prune", "--keep", "1", "--dry-run"]);
    assert!(dry.contains("1 runs would be removed"), "{dry}");
    let pruned = printed(&store, &["prune", "--older-than", "0"]);
    assert!(pruned.contains("2 runs removed"), "the tagged one stays: {pruned}");
    let list = printed(&store, &["list", "--format", "csv"]);
    assert!(list.lines().count() == 2 && list.contains("before"), "{list}");
    runs(&store, &["show", "1"], 2);
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
    let text = place.write("text", "no database\n".repeat(20));
    for (store, words) in [
        (newer.as_path(), "schema 99"),
        (Path::new(text), "not a store of convoy"),
        (Path::new("/proc/none/runs.sqlite3"), "/proc/none"),
    ] {
        let output = compare(store, &place);
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
    let output = runs(&newer, &["list"], 3);
    assert!(stderr(&output).contains("newer convoy"), "{}", stderr(&output));
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
    command.env("CONVOY_STORE", &store).current_dir(&*place);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(&mut command, 0);
    assert!(stdout(&output).contains("Verdict"));
    let warning = stderr(&output);
    assert!(warning.contains("warning") && warning.contains("free space"), "{warning}");
    // There is no room for a file either, so the record itself is in the warning.
    let line = warning.lines().find_map(|line| line.split_once("the record: "));
    let record: serde_json::Value = serde_json::from_str(line.expect("a record").1).expect("JSON");
    assert_eq!(record["kind"], "compare");
    let list = printed(&store, &["list", "--format", "csv"]);
    assert_eq!(list.lines().count(), 2, "the first record is still there: {list}");
}

#[test]
fn a_run_of_locks_is_kept_and_shown_as_it_was_printed() {
    let place = directory("native");
    let store = place.join("runs.sqlite3");
    let args = ["locks", "--lock", "handoff,opportunistic", "--rounds", "2"];
    let times = ["--warmup-ms", "1", "--window-ms", "5"];
    let mut command = convoy(&[args.as_slice(), &times].concat());
    let table = stdout(&finish(command.env("CONVOY_STORE", &store), 0));
    assert!(table.contains("opportunistic"), "{table}");
    let shown = printed(&store, &["show", "1"]);
    assert!(shown.contains("convoy locks") && shown.ends_with(&table), "{shown}\n{table}");
    let csv = printed(&store, &["show", "1", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 2, "one line for each lock: {csv}");
    let exported = runs(&store, &["export", "--kind", "locks"], 0);
    let json: serde_json::Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    let cells = &json[0]["entry"]["body"]["grids"][0]["cells"];
    assert_eq!(cells.as_array().map(Vec::len), Some(4), "{json}");
}

#[test]
fn every_kind_of_run_is_kept_and_compared_by_its_tag() {
    let place = directory("kinds");
    let store = place.join("runs.sqlite3");
    let kept = |args: &[&str]| {
        let output = finish(convoy(args).env("CONVOY_STORE", &store), 0);
        assert!(stderr(&output).contains("stored as run"), "{args:?}: {}", stderr(&output));
    };
    kept(&["sim", "--kernel", "2.6.25", "--users", "2", "--shrink", "50", "--tag", "before"]);
    kept(&["sim", "--kernel", "2.6.26-rc1", "--users", "2", "--shrink", "50", "--tag", "after"]);
    kept(&["run", "--users", "1", "--shrink", "1000000", "--tag", "here"]);
    kept(&["reproduce", "--scale", "200", "--seeds", "2", "--only", "table", "--tag", "paper"]);
    let args = ["compare", "--quiet", "--format", "json", "@before", "@after"];
    let output = finish(convoy(&args).env("CONVOY_STORE", &store), 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["rows"][0]["users"], 2, "{report}");
    let list = printed(&store, &["list"]);
    assert_eq!(list.matches("jobs/min").count(), 3, "{list}");
    let list = printed(&store, &["list", "--kind", "sim"]);
    assert_eq!(list.matches("jobs/min").count(), 2, "{list}");
    let list = printed(&store, &["list", "--kind", "reproduce"]);
    assert!(list.contains("semaphore"), "{list}");
    // One record that cannot be read hides no other.
    let connection = rusqlite::Connection::open(&store).expect("opens");
    connection.execute("UPDATE run SET entry = '{' WHERE id = 2", []).expect("damaged");
    let output = runs(&store, &["list"], 0);
    for words in ["run 2 cannot be read", "prune --tagged --id 2"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(stdout(&output).matches("jobs/min").count(), 2, "{}", stdout(&output));
    runs(&store, &["prune", "--tagged", "--id", "2"], 0);
    assert_eq!(stderr(&runs(&store, &["list"], 0)), "");
    let shown = printed(&store, &["show", "paper"]);
    assert!(shown.contains("published"), "{shown}");
}

#[test]
fn no_store_keeps_nothing() {
    let place = directory("no-store");
    let store = place.join("runs.sqlite3");
    let args = ["compare", "--no-store", "-w", "0", "-r", "1", "true", "true"];
    finish(convoy(&args).env("CONVOY_STORE", &store), 0);
    assert!(!store.exists());
    ends(&["compare", "--no-store", "--tag", "x", "true", "true"], 2);
}

#[test]
fn records_are_listed_with_their_result() {
    let place = directory("records");
    let store = place.path("runs.sqlite3");
    let program = crate::outputs::compile_orders(&place);
    let record = ["record", "--quiet", "--kernel", "off", "--store", store, "--"];
    ends(&[&record[..], &[&program]].concat(), 0);
    ends(&[&record[..], &["true"]].concat(), 0);
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
    let of = |args: &[&str], expected| {
        finish(convoy(args).env("CONVOY_STORE", &store).current_dir(&*place), expected)
    };
    let none = of(&["explain"], 2);
    assert!(stderr(&none).contains("`convoy record -- CMD` makes one"), "{none:?}");
    for program in ["true", "echo"] {
        of(&["record", "--kernel", "off", "--", program], 0);
    }
    // A later run that is no record.
    compare(&store, &place);
    for command in ["explain", "predict", "fix"] {
        let [last, named] = [of(&[command], 0), of(&[command, "2"], 0)];
        assert_eq!(stdout(&last), stdout(&named), "{command}: {}", stderr(&last));
        assert_eq!(stderr(&last), stderr(&named).replace("2: ", "@last: "), "{command}");
    }
    assert!(stdout(&of(&["explain"], 0)).contains("echo"));
    of(&["report", "--quiet"], 0);
    let page = std::fs::read_to_string(place.join("report.html")).expect("a page");
    assert!(page.contains("convoy report 2") && !page.contains("@last"));
    of(&["runs", "tag", "1", "last"], 2);
}
