//! Tests of pages: the parts that they must have, and must not have.

use convoy_record::{Cause, Event, Kind, Lock, Process, Program, Record, Site, Times};

use super::*;
use crate::recorded::RecordedReport;

/// Most bytes of a page.
const MOST: usize = 1_500_000;

/// A program with threads that wait for a lock of this name in a function of this name.
pub(super) fn record(name: &str, threads: u64, waits: usize) -> Record {
    let times = |count, total_s| Times { count, total_s, max_s: 0.1, buckets: vec![(1e6, count)] };
    let site = Site {
        place: name.to_owned(),
        act: "lock".to_owned(),
        count: 5000,
        contended: 2000,
        threads,
        wait: times(2000, 8.0),
        hold_on: times(500, 4.0),
        ..Site::default()
    };
    let lock = Lock { name: name.to_owned(), instances: 1, sites: vec![site], ..Lock::default() };
    let cause = Cause {
        lock: name.to_owned(),
        kind: Kind::Mutex,
        place: name.to_owned(),
        act: "lock".to_owned(),
        held_at: "holder (h.c:3)".to_owned(),
        count: 2000,
        wait_s: 8.0,
        max_s: 0.1,
        measured_s: 8.0,
        ran_s: 7.9,
        ..Cause::default()
    };
    let event = |at: usize| Event {
        begin_s: 0.001 + at as f64 * 1e-4,
        wait_s: 5e-5,
        thread: 100 + at as u64 % threads,
        owner: 99,
        ..Event::default()
    };
    let process = Process {
        pid: 42,
        seconds: 5.0,
        cpu_s: 5.0,
        threads,
        locks: vec![lock],
        causes: vec![cause],
        events: (0..waits).map(event).collect(),
        ..Process::default()
    };
    let program = Program {
        command: vec![name.to_owned()],
        wall_s: 5.0,
        cpu_s: 5.0,
        cpus: 2,
        ..Program::default()
    };
    Record { program, processes: vec![process], ..Record::default() }
}

pub(super) fn page(record: &Record) -> String {
    let origin = Origin { name: "r.json".to_owned(), ..Origin::default() };
    let report = RecordedReport::new(record);
    let mut page = Page::recorded(record, &report, &origin);
    page.end(record, &report, &origin);
    page.to_html()
}

/// The data that the script draws.
fn data(page: &str) -> Value {
    let begin = "<script type=\"application/json\" id=\"data\">";
    let text = page.split_once(begin).expect("data").1.split_once("</script>").expect("its end").0;
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_diagnosis_stands_first_and_its_figures_follow() {
    let record = record("work (w.c:7)", 4, 100);
    let page = page(&record);
    let verdict = RecordedReport::new(&record).verdict;
    let said = verdict.split(". ").next().expect("a sentence");
    let at = page.find(&format!("<h1>{}", prose(said))).expect(said);
    assert!(page.find("\"kind\":\"strip\"").is_some_and(|strip| strip > at));
    let data = data(&page);
    let titles = data["sections"].as_array().expect("sections").iter();
    let titles: Vec<&str> = titles.filter_map(|section| section["title"].as_str()).collect();
    assert!(prose("by `a<b`, not `c").contains("by `a&lt;b`, not `c"), "one is not paired");
    assert_eq!(prose("by `a<b`"), "by <code>a&lt;b</code>");
    let wanted = ["The whole run", "Who waited for whom", "Locks", "Flame graph of waiting"];
    assert_eq!(titles[..4], wanted);
    assert_eq!(titles.last(), Some(&"Where this comes from"));
}

#[test]
fn a_share_is_the_same_in_the_sentence_the_page_and_the_json() {
    for threads in [2, 4, 9] {
        let record = record("work (w.c:7)", threads, 100);
        let report = RecordedReport::new(&record);
        let first = report.first().expect("threads wait");
        let json: Value = serde_json::from_str(&report.to_json()).expect("JSON");
        let share = json["diagnoses"][0]["share"].as_f64().expect("a share");
        let words = format!("spent {:.0} % of their time", 100.0 * share);
        let screen = report.to_screen().replace("\n  ", " ");
        for text in [&report.verdict, &first.sentence, &screen, &page(&record)] {
            assert!(text.contains(&words), "{words}: {text}");
        }
        let lock = &report.account.locks[0];
        assert!((first.finding.cost_s - lock.waited_s).abs() < 1e-9, "{lock:?}");
    }
}

/// Every record that the tests keep.
fn kept() -> Vec<Record> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut records = Vec::new();
    for directory in ["fuzz/corpus/program", "crates/record/tests/imports"] {
        for entry in root.join(directory).read_dir().expect("records") {
            let path = entry.expect("a file").path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let imported = || convoy_record::import::read(&path, &text).and_then(Result::ok);
            records.extend(Record::parse(&text, &path).ok().or_else(imported));
        }
    }
    records
}

