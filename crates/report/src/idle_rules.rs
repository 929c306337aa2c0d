//! Which rule of the kernel let CPUs idle while tasks waited on other ones.

use crate::points::RunPoint;
use crate::table::{Cell, Column, Table};

/// Smaller shares, in percent of all CPU time, do not get a separate row.
const SHOWN: f64 = 0.05;

/// The table of all load points; `None` where no rule has a share worth a row.
pub(crate) fn table(points: &[RunPoint]) -> Option<Table> {
    let columns = vec![
        Column::number("Tasks", "").key("users"),
        Column::text("rule"),
        Column::number("of all CPU time", "%").key("percent"),
    ];
    let mut table = Table::new("idle while tasks wait, by rule", columns);
    for point in points {
        for rule in point.idle_rules.iter().filter(|rule| rule.percent >= SHOWN) {
            let share = Cell::number(rule.percent, 2);
            table.row(vec![Cell::count(point.users), Cell::text(&rule.rule), share]);
        }
    }
    (!table.is_empty()).then_some(table)
}
