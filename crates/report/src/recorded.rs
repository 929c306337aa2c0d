//! The report of `convoy explain RECORD`: the lock waits of a program's threads, and their causes.

use convoy_diagnose::{
    Account, Cure, Diagnosis, Finding, Kind, LockAccount, OwnerState, Quiet, Remark, Verdict,
    is_owned, owner_parts,
};
use convoy_record::{Cause, Element, JAVA, Lock, Process, Record, Site, Thread, Times};
use serde::Serialize;

use crate::diagnosis;
use crate::format::{duration, wrap};
use crate::json::to_json;
use crate::table::{Cell, Column, Table, page_width, page_wrap};

/// Locks that the table for people shows.
const LOCKS_SHOWN: usize = 12;
/// Diagnoses shown after the first.
const DIAGNOSES_SHOWN: usize = 3;
/// Call sites that it shows of each.
const SITES_SHOWN: usize = 3;

/// Locks of one name that it shows of each.
const ELEMENTS_SHOWN: usize = 16;

/// Threads that it shows.
const THREADS_SHOWN: usize = 24;
/// Pairs of places that it shows.
const CAUSES_SHOWN: usize = 8;

/// Version of the facts in the JSON. Fields may be added, but existing fields keep their meaning.
const SCHEMA: u32 = 1;

/// A finding with its sentences.
#[derive(Clone, Debug, Serialize)]
pub struct FindingRow {
    /// Kind of the problem.
    pub kind: Kind,
    /// The same, under its first name.
    pub ill: Kind,
    /// What helps.
    pub cure_kind: Cure,
    /// The facts.
    #[serde(flatten)]
    pub finding: Finding,
    /// The problem and its reason.
    pub sentence: String,
    /// The cure.
    pub cure: String,
}

/// A recorded program, explained.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedReport {
    /// Version of the facts.
    pub schema: u32,
    /// The recorded program and its machine.
    pub title: String,
    /// The first sentence.
    pub verdict: String,
    /// Waits by lock.
    #[serde(flatten)]
    pub account: Account,
    /// Further facts on the run, as sentences.
    pub findings: Vec<String>,
    /// The same facts.
    pub remarks: Vec<Remark>,
    /// The activity of threads if no finding is relevant.
    pub quiet: Option<Quiet>,
    /// Limits of the record: what could not be observed.
    pub unseen: Vec<String>,
    /// Findings, the most expensive first.
    pub diagnoses: Vec<FindingRow>,
    /// Which places waited for which places, the most waiting first.
    pub causes: Vec<Cause>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Index of the finding that the first sentence is about.
    #[serde(skip)]
    first: Option<usize>,
    /// The threads, if the program named some.
    #[serde(skip)]
    threads: Option<Table>,
}

impl RecordedReport {
    /// Diagnoses a record and writes its sentences.
    pub fn new(record: &Record) -> Self {
        let diagnosis = Diagnosis::new(record);
        let causes = record.processes.iter().flat_map(|process| &process.causes);
        let mut causes: Vec<Cause> = causes.filter(|cause| cause.wait_s > 0.0).cloned().collect();
        causes.sort_by(|a, b| b.wait_s.total_cmp(&a.wait_s));
        let verdict = diagnosis::verdict(&diagnosis);
        let Diagnosis { account, findings, remarks, verdict: kind } = diagnosis;
        let (first, quiet) = match kind {
            Verdict::Finding(index) => (Some(index), None),
            Verdict::Quiet(quiet) => (None, Some(*quiet)),
            Verdict::Damaged => (None, None),
        };
        let diagnoses = findings.into_iter().map(|finding| FindingRow {
            kind: finding.kind(),
            ill: finding.kind(),
            cure_kind: finding.cure(),
            sentence: diagnosis::sentence(&finding),
            cure: diagnosis::cure(&finding),
            finding,
        });
        Self {
            schema: SCHEMA,
            title: title(record),
            verdict,
            account,
            findings: remarks.iter().map(diagnosis::remark).collect(),
            remarks,
            quiet,
            unseen: record.unseen.clone(),
            diagnoses: diagnoses.collect(),
            causes,
            notes: record.program.disturbance.sentence().into_iter().collect(),
            first,
            threads: threads(record, THREADS_SHOWN),
        }
    }

