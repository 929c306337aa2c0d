//! The first screen of `convoy explain RECORD`: the diagnosis, a few sentences and one table.

use convoy_diagnose::{LockAccount, OwnerState, is_owned, owner_parts};
use convoy_record::{LOCK_OF, Site};

use crate::format::{duration, fixed};
use crate::recorded::{RecordedReport, held, is_trifle, us};
use crate::table::{Cell, Column, Table, page_wrap};

/// Lines of a screen; the prompt needs one.
const LINES: usize = 39;
const ROWS: usize = 8;
/// Sentences below the diagnosis.
const SENTENCES: usize = 4;
/// Rows below this are folded, percent of the waiting.
const LITTLE: f64 = 1.0;

impl RecordedReport {
    /// For people, on one screen; [`Self::to_text`] has the rest.
    pub fn to_screen(&self) -> String {
        let mut text = page_wrap(&self.verdict) + "\n" + &page_wrap(&self.title);
        let table = self.first_table();
        let mut end =
            table.as_ref().map_or(String::new(), |table| format!("\n{}", table.to_text_of_names()));
        let mut left_out = 0;
        let lines = |text: &str| text.lines().count();
        let more = |left_out: usize| match left_out {
            0 => "--all shows every lock, call site and cause.".to_owned(),
            1 => "--all shows every lock, call site and cause, and 1 more remark.".to_owned(),
            count => {
                format!("--all shows every lock, call site and cause, and {count} more remarks.")
            }
        };
        let room = |text: &str, end: &str| LINES.saturating_sub(lines(text) + lines(end) + 2);
        // Doubts before findings: they say whether to believe the others.
        for doubt in self.notes.iter().chain(&self.unseen) {
            let doubt = page_wrap(doubt);
            if lines(&doubt) + SENTENCES <= room(&text, &end) {
                end += &doubt;
            } else {
                left_out += 1;
            }
        }
        let (others, facts) = self.further();
        let mut said = 0;
        for sentence in others.iter().chain(facts) {
            let wrapped = page_wrap(sentence);
            if said < SENTENCES && lines(&wrapped) < room(&text, &end) {
                text += if said == 0 { "\n" } else { "" };
                text += &wrapped;
                said += 1;
            } else {
                left_out += 1;
            }
        }
        text + &end + &page_wrap(&more(left_out))
    }

    /// The places where threads waited longest, with the columns that matter there.
    fn first_table(&self) -> Option<Table> {
        let all_s: f64 = self.account.wait_s;
        let mut rows: Vec<(&LockAccount, &Site)> = Vec::new();
        for one in self.account.locks.iter().filter(|one| is_owned(&one.lock)) {
            rows.extend(one.lock.sites.iter().map(|site| (one, site)));
        }
        rows.retain(|(_, site)| site.wait.total_s > 0.0);
        rows.sort_by(|a, b| b.1.wait.total_s.total_cmp(&a.1.wait.total_s));
        let percent = |site: &Site| 100.0 * site.wait.total_s / all_s.max(f64::MIN_POSITIVE);
        let is_small = |(one, site): &(&LockAccount, &Site)| {
            percent(site) < LITTLE || is_trifle(one, self.account.busy_s)
        };
        rows.sort_by_key(is_small);
        let many = rows.iter().filter(|row| !is_small(row)).count().min(ROWS);
        let (shown, folded) = rows.split_at(many);
        if shown.is_empty() {
            return None;
        }
        let columns = vec![
            Column::text("Lock and place").key("lock"),
            Column::number("waited", ""),
            Column::number("share", "%"),
            Column::number("longest", "").minor(),
            Column::number("p50", "").group("held"),
            Column::number("max", "").group("held").minor(),
            Column::text("owner during the waits"),
        ];
        let mut table = Table::new("", columns);
        for (one, site) in shown {
            let hold = held(one.lock.sites.iter());
            let some = (hold.count > 0).then_some(());
            table.row(vec![
                Cell::text(what(one, site)),
                us(Some(site.wait.total_s)),
                Cell::number(percent(site), 0),
                us((site.wait.max_s > 0.0).then_some(site.wait.max_s)),
                us(some.and_then(|()| hold.percentile_s(50.0))),
                us(some.map(|()| hold.max_s)),
                Cell::text(self.owner(one, site)),
            ]);
        }
        table.lean();
        if !folded.is_empty() {
            let wait_s: f64 = folded.iter().map(|(_, site)| site.wait.total_s).sum();
            let places = if folded.len() == 1 { "place" } else { "places" };
            table.note(format!(
                "and {} more {places}, {} in all",
                folded.len(),
                duration(wait_s * 1e6)
            ));
        }
        Some(table)
    }

