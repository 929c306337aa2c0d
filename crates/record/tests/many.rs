//! Programs with few and with many locks under the recorder: every acquisition is counted.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;

use convoy_record::Process;
use place::Place;
use record::record;

/// Returns the number of acquisitions in a function, over all locks.
fn count(process: &Process, function: &str) -> u64 {
    let sites = process.locks.iter().flat_map(|lock| &lock.sites);
    sites.filter(|site| site.place.starts_with(function)).map(|site| site.count).sum()
}

#[test]
fn each_acquisition_of_few_or_many_locks_is_counted_at_its_place() {
    let place = Place::new();
    let program = place.compile("many.c", &["-fno-inline"]);
    // The first keys, a table, and more than a table holds.
    for (mutexes, rounds) in [(1, 100), (3, 100), (6, 50), (300, 20), (1000, 5), (5000, 3)] {
        let words = [mutexes, rounds].map(|number| number.to_string());
        let (output, processes) = record(&place, &[&program, &words[0], &words[1]], &[]);
        assert_eq!(output.stdout, b"done\n", "{output:?}");
        let [process] = &processes[..] else { panic!("{processes:#?}") };
        for function in ["first", "second"] {
            assert_eq!(count(process, function), mutexes * rounds, "{mutexes} {function}");
        }
        assert_eq!(process.acquisitions_lost, 0, "{mutexes}");
        let waits = process.locks.iter().flat_map(|lock| &lock.sites);
        let waits: Vec<_> = waits.filter(|site| site.contended > 0).collect();
        let [wait] = &waits[..] else { panic!("{mutexes}: {waits:#?}") };
        assert!(wait.place.starts_with("main"), "{wait:#?}");
        assert!(wait.wait.total_s > 0.02 && wait.count >= wait.contended, "{wait:#?}");
    }
}
