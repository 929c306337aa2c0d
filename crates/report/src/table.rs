//! The table style of the project: light rules, no colour, numbers to the right, units in the
//! header.
//!
//! A [`Table`] knows its rows once and prints them as plain text, as Markdown and as CSV. Text and
//! Markdown show rounded numbers, CSV shows them in full.

use serde::{Deserialize, Serialize};

use crate::format::middle;

mod cell;
mod flat;
mod page;
mod parts;
mod text;
mod web;

pub use cell::Cell;
pub use page::{MAX_WIDTH, in_markdown, page_wrap, set_page_width, set_table_width};
pub(crate) use page::{is_markdown, page_width, table_width};

/// Characters of a cell; no page has room for more, and names of others have any length.
const LONGEST: usize = 400;

/// Where the text of a column goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Align {
    Left,
    Right,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    title: String,
    unit: String,
    key: String,
    group: String,
    align: Align,
    joined: bool,
    #[serde(default)]
    minor: bool,
}

impl Column {
    /// A column of words. Its CSV name is the title until [`Self::key`] sets another.
    pub fn text(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: String::new(),
            key: title.to_owned(),
            group: String::new(),
            align: Align::Left,
            joined: false,
            minor: false,
        }
    }

    /// A column of numbers in `unit` (may be empty).
    pub fn number(title: &str, unit: &str) -> Self {
        Self { align: Align::Right, unit: unit.to_owned(), ..Self::text(title) }
    }

    /// Sets the name in the CSV header, with its unit as a suffix by convention (`real_s`).
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    /// Puts the column under a common heading with its neighbours of the same group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        group.clone_into(&mut self.group);
        self
    }

    /// Joins the column to the previous one, as `±` belongs to its number.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.joined = true;
        self
    }

    /// Marks the column as less important: a page without room for all columns leaves it out.
    #[must_use]
    pub fn minor(mut self) -> Self {
        self.minor = true;
        self
    }

    /// Title with the group, for sentences.
    fn name(&self) -> String {
        format!("{} {}", self.group, self.title).trim().to_owned()
    }

    /// Whether it is a column of words by itself.
    fn is_label(&self) -> bool {
        self.align == Align::Left && !self.joined
    }

    /// Aligns to the left: for the part of a number that follows a joined mark.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.align = Align::Left;
        self
    }
}

/// A column with the cell of each row.
pub type Field<'a, R> = (Column, &'a dyn Fn(&R) -> Cell);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Row {
    Cells(Vec<Cell>),
    Heading(String),
    Rule,
}

