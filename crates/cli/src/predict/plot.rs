//! The plots of a prediction: throughput over CPUs or threads, and what each change gives.

use convoy_predict::{Prediction, Row};
use convoy_report::prediction::verdict;
use convoy_report::{Axis, Panel, Plot, Point, RowsLine, RowsPanel, RowsPlot, Scale, Series};

/// A line may leave the frame of the others by this factor before it ends.
const IDEAL_ABOVE: f64 = 1.2;

/// What goes across.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Across {
    Cpus,
    Threads,
}

impl Across {
    fn of(self, row: &Row) -> f64 {
        f64::from(match self {
            Self::Cpus => row.cpus,
            Self::Threads => row.threads,
        })
    }
}

/// The throughput over CPUs, or over threads if these vary, a line for each lock.
pub(crate) fn curves(prediction: &Prediction) -> Plot {
    let rows = &prediction.rows;
    let varies = |of: fn(&Row) -> u32| rows.iter().any(|row| of(row) != of(&rows[0]));
    let (cpus, threads) = (varies(|row| row.cpus), varies(|row| row.threads));
    let across = if threads && !cpus { Across::Threads } else { Across::Cpus };
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows {
        let title =
            if threads && cpus { format!("{} threads", row.threads) } else { String::new() };
        let at = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            panels.push(panel(title, across));
            panels.len() - 1
        });
        add(&mut panels[at].series, row, across);
    }
    for panel in &mut panels {
        panel.series.extend(ideal(&panel.series).filter(|_| across == Across::Cpus));
    }
    Plot {
        title: verdict(prediction).replace('`', ""),
        subtitle: "predicted; bars: interval that follows from the record, narrowed by \
                   simulations; ideal: as many times the first point as there are CPUs"
            .to_owned(),
        panels,
    }
}

fn panel(title: String, across: Across) -> Panel {
    let axis = |label: &str, scale| Axis { label: label.to_owned(), scale };
    let label = if across == Across::Cpus { "CPUs" } else { "threads" };
    let y = axis("acquisitions per second", Scale::Linear);
    Panel { title, x: axis(label, Scale::Log), y, series: Vec::new() }
}

fn add(series: &mut Vec<Series>, row: &Row, across: Across) {
    let base = row.acquisitions_per_s / (1.0 + row.change_percent / 100.0);
    let of = |percent: f64| base * (1.0 + percent / 100.0);
    let point = Point {
        x: across.of(row),
        y: row.acquisitions_per_s,
        lo: of(row.low_percent),
        hi: of(row.high_percent),
    };
    let name = name(row);
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => series.push(Series { name, points: vec![point] }),
    }
}

fn name(row: &Row) -> String {
    match row.split {
        0 | 1 => row.policy.clone(),
        parts => format!("{}, {parts} locks", row.policy),
    }
}

/// The first line if it grew with the CPUs, as far as it stays near the others.
fn ideal(series: &[Series]) -> Option<Series> {
    let points = &series.first()?.points;
    let first = points.iter().min_by(|a, b| a.x.total_cmp(&b.x))?;
    let per_cpu = first.y / first.x;
    let all = || series.iter().flat_map(|series| &series.points);
    let most_x = all().map(|point| point.x).fold(0.0, f64::max);
    let most_y = IDEAL_ABOVE * all().map(|point| point.y).fold(0.0, f64::max);
    let end = most_x.min(most_y / per_cpu);
    if !end.is_finite() || end <= first.x {
        return None;
    }
    let step = (end / first.x).powf(0.1);
    let at = |number: i32| first.x * step.powi(number);
    let point = |x: f64| Point { x, y: per_cpu * x, lo: f64::NAN, hi: f64::NAN };
    Some(Series { name: "ideal".to_owned(), points: (0..=10).map(|n| point(at(n))).collect() })
}

/// A whole number with its sign; 0 has none.
fn signed(value: f64) -> String {
    let text = format!("{value:+.0}");
    if ["+0", "-0"].contains(&text.as_str()) { "0".to_owned() } else { text.replace('-', "−") }
}

/// What each lock gives, with its interval.
pub(crate) fn changes(prediction: &Prediction, title: &str) -> RowsPlot {
    fn line(row: &Row) -> RowsLine {
        let [value, lo, hi] = [row.change_percent, row.low_percent, row.high_percent];
        RowsLine {
            name: name(row),
            values: Vec::new(),
            estimate: Some([value, lo, hi]),
            said: format!("{} % ({} to {})", signed(value), signed(lo), signed(hi)),
        }
    }
    let panel = RowsPanel {
        label: "change of acquisitions per second, %".to_owned(),
        reference: Some(0.0),
        lines: prediction.rows.iter().map(line).collect(),
    };
    RowsPlot {
        title: title.replace('`', ""),
        subtitle: "predicted, against the recorded machine without other programs; bars: interval \
                   that follows from the record, narrowed by simulations"
            .to_owned(),
        panels: vec![panel],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ideal_line_begins_at_the_first_point_and_stays_near() {
        let point = |x: f64, y: f64| Point { x, y, lo: y, hi: y };
        let one =
            Series { name: "sleep".into(), points: vec![point(1.0, 10.0), point(16.0, 20.0)] };
        let line = ideal(&[one]).expect("it grows").points;
        assert!((line[0].x - 1.0).abs() < 1e-9 && (line[0].y - 10.0).abs() < 1e-9);
        let last = line[line.len() - 1];
        assert!((last.y - 24.0).abs() < 1e-6 && (last.x - 2.4).abs() < 1e-6, "{last:?}");
        assert!(ideal(&[]).is_none());
    }
}
