//! How a prediction is printed.

use convoy_predict::Prediction;
use convoy_report::{Cell, Column, Table};

/// The lock that limits, and the replay beside the record.
pub(crate) fn head(one: &Prediction) -> String {
    let mut text = convoy_report::page_wrap(&one.verdict) + "\n";
    for point in &one.anchor {
        let idle = if one.order.is_empty() {
            String::new()
        } else {
            format!(" and {:.1} us for other threads", point.idle_mean_us)
        };
        let line = format!(
            "{}: {:.0} acquisitions a second, {:.2} us of CPU each, mean wait {:.1} us{idle}\n",
            point.what, point.acquisitions_per_s, point.cpu_us, point.wait_mean_us
        );
        text += &line;
    }
    let anchor = format!(
        "anchor: wakeups times {:.2}, {:+.2} us of work and {:+.1} us of sleep before each \
         section\n\n",
        one.anchor_wakeups, one.anchor_work_us, one.anchor_sleep_us
    );
    if !one.order.is_empty() {
        let order = format!("Replayed in recorded order: {}.", one.order.join(", "));
        text += &(convoy_report::page_wrap(&order) + "\n");
    }
    let left_out = one.leaves_out.iter().map(|text| convoy_report::page_wrap(text) + "\n");
    text.extend(left_out);
    let doubt = one.doubt.iter().map(|doubt| convoy_report::page_wrap(doubt) + "\n");
    text.extend(doubt);
    text + &anchor
}

pub(crate) fn text(one: &Prediction) -> String {
    let beyond = one.beyond.iter().map(|text| convoy_report::page_wrap(text) + "\n");
    let beyond: String = beyond.collect();
    beyond + &head(one) + &table(one).to_text()
}

pub(crate) fn table(one: &Prediction) -> Table {
    let columns = vec![
        Column::number("CPUs", "").key("cpus"),
        Column::number("threads", ""),
        Column::text("policy"),
        Column::number("split", ""),
        Column::number("acquisitions", "1/s").key("acquisitions_per_s"),
        Column::number("change", "%").key("change_percent"),
        Column::number("from", "%").key("low_percent").group("interval"),
        Column::number("to", "%").key("high_percent").group("interval"),
        Column::number("p99", "us").key("wait_p99_us").group("waits"),
        Column::number("Jain", "").key("jain"),
    ];
    let mut table = Table::new("", columns);
    for row in &one.rows {
        table.row(vec![
            Cell::count(u64::from(row.cpus)),
            Cell::count(u64::from(row.threads)),
            Cell::text(row.policy.clone()),
            Cell::count(u64::from(row.split)),
            Cell::number(row.acquisitions_per_s, 0),
            Cell::number(row.change_percent, 1),
            Cell::number(row.low_percent, 1),
            Cell::number(row.high_percent, 1),
            Cell::number(row.wait_p99_us, 1),
            Cell::number(row.jain, 3),
        ]);
    }
    table.note(
        "change: against the replay of the record; interval: least and most of the rounds, \
         whose seeds and prices of wakeups differ, widened by what the anchor leaves of the \
         recorded throughput. The noise between repeats of the record is not in it.",
    );
    table
}