/// A table under construction and its renderings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table. The title may be empty.
    pub fn new(title: &str, columns: Vec<Column>) -> Self {
        Self { title: title.to_owned(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// A table with a row for each of `rows`: each column has the function of its cells.
    pub fn of<'a, R: 'a>(
        title: &str,
        rows: impl IntoIterator<Item = &'a R>,
        columns: &[Field<R>],
    ) -> Self {
        let heads = columns.iter().map(|(column, _)| column.clone());
        let mut table = Self::new(title, heads.collect());
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(row)).collect());
        }
        table
    }

    /// Adds a row; missing cells are empty.
    ///
    /// # Panics
    /// If there are more cells than columns: that is a mistake of the program.
    pub fn row(&mut self, mut cells: Vec<Cell>) {
        assert!(cells.len() <= self.columns.len(), "{} cells, {:?}", cells.len(), self.title);
        cells.resize(self.columns.len(), Cell::empty());
        for cell in &mut cells {
            cell.shown = middle(&cell.shown, LONGEST);
        }
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line of words across all columns; CSV leaves it out.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Heading(text.into()));
    }

    /// Adds a light rule between rows; none at the top, none twice.
    pub fn rule(&mut self) {
        if matches!(self.rows.last(), Some(Row::Cells(_))) {
            self.rows.push(Row::Rule);
        }
    }

    /// Adds a line beneath the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::width;

    fn example() -> Table {
        let columns = vec![
            Column::text("Kernel").key("kernel"),
            Column::number("Jobs/Min", "").key("jobs_per_min").group("published"),
            Column::number("Real", "s").key("real_s").group("published"),
            Column::number("Jobs/Min", "").key("mine").group("reproduced on this machine"),
            Column::text("± 95 %").key("half_width").group("reproduced on this machine").joined(),
        ];
        let mut table = Table::new("A table", columns);
        table.row(vec![
            Cell::text("v2.6.25"),
            Cell::number(61_096.44, 1),
            Cell::number(207.5, 1),
            Cell::number(55_000.0, 1).marked(" f"),
            Cell::shown("± 12", 12.25),
        ]);
        table.rule();
        table.row(vec![Cell::repeated("a | \"b\", c"), Cell::number(f64::NAN, 1)]);
        table.rule();
        table.note("f: fitted.");
        table
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_text());
    }

    #[test]
    fn markdown() {
        insta::assert_snapshot!(example().to_markdown());
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn json_has_the_type_of_the_source_not_of_the_text() {
        let columns = ["kernel", "tasks", "rate", "seed"].map(Column::text);
        let mut table = Table::new("", columns.into());
        table.row(vec![Cell::text("3.0"), Cell::count(20), Cell::number(0.125, 1)]);
        let wanted =
            serde_json::json!([{ "kernel": "3.0", "tasks": 20, "rate": 0.125, "seed": null }]);
        assert_eq!(table.to_json(), wanted);
    }

    #[test]
    fn an_empty_table_still_has_its_head() {
        let table = Table::new("", vec![Column::text("Lock")]);
        assert!(table.is_empty());
        assert_eq!(table.to_text(), "────\nLock\n────\n────\n");
        assert_eq!(table.to_csv(), "Lock\n");
    }

    #[test]
    fn a_table_wider_than_the_page_comes_in_parts_with_its_keys() {
        let text = example().to_text_within(50);
        assert!(text.lines().all(|line| width(line) <= 50), "{text}");
        assert_eq!(text.matches("v2.6.25").count(), 2, "{text}");
        assert!(text.contains("61096.4") && text.contains("± 12"), "{text}");
        assert_eq!(example().to_text_within(200), example().to_text_within(120));
    }

    #[test]
    fn an_interval_stays_with_its_number_whatever_the_width() {
        let columns = vec![
            Column::text("Kernel"),
            Column::number("Real", "s"),
            Column::text("").joined(),
            Column::number("CPU", "s"),
            Column::text("").joined(),
        ];
        let mut table = Table::new("", columns);
        table.row(vec![
            Cell::text("2.6.25"),
            Cell::number(207.8, 1),
            Cell::text("± 0.3"),
            Cell::number(791.2, 1),
            Cell::text("± 0.7"),
        ]);
        for page in 1..60 {
            let text = table.to_text_within(page);
            assert!(
                text.contains("207.8 ± 0.3") && text.contains("791.2 ± 0.7"),
                "{page}:\n{text}"
            );
        }
        assert_eq!(table.to_text_within(22).matches("2.6.25").count(), 2, "labels are repeated");
    }

    #[test]
    fn a_narrow_page_leaves_out_minor_columns_and_says_which() {
        let columns = vec![
            Column::text("lock"),
            Column::number("rate", "1/s"),
            Column::number("p99", "ms").group("wait").minor(),
            Column::text("").group("wait").joined(),
            Column::number("Jain", "").minor(),
        ];
        let mut table = Table::new("", columns);
        let cells = ["mutex", "1000", "2.5", "± 0.1", "0.99"].map(Cell::text);
        table.row(cells.to_vec());
        assert!(!table.to_text_within(60).contains("Left out"));
        let narrow = table.to_text_within(27);
        assert!(
            narrow.contains("2.5 ± 0.1") && narrow.contains("Left out for want of"),
            "{narrow}"
        );
        let narrower = table.to_text_within(14);
        assert!(!narrower.contains("2.5") && !narrower.contains("± 0.1"), "{narrower}");
        assert!(narrower.replace("\n ", "").contains("room: wait p99, Jain."), "{narrower}");
    }

    #[test]
    fn the_table_of_one_lock_keeps_its_columns() {
        let mut table = Table::new("", ["Lock", "waited", "taken"].map(Column::text).to_vec());
        for name in ["m", "  f (x.c:1)"] {
            table.row(vec![Cell::text(name), Cell::text("4 s"), Cell::count(7)]);
        }
        let mut two = table.clone();
        two.row(vec![Cell::text("n"), Cell::text("4 s"), Cell::count(7)]);
        table.lean();
        two.lean();
        assert!(table.to_text().contains("waited") && !table.to_text().contains("The same in"));
        assert!(two.to_text().contains("The same in all rows: waited 4 s, taken 7."));
    }

    #[test]
    fn long_notes_are_wrapped() {
        let mut table = Table::new("", vec![Column::text("Lock")]);
        table.note("word ".repeat(60));
        assert!(table.to_text().lines().all(|line| width(line) <= MAX_WIDTH));
    }
}
