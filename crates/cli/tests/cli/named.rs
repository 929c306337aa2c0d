//! Names of locks: `--lock` takes each of them as `explain` prints it.

use crate::skip::skip;
use crate::{code, convoy, directory, ends, json, run, stderr, stdout};
use std::collections::BTreeSet;
use std::process::Command;

/// Mutexes of the program, all of which threads wait for.
const LOCKS: usize = 7;

#[test]
fn every_printed_name_of_a_lock_is_accepted() {
    let place = directory("named");
    let program = place.join("names");
    let mut compiler = Command::new("c++");
    compiler.args(["-O1", "-g", "-pthread", "../record/tests/programs/names.cc", "-o"]);
    match compiler.arg(&program).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return skip(&format!("there is no compiler of C++: {error}"), true),
    }
    let (program, file) = (program.to_str().expect("UTF-8"), place.path("r.json"));
    let recorded = run(&["record", "-q", "--kernel", "off", "-o", file, "--", program]);
    assert_eq!((code(&recorded), stdout(&recorded).as_str()), (Some(0), "done\n"));
    let locks = &json(&["explain", file, "--all", "--format", "json"], 0)["locks"];
    let locks = locks.as_array().expect("locks").iter().filter(|one| one["kind"] == "mutex");
    let mut names: BTreeSet<String> =
        locks.map(|one| one["name"].as_str().expect("a name").to_owned()).collect();
    assert!(names.len() >= LOCKS, "{names:?}");
    // In a narrow terminal the middle of long names is left out.
    let narrow = convoy(&["explain", file, "--all"]).env("COLUMNS", "80").output().expect("starts");
    let narrow = stdout(&narrow);
    let short = |line: &str| {
        let cell = line.split("  ").find(|cell| cell.contains('…'))?.trim();
        let ends = cell.split_once('…')?;
        let is_it = |name: &&String| name.starts_with(ends.0) && name.ends_with(ends.1);
        (names.iter().filter(is_it).count() == 1).then(|| cell.to_owned())
    };
    let shortened: Vec<String> = narrow.lines().filter_map(short).collect();
    assert!(!shortened.is_empty(), "{narrow}");
    names.extend(shortened);
    for name in &names {
        let lock = format!("{name}=fair");
        let words = ["record", "-q", "--kernel", "off", "-o", file, "--lock", &lock, "--", program];
        ends(&words, 0);
        let record = json(&["explain", file, "--format", "json"], 0);
        let unseen = record["unseen"].to_string();
        assert!(!unseen.contains("No mutex was made"), "{name}: {unseen}");
    }
    let refused = ends(&["with", "--lock", "s…=fair", "--", program], 2);
    assert!(stderr(&refused).contains("is short for `"), "{refused:?}");
}
