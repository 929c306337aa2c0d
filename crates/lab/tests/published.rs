//! Published results in experiment files against the transcription of the tables as printed.

use std::collections::BTreeMap;

use convoy_lab::experiment::{Experiment, Grid, Published};
use serde::Deserialize;

/// A printed table, or a part of one with the same columns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    experiment: String,
    grid: String,
    /// Labels that all its cells share.
    #[serde(default)]
    at: BTreeMap<String, String>,
    /// Axis of its columns; without one, the cells of a row are runs of one point.
    across: Option<String>,
    #[serde(default)]
    columns: Vec<String>,
    /// Axis of its rows.
    along: Option<String>,
    /// Metric of the rows `mean`; other rows are named by their metric.
    metric: Option<String>,
    runs: Option<u32>,
    rows: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Tables {
    table: Vec<Table>,
}

/// The number of a cell, and whether it has a star.
fn read(cell: &str) -> (f64, bool) {
    let number = cell.trim_end_matches('*').trim_start_matches('+');
    (
        number.parse().unwrap_or_else(|_| panic!("{cell:?} is no number")),
        number != cell && cell.ends_with('*'),
    )
}

/// Every figure of a published row by its place, and whether it has a star.
type Figures = BTreeMap<String, (f64, bool)>;

/// The place of a figure: the labels of its point, and its name.
fn place(experiment: &str, grid: &str, at: &BTreeMap<String, String>, figure: &str) -> String {
    let labels: Vec<String> = at.iter().map(|(axis, label)| format!("{axis}={label}")).collect();
    format!("{experiment} {grid} {} {figure}", labels.join(" "))
}

impl Table {
    fn put(&self, figures: &mut Figures) {
        for (name, lines) in &self.rows {
            for (line, cells) in lines {
                let cells: Vec<&str> = cells.split_whitespace().collect();
                // The first column has no speedup.
                let skipped = usize::from(line == "speedup");
                let count = if self.columns.is_empty() { cells.len() } else { self.columns.len() };
                assert_eq!(cells.len() + skipped, count, "{name} {line}: cells of the row");
                for (index, cell) in cells.iter().enumerate() {
                    let mut at = self.at.clone();
                    at.extend(self.along.iter().map(|axis| (axis.clone(), name.clone())));
                    let across = self.across.iter();
                    at.extend(
                        across.map(|axis| (axis.clone(), self.columns[index + skipped].clone())),
                    );
                    let metric = self.metric.as_deref().unwrap_or(line);
                    let figure = match line.as_str() {
                        "speedup" | "change" => "change".to_owned(),
                        "mean" => format!("{metric} 0"),
                        "sd" | "half_width" => line.clone(),
                        _ => format!("{line} {index}"),
                    };
                    let place = place(&self.experiment, &self.grid, &at, &figure);
                    assert_eq!(figures.insert(place.clone(), read(cell)), None, "{place}: twice");
                }
                if let Some(runs) = self.runs.filter(|_| line == "mean") {
                    for column in &self.columns {
                        let mut at = self.at.clone();
                        at.extend(self.along.iter().map(|axis| (axis.clone(), name.clone())));
                        at.extend(self.across.iter().map(|axis| (axis.clone(), column.clone())));
                        let place = place(&self.experiment, &self.grid, &at, "runs");
                        figures.insert(place, (f64::from(runs), false));
                    }
                }
            }
        }
    }
}

fn put(experiment: &str, grid: &Grid, row: &Published, figures: &mut Figures) {
    let labels = row.at.iter().map(|(axis, label)| (axis.clone(), label.to_string())).collect();
    let mut insert = |figure: &str, value: f64, star: bool| {
        figures.insert(place(experiment, &grid.name, &labels, figure), (value, star));
    };
    for (metric, values) in &row.values {
        for (index, value) in values.iter().enumerate() {
            insert(&format!("{metric} {index}"), *value, false);
        }
    }
    if let Some(summary) = row.summary {
        insert("sd", summary.sd, false);
        insert("runs", f64::from(summary.runs), false);
        insert("half_width", summary.half_width.unwrap_or(f64::NAN), false);
    }
    if let Some(change) = row.change {
        insert("change", change, row.star);
    }
}

#[test]
fn published_results_are_what_was_printed_to_the_digit() {
    let tables: Tables = toml::from_str(include_str!("published.toml")).expect("a transcription");
    let (mut printed, mut shipped) = (Figures::new(), Figures::new());
    for table in &tables.table {
        table.put(&mut printed);
    }
    let mut names: Vec<&str> = tables.table.iter().map(|table| table.experiment.as_str()).collect();
    names.dedup();
    for name in names {
        let loaded = convoy_catalogue::load::<Experiment>(name, &[]).expect("a shipped experiment");
        for grid in &loaded.value.grid {
            for row in &grid.published {
                put(name, grid, row, &mut shipped);
            }
            for (label, change) in grid.compare.iter().flat_map(|compare| &compare.published) {
                let at = [(grid.compare.as_ref().unwrap().axis.clone(), label.clone())].into();
                shipped.insert(place(name, &grid.name, &at, "change"), (*change, false));
            }
        }
    }
    for (place, figure) in &printed {
        assert_eq!(shipped.get(place), Some(figure), "{place}: printed right, shipped left");
    }
    for place in shipped.keys() {
        assert!(printed.contains_key(place), "{place}: not in the transcription");
    }
    assert!(printed.len() > 300, "{} cells", printed.len());
}
