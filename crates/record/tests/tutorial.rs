//! The program of the tutorial under the recorder, on each kind of machine that records. `cargo
//! xtask aarch64` runs this test under qemu with a cross compiler as `$CC`.

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;

use convoy_record::{Kind, Process};
use place::Place;
use record::record;

/// Number of threads of the program, and of orders for each thread.
const THREADS: u64 = 12;
const ORDERS: u64 = 100;

/// Records the program of the tutorial with this number of journals.
fn recorded(journals: usize) -> Process {
    let place = Place::new();
    let source = "../../../../examples/slow-program/orders.c";
    let program = place.compile(source, &[&format!("-DJOURNALS={journals}")]);
    let (output, mut processes) = record(&place, &[&program], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1200 orders\n", "{output:?}");
    assert_eq!(processes.len(), 1, "{processes:#?}");
    processes.remove(0)
}

#[test]
fn the_lock_that_the_tutorial_finds_is_recorded_with_its_place() {
    let process = recorded(1);
    assert!(process.ended && process.acquisitions_lost == 0, "{process:#?}");
    let lock = process.locks.iter().find(|lock| lock.name == "journals");
    let lock = lock.unwrap_or_else(|| panic!("{process:#?}"));
    assert_eq!((lock.kind, lock.count()), (Kind::Mutex, THREADS * ORDERS), "{lock:#?}");
    let [site] = &lock.sites[..] else { panic!("{lock:#?}") };
    assert!(site.place.starts_with("note (orders.c:"), "{site:#?}");
    assert!(site.threads == THREADS && lock.contended() > 0, "{lock:#?}");
}

#[test]
fn the_locks_of_an_array_are_one_lock_with_elements() {
    const JOURNALS: usize = 6;
    let process = recorded(JOURNALS);
    let locks: Vec<_> =
        process.locks.iter().filter(|lock| lock.name.starts_with("journals")).collect();
    let [lock] = &locks[..] else { panic!("{locks:#?}") };
    assert_eq!((lock.name.as_str(), lock.instances), ("journals", JOURNALS as u64));
    assert_eq!(lock.count(), THREADS * ORDERS);
    let mut names: Vec<&str> = lock.elements.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    // A journal is a mutex of 40 bytes and a number of eight.
    let expected = (1..JOURNALS).map(|number| format!("journals+{:#x}", number * 48));
    let mut expected: Vec<String> = expected.collect();
    expected.insert(0, "journals".to_owned());
    expected.sort_unstable();
    assert_eq!(names, expected);
    let wait_s: f64 = lock.elements.iter().map(|one| one.wait_s).sum();
    assert!((wait_s - lock.wait_s()).abs() < 1e-9 && wait_s > 0.0, "{lock:#?}");
}
