//! The rows of a prediction: their sentence and their table.

use convoy_predict::{Edit, Prediction, Row};

use super::limit::limits;
use super::units::rate;
use crate::{Cell, Column, NOTHING, Table};

/// Returns a ratio with two significant digits.
pub(super) fn times(ratio: f64) -> String {
    match ratio.max(0.0) {
        ratio @ 0.0..0.1 => format!("{ratio:.3}"),
        ratio @ ..0.995 => format!("{ratio:.2}"),
        ratio @ ..9.95 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

/// Ratio above which a bound of arithmetic is left out: a record next to other programs
/// knows little of the work.
pub(super) const BOUNDLESS: f64 = 100.0;

/// Returns an interval of ratios as `1.0 to 2.1 times`, without an end that says nothing; `None` if
/// neither says anything.
fn between(low_percent: f64, high_percent: f64) -> Option<String> {
    let [low, high] = [low_percent, high_percent].map(ratio);
    match (low >= 1.0 / BOUNDLESS, high <= BOUNDLESS) {
        (true, true) => Some(format!("{} to {} times", times(low), times(high))),
        (true, false) => Some(format!("at least {} times", times(low))),
        (false, true) => Some(format!("at most {} times", times(high))),
        (false, false) => None,
    }
}

fn ratio(percent: f64) -> f64 {
    1.0 + percent / 100.0
}

/// Returns the intervals of the throughput, under the policy of the first row, in a sentence.
pub fn bounds(prediction: &Prediction) -> Option<String> {
    intervals(prediction).map(|intervals| format!("Throughput {intervals}."))
}

/// Returns the intervals of the throughput under the policy of the first row.
pub(super) fn intervals(prediction: &Prediction) -> Option<String> {
    let first = prediction.rows.first()?;
    let more_threads = prediction.rows.iter().any(|row| row.threads != first.threads);
    let rows = prediction.rows.iter().filter(|row| {
        (&row.policy, row.split, row.edit) == (&first.policy, first.split, first.edit)
            && (more_threads || !row.machine.is_empty())
    });
    let rows: Vec<String> = rows.map(|row| interval(row, more_threads)).collect();
    (!rows.is_empty()).then(|| rows.join("; "))
}

/// Returns the intervals of all changes at the recorded point in a sentence.
pub(super) fn changes(prediction: &Prediction) -> Option<String> {
    let changes = prediction.rows.iter().filter(|row| row.low_percent < row.high_percent);
    let changes: Vec<String> = changes
        .filter_map(|row| {
            let interval = between(row.low_percent, row.high_percent)?;
            let means = match (row.edit, row.split) {
                (Some(edit), _) => edited(edit),
                (None, 1) => format!("`{}`", row.policy),
                (None, split) => format!("a split by {split}"),
            };
            Some(format!("{interval} with {means}"))
        })
        .collect();
    (!changes.is_empty()).then(|| format!("Arithmetic allows {}.", changes.join(", ")))
}

fn interval(row: &Row, names_threads: bool) -> String {
    let threads =
        if names_threads { format!(" with {} threads", row.threads) } else { String::new() };
    let cpus = format!("on {} CPU{}{threads}", row.cpus, if row.cpus == 1 { "" } else { "s" });
    let [low, high] = [row.low_percent, row.high_percent].map(|percent| times(ratio(percent)));
    let range = if low == high {
        format!("{low} times")
    } else if ratio(row.high_percent) > BOUNDLESS {
        format!("at least {low} times")
    } else {
        format!("between {low} and {high} times")
    };
    format!("{cpus} {range}: {}", limits(&row.limit))
}

/// Returns the question of a row.
pub(super) fn named(row: &Row) -> String {
    let split = if row.split > 1 { format!(" split by {}", row.split) } else { String::new() };
    let edit = row.edit.map_or(String::new(), |edit| format!(" with {}", edited(edit)));
    format!("`{}`{split}{edit} on {} CPUs", row.policy, row.cpus)
}

/// Returns a change of the source in a few words.
fn edited(edit: Edit) -> String {
    match edit {
        Edit::Units { units } => format!("{units} units"),
        Edit::Half => "half the hold".to_owned(),
        Edit::Sleep => "no sleep held".to_owned(),
        Edit::Readers => "free readers".to_owned(),
        Edit::Thread => "a thread less".to_owned(),
    }
}

/// Returns a row in a few words.
pub fn short(row: &Row) -> String {
    let split = if row.split > 1 { format!(", {} locks", row.split) } else { String::new() };
    let edit = row.edit.map_or(String::new(), |edit| format!(", {}", edited(edit)));
    format!(
        "{}{split}{edit}, {} CPUs, {} threads: {:+.0} % ({:+.0} to {:+.0})",
        row.policy, row.cpus, row.threads, row.change_percent, row.low_percent, row.high_percent
    )
}

/// Returns the table of a page, if there are rows: the columns that differ.
pub(super) fn page(prediction: &Prediction) -> String {
    let Some(first) = prediction.rows.first() else { return String::new() };
    let is_simulated = prediction.rows.iter().any(|row| row.simulated.is_some());
    let shown = [
        ("threads", prediction.rows.iter().any(|row| row.threads != first.threads)),
        ("split", prediction.rows.iter().any(|row| row.split > 1)),
        ("edit", prediction.rows.iter().any(|row| row.edit.is_some())),
        ("acquisitions_per_s", first.acquisitions_per_s > 0.0),
        ("runs", prediction.rows.iter().any(|row| row.runs_percent.is_some())),
        ("cpus_used", is_simulated),
        ("wait_p99_ms", is_simulated),
        ("wait_max_ms", is_simulated),
        ("jain", is_simulated),
    ];
    let hidden = shown.iter().filter(|(_, is_shown)| !is_shown).map(|(key, _)| *key);
    format!("\n{}", table_of(prediction, &hidden.collect::<Vec<_>>()).to_text())
}

/// Returns one row for each question, with all columns.
pub fn table(prediction: &Prediction) -> Table {
    table_of(prediction, &[])
}

/// Returns a figure that only a simulation has.
fn figure(value: Option<f64>, digits: usize) -> Cell {
    value.map_or_else(|| Cell::text(NOTHING), |value| Cell::number(value, digits))
}

fn table_of(prediction: &Prediction, hidden: &[&str]) -> Table {
    let columns = [
        ("cpus", Column::number("CPUs", "").key("cpus")),
        ("cpus_used", Column::number("used", "").key("cpus_used")),
        ("threads", Column::number("threads", "")),
        ("policy", Column::text("policy")),
        ("split", Column::number("split", "")),
        ("edit", Column::text("edit")),
        ("acquisitions_per_s", Column::number("per second", "").key("acquisitions_per_s")),
        ("change_percent", Column::number("change", "%").key("change_percent")),
        ("low_percent", Column::number("from", "%").key("low_percent")),
        ("high_percent", Column::number("to", "%").key("high_percent")),
        ("runs", Column::number("least run", "%").key("least_run_percent")),
        ("runs", Column::number("most run", "%").key("most_run_percent")),
        ("wait_p99_ms", Column::number("p99 wait", "ms").key("wait_p99_ms").minor()),
        ("wait_max_ms", Column::number("max wait", "ms").key("wait_max_ms").minor()),
        ("jain", Column::number("Jain", "").key("jain").minor()),
    ];
    let shown = columns.each_ref().map(|(key, _)| !hidden.contains(key));
    let kept = columns.into_iter().zip(shown).filter(|column| column.1).map(|column| column.0.1);
    let mut table = Table::new("", kept.collect());
    for row in &prediction.rows {
        let figures = row.simulated.as_ref();
        let cells = [
            Cell::count(u64::from(row.cpus)),
            figure(figures.map(|figures| figures.cpus_used), 1),
            Cell::count(u64::from(row.threads)),
            Cell::text(row.policy.clone()),
            Cell::count(u64::from(row.split)),
            Cell::text(row.edit.map_or_else(String::new, edited)),
            Cell::shown(format!("{:.0}", rate(row.acquisitions_per_s)), row.acquisitions_per_s),
            Cell::number(row.change_percent, 0),
            Cell::number(row.low_percent, 0),
            if ratio(row.high_percent) <= BOUNDLESS {
                Cell::number(row.high_percent, 0)
            } else {
                Cell::shown(NOTHING, row.high_percent)
            },
            figure(row.runs_percent.map(|runs| runs[0]), 0),
            figure(row.runs_percent.map(|runs| runs[1]), 0),
            figure(figures.map(|figures| figures.wait_p99_us / 1e3), 2),
            figure(figures.map(|figures| figures.wait_max_us / 1e3), 1),
            figure(figures.map(|figures| figures.jain), 2),
        ];
        let cells = cells.into_iter().zip(shown).filter(|cell| cell.1).map(|cell| cell.0);
        table.row(cells.collect());
    }
    table.note(if prediction.rows.iter().any(|row| row.simulated.is_some()) {
        "change: against the recorded machine without other programs; from, to: interval that \
         follows from the counts and times of the record, narrowed by the simulations."
    } else {
        "change: against the recorded machine without other programs; from, to: interval that \
         follows from the counts and times of the record."
    });
    table
}
