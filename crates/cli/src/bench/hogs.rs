//! `convoy bench hogs`: waits for a lock that other threads reacquire immediately after each
//! release.

use crate::args::Common;
use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use clap::Args;
use clap::builder::PossibleValuesParser;
use convoy_lab::lock_loop::Library;
use convoy_lab::native::hogs::{HogResult, Shape, hogs};
use convoy_report::{Cell, Column, Table};
use convoy_stats::Sample;
use indicatif::ProgressBar;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct BenchHogs {
    /// Locks of libraries from `convoy list locks`, ours first
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    #[arg(default_value = "convoy,parking-lot,pthread,std")]
    #[arg(value_parser = PossibleValuesParser::new(Library::ALL.iter().map(|lock| lock.name())))]
    lock: Vec<String>,
    /// Number of rounds; each measures every lock once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of a window, in milliseconds [default: 700, or less so that the total is a minute]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    window_ms: Option<u64>,
    #[command(flatten)]
    common: Common,
}

/// Milliseconds of the longest default window: some of the longest waits that were measured.
const WINDOW_MS_MAX: u64 = 700;
/// Milliseconds of all default windows together.
const TOTAL_MS: u64 = 60_000;

/// Results of the rounds for one lock in one shape.
#[derive(Clone)]
struct Row {
    shape: Shape,
    lock: Library,
    rounds: Vec<HogResult>,
    /// Acquisitions of all threads by those under glibc's mutex in the same round.
    of_pthread: Vec<f64>,
}

impl Row {
    fn median(&self, of: impl Fn(&HogResult) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    fn passed_most(&self) -> u64 {
        self.rounds.iter().map(|round| round.passed_max).max().unwrap_or_default()
    }

    fn waited_ms(&self) -> f64 {
        self.rounds.iter().map(|round| round.wait_ns_max as f64 / 1e6).fold(0.0, f64::max)
    }
}

fn median(values: Vec<f64>) -> f64 {
    Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

pub(super) fn run(args: &BenchHogs) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    let locks: Vec<Library> = args.lock.iter().filter_map(|name| Library::named(name)).collect();
    let rounds = args.rounds;
    let windows = u64::from(rounds) * (locks.len() * Shape::ALL.len()) as u64;
    let fits = (TOTAL_MS / windows.max(1)).clamp(1, WINDOW_MS_MAX);
    let window = Duration::from_millis(args.window_ms.unwrap_or(fits));
    let row = |shape| move |&lock| Row { shape, lock, rounds: Vec::new(), of_pthread: Vec::new() };
    let rows: Vec<Row> =
        Shape::ALL.iter().flat_map(|&shape| locks.iter().map(row(shape))).collect();
    let bar = output::progress(&args.common, u64::from(rounds) * rows.len() as u64);
    let rows = Arc::new(Mutex::new(rows));
    let (measured, shown) = (Arc::clone(&rows), bar.clone());
    let done = apart(move || {
        measure(&measured, rounds, window, &shown);
        Ok::<_, Infallible>(())
    })?;
    bar.finish_and_clear();
    let mut rows = locked(&rows).clone();
    rows.retain(|row| !row.rounds.is_empty());
    relate(&mut rows);
    if rows.is_empty() {
        return Err(Failure::interrupted(0));
    }
    let (table, verdict) = (table(&rows), verdict(&rows));
    let json = || {
        let fields = serde_json::json!({ "verdict": verdict, "rows": table.to_json() });
        format!("{fields:#}")
    };
    let text = || convoy_report::page_wrap(&verdict) + "\n" + &table.to_text();
    output::print(&args.common, text, json, || table.to_csv())?;
    done.map(|()| ExitCode::SUCCESS).ok_or_else(|| Failure::interrupted(rows.len()))
}

/// Adds each result to its row immediately, so that an interrupt loses none.
fn measure(rows: &Mutex<Vec<Row>>, rounds: u32, window: Duration, bar: &ProgressBar) {
    let all: Vec<_> = locked(rows).iter().map(|row| (row.lock, row.shape)).collect();
    for _ in 0..rounds {
        for (at, &(lock, shape)) in all.iter().enumerate() {
            let result = hogs(lock, shape, window);
            bar.set_message(format!(
                "{}, {}: passed {} times, waited {:.1} ms at most",
                lock.name(),
                shape.name(),
                result.passed_max,
                result.wait_ns_max as f64 / 1e6
            ));
            bar.inc(1);
            locked(rows)[at].rounds.push(result);
        }
    }
}

/// Relates the acquisitions of each round to glibc's.
fn relate(rows: &mut [Row]) {
    for shape in Shape::ALL {
        let pthread =
            rows.iter().find(|row| row.shape == shape && row.lock == Library::PthreadNormal);
        let Some(of) = pthread.map(|row| row.rounds.clone()) else { continue };
        for row in rows.iter_mut().filter(|row| row.shape == shape) {
            let ratios = row.rounds.iter().zip(&of).map(|(own, of)| own.all() / of.all());
            row.of_pthread = ratios.collect();
        }
    }
}

fn locked(rows: &Mutex<Vec<Row>>) -> MutexGuard<'_, Vec<Row>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

fn verdict(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return "Nothing was measured.".to_owned() };
    let all: Vec<String> = rows
        .iter()
        .filter(|row| row.shape == first.shape)
        .map(|row| format!("{} {}", row.lock.name(), row.passed_most()))
        .collect();
    format!(
        "Largest number of times that a thread which holds the lock for 0.4 ms and immediately \
         acquires it again passed another thread: {}.",
        all.join(", ")
    )
}

fn table(rows: &[Row]) -> Table {
    let columns = vec![
        Column::text("Threads"),
        Column::text("Lock"),
        Column::number("Passed", "at most").key("passed_max"),
        Column::number("Wait", "max, ms").key("wait_ms_max"),
        Column::number("Share", "%").key("victims_percent"),
        Column::number("Victims", "1/s").key("victims_per_s"),
        Column::number("Hogs", "1/s").key("hogs_per_s"),
        Column::number("All", "rel.").key("all_of_pthread"),
    ];
    let mut table = Table::new("waits while other threads reacquire the lock immediately", columns);
    let mut above = None;
    for row in rows {
        let first = above.replace(row.shape) != Some(row.shape);
        if first {
            table.rule();
        }
        let shape = row.shape.name();
        table.row(vec![
            if first { Cell::text(shape) } else { Cell::repeated(shape) },
            Cell::text(row.lock.name()),
            Cell::count(row.passed_most()),
            Cell::number(row.waited_ms(), 1),
            Cell::number(100.0 * row.median(HogResult::share), 1),
            Cell::number(row.median(|round| round.victims_per_s), 0),
            Cell::number(row.median(|round| round.hogs_per_s), 0),
            Cell::number(median(row.of_pthread.clone()), 2),
        ]);
    }
    table.note(
        "Passed: most acquisitions between the call of a victim and its own. Share: acquisitions \
         of victims of all. All: acquisitions of all threads, relative to pthread in the same \
         round. Medians of the rounds, or the largest value of all.",
    );
    table.note(
        "Other programs on the CPUs lengthen the waits, but change the number that passed little.",
    );
    table
}
