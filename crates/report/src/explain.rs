//! The report of `convoy explain`: how a run spent its time, and why.

use crate::explain_text;
use crate::format::{fixed, significant, width, wrap};
use crate::json::{WithVerdict, to_json};
use crate::table::{Cell, Column, Table, page_width, page_wrap};
use crate::verdict;
use convoy_explain::{LockSummary, Share, Summary};
use convoy_lab::bulk::{BulkUse, MeanSd};
use convoy_lab::experiment::Target;
use convoy_lab::inputs::Inputs;
use convoy_lab::virtual_run::RcuStats;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Locks that the table for people shows.
const LOCKS_SHOWN: usize = 12;

/// Value of a call that does not take a free block.
const NO_ORDER: MeanSd = MeanSd { mean: f64::NAN, sd: f64::NAN };

/// Activity of RCU's threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RcuThreads {
    /// Their wakeups.
    pub wakeups: u64,
    /// Of the ticks of all CPUs, those at which one was woken, percent.
    pub woken_percent: f64,
    /// Of their rounds, those without a callback that was ready, percent.
    pub without_callbacks_percent: f64,
    /// Times that the locks of the vectors of real-time tasks were taken for each wakeup.
    pub vector_locks: f64,
}

/// The lock of one priority in the vectors of CPUs by their highest real-time task.
const VECTOR_LOCK: &str = "cpupri_vec->lock";
/// Locks of the first screen, and the share of all waiting below which one is not on it.
const SCREEN_LOCKS: usize = 6;
const LEAST: f64 = 0.01;
/// A lock for which CPUs spin less than this percentage of their time is not a cause.
const SPIN_PERCENT: f64 = 1.0;

impl RcuThreads {
    /// From what RCU counted, and the locks of the same time.
    pub fn new(rcu: &RcuStats, summary: &Summary) -> Option<Self> {
        let wakeups = rcu.thread_wakeups as f64;
        let lock = summary.locks.iter().find(|lock| lock.name == VECTOR_LOCK);
        (rcu.thread_wakeups > 0).then(|| Self {
            wakeups: rcu.thread_wakeups,
            woken_percent: 100.0 * wakeups / rcu.asked as f64,
            without_callbacks_percent: 100.0 * rcu.idle_rounds as f64 / wakeups,
            vector_locks: lock.map_or(0.0, |lock| lock.acquisitions as f64) / wakeups,
        })
    }

    fn sentence(&self) -> String {
        format!(
            "RCU's real-time threads are woken on {} % of all ticks, {} % of the wakeups find no \
             callback ready, and each takes the locks of the real-time vectors ({VECTOR_LOCK}) {} \
             times, which all CPUs share.",
            fixed(self.woken_percent, 0),
            fixed(self.without_callbacks_percent, 0),
            fixed(self.vector_locks, 1)
        )
    }
}

/// Whether CPUs spin for the locks that threads of RCU take.
fn spins_for_vectors(summary: &Summary) -> bool {
    let all = summary.window_s * summary.cpus as f64;
    let spun = summary.spinning.iter().find(|share| share.name == VECTOR_LOCK);
    spun.is_some_and(|share| 100.0 * share.seconds / all >= SPIN_PERCENT)
}

/// The explained run.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Explained {
    /// AIM7 on a virtual kernel.
    Load {
        /// Inputs of the run.
        #[serde(flatten)]
        inputs: Box<Inputs>,
        /// Users.
        users: u64,
        /// AIM7's throughput.
        jobs_per_min: f64,
    },
    /// A cell of an experiment: a workload, or pages in a loop.
    Cell {
        /// Which of them.
        target: Target,
        /// Its presets, by kind.
        parts: Value,
        /// Its other inputs.
        settings: Value,
        /// Results by metric.
        metrics: BTreeMap<String, f64>,
    },
}

impl Explained {
    /// The line of the figures of a cell.
    fn figures(&self) -> Option<String> {
        let Self::Cell { metrics, .. } = self else { return None };
        let figures: Vec<String> =
            metrics.iter().map(|(key, value)| format!("{key} {}", significant(*value))).collect();
        Some(page_wrap(&figures.join(", ")) + "\n")
    }
}

/// An explained run.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainReport {
    /// What ran where.
    pub title: String,
    /// The command that prints the same report.
    pub replay: String,
    /// Inputs and results of the run.
    #[serde(flatten)]
    pub explained: Explained,
    /// Schedule hash of the run, the same as without recording.
    pub hash: String,
    /// The account.
    pub summary: Summary,
    /// Bulk operations of the page allocator, zone by zone.
    pub bulk: Vec<BulkUse>,
    /// RCU's threads, where the kernel has such and they were woken.
    pub rcu_threads: Option<RcuThreads>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A line that is indented, or several if the page is too narrow.
fn indented(line: &str) -> String {
    let (line, room) = (line.to_owned(), page_width() - 4);
    let lines = if width(&line) <= room { vec![line] } else { wrap(&line, room) };
    format!("    {}\n", lines.join("\n    "))
}

