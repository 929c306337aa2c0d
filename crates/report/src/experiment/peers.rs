//! Locks on this machine: medians of the rounds, and the ratio of each lock's critical sections to
//! the fastest peer's in the same round, because other programs use the machine, too.

use convoy_lab::experiment::Point;
use convoy_lab::job::Job;
use convoy_lab::lock_loop::Library;

use super::panel::in_words;
use super::published::ending;
use super::results::{Results, median};
use super::rows::{disturbance, label_cell, metric_cell, shown};
use crate::format::{distinct, fixed, significant};
use crate::plot::{Axis, Panel, Point as At, Series};
use crate::range::Scale;
use crate::table::{Cell, Column, Table};

/// The compared axis.
const LOCK: &str = "lock";
/// The metric of throughput.
const SECTIONS: &str = "acquisitions_per_s";
/// What else a row says.
const METRICS: [&str; 4] = ["cpu_ns_per_section", "jain", "wait_p99_us", "wait_max_us"];

/// A lock in one place.
struct Row<'a> {
    index: usize,
    point: &'a Point,
    lock: &'a str,
    threads: u32,
    sections: f64,
    /// Ratio to the fastest peer's.
    ratio: Option<f64>,
    /// Threads without a section, in each round.
    starved: Vec<f64>,
    metrics: [f64; METRICS.len()],
}

fn is_ours(lock: &str) -> bool {
    Library::named(lock).is_none_or(Library::is_ours)
}

/// Rounds in which every point was measured; 1 if the first was not finished.
fn rounds(results: Results) -> usize {
    let mut rest = results.outcomes;
    let done = results.grid.points.iter().map(|point| {
        let (own, others) = rest.split_at(point.jobs.len().min(rest.len()));
        rest = others;
        own.iter().take_while(|outcome| outcome.is_some()).count()
    });
    done.min().unwrap_or(0).max(1)
}

/// One number of a point, round by round, as far as all points were measured.
fn values(results: Results, index: usize, metric: &str) -> Option<Vec<f64>> {
    let start: usize = results.grid.points[..index].iter().map(|point| point.jobs.len()).sum();
    let own = results.outcomes.get(start..start + results.grid.points.get(index)?.jobs.len())?;
    own.iter().take(rounds(results)).map(|outcome| outcome.as_ref()?.metric(metric)).collect()
}

/// Returns the warning about other programs, if they used the CPUs during the measurement.
fn disturbed(results: Results) -> Option<String> {
    let points = 0..results.grid.points.len();
    disturbance(points.filter_map(|index| values(results, index, "others_cpus")), results)
}

/// Returns the critical sections of the fastest peer at the point `at`, round by round.
fn fastest(results: Results, at: &[usize], axis: usize) -> Option<Vec<f64>> {
    let grid = results.grid;
    let others =
        grid.axes[axis].levels.iter().enumerate().filter(|(_, lock)| !is_ours(&lock.label));
    let others =
        others.filter_map(|(level, _)| values(results, grid.sibling(at, axis, level)?, SECTIONS));
    others.reduce(|most, other| most.iter().zip(&other).map(|(a, b)| a.max(*b)).collect())
}

fn rows(results: Results) -> Vec<Row> {
    let grid = results.grid;
    let Some(axis) = grid.axis(LOCK) else { return Vec::new() };
    let of = |(index, point): (usize, &'_ Point)| {
        let Job::Locks(job) = point.jobs.first()? else { return None };
        let sections = values(results, index, SECTIONS)?;
        let ratio = fastest(results, &point.at, axis).and_then(|most| {
            median(&sections.iter().zip(most).map(|(own, most)| own / most).collect::<Vec<_>>())
        });
        Some(Row {
            index,
            point: &grid.points[index],
            lock: &grid.axes[axis].levels[point.at[axis]].label,
            threads: job.threads(),
            sections: median(&sections)?,
            ratio,
            starved: values(results, index, "starved_threads")?,
            metrics: METRICS.map(|key| {
                values(results, index, key).and_then(|all| median(&all)).unwrap_or(f64::NAN)
            }),
        })
    };
    grid.points.iter().enumerate().filter_map(of).collect()
}

