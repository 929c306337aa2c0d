//! `convoy locks`: the policies side by side, with their spread.

use convoy_lab::native::{NativeCell, NativeExperiment, NativeRecord, Spread, Think};

use crate::format::{duration, fixed, significant};
use crate::json;
use crate::table::{Cell, Column, Table};

/// JSON of the record: the cells first, then every run.
pub fn native_json(record: &NativeRecord) -> String {
    json::to_json(record)
}

/// The tables for people, one for each length of the section.
pub fn native_text(record: &NativeRecord) -> String {
    let texts: Vec<String> = native_tables(record).iter().map(Table::to_text).collect();
    texts.join("\n")
}

/// One table for each length of the section, notes under the last.
pub fn native_tables(record: &NativeRecord) -> Vec<Table> {
    let experiment = &record.experiment;
    let mut tables: Vec<Table> = experiment
        .section_ns
        .iter()
        .map(|section| {
            let title = format!(
                "{}{}: section {section} ns, outside {}, {} CPUs, window {} ms, {}",
                experiment.name,
                record.place.as_ref().map_or(String::new(), |place| format!(" ({place})")),
                outside(experiment),
                record.cpus,
                experiment.window_ms,
                counted(experiment.rounds, "round"),
            );
            let cells = record.cells.iter().filter(|cell| cell.section_ns == *section);
            section_table(&title, cells, experiment.rounds)
        })
        .collect();
    if let Some(last) = tables.last_mut() {
        for note in notes(record) {
            last.note(note);
        }
    }
    tables
}

/// The work between two sections.
fn outside(experiment: &NativeExperiment) -> String {
    let ns = experiment.outside_ns;
    match experiment.think {
        Think::Fixed => format!("{ns} ns"),
        Think::Exponential => format!("exponential of mean {ns} ns"),
    }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn section_table<'a>(
    title: &str,
    cells: impl Iterator<Item = &'a NativeCell>,
    rounds: u32,
) -> Table {
    let columns = vec![
        Column::number("Threads", ""),
        Column::text("Policy"),
        Column::number("Rate", "1000/s").group("throughput"),
        Column::text("").joined().group("throughput"),
        Column::number("Ratio", "").group("throughput"),
        Column::text("").joined().group("throughput"),
        Column::number("CPUs", "").group("cost"),
        Column::number("Switches", "1000/s").group("cost"),
        Column::number("Jain", "").group("fairness"),
        Column::number("Starved", "threads").group("fairness"),
        Column::number("p50", "").group("wait"),
        Column::number("p99", "").group("wait"),
        Column::number("max", "").group("wait"),
    ];
    let mut table = Table::new(title, columns);
    let mut threads = None;
    for cell in cells {
        if threads.replace(cell.threads).is_some_and(|before| before != cell.threads) {
            table.rule();
        }
        table.row(row(cell, rounds));
    }
    table
}

fn row(cell: &NativeCell, rounds: u32) -> Vec<Cell> {
    let thousands = |spread: &Spread| Spread {
        median: spread.median / 1e3,
        min: spread.min / 1e3,
        max: spread.max / 1e3,
    };
    let median = |spread: Spread| Cell::text(significant(spread.median));
    let time = |spread: Spread| Cell::text(duration(spread.median));
    let rate = thousands(&cell.acquisitions_per_s);
    let ratio = cell.ratio.as_ref();
    let jain = cell.jain.map_or(f64::NAN, |spread| spread.median);
    vec![
        Cell::count(u64::from(cell.threads)),
        Cell::text(cell.policy.to_string()),
        median(rate),
        if rounds > 1 { range(&rate) } else { Cell::empty() },
        ratio.map_or_else(Cell::empty, |spread| median(*spread)),
        ratio.filter(|_| rounds > 1).map_or_else(Cell::empty, range),
        Cell::number(cell.cpus_used.median, 2),
        median(thousands(&cell.voluntary_switches_per_s)),
        Cell::number(jain, 3),
        Cell::number(cell.starved_threads.median, 0),
        time(cell.wait_p50_us),
        time(cell.wait_p99_us),
        time(cell.wait_max_us),
    ]
}

fn range(spread: &Spread) -> Cell {
    // Two digits tell how wide a range is, and keep the line narrow.
    let short = |value: f64| match value {
        9.95.. => fixed(value, 0),
        0.995.. => fixed(value, 1),
        _ => fixed(value, 2),
    };
    Cell::text(format!("[{}–{}]", short(spread.min), short(spread.max)))
}

/// CPUs that others may use before it is said: the ticks of a window of 0.3 s on two CPUs are 60,
/// and rounding alone makes two of them.
const QUIET_CPUS: f64 = 0.15;

/// A warning if other programs had a part of the machine: in a cell, in most of the rounds.
fn disturbance(record: &NativeRecord) -> Option<String> {
    let others = record.cells.iter().filter_map(|cell| cell.others_cpus);
    let most = others.map(|spread| spread.median).reduce(f64::max)?;
    let cpus = record.cpus;
    (most > QUIET_CPUS).then(|| {
        format!(
            "Other programs ran: they used up to {} of {cpus} CPUs. That slows a policy that keeps \
             the CPUs busy and spares one that idles; repeat on a quiet machine.",
            fixed(most, 2)
        )
    })
}