fn paragraph(title: &str, sentences: &[String]) -> String {
    let lines = wrap(&sentences.join(" "), page_width() - 2);
    let lines: Vec<String> = lines.iter().map(|line| format!("  {}", line.trim_start())).collect();
    format!("\n{title}\n{}\n", lines.join("\n"))
}

/// A command, continued in the next line as a shell does where the page is too narrow.
fn command(words: &str) -> String {
    format!("  {}\n", wrap(words, page_width() - 4).join(" \\\n  "))
}

impl ExplainReport {
    /// For people: one screen of it.
    pub fn to_screen(&self) -> String {
        let mut text = self.head();
        text.extend(self.screen_locks().map(|table| format!("\n{}", table.to_text())));
        text.extend(self.story());
        let command = command(&self.replay);
        text + "\n"
            + &self.remarks()
            + &page_wrap(
                "--all shows CPU time by state, idle time by cause, every column of the locks and \
                 the critical chain.",
            )
            + &format!("schedule hash {}; replay:\n", self.hash)
            + &command
    }

    /// For people: all of it.
    pub fn to_text(&self) -> String {
        let mut text = self.head();
        let pages = Some(self.pages()).filter(|_| !self.bulk.is_empty());
        let tables = [self.states(), self.idle(), self.locks(LOCKS_SHOWN)];
        for table in tables.into_iter().chain(pages) {
            text.push('\n');
            text.push_str(&table.to_text());
        }
        if let (Some(story), Some(convoy)) = (self.story(), &self.summary.longest) {
            text.push_str(&story);
            text.push_str("  The wakeups that led to its end:\n");
            text.extend(convoy.chain.iter().map(|hop| indented(&explain_text::hop(hop))));
        }
        text.push_str(&paragraph("The critical chain", &explain_text::chain(&self.summary)));
        text.extend(self.summary.chain.last.iter().map(|hop| indented(&explain_text::hop(hop))));
        text.push('\n');
        text += &self.remarks();
        text + &format!("schedule hash {}; replay:\n", self.hash) + &command(&self.replay)
    }

    /// The verdict, what ran, and the cause.
    fn head(&self) -> String {
        let mut text = page_wrap(&self.verdict()) + "\n";
        text += &page_wrap(&self.title);
        text.extend(self.explained.figures());
        let cause = explain_text::cause(&self.summary);
        if !cause.is_empty() {
            text.push_str(&paragraph("Cause", &cause));
        }
        text
    }

    fn story(&self) -> Option<String> {
        let convoy = self.summary.longest.as_ref()?;
        Some(paragraph("The longest convoy", &explain_text::narrate(convoy)))
    }

    fn remarks(&self) -> String {
        self.notes.iter().map(|note| page_wrap(note)).collect()
    }

    /// The locks that tasks waited for longest, in the columns that a person needs first.
    fn screen_locks(&self) -> Option<Table> {
        let columns = vec![
            Column::text("Lock"),
            Column::number("waited for", ""),
            Column::number("share", "%"),
            Column::number("longest", ""),
            Column::number("taken", ""),
            Column::number("waited", "%"),
            Column::number("owned", "%"),
            Column::number("off CPU", "%"),
        ];
        let mut table = Table::new("", columns);
        let all: f64 = self.summary.locks.iter().map(|lock| lock.wait_s).sum();
        let is_much = |lock: &&LockSummary| lock.wait_s > 0.0 && lock.wait_s >= LEAST * all;
        let shown: Vec<_> = self.summary.locks.iter().filter(is_much).take(SCREEN_LOCKS).collect();
        for lock in &shown {
            let [name, total, _, _, longest, taken, waited, _, _, owned, off, ..] =
                <[Cell; 16]>::try_from(self.lock_row(lock)).expect("a cell for each column");
            let share = Cell::number(100.0 * lock.wait_s / all, 0);
            table.row(vec![name, total, share, longest, taken, waited, owned, off]);
        }
        table.note(
            "waited: acquisitions that had to wait; owned, off CPU: of the time, with an owner, \
             and with an owner on no CPU",
        );
        table.note(format!("and {} locks more", self.summary.locks.len() - shown.len()));
        (!shown.is_empty()).then_some(table)
    }

    /// What took the CPUs from the work, in one sentence.
    pub fn verdict(&self) -> String {
        let account = verdict::account(&self.summary);
        let threads = self.rcu_threads.as_ref().filter(|_| spins_for_vectors(&self.summary));
        threads.map_or(account.clone(), |threads| format!("{} {account}", threads.sentence()))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        to_json(&WithVerdict { verdict: &self.verdict(), report: self })
    }

    /// The locks, for spreadsheets.
    pub fn to_csv(&self) -> String {
        self.locks(usize::MAX).to_csv()
    }

    fn all_s(&self) -> f64 {
        self.summary.window_s * self.summary.cpus as f64
    }

    pub(crate) fn states(&self) -> Table {
        let title = format!(
            "CPU time by state, {} s of {} CPUs",
            fixed(self.summary.window_s, 3),
            self.summary.cpus
        );
        let mut table = Table::new(&title, share_columns("state"));
        for share in &self.summary.states {
            table.row(self.share_row(share, ""));
            if share.name == "spinning" {
                for lock in self.summary.spinning.iter().take(3) {
                    table.row(self.share_row(lock, "  on "));
                }
            }
        }
        table
    }

