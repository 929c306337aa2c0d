//! `convoy check --orderings`: the weakest memory orderings with which no violation was found.

use serde::Serialize;

use crate::check::WeakSearch;
use crate::format::wrap;
use crate::json;
use crate::table::{Cell, Column, Table};

/// One ordering of the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderingRow {
    /// Source file, relative to the workspace.
    pub file: String,
    /// Line of the operation, from 1.
    pub line: u32,
    /// Column of its name, from 1.
    pub column: u32,
    /// Function around it; empty if the source file could not be read.
    pub function: String,
    /// Access: `load`, `store`, `modify`, `fence`, or `success` and `failure` of a
    /// compare-exchange.
    pub access: String,
    /// The ordering of the source.
    pub ordering: String,
    /// The weakest with which no violation was found while all others were those of the source.
    pub alone: String,
    /// The weakest with which no violation was found while all had their weakest.
    pub weakest: String,
    /// Whether each weaker ordering than that of the source violates a property.
    pub needed: bool,
    /// A violation with an ordering weaker than `weakest`, if one was found.
    pub broken: Option<BrokenOrdering>,
    /// The search with `weakest`, if that is weaker than the source.
    pub passes: Option<PassedOrdering>,
}

/// A violation with a weaker ordering.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrokenOrdering {
    /// The weaker ordering.
    pub ordering: String,
    /// Whether other orderings were weaker too.
    pub together: bool,
    /// The lock.
    pub lock: String,
    /// Its scenario, `ticket/turns`.
    pub scenario: String,
    /// The violated property.
    pub property: String,
    /// The violating interleaving step by step, one sentence each.
    pub steps: Vec<String>,
}

/// A search without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PassedOrdering {
    /// Scenarios that reach the operation.
    pub scenarios: usize,
    /// Executions in all of them.
    pub executions: u64,
    /// The search of the scenario that was explored least.
    pub least: WeakSearch,
}

/// An operation that no scenario reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreachedOrdering {
    /// Source file, relative to the workspace.
    pub file: String,
    /// Line of the operation, from 1.
    pub line: u32,
    /// Function around it.
    pub function: String,
    /// The operation.
    pub operation: String,
    /// Its orderings.
    pub orderings: Vec<String>,
}

/// The result of `convoy check --orderings`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderingsReport {
    /// Budget in one line.
    pub title: String,
    /// The orderings that some scenario reached and that have weaker ones.
    pub rows: Vec<OrderingRow>,
    /// Operations in the files of `rows` that no scenario reached.
    pub unreached: Vec<UnreachedOrdering>,
    /// Files of `rows` that could not be read, so that their unreached operations are not known.
    pub unread: Vec<String>,
    /// Scenarios that violate a property with the source. They were left out.
    pub violated: Vec<String>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    verdict: &'a str,
    needed: usize,
    weaker: usize,
    #[serde(flatten)]
    report: &'a OrderingsReport,
}

/// Returns `count` with the noun, in the plural unless it is one.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl OrderingRow {
    /// Returns the file without the directories that all sources have.
    fn place(&self) -> String {
        format!("{}:{}", short(&self.file), self.line)
    }

    fn cells(&self) -> Vec<Cell> {
        let broken = self.broken.as_ref().map_or_else(Cell::empty, |broken| {
            let others = if broken.together { " with others" } else { "" };
            let BrokenOrdering { ordering, scenario, property, .. } = broken;
            Cell::text(format!("{ordering}{others}: {scenario}: {property}"))
        });
        let weakest = if self.needed { "needed" } else { &self.weakest };
        vec![
            Cell::text(self.place()),
            Cell::text(&self.function),
            Cell::text(&self.access),
            Cell::text(&self.ordering),
            Cell::text(weakest),
            broken,
            Cell::text(self.passes.map_or_else(String::new, |passes| passes.least.reach())),
        ]
    }
}

/// Returns a path without `crates/` and `src/`.
fn short(file: &str) -> String {
    let file = file.strip_prefix("crates/").unwrap_or(file);
    file.replacen("/src/", "/", 1)
}

impl OrderingsReport {
    fn needed(&self) -> usize {
        self.rows.iter().filter(|row| row.needed).count()
    }

    fn weaker(&self) -> impl Iterator<Item = &OrderingRow> {
        self.rows.iter().filter(|row| row.weakest != row.ordering)
    }

    /// Returns the result in one sentence.
    pub fn verdict(&self) -> String {
        let (all, needed) = (counted(self.rows.len(), "ordering"), self.needed());
        let mut parts =
            vec![format!("{needed} of {all} are needed: each weaker one breaks a scenario")];
        let passes = self.weaker().filter_map(|row| row.passes);
        if let Some(least) = passes.map(|passes| passes.least).min_by_key(|least| least.bounds()) {
            let (weaker, reach) = (self.weaker().count(), least.reach());
            parts.push(format!("no violation with {weaker} weaker (searched: {reach})"));
        }
        if !self.unreached.is_empty() {
            let unreached = counted(self.unreached.len(), "operation");
            parts.push(format!("no scenario reaches {unreached}"));
        }
        parts.join("; ") + "."
    }

