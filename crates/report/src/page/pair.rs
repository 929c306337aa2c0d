//! Two records, before a change and after it: on the terminal, for programs and as a page.

use std::collections::BTreeMap;

use convoy_diagnose::is_owned;
use convoy_record::{Lock, Record};

use super::recorded::{Origin, doubts, seconds};
use super::{Block, Page};
use crate::format::fixed;
use crate::recorded::RecordedReport;
use crate::table::{Cell, Column, Table, page_wrap};

const LOCKS: usize = 12;
/// Share of all waiting below which a lock has no row.
const LEAST: f64 = 0.01;

/// Figures of a record that are compared.
struct Figures {
    wall_s: f64,
    cpu_s: f64,
    wait_s: f64,
    acquisitions: f64,
    longest_s: f64,
}

impl Figures {
    fn new(record: &Record, report: &RecordedReport) -> Self {
        let locks = || report.account.locks.iter().filter(|one| is_owned(&one.lock));
        Self {
            wall_s: record.program.wall_s,
            cpu_s: record.program.cpu_s,
            wait_s: report.account.wait_s,
            acquisitions: locks().map(|one| one.lock.count() as f64).sum(),
            longest_s: locks().map(|one| one.lock.waiters.longest_s).fold(0.0, f64::max),
        }
    }

    fn to_json(&self, verdict: &str) -> serde_json::Value {
        serde_json::json!({
            "verdict": verdict,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "wait_s": self.wait_s,
            "acquisitions": self.acquisitions,
            "longest_convoy_s": self.longest_s,
        })
    }
}

/// Two records of programs: before a change and after it.
pub struct RecordPair<'a> {
    reports: &'a [RecordedReport; 2],
    figures: [Figures; 2],
}

impl<'a> RecordPair<'a> {
    /// Compares two records with their reports.
    pub fn new([before, after]: [&Record; 2], reports: &'a [RecordedReport; 2]) -> Self {
        let figures = [Figures::new(before, &reports[0]), Figures::new(after, &reports[1])];
        Self { reports, figures }
    }

    /// The difference in a sentence.
    fn lead(&self) -> String {
        let [old, new] = &self.figures;
        format!(
            "Threads waited {} for locks before and {} after, in {} and {} of the program.",
            seconds(old.wait_s),
            seconds(new.wait_s),
            seconds(old.wall_s),
            seconds(new.wall_s)
        )
    }

    /// The verdicts of both records.
    fn verdicts(&self) -> [String; 2] {
        let [before, after] = self.reports;
        [format!("Before: {}", before.verdict), format!("After: {}", after.verdict)]
    }

    /// Waiting by lock, the most first. Locks of one name are one row, and so are the locks for
    /// which the functions wait that waited for one lock before.
    pub fn locks(&self) -> Table {
        by_lock(self.reports)
    }

    /// The comparison for people; `test` is the command that measures the difference.
    pub fn to_text(&self, test: &str) -> String {
        let [old, new] = &self.figures;
        let [before, after] = self.verdicts();
        let head: String =
            [self.lead(), before, after].iter().map(|line| page_wrap(line)).collect();
        format!(
            "{head}\n{}\n{}\n{DOUBT}\n  {test}\n",
            figures(old, new).to_text(),
            self.locks().to_text_of_names()
        )
    }

    /// The comparison for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let [before, after] = &self.figures;
        serde_json::json!({
            "verdict": self.lead(),
            "before": before.to_json(&self.reports[0].verdict),
            "after": after.to_json(&self.reports[1].verdict),
            "locks": self.locks().to_json(),
        })
    }
}

/// One run on each side is no measurement.
const DOUBT: &str = "One run on each side is no proof. To test the difference:";

impl Page {
    /// Of a record before a change and one after it; [`Page::end`] comes last.
    pub fn pair(
        [before, after]: [&Record; 2],
        reports: &[RecordedReport; 2],
        [first, second]: [&Origin; 2],
    ) -> Self {
        let pair = RecordPair::new([before, after], reports);
        let names = [(before, first), (after, second)].map(|(record, origin)| {
            format!("{} ({})", record.program.command.join(" "), origin.name)
        });
        let mut page = Self::new(names.join(" and "), pair.lead());
        page.cure.push_str(DOUBT);
        page.test.clone_from(&second.test);
        for (report, side) in reports.iter().zip(["before", "after"]) {
            page.section(&format!("Doubts: {side}"), doubts(report));
        }
        let mut blocks: Vec<Block> = pair.verdicts().into_iter().map(Block::text).collect();
        let [old, new] = &pair.figures;
        blocks.push(Block::table(&figures(old, new)));
        blocks.push(Block::table(&pair.locks()));
        page.section("Before and after", blocks);
        for ((record, report), side) in
            [before, after].into_iter().zip(reports).zip(["before", "after"])
        {
            page.record(record, report, side);
        }
        page
    }
}

fn columns(first: &str) -> Vec<Column> {
    vec![
        Column::text(first).key("name"),
        Column::number("before", "").key("before_us"),
        Column::number("after", "").key("after_us"),
        Column::number("change", "%").key("change_percent"),
    ]
}

fn change(before: f64, after: f64) -> Cell {
    let percent = if before > 0.0 { 100.0 * (after / before - 1.0) } else { f64::NAN };
    let sign = if percent > 0.0 { "+" } else { "" };
    Cell::shown(
        format!("{}{}", if percent.is_finite() { sign } else { "" }, fixed(percent, 0)),
        percent,
    )
}

