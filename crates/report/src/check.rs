//! `convoy check`: the exploration, and the interleaving that violates a property.

use serde::{Deserialize, Serialize};

use crate::format::{capital, list, wrap};
use crate::json;
use crate::table::{Cell, Column, Table};

/// The verdict names at most this number of broken locks.
const NAMED: usize = 4;

/// Result of one scenario of one lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The family of the lock, `semaphore`.
    pub lock: String,
    /// The lock, `published-fix`.
    pub variant: String,
    /// Description of the scenario and its checks, or of the violation.
    pub property: String,
    /// Names of the scenario's checks.
    pub checks: Vec<String>,
    /// Which of them, or what else, an interleaving breaks.
    pub violated: Option<String>,
    /// Whether an interleaving breaks anything.
    pub violation: bool,
    /// The breaking interleaving as the short string that replays it.
    pub schedule: Option<String>,
    /// Interleavings explored, up to the breaking one if there is one.
    pub explored: u64,
    /// Whether these were all there are, up to the exchange of independent steps; `false` if the
    /// budget ended first.
    pub exhaustive: bool,
    /// All interleavings with at most this many preemptions were explored.
    pub preemptions: Option<u32>,
    /// The part of the tree of all interleavings that was explored in order, 0 to 1.
    pub share: f64,
    /// The search under a weaker memory model, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weak: Option<WeakSearch>,
    /// The breaking interleaving step by step, one sentence each.
    pub steps: Vec<String>,
    /// The same as a table of tasks by time, of at most 80 columns for up to five tasks.
    #[serde(skip)]
    pub drawing: String,
    /// The command that replays it.
    pub replay: Option<String>,
}

/// The search of one scenario under a weaker memory model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeakSearch {
    /// Executions.
    pub explored: u64,
    /// Whether these were all there are.
    pub exhaustive: bool,
    /// All executions with at most this many preemptions were explored, if they had at most `stale`
    /// stale steps. `None` for any number.
    pub preemptions: Option<u32>,
    /// Stale steps of these executions; `None` for any number, and 0 if the budget was too small.
    pub stale: Option<u32>,
}

impl WeakSearch {
    /// Returns the bounds as numbers of which a smaller one is a shorter search.
    pub(crate) fn bounds(self) -> (u32, u32) {
        if self.exhaustive {
            return (u32::MAX, u32::MAX);
        }
        (self.stale.unwrap_or(u32::MAX), self.preemptions.unwrap_or(u32::MAX))
    }

    /// Returns the search as the bounds within which it was exhaustive.
    pub(crate) fn reach(self) -> String {
        match self.bounds() {
            (u32::MAX, u32::MAX) => "every execution".to_owned(),
            (0, _) => format!("{} executions", self.explored),
            _ => {
                let [preemptions, stale] = self.cells();
                let [preemption, step] =
                    [&preemptions, &stale].map(|count| if count == "1" { "" } else { "s" });
                format!("{preemptions} preemption{preemption}, {stale} stale step{step}")
            }
        }
    }

    fn cells(self) -> [String; 2] {
        if !self.exhaustive && self.stale == Some(0) {
            return ["-".to_owned(), "-".to_owned()];
        }
        let bounds = if self.exhaustive { [None; 2] } else { [self.preemptions, self.stale] };
        bounds.map(|bound| bound.map_or("any".to_owned(), |bound| bound.to_string()))
    }
}

/// The result of `convoy check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Bounds and budget in one line.
    pub title: String,
    /// All results.
    pub rows: Vec<CheckRow>,
    /// Memory model: `sc`, `tso` or `c11`.
    pub memory: String,
}

/// The JSON: the flat fields of the row that matters most, then all rows.
#[derive(Serialize)]
struct Envelope<'a> {
    verdict: &'a str,
    lock: &'a str,
    variant: &'a str,
    property: &'a str,
    violation: bool,
    schedule: Option<&'a str>,
    explored: u64,
    memory: &'a str,
    rows: &'a [CheckRow],
    notes: Vec<String>,
}

/// How far the scenarios came that check one property of one lock.
#[derive(Default)]
struct Search {
    violated: bool,
    scenarios: usize,
    exhaustive: usize,
    explored: u64,
    /// Of the scenario that came least far: preemptions, share.
    least: Option<(Option<u32>, f64)>,
}

