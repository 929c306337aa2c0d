//! A table for a page: the cells as they are shown, and the numbers by which they are sorted.

use serde_json::{Value, json};

use super::{Align, Row, Table};

impl Table {
    /// Its content, with a link for each row of cells from what the strip shows: a lock, the place
    /// that waits and the place that holds.
    pub(crate) fn web(&self, links: &[Option<[String; 3]>]) -> Value {
        let columns = self.columns.iter().map(|column| {
            json!({
                "title": column.title,
                "unit": column.unit,
                "group": column.group,
                "number": column.align == Align::Right,
            })
        });
        let mut links = links.iter();
        let rows = self.body().iter().filter_map(|row| match row {
            Row::Rule => None,
            Row::Heading(text) => Some(json!({ "heading": text })),
            Row::Cells(cells) => {
                let shown = cells.iter().map(|cell| json!([cell.shown, cell.value.json()]));
                let child = cells.first().is_some_and(|cell| cell.shown.starts_with("  "));
                let link = links.next().cloned().flatten();
                Some(json!({ "cells": shown.collect::<Vec<_>>(), "child": child, "link": link }))
            }
        });
        json!({
            "kind": "table",
            "title": self.title,
            "columns": columns.collect::<Vec<_>>(),
            "rows": rows.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
