//! A table for people: plain text and Markdown.

use super::page::{fit, is_markdown, page_width, table_width};
use super::{Align, Column, Row, Table};
use crate::format::{width, wrap};
use core::fmt::Write;

impl Table {
    /// Plain text with a line feed at the end of each line and no blanks before it. A table that is
    /// wider than the page is printed in parts, each with the columns that name its rows.
    pub fn to_text(&self) -> String {
        if is_markdown() {
            return self.to_markdown() + "\n";
        }
        self.to_text_within(table_width())
    }

    pub(super) fn to_text_within(&self, page: usize) -> String {
        let (mut lines, table) = (Vec::new(), self.fitted(page));
        // Sentences are not wider in a file.
        let width = page.min(page_width());
        // A title has its own lines.
        for line in table.title.lines() {
            lines.extend(fit(line, width));
        }
        for (at, columns) in table.parts(page).iter().enumerate() {
            if at > 0 {
                lines.push(String::new());
            }
            table.part(columns).body_lines(width, &mut lines);
        }
        lines.extend(table.notes.iter().flat_map(|note| wrap(note, width)));
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
    pub(super) fn body(&self) -> &[Row] {
        match self.rows.split_last() {
            Some((Row::Rule, rest)) => rest,
            _ => &self.rows,
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

    /// Plain text of a table of names, which may be shortened in the middle.
    pub fn to_text_of_names(&self) -> String {
        if is_markdown() {
            return self.to_text();
        }
        let page = table_width();
        self.fitted(page).narrowed(page).to_text()
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