impl Search {
    fn of<'a>(property: &str, rows: impl Iterator<Item = &'a CheckRow>) -> Self {
        let mut search = Self::default();
        for row in rows {
            let violated = row.violated.as_deref() == Some(property);
            if !violated && !row.checks.iter().any(|check| check == property) {
                continue;
            }
            search.violated |= violated;
            search.scenarios += 1;
            search.explored += row.explored;
            if row.exhaustive {
                search.exhaustive += 1;
            } else {
                let so_far = search.least.unwrap_or((Some(u32::MAX), 1.0));
                search.least = Some((so_far.0.min(row.preemptions), so_far.1.min(row.share)));
            }
        }
        search
    }

    fn cells(&self) -> Vec<Cell> {
        let result = match (self.violated, self.least) {
            (true, _) => "VIOLATED",
            (false, None) => "holds",
            (false, Some(_)) => "not broken",
        };
        let (preemptions, share) = match self.least {
            None => ("any".to_owned(), "100 %".to_owned()),
            Some((bound, share)) => {
                let bound = bound.map_or("-".to_owned(), |bound| bound.to_string());
                let share = 100.0 * share;
                // A search that was stopped early is not complete.
                let share = if share < 0.01 {
                    "< 0.01 %".to_owned()
                } else {
                    format!("{:.2} %", share.min(99.99))
                };
                (bound, share)
            }
        };
        vec![
            Cell::text(result),
            Cell::text(format!("{} of {}", self.exhaustive, self.scenarios)),
            Cell::text(preemptions),
            Cell::text(share),
            Cell::count(self.explored),
        ]
    }
}

impl CheckReport {
    /// Whether any row is a violation; the exit code depends on it.
    pub fn violation(&self) -> bool {
        self.rows.iter().any(|row| row.violation)
    }

    fn notes(&self) -> Vec<String> {
        let memory = match self.memory.as_str() {
            "sc" => "explored with sequentially consistent memory",
            "tso" => {
                "explored with sequentially consistent memory, then with the store buffers of x86"
            }
            _ => "explored with sequentially consistent memory, then with what the orderings admit",
        };
        let mut notes = vec![format!("{memory}: signals and deadlines may come at any step")];
        if self.rows.iter().any(|row| row.weak.is_some()) {
            notes.push(
                "Executions: under that memory. Stale and Preempted: every scenario without a \
                 violation was explored in all executions within these bounds. A stale step reads \
                 an old value, or writes before newer ones or late."
                    .to_owned(),
            );
        }
        notes
    }

    /// The locks in their order, each with its rows.
    fn locks(&self) -> impl Iterator<Item = &[CheckRow]> {
        self.rows.chunk_by(|one, other| one.variant == other.variant)
    }

    /// Returns the result in one sentence.
    pub fn verdict(&self) -> String {
        let mut findings = Vec::new();
        let mut others = Vec::new();
        for rows in self.locks() {
            let mut violated: Vec<String> = Vec::new();
            for property in rows.iter().filter_map(|row| row.violated.as_ref()) {
                if !violated.contains(property) {
                    violated.push(property.clone());
                }
            }
            if violated.is_empty() {
                others.push(rows);
            } else {
                findings.push(format!("{} violates {}", rows[0].variant, list(&violated)));
            }
        }
        let broken = findings.len();
        if broken > NAMED {
            let all = broken + others.len();
            findings =
                vec![format!("{broken} of {all} locks violate a property; the table names each")];
        }
        if !others.is_empty() {
            let other = if broken == 0 { "" } else { "other " };
            let locks = if others.len() == 1 { "lock" } else { "locks" };
            let reach = reach(&others.concat());
            findings.push(format!("no violation in {} {other}{locks}: {reach}", others.len()));
        }
        let weak = self.rows.iter().filter(|row| !row.violation).filter_map(|row| row.weak);
        if let Some(least) = weak.min_by_key(|weak| weak.bounds()) {
            findings.push(weak_reach(&self.memory, least));
        }
        let sentence = findings.join("; ");
        // The name of a lock keeps its form.
        if sentence.starts_with("no ") { capital(&sentence) + "." } else { sentence + "." }
    }