    /// What owners mostly did while threads waited at a place.
    fn owner(&self, one: &LockAccount, site: &Site) -> String {
        let (mut parts, mut all) = ([0.0; 6], 0.0);
        for cause in &self.causes {
            let is_it = (&cause.lock, cause.kind) == (&one.lock.name, one.lock.kind)
                && cause.place == site.place;
            if is_it {
                for (sum, part) in parts.iter_mut().zip(owner_parts(cause)) {
                    *sum += part * cause.wait_s;
                }
                all += cause.wait_s;
            }
        }
        let most = OwnerState::ALL.into_iter().zip(parts).max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((owner, part)) = most.filter(|_| all > 0.0) else { return String::new() };
        let words = match owner {
            OwnerState::Runs => "ran",
            OwnerState::Preempted => "preempted",
            OwnerState::Asleep => "asleep",
            OwnerState::Waits => "waited",
            OwnerState::Free => "gone (free)",
            OwnerState::Unknown => return String::new(),
        };
        format!("{words} {} %", fixed(100.0 * part / all, 0))
    }
}

/// A lock and a place: `journals in note (orders.c:36)`, or only the place if that names the lock.
fn what(one: &LockAccount, site: &Site) -> String {
    let name = &one.lock.name;
    match name.strip_prefix(LOCK_OF) {
        Some(place) if place == site.place => name.clone(),
        _ if site.place.is_empty() || name.contains(&site.place) => name.clone(),
        _ => format!("{name} in {}", site.place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::width;
    use crate::{set_page_width, table::page_width};
    use convoy_record::{Lock, Process, Program, Record, Times};

    /// A program with many locks of long names.
    fn record() -> Record {
        fn lock(at: usize) -> Lock {
            let times = |total_s| Times { count: 9, total_s, max_s: 0.1, buckets: vec![(1e6, 9)] };
            let site = |part: usize| Site {
                place: format!(
                    "a_function_with_a_rather_long_name_of_{at}_{part} (a_file.cc:{at})"
                ),
                act: "lock".to_owned(),
                count: 100,
                contended: 50,
                threads: 4,
                wait: times(1.0 + at as f64),
                hold_on: times(0.5),
                ..Site::default()
            };
            let sites = (0..4).map(site).collect();
            Lock { name: format!("some_lock_{at}"), instances: 1, sites, ..Lock::default() }
        }
        let process = Process {
            pid: 1,
            seconds: 9.0,
            cpu_s: 9.0,
            threads: 8,
            locks: (0..20).map(lock).collect(),
            ..Process::default()
        };
        let unseen = (0..9).map(|at| format!("{at} {}", "could not be seen ".repeat(9))).collect();
        let program = Program { wall_s: 9.0, cpus: 2, ..Program::default() };
        Record { program, processes: vec![process], unseen, ..Record::default() }
    }

    #[test]
    fn the_first_screen_has_at_most_forty_lines_of_eighty_columns() {
        set_page_width(80);
        let report = RecordedReport::new(&record());
        let text = report.to_screen();
        assert!(text.lines().count() <= 40, "{} lines\n{text}", text.lines().count());
        for text in [text, report.to_text()] {
            let wide = text.lines().find(|line| width(line) > page_width());
            assert_eq!(wide, None, "{text}");
        }
    }
}
