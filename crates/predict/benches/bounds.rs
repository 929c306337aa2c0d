//! Host time of the bounds of a record with 10,000 locks, on eight numbers of CPUs.
//! `cargo bench -p convoy-predict --bench bounds` prints the time of each of five predictions.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_kernel::KernelPreset;
use convoy_predict::{Choice, Effort, Machines, Question, SLEEP, predict};
use convoy_record::{Lock, Process, Program, Record, Site, Times};
use std::time::Instant;

const LOCKS: u64 = 10_000;
const THREADS: u64 = 64;

fn times(count: u64, each_us: f64) -> Times {
    let total_s = count as f64 * each_us / 1e6;
    let buckets = vec![(each_us * 500.0, count / 2), (each_us * 1500.0, count / 2)];
    Times { count, total_s, max_s: each_us / 5e5, buckets }
}

/// Returns a record of threads that acquire all locks, some more often than others.
fn record() -> Record {
    let lock = |number: u64| {
        let count = 1000 + number % 977;
        let site = Site {
            place: format!("put (shard{number}.c:9)"),
            act: "lock".to_owned(),
            count,
            contended: count / 10,
            threads: THREADS,
            regulars: THREADS,
            hold_on: times(count, 0.5),
            think_on: times(count, 2.0),
            wait: times(count / 10, 30.0),
            ..Site::default()
        };
        Lock { name: format!("shard{number}"), instances: 1, sites: vec![site], ..Lock::default() }
    };
    let process = Process {
        seconds: 20.0,
        cpu_s: 39.0,
        threads: THREADS,
        locks: (0..LOCKS).map(lock).collect(),
        ..Process::default()
    };
    // No replay, so that only the bounds are timed.
    let program = Program { cpus: 2, wall_s: 20.0, only_contended: true, ..Program::default() };
    Record { program, processes: vec![process], ..Record::default() }
}

fn main() {
    let kernel = KernelPreset::named("6.18").expect("a shipped preset");
    let machines = Machines { kernel, machine: None, sets: Vec::new() };
    let question = Question {
        cpus: vec![1, 2, 4, 8, 16, 32, 64, 128],
        threads: Vec::new(),
        policies: vec![Choice::new(SLEEP)],
        split: None,
        edits: false,
        rounds: 1,
        effort: Effort::LEAST,
    };
    let record = record();
    for _ in 0..5 {
        let begin = Instant::now();
        let prediction = predict(&record, &machines, &question).expect("no damaged record");
        let limit = &prediction.rows[prediction.rows.len() - 1].limit;
        println!("{:.1} ms, {limit:?}", begin.elapsed().as_secs_f64() * 1e3);
    }
}
