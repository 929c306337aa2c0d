//! The page of a recorded program.

use convoy_diagnose::{LockAccount, is_owned};
use convoy_explain::Lanes;
use convoy_record::{Cause, Record};

use super::{Block, Page};
use crate::format::{duration, fixed};
use crate::recorded::{self, RecordedReport, fold, folded, locks, threads};
use crate::table::{Cell, Column, Table};

/// Rows of a table on a page.
const ROWS: usize = 200;
/// Call sites of a lock.
const SITES: usize = 8;
/// Locks of one name.
const ELEMENTS: usize = 16;

/// The origin of a record, and the command that makes this page again.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The name of the record on the command line.
    pub name: String,
    /// The program that wrote this page.
    pub build: String,
    /// The commands that record and show it again.
    pub again: Vec<String>,
    /// The command that tests the cure of the first diagnosis; empty: there is none.
    pub test: String,
}

impl Page {
    /// Of one record. Further sections may follow; [`Page::end`] comes last.
    pub fn recorded(record: &Record, report: &RecordedReport, origin: &Origin) -> Self {
        let mut page = Self::new(record.program.command.join(" "), report.verdict.clone());
        if let Some(first) = report.first() {
            page.lead.clone_from(&first.sentence);
            page.cure.clone_from(&first.cure);
            page.test.clone_from(&origin.test);
        }
        page.section("Doubts", doubts(report));
        page.record(record, report, "");
        page
    }

    /// The sections of a record; `side` distinguishes two records.
    pub(super) fn record(&mut self, record: &Record, report: &RecordedReport, side: &str) {
        let mut add = |title: &str, blocks: Vec<Block>| {
            let title = if side.is_empty() { title.to_owned() } else { format!("{title}: {side}") };
            self.section(&title, blocks);
        };
        add("The whole run", vec![Block::strip(Lanes::new(record))]);
        add("Who waited for whom", causes(report));
        add("Locks", all_locks(report));
        add("Threads", threads(record, ROWS).iter().map(Block::table).collect());
        let stacks = report.stacks();
        if !stacks.is_empty() {
            let text = "Time that threads waited: process, callers, place, lock, owner. The colour \
                        says what the owner did during the wait.";
            add("Flame graph of waiting", vec![Block::text(text), Block::flame(&stacks)]);
        }
        add("CPU time by place", cpu_time(record));
        add("Further findings", findings(report));
    }

    /// The last section: the origin of the page.
    pub fn end(&mut self, record: &Record, report: &RecordedReport, origin: &Origin) {
        let program = &record.program;
        let mut table = Table::new("", vec![Column::text(""), Column::text("")]);
        let processes = record.processes.len();
        let rows = [
            ("Record", origin.name.clone()),
            ("Command", program.command.join(" ")),
            ("Result", report.title.clone()),
            ("Recorded", program.date.clone()),
            ("Machine", format!("{} CPUs, {}", program.cpus, program.cpu_model)),
            ("Kernel", program.kernel.clone()),
            ("Processes", processes.to_string()),
            ("Locks in use", in_use(record)),
            ("Page made by", origin.build.clone()),
        ];
        for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
            table.row(vec![Cell::text(name), Cell::text(value)]);
        }
        let mut blocks = vec![Block::table(&table)];
        if report.notes.is_empty() && report.unseen.is_empty() {
            blocks.push(Block::text("No doubts were noted while the program was recorded."));
        }
        blocks.push(Block::text("To do it again:"));
        blocks.extend(origin.again.iter().map(Block::command));
        self.section("Where this comes from", blocks);
    }
}

/// Reasons not to believe the figures.
pub(super) fn doubts(report: &RecordedReport) -> Vec<Block> {
    report.notes.iter().chain(&report.unseen).map(Block::text).collect()
}

/// The policies that replace libc's locks.
fn in_use(record: &Record) -> String {
    let program = &record.program;
    let of = |name: &str, policy: &str| (!policy.is_empty()).then(|| format!("{name}: {policy}"));
    let named = program.locks.iter().map(|(place, policy)| format!("{place}: {policy}"));
    let all = of("mutexes", &program.mutex).into_iter().chain(of("semaphores", &program.sem));
    all.chain(named).collect::<Vec<_>>().join(", ")
}

