//! Stored runs in a table: when each was run, and its result in a few words.

use convoy_diagnose::Diagnosis;
use convoy_record::Record;
use convoy_report::{Cell, Column, CompareReport, Table, fixed};
use convoy_store::{Entry, Stored};
use convoy_workload::calendar;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The records in a table; for people a long command is cut, and a column without tags left out.
pub(super) fn table(runs: &[Stored], for_people: bool) -> Table {
    let has_tags = !for_people || runs.iter().any(|run| !run.entry.tags.is_empty());
    let mut columns = vec![
        Column::number("Run", "").key("id"),
        Column::text("When (UTC)").key("time"),
        Column::text("Kind").key("kind"),
        Column::text("Result").key("result"),
    ];
    columns.extend(has_tags.then(|| Column::text("Tags").key("tags")));
    columns.push(Column::text("Command").key("command"));
    let mut table = Table::new("", columns);
    for run in runs {
        let entry = &run.entry;
        let command = entry.command.join(" ").replace('\n', " ");
        let room = if for_people { 60 } else { usize::MAX };
        let short: String = command.chars().take(room).collect();
        let more = if short.len() < command.len() { "…" } else { "" };
        let mut cells = vec![
            Cell::count(run.id.unsigned_abs()),
            Cell::text(time(entry.time_ms)),
            Cell::text(&entry.kind),
            Cell::text(result(entry)),
        ];
        cells.extend(has_tags.then(|| Cell::text(entry.tags.join(" "))));
        cells.push(Cell::text(short + more));
        table.row(cells);
    }
    table
}

/// The result in a few words.
fn result(entry: &Entry) -> String {
    let body = &entry.body;
    match entry.kind.as_str() {
        "compare" => typed::<CompareReport>(&body["report"]).map_or_else(String::new, |report| {
            let speedup = report.deciding().and_then(|row| row.speedup);
            let speedup = speedup.map_or(String::new(), |s| format!(" {}", fixed(s, 3)));
            format!("{}{speedup}", report.verdict())
        }),
        "run" | "sim" => {
            let results = body.get("results").unwrap_or(body);
            let points = results["points"].as_array().into_iter().flatten();
            let jobs = points.filter_map(|point| point["jobs_per_min"].as_f64());
            let best = jobs.fold(f64::NAN, f64::max);
            if best.is_nan() { String::new() } else { format!("{} jobs/min", fixed(best, 1)) }
        }
        "bisect" => match body["first_bad"].as_str() {
            Some(commit) => commit.chars().take(12).collect(),
            None => body["verdict"].as_str().unwrap_or_default().to_owned(),
        },
        "record" => typed::<Record>(body).map_or_else(String::new, |record| {
            let diagnosis = Diagnosis::new(&record);
            diagnosis.first().map_or("no lock limits it".to_owned(), |first| {
                // The share comes first: a narrow terminal cuts the name of the lock.
                let share = first.share.map_or(String::new(), |s| format!(" {:.0} %", 100.0 * s));
                format!("waits{share}: {}", first.lock).chars().take(60).collect()
            })
        }),
        "reproduce" | "locks" => {
            let grids = body["grids"].as_array().into_iter().flatten();
            let cells: usize =
                grids.filter_map(|grid| grid["cells"].as_array()).map(Vec::len).sum();
            format!("{}: {cells} cells", body["name"].as_str().unwrap_or_default())
        }
        _ => {
            body.get("title").and_then(Value::as_str).unwrap_or_default().chars().take(30).collect()
        }
    }
}

/// A part of a record as a value of its type; `None` if it has another type.
pub(super) fn typed<T: DeserializeOwned>(body: &Value) -> Option<T> {
    T::deserialize(body).ok()
}

/// Milliseconds since 1970 as `2026-01-31 23:59:59`.
pub(super) fn time(ms: i64) -> String {
    calendar(ms.max(0).unsigned_abs() / 1000).replace('T', " ")
}
