//! The live view of running processes: `convoy top`.

mod metrics;
mod screen;
#[cfg(test)]
mod tests;

use convoy_diagnose::{Account, Diagnosis, Kind, LockAccount, is_owned};
use convoy_record::{Doing, Lately, Lock, Process, Record, Seen, total};
use serde::Serialize;
use std::collections::BTreeSet;

use crate::diagnosis;
use crate::format::{duration, fixed};
use crate::json::to_json;
use crate::recorded::{is_trifle, kind};
use crate::table::{Cell, Column, Table, page_wrap, table_width};

pub use screen::{ScreenLine, ScreenPart, ScreenView, Sorting};

/// Version of the facts in the JSON. Fields may be added, but existing fields keep their meaning.
const SCHEMA: u32 = 1;
/// Rows of the table for people.
const ROWS: usize = 20;
/// Width of a page, in characters, from which the table has the places, too.
const WIDE: usize = 110;

/// What happened lately in running processes. Rates are per second of the window.
#[derive(Clone, Debug, Serialize)]
pub struct TopReport {
    /// Version of the facts.
    pub schema: u32,
    /// The observed command.
    pub command: Vec<String>,
    /// The first sentence, as of a record of the same time.
    pub verdict: String,
    /// Kind of the problem that it is about, if there is one.
    pub kind: Option<Kind>,
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Time since the observation began, in seconds.
    pub elapsed_s: f64,
    /// CPU time of this command during the window, as a share of one CPU, in percent.
    pub cost_percent: f64,
    /// Number of observed processes.
    pub processes: u64,
    /// Their threads by activity, most threads first.
    pub threads: Vec<ThreadsRow>,
    /// Locks, longest wait time first; conditions and barriers come last.
    pub locks: Vec<TopLock>,
    /// Sentences about what could not be observed.
    pub unseen: Vec<String>,
    /// Number of their threads.
    #[serde(skip)]
    thread_count: u64,
}

/// Threads with the same activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadsRow {
    /// The activity.
    pub doing: Doing,
    /// Name of the system call, lock or condition; empty if there is none.
    pub what: String,
    /// Mean number of threads.
    pub threads: f64,
}

/// A lock and its owner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopLock {
    /// The process; 0 for a lock of the kernel.
    pub pid: u64,
    /// Its program.
    pub program: String,
    /// Name of the lock.
    pub lock: String,
    /// Its kind in words.
    pub kind: String,
    /// Whether a waiter waits for an owner; otherwise it is a condition or a barrier.
    pub is_owned: bool,
    /// Time that threads waited, in seconds per second: the mean number of waiting threads.
    pub waiting_threads: f64,
    /// Number of waits per second, including those that had not ended.
    pub waits_per_s: f64,
    /// Number of threads that waited at the end of the window; `None` if it is not known.
    pub waiting_now: Option<u64>,
    /// Share of all lock wait time, in percent; for a condition, of all condition wait time.
    pub wait_percent: f64,
    /// The place where threads waited longest.
    pub place: Option<String>,
    /// Its most frequent owner.
    pub owner: Option<TopOwner>,
    /// The most frequent activities of its owners, at most three.
    pub doing: Vec<TopDoing>,
    /// Whether people are not shown it: a lock of the kernel with little waiting.
    #[serde(skip)]
    pub is_trifle: bool,
}

/// The thread that owned a lock most often while others waited for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopOwner {
    /// Thread ID.
    pub thread: u64,
    /// The name that the program gave to it.
    pub name: Option<String>,
    /// Share of the samples of owners, in percent.
    pub percent: f64,
}

/// An activity of the owners of a lock while others waited for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopDoing {
    /// The activity.
    pub doing: Doing,
    /// Name of the system call, lock or condition; empty if there is none.
    pub what: String,
    /// Where; empty if unknown.
    pub place: String,
    /// Share of the samples of owners, in percent.
    pub percent: f64,
}

/// Times of an observation, in seconds.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "they end in their unit")]
pub struct TopTimes {
    /// Length of the window.
    pub window_s: f64,
    /// Time since the observation began.
    pub elapsed_s: f64,
    /// CPU time of this command during the window.
    pub cost_s: f64,
}

impl TopReport {
    /// Diagnoses the record of a window. `lately` are its processes.
    pub fn new(record: &Record, lately: &[Lately], times: TopTimes) -> Self {
        let diagnosis = Diagnosis::new(record);
        let verdict = diagnosis::verdict(&diagnosis);
        let kind = diagnosis.first().map(convoy_diagnose::Finding::kind);
        let window_s = times.window_s.max(f64::MIN_POSITIVE);
        Self {
            schema: SCHEMA,
            command: record.program.command.clone(),
            verdict,
            kind,
            window_s: times.window_s,
            elapsed_s: times.elapsed_s,
            cost_percent: 100.0 * times.cost_s / window_s,
            processes: record.processes.len() as u64,
            threads: threads(lately),
            locks: locks(&diagnosis.account, record, lately, window_s),
            unseen: record.unseen.clone(),
            thread_count: total(record.processes.iter().map(|process| process.threads)),
        }
    }

