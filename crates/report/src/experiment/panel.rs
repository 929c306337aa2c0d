//! A panel of a plot: the change of a metric over one axis, a series for each point of another.

use convoy_lab::experiment::{Change, Plan, PlannedGrid, View};

use super::beside::change;
use super::results::Results;
use super::sentence;
use crate::format::{capital, fixed};
use crate::metric::metric;
use crate::plot::{Axis, Panel, Plot, Point, Series};
use crate::range::Scale;
use crate::table::{Cell, Column, Table};

/// Returns the axis with points as series: the compared axis, or else the axis of the columns.
fn series_axis(grid: &PlannedGrid) -> Option<&str> {
    let compared = grid.grid.compare.as_ref().map(|compare| compare.axis.as_str());
    compared.or(grid.grid.columns.as_deref())
}

/// The axis that goes across: the first other one.
fn horizontal(grid: &PlannedGrid) -> Option<usize> {
    let series = series_axis(grid);
    grid.axes.iter().position(|axis| Some(axis.name.as_str()) != series)
}

/// Returns a panel of the compared metric, or one of each metric.
pub(super) fn panels(results: Results) -> Vec<Panel> {
    let grid = &results.grid.grid;
    match &grid.compare {
        Some(compare) => vec![panel(results, &compare.metric)],
        None => grid.metrics.iter().map(|key| panel(results, key)).collect(),
    }
}

/// Whether there is an axis to draw values over.
pub(super) fn has_axis(grid: &PlannedGrid) -> bool {
    horizontal(grid).is_some()
}

/// The axis of lock loops that goes across: threads, or else the first other one, if it has several
/// numbers.
pub(super) fn across_loops(grid: &PlannedGrid) -> Option<usize> {
    let series = series_axis(grid);
    let is_wide = |at: &usize| {
        let axis = &grid.axes[*at];
        Some(axis.name.as_str()) != series
            && axis.levels.len() > 1
            && axis.levels.iter().all(|level| level.raw.parse::<f64>().is_ok())
    };
    let threads = grid.axes.iter().position(|axis| axis.name == "threads").filter(is_wide);
    threads.or_else(|| (0..grid.axes.len()).find(is_wide))
}

/// Returns the throughput of lock loops: a line for each lock over the first axis of numbers that
/// has several, a panel for each point of the others.
pub(super) fn of_locks(results: Results) -> Vec<Panel> {
    const THROUGHPUT: &str = "acquisitions_per_s";
    let axes = &results.grid.axes;
    let lock = series_axis(results.grid).and_then(|axis| results.grid.axis(axis));
    let Some(across) = across_loops(results.grid) else { return Vec::new() };
    let mut panels: Vec<Panel> = Vec::new();
    for (index, point) in results.grid.points.iter().enumerate() {
        let values = results.values(index, THROUGHPUT).and_then(|all| results.estimate(all));
        let Some(found) = values else { continue };
        let others = (0..axes.len())
            .filter(|at| *at != across && Some(*at) != lock && axes[*at].levels.len() > 1);
        let titles: Vec<String> = others
            .map(|at| format!("{} {}", axes[at].name, axes[at].levels[point.at[at]].label))
            .collect();
        let title = in_words(&titles.join(", "));
        if panels.iter().all(|panel| panel.title != title) {
            panels.push(Panel {
                title: title.clone(),
                x: Axis { label: axes[across].name.replace('_', " "), scale: Scale::Log },
                y: Axis { label: "acquisitions per second".to_owned(), scale: Scale::Linear },
                series: Vec::new(),
            });
        }
        let Some(panel) = panels.iter_mut().find(|panel| panel.title == title) else { continue };
        let Ok(x) = axes[across].levels[point.at[across]].raw.parse() else { continue };
        let at = Point { x, y: found.mean, lo: found.lo, hi: found.hi };
        let name = lock.map_or("all", |lock| axes[lock].levels[point.at[lock]].label.as_str());
        match panel.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(at),
            None => panel.series.push(Series { name: name.to_owned(), points: vec![at] }),
        }
    }
    panels
}

/// The points of axes as a reader says them: the length of sections has a unit.
pub(super) fn in_words(place: &str) -> String {
    let word = |point: &str| match point.split_once(' ') {
        Some(("section" | "section_ns", ns)) => format!("sections of {ns} ns"),
        Some(("CPUs", count)) => format!("{count} CPUs"),
        _ => point.replace('_', " "),
    };
    place.split(", ").map(word).collect::<Vec<_>>().join(", ")
}

/// Between which values the first of `panels` goes, and where these are.
pub(super) fn verdict(panels: &[Panel]) -> Option<String> {
    let panel = panels.first()?;
    let points = || {
        panel.series.iter().flat_map(|series| {
            series.points.iter().map(|point| (point.y, point.x, series.name.as_str()))
        })
    };
    let least = points().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = points().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let place = |(y, x, name): (f64, f64, &str)| {
        format!("{} ({name} at {} {x})", fixed(y, 1), panel.x.label)
    };
    let (title, label) = (&panel.title, &panel.y.label);
    Some(format!("{title}: {label} from {} to {}", place(least), place(most)))
}