    /// JSON: the flat fields at the top are from the first violation, or from the first row without
    /// one, and `rows` has all rows.
    pub fn to_json(&self) -> String {
        let first = self.rows.iter().find(|row| row.violation).or(self.rows.first());
        json::to_json(&Envelope {
            verdict: &self.verdict(),
            lock: first.map_or("", |row| &row.lock),
            variant: first.map_or("", |row| &row.variant),
            property: first.map_or("", |row| &row.property),
            violation: self.violation(),
            schedule: first.and_then(|row| row.schedule.as_deref()),
            explored: first.map_or(0, |row| row.explored),
            rows: &self.rows,
            notes: self.notes(),
            memory: &self.memory,
        })
    }

    /// One line per row, without the steps.
    pub fn to_csv(&self) -> String {
        let columns = [
            ("lock", "/lock"),
            ("variant", "/variant"),
            ("property", "/property"),
            ("checks", "/checks"),
            ("violation", "/violation"),
            ("violated", "/violated"),
            ("schedule", "/schedule"),
            ("explored", "/explored"),
            ("exhaustive", "/exhaustive"),
            ("preemptions", "/preemptions"),
            ("share", "/share"),
            ("weak_explored", "/weak/explored"),
            ("weak_exhaustive", "/weak/exhaustive"),
            ("weak_preemptions", "/weak/preemptions"),
            ("weak_stale", "/weak/stale"),
        ];
        Table::of_json(&self.rows, &columns).to_csv()
    }

    /// The verdict and a line for each lock. A single violation is followed by the story of its
    /// interleaving.
    pub fn to_text(&self) -> String {
        let mut text = wrap(&self.verdict(), 80).join("\n") + "\n\n" + &self.summary().to_text();
        let broken: Vec<_> = self.locks().filter_map(first_violation).collect();
        if let [row] = broken.as_slice() {
            text.push_str(&story(row));
        }
        text
    }

    fn summary(&self) -> Table {
        let mut columns = vec![
            Column::text("Lock"),
            Column::text("Result"),
            Column::text("Exhaustive").left(),
            Column::number("Preemptions", "at most"),
            Column::number("Explored", "schedules"),
        ];
        let is_weak = self.memory != "sc";
        if is_weak {
            columns.push(Column::number("Stale", "at most"));
            columns.push(Column::number("Preempted", "at most"));
            columns.push(Column::number("Executions", &self.memory));
        }
        let mut table = Table::new(&self.title, columns);
        for rows in self.locks() {
            let whole = rows.iter().filter(|row| row.exhaustive).count();
            let rest = rows.iter().filter(|row| !row.exhaustive && !row.violation);
            let bound = match rest.map(|row| row.preemptions).min() {
                None => "any".to_owned(),
                Some(bound) => bound.map_or("-".to_owned(), |bound| bound.to_string()),
            };
            let broken = first_violation(rows);
            let result = match broken.and_then(|row| row.violated.as_deref()) {
                Some(property) => format!("VIOLATES {property}"),
                None if whole == rows.len() => "holds".to_owned(),
                None => "not broken".to_owned(),
            };
            let mut cells = vec![
                Cell::text(&rows[0].variant),
                Cell::text(result),
                Cell::text(format!("{whole} of {}", rows.len())),
                Cell::text(bound),
                Cell::count(rows.iter().map(|row| row.explored).sum()),
            ];
            if is_weak {
                // A search that found a violation ended there.
                let searched = rows.iter().filter(|row| !row.violation);
                let least = searched.filter_map(|row| row.weak).min_by_key(|weak| weak.bounds());
                let weak = rows.iter().filter_map(|row| row.weak);
                let [preemptions, stale] =
                    least.map_or(["-".to_owned(), "-".to_owned()], WeakSearch::cells);
                cells.extend([stale, preemptions].map(Cell::text));
                cells.push(Cell::count(weak.map(|weak| weak.explored).sum()));
            }
            table.row(cells);
        }
        for row in self.locks().filter_map(first_violation) {
            if let Some(replay) = &row.replay {
                table.note(format!("{}: {replay}", row.variant));
            }
        }
        table.note(
            "Exhaustive: scenarios of which every interleaving was explored. Preemptions: every \
             other scenario was explored in all interleavings with at most this number.",
        );
        self.notes().iter().for_each(|note| table.note(note));
        table.note("--details: each property, and each violating interleaving step by step.");
        table
    }

    /// The verdict, a line for each property of each lock, and beneath them every breaking
    /// interleaving as a numbered story.
    pub fn to_details(&self) -> String {
        let mut text = wrap(&self.verdict(), 110).join("\n") + "\n\n" + &self.table().to_text();
        for row in self.rows.iter().filter(|row| row.violation) {
            text.push_str(&story(row));
        }
        text
    }

