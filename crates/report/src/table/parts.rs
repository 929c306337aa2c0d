//! The widths of a table's columns, and the parts of a table that is wider than a page.

use super::flat::INDENT;
use super::{Align, Cell, Row, Table};
use crate::format::{NOTHING, middle, width};

impl Table {
    /// This table without as many of its minor columns, the last first, as a page of this width has
    /// no room for; a note names them.
    pub(super) fn fitted(&self, page: usize) -> Self {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let mut left_out = Vec::new();
        while self.wide(&kept) > page {
            let Some(at) = kept.iter().rposition(|&at| self.columns[at].minor) else { break };
            left_out.insert(0, self.columns[kept[at]].name());
            kept.drain(at..at + self.joined_to(kept[at]));
        }
        let (title, notes) = (self.title.clone(), self.notes.clone());
        let mut table = Self { title, notes, ..self.part(&kept) };
        if !left_out.is_empty() {
            table.note(format!("Left out for want of room: {}.", left_out.join(", ")));
        }
        table
    }

    /// Width of a table with these columns.
    fn wide(&self, columns: &[usize]) -> usize {
        let part = self.part(columns);
        part.span(&part.widths(), 0, columns.len())
    }

    /// Number of columns from this one to the last that is joined to it.
    fn joined_to(&self, at: usize) -> usize {
        1 + self.columns[at + 1..].iter().take_while(|column| column.joined).count()
    }

    /// Returns the columns of each part of at most `page` characters: first the columns that name a
    /// row, up to the first text column and adjacent text columns, then as many others as fit.
    pub(super) fn parts(&self, page: usize) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        if self.wide(&all) <= page {
            return vec![all];
        }
        let words = self.columns.iter().position(|column| column.align == Align::Left);
        let mut keys = words.map_or(1, |last| last + 1);
        // The labels of several axes are in adjacent columns, followed only by numbers.
        let labels = self.columns.iter().take_while(|column| column.is_label()).count();
        let numbers = self.columns[labels..].iter().all(|column| !column.is_label());
        if labels < all.len() && numbers && self.wide(&all[..labels]) <= page / 2 {
            keys = keys.max(labels);
        }
        let mut parts = vec![all[..keys].to_vec()];
        let mut next = keys;
        while next < self.columns.len() {
            let group = &self.columns[next].group;
            let same = self.columns[next..].iter().take_while(|more| more.group == *group);
            let count = if group.is_empty() { 1 } else { same.count() };
            let end = next + count - 1;
            let whole: Vec<usize> = (next..end + self.joined_to(end)).collect();
            // A group stays together if it fits; a joined column always stays with its number.
            let unit = if self.wide(&[&all[..keys], &whole].concat()) <= page {
                whole
            } else {
                (next..next + self.joined_to(next)).collect()
            };
            let last = parts.last_mut().expect("there is always a part");
            let with = [last.as_slice(), &unit].concat();
            if last.len() == keys || self.wide(&with) <= page {
                *last = with;
            } else {
                parts.push([&all[..keys], &unit].concat());
            }
            next += unit.len();
        }
        parts
    }

    /// Leaves out empty columns, and columns with the same value in all rows; a note contains the
    /// value. The first column stays.
    pub(crate) fn lean(&mut self) {
        let cells = |row: &Row| match row {
            Row::Cells(cells) => Some(cells.clone()),
            Row::Heading(_) | Row::Rule => None,
        };
        let rows: Vec<Vec<Cell>> = self.rows.iter().filter_map(cells).collect();
        // A row of an indented name belongs to the one above it.
        let is_part = |cells: &Vec<Cell>| cells[0].shown.starts_with(INDENT);
        let is_single = rows.iter().filter(|cells| !is_part(cells)).count() == 1;
        let (mut kept, mut empty, mut same) = (vec![0], Vec::new(), Vec::new());
        for (at, column) in self.columns.iter().enumerate().skip(1) {
            let name = column.name();
            let first = rows.first().map_or("", |cells| cells[at].shown.trim());
            let is_same = rows.iter().all(|cells| cells[at].shown.trim() == first);
            match first {
                _ if !is_same => kept.push(at),
                "" | NOTHING => empty.push(name),
                _ if is_single => kept.push(at),
                first => {
                    let unit = if column.unit.is_empty() { "" } else { " " };
                    same.push(format!("{name} {first}{unit}{}", column.unit));
                }
            }
        }
        let (title, notes) = (std::mem::take(&mut self.title), std::mem::take(&mut self.notes));
        *self = Self { title, notes, ..self.part(&kept) };
        if !same.is_empty() {
            self.note(format!("The same in all rows: {}.", same.join(", ")));
        }
        if !empty.is_empty() {
            self.note(format!("Not known, so left out: {}.", empty.join(", ")));
        }
    }

    /// This table with the words of its widest columns shortened in the middle, if it fits a page
    /// of this width then; else so that the first column leaves room for another one.
    pub(super) fn narrowed(&self, page: usize) -> Self {
        /// Words of which less than this is left say nothing.
        const LEAST: usize = 16;
        let mut limits = self.widths();
        let all = limits.len();
        let floor = |at: usize| {
            let column = &self.columns[at];
            LEAST.max(width(&column.title)).max(width(&column.unit))
        };
        while self.span(&limits, 0, all) > page {
            let words = (0..all).filter(|at| self.columns[*at].align == Align::Left);
            let widest = words.filter(|at| limits[*at] > floor(*at)).max_by_key(|at| limits[*at]);
            let Some(widest) = widest else { break };
            limits[widest] -= 1;
        }
        if self.span(&limits, 0, all) > page {
            limits = self.widths();
            let most = page.saturating_sub(LEAST);
            for (at, limit) in limits.iter_mut().enumerate() {
                let is_key = at == 0 && self.columns[at].align == Align::Left;
                *limit = (*limit).min(if is_key { page / 2 } else { most });
            }
        }
        let mut table = self.clone();
        for row in &mut table.rows {
            if let Row::Cells(cells) = row {
                for (cell, limit) in cells.iter_mut().zip(&limits) {
                    cell.shown = middle(&cell.shown, *limit);
                }
            }
        }
        table
    }

    /// This table with some of its columns, without title and notes.
    pub(super) fn part(&self, columns: &[usize]) -> Self {
        let pick = |row: &Row| match row {
            Row::Cells(cells) => Row::Cells(columns.iter().map(|&at| cells[at].clone()).collect()),
            other => other.clone(),
        };
        Self {
            columns: columns.iter().map(|&at| self.columns[at].clone()).collect(),
            rows: self.rows.iter().map(pick).collect(),
            ..Self::default()
        }
    }

    pub(super) fn widths(&self) -> Vec<usize> {
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
    pub(super) fn groups(&self) -> Vec<(usize, usize)> {
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
    pub(super) fn span(&self, widths: &[usize], start: usize, end: usize) -> usize {
        let gaps: usize = (start + 1..end).map(|index| width(self.gap(index))).sum();
        gaps + widths[start..end].iter().sum::<usize>()
    }

    /// Returns the separator before column `index`.
    pub(super) fn gap(&self, index: usize) -> &'static str {
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
}
