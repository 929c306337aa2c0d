//! Exploring each state once depends only on the program, and misses no violation.

use convoy_checker::{Budget, Memory, Row, Subject, select};
use std::hint::black_box;

/// Locks of each family whose waiters store much on their stacks.
const LOCKS: [&str; 6] =
    ["mutex-spin-low-load", "quota", "glibc-semaphore", "quota-rwlock", "rwsem-spin", "adaptive"];

fn subjects(memory: Memory) -> Vec<Subject> {
    let subjects = select(&LOCKS).expect("locks of the list");
    subjects.into_iter().map(|subject| subject.under(memory)).collect()
}

fn rows(subjects: &[Subject], executions: u64) -> Vec<Row> {
    let budget = Budget { executions, ..Budget::default() };
    subjects.iter().flat_map(|subject| subject.check(budget)).collect()
}

#[test]
fn neither_the_heap_nor_the_thread_makes_a_difference() {
    let executed = || {
        // A search under c11 begins with one under sc, but takes longer.
        let sequential = rows(&subjects(Memory::Sc), 2000);
        [sequential, rows(&subjects(Memory::C11), 200)]
    };
    let first = executed();
    assert!(subjects(Memory::Sc).iter().all(Subject::remembers_states));
    for blocks in [3, 1000] {
        // Changes the addresses of the search's allocations.
        let kept: Vec<Vec<u8>> = (0..blocks).map(|block| vec![1; 16 + block * 37 % 4096]).collect();
        let again = std::thread::spawn(executed).join().expect("no panic");
        black_box(kept);
        assert_eq!(again, first);
    }
}

#[test]
fn every_order_and_every_state_lead_to_the_same_result() {
    let subjects = subjects(Memory::Sc);
    let remembered = rows(&subjects, 2000);
    let whole: Vec<_> = subjects.into_iter().map(Subject::in_every_order).collect();
    let whole = rows(&whole, 2000);
    let ended = |row: &&Row| row.exhaustive;
    // Remembering states needs fewer executions, so a search that finishes without it also finishes
    // with it.
    assert!(whole.iter().filter(ended).count() < remembered.iter().filter(ended).count());
    for (one, other) in remembered.iter().zip(&whole) {
        let name = (one.name, one.scenario);
        assert_eq!(name, (other.name, other.scenario));
        assert_eq!(one.violated, other.violated, "{name:?}");
        assert!(one.exhaustive >= other.exhaustive, "{name:?}");
        assert!(one.preemptions >= other.preemptions, "{name:?}");
    }
}