#[test]
fn no_finding_costs_more_than_its_record_contains_and_each_share_is_said_once() {
    let records = kept();
    assert!(records.len() >= 10, "{}", records.len());
    let mut findings = 0;
    for record in &records {
        let report = RecordedReport::new(record);
        let json: Value = serde_json::from_str(&report.to_json()).expect("JSON");
        let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
        let waits_s = report.account.wait_s + report.account.idle_s;
        for (row, value) in report.diagnoses.iter().zip(json["diagnoses"].as_array().expect("rows"))
        {
            findings += 1;
            let finding = &row.finding;
            let most_s = if finding.kind().costs_cpu() { cpu_s + waits_s } else { waits_s };
            let is_wait = finding.waiters.is_some() || finding.kind().costs_cpu();
            assert!(!is_wait || finding.cost_s <= 1.001 * most_s, "{row:?}: {most_s}");
            assert_eq!(value["share"].as_f64(), finding.share, "{row:?}");
            assert!(finding.share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{row:?}");
            if let (Some(share), Some(_)) = (finding.share, &finding.waiters) {
                let words = format!(" {:.0} % of their time", 100.0 * share);
                assert!(row.sentence.contains(&words), "{words}: {}", row.sentence);
            }
        }
    }
    assert!(findings >= 5, "{findings}");
}

#[test]
fn names_are_text_and_never_markup() {
    let hostile = "</script><img src=x onerror=alert(1)><!--\u{1b}[31m\u{202e}\"'&";
    let page = page(&record(hostile, 2, 10));
    assert!(!page.contains("<img") && !page.contains("<!--"), "markup of a name");
    assert_eq!(page.matches("</script>").count(), 2, "the data and the script");
    assert!(!page.contains(['\u{1b}', '\u{202e}']), "a control character");
    let text = data(&page).to_string();
    assert!(text.contains("<img src=x onerror=alert(1)>"), "the name is in the data");
    assert!(text.contains("\\\\u001b[31m\\\\u202e"), "what controls is written out");
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = page(&record("f", 2, 10));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("//www"));
    assert!(!page.contains("src=\"") && !page.contains("url(") && !page.contains("@import"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-";
    assert!(page.contains(policy), "a content-security policy");
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("innerHTML ="));
    assert!(!SCRIPT.contains("<!--") && !STYLE.contains("</style"));
}

#[test]
fn a_large_record_makes_a_page_that_can_be_sent() {
    let page =
        page(&record("a long name of a function that is not short (file.cc:12345)", 1000, 200_000));
    assert!(page.len() < MOST, "{} bytes", page.len());
    let notes = data(&page)["sections"][0]["blocks"][0]["notes"].to_string();
    assert!(notes.contains("are left out"), "{notes}");
}

#[test]
fn threads_without_a_row_are_counted() {
    let page = page(&record("f", 1000, 300));
    let strip = &data(&page)["sections"][0]["blocks"][0];
    let rows = strip["lanes"].as_array().map_or(0, Vec::len);
    assert!((300..400).contains(&rows), "{rows} threads waited");
    assert_eq!(strip["unseen"].as_u64(), Some(1000 - rows as u64));
    assert!(SCRIPT.contains("of which no step was recorded"));
}

#[test]
fn a_record_without_times_says_so() {
    let mut record = record("f", 2, 0);
    record.processes[0].events.clear();
    let text = data(&page(&record))["sections"][0]["blocks"][0]["text"].to_string();
    assert!(text.contains("does not say when"), "{text}");
}

#[test]
fn two_records_are_compared() {
    let [before, after] = [record("f", 2, 5), record("f", 4, 5)];
    let origin = Origin { name: "a".to_owned(), ..Origin::default() };
    let reports = [&before, &after].map(RecordedReport::new);
    let page = Page::pair([&before, &after], &reports, [&origin, &origin]);
    let text = data(&page.to_html()).to_string();
    assert!(text.contains("Before and after") && text.contains("Locks: after"), "{text}");
    let doubted = Record { unseen: vec!["Unseen.".to_owned()], ..after };
    let reports = [&before, &doubted].map(RecordedReport::new);
    let page = Page::pair([&before, &doubted], &reports, [&origin, &origin]);
    assert_eq!(data(&page.to_html())["sections"][0]["title"], "Doubts: after");
}

#[test]
fn a_lock_with_another_name_is_the_same_if_the_same_functions_wait_for_it() {
    fn rows(before: &str, after: &str, place: &str) -> Vec<String> {
        let records = [(before, "append (log.c:3)"), (after, place)].map(|(name, place)| {
            let mut record = record("f", 2, 5);
            let lock = &mut record.processes[0].locks[0];
            lock.name = name.to_owned();
            lock.sites[0].place = place.to_owned();
            record
        });
        let reports = [&records[0], &records[1]].map(RecordedReport::new);
        let origin = Origin::default();
        let page = Page::pair([&records[0], &records[1]], &reports, [&origin, &origin]);
        let data = data(&page.to_html());
        let blocks = data["sections"][0]["blocks"].as_array().expect("blocks");
        let table = blocks.iter().find(|block| block["title"] == "Waiting by lock").expect("it");
        let rows = table["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["cells"][0][0].as_str().expect("a name").to_owned()).collect()
    }
    assert_eq!(rows("log", "log", "append (log.c:9)"), ["log"]);
    assert_eq!(rows("log", "logs", "append (log.c:9)"), ["log, then logs"]);
    assert_eq!(rows("log", "logs", "flush (log.c:9)").len(), 2);
}

#[test]
fn doubts_come_first_and_locks_with_little_waiting_are_folded() {
    let mut record = record("f", 2, 5);
    record.unseen.push("Kernel events were not recorded.".to_owned());
    let lock = record.processes[0].locks[0].clone();
    for name in ["ep->lock", "rq->lock"] {
        let mut little =
            Lock { name: name.to_owned(), kernel: "spinlock".to_owned(), ..lock.clone() };
        little.sites[0].wait =
            Times { count: 3, total_s: 3e-6, max_s: 1e-6, buckets: vec![(1.0, 3)] };
        record.processes[0].locks.push(little);
    }
    let data = data(&page(&record));
    assert_eq!(data["sections"][0]["title"], "Doubts");
    assert!(data["sections"][0]["blocks"][0]["text"].to_string().contains("Kernel events"));
    let sections = data["sections"].as_array().expect("sections");
    let locks = sections.iter().find(|section| section["title"] == "Locks").expect("locks");
    let [shown, folded] = &locks["blocks"].as_array().expect("blocks")[..] else {
        panic!("{locks}")
    };
    assert!(!shown.to_string().contains("ep->lock"), "{shown}");
    assert_eq!(folded["kind"], "folded");
    assert!(
        folded["title"].to_string().contains("and 2 more below 1 % (2 of the kernel)"),
        "{folded}"
    );
    assert!(folded["blocks"].to_string().contains("rq->lock"), "{folded}");
}

#[test]
fn a_lock_that_was_split_is_one_row() {
    let records = [&["log"][..], &["log_a", "log_b", "log_c"]].map(|names| {
        let mut record = record("f", 2, 5);
        let lock = &record.processes[0].locks[0];
        let named = |name: &&str| Lock { name: (*name).to_owned(), ..lock.clone() };
        record.processes[0].locks = names.iter().map(named).collect();
        record
    });
    let reports = [&records[0], &records[1]].map(RecordedReport::new);
    let pair = RecordPair::new([&records[0], &records[1]], &reports);
    let locks = pair.to_json()["locks"].clone();
    assert_eq!(locks.as_array().map(Vec::len), Some(1), "{locks}");
    assert_eq!(locks[0]["name"], "log, then log_a and 2 more");
    assert_eq!((&locks[0]["before_us"], &locks[0]["after_us"]), (&8e6.into(), &24e6.into()));
}

#[test]
fn base64_is_that_of_the_standard() {
    let known = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="];
    for (length, known) in known.iter().enumerate() {
        assert_eq!(base64(&b"foob"[..length]), **known);
    }
}