    /// One line for each property of each lock.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::text("Lock"),
            Column::text("Property"),
            Column::text("Result"),
            Column::text("Exhaustive").left(),
            Column::number("Preemptions", "at most"),
            Column::number("Share", "at least"),
            Column::number("Explored", "schedules"),
        ];
        let mut table = Table::new(&self.title, columns);
        for rows in self.locks() {
            table.rule();
            let mut properties: Vec<&String> = Vec::new();
            for property in rows.iter().flat_map(|row| row.checks.iter().chain(&row.violated)) {
                if !properties.contains(&property) {
                    properties.push(property);
                }
            }
            for (at, property) in properties.iter().enumerate() {
                let lock = &rows[0].variant;
                let lock = if at == 0 { Cell::text(lock) } else { Cell::repeated(lock) };
                let mut cells = vec![lock, Cell::text(*property)];
                cells.extend(Search::of(property, rows.iter()).cells());
                table.row(cells);
            }
        }
        table.note("Exhaustive: scenarios of which every interleaving was explored.");
        if self.rows.iter().any(|row| !row.exhaustive && !row.violation) {
            table.note(
                "not broken: the budget ended first. Preemptions and Share: each scenario was \
                 explored in all interleavings with at most this number of preemptions, and in at \
                 least this share of all.",
            );
        }
        for note in &self.notes() {
            table.note(note);
        }
        table
    }
}

/// Returns how far the search of `rows` came, which found no violation.
fn reach(rows: &[CheckRow]) -> String {
    let whole = rows.iter().filter(|row| row.exhaustive).count();
    let text = format!("{whole} of {} scenarios searched exhaustively", rows.len());
    match rows.iter().filter(|row| !row.exhaustive).map(|row| row.preemptions).min() {
        None => text,
        Some(None) => text + ", the others as far as the budget went",
        Some(Some(bound)) => {
            let preemptions = if bound == 1 { "preemption" } else { "preemptions" };
            format!("{text}, the others in every interleaving of at most {bound} {preemptions}")
        }
    }
}

/// Returns how far the search under a weaker memory model came in the scenario that came least far.
fn weak_reach(memory: &str, least: WeakSearch) -> String {
    if least.exhaustive {
        return format!("explored under {memory}: every execution");
    }
    if least.stale == Some(0) {
        return format!("explored under {memory} as far as the budget went");
    }
    let [preemptions, stale] = least.cells();
    let [preemption, step] =
        [&preemptions, &stale].map(|count| if count == "1" { "" } else { "s" });
    format!(
        "explored under {memory}: every execution with {preemptions} preemption{preemption} and \
         {stale} stale step{step}"
    )
}

/// The first of a lock's scenarios in which something is violated.
fn first_violation(rows: &[CheckRow]) -> Option<&CheckRow> {
    rows.iter().find(|row| row.violation)
}

