//! A hog that releases a mutex only to acquire it again, and a victim that starves: the effect of a
//! fair lock on each of them follows from arithmetic.

use convoy_kernel::KernelPreset;
use convoy_predict::{
    Advice, Effort, HANDOFF, Machines, Prediction, Question, Remedy, Row, Simulated, policies,
    predict_aloud,
};
use convoy_record::trace::{Class, Place, Step, Strip, Trace, What};
use convoy_record::{Lock, Process, Program, Record, Site, Times};
use std::sync::Mutex;

const TICK: &str = "tick (hog.cc:7)";
const READ: &str = "read (hog.cc:8)";
/// Length of the run, seconds.
const SECONDS: f64 = 1.5;
/// Critical section of the hog, nanoseconds, and the time until it begins the next one.
const HELD_NS: u64 = 400_000;
const AGAIN_NS: u64 = 50;
/// Sleep of the other thread before each of its short sections, nanoseconds.
const SLEEP_NS: u64 = 260_000;
/// Acquisitions of the hog and of the victim.
const TICKS: u64 = 3600;
const READS: u64 = 300;

fn times(count: u64, ns: u64) -> Times {
    let each_s = ns as f64 / 1e9;
    let total_s = count as f64 * each_s;
    Times { count, total_s, max_s: each_s, buckets: vec![(ns as f64, count)] }
}

fn strips(class: u64, gap_ns: u64, off: bool, held_ns: u64, wait_ns: u64) -> Vec<Strip> {
    let lock = Step { what: What::Lock, off, place: 2 * class as usize, gap_ns, ..Step::default() };
    let lock = Step { took_ns: wait_ns, ..lock };
    let unlock = Step { what: What::Unlock, place: 1, gap_ns: held_ns, ..Step::default() };
    let steps = [lock, Step { took_ns: 50, ..unlock }].repeat(6);
    let strip = |window| Strip { class, thread: class, window, steps: steps.clone(), begin_s: 0.0 };
    (1..=4).map(strip).collect()
}

/// Returns the record of the hog and its victim. The victim waited whenever it did not sleep, once
/// for 300 ms.
fn record() -> Record {
    let wait_ns = (SECONDS * 1e9) as u64 / READS - SLEEP_NS;
    let tick = Site {
        place: TICK.to_owned(),
        act: "lock".to_owned(),
        count: TICKS,
        threads: 1,
        hold_on: times(TICKS, HELD_NS),
        think_on: times(TICKS, AGAIN_NS),
        ..Site::default()
    };
    let read = Site {
        place: READ.to_owned(),
        count: READS,
        contended: READS,
        hold_on: times(READS, AGAIN_NS),
        think_on: Times::default(),
        think_off: times(READS, SLEEP_NS),
        wait: Times { max_s: 0.3, ..times(READS, wait_ns) },
        ..tick.clone()
    };
    let world =
        Lock { name: "world".to_owned(), instances: 1, sites: vec![tick, read], ..Lock::default() };
    let class = |calls, most: &str| Class { threads: 1, calls, most: most.to_owned() };
    let place = |site: &str, calls| Place { site: site.to_owned(), calls, ..Place::default() };
    let mut all = strips(0, AGAIN_NS, false, HELD_NS, 50);
    all.extend(strips(1, SLEEP_NS, true, AGAIN_NS, wait_ns));
    let trace = Trace {
        classes: vec![class(TICKS, TICK), class(READS, READ)],
        places: vec![place(TICK, TICKS), place("", 0), place(READ, READS)],
        strips: all,
    };
    let process = Process {
        seconds: SECONDS,
        cpu_s: 1.46,
        threads: 2,
        sees_switches: true,
        locks: vec![world],
        trace,
        ..Process::default()
    };
    let command = vec!["./hog".to_owned()];
    let program = Program { command, cpus: 2, wall_s: SECONDS, ..Program::default() };
    Record { program, processes: vec![process], ..Record::default() }
}

fn figures(row: &Row) -> &Simulated {
    row.simulated.as_ref().expect("a simulated row")
}

fn prediction(record: &Record) -> Prediction {
    told(record).pop().expect("at least the whole")
}

