//! How a prediction is printed.

use convoy_predict::{Point, Prediction, Row, duration, rate};
use convoy_report::{Cell, Column, Table, page_wrap};
use std::collections::BTreeSet;

/// The whole page.
pub(crate) fn text(one: &Prediction) -> String {
    let first: String = answer(one).iter().map(|text| page_wrap(text)).collect();
    first + &rows(one) + &foot(one)
}

/// Returns the verdict.
fn answer(one: &Prediction) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(one.doubt.as_ref().map(|doubt| format!("No prediction. {doubt}")));
    said.extend(one.beyond.clone());
    said.push(one.verdict.clone());
    said.extend(scaling(one));
    said
}

/// How the throughput follows the CPUs, in a sentence, under the policy of the first row.
fn scaling(one: &Prediction) -> Option<String> {
    let first = one.rows.first()?;
    let same = |row: &&Row| {
        (&row.policy, row.threads, row.split) == (&first.policy, first.threads, first.split)
    };
    let asked = one.rows.iter().filter(same).filter(|row| !row.machine.is_empty());
    let times: Vec<String> = asked
        .map(|row| {
            let times = 1.0 + row.change_percent / 100.0;
            format!("{times:.1} times on {} CPU{}", row.cpus, if row.cpus == 1 { "" } else { "s" })
        })
        .collect();
    (!times.is_empty()).then(|| format!("Predicted throughput: {}.", times.join(", ")))
}

/// The table, if there are rows: the columns that differ, so that they fit a terminal.
pub(crate) fn rows(one: &Prediction) -> String {
    let Some(first) = one.rows.first() else { return String::new() };
    let columns = Columns {
        threads: one.rows.iter().any(|row| row.threads != first.threads),
        split: one.rows.iter().any(|row| row.split > 1),
        p99: false,
    };
    format!("\n{}", table_of(one, &columns).to_text())
}

/// Returns the basis of the rows: the replay of the record, the machines, and doubts.
pub(crate) fn foot(one: &Prediction) -> String {
    let mut said: Vec<String> = one.anchor.iter().map(|point| line(point, one)).collect();
    // After an interrupt the record may not have been replayed.
    if one.anchor.len() > 1 {
        said.push(format!(
            "fitted to the record: wakeups x {:.2}, work between critical sections x {:.2}, {} of \
             sleep before each",
            one.anchor_wakeups,
            one.anchor_work,
            duration(one.anchor_sleep_us)
        ));
    }
    if !one.order.is_empty() {
        said.push(format!("Replayed in recorded order: {}.", one.order.join(", ")));
    }
    let machines: BTreeSet<_> = one.rows.iter().map(|row| (row.cpus, &row.machine)).collect();
    let named = machines.into_iter().filter(|(_, machine)| !machine.is_empty());
    said.extend(named.map(|(_, machine)| format!("Simulated: {machine}.")));
    let notes = one.doubts.iter().filter(|doubt| Some(&doubt.text) != one.doubt.as_ref());
    said.extend(notes.map(|doubt| doubt.text.clone()));
    "\n".to_owned() + &said.iter().map(|text| page_wrap(text)).collect::<String>()
}

fn line(point: &Point, one: &Prediction) -> String {
    let idle = if one.order.is_empty() {
        String::new()
    } else {
        format!(", {} for other threads", duration(point.idle_mean_us))
    };
    format!(
        "{}: {:.0} acquisitions per second, {} of CPU each, mean wait {}{idle}",
        point.what,
        rate(point.acquisitions_per_s),
        duration(point.cpu_us),
        duration(point.wait_mean_us)
    )
}

/// Returns a row in a few words.
pub(crate) fn short(row: &Row) -> String {
    let split = if row.split > 1 { format!(", {} locks", row.split) } else { String::new() };
    format!(
        "{}{split}, {} CPUs, {} threads: {:+.0} % ({:+.0} to {:+.0})",
        row.policy, row.cpus, row.threads, row.change_percent, row.low_percent, row.high_percent
    )
}

/// Columns that not every table needs.
struct Columns {
    threads: bool,
    split: bool,
    p99: bool,
}

/// One row for each question, with all columns.
pub(crate) fn table(one: &Prediction) -> Table {
    table_of(one, &Columns { threads: true, split: true, p99: true })
}

fn table_of(one: &Prediction, columns: &Columns) -> Table {
    let all = [
        (true, Column::number("CPUs", "").key("cpus")),
        (true, Column::number("used", "").key("cpus_used")),
        (columns.threads, Column::number("threads", "")),
        (true, Column::text("policy")),
        (columns.split, Column::number("split", "")),
        (true, Column::number("per second", "").key("acquisitions_per_s")),
        (true, Column::number("change", "%").key("change_percent")),
        (true, Column::number("from", "%").key("low_percent")),
        (true, Column::number("to", "%").key("high_percent")),
        (columns.p99, Column::number("p99 wait", "ms").key("wait_p99_ms")),
        (true, Column::number("max wait", "ms").key("wait_max_ms")),
        (true, Column::number("Jain", "").key("jain")),
    ];
    let shown = all.each_ref().map(|column| column.0);
    let kept = all.into_iter().filter(|column| column.0).map(|column| column.1);
    let mut table = Table::new("", kept.collect());
    for row in &one.rows {
        let cells = [
            Cell::count(u64::from(row.cpus)),
            Cell::number(row.cpus_used, 1),
            Cell::count(u64::from(row.threads)),
            Cell::text(row.policy.clone()),
            Cell::count(u64::from(row.split)),
            Cell::shown(format!("{:.0}", rate(row.acquisitions_per_s)), row.acquisitions_per_s),
            Cell::number(row.change_percent, 0),
            Cell::number(row.low_percent, 0),
            Cell::number(row.high_percent, 0),
            Cell::number(row.wait_p99_us / 1e3, 2),
            Cell::number(row.wait_max_us / 1e3, 1),
            Cell::number(row.jain, 2),
        ];
        let cells = cells.into_iter().zip(shown).filter(|cell| cell.1).map(|cell| cell.0);
        table.row(cells.collect());
    }
    table.note(
        "change: against the recorded machine without other programs; from, to: range of the \
         simulations, widened by the error of the replay of the record.",
    );
    table
}
