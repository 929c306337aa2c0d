//! `convoy check`: what the checker explored, and the interleaving that breaks a lock.

use serde::{Deserialize, Serialize};

use crate::format::{width, wrap};
use crate::json;
use crate::table::{Cell, Column, Table};

/// What marks a step on the words of the spinlock that guards a lock's list of waiters. The story
/// leaves such steps out: they say how, not what.
const INSIDE: &str = " inner ";

/// One property of one variant of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The lock, `semaphore`.
    pub lock: String,
    /// The variant, `published-fix`.
    pub variant: String,
    /// What must hold, in words.
    pub property: String,
    /// Whether an interleaving breaks it.
    pub violation: bool,
    /// The breaking interleaving as the short string that replays it.
    pub schedule: Option<String>,
    /// Interleavings explored, up to the breaking one if there is one.
    pub explored: u64,
    /// Whether these were all there are within the stated bounds; `false` if the budget ended
    /// first.
    pub exhaustive: bool,
    /// The breaking interleaving step by step, one sentence each.
    pub steps: Vec<String>,
    /// The command that replays it.
    pub replay: Option<String>,
}

/// The result of `convoy check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Lock, scenario bounds and budget in one line.
    pub title: String,
    /// All results.
    pub rows: Vec<CheckRow>,
    /// Lines under the table.
    pub notes: Vec<String>,
}

/// The JSON: the flat fields of the row that matters most, then all rows.
#[derive(Serialize)]
struct Envelope<'a> {
    lock: &'a str,
    variant: &'a str,
    property: &'a str,
    violation: bool,
    schedule: Option<&'a str>,
    explored: u64,
    rows: &'a [CheckRow],
    notes: &'a [String],
}

impl CheckReport {
    /// Whether any row is a violation; the exit code depends on it.
    pub fn violation(&self) -> bool {
        self.rows.iter().any(|row| row.violation)
    }

    /// JSON as DESIGN section 7 lays it down. A check has several rows, so the flat fields at the
    /// top are those of the first violation, or of the first row if nothing was found, and `rows`
    /// has them all.
    pub fn to_json(&self) -> String {
        let first = self.rows.iter().find(|row| row.violation).or(self.rows.first());
        json::to_json(&Envelope {
            lock: first.map_or("", |row| &row.lock),
            variant: first.map_or("", |row| &row.variant),
            property: first.map_or("", |row| &row.property),
            violation: self.violation(),
            schedule: first.and_then(|row| row.schedule.as_deref()),
            explored: first.map_or(0, |row| row.explored),
            rows: &self.rows,
            notes: &self.notes,
        })
    }

    /// One line per row, without the steps.
    pub fn to_csv(&self) -> String {
        let columns = ["lock", "variant", "property", "violation", "schedule", "explored"];
        let mut table = Table::new("", columns.map(Column::text).to_vec());
        for row in &self.rows {
            table.row(vec![
                Cell::text(&row.lock),
                Cell::text(&row.variant),
                Cell::text(&row.property),
                Cell::text(row.violation.to_string()),
                Cell::text(row.schedule.as_deref().unwrap_or_default()),
                Cell::count(row.explored),
            ]);
        }
        table.to_csv()
    }

    /// The table, and beneath it every breaking interleaving as a numbered story.
    pub fn to_text(&self) -> String {
        let mut text = self.table().to_text();
        for row in self.rows.iter().filter(|row| row.violation) {
            text.push_str(&story(row));
        }
        text
    }