fn figures(old: &Figures, new: &Figures) -> Table {
    let mut table = Table::new("", columns("Figure"));
    let mut time = |name: &str, before: f64, after: f64| {
        let [old, new] = [before, after].map(|time| Cell::shown(seconds(time), time * 1e6));
        table.row(vec![Cell::text(name), old, new, change(before, after)]);
    };
    time("time of the program", old.wall_s, new.wall_s);
    time("CPU time", old.cpu_s, new.cpu_s);
    time("waiting for locks, all threads", old.wait_s, new.wait_s);
    time("longest convoy", old.longest_s, new.longest_s);
    let per = |figures: &Figures| figures.wait_s / figures.acquisitions.max(1.0);
    time("waiting per acquisition", per(old), per(new));
    table.row(vec![
        Cell::text("acquisitions"),
        Cell::number(old.acquisitions, 0),
        Cell::number(new.acquisitions, 0),
        change(old.acquisitions, new.acquisitions),
    ]);
    table
}

/// Waiting for the locks of one name: the total in seconds, and by function.
#[derive(Default)]
struct Waiting<'a> {
    wait_s: f64,
    functions: BTreeMap<&'a str, f64>,
}

impl<'a> Waiting<'a> {
    fn by_name(report: &'a RecordedReport) -> BTreeMap<&'a str, Self> {
        let mut names: BTreeMap<&str, Self> = BTreeMap::new();
        for one in report.account.locks.iter().filter(|one| is_owned(&one.lock)) {
            let waiting = names.entry(&one.lock.name).or_default();
            waiting.wait_s += Lock::wait_s(&one.lock);
            for site in &one.lock.sites {
                // A line moves when a program is changed.
                let function = site.place.split([' ', '+']).next().unwrap_or_default();
                *waiting.functions.entry(function).or_default() += site.wait.total_s;
            }
        }
        names
    }

    /// Adds the waiting for another lock.
    fn add(&mut self, other: &Self) {
        self.wait_s += other.wait_s;
        for (name, wait_s) in &other.functions {
            *self.functions.entry(name).or_default() += wait_s;
        }
    }

    /// Returns whether at least half of the waiting was in functions that also wait for the other.
    fn is_in(&self, other: &Self) -> bool {
        let both = self.functions.iter().filter(|(name, _)| other.functions.contains_key(*name));
        let both_s: f64 = both.map(|(_, wait_s)| wait_s).sum();
        both_s > 0.0 && both_s >= 0.5 * self.wait_s
    }
}

/// Returns the waits for each lock on both sides. Locks with other names after the change are the
/// same if the same functions wait for them: a lock may be renamed, and split into several.
fn pairs(reports: &[RecordedReport; 2]) -> Vec<(String, [f64; 2])> {
    let [before, mut after] = [&reports[0], &reports[1]].map(Waiting::by_name);
    let (mut rows, mut left) = (Vec::new(), Vec::new());
    for (name, old) in before {
        match after.remove(name) {
            Some(new) => rows.push((name.to_owned(), [old.wait_s, new.wait_s])),
            None => left.push((name, old)),
        }
    }
    left.sort_by(|a, b| b.1.wait_s.total_cmp(&a.1.wait_s));
    for (name, old) in left {
        let (mut parts, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            after.into_iter().partition(|(_, new): &(&str, Waiting)| new.is_in(&old));
        after = rest;
        let mut new = Waiting::default();
        for part in parts.values() {
            new.add(part);
        }
        let label = match (parts.first_key_value(), parts.len()) {
            (Some((renamed, _)), 1) => format!("{name}, then {renamed}"),
            (Some((renamed, _)), count) => format!("{name}, then {renamed} and {} more", count - 1),
            (None, _) => name.to_owned(),
        };
        if !parts.is_empty() && !old.is_in(&new) {
            after.append(&mut parts);
            rows.push((name.to_owned(), [old.wait_s, 0.0]));
        } else {
            rows.push((label, [old.wait_s, new.wait_s]));
        }
    }
    rows.extend(after.into_iter().map(|(name, new)| (name.to_owned(), [0.0, new.wait_s])));
    rows
}

/// Waiting by lock, the most first.
fn by_lock(reports: &[RecordedReport; 2]) -> Table {
    let mut rows = pairs(reports);
    rows.retain(|(_, waits)| waits[0] + waits[1] > 0.0);
    rows.sort_by(|a, b| (b.1[0] + b.1[1]).total_cmp(&(a.1[0] + a.1[1])));
    let mut table = Table::new("Waiting by lock", columns("Lock"));
    // Locks of the kernel that both programs met once are no difference.
    let all: f64 = rows.iter().map(|row| row.1[0] + row.1[1]).sum();
    let shown = rows.iter().filter(|row| row.1[0] + row.1[1] >= LEAST * all).count().min(LOCKS);
    for (name, [before, after]) in &rows[..shown] {
        let [old, new] = [before, after].map(|time| Cell::shown(seconds(*time), time * 1e6));
        table.row(vec![Cell::text(name), old, new, change(*before, *after)]);
    }
    if rows.len() > shown {
        table.note(format!("and {} with less", rows.len() - shown));
    }
    table
}