    /// Returns the finding that the first sentence is about, if it is about one.
    pub fn first(&self) -> Option<&FindingRow> {
        self.diagnoses.get(self.first?)
    }

    /// Returns the relevant findings after the first one, and the further facts, as sentences.
    pub(crate) fn further(&self) -> (Vec<String>, &[String]) {
        let relevant = self.diagnoses.iter().filter(|row| row.finding.is_relevant());
        (relevant.skip(1).map(FindingRow::text).collect(), &self.findings)
    }

    /// For people, with everything; [`Self::to_screen`] comes first.
    pub fn to_text(&self) -> String {
        let mut text = page_wrap(&self.verdict) + "\n";
        text += &(page_wrap(&self.title) + "\n");
        if !self.findings.is_empty() {
            text += "\n";
        }
        let (others, facts) = self.further();
        for sentence in others.iter().take(DIAGNOSES_SHOWN).chain(facts) {
            text += &(page_wrap(sentence) + "\n");
        }
        let count = |one: &&LockAccount| is_owned(&one.lock);
        for (is_lock, title) in [(true, "Locks"), (false, "Condition variables and barriers")] {
            let rows: Vec<&LockAccount> =
                self.account.locks.iter().filter(|one| count(one) == is_lock).collect();
            let (rows, little) = fold(rows, self.account.busy_s);
            if !rows.is_empty() {
                text += "\n";
                let mut table = locks(title, &rows, LOCKS_SHOWN, [SITES_SHOWN, ELEMENTS_SHOWN]);
                table.lean();
                text += &table.to_text_of_names();
            }
            text.extend(folded(&little).map(|line| page_wrap(&line) + "\n"));
        }
        if !self.causes.is_empty() {
            text += "\n";
            let shown: Vec<&Cause> = self.causes.iter().take(CAUSES_SHOWN).collect();
            let mut table = causes("Who waited for whom", &shown, self.waited_s());
            table.lean();
            text += &table.to_text_of_names();
        }
        if let Some(table) = &self.threads {
            text += "\n";
            text += &table.to_text_of_names();
        }
        for note in self.unseen.iter().chain(&self.notes) {
            text.extend(wrap(note, page_width()).into_iter().map(|line| line + "\n"));
        }
        text
    }