impl Row<'_> {
    fn starved_most(&self) -> f64 {
        self.starved.iter().copied().fold(0.0, f64::max)
    }

    /// Where it was measured, in words.
    fn place(&self, results: Results) -> String {
        let pairs = results.grid.axes.iter().zip(&self.point.at);
        let others = pairs.filter(|(axis, _)| axis.name != LOCK && axis.levels.len() > 1);
        let words = others.map(|(axis, &at)| format!("{} {}", axis.name, axis.levels[at].label));
        words.collect::<Vec<_>>().join(", ")
    }

    fn cells(&self, results: Results) -> Vec<Cell> {
        let levels = results.grid.axes.iter().zip(&self.point.at);
        let mut cells: Vec<Cell> = levels.map(|(axis, &at)| label_cell(&axis.levels[at])).collect();
        cells.push(Cell::number(self.sections, 0));
        cells.push(Cell::known(self.ratio, 2));
        let starved = median(&self.starved).unwrap_or(f64::NAN);
        cells.extend([starved, self.starved_most()].map(|count| Cell::number(count, 0)));
        cells.extend(METRICS.iter().zip(self.metrics).map(|(key, value)| metric_cell(key, value)));
        cells
    }
}

/// Returns the table, its panels, and the sentence with the result.
pub(super) fn view(results: Results) -> (Table, Vec<Panel>, Option<String>) {
    let grid = results.grid;
    let rounds = match (rounds(results), grid.seeds.len()) {
        (done, all) if done < all => format!("{done} of {all}"),
        (_, all) => all.to_string(),
    };
    let title = format!("{}: {}\nmedians of {rounds} rounds", results.plan.name, grid.grid.title);
    let mut columns: Vec<Column> = grid.axes.iter().map(|axis| Column::text(&axis.name)).collect();
    columns.push(Column::number("Sections", "1/s").key(SECTIONS));
    columns.push(Column::number("of fastest", "").key("of_fastest"));
    columns.push(Column::number("Starved", "").key("starved_threads"));
    columns.push(Column::number("at most", "").key("starved_threads_max"));
    columns.extend(METRICS.iter().map(|key| {
        let (title, unit, _) = shown(key);
        Column::number(&title, unit).key(key)
    }));
    let mut table = Table::new(&title, columns);
    let rows = rows(results);
    for (at, row) in rows.iter().enumerate() {
        // The lock is the last axis: a new place begins where any other changes.
        let place = |row: &Row| row.point.at[..row.point.at.len() - 1].to_vec();
        if at > 0 && place(row) != place(&rows[at - 1]) {
            table.rule();
        }
        table.row(row.cells(results));
    }
    table.note(
        "of fastest: sections over those of the fastest lock that is not ours, in the same round; \
         starved: threads without a section in the window; a wait that has not ended counts as if \
         it ended with the window",
    );
    table.note(alone(results, &rows));
    grid.grid.notes.iter().for_each(|note| table.note(note));
    if let Some(sentence) = disturbed(results) {
        table.note(format!(
            "{sentence} One that keeps more threads ready to run gets more of the CPUs: the CPU \
             time of a section is what can be compared."
        ));
    }
    for note in ending(results) {
        table.note(note);
    }
    (table, panels(results, &rows), verdict(results, &rows))
}

/// Returns the uncontended cost of each lock: the minimum of all rounds.
fn alone(results: Results, rows: &[Row]) -> String {
    let locks = distinct(rows.iter().map(|row| row.lock));
    let of = |lock: &str| {
        let own = rows.iter().filter(|row| row.lock == lock);
        let all = own.filter_map(|row| values(results, row.index, "alone_ns")).flatten();
        format!("{lock} {}", fixed(all.fold(f64::INFINITY, f64::min), 1))
    };
    let costs: Vec<String> = locks.into_iter().map(of).collect();
    format!("to take and release it uncontended, ns: {}", costs.join(", "))
}

