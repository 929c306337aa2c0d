//! The table style of the project: light rules, no colour, numbers to the right, units in the
//! header.
//!
//! A [`Table`] knows its rows once and prints them as plain text, as Markdown and as CSV. Text and
//! Markdown show rounded numbers, CSV shows them in full.

use core::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::format::{width, wrap};

mod cell;
mod flat;
mod page;
mod web;

pub use cell::Cell;
use page::fit;
pub(crate) use page::page_width;
pub use page::{in_markdown, set_page_width};

/// Widest line a table has where nothing says how wide the page is, in characters.
pub const MAX_WIDTH: usize = 120;

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

    /// Adds a row; missing cells are empty.
    ///
    /// # Panics
    /// If there are more cells than columns: that is a mistake of the program.
    pub fn row(&mut self, mut cells: Vec<Cell>) {
        assert!(cells.len() <= self.columns.len(), "{} cells, {:?}", cells.len(), self.title);
        cells.resize(self.columns.len(), Cell::empty());
        for cell in &mut cells {
            shorten(&mut cell.shown);
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

    /// Plain text with a line feed at the end of each line and no blanks before it. A table that is
    /// wider than the page is printed in parts, each with the columns that name its rows.
    pub fn to_text(&self) -> String {
        if page::is_markdown() {
            return self.to_markdown() + "\n";
        }
        self.to_text_within(page_width())
    }

    fn to_text_within(&self, page: usize) -> String {
        let mut lines = Vec::new();
        // A title has its own lines.
        for line in self.title.lines() {
            lines.extend(fit(line, page));
        }
        for (at, columns) in self.parts(page).iter().enumerate() {
            if at > 0 {
                lines.push(String::new());
            }
            self.part(columns).body_lines(page, &mut lines);
        }
        lines.extend(self.notes.iter().flat_map(|note| wrap(note, page)));
        let mut text = String::new();
        for line in lines {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn body_lines(&self, page: usize, lines: &mut Vec<String>) {
        let widths = self.widths();
        lines.push(self.text_rule(&widths, '┬'));
        if self.columns.iter().any(|column| !column.group.is_empty()) {
            lines.push(self.text_groups(&widths));
        }
        let head =
            |pick: fn(&Column) -> &str| -> Vec<&str> { self.columns.iter().map(pick).collect() };
        lines.push(self.text_line(&widths, &head(|column| &column.title)));
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            lines.push(self.text_line(&widths, &head(|column| &column.unit)));
        }
        lines.push(self.text_rule(&widths, '┼'));
        for row in self.body() {
            match row {
                Row::Rule => lines.push(self.text_rule(&widths, '┼')),
                Row::Heading(text) => lines.extend(fit(text, page)),
                Row::Cells(cells) => {
                    let shown: Vec<&str> = cells.iter().map(|cell| cell.shown.as_str()).collect();
                    lines.push(self.text_line(&widths, &shown));
                }
            }
        }
        lines.push(self.text_rule(&widths, '┴'));
    }

    /// A pipe table of GitHub's Markdown; the group and the unit move into the header of the
    /// column.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(text, "**{}**\n", escape(&self.title));
        }
        let head: Vec<String> = self.columns.iter().map(markdown_head).collect();
        let _ = writeln!(text, "| {} |", head.join(" | "));
        let marks: Vec<&str> = self
            .columns
            .iter()
            .map(|column| if column.align == Align::Right { "---:" } else { ":---" })
            .collect();
        let _ = writeln!(text, "| {} |", marks.join(" | "));
        for row in &self.rows {
            let cells: Vec<String> = match row {
                Row::Rule => continue,
                Row::Heading(words) => (0..self.columns.len())
                    .map(|i| if i == 0 { format!("**{}**", escape(words)) } else { String::new() })
                    .collect(),
                Row::Cells(cells) => cells.iter().map(|cell| escape(&cell.shown)).collect(),
            };
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {}", escape(note));
        }
        text
    }

    /// The rows without a rule at the end.
    fn body(&self) -> &[Row] {
        match self.rows.split_last() {
            Some((Row::Rule, rest)) => rest,
            _ => &self.rows,
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|c| width(&c.title).max(width(&c.unit))).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (known, cell) in widths.iter_mut().zip(cells) {
                    *known = (*known).max(width(&cell.shown));
                }
            }
        }
        // A group heading wider than its columns widens the last of them.
        for (start, end) in self.groups() {
            let have = self.span(&widths, start, end);
            widths[end - 1] += width(&self.columns[start].group).saturating_sub(have);
        }
        widths
    }

    /// Runs of neighbouring columns with one group, as index ranges.
    fn groups(&self) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        let mut start = 0;
        for end in 1..=self.columns.len() {
            if end == self.columns.len() || self.columns[end].group != self.columns[start].group {
                ranges.push((start, end));
                start = end;
            }
        }
        ranges
    }

    /// Characters from the first to the last of the columns `start..end`, gaps between them
    /// included.
    fn span(&self, widths: &[usize], start: usize, end: usize) -> usize {
        let gaps: usize = (start + 1..end).map(|index| width(self.gap(index))).sum();
        gaps + widths[start..end].iter().sum::<usize>()
    }

    /// Returns the separator before column `index`.
    fn gap(&self, index: usize) -> &'static str {
        if index == 0 {
            ""
        } else if self.columns[index].group != self.columns[index - 1].group {
            " │ "
        } else if self.columns[index].joined {
            " "
        } else {
            "  "
        }
    }

    fn text_line(&self, widths: &[usize], cells: &[&str]) -> String {
        let mut line = String::new();
        for (index, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            line.push_str(self.gap(index));
            let blanks = " ".repeat(widths[index].saturating_sub(width(cell)));
            match column.align {
                Align::Left => line.extend([*cell, &blanks]),
                Align::Right => line.extend([&blanks, *cell]),
            }
        }
        line
    }

    fn text_groups(&self, widths: &[usize]) -> String {
        let mut line = String::new();
        for (start, end) in self.groups() {
            line.push_str(self.gap(start));
            let group = &self.columns[start].group;
            let blanks = self.span(widths, start, end).saturating_sub(width(group));
            line.push_str(&" ".repeat(blanks / 2));
            line.push_str(group);
            line.push_str(&" ".repeat(blanks - blanks / 2));
        }
        line
    }

    fn text_rule(&self, widths: &[usize], cross: char) -> String {
        let mut line = String::new();
        for (index, width) in widths.iter().enumerate() {
            line.extend(self.gap(index).chars().map(|c| if c == '│' { cross } else { '─' }));
            line.extend(core::iter::repeat_n('─', *width));
        }
        line
    }
}

/// Leaves out the middle of what no page has room for: names of others have any length.
fn shorten(text: &mut String) {
    const MOST: usize = 400;
    const HEAD: usize = 250;
    const TAIL: usize = 100;
    let count = if text.len() > MOST { text.chars().count() } else { 0 };
    if count > MOST {
        let head: String = text.chars().take(HEAD).collect();
        let tail: String = text.chars().skip(count - TAIL).collect();
        *text = format!("{head} … {tail}");
    }
}

fn markdown_head(column: &Column) -> String {
    let mut head = escape(&column.title);
    if !column.group.is_empty() {
        head = format!("{}: {head}", escape(&column.group));
    }
    if !column.unit.is_empty() {
        let _ = write!(head, " ({})", escape(&column.unit));
    }
    head
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// `text` in lines as wide as the page, with a line feed at the end of each.
pub fn page_wrap(text: &str) -> String {
    if page::is_markdown() {
        return text.to_owned() + "\n\n";
    }
    wrap(text, page_width()).join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn long_notes_are_wrapped() {
        let mut table = Table::new("", vec![Column::text("Lock")]);
        table.note("word ".repeat(60));
        assert!(table.to_text().lines().all(|line| width(line) <= MAX_WIDTH));
    }
}
