//! A table for programs: flat rows, in CSV and JSON.

use serde::Serialize;

use super::{Cell, Column, Row, Table};
use crate::table::cell::Value;

/// What begins the first cell of a row that belongs to the row above it.
pub(super) const INDENT: &str = "  ";

impl Table {
    /// Rows for programs alone: each column has a name, and the place (RFC 6901) of its value in
    /// the JSON of a row.
    pub(crate) fn of_json(rows: &[impl Serialize], columns: &[(&str, &str)]) -> Self {
        let heads = columns.iter().map(|(name, _)| Column::text(name));
        let mut table = Self::new("", heads.collect());
        for row in rows {
            let row = serde_json::to_value(row).unwrap_or_default();
            let cell = |place: &str| row.pointer(place).map_or_else(Cell::empty, Cell::of_json);
            table.row(columns.iter().map(|(_, place)| cell(place)).collect());
        }
        table
    }

    /// RFC 4180 with line feeds; unrounded numbers, no title, no notes. The name of an indented row
    /// is in a separate column, `part`, next to the name of the row that it belongs to.
    pub fn to_csv(&self) -> String {
        let (columns, rows) = self.flat();
        let mut text = csv_line(columns.iter().map(|column| column.key.as_str()));
        for cells in rows {
            text.push_str(&csv_line(cells.iter().map(|cell| cell.value.csv())));
        }
        text
    }

    /// An array of objects, one for each row: the CSV's names and unrounded numbers; an empty cell
    /// is null.
    pub fn to_json(&self) -> serde_json::Value {
        let (columns, rows) = self.flat();
        let object = |cells: Vec<Cell>| {
            let fields = columns.iter().zip(cells);
            let fields = fields.map(|(column, cell)| (column.key.clone(), cell.value.json()));
            serde_json::Value::Object(fields.collect())
        };
        serde_json::Value::Array(rows.into_iter().map(object).collect())
    }

    /// Columns and rows without indentation.
    fn flat(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let rows = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells.clone()),
            Row::Heading(_) | Row::Rule => None,
        });
        let mut rows: Vec<Vec<Cell>> = rows.collect();
        let mut columns = self.columns.clone();
        let is_part = |cells: &[Cell]| match cells.first().map(|cell| &cell.value) {
            Some(Value::Word(word)) => word.starts_with(INDENT),
            _ => false,
        };
        if !rows.iter().any(|cells| is_part(cells)) {
            return (columns, rows);
        }
        columns.insert(1, Column::text("part"));
        let mut above = Cell::empty();
        for cells in &mut rows {
            let mut part = Cell::empty();
            if is_part(cells) {
                for cell in cells.iter_mut() {
                    if let Value::Word(word) = &mut cell.value {
                        *word = word.trim_start().to_owned();
                    }
                }
                part = std::mem::replace(&mut cells[0], above.clone());
            } else {
                above = cells.first().cloned().unwrap_or_default();
            }
            cells.insert(1, part);
        }
        (columns, rows)
    }
}

fn csv_line(cells: impl Iterator<Item = impl AsRef<str>>) -> String {
    let quoted: Vec<String> = cells
        .map(|cell| {
            let cell = cell.as_ref();
            if cell.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        })
        .collect();
    quoted.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_rows_become_a_column() {
        let columns = vec![Column::text("lock"), Column::text("kind"), Column::number("n", "")];
        let mut table = Table::new("", columns);
        let mut row = |name: &str, kind: &str, n| {
            table.row(vec![Cell::text(name), Cell::text(kind), Cell::count(n)]);
        };
        row("m", "mutex", 3);
        row("  f (x.c:1)", "  lock", 2);
        row("  g, \"h\"", "  trylock", 1);
        row("other", "mutex", 0);
        let csv = "lock,part,kind,n\nm,,mutex,3\nm,f (x.c:1),lock,2\nm,\"g, \"\"h\"\"\",trylock,1\n\
                   other,,mutex,0\n";
        assert_eq!(table.to_csv(), csv);
        assert_eq!(table.to_json()[1]["part"], "f (x.c:1)");
        let mut plain = Table::new("", vec![Column::text("a")]);
        plain.row(vec![Cell::text("x")]);
        assert_eq!(plain.to_csv(), "a\nx\n");
    }
}