    pub(crate) fn idle(&self) -> Table {
        let mut table = Table::new("Idle time by cause", share_columns("while"));
        for share in &self.summary.idle {
            table.row(self.share_row(share, ""));
        }
        table
    }

    fn share_row(&self, share: &Share, mark: &str) -> Vec<Cell> {
        vec![
            Cell::text(format!("{mark}{}", share.name)),
            Cell::number(share.seconds, 3),
            Cell::number(100.0 * share.seconds / self.all_s().max(f64::MIN_POSITIVE), 1),
        ]
    }

    pub(crate) fn locks(&self, most: usize) -> Table {
        let columns = vec![
            Column::text("Lock").key("lock"),
            Column::number("total", "").key("wait_us").group("waited for"),
            Column::number("p50", "").key("wait_p50_us").group("waited for"),
            Column::number("p99", "").key("wait_p99_us").group("waited for"),
            Column::number("max", "").key("wait_max_us").group("waited for"),
            Column::number("taken", "").key("acquisitions"),
            Column::number("waited", "%").key("contended_percent"),
            Column::number("given", "%").key("handoff_percent"),
            Column::number("moved", "").key("transfers"),
            Column::number("owned", "%").key("owned_percent").group("of the time"),
            Column::number("off CPU", "%").key("owner_not_running_percent").group("of the time"),
            Column::number("convoy", "%").key("convoy_percent").group("of the time"),
            Column::number("p50", "").key("hold_p50_us").group("held"),
            Column::number("p99", "").key("hold_p99_us").group("held"),
            Column::number("p50", "").key("handoff_p50_us").group("passed on"),
            Column::number("p99", "").key("handoff_p99_us").group("passed on"),
        ];
        let mut table = Table::new("Locks, the one waited for longest first", columns);
        let locks = &self.summary.locks;
        for lock in locks.iter().take(most) {
            table.row(self.lock_row(lock));
        }
        table.note(
            "waited: acquisitions that had to wait; given: to a waiter by the releaser; moved: \
             fetches of the lock's cache line; held: from the owner's first step with it to the \
             release; waited for: until it is owned; passed on: from a release with waiters to the \
             next owner running; owned, off CPU, convoy: with an owner, with an owner on no CPU, \
             in convoys (sums over the locks of the name)",
        );
        if locks.len() > most {
            table.note(format!("and {} locks more; --format csv has all", locks.len() - most));
        }
        table
    }

    fn pages(&self) -> Table {
        let columns = vec![
            Column::text("call"),
            Column::text("zone"),
            Column::number("calls", ""),
            Column::number("mean", "").key("count_mean").group("count"),
            Column::number("sd", "").key("count_sd").group("count"),
            Column::number("mean", "").key("order_mean").group("order"),
            Column::number("sd", "").key("order_sd").group("order"),
            Column::number("mean", "").key("found_order_mean").group("cut from order"),
            Column::number("sd", "").key("found_order_sd").group("cut from order"),
        ];
        let mut table = Table::new("Pages moved under the zone lock", columns);
        for row in &self.bulk {
            let mut cells =
                vec![Cell::text(&row.call), Cell::text(&row.zone), Cell::count(row.calls)];
            for MeanSd { mean, sd } in [row.count, row.order, row.found_order.unwrap_or(NO_ORDER)] {
                cells.extend([Cell::number(mean, 2), Cell::number(sd, 2)]);
            }
            table.row(cells);
        }
        table.note(
            "count: pages of a call; order: of what was asked for or freed, blocks that are taken \
             singly included; cut from order: of the free block that each page was taken out of",
        );
        table
    }

    fn lock_row(&self, lock: &LockSummary) -> Vec<Cell> {
        let percent = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 0.0 };
        let taken = lock.acquisitions as f64;
        vec![
            Cell::text(&lock.name),
            Cell::duration(Some(lock.wait_s * 1e6)),
            Cell::duration(lock.wait.p50_us),
            Cell::duration(lock.wait.p99_us),
            Cell::duration(lock.wait.max_us),
            Cell::count(lock.acquisitions),
            Cell::number(percent(lock.contended as f64, taken), 1),
            Cell::number(percent(lock.handoffs as f64, taken), 1),
            Cell::count(lock.transfers),
            Cell::number(percent(lock.owned_s, self.summary.window_s), 1),
            Cell::number(percent(lock.owner_not_running_s, self.summary.window_s), 1),
            Cell::number(percent(lock.convoy_s, self.summary.window_s), 1),
            Cell::duration(lock.hold.p50_us),
            Cell::duration(lock.hold.p99_us),
            Cell::duration(lock.handoff.p50_us),
            Cell::duration(lock.handoff.p99_us),
        ]
    }
}

fn share_columns(what: &str) -> Vec<Column> {
    vec![
        Column::text(what),
        Column::number("CPU time", "s").key("seconds"),
        Column::number("share", "%").key("percent"),
    ]
}