    /// The time that all threads waited for locks, in seconds, as a divisor.
    pub(crate) fn waited_s(&self) -> f64 {
        self.account.wait_s.max(f64::MIN_POSITIVE)
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Locks and call sites, for spreadsheets.
    pub fn to_csv(&self) -> String {
        let rows: Vec<&LockAccount> = self.account.locks.iter().collect();
        locks("", &rows, usize::MAX, [usize::MAX, 0]).to_csv()
    }

    /// Time waited as folded stacks, microseconds: process, callers, call site, lock, and for locks
    /// the place that held it and the activity of the owner.
    pub fn stacks(&self) -> Vec<(Vec<String>, u64)> {
        let mut stacks = Vec::new();
        for one in &self.account.locks {
            for site in one.lock.sites.iter().filter(|site| site.wait.count > 0) {
                let kind = kind(&one.lock);
                let process = match one.pid {
                    0 if !one.lock.kernel.is_empty() => "kernel".to_owned(),
                    pid => format!("process {pid}"),
                };
                let lock = format!("{} ({kind})", one.lock.name);
                let parts = if is_owned(&one.lock) {
                    self.owned(&one.lock, site)
                } else {
                    vec![(Vec::new(), site.wait.total_s)]
                };
                for (callers, share) in callers(site) {
                    let outer = std::iter::once(process.clone()).chain(callers.iter().cloned());
                    let place = [site.place.clone(), site.act.clone(), lock.clone()];
                    let frames: Vec<String> = outer.chain(place).collect();
                    let parts = parts.iter().map(|(inner, wait_s)| {
                        let us = (share * wait_s * 1e6).round() as u64;
                        ([frames.as_slice(), inner].concat(), us)
                    });
                    stacks.extend(parts.filter(|(_, us)| *us > 0));
                }
            }
        }
        stacks
    }

    /// The time that threads waited at a place, seconds, by the place that held the lock and by
    /// the activity of the owner.
    fn owned(&self, lock: &Lock, site: &Site) -> Vec<(Vec<String>, f64)> {
        let of = |cause: &&Cause| {
            (&cause.lock, cause.kind) == (&lock.name, lock.kind)
                && (&cause.place, &cause.act) == (&site.place, &site.act)
        };
        let causes = || self.causes.iter().filter(of);
        let known: f64 = causes().map(|cause| cause.wait_s).sum();
        // Locks of one name in several processes share their causes here.
        let scale = if known > site.wait.total_s { site.wait.total_s / known } else { 1.0 };
        let mut parts = Vec::new();
        for cause in causes() {
            let held = match cause.held_at.as_str() {
                "" => "held at a place that is not known".to_owned(),
                place => format!("held by {place}"),
            };
            let shares = OwnerState::ALL.into_iter().zip(owner_parts(cause));
            parts.extend(shares.map(|(owner, share)| {
                (vec![held.clone(), owner.name().to_owned()], share * cause.wait_s * scale)
            }));
        }
        let rest = site.wait.total_s - known;
        parts.push((vec![OwnerState::Unknown.name().to_owned()], rest));
        parts
    }
}

/// Returns the callers of a place, each with its share of the waiting there.
fn callers(site: &Site) -> Vec<(&[String], f64)> {
    let known: f64 = site.stacks.iter().map(|stack| stack.wait_s).sum();
    let whole = known.max(site.wait.total_s);
    if whole <= 0.0 {
        return vec![(&[], 1.0)];
    }
    let parts = site.stacks.iter().map(|stack| (stack.callers.as_slice(), stack.wait_s / whole));
    let rest = (&[][..], 1.0 - known / whole);
    parts.chain([rest]).filter(|(_, share)| *share > 0.0).collect()
}

impl FindingRow {
    /// Returns the problem, its reason and the cure.
    pub fn text(&self) -> String {
        format!("{} {}", self.sentence, self.cure).trim_end().to_owned()
    }
}

/// Returns the recorded program and its machine.
fn title(record: &Record) -> String {
    let program = &record.program;
    let command = program.command.join(" ");
    if !program.source.is_empty() {
        return format!("{command}: {}", program.source);
    }
    format!(
        "{command}: {}, {} CPU time, {} CPUs ({}), Linux {}, {}",
        duration(program.wall_s * 1e6),
        duration(program.cpu_s * 1e6),
        program.cpus,
        program.cpu_model,
        program.kernel,
        program.ending
    )
}

/// Returns the rows with a relevant cost, and the others: locks with less than a hundredth of all
/// waiting, and kernel locks with less than a hundredth of the busy time.
pub(crate) fn fold(rows: Vec<&LockAccount>, busy_s: f64) -> (Vec<&LockAccount>, Vec<&LockAccount>) {
    /// Percent of all waiting.
    const LITTLE: f64 = 1.0;
    rows.into_iter().partition(|one| {
        let is_little = one.wait_percent < LITTLE;
        !is_trifle(one, busy_s)
            && !(is_little && (!one.lock.kernel.is_empty() || one.lock.wait_s() > 0.0))
    })
}

/// Returns a line about folded locks, if there are any.
pub(crate) fn folded(little: &[&LockAccount]) -> Option<String> {
    let kernel = little.iter().filter(|one| !one.lock.kernel.is_empty()).count();
    let wait_s: f64 = little.iter().map(|one| one.lock.wait_s()).sum();
    (!little.is_empty()).then(|| {
        format!(
            "and {} more below 1 % ({kernel} of the kernel), {} in all",
            little.len(),
            duration(wait_s * 1e6)
        )
    })
}

/// Whether it is a kernel lock with less waiting than a hundredth of the busy time.
pub(crate) fn is_trifle(one: &LockAccount, busy_s: f64) -> bool {
    !one.lock.kernel.is_empty() && one.lock.wait_s() < 0.01 * busy_s
}

/// Which places waited for which places, with the part of `whole_s` that each waited.
pub(crate) fn causes(title: &str, causes: &[&Cause], whole_s: f64) -> Table {
    let mut columns = vec![
        Column::text("Waiting in"),
        Column::text("held by"),
        Column::text("lock"),
        Column::number("waits", ""),
        Column::number("total", ""),
        Column::number("share", "%"),
        Column::number("max", ""),
    ];
    let shown: Vec<usize> = (0..OwnerState::ALL.len())
        .filter(|at| causes.iter().any(|cause| owner_parts(cause)[*at] >= 0.005))
        .collect();
    columns.extend(shown.iter().map(|at| {
        Column::number(OwnerState::ALL[*at].name(), "%").group("owner during the waits")
    }));
    let mut table = Table::new(title, columns);
    for cause in causes {
        let held = if cause.held_at.is_empty() { "not known" } else { &cause.held_at };
        let parts = owner_parts(cause);
        let mut cells = vec![
            Cell::text(&cause.place),
            Cell::text(held),
            Cell::text(&cause.lock),
            Cell::count(cause.count),
            us(Some(cause.wait_s)),
            Cell::number(100.0 * cause.wait_s / whole_s, 1),
            us((cause.max_s > 0.0).then_some(cause.max_s)),
        ];
        cells.extend(shown.iter().map(|at| Cell::number(100.0 * parts[*at], 0)));
        table.row(cells);
    }
    table.note(
        "owner during the waits: share of the time that threads waited, by the owner's CPU time \
         and by samples of its activity",
    );
    table
}

/// All holds of a place: those in which the owner slept or lost its CPU, too.
pub(crate) fn held<'a>(sites: impl Iterator<Item = &'a Site>) -> Times {
    let mut all = Times::default();
    for site in sites {
        all.add(&site.hold_on);
        all.add(&site.hold_off);
    }
    all
}