    /// For people: the first sentence, the threads and the locks.
    pub fn to_text(&self) -> String {
        let mut text = page_wrap(&self.verdict) + &page_wrap(&self.title());
        text += &page_wrap(&self.threads_line());
        let rows: Vec<&TopLock> = self.locks.iter().filter(|row| !row.is_trifle).collect();
        if !rows.is_empty() {
            text += "\n";
            text += &table(&rows, ROWS, table_width() >= WIDE).to_text_of_names();
        }
        for sentence in &self.unseen {
            text += &page_wrap(sentence);
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// The locks, for spreadsheets.
    pub fn to_csv(&self) -> String {
        let rows: Vec<&TopLock> = self.locks.iter().collect();
        table(&rows, usize::MAX, true).to_csv()
    }

    /// The observed command and the times.
    fn title(&self) -> String {
        let command = self.command.join(" ");
        let processes = match self.processes {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        };
        let threads = self.thread_count;
        format!(
            "{processes}, {threads} threads; the last {}; cost {} % of a CPU: {command}",
            duration(self.window_s * 1e6),
            fixed(self.cost_percent, 1)
        )
    }

    /// The threads by activity, as one line.
    fn threads_line(&self) -> String {
        const NAMED: usize = 4;
        /// Mean number of threads below which an activity is not named.
        const FEW: f64 = 0.05;
        let rows: Vec<&ThreadsRow> = self.threads.iter().filter(|row| row.threads >= FEW).collect();
        let mut parts: Vec<String> = rows
            .iter()
            .take(NAMED)
            .map(|row| {
                format!("{} {}", fixed(row.threads, 1), activity(row.doing, &row.what, true))
            })
            .collect();
        let others: f64 = rows.iter().skip(NAMED).map(|row| row.threads).sum();
        if others > 0.0 {
            parts.push(format!("{} do something else", fixed(others, 1)));
        }
        if parts.is_empty() {
            return "Threads: none was sampled.".to_owned();
        }
        format!("Threads: {}.", parts.join(", "))
    }
}

/// Returns the mean numbers of threads by activity, most threads first.
fn threads(lately: &[Lately]) -> Vec<ThreadsRow> {
    let mut rows: Vec<ThreadsRow> = Vec::new();
    for one in lately {
        for Seen { doing, what, count, .. } in &one.states {
            let threads = *count as f64 / one.looks.max(1) as f64;
            match rows.iter_mut().find(|row| row.doing == *doing && row.what == *what) {
                Some(row) => row.threads += threads,
                None => rows.push(ThreadsRow { doing: *doing, what: what.clone(), threads }),
            }
        }
    }
    rows.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    rows
}

/// Returns the locks that threads waited for.
fn locks(account: &Account, record: &Record, lately: &[Lately], window_s: f64) -> Vec<TopLock> {
    let waited = account.locks.iter().filter(|one| one.waited_s > 0.0);
    let locks = waited.map(|one| TopLock {
        is_trifle: is_trifle(one, account.busy_s),
        ..lock(one, record, lately, window_s)
    });
    locks.collect()
}

fn lock(one: &LockAccount, record: &Record, lately: &[Lately], window_s: f64) -> TopLock {
    let process = record.processes.iter().find(|process| process.pid == one.pid);
    let lately = lately.iter().find(|lately| lately.process.pid == one.pid);
    let waits: u64 = one.lock.sites.iter().map(|site| site.wait.count).sum();
    // Samples are from about the same time as the window.
    let seconds = process.map_or(window_s, |process| process.seconds.max(f64::MIN_POSITIVE));
    let site = one.lock.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s));
    TopLock {
        pid: one.pid,
        program: process.map(program).unwrap_or_default(),
        lock: one.lock.name.clone(),
        kind: kind(&one.lock),
        is_owned: is_owned(&one.lock),
        waiting_threads: one.waited_s / seconds,
        waits_per_s: waits as f64 / seconds,
        waiting_now: process.map(|process| waiting(process, &one.lock)),
        wait_percent: one.wait_percent,
        place: site.map(|site| site.place.clone()),
        owner: lately.and_then(|lately| owner(lately, &one.lock)),
        doing: process.map(|process| doing(process, &one.lock)).unwrap_or_default(),
        is_trifle: false,
    }
}

