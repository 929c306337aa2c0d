//! How wide a page is, and the parts of a table that is wider.

use super::{Align, Cell, MAX_WIDTH, Row, Table};
use crate::format::{NOTHING, middle, width, wrap};
use core::cell::Cell as Flag;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Narrowest page: a key and one more column must fit.
const MIN_WIDTH: usize = 40;

static PAGE_WIDTH: AtomicUsize = AtomicUsize::new(MAX_WIDTH);

/// Sets the width of the page for which this process prints, in characters: the only input of a
/// report that is not in its record. At least 40.
pub fn set_page_width(width: usize) {
    PAGE_WIDTH.store(width.max(MIN_WIDTH), Relaxed);
}

/// The width of the page, in characters.
pub(crate) fn page_width() -> usize {
    PAGE_WIDTH.load(Relaxed)
}

std::thread_local! {
    /// Whether texts are made as Markdown.
    static MARKDOWN: Flag<bool> = const { Flag::new(false) };
}

/// Makes a text for people as GitHub's Markdown: tables as pipe tables, paragraphs on one line.
pub fn in_markdown(text: impl FnOnce() -> String) -> String {
    MARKDOWN.set(true);
    let text = text();
    MARKDOWN.set(false);
    text
}

/// Whether this thread makes Markdown.
pub(super) fn is_markdown() -> bool {
    MARKDOWN.get()
}

impl Table {
    /// Returns the columns of each part of at most `page` characters: first the columns that name a
    /// row, up to the first text column and adjacent text columns, then as many others as fit.
    pub(super) fn parts(&self, page: usize) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let wide = |columns: &[usize]| {
            let part = self.part(columns);
            part.span(&part.widths(), 0, columns.len())
        };
        if wide(&all) <= page {
            return vec![all];
        }
        let words = self.columns.iter().position(|column| column.align == Align::Left);
        let mut keys = words.map_or(1, |last| last + 1);
        // The labels of several axes stand side by side, and only numbers behind them.
        let labels = self.columns.iter().take_while(|column| column.is_label()).count();
        let numbers = self.columns[labels..].iter().all(|column| !column.is_label());
        if labels < all.len() && numbers && wide(&all[..labels]) <= page / 2 {
            keys = keys.max(labels);
        }
        let mut parts = vec![all[..keys].to_vec()];
        let mut next = keys;
        while next < self.columns.len() {
            let rest = &self.columns[next + 1..];
            let group = &self.columns[next].group;
            let same = rest.iter().take_while(|more| !group.is_empty() && more.group == *group);
            let whole: Vec<usize> = (next..=next + same.count()).collect();
            // A group stays together if it can; a column always with the one it belongs to.
            let unit = if wide(&[&all[..keys], &whole].concat()) <= page {
                whole
            } else {
                let more = rest.iter().take_while(|column| column.joined).count();
                (next..=next + more).collect()
            };
            let last = parts.last_mut().expect("there is always a part");
            let with = [last.as_slice(), &unit].concat();
            if last.len() == keys || wide(&with) <= page {
                *last = with;
            } else {
                parts.push([&all[..keys], &unit].concat());
            }
            next += unit.len();
        }
        parts
    }

    /// Leaves out the columns in which nothing is written, and those that say the same in all rows;
    /// a note has what they say. The first column stays.
    pub(crate) fn lean(&mut self) {
        let cells = |row: &Row| match row {
            Row::Cells(cells) => Some(cells.clone()),
            Row::Heading(_) | Row::Rule => None,
        };
        let rows: Vec<Vec<Cell>> = self.rows.iter().filter_map(cells).collect();
        let (mut kept, mut empty, mut same) = (vec![0], Vec::new(), Vec::new());
        for (at, column) in self.columns.iter().enumerate().skip(1) {
            let name = match column.group.as_str() {
                "" => column.title.clone(),
                group => format!("{group} {}", column.title),
            };
            let first = rows.first().map_or("", |cells| cells[at].shown.trim());
            let is_same = rows.iter().all(|cells| cells[at].shown.trim() == first);
            match first {
                _ if !is_same => kept.push(at),
                "" | NOTHING => empty.push(name),
                _ if rows.len() == 1 => kept.push(at),
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

    /// Plain text of a table whose words are names, which may be shortened in the middle.
    pub fn to_text_of_names(&self) -> String {
        if is_markdown() {
            return self.to_text();
        }
        self.narrowed(page_width()).to_text()
    }

    /// This table with the words of its widest columns shortened in the middle, if it fits a page
    /// of this width then; else so that the first column leaves room for another one.
    fn narrowed(&self, page: usize) -> Self {
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
}

/// A line as it is, or broken if it is too long.
pub(super) fn fit(line: &str, page: usize) -> Vec<String> {
    if width(line) <= page { vec![line.to_owned()] } else { wrap(line, page) }
}
