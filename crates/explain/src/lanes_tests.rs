//! Tests of the lanes of a recorded program.

use super::Act::{Away, Holds, Off, Runs, Waits};
use super::*;
use convoy_record::trace::{Class, Step, Trace};
use convoy_record::{Cause, Event, Waiters};

fn step(what: What, off: bool, gap_ns: u64, took_ns: u64) -> Step {
    Step { what, off, gap_ns, took_ns, ..Step::default() }
}

pub(crate) fn record() -> Record {
    let waiters = Waiters { longest_s: 0.25, longest_at_s: 0.5, most: 3, ..Waiters::default() };
    let lock = Lock { name: "m".into(), waiters, instances: 1, ..Lock::default() };
    let steps = vec![
        step(What::Lock, false, 0, 5000),
        step(What::Unlock, true, 2000, 20),
        step(What::Lock, false, 700, 30),
        step(What::Unlock, false, 400, 10),
        step(What::Yield, false, 100, 50),
    ];
    let strip = Strip { thread: 7, begin_s: 0.001, steps, ..Strip::default() };
    let trace = Trace {
        classes: vec![Class::default()],
        places: vec![Place { site: "f (x.c:1)".into(), ..Place::default() }],
        strips: vec![strip],
    };
    let cause = Cause { lock: "m".into(), wait_s: 0.2, ..Cause::default() };
    let event =
        |begin_s, wait_s| Event { begin_s, wait_s, thread: 8, owner: 7, ..Event::default() };
    let process = Process {
        pid: 6,
        seconds: 1.0,
        phase_s: 0.1,
        phases_lock_s: vec![0.0, 0.2],
        locks: vec![lock],
        trace,
        causes: vec![cause],
        events: vec![event(0.001, 0.001), event(0.5, 0.25)],
        ..Process::default()
    };
    Record { processes: vec![process], ..Record::default() }
}

#[test]
fn a_longer_process_without_waits_hides_no_bars() {
    let mut record = record();
    let before = Lanes::new(&record).waiting;
    assert!(before.iter().any(|waited| *waited > 0.0), "{before:?}");
    record.processes.insert(0, Process { pid: 5, seconds: 2.0, ..Process::default() });
    assert_eq!(Lanes::new(&record).waiting, before);
}

#[test]
fn steps_and_waits_become_spans_that_do_not_overlap() {
    let lanes = Lanes::new(&record());
    let of = |thread| lanes.threads.iter().find(|lane| lane.thread == thread).expect("its lane");
    let acts: Vec<Act> = of(7).spans.iter().map(|span| span.act).collect();
    assert_eq!(acts, [Waits, Off, Runs, Holds, Runs, Away]);
    assert_eq!(of(8).spans.len(), 2);
    for lane in &lanes.threads {
        let ordered = lane.spans.windows(2).all(|two| two[0].end_ns() <= two[1].begin_ns);
        assert!(ordered, "{lane:?}");
    }
    let at: Vec<[u64; 2]> =
        lanes.handovers.iter().map(|found| [found.released_ns, found.at_ns]).collect();
    // The window shows the second release, after 8.15 us. The release of the other wait is not
    // recorded.
    assert_eq!(at, [[1_008_150, 2_000_000]]);
    assert!((lanes.waiting[1] - 2.0).abs() < 1e-9);
    assert_eq!(lanes.longest.map(|longest| longest.lock), Some("m".to_owned()));
}

#[test]
fn short_spans_are_left_out_and_no_other_changes() {
    let mut lanes = Lanes::new(&record());
    let before = lanes.clone();
    lanes.thin(before.spans() - 2);
    assert!(lanes.spans() <= before.spans() - 2 && lanes.least_ns > 0);
    for (lane, whole) in lanes.threads.iter().zip(&before.threads) {
        let long = whole.spans.iter().filter(|span| span.length_ns >= lanes.least_ns);
        assert_eq!(lane.spans, long.copied().collect::<Vec<_>>());
    }
    assert!(lanes.spans() > 0, "long ones stay");
}

#[test]
fn a_record_without_times_has_no_lanes() {
    let process = Process { pid: 6, seconds: 1.0, ..Process::default() };
    let record = Record { processes: vec![process], ..Record::default() };
    assert!(Lanes::new(&record).is_empty());
}