/// Returns the kind of a lock in words.
pub(crate) fn kind(lock: &Lock) -> String {
    match lock.kernel.as_str() {
        "" if lock.runtime == JAVA => "monitor".to_owned(),
        "" => lock.kind.name().to_owned(),
        kernel => format!("kernel {kernel}"),
    }
}

/// Returns a table of at most `most` locks, with at most so many call sites and locks of the same
/// name of each.
pub(crate) fn locks(
    title: &str,
    rows: &[&LockAccount],
    most: usize,
    [sites, elements]: [usize; 2],
) -> Table {
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
        // Threads of a place are counted for each lock.
        let each = |threads: u64| threads.div_ceil(lock.instances.max(1));
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
            Cell::number(one.contended_percent.unwrap_or(f64::NAN), 1),
            thread_count(each(lock.sites.iter().map(|site| site.threads).max().unwrap_or(0))),
        ]);
        let held_all = held(lock.sites.iter());
        cells.extend(holds(&held_all, one.owner_off_cpu_percent, lock.is_lock()));
        cells.push(us(all(|site| &site.handoff).percentile_s(50.0)));
        table.row(cells);
        for site in lock.sites.iter().take(sites) {
            let mut cells = vec![
                Cell::text(format!("  {}", site.place)),
                Cell::text(format!("  {}", site.act)),
            ];
            cells.extend(waits(&site.wait));
            // Not known of a place if it is not of the lock.
            let known = one.contended_percent.map_or(f64::NAN, |_| 100.0);
            let waited = known * site.contended as f64 / site.count.max(1) as f64;
            let threads = thread_count(each(site.threads));
            cells.extend([Cell::count(site.count), Cell::number(waited, 1), threads]);
            let held = held(std::iter::once(site));
            cells.extend(holds(&held, f64::NAN, lock.is_lock()));
            cells.push(us(site.handoff.percentile_s(50.0)));
            table.row(cells);
        }
        for (number, element) in lock.elements.iter().take(elements).enumerate() {
            table.row(element_row(number, element));
        }
    }
    table.note(
        "held: from samples; off CPU: of the time held, by switches of the owner; \
         passed on: from a release with waiters to the next owner running (median)",
    );
    if rows.len() > most {
        table.note(format!("and {} more; --format csv has all", rows.len() - most));
    }
    table
}

