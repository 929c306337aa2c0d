//! Pictures of recorded programs: no exclusive lock has two holders at one time, in any record that
//! the tests keep and in records of programs that run here.

use convoy_explain::{Act, Lanes, Named};
use convoy_record::{Kind, Record};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Processes and names of the locks that have one owner.
fn exclusive(record: &Record) -> BTreeSet<(u64, String)> {
    let mut names = BTreeSet::new();
    for process in &record.processes {
        let locks = process.locks.iter().filter(|lock| {
            [Kind::Mutex, Kind::Spinlock].contains(&lock.kind) && lock.instances == 1
        });
        names.extend(locks.map(|lock| (process.pid, lock.name.clone())));
        // The elements of an array.
        let places = process.trace.places.iter();
        names.extend(places.filter_map(|place| {
            let lock = process.locks.get(place.lock as usize)?;
            let is_exclusive = [Kind::Mutex, Kind::Spinlock].contains(&lock.kind);
            let name = match place.element.as_str() {
                "" => lock.name.clone(),
                element => element.to_owned(),
            };
            (is_exclusive && lock.instances > 1).then_some((process.pid, name))
        }));
    }
    names
}

/// Checks that intervals, each with its beginning, its end and its owner, do not overlap.
fn apart(what: &str, mut holds: Vec<[u64; 3]>) {
    holds.sort_unstable();
    for two in holds.windows(2) {
        assert!(two[0][1] <= two[1][0], "{what} has two holders: {two:?}");
    }
}

/// Checks the acts, and the profile that is made of them. Returns the number of critical sections.
fn check(record: &Record, lanes: &Lanes) -> usize {
    let exclusive = exclusive(record);
    let mut holds: BTreeMap<(u64, String), Vec<[u64; 3]>> = BTreeMap::new();
    for lane in &lanes.threads {
        let sections = lane.spans.iter().filter(|span| [Act::Holds, Act::Off].contains(&span.act));
        for span in sections {
            let name = lanes.tags[span.tag.expect("a lock")].name().to_owned();
            let intervals = holds.entry((lane.pid, name)).or_default();
            intervals.push([span.begin_ns, span.end_ns(), lane.thread]);
        }
    }
    holds.retain(|lock, _| exclusive.contains(lock));
    let count = holds.values().map(Vec::len).sum();
    for ((_, lock), intervals) in holds {
        apart(&lock, intervals);
    }
    let profile = serde_json::to_value(lanes.firefox(&Named::default())).expect("JSON");
    check_profile(&profile, &exclusive);
    count
}

/// Checks the samples of a profile: a stack extends to the next sample.
fn check_profile(profile: &Value, exclusive: &BTreeSet<(u64, String)>) {
    fn number(value: &Value) -> usize {
        value.as_u64().expect("a number") as usize
    }
    let mut holds: BTreeMap<(u64, String), Vec<[u64; 3]>> = BTreeMap::new();
    for thread in profile["threads"].as_array().expect("threads") {
        let pid = thread["pid"].as_str().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let samples = &thread["samples"];
        let deltas = samples["timeDeltas"].as_array().expect("times").iter();
        let mut now = 0.0;
        let times = deltas.map(|delta| {
            now += delta.as_f64().expect("a time");
            (now * 1e6).round() as u64
        });
        let times: Vec<u64> = times.collect();
        let stacks = samples["stack"].as_array().expect("stacks");
        assert!(stacks.last().is_none_or(Value::is_null), "no act extends to the end of the run");
        for (at, mut stack) in stacks.iter().enumerate().filter(|(_, stack)| !stack.is_null()) {
            let mut words = Vec::new();
            while !stack.is_null() {
                let frame = number(&thread["stackTable"]["frame"][number(stack)]);
                let func = number(&thread["frameTable"]["func"][frame]);
                let text = number(&thread["funcTable"]["name"][func]);
                words.push(thread["stringArray"][text].as_str().expect("a text"));
                stack = &thread["stackTable"]["prefix"][number(stack)];
            }
            let is_hold =
                [Act::Holds, Act::Off].map(Act::name).contains(words.last().expect("act"));
            let lock = (pid, words.iter().rev().nth(1).map_or("", |lock| lock).to_owned());
            if is_hold && exclusive.contains(&lock) {
                let tid = thread["tid"].as_str().and_then(|tid| tid.parse().ok()).unwrap_or(0);
                holds.entry(lock).or_default().push([times[at], times[at + 1], tid]);
            }
        }
    }
    for ((_, lock), intervals) in holds {
        apart(&lock, intervals);
    }
}

#[test]
fn no_kept_record_shows_two_holders_of_one_lock() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("fuzz/corpus/program")).expect("records") {
        let path = entry.expect("a record").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let record = Record::parse(&text, &path).expect("a record");
        let mut lanes = Lanes::new(&record);
        check(&record, &lanes);
        lanes.thin(lanes.spans() / 2);
        check(&record, &lanes);
        count += 1;
    }
    assert!(count > 3, "{count} records");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod recorded {
    use super::{Path, Record, check};
    use convoy_explain::Lanes;
    use convoy_record::{DIRECTORY, launch, raw};
    use std::process::Command;

    fn record(source: &str, flags: &[&str]) -> Record {
        let number = std::process::id();
        let name = source.rsplit('/').next().expect("a file");
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}"));
        std::fs::create_dir_all(place.join("files")).expect("a directory for the files");
        let program = place.join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source);
        assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
        let object = launch::object().expect("the object can be written");
        let mut command = launch::command(&[program.into()], &object);
        let output = command.env(DIRECTORY, place.join("files")).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let processes = raw::read(&place.join("files")).expect("the files can be read");
        std::fs::remove_dir_all(&place).expect("it goes away");
        Record { processes, ..Record::default() }
    }

    #[test]
    fn no_recorded_program_shows_two_holders_of_one_lock() {
        for (source, flags) in [
            ("examples/slow-program/orders.c", &[][..]),
            ("examples/slow-program/orders.c", &["-DJOURNALS=6"]),
            ("crates/record/tests/programs/queue.c", &[]),
        ] {
            let record = record(source, flags);
            let mut lanes = Lanes::new(&record);
            assert!(check(&record, &lanes) > 10, "critical sections of {source}");
            lanes.thin(lanes.spans() / 2);
            check(&record, &lanes);
        }
    }
}