/// Returns the file name of the program of a process, without what a server adds to it.
fn program(process: &Process) -> String {
    let words = process.command.first().map_or("", String::as_str);
    let path = words.split([' ', ':']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns the number of unfinished waits for a lock.
fn waiting(process: &Process, lock: &Lock) -> u64 {
    let waits = process.pending.iter();
    waits.filter(|wait| wait.lock == lock.name && wait.kind == lock.kind).count() as u64
}

/// Returns the most frequent owner of a lock.
fn owner(lately: &Lately, lock: &Lock) -> Option<TopOwner> {
    let owners = lately.owners.get(&(lock.name.clone(), lock.kind))?;
    let samples: u64 = owners.iter().map(|(_, count)| count).sum();
    let (thread, count) = *owners.first()?;
    let name = lately.process.name_of(thread).map(str::to_owned);
    Some(TopOwner { thread, name, percent: 100.0 * count as f64 / samples.max(1) as f64 })
}

/// Returns the most frequent activities of the owners of a lock.
fn doing(process: &Process, lock: &Lock) -> Vec<TopDoing> {
    /// Maximum number of activities.
    const ACTIVITIES: usize = 3;
    let causes = process.causes.iter();
    let causes = causes.filter(|cause| cause.lock == lock.name && cause.kind == lock.kind);
    let mut owners: Vec<Seen> = Vec::new();
    for seen in causes.flat_map(|cause| &cause.owners) {
        let same = |one: &&mut Seen| {
            (one.doing, &one.what, &one.place) == (seen.doing, &seen.what, &seen.place)
        };
        match owners.iter_mut().find(same) {
            Some(known) => known.count += seen.count,
            None => owners.push(seen.clone()),
        }
    }
    let samples: u64 = owners.iter().map(|seen| seen.count).sum();
    owners.sort_by_key(|seen| core::cmp::Reverse(seen.count));
    let owners = owners.into_iter().take(ACTIVITIES);
    owners
        .map(|Seen { doing, what, place, count }| TopDoing {
            doing,
            what,
            place,
            percent: 100.0 * count as f64 / samples.max(1) as f64,
        })
        .collect()
}

/// Returns an activity as a verb with its object: `sleeps in fsync(2)`. `of_many`: the verb of
/// several threads.
fn activity(doing: Doing, what: &str, of_many: bool) -> String {
    let verb = |one: &str, many: &str| if of_many { many.to_owned() } else { one.to_owned() };
    match doing {
        Doing::Runs | Doing::Woken => verb("runs", "run"),
        Doing::Sleeps => format!("{} in {what}", verb("sleeps", "sleep")),
        Doing::Waits => format!("{} for {what}", verb("waits", "wait")),
        Doing::Idles if what.is_empty() => verb("waits for a thread", "wait for a thread"),
        Doing::Idles => format!("{} at {what}", verb("waits", "wait")),
        Doing::Faults => verb("reads its memory in", "read their memory in"),
        Doing::Free => "free".to_owned(),
    }
}

impl TopLock {
    /// Returns the owner in words.
    fn owner_text(&self) -> String {
        let Some(owner) = &self.owner else { return "not known".to_owned() };
        match &owner.name {
            Some(name) => format!("{name} ({})", owner.thread),
            None => owner.thread.to_string(),
        }
    }

    /// Returns the activities of its owners in words.
    fn doing_text(&self) -> String {
        self.doing.iter().map(TopDoing::text).collect::<Vec<_>>().join(", ")
    }
}

impl TopDoing {
    /// Returns the activity in words, with its share.
    fn text(&self) -> String {
        let percent = fixed(self.percent, 0);
        match self.doing {
            Doing::Sleeps => format!("{} {percent} %", self.what),
            doing => format!("{} {percent} %", activity(doing, &self.what, false)),
        }
    }
}

/// Returns a table of at most `most` locks, with the places if it may be wide.
fn table(rows: &[&TopLock], most: usize, is_wide: bool) -> Table {
    let pids: BTreeSet<u64> = rows.iter().map(|row| row.pid).filter(|pid| *pid != 0).collect();
    let several = pids.len() > 1;
    let mut columns = Vec::new();
    if several {
        columns.push(Column::text("Process").key("process"));
    }
    columns.extend([
        Column::text("Lock").key("lock"),
        Column::text("kind"),
        Column::number("mean", "").key("waiting_threads").group("waiting"),
        Column::number("now", "").key("waiting_now").group("waiting"),
        Column::number("waits/s", "").key("waits_per_s"),
        Column::text("owner"),
        Column::text("activity").key("doing"),
    ]);
    if is_wide {
        columns.push(Column::text("in").key("owner_place"));
        columns.push(Column::text("waiting in").key("place"));
    }
    let mut table = Table::new("", columns);
    for row in rows.iter().take(most) {
        let mut cells = Vec::new();
        if several {
            cells.push(Cell::text(match row.pid {
                0 => "kernel".to_owned(),
                pid => format!("{} ({pid})", row.program),
            }));
        }
        let (owner, doing) = if row.is_owned {
            (row.owner_text(), row.doing_text())
        } else {
            (String::new(), String::new())
        };
        cells.extend([
            Cell::text(row.lock.clone()),
            Cell::text(row.kind.clone()),
            Cell::number(row.waiting_threads, 2),
            row.waiting_now.map_or_else(Cell::empty, Cell::count),
            Cell::number(row.waits_per_s, 0),
            Cell::text(owner),
            Cell::text(doing),
        ]);
        if is_wide {
            let doing = row.doing.iter().find(|doing| !doing.place.is_empty());
            cells.push(Cell::text(doing.map_or("", |doing| &doing.place)));
            cells.push(Cell::text(row.place.as_deref().unwrap_or_default()));
        }
        table.row(cells);
    }
    if rows.len() > most {
        table.note(format!("and {} more", rows.len() - most));
    }
    table
}
