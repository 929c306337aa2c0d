//! How a prediction is printed.

use super::Prediction;
use convoy_report::{Cell, Column, Table};

impl Prediction {
    /// The lock that limits, and the replay beside the record.
    pub(crate) fn head(&self) -> String {
        let mut text = convoy_report::page_wrap(&self.verdict) + "\n";
        for point in &self.anchor {
            let idle = if self.order.is_empty() {
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
            self.anchor_wakeups, self.anchor_work_us, self.anchor_sleep_us
        );
        if !self.order.is_empty() {
            let order = format!("Replayed in recorded order: {}.", self.order.join(", "));
            text += &(convoy_report::page_wrap(&order) + "\n");
        }
        let left_out = self.leaves_out.iter().map(|one| convoy_report::page_wrap(one) + "\n");
        text.extend(left_out);
        let doubt = self.doubt.iter().map(|doubt| convoy_report::page_wrap(doubt) + "\n");
        text.extend(doubt);
        text + &anchor
    }

    pub(super) fn to_text(&self) -> String {
        let beyond = self.beyond.iter().map(|one| convoy_report::page_wrap(one) + "\n");
        let beyond: String = beyond.collect();
        beyond + &self.head() + &self.table().to_text()
    }

    pub(crate) fn table(&self) -> Table {
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
        for row in &self.rows {
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
}
