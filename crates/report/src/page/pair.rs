//! The page of two records: before a change and after it.

use std::collections::BTreeMap;

use convoy_diagnose::is_owned;
use convoy_record::{Lock, Record};

use super::recorded::{Origin, seconds};
use super::{Block, Page};
use crate::format::fixed;
use crate::recorded::RecordedReport;
use crate::table::{Cell, Column, Table};

/// Locks that are compared.
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
}

impl Page {
    /// Of a record before a change and one after it; [`Page::end`] comes last.
    pub fn pair(
        [before, after]: [&Record; 2],
        reports: &[RecordedReport; 2],
        [first, second]: [&Origin; 2],
    ) -> Self {
        let [old, new] = [Figures::new(before, &reports[0]), Figures::new(after, &reports[1])];
        let title = format!("{} and {}", first.name, second.name);
        let lead = format!(
            "Threads waited {} for locks before and {} after, in {} and {} of the program.",
            seconds(old.wait_s),
            seconds(new.wait_s),
            seconds(old.wall_s),
            seconds(new.wall_s)
        );
        let mut page = Self::new(title, lead);
        page.cure.push_str("One run on each side is no proof. To test the difference:");
        page.test.clone_from(&second.test);
        let verdicts = reports.iter().zip(["Before", "After"]);
        let mut blocks: Vec<Block> = verdicts
            .map(|(report, side)| Block::text(format!("{side}: {}", report.verdict)))
            .collect();
        blocks.push(Block::table(&figures(&old, &new)));
        blocks.push(Block::table(&by_lock(reports)));
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
        Column::text(first),
        Column::number("before", ""),
        Column::number("after", ""),
        Column::number("change", "%"),
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

    /// Returns whether at least half of the waiting was in functions that also wait for the other.
    fn is_in(&self, other: &Self) -> bool {
        let both = self.functions.iter().filter(|(name, _)| other.functions.contains_key(*name));
        let both_s: f64 = both.map(|(_, wait_s)| wait_s).sum();
        both_s > 0.0 && both_s >= 0.5 * self.wait_s
    }
}

/// Returns the waits for each lock on both sides. A lock with another name after the change is the
/// same if the same functions wait for it.
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
        let same = after.iter().find(|(_, new)| old.is_in(new) && new.is_in(&old));
        let Some((&renamed, _)) = same else {
            rows.push((name.to_owned(), [old.wait_s, 0.0]));
            continue;
        };
        let new = after.remove(renamed).unwrap_or_default();
        rows.push((format!("{name}, then {renamed}"), [old.wait_s, new.wait_s]));
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
