//! Tests of the native lock experiment.

use super::*;

/// The two policies of a semaphore, five numbers of threads.
fn semaphores() -> NativeExperiment {
    NativeExperiment {
        policies: vec![Policy::Handoff, Policy::Opportunistic],
        threads: vec![2, 16, 64, 256, 2000],
        section_ns: vec![100, 1000],
        rounds: 3,
        ..NativeExperiment::plain()
    }
}

fn small() -> NativeExperiment {
    NativeExperiment {
        threads: vec![2, 5],
        section_ns: vec![50],
        outside_ns: 100,
        warmup_ms: 1,
        window_ms: 10,
        rounds: 2,
        ..semaphores()
    }
}

#[test]
fn errors_name_the_field_and_the_cure() {
    let refused = |experiment: NativeExperiment| experiment.check().unwrap_err().to_string();
    let rounds = refused(NativeExperiment { rounds: 0, ..semaphores() });
    assert_eq!(rounds, "rounds is 0; it must be 1 to 1000");
    let threads = refused(NativeExperiment { threads: vec![2, 0], ..semaphores() });
    assert_eq!(threads, "threads is 0; it must be 1 to 16384");
    let section = refused(NativeExperiment { section_ns: vec![], ..semaphores() });
    assert_eq!(section, "section_ns is empty; it must be 1 to 1000000");
    let twice = vec![Policy::Handoff, Policy::Handoff];
    let twice = refused(NativeExperiment { policies: twice, ..semaphores() });
    assert!(twice.contains("repetition"), "{twice}");
}

#[test]
fn every_cell_runs_once_a_round_and_pairs_stay_together() {
    let experiment = semaphores();
    let mut random = Lcg::for_user(experiment.seed, 0);
    let (first, second) = (experiment.round(&mut random), experiment.round(&mut random));
    assert_ne!(first, second);
    for pair in first.chunks(2) {
        assert_eq!((pair[0].0, pair[0].1), (pair[1].0, pair[1].1));
        assert_ne!(pair[0].2, pair[1].2);
    }
    let sorted = |mut cells: Vec<(u32, u32, Policy)>| {
        cells.sort();
        cells
    };
    assert_eq!(sorted(first), sorted(second));
}

#[test]
fn a_small_experiment_gives_a_complete_record() {
    let experiment = small();
    let mut heard = Vec::new();
    let mut hear = |place: usize, what: &str| {
        heard.push((place, what.to_owned()));
        Next::Continue
    };
    let record = run(&experiment, &mut hear).unwrap();
    assert_eq!(record.runs.len(), experiment.runs());
    assert_eq!(heard.len(), experiment.runs());
    assert_eq!(record.cells.len(), 4);
    for run in &record.runs {
        // The window is open as long as asked for, and then until somebody has got on.
        assert!(run.window_s >= 0.01 && run.acquisitions_per_s > 0.0);
        assert!(run.wait_p50_us <= run.wait_p99_us && run.wait_p99_us <= run.wait_max_us);
        assert!(run.starved_threads < run.threads && run.waiting_threads <= run.threads);
        assert!(run.cpus_used > 0.0);
        assert!(run.jain.is_some_and(|jain| jain <= 1.0 + 1e-9));
    }
    for pair in record.cells.chunks(2) {
        assert_eq!((pair[0].policy, pair[0].ratio), (Policy::Handoff, None));
        let ratio = pair[1].ratio.unwrap();
        assert!(ratio.min <= ratio.median && ratio.median <= ratio.max);
    }
}

#[test]
fn a_stopped_experiment_keeps_the_runs_before() {
    let experiment = small();
    for kept in [0, 3] {
        let mut stop = |place, _: &str| if place == kept { Next::Stop } else { Next::Continue };
        let record = run(&experiment, &mut stop).unwrap();
        assert_eq!(record.runs.len(), kept);
        assert_eq!(record.cells.len(), kept, "one round has one run of a cell");
    }
}

#[test]
fn a_record_survives_json() {
    let mut experiment = small();
    experiment.threads = vec![1];
    let record = run(&experiment, &mut |_, _| Next::Continue).unwrap();
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["cells"][1]["policy"], "opportunistic");
    let back: NativeRecord = serde_json::from_value(json).unwrap();
    assert_eq!(back, record);
}

#[test]
fn ratios_are_taken_inside_a_round() {
    let run = |round, policy, acquisitions_per_s| NativeRun {
        round,
        order: 0,
        section_ns: 50,
        threads: 2,
        policy,
        window_s: 1.0,
        cpus_used: 1.0,
        others_cpus: None,
        acquisitions_per_s,
        voluntary_switches_per_s: 0.0,
        involuntary_switches_per_s: None,
        jain: None,
        starved_threads: 0,
        waiting_threads: 0,
        wait_p50_us: 0.0,
        wait_p99_us: 0.0,
        wait_max_us: 0.0,
        drain_ms: 0.0,
    };
    // The machine was ten times slower in round 0; both ratios are 5 all the same.
    let runs = [
        run(1, Policy::Opportunistic, 500.0),
        run(0, Policy::Handoff, 10.0),
        run(0, Policy::Opportunistic, 50.0),
        run(1, Policy::Handoff, 100.0),
    ];
    let cells = summarise(&small(), &runs);
    assert_eq!(cells.len(), 2);
    assert_eq!(cells[1].ratio, Some(Spread { median: 5.0, min: 5.0, max: 5.0 }));
    assert_eq!(cells[1].jain, None);
}
