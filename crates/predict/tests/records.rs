//! Laws of arithmetic that the bounds of every record must obey: those that the tests keep, and
//! records of programs that are not simulated.

use std::path::Path;

use convoy_diagnose::Diagnosis;
use convoy_kernel::KernelPreset;
use convoy_predict::{Choice, Effort, Limit, Machines, Prediction, Question, Row, SLEEP, predict};
use convoy_record::Record;

/// Records that are kept for the fuzz targets.
const KEPT: &str = "../../fuzz/corpus/program";
const CPUS: [u32; 7] = [1, 2, 4, 8, 16, 64, 128];
const THREADS: [u32; 4] = [1, 3, 16, 200];

fn prediction(record: &Record, cpus: &[u32], threads: &[u32]) -> Prediction {
    let kernel =
        convoy_catalogue::load::<KernelPreset>("6.18", &[]).expect("a shipped preset").value;
    let machines = Machines { kernel, machine: None, sets: Vec::new() };
    let question = Question {
        cpus: cpus.to_vec(),
        threads: threads.to_vec(),
        policies: vec![Choice::new(SLEEP)],
        split: None,
        rounds: 1,
        effort: Effort::LEAST,
    };
    predict(record, &machines, &question).expect("no record is refused")
}

fn kept() -> Vec<(String, Record)> {
    let files = std::fs::read_dir(KEPT).expect("the kept records");
    let paths = files.map(|file| file.expect("a file").path());
    let records = paths.filter_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        let name = path.display().to_string();
        Some((name.clone(), Record::parse(&text, Path::new(&name)).ok()?))
    });
    records.collect()
}

/// Returns the ends of the interval of a row, relative to the record.
fn ends(row: &Row) -> [f64; 2] {
    [row.low_percent, row.high_percent].map(|percent| 1.0 + percent / 100.0)
}

#[test]
fn every_kept_record_has_bounds_that_obey_the_laws() {
    let records = kept();
    assert!(records.len() >= 4, "the kept records are there");
    for (name, mut record) in records {
        // Bounds alone: simulations of so few steps mean nothing.
        record.program.only_contended = true;
        let found = prediction(&record, &CPUS, &THREADS);
        assert_eq!(found.rows.len(), CPUS.len() * THREADS.len(), "{name}");
        for row in &found.rows {
            let [low, high] = ends(row);
            let middle = 1.0 + row.change_percent / 100.0;
            let is_ordered = 0.0 <= low && low <= middle && middle <= high && high.is_finite();
            assert!(is_ordered, "{name}: {row:#?}");
        }
        for (index, row) in found.rows.iter().enumerate().skip(THREADS.len()) {
            let fewer = &found.rows[index - THREADS.len()];
            let [[_, before], [_, high]] = [fewer, row].map(ends);
            // The recorded point is known and needs no law.
            let is_known = |row: &Row| row.low_percent.total_cmp(&row.high_percent).is_eq();
            if is_known(fewer) || is_known(row) {
                continue;
            }
            let times = f64::from(row.cpus) / f64::from(fewer.cpus);
            // More CPUs allow more, and at most as many times more.
            assert!(high >= before * 0.999, "{name}: {fewer:#?} {row:#?}");
            assert!(high <= before * times * 1.001, "{name}: {fewer:#?} {row:#?}");
        }
        if let Limit::Lock { lock, per_s: Some(per_s), .. } = &found.limit {
            let process = record.processes.iter().find(|process| !process.locks.is_empty());
            let process = process.expect("a process with locks");
            let recorded = process.locks.iter().find(|recorded| recorded.name == lock.name);
            let count = recorded.expect("the lock").count() as f64;
            assert!(per_s * process.seconds >= count * 0.999, "{name}: {per_s} of {count}");
        }
    }
}

/// The recorded point is what the record says it is.
#[test]
fn the_recorded_point_of_every_kept_record_is_in_its_interval() {
    for (name, record) in kept() {
        let found = prediction(&record, &[], &[]);
        for row in &found.rows {
            let [low, high] = ends(row);
            assert!(low <= 1.0 && 1.0 <= high, "{name}: {row:#?}");
        }
    }
}

/// `explain` and `predict` name the same lock at the recorded point, with the same share.
#[test]
fn the_limit_of_every_kept_record_is_the_lock_that_its_account_puts_first() {
    let mut limits = 0;
    for (name, record) in kept() {
        let diagnosis = Diagnosis::new(&record);
        let Limit::Lock { lock, waited, .. } = prediction(&record, &[], &[]).limit else {
            continue;
        };
        let first = diagnosis.account.owned_locks().next().expect("a lock with waits");
        assert_eq!(lock.name, first.lock.name, "{name}");
        let mut findings = diagnosis.findings.iter();
        if let Some(finding) = findings.find(|finding| finding.lock == lock.name) {
            let share = finding.share.expect("the number of threads is known");
            assert!((share - waited).abs() < 1e-9, "{name}: {share} and {waited}");
        }
        limits += 1;
    }
    assert!(limits > 0, "a record with a limit");
}