/// Returns the interleaving of one violation as text: a table of the tasks' steps, the observation
/// at its end, and the command that replays it.
fn story(row: &CheckRow) -> String {
    let mut text =
        format!("\n{} {}: violated: {}\n\n{}", row.lock, row.variant, row.property, row.drawing);
    if let Some(last) = row.steps.last() {
        text.push_str(&wrap(last, 80).join("\n"));
        text.push('\n');
    }
    let again = [("schedule", &row.schedule), ("replay", &row.replay)];
    text.extend(
        again.into_iter().filter_map(|(name, value)| {
            value.as_ref().map(|value| format!("  {name:<8}  {value}\n"))
        }),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, violation: bool, exhaustive: bool) -> CheckRow {
        CheckRow {
            lock: "semaphore".to_owned(),
            variant: variant.to_owned(),
            property: "two-ups: two ups before the first waiter runs".to_owned(),
            checks: vec!["exclusion".to_owned(), "no-lost-wakeup".to_owned()],
            violated: violation.then(|| "no-lost-wakeup".to_owned()),
            violation,
            schedule: violation.then(|| "v1:0.0.1.1.2.2.3.0.0.1.1.2.3.3.3.3.1.0.0.2".to_owned()),
            explored: 1_234,
            exhaustive,
            preemptions: (!violation).then_some(2),
            share: if exhaustive { 1.0 } else { 0.0123 },
            weak: None,
            steps: if violation {
                vec![
                    "task 1  up  changes count: 0 -> 1".to_owned(),
                    "task 2 sleeps although a unit is free".to_owned(),
                ]
            } else {
                Vec::new()
            },
            drawing: if violation {
                "   task 0  task 1\n1          changes count: 0 -> 1  semaphore.rs:9\n".to_owned()
            } else {
                String::new()
            },
            replay: violation.then(|| "convoy check semaphore --replay v1:0.0".to_owned()),
        }
    }

    fn example() -> CheckReport {
        CheckReport {
            title: "at most 20000 interleavings of each scenario".to_owned(),
            rows: vec![
                row("handoff", false, true),
                row("published-fix", true, false),
                row("arch", false, false),
            ],
            memory: "sc".to_owned(),
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_details());
    }

    #[test]
    fn a_summary_has_a_line_for_each_lock_and_the_only_story() {
        let mut report = example();
        let text = report.to_text();
        assert!(text.contains("VIOLATES no-lost-wakeup") && text.contains("  schedule  v1:0.0"));
        assert!(text.contains("published-fix: convoy check semaphore --replay v1:0.0"));
        report.rows.push(row("another", true, false));
        let text = report.to_text();
        assert!(text.contains("another: convoy check") && !text.contains("  schedule  "));
        assert!(text.lines().count() < 24, "{text}");
    }

    #[test]
    fn many_broken_locks_are_counted_and_not_named() {
        let mut report = example();
        report.rows = ["a", "b", "c", "d", "e"].map(|name| row(name, true, false)).to_vec();
        assert_eq!(report.verdict(), "5 of 5 locks violate a property; the table names each.");
        report.rows.push(row("f", false, true));
        assert!(report.verdict().starts_with("5 of 6 locks violate a property; the table names"));
        report.rows.remove(0);
        assert!(report.verdict().starts_with("b violates no-lost-wakeup; c violates "));
    }

    #[test]
    fn a_weak_search_says_what_was_exhausted() {
        let cases = [
            (Some(2), Some(1), "under c11: every execution with 2 preemptions and 1 stale step."),
            (None, None, "explored under c11: every execution."),
            (None, Some(0), "under c11 as far as the budget went."),
        ];
        for (preemptions, stale, end) in cases {
            let mut report = example();
            report.rows.remove(1);
            report.memory = "c11".to_owned();
            let exhaustive = stale.is_none();
            report.rows[0].weak = Some(WeakSearch { explored: 9, exhaustive, preemptions, stale });
            assert!(report.verdict().ends_with(end), "{}", report.verdict());
        }
    }

    #[test]
    fn the_table_and_the_sentence_leave_out_searches_that_a_violation_ended() {
        fn weak(preemptions: u32, stale: u32) -> WeakSearch {
            let (preemptions, stale) = (Some(preemptions), Some(stale));
            WeakSearch { explored: 9, exhaustive: false, preemptions, stale }
        }
        let mut report = example();
        report.memory = "c11".to_owned();
        report.rows = vec![row("one", true, false), row("one", false, false)];
        (report.rows[0].weak, report.rows[1].weak) = (Some(weak(5, 1)), Some(weak(2, 3)));
        assert!(report.verdict().ends_with("with 2 preemptions and 3 stale steps."));
        let text = report.to_text();
        let row = text.lines().rfind(|line| line.starts_with("one ")).expect("the lock");
        let cells: Vec<&str> = row.split_whitespace().rev().take(3).collect();
        assert_eq!(cells, ["18", "2", "3"], "{row}");
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn json_without_a_finding_leads_with_the_first_row() {
        let mut report = example();
        report.rows.remove(1);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["variant"], "handoff");
        let expected = "No violation in 2 locks: 1 of 2 scenarios searched exhaustively, the \
                        others in every interleaving of at most 2 preemptions.";
        assert_eq!(report.verdict(), expected);
        report.rows[1].preemptions = None;
        assert!(report.verdict().ends_with(", the others as far as the budget went."));
        report.rows.pop();
        assert!(report.verdict().ends_with("1 of 1 scenarios searched exhaustively."));
        assert_eq!(json["violation"], false);
        report.rows.clear();
        assert!(!report.violation());
        assert!(report.to_json().contains("\"rows\": []"));
    }
}