    /// The table alone.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::text("Variant"),
            Column::text("Property"),
            Column::text("Result"),
            Column::number("Explored", "schedules"),
        ];
        let mut table = Table::new(&self.title, columns);
        let mut above = None;
        for row in &self.rows {
            let variant = if above == Some(&row.variant) {
                Cell::repeated(&row.variant)
            } else {
                table.rule();
                Cell::text(&row.variant)
            };
            above = Some(&row.variant);
            let found = match (row.violation, row.exhaustive) {
                (true, _) => "VIOLATED",
                (false, true) => "holds",
                (false, false) => "not broken",
            };
            table.row(vec![
                variant,
                Cell::text(&row.property),
                Cell::text(found),
                Cell::count(row.explored),
            ]);
        }
        if self.rows.iter().any(|row| row.exhaustive && !row.violation) {
            table.note("holds: in every interleaving within the bounds.");
        }
        if self.rows.iter().any(|row| !row.exhaustive && !row.violation) {
            table.note("not broken: the budget ended before the interleavings did.");
        }
        for note in &self.notes {
            table.note(note);
        }
        table
    }
}

/// The interleaving of one violation, ready to print: what the tasks do to the lock.
fn story(row: &CheckRow) -> String {
    let mut lines =
        vec![String::new(), format!("{} {}: violated: {}", row.lock, row.variant, row.property)];
    let told: Vec<&String> = row.steps.iter().filter(|step| !step.contains(INSIDE)).collect();
    let digits = told.len().to_string().len();
    for (number, step) in (1..).zip(&told) {
        // The columns within a step stay in place unless the line would be too long.
        let fits = width(step) <= 110;
        let parts = if fits { vec![(*step).clone()] } else { wrap(step, 110) };
        let mut parts = parts.into_iter();
        let head = parts.next().unwrap_or_default();
        lines.push(format!("  {number:>digits$}  {head}"));
        lines.extend(parts.map(|part| format!("  {:digits$}{part}", "")));
    }
    let left_out = row.steps.len() - told.len();
    if left_out > 0 {
        lines.push(format!(
            "  left out  {left_out} on the words of the spinlock inside; the replay shows them"
        ));
    }
    if let Some(schedule) = &row.schedule {
        lines.push(format!("  schedule  {schedule}"));
    }
    if let Some(replay) = &row.replay {
        lines.push(format!("  replay    {replay}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, violation: bool, exhaustive: bool) -> CheckRow {
        CheckRow {
            lock: "semaphore".to_owned(),
            variant: variant.to_owned(),
            property: "no waiter sleeps beside a free count".to_owned(),
            violation,
            schedule: violation.then(|| "v1:0.0.1.1.2.2.3.0.0.1.1.2.3.3.3.3.1.0.0.2".to_owned()),
            explored: 1_234,
            exhaustive,
            steps: if violation {
                vec![
                    "task 0 takes the count; it is 1 now.".to_owned(),
                    "task 1  up  changes inner next: 0 -> 1".to_owned(),
                    "task 1 calls up() and wakes task 2, the head waiter, which stays on the \
                     list until it runs, so that it is the head still."
                        .to_owned(),
                ]
            } else {
                Vec::new()
            },
            replay: violation.then(|| "convoy check semaphore --replay v1:0.0".to_owned()),
        }
    }

    fn example() -> CheckReport {
        CheckReport {
            title: "semaphore, count 2, 4 tasks, at most 3 preemptions".to_owned(),
            rows: vec![
                row("handoff", false, true),
                row("published-fix", true, false),
                row("arch", false, false),
            ],
            notes: vec!["Cancellation and timeouts included.".to_owned()],
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_text());
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn json_leads_with_the_finding() {
        let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        assert_eq!(json["variant"], "published-fix");
        assert_eq!(json["violation"], true);
        assert_eq!(json["explored"], 1_234);
        assert!(json["schedule"].as_str().unwrap().starts_with("v1:"));
        assert_eq!(json["rows"].as_array().unwrap().len(), 3);
        assert_eq!(json["rows"][0]["violation"], false);
        assert!(json["rows"][0]["schedule"].is_null());
    }

    #[test]
    fn json_without_a_finding_leads_with_the_first_row() {
        let mut report = example();
        report.rows.remove(1);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["variant"], "handoff");
        assert_eq!(json["violation"], false);
        report.rows.clear();
        assert!(!report.violation());
        assert!(report.to_json().contains("\"rows\": []"));
    }
}