    /// One line for each ordering.
    pub fn table(&self) -> Table {
        let heads = ["Place", "Function", "Access", "Ordering", "Weakest", "Below it", "Searched"];
        let mut table = Table::new(&self.title, heads.map(Column::text).to_vec());
        for rows in self.rows.chunk_by(|one, other| one.file == other.file) {
            table.rule();
            for row in rows {
                table.row(row.cells());
            }
        }
        table.note(
            "needed: each weaker ordering violates a property; the next column has the strongest \
             of them. Otherwise no violation was found with the weakest ordering, together with \
             those of all other rows, in the scenario that was searched least.",
        );
        table.note(
            "Orderings are those of c11 without load buffering. Memory of a lock that is not \
             atomic is checked where the lock reports its accesses (`Platform::touch`).",
        );
        for unreached in &self.unreached {
            let UnreachedOrdering { file, line, function, operation, orderings } = unreached;
            let orders = orderings.join(" ");
            let place = short(file);
            table.note(format!("not reached: {place}:{line} {function} {operation} {orders}"));
        }
        if !self.unread.is_empty() {
            let files = self.unread.join(", ");
            table.note(format!(
                "not read: {files}. Run the command in the root of the source tree to list the \
                 operations that no scenario reaches."
            ));
        }
        if !self.violated.is_empty() {
            let scenarios = self.violated.join(", ");
            table.note(format!("left out, since the source violates a property: {scenarios}"));
        }
        table
    }

    /// The verdict and the table.
    pub fn to_text(&self) -> String {
        wrap(&self.verdict(), 80).join("\n") + "\n\n" + &self.table().to_text()
    }

    /// The same, and each violating interleaving step by step.
    pub fn to_details(&self) -> String {
        let mut lines = vec![self.to_text()];
        for (row, broken) in self.rows.iter().filter_map(|row| Some((row, row.broken.as_ref()?))) {
            let BrokenOrdering { ordering, scenario, property, .. } = broken;
            let (place, access) = (row.place(), &row.access);
            lines.push(format!("{place} {access} {ordering}: {scenario}: violated: {property}"));
            let steps = (1..).zip(&broken.steps);
            lines.extend(steps.map(|(number, step)| format!("  {number:>3}  {step}")));
            lines.push(String::new());
        }
        lines.join("\n")
    }

    /// JSON: the verdict, counts, and all rows.
    pub fn to_json(&self) -> String {
        let (verdict, needed, weaker) = (&self.verdict(), self.needed(), self.weaker().count());
        json::to_json(&Envelope { verdict, needed, weaker, report: self })
    }

    /// One line for each ordering.
    pub fn to_csv(&self) -> String {
        let columns = [
            ("file", "/file"),
            ("line", "/line"),
            ("column", "/column"),
            ("function", "/function"),
            ("access", "/access"),
            ("ordering", "/ordering"),
            ("alone", "/alone"),
            ("weakest", "/weakest"),
            ("needed", "/needed"),
            ("broken_ordering", "/broken/ordering"),
            ("broken_together", "/broken/together"),
            ("scenario", "/broken/scenario"),
            ("property", "/broken/property"),
            ("scenarios", "/passes/scenarios"),
            ("executions", "/passes/executions"),
            ("exhaustive", "/passes/least/exhaustive"),
            ("preemptions", "/passes/least/preemptions"),
            ("stale", "/passes/least/stale"),
        ];
        Table::of_json(&self.rows, &columns).to_csv()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: u32, weakest: &str, least: Option<WeakSearch>) -> OrderingRow {
        let needed = weakest == "Acquire";
        OrderingRow {
            file: "crates/sync/src/spin.rs".to_owned(),
            line,
            column: 9,
            function: "lock".to_owned(),
            access: "success".to_owned(),
            ordering: "Acquire".to_owned(),
            alone: weakest.to_owned(),
            weakest: weakest.to_owned(),
            needed,
            broken: needed.then(|| BrokenOrdering {
                ordering: "Relaxed".to_owned(),
                together: false,
                lock: "ticket".to_owned(),
                scenario: "ticket/again".to_owned(),
                property: "visibility".to_owned(),
                steps: vec!["task 0 reads serving = 0".to_owned()],
            }),
            passes: least.map(|least| PassedOrdering { scenarios: 3, executions: 1234, least }),
        }
    }

    fn example() -> OrderingsReport {
        let search = |exhaustive, preemptions, stale| WeakSearch {
            explored: 1000,
            exhaustive,
            preemptions,
            stale,
        };
        OrderingsReport {
            title: "at most 20000 executions".to_owned(),
            rows: vec![
                row(91, "Acquire", None),
                row(96, "Relaxed", Some(search(true, None, None))),
                row(99, "Relaxed", Some(search(false, Some(2), Some(2)))),
            ],
            unreached: vec![UnreachedOrdering {
                file: "crates/sync/src/spin.rs".to_owned(),
                line: 120,
                function: "lock_irqsave".to_owned(),
                operation: "compare_exchange".to_owned(),
                orderings: vec!["Acquire".to_owned()],
            }],
            unread: Vec::new(),
            violated: vec!["published-fix/two-ups".to_owned()],
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_details());
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn the_verdict_claims_no_more_than_the_search_of_the_least_explored_scenario() {
        let mut report = example();
        let verdict = report.verdict();
        let few = "; no violation with 2 weaker (searched: 2 preemptions, 2 stale steps); ";
        assert!(verdict.contains(few), "{verdict}");
        report.rows.pop();
        let all = "; no violation with 1 weaker (searched: every execution); ";
        assert!(report.verdict().contains(all), "{}", report.verdict());
        report.rows[1].passes.as_mut().unwrap().least.exhaustive = false;
        report.rows[1].passes.as_mut().unwrap().least.stale = Some(0);
        assert!(report.verdict().contains("(searched: 1000 executions)"));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!((&json["needed"], &json["weaker"]), (&1.into(), &1.into()));
        assert_eq!(json["rows"][0]["broken"]["scenario"], "ticket/again");
    }
}