/// A panel for each place but for the threads, which go across.
fn panels(results: Results, rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows {
        let place = row.place(results);
        let name = place.split(", threads").next().unwrap_or_default();
        let title = if place.starts_with("threads") { String::new() } else { in_words(name) };
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title: title.clone(),
                x: Axis { label: "threads".to_owned(), scale: Scale::Log },
                y: Axis { label: "sections per second".to_owned(), scale: Scale::Decades },
                series: Vec::new(),
            });
        }
        let Some(panel) = panels.last_mut() else { continue };
        let (x, y) = (f64::from(row.threads), row.sections);
        let rounds = values(results, row.index, SECTIONS).unwrap_or_default();
        let lo = rounds.iter().copied().fold(f64::NAN, f64::min);
        let at = At { x, y, lo, hi: rounds.into_iter().fold(f64::NAN, f64::max) };
        match panel.series.iter_mut().find(|series| series.name == row.lock) {
            Some(series) => series.points.push(at),
            None => panel.series.push(Series { name: row.lock.to_owned(), points: vec![at] }),
        }
    }
    panels
}

/// What can be said while other programs use the CPUs: the CPU time of a section.
fn busy(ours: &str, rows: &[Row]) -> String {
    let place = |row: &Row| row.point.at[..row.point.at.len() - 1].to_vec();
    let ratio = |own: &Row| {
        let others = rows.iter().filter(|row| !is_ours(row.lock) && place(row) == place(own));
        let least = others.map(|row| row.metrics[0]).reduce(f64::min)?;
        Some(own.metrics[0] / least)
    };
    let ratios: Vec<f64> = rows.iter().filter(|row| row.lock == ours).filter_map(ratio).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let of = match ratios.as_slice() {
        [] => String::new(),
        [_] => format!(": {ours} takes {} times the least of the others", significant(least)),
        _ => format!(
            ": {ours} takes {} to {} times the least of the others",
            significant(least),
            significant(most)
        ),
    };
    format!("Other programs used the CPUs, so only the CPU time of a section can be compared{of}")
}

/// Compares Convoy's first lock with the others, and names the lock that starves most threads.
fn verdict(results: Results, rows: &[Row]) -> Option<String> {
    let starves = |row: &Row| match row.starved_most() {
        0.0 => "starves no thread".to_owned(),
        most => format!("starves up to {} of {} threads", fixed(most, 0), row.threads),
    };
    let share = |row: &&Row| row.starved_most() / f64::from(row.threads.max(1));
    let worst = |rows: &mut dyn Iterator<Item = &'_ Row<'_>>| {
        let worst = rows.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        Some((starves(worst), share(&worst), worst.lock.to_owned()))
    };
    let ours = rows.iter().find(|row| is_ours(row.lock))?.lock;
    let own = || rows.iter().filter(|row| row.lock == ours);
    let (starved, share, _) = worst(&mut own())?;
    if disturbed(results).is_some() {
        return Some(busy(ours, rows));
    }
    let ratios = || own().filter_map(|row| row.ratio.map(|ratio| (ratio, row)));
    let least = ratios().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = ratios().map(|(ratio, _)| ratio).fold(0.0, f64::max);
    let speed = least.map(|(least, row)| {
        let place = row.place(results);
        let range = match own().count() {
            1 => significant(least),
            _ => format!("{} ({place}) to {}", significant(least), significant(most)),
        };
        format!("does {range} times the sections of the fastest other lock and ")
    });
    let other = worst(&mut rows.iter().filter(|row| !is_ours(row.lock)));
    let other = other.filter(|(_, theirs, _)| *theirs > share);
    let other = other.map(|(starved, _, lock)| format!("; {lock} {starved}"));
    Some(format!("{ours} {}{starved}{}", speed.unwrap_or_default(), other.unwrap_or_default()))
}
