//! Programs with computable throughput, recorded and predicted: alone, and while another program
//! uses a CPU. The interval of each record has to contain the law: other tests run at the same
//! time, so that no record is sure to be simulated. `crates/predict/tests/laws.rs` has records that
//! are.

use crate::{compile, directory, ends, json};
use std::path::Path;
use std::process::{Child, Command};

const SOURCE: &str = "../record/tests/programs/laws.c";
/// Threads of each program.
const THREADS: f64 = 16.0;
/// Longest time from the release of a lock to a waiter that slept, microseconds: a wakeup on a
/// guest of a hypervisor whose CPU was halted (`guest_ns` of machines/host.toml).
const HANDOVER_US: f64 = 60.0;
/// Below the number of threads, at it, and beyond it.
const CPUS: &str = "1,4,16,128";

/// A program that takes a CPU until this is dropped, in a separate session as a neighbour is.
struct Neighbour(Child);

impl Neighbour {
    fn new() -> Self {
        let mut sh = Command::new("setsid");
        // Not in a separate group: setsid(1) would fork, and the neighbour outlive this.
        sh.args(["sh", "-c", "while :; do :; done"]);
        Self(sh.spawn().expect("setsid(1)"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Number of CPUs, and least and greatest predicted throughput over the recorded one.
type Row = (f64, [f64; 2]);

/// Predicted throughput at each number of CPUs.
fn predicted(program: &Path, mode: &str) -> Vec<Row> {
    fn row(row: &serde_json::Value) -> (f64, [f64; 2]) {
        let of = |key: &str| row[key].as_f64().expect("a number");
        (of("cpus"), ["low_percent", "high_percent"].map(|key| 1.0 + of(key) / 100.0))
    }
    let file = program.with_extension(format!("{mode}.json"));
    let file = file.to_str().expect("UTF-8");
    let words = [program.to_str().expect("UTF-8"), mode, &THREADS.to_string(), "1"];
    ends(&[&["record", "-o", file, "--"], &words[..]].concat(), 0);
    let words = ["predict", file, "--policy", "sleep", "--format", "json", "--cpus", CPUS];
    let found = json(&[&words[..], &["--rounds", "2"]].concat(), 0);
    found["rows"].as_array().expect("rows").iter().map(row).collect()
}

/// A record of a second is a sample: if the prediction from one breaks a law, another one decides.
const RECORDS: usize = 2;

/// Records and predicts a program alone and with a neighbour; the record has to say what `law` says
/// of the least and the greatest throughput on a number of CPUs, within 10 %.
fn obeys(mode: &str, law: impl Fn(f64) -> [f64; 2]) {
    let place = directory(&format!("laws-{mode}"));
    let program = place.join("laws");
    compile(SOURCE, &program, &["-lm"]);
    let here = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let [least, most] = law(here);
    let is_lawful = |(cpus, [from, to]): &Row| {
        let [low, high] = law(*cpus);
        *to > 0.9 * low / most && *from < 1.1 * high / least
    };
    for beside in [false, true] {
        let _neighbour = beside.then(Neighbour::new);
        let beside = if beside { " beside another program" } else { "" };
        let mut broken = Vec::new();
        let is_kept = (0..RECORDS).any(|_| {
            let rows = predicted(&program, mode);
            let is_lawful = rows.iter().all(is_lawful);
            broken.push(rows);
            is_lawful
        });
        assert!(is_kept, "{mode}{beside}: {broken:?}");
    }
}

/// Threads that run at once.
fn used(cpus: f64) -> f64 {
    cpus.min(THREADS)
}

/// Cycles of `cycle_us`, of which `held_us` hold one lock that all need. Never more than the CPUs
/// and the lock allow; less by its way from CPU to CPU, and by owners that lose their CPU where
/// there are more threads than CPUs.
fn one_at_a_time(cycle_us: f64, held_us: f64) -> impl Fn(f64) -> [f64; 2] {
    move |cpus| {
        let most = (used(cpus) / cycle_us).min(1.0 / held_us);
        if cpus < 2.0 {
            return [0.95 * most, most];
        }
        let least = (used(cpus) / cycle_us).min(1.0 / (held_us + HANDOVER_US));
        [if cpus < THREADS { 0.7 * least } else { 0.9 * least }, most]
    }
}

#[test]
fn independent_threads_scale_to_their_number_or_that_of_the_cpus() {
    obeys("private", |cpus| [used(cpus); 2]);
    obeys("uneven", |cpus| [used(cpus); 2]);
}

#[test]
fn readers_scale_as_independent_threads_do() {
    obeys("readers", |cpus| [used(cpus); 2]);
}

#[test]
fn threads_that_sleep_do_not_need_more_cpus() {
    obeys("sleeps", |_| [1.0; 2]);
}

#[test]
fn a_lock_held_for_half_of_the_work_allows_twice_the_work_of_one() {
    obeys("shared", |cpus| if cpus < 2.0 { [1.0; 2] } else { [0.5, 2.0] });
}

#[test]
fn a_saturated_lock_allows_one_cycle_for_each_critical_section() {
    obeys("saturated", one_at_a_time(52.0, 50.0));
    // A sleep ends late by the slack of the timer and a wakeup.
    obeys("asleep", |_| [0.8, 1.0]);
}

#[test]
fn of_locks_in_sequence_or_nested_the_longer_hold_bounds() {
    obeys("sequence", one_at_a_time(2700.0, 500.0));
    obeys("nested", one_at_a_time(1500.0, 500.0));
}

#[test]
fn writers_are_bounded_by_the_time_in_which_they_exclude_others() {
    for (mode, part) in [("writers1", 0.01), ("writers10", 0.1), ("writers50", 0.5)] {
        obeys(mode, |cpus| {
            let used = used(cpus);
            if cpus < 2.0 {
                return [1.0 / 40.0; 2];
            }
            let excluded = 1.0 / (20.0 * (part + (1.0 - part) / used));
            // At least as much as an exclusive lock.
            [0.7 * used / (20.0 + used * (20.0 + HANDOVER_US)), excluded.min(used / 40.0)]
        });
    }
}

#[test]
fn exponential_times_give_the_throughput_of_the_machine_repairman() {
    // The lock is saturated: mean value analysis gives 0.996 of one critical section after another.
    obeys("repairman", |_| [0.95, 1.0]);
}

#[test]
fn the_slower_side_of_a_buffer_and_the_slowest_stage_bound() {
    // A quarter of the threads produces. With as many consumers as are needed at the least, each
    // waits for the other at times.
    let buffer = |cpus: f64| (THREADS / 4.0 / 1000.0).min(cpus / 3000.0);
    obeys("buffer", move |cpus| [0.85 * buffer(cpus), buffer(cpus)]);
    // Five threads of the second stage, with 1 ms for each item. On few CPUs the stages take turns,
    // and the program that is recorded, to which all rows relate, reaches 0.72 of this at times.
    let stages = |cpus: f64| (cpus / 2000.0).min(5.0 / 1000.0);
    obeys("pipeline", move |cpus| [0.7 * stages(cpus), stages(cpus)]);
}

#[test]
fn a_barrier_waits_for_the_longest_of_the_threads() {
    obeys("barrier", |cpus| {
        // 1.1 to 2.0 ms; the longest of 16 draws takes 1.97 ms.
        let [mean_us, longest_us]: [f64; 2] = [1551.0, 1970.0];
        let most = (1.0 / longest_us).min(cpus / (THREADS * mean_us));
        // With fewer CPUs than threads a round also waits for threads that waited for a CPU.
        [if cpus > 1.0 { 0.5 * most } else { 0.9 * most }, most]
    });
}

#[test]
fn locks_that_are_seldom_waited_for_scale_as_if_there_were_none() {
    // Less by 1 us in one lock of all.
    for (mode, least) in [("stealing", 0.85), ("striped", 0.85), ("mostly", 0.7)] {
        obeys(mode, |cpus| [if cpus > 1.0 { least } else { 1.0 } * used(cpus), used(cpus)]);
    }
}

#[test]
fn a_spinlock_costs_more_where_its_owner_may_lose_its_cpu() {
    // 2 % of the work: with a CPU for each thread a third is used. With fewer CPUs threads spin for
    // time slices while the owner waits for a CPU, seldom or often.
    obeys("spinning", |cpus| {
        let shared = cpus > 1.0 && cpus < THREADS;
        [if shared { 0.3 } else { 0.8 } * used(cpus), used(cpus)]
    });
}

#[test]
fn a_pool_allows_as_many_as_it_has_units() {
    obeys("pool", |_| [0.85, 1.0]);
}