fn notes(record: &NativeRecord) -> Vec<String> {
    let baseline = record.experiment.policies.first().map(ToString::to_string);
    let mut notes = vec![
        "Rate: acquisitions; median [smallest–largest] over the rounds.".to_owned(),
        format!("Ratio: rate over that of {} in the same round.", baseline.unwrap_or_default()),
        match record.place {
            Some(_) => "CPUs that are not idle. Switches: voluntary ones.",
            None => {
                "CPUs used by the process; other programs take from a policy that keeps the CPUs \
                 busy. Switches: voluntary ones."
            }
        }
        .to_owned(),
        "Starved: threads without an acquisition in the window. Waits include those that the end \
         of the window cut off."
            .to_owned(),
        format!(
            "A step of the work takes {} ns, a look at the clock {} ns; seed {}.",
            fixed(record.step_ns, 2),
            fixed(record.clock_ns, 0),
            record.experiment.seed
        ),
    ];
    notes.extend(disturbance(record));
    notes
}

/// Every run, one line each, in the order measured.
pub fn native_csv(record: &NativeRecord) -> String {
    let columns = [
        "round",
        "order",
        "section_ns",
        "threads",
        "policy",
        "window_s",
        "cpus_used",
        "acquisitions_per_s",
        "voluntary_switches_per_s",
        "involuntary_switches_per_s",
        "jain",
        "starved_threads",
        "waiting_threads",
        "wait_p50_us",
        "wait_p99_us",
        "wait_max_us",
        "drain_ms",
    ];
    let mut table = Table::new("", columns.map(Column::text).to_vec());
    for run in &record.runs {
        let count = |value: u32| Cell::count(u64::from(value));
        let number = |value: f64| Cell::shown("", value);
        table.row(vec![
            count(run.round),
            count(run.order),
            count(run.section_ns),
            count(run.threads),
            Cell::text(run.policy.to_string()),
            number(run.window_s),
            number(run.cpus_used),
            number(run.acquisitions_per_s),
            number(run.voluntary_switches_per_s),
            number(run.involuntary_switches_per_s.unwrap_or(f64::NAN)),
            number(run.jain.unwrap_or(f64::NAN)),
            count(run.starved_threads),
            count(run.waiting_threads),
            number(run.wait_p50_us),
            number(run.wait_p99_us),
            number(run.wait_max_us),
            number(run.drain_ms),
        ]);
    }
    table.to_csv()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::MAX_WIDTH;

    /// A record in the shape of the shipped experiment; the numbers are made up for this test.
    fn example() -> NativeRecord {
        let mut cells = Vec::new();
        let mut runs = Vec::new();
        for section_ns in [100, 1000] {
            for (threads, policy) in
                [(2, "handoff"), (2, "opportunistic"), (2000, "handoff"), (2000, "opportunistic")]
            {
                let handoff = policy == "handoff";
                let spread = |median: f64| {
                    let (min, max) = (median * 0.61, median * 1.7);
                    serde_json::json!({ "median": median, "min": min, "max": max })
                };
                let rate = if handoff { 107_250.0 } else { 1_448_000.0 };
                let starved = if handoff || threads == 2 { 0.0 } else { 1_072.0 };
                let wait = if handoff { 23_500.0 } else { 0.0725 };
                cells.push(serde_json::json!({
                    "section_ns": section_ns,
                    "threads": threads,
                    "policy": policy,
                    "acquisitions_per_s": spread(rate),
                    "ratio": if handoff { None } else { Some(spread(13.5)) },
                    "cpus_used": spread(1.25),
                    "others_cpus": spread(0.9),
                    "voluntary_switches_per_s": spread(rate / 3.0),
                    "jain": spread(if handoff { 0.998 } else { 0.066 }),
                    "starved_threads": spread(starved),
                    "waiting_threads": spread(starved),
                    "wait_p50_us": spread(wait),
                    "wait_p99_us": spread(wait * 2.0),
                    "wait_max_us": spread(386_000.0),
                }));
                runs.push(serde_json::json!({
                    "round": 0, "order": runs.len(), "section_ns": section_ns, "threads": threads,
                    "policy": policy, "window_s": 0.3, "cpus_used": 1.25,
                    "acquisitions_per_s": rate,
                    "voluntary_switches_per_s": rate / 4.0, "involuntary_switches_per_s": 250.5,
                    "jain": null, "starved_threads": starved as u32, "waiting_threads": 3,
                    "wait_p50_us": wait, "wait_p99_us": wait, "wait_max_us": wait,
                    "drain_ms": 12.5,
                }));
            }
        }
        let experiment = convoy_lab::native::NativeExperiment {
            name: "semaphore-native".to_owned(),
            policies: vec![
                convoy_lab::native::Policy::Handoff,
                convoy_lab::native::Policy::Opportunistic,
            ],
            threads: vec![2, 16, 64, 256, 2000],
            section_ns: vec![100, 1000],
            rounds: 3,
            warmup_ms: 150,
            window_ms: 300,
            ..convoy_lab::native::NativeExperiment::plain()
        };
        serde_json::from_value(serde_json::json!({
            "schema": 1,
            "experiment": experiment,
            "cpus": 4,
            "step_ns": 1.4,
            "clock_ns": 31.0,
            "cells": cells,
            "runs": runs,
        }))
        .unwrap()
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(native_text(&example()));
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(native_csv(&example()));
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for line in native_text(&example()).lines() {
            assert!(line.chars().count() <= MAX_WIDTH, "{line}");
        }
    }

    #[test]
    fn a_busy_machine_is_named() {
        let mut record = example();
        assert!(native_text(&record).contains("they used up to 0.90 of 4 CPUs"));
        // One section at a time need not keep all CPUs busy: nobody else did either.
        let quiet = Spread { median: 0.1, min: 0.0, max: 0.9 };
        for others in [Some(quiet), None] {
            record.cells.iter_mut().for_each(|cell| cell.others_cpus = others);
            assert!(!native_text(&record).contains("Other programs ran"));
        }
    }

    #[test]
    fn json_is_the_record() {
        let back: NativeRecord = serde_json::from_str(&native_json(&example())).unwrap();
        assert_eq!(back, example());
    }
}