/// Returns the row of one of several locks with the same name.
fn element_row(number: usize, element: &Element) -> Vec<Cell> {
    let name = match element.name.as_str() {
        "" => format!("  #{}", number + 1),
        name => format!("  {name}"),
    };
    let waited = 100.0 * element.contended as f64 / element.count.max(1) as f64;
    let mut cells = vec![Cell::text(name), Cell::text("  one of them")];
    cells.push(us(Some(element.wait_s)));
    cells.push(us(None));
    cells.push(us((element.max_s > 0.0).then_some(element.max_s)));
    cells.extend([Cell::count(element.count), Cell::number(waited, 1)]);
    cells.extend((0..5).map(|_| Cell::number(f64::NAN, 0)));
    cells
}

pub(crate) fn us(seconds: Option<f64>) -> Cell {
    Cell::duration(seconds.map(|seconds| seconds * 1e6))
}

/// Returns a table of at most `most` threads if the program named some.
pub(crate) fn threads(record: &Record, most: usize) -> Option<Table> {
    let several = record.processes.len() > 1;
    let rows = record
        .processes
        .iter()
        .flat_map(|process| process.by_thread.iter().map(move |thread| (process, thread)));
    let mut rows: Vec<(&Process, &Thread)> = rows.collect();
    rows.sort_by(|a, b| b.1.lock_wait_s.total_cmp(&a.1.lock_wait_s));
    if !rows.iter().any(|(process, thread)| process.name_of(thread.id).is_some()) {
        return None;
    }
    let columns = vec![
        Column::text("Thread"),
        Column::number("calls", "").key("count"),
        Column::number("for locks", "").key("lock_wait_us").group("waited"),
        Column::number("in all", "").key("wait_us").group("waited"),
    ];
    let mut table = Table::new("Threads", columns);
    for (process, thread) in rows.iter().take(most) {
        let process_of = if several { format!("{} / ", process.pid) } else { String::new() };
        let earlier = match thread.earlier {
            0 => String::new(),
            count => format!(" and {count} before it"),
        };
        let label = format!("{process_of}{}{earlier}", process.label_of(thread.id));
        table.row(vec![
            Cell::text(label),
            Cell::count(thread.count),
            us(Some(thread.lock_wait_s)),
            us(Some(thread.wait_s)),
        ]);
    }
    table.note("in all: for conditions and at barriers, too");
    if rows.len() > most {
        table.note(format!("and {} more that waited less", rows.len() - most));
    }
    Some(table)
}

/// A number of threads; 0 is not known.
fn thread_count(count: u64) -> Cell {
    if count == 0 { Cell::number(f64::NAN, 0) } else { Cell::count(count) }
}

fn waits(wait: &Times) -> [Cell; 3] {
    let some = (wait.count > 0 && wait.max_s > 0.0).then_some(());
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
