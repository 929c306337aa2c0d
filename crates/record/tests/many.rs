//! Programs with few and with many locks under the recorder: every acquisition is counted.

#![cfg(target_arch = "x86_64")]

use convoy_record::{DIRECTORY, Process, launch, raw};
use std::path::Path;
use std::process::Command;

/// Records `many.c` with this number of mutexes and of rounds.
fn record(mutexes: u64, rounds: u64) -> Process {
    let name = format!("many-{mutexes}-{}", std::process::id());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(place.join("files")).expect("a directory for the files");
    let program = place.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/many.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-inline", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    let words = [mutexes, rounds].map(|word| word.to_string().into());
    let [one, two] = words;
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&[program.into(), one, two], &object);
    let output = command.env(DIRECTORY, place.join("files")).output().expect("it starts");
    assert_eq!(output.stdout, b"done\n", "{output:?}");
    let mut all = raw::read(&place.join("files")).expect("the files can be read");
    std::fs::remove_dir_all(&place).expect("it goes away");
    assert_eq!(all.len(), 1, "one process");
    all.remove(0)
}

/// Returns the number of acquisitions in a function, over all locks.
fn count(process: &Process, function: &str) -> u64 {
    let sites = process.locks.iter().flat_map(|lock| &lock.sites);
    sites.filter(|site| site.place.starts_with(function)).map(|site| site.count).sum()
}

#[test]
fn each_acquisition_of_few_or_many_locks_is_counted_at_its_place() {
    // The first keys, a table, and more than a table holds.
    for (mutexes, rounds) in [(1, 100), (3, 100), (6, 50), (300, 20), (1000, 5), (5000, 3)] {
        let process = record(mutexes, rounds);
        for function in ["first", "second"] {
            assert_eq!(count(&process, function), mutexes * rounds, "{mutexes} {function}");
        }
        assert_eq!(process.acquisitions_lost, 0, "{mutexes}");
        let waits = process.locks.iter().flat_map(|lock| &lock.sites);
        let waits: Vec<_> = waits.filter(|site| site.contended > 0).collect();
        let [wait] = &waits[..] else { panic!("{mutexes}: {waits:#?}") };
        assert!(wait.place.starts_with("main"), "{wait:#?}");
        assert!(wait.wait.total_s > 0.02 && wait.count >= wait.contended, "{wait:#?}");
    }
}