/// The places that waited, the places that held the lock, and the activity of the owners; places
/// with little of the waiting are folded.
fn causes(report: &RecordedReport) -> Vec<Block> {
    /// Share of the waiting below which a row is folded.
    const LITTLE: f64 = 0.01;
    if report.causes.is_empty() {
        return Vec::new();
    }
    let whole_s = report.waited_s();
    let causes = report.causes.iter().take(ROWS);
    let (rows, little): (Vec<&Cause>, Vec<&Cause>) =
        causes.partition(|cause| cause.wait_s >= LITTLE * whole_s);
    let mut blocks = vec![Block::hint("Choose a row to mark its waits in the strip.")];
    if !rows.is_empty() {
        blocks.push(linked_causes(&rows, whole_s));
    }
    if !little.is_empty() {
        let wait_s: f64 = little.iter().map(|cause| cause.wait_s).sum();
        let title = format!("{} more below 1 %, {} in all", little.len(), seconds(wait_s));
        blocks.push(Block::folded(title, vec![linked_causes(&little, whole_s)]));
    }
    if report.causes.len() > ROWS {
        let more = report.causes.len() - ROWS;
        blocks.push(Block::text(format!("and {more} more; convoy explain has all")));
    }
    blocks
}

fn linked_causes(causes: &[&Cause], whole_s: f64) -> Block {
    let links = causes
        .iter()
        .map(|cause| Some([cause.lock.clone(), cause.place.clone(), cause.held_at.clone()]));
    Block::linked(&recorded::causes("", causes, whole_s), &links.collect::<Vec<_>>())
}

/// Locks, then conditions and barriers; those with little waiting are folded.
fn all_locks(report: &RecordedReport) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (is_lock, title) in [(true, ""), (false, "Condition variables and barriers")] {
        let every = report.account.locks.iter();
        let rows: Vec<_> = every.filter(|one| is_owned(&one.lock) == is_lock).collect();
        let (rows, little) = fold(rows, report.account.busy_s);
        if !rows.is_empty() {
            blocks.push(locks_table(title, &rows));
        }
        if let Some(line) = folded(&little) {
            blocks.push(Block::folded(line, vec![locks_table("", &little)]));
        }
    }
    blocks
}

fn locks_table(title: &str, rows: &[&LockAccount]) -> Block {
    let links = rows.iter().take(ROWS).flat_map(|one| {
        let lock = || one.lock.name.clone();
        let sites = one.lock.sites.iter().take(SITES);
        let sites = sites.map(move |site| Some([lock(), site.place.clone(), String::new()]));
        let whole = move || Some([lock(), String::new(), String::new()]);
        let elements = one.lock.elements.iter().take(ELEMENTS).map(move |_| whole());
        std::iter::once(whole()).chain(sites).chain(elements)
    });
    let links: Vec<_> = links.collect();
    Block::linked(&locks(title, rows, ROWS, [SITES, ELEMENTS]), &links)
}

/// Where the program spent CPU time, by samples.
fn cpu_time(record: &Record) -> Vec<Block> {
    let columns = vec![
        Column::text("Function"),
        Column::text("called by"),
        Column::number("CPU time", "%"),
        Column::number("samples", ""),
        Column::number("at waiting loops", "%"),
        Column::number("at atomic operations", "%"),
    ];
    let mut table = Table::new("", columns);
    let all: u64 = record.processes.iter().map(|process| process.samples).sum();
    let hot = record.processes.iter().flat_map(|process| &process.hot);
    let mut hot: Vec<_> = hot.filter(|hot| hot.count > 0).collect();
    hot.sort_by_key(|hot| std::cmp::Reverse(hot.count));
    for hot in hot.iter().take(ROWS) {
        let part = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        table.row(vec![
            Cell::text(&hot.place),
            Cell::text(&hot.caller),
            Cell::number(part(hot.count, all.max(hot.count)), 1),
            Cell::count(hot.count),
            Cell::number(part(hot.spins, hot.count), 0),
            Cell::number(part(hot.atomics, hot.count), 0),
        ]);
    }
    if table.is_empty() {
        return vec![Block::text("No CPU time was sampled.")];
    }
    let samples = if all == 1 { "sample" } else { "samples" };
    table.note(format!("{all} {samples} of {} s of CPU time", fixed(record.program.cpu_s, 2)));
    vec![Block::table(&table)]
}

/// Further diagnoses and sentences of the account.
fn findings(report: &RecordedReport) -> Vec<Block> {
    let (others, facts) = report.further();
    others.into_iter().chain(facts.iter().cloned()).map(Block::text).collect()
}

/// Seconds as people read them.
pub(super) fn seconds(seconds: f64) -> String {
    duration(seconds * 1e6)
}
