//! How wide a page is, and the parts of a table that is wider.

use super::{Align, MAX_WIDTH, Row, Table};
use crate::format::{width, wrap};
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