fn panel(results: Results, key: &str) -> Panel {
    let grid = results.grid;
    let across = horizontal(grid);
    let compare = grid.grid.compare.as_ref();
    let compared = series_axis(grid).and_then(|axis| grid.axis(axis));
    let mut series: Vec<Series> = Vec::new();
    for (index, point) in grid.points.iter().enumerate() {
        let Some(across) = across else { continue };
        let level = &grid.axes[across].levels[point.at[across]];
        let Ok(x) = level.raw.parse::<f64>() else { continue };
        let found = match results.baseline(index) {
            Some(base) if base == index => continue,
            Some(base) => change(results, base, index, key),
            None => results.values(index, key).and_then(|all| results.estimate(all)),
        };
        let Some(found) = found else { continue };
        let name =
            compared.map_or(key, |axis| grid.axes[axis].levels[point.at[axis]].label.as_str());
        let x = x / grid.grid.x_divisor.unwrap_or(1.0);
        let at = Point { x, y: found.mean, lo: found.lo, hi: found.hi };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(at),
            None => series.push(Series { name: name.to_owned(), points: vec![at] }),
        }
    }
    let (title, unit) = metric(key).map_or((key, ""), |metric| (metric.title, metric.unit));
    let label = match compare.map(|compare| compare.change) {
        Some(Change::Loss) => format!("loss of {title}, %"),
        Some(Change::Gain) => format!("gain of {title}, %"),
        Some(Change::Ratio) => format!("{title} over the baseline"),
        None => format!("{title}, {unit}"),
    };
    // Values of many sizes, unless all are of one.
    let scale = if compare.is_some() { Scale::Linear } else { Scale::Decades };
    let across = across.map(|axis| grid.axes[axis].name.clone()).unwrap_or_default();
    Panel {
        title: grid.grid.title.clone(),
        x: Axis { label: grid.grid.x_label.clone().unwrap_or(across), scale: Scale::Log },
        y: Axis { label, scale },
        series,
    }
}

/// The panels of the report under one title, with what speaks against their values.
pub(super) fn plot(plan: &Plan, panels: Vec<Panel>, doubt: Option<&str>) -> Option<Plot> {
    let grid = plan.grids.iter().find(|grid| horizontal(grid).is_some())?;
    let compare = grid.grid.compare.as_ref().filter(|_| grid.grid.view == View::Plot);
    let against = compare.map(|compare| format!("; baseline {}", compare.against()));
    let setup = match grid.grid.view {
        View::Peers => format!("medians of {} rounds; bars: their range", grid.seeds.len()),
        _ => sentence::setup(grid),
    };
    let doubt = doubt.map_or(String::new(), |doubt| format!(". {doubt}"));
    let subtitle = format!("{setup}{}{doubt}", against.unwrap_or_default());
    let title = capital(&plan.experiment.title);
    (!panels.is_empty()).then_some(Plot { title, subtitle, panels })
}

pub(super) fn table(panel: &Panel) -> Table {
    let mut columns = vec![Column::number(&panel.x.label, "")];
    for series in &panel.series {
        columns.push(Column::number(&series.name, ""));
        columns.push(Column::text("").key(&format!("{} half width", series.name)).joined());
    }
    let mut table = Table::new(&format!("{}: {}", panel.title, panel.y.label), columns);
    let mut across: Vec<f64> = Vec::new();
    for point in panel.series.iter().flat_map(|series| &series.points) {
        if !across.contains(&point.x) {
            across.push(point.x);
        }
    }
    for x in across {
        let mut row = vec![Cell::shown(x.to_string(), x)];
        for series in &panel.series {
            let point = series.points.iter().find(|point| point.x.to_bits() == x.to_bits());
            let (y, half) = point.map_or((f64::NAN, f64::NAN), |p| (p.y, (p.hi - p.lo) / 2.0));
            row.push(Cell::number(y, 1));
            row.push(super::rows::half_width(half));
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_begins_with_the_ends_of_its_first_panel() {
        fn series(name: &str, ys: [f64; 2]) -> Series {
            let points =
                [1.0, 8.0].into_iter().zip(ys).map(|(x, y)| Point { x, y, lo: y, hi: y }).collect();
            Series { name: name.to_owned(), points }
        }
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log };
        let series = vec![series("fair", [3.0, 1.0]), series("spin", [5.0, 2.0])];
        let panel = Panel { title: "locks".to_owned(), x: axis("CPUs"), y: axis("rate"), series };
        let expected = "locks: rate from 1.0 (fair at CPUs 8) to 5.0 (spin at CPUs 1)";
        assert_eq!(verdict(&[panel]).as_deref(), Some(expected));
        assert_eq!(verdict(&[]), None);
    }
}
