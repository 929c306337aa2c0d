//! The distributions of all sides of a comparison.

use super::report::disturbed;
use convoy_measure::compare::{Row, Side};
use convoy_report::{CompareReport, RowsLine, RowsPanel, RowsPlot, significant};
use convoy_stats::Sample;

/// Maximum number of panels; a table shows more rows.
const PANELS: usize = 8;

/// A panel for each benchmark, a row for each side.
pub(super) fn distributions(report: &CompareReport, sides: &[Side], rows: &[Row<'_>]) -> RowsPlot {
    let mut panels: Vec<RowsPanel> = Vec::new();
    let mut left_out = 0;
    for series in sides.first().into_iter().flat_map(|side| &side.series) {
        let is_same = |row: &&Row<'_>| row.baseline.1.name() == series.name();
        let candidates = rows.iter().filter(is_same).map(|row| row.candidate);
        let all = sides.first().map(|side| (side, series)).into_iter();
        let all = all.chain(candidates);
        let lines: Vec<RowsLine> = all
            .map(|(side, series)| RowsLine {
                name: side.label.clone(),
                values: series.values.clone(),
                estimate: None,
                said: median(&series.values, &series.unit),
            })
            .collect();
        if lines.len() < 2 {
            continue;
        }
        if panels.len() == PANELS {
            left_out += 1;
            continue;
        }
        let name = series.name();
        let label = if series.unit.is_empty() { name } else { format!("{name}, {}", series.unit) };
        panels.push(RowsPanel { label, reference: None, lines });
    }
    let more = match left_out {
        0 => String::new(),
        count => format!("; {count} more benchmarks are in the table"),
    };
    let doubt = disturbed(sides).map_or(String::new(), |doubt| format!(". {doubt}"));
    RowsPlot {
        title: report.sentence(),
        subtitle: format!(
            "each dot a run; box: quartiles and median, lines: to the least and the \
             most{more}{doubt}"
        ),
        panels,
    }
}

fn median(values: &[f64], unit: &str) -> String {
    let sample = Sample::new(values.to_vec());
    sample.map_or(String::new(), |all| format!("median {} {unit}", significant(all.median())))
}
