//! The report of `convoy explain RECORD`: what the threads of a program waited for, and why.

use convoy_explain::{Diagnosis, diagnose, verdict};
use convoy_record::account::LockAccount;
use convoy_record::{Account, JAVA, Lock, Record, Times};
use serde::Serialize;

use crate::format::{duration, wrap};
use crate::json::to_json;
use crate::table::{Cell, Column, Table, page_width, page_wrap};

/// Locks that the table for people shows.
const LOCKS_SHOWN: usize = 12;
/// Diagnoses after the first one that it shows.
const DIAGNOSES_SHOWN: usize = 3;
/// Call sites that it shows of each.
const SITES_SHOWN: usize = 3;

/// A recorded program, explained.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedReport {
    /// What was recorded where.
    pub title: String,
    /// The account; its verdict comes first.
    #[serde(flatten)]
    pub account: Account,
    /// What is wrong, the most expensive first.
    pub diagnoses: Vec<Diagnosis>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl RecordedReport {
    /// Of a record.
    pub fn new(record: &Record) -> Self {
        let program = &record.program;
        let command = program.command.join(" ");
        let recorded = || {
            format!(
                "{command}: {}, {} CPU time, {} CPUs ({}), Linux {}, {}",
                duration(program.wall_s * 1e6),
                duration(program.cpu_s * 1e6),
                program.cpus,
                program.cpu_model,
                program.kernel,
                program.ending
            )
        };
        let title = match program.source.as_str() {
            "" => recorded(),
            source => format!("{command}: {source}"),
        };
        let notes = program.disturbance.sentence().into_iter().collect();
        let (mut account, diagnoses) = (Account::new(record), diagnose(record));
        account.verdict = verdict(record);
        Self { title, account, diagnoses, notes }
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = page_wrap(&self.account.verdict) + "\n";
        text += &(page_wrap(&self.title) + "\n");
        if !self.account.findings.is_empty() {
            text += "\n";
        }
        let others = self.diagnoses.iter().filter(|one| one.is_much()).skip(1);
        let others = others.take(DIAGNOSES_SHOWN).map(Diagnosis::text);
        for finding in others.collect::<Vec<_>>().iter().chain(&self.account.findings) {
            text += &(page_wrap(finding) + "\n");
        }
        let count = |one: &&LockAccount| one.lock.is_lock();
        for (locks, title) in [(true, "Locks"), (false, "Condition variables and barriers")] {
            let rows: Vec<&LockAccount> =
                self.account.locks.iter().filter(|one| count(one) == locks).collect();
            if !rows.is_empty() {
                text += "\n";
                text += &table(title, &rows, LOCKS_SHOWN, SITES_SHOWN).to_text();
            }
        }
        for note in self.account.unseen.iter().chain(&self.notes) {
            text.extend(wrap(note, page_width()).into_iter().map(|line| line + "\n"));
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Locks and call sites, for spreadsheets.
    pub fn to_csv(&self) -> String {
        let rows: Vec<&LockAccount> = self.account.locks.iter().collect();
        table("", &rows, usize::MAX, usize::MAX).to_csv()
    }

    /// Time waited as folded stacks, microseconds: process, lock, call site.
    pub fn stacks(&self) -> Vec<(Vec<String>, u64)> {
        let mut stacks = Vec::new();
        for one in &self.account.locks {
            for site in one.lock.sites.iter().filter(|site| site.wait.count > 0) {
                let kind = kind(&one.lock);
                let process = match one.pid {
                    0 if !one.lock.kernel.is_empty() => "kernel".to_owned(),
                    pid => format!("process {pid}"),
                };
                let frames = [process, site.place.clone(), site.act.clone()];
                let lock = format!("{} ({kind})", one.lock.name);
                let us = (site.wait.total_s * 1e6).round() as u64;
                stacks.push((frames.into_iter().chain([lock]).collect(), us));
            }
        }
        stacks
    }
}

/// What a lock is, in words.
fn kind(lock: &Lock) -> String {
    match lock.kernel.as_str() {
        "" if lock.runtime == JAVA => "monitor".to_owned(),
        "" => lock.kind.name().to_owned(),
        kernel => format!("kernel {kernel}"),
    }
}

fn table(title: &str, rows: &[&LockAccount], most: usize, sites: usize) -> Table {
    let columns = vec![
        Column::text("Lock").key("lock"),
        Column::text("kind"),
        Column::number("total", "").key("wait_us").group("waited for"),
        Column::number("p50", "").key("wait_p50_us").group("waited for"),
        Column::number("max", "").key("wait_max_us").group("waited for"),
        Column::number("taken", "").key("count"),
        Column::number("waited", "%").key("contended_percent"),
        Column::number("threads", ""),
        Column::number("p50", "").key("hold_p50_us").group("held"),
        Column::number("mean", "").key("hold_mean_us").group("held"),
        Column::number("off CPU", "%").key("owner_off_cpu_percent").group("held"),
        Column::number("passed on", "").key("handoff_p50_us"),
    ];
    let mut table = Table::new(title, columns);
    for one in rows.iter().take(most) {
        let lock = &one.lock;
        let all = |of: fn(&convoy_record::Site) -> &Times| lock.all(of);
        let instances = if lock.instances > 1 {
            format!(" ({} of them)", lock.instances)
        } else {
            String::new()
        };
        let mut cells =
            vec![Cell::text(format!("{}{instances}", lock.name)), Cell::text(kind(lock))];
        cells.extend(waits(&all(|site| &site.wait)));
        cells.extend([
            Cell::count(lock.count()),
            Cell::number(one.contended_percent, 1),
            Cell::count(lock.sites.iter().map(|site| site.threads).max().unwrap_or(0)),
        ]);
        cells.extend(holds(&all(|site| &site.hold_on), one.owner_off_cpu_percent, lock.is_lock()));
        cells.push(us(all(|site| &site.handoff).percentile_s(50.0)));
        table.row(cells);
        for site in lock.sites.iter().take(sites) {
            let mut cells = vec![
                Cell::text(format!("  {}", site.place)),
                Cell::text(format!("  {}", site.act)),
            ];
            cells.extend(waits(&site.wait));
            // Not known of a place if it is not of the lock.
            let known = if one.contended_percent.is_nan() { f64::NAN } else { 100.0 };
            let waited = known * site.contended as f64 / site.count.max(1) as f64;
            cells.extend([
                Cell::count(site.count),
                Cell::number(waited, 1),
                Cell::count(site.threads),
            ]);
            cells.extend(holds(&site.hold_on, f64::NAN, lock.is_lock()));
            cells.push(us(site.handoff.percentile_s(50.0)));
            table.row(cells);
        }
    }
    table.note(
        "held: on the CPU, from samples; off CPU: of the time held, by switches of the owner; \
         passed on: from a release with waiters to the next owner running (median)",
    );
    if rows.len() > most {
        table.note(format!("and {} more; --format csv has all", rows.len() - most));
    }
    table
}

fn us(seconds: Option<f64>) -> Cell {
    let value = seconds.map_or(f64::NAN, |seconds| seconds * 1e6);
    Cell::shown(duration(value), value)
}

fn waits(wait: &Times) -> [Cell; 3] {
    let some = (wait.count > 0).then_some(());
    [us(Some(wait.total_s)), us(wait.percentile_s(50.0)), us(some.map(|()| wait.max_s))]
}

fn holds(hold: &Times, off_cpu_percent: f64, is_lock: bool) -> [Cell; 3] {
    let some = (hold.count > 0 && is_lock).then_some(());
    [
        us(some.and_then(|()| hold.percentile_s(50.0))),
        us(some.map(|()| hold.mean_s())),
        Cell::number(some.map_or(f64::NAN, |()| off_cpu_percent), 1),
    ]
}
