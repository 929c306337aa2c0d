//! Reports of a made window.

use super::*;
use convoy_record::{Cause, Kind as Primitive, Pending, Program, Site, Times};
use std::collections::BTreeMap;

fn waited_for(name: &str, kind: Primitive, total_s: f64, count: u64) -> Lock {
    let wait = Times { count, total_s, max_s: total_s, buckets: Vec::new() };
    let (place, act) = (format!("use_{name} (a.c:7)"), "lock".to_owned());
    let site = Site { place, act, count, contended: count, threads: 2, wait, ..Site::default() };
    Lock { name: name.to_owned(), kind, instances: 1, sites: vec![site], ..Lock::default() }
}

fn seen(doing: Doing, what: &str, count: u64) -> Seen {
    Seen { doing, what: what.to_owned(), place: String::new(), count }
}

/// Two threads wait all the time for `log`, and one for half of the time for the condition `work`.
fn report() -> TopReport {
    let owners = vec![seen(Doing::Runs, "", 10), seen(Doing::Sleeps, "fsync(2)", 30)];
    let log = ("log".to_owned(), Primitive::Mutex);
    let cause = Cause { lock: log.0.clone(), owners, ..Cause::default() };
    let pending = Pending { lock: log.0.clone(), counted: true, ..Pending::default() };
    let mut process = Process {
        pid: 7,
        command: vec!["/opt/a\"b".to_owned()],
        seconds: 4.0,
        threads: 3,
        locks: vec![
            waited_for("log", Primitive::Mutex, 8.0, 40),
            waited_for("work", Primitive::Condition, 2.0, 4),
        ],
        causes: vec![cause],
        pending: vec![pending],
        ..Process::default()
    };
    process.thread_names.insert(9, "flusher".to_owned());
    let lately = Lately {
        process: process.clone(),
        looks: 20,
        states: vec![seen(Doing::Waits, "log", 40), seen(Doing::Sleeps, "fsync(2)", 15)],
        owners: BTreeMap::from([(log, vec![(9, 30), (8, 10)])]),
    };
    let program = Program { command: vec!["a".to_owned()], wall_s: 4.0, ..Program::default() };
    let record = Record { program, processes: vec![process], ..Record::default() };
    TopReport::new(&record, &[lately], TopTimes { window_s: 4.0, elapsed_s: 9.0, cost_s: 0.02 })
}

fn texts(report: &TopReport, view: &ScreenView, size: [usize; 2]) -> Vec<String> {
    report.to_screen(view, size).into_iter().map(|line| line.text).collect()
}

#[test]
fn rates_are_per_second_of_the_window() {
    let report = report();
    let [log, work] = &report.locks[..] else { panic!("{report:#?}") };
    assert!((log.waiting_threads - 2.0).abs() < 1e-9 && (log.waits_per_s - 10.0).abs() < 1e-9);
    assert!((log.wait_percent - 100.0).abs() < 1e-9 && log.waiting_now == Some(1));
    assert_eq!((log.owner_text().as_str(), log.program.as_str()), ("flusher (9)", "a\"b"));
    assert_eq!(log.doing_text(), "fsync(2) 75 %, runs 25 %");
    assert!(!work.is_owned && work.owner.is_none() && work.doing.is_empty());
    let threads: Vec<f64> = report.threads.iter().map(|row| row.threads).collect();
    assert_eq!(threads, [2.0, 0.75]);
    assert!((report.cost_percent - 0.5).abs() < 1e-9);
}

#[test]
fn conditions_are_shown_on_request_and_filters_match_owners() {
    let report = report();
    let shown = |view: &ScreenView| -> Vec<String> {
        let lines = texts(&report, view, [120, 24]);
        ["log", "work"]
            .into_iter()
            .filter(|name| lines.iter().any(|line| line.starts_with(&format!("{name} "))))
            .map(str::to_owned)
            .collect()
    };
    let mut view = ScreenView::default();
    assert_eq!(shown(&view), ["log"]);
    view.shows_conditions = true;
    assert_eq!(shown(&view), ["log", "work"]);
    view.filter = "FLUSHER".to_owned();
    assert_eq!(shown(&view), ["log"]);
    view.filter = "another".to_owned();
    assert!(shown(&view).is_empty());
}

#[test]
fn rows_are_sorted_as_asked() {
    let rows: Vec<TopLock> = report().locks;
    let mut other = TopLock { is_owned: true, lock: "a".to_owned(), ..rows[1].clone() };
    other.waits_per_s = 99.0;
    let first = |sorting: Sorting| {
        let is_other_first = sorting.compare(&other, &rows[0]).is_lt();
        if is_other_first { "a" } else { "log" }
    };
    let all = [Sorting::Waiting, Sorting::Waits, Sorting::Now, Sorting::Name];
    assert_eq!(all.map(first), ["log", "a", "log", "a"]);
    assert_eq!(all.map(Sorting::next), [all[1], all[2], all[3], all[0]]);
}

#[test]
fn metrics_have_escaped_labels_and_no_conditions() {
    let text = report().to_metrics();
    let waiting: Vec<&str> =
        text.lines().filter(|line| line.starts_with("convoy_lock_waiting_threads{")).collect();
    let labels = "{pid=\"7\",program=\"a\\\"b\",lock=\"log\",kind=\"mutex\"}";
    assert_eq!(waiting, [format!("convoy_lock_waiting_threads{labels} 2")]);
    assert!(text.contains("# TYPE convoy_threads gauge\n"), "{text}");
    let threads = "convoy_threads{doing=\"sleeps\",what=\"fsync(2)\"} 0.75\n";
    assert!(text.contains(threads), "{text}");
}
