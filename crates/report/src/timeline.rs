//! What happened in each interval of the load points of a simulation.

use convoy_workload::users::counted;

use crate::points::RunPoint;
use crate::table::{Cell, Column, Table};

/// One table for each load point that was watched.
pub(crate) fn tables(points: &[RunPoint]) -> Vec<Table> {
    let watched = points.iter().filter(|point| !point.timeline.is_empty());
    watched
        .map(|point| table(&format!("{}, by interval", counted(point.users)), &[point]))
        .collect()
}

/// The intervals of all load points in one table; `None` if none was watched.
pub(crate) fn all(points: &[RunPoint]) -> Option<Table> {
    let points: Vec<&RunPoint> = points.iter().filter(|p| !p.timeline.is_empty()).collect();
    (!points.is_empty()).then(|| table("", &points))
}

fn table(title: &str, points: &[&RunPoint]) -> Table {
    let bkl = points.iter().any(|point| point.owner_not_running_percent.is_some());
    let mut columns = vec![
        Column::number("Tasks", "").key("users"),
        Column::number("at", "s").key("at_s"),
        Column::number("idle", "%").key("idle_percent"),
        Column::number("runnable", "tasks"),
        Column::number("switches", "1/s").key("switches_per_s"),
    ];
    if bkl {
        columns.extend([
            Column::number("BKL", "1/s").key("acquisitions_per_s"),
            Column::number("handoffs", "1/s").key("handoffs_per_s"),
            Column::number("owner off CPU", "%").key("owner_not_running_percent"),
        ]);
    }
    let mut table = Table::new(title, columns);
    let samples = |point: &&RunPoint| {
        let users = point.users;
        point.timeline.clone().into_iter().map(move |sample| (users, sample))
    };
    for (users, sample) in points.iter().flat_map(samples) {
        let mut cells = vec![
            Cell::count(users),
            Cell::number(sample.at_s, 2),
            Cell::number(sample.idle_percent, 1),
            Cell::count(sample.runnable),
            Cell::number(sample.switches_per_s, 0),
        ];
        if bkl {
            cells.extend([
                Cell::number(sample.acquisitions_per_s, 0),
                Cell::number(sample.handoffs_per_s, 0),
                Cell::number(sample.owner_not_running_percent, 1),
            ]);
        }
        table.row(cells);
    }
    table
}
