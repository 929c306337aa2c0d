//! Laws of arithmetic that the bounds of every record must obey: those that the tests keep, and
//! records of programs that are not simulated.

use std::path::Path;

use convoy_diagnose::{Diagnosis, Finding};
use convoy_kernel::KernelPreset;
use convoy_predict::{
    Choice, Effort, Limit, Machines, Named, Prediction, Question, Row, SLEEP, Station, predict,
};
use convoy_record::{
    KernelObject, KernelWait, Lock, Process, Program, Record, Scheduling, Site, Times,
};

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
        edits: false,
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

/// `explain` and `predict` name the same bottleneck at the recorded point, with the same share:
/// the lock of the first finding.
#[test]
fn the_limit_of_every_kept_record_is_what_its_first_finding_is_about() {
    let mut limits = 0;
    for (name, record) in kept() {
        let diagnosis = Diagnosis::new(&record);
        let found = prediction(&record, &[], &[]);
        let waited = match &found.limit {
            Limit::Lock { lock: Named { name: lock, .. }, waited, .. }
            | Limit::Pool { pool: Named { name: lock, .. }, waited, .. } => {
                let first = diagnosis.first().expect("explain names a lock, too");
                assert_eq!(*lock, first.lock, "{name}");
                *waited
            }
            Limit::Kernel { waited, .. } => *waited,
            Limit::Unknown { .. } | Limit::Nothing { .. } => {
                let waits = |first: &Finding| first.share.is_some() && !first.kind().costs_cpu();
                assert!(!diagnosis.first().is_some_and(waits), "{name}: {diagnosis:#?}");
                continue;
            }
        };
        let share = diagnosis.first().and_then(|first| first.share).expect("waits have a share");
        assert!((share - waited).abs() < 1e-9, "{name}: {share} and {waited}");
        limits += 1;
    }
    assert!(limits > 0, "a record with a limit");
}

/// Threads that write to one file, by samples of where they sleep and by timed waits: both name
/// the lock of the kernel, and the recorded row has it as its limit.
#[test]
fn a_lock_of_the_kernel_is_the_limit_if_explain_names_it() {
    let wait = KernelWait {
        call: "write(2)".to_owned(),
        object: KernelObject::File,
        place: String::new(),
        samples: 120,
    };
    let wait_times = Times { count: 500, total_s: 2.4, ..Times::default() };
    let site = Site { place: "rwsem_down_write".to_owned(), wait: wait_times, ..Site::default() };
    let site = Site { count: 500, contended: 500, threads: 4, act: "lock".to_owned(), ..site };
    let timed = Lock { kernel: "rwsem".to_owned(), sites: vec![site], ..Lock::default() };
    let base = Process { seconds: 1.0, cpu_s: 1.0, threads: 4, ..Process::default() };
    let sampled = Process { looks: 50, kernel_waits: vec![wait], ..base.clone() };
    let traced =
        Process { scheduling: Some(Scheduling::default()), kernel_locks: vec![timed], ..base };
    for process in [sampled, traced] {
        let program = Program { cpus: 2, wall_s: 1.0, ..Program::default() };
        let record = Record { program, processes: vec![process], ..Record::default() };
        let first = Diagnosis::new(&record).first().expect("waits").share;
        let found = prediction(&record, &[2, 8], &[]);
        let Limit::Kernel { lock, waited } = &found.limit else { panic!("{found:#?}") };
        assert_eq!(Some(*waited), first, "{lock:?}");
        let station = Station::Kernel { lock: lock.clone() };
        assert_eq!(found.rows[0].limit, station);
        // The lock is used for most of the time, so more CPUs cannot give twice as much.
        assert!(found.rows[1].change_percent < 100.0, "{found:#?}");
    }
}