/// Returns the predictions for `record` as they are reported, from the first sentence to the
/// complete one.
fn told(record: &Record) -> Vec<Prediction> {
    let kernel =
        convoy_catalogue::load::<KernelPreset>("6.18", &[]).expect("a shipped preset").value;
    let machines = Machines { kernel, machine: None, sets: Vec::new() };
    let question = Question {
        cpus: Vec::new(),
        threads: Vec::new(),
        policies: policies(record),
        split: Some(4),
        edits: false,
        rounds: 3,
        effort: Effort::FULL,
    };
    let known = Mutex::new(Vec::new());
    let whole = predict_aloud(record, &machines, &question, &|one| {
        assert!(one.done <= one.of, "{one:?}");
        known.lock().expect("no panic").extend(one.prediction);
    })
    .expect("a record with a lock");
    let mut known = known.into_inner().expect("no panic");
    known.push(whole);
    known
}

#[test]
fn what_is_known_grows_from_the_bounds_to_simulated_rows() {
    let known = told(&record());
    let (first, last) = (&known[0], &known[known.len() - 1]);
    assert_eq!(first.rows.len(), last.rows.len());
    assert_eq!((first.missing, last.missing), (last.rows.len(), 0));
    for pair in known.windows(2) {
        assert_eq!(pair[0].limit, last.limit);
        let simulated = |prediction: &Prediction| {
            prediction.rows.iter().filter(|row| row.simulated.is_some()).count()
        };
        assert!(simulated(&pair[0]) <= simulated(&pair[1]), "{pair:#?}");
        assert_eq!(simulated(&pair[1]) + pair[1].missing, last.rows.len());
    }
    assert!(known.len() > last.rows.len(), "told of each row: {}", known.len());
}

#[test]
fn a_fair_lock_is_judged_by_the_work_of_the_hog_and_the_wait_of_its_victim() {
    let record = record();
    let found = prediction(&record);
    assert_eq!(found.reason, None, "{found:#?}");
    for row in &found.rows {
        let waited_us = figures(row).wait_max_us;
        assert!(waited_us <= 1e6 * SECONDS * 1.001, "longer than the run: {row:#?}");
        // The hog always works: no lock makes it faster.
        assert!(row.change_percent < 3.0, "{row:#?}");
    }
    let handoff = found.rows.iter().find(|row| row.policy == HANDOFF).expect("it was asked for");
    let [hog, victim] = &figures(handoff).parts[..] else { panic!("two classes: {handoff:#?}") };
    assert_eq!([&*hog.place, &victim.place], [TICK, READ]);
    // The victim already waits at each release: one read for each tick, and each takes a wakeup.
    let reads = victim.acquisitions_per_s / hog.acquisitions_per_s;
    assert!((0.85..1.05).contains(&reads), "{handoff:#?}");
    assert!((-20.0..0.0).contains(&handoff.change_percent), "{handoff:#?}");
    assert!((victim.recorded_per_s - READS as f64 / SECONDS).abs() < 1.0, "{handoff:#?}");
    // Two critical sections and a wakeup, or one more where the victim is preempted.
    assert!(figures(handoff).wait_max_us < 5000.0, "{handoff:#?}");
    let advice = Advice::new(&record, found);
    let Remedy::Bounded { row, waited_us, .. } = &advice.remedies[0] else {
        panic!("{:#?}", advice.remedies)
    };
    assert!((waited_us - 3e5).abs() < 1.0, "{waited_us}");
    assert!(figures(row).parts.iter().any(|part| part.place == READ), "{row:#?}");
    assert!(advice.command.is_some());
}

#[test]
fn the_work_of_a_critical_section_is_that_of_its_class() {
    // The victim's wakeup preempts the hog in two of three critical sections, so most releases by a
    // thread that kept its CPU are the victim's, after short critical sections.
    let mut record = record();
    let process = &mut record.processes[0];
    for strip in process.trace.strips.iter_mut().filter(|strip| strip.class == 0) {
        let holds = strip.steps.iter_mut().filter(|step| step.what == What::Unlock);
        holds.enumerate().filter(|(at, _)| at % 3 != 0).for_each(|(_, step)| {
            (step.off, step.gap_ns) = (true, HELD_NS + 20_000);
        });
    }
    let site = &mut process.locks[0].sites[0];
    site.hold_on = times(TICKS / 3, HELD_NS);
    site.hold_off = times(TICKS - TICKS / 3, HELD_NS + 20_000);
    let found = prediction(&record);
    assert_eq!(found.reason, None, "{found:#?}");
    let used = figures(&found.rows[0]).cpus_used;
    assert!((0.8..1.2).contains(&used), "the hog is always at work: {found:#?}");
}
