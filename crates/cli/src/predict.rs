//! `convoy predict`: a recorded program with other CPUs, threads and locks.

use crate::args::Common;
use crate::behaviour::{behaviour, busiest, disturbed, limit};
use crate::experiment::apart;
use crate::explain::recorded::find;
use crate::fail::Failure;
use crate::keep::STORE_HELP;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_catalogue::Set;
use convoy_lab::hour;
use convoy_lab::lock_loop::{LoopResult, Policy};
use convoy_lab::replay::{Anchor, Behaviour, Replay};
use convoy_lab::virtual_end::VirtualError;
use convoy_record::{Lock, Program, Record};
use convoy_report::{Cell, Column, Table};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The policy of glibc's mutex and semaphore.
pub(crate) const SLEEP: &str = "sleep";
/// The policy of locks that nobody takes past others for long.
pub(crate) const FAIR: &str = "fair";
/// The machine whose prices the record replaces by those of its own hour.
const HOST: &str = "host";

/// `convoy predict`.
#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// What is replayed, and on what.
    #[command(flatten)]
    replays: Replays,
    /// Numbers of CPUs [default: those of the record]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Vec<u32>,
    /// Numbers of threads [default: those of the record]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// Locks in place of all: those of convoy with, or of convoy list locks
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sleep,spin,fair,handoff"
    )]
    #[arg(value_parser = PossibleValuesParser::new(names()).map(|name| Choice::new(&name)))]
    policy: Vec<Choice>,
    /// Also with the lock that was waited for most split so many ways
    #[arg(long, value_name = "WAYS", value_parser = clap::value_parser!(u32).range(2..=1024))]
    split: Option<u32>,
}

/// What is replayed, and on what: flags of `convoy predict` and `convoy fix`.
#[derive(Debug, Args)]
pub(crate) struct Replays {
    /// A file of convoy record, the number of a stored record, or `@TAG`
    #[arg(value_name = "RECORD")]
    record: String,
    /// Runs of each row: each with a seed of its own, and with prices of wakeups between the
    /// quartiles of the record
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Kernel preset
    #[arg(long, value_name = "PRESET", default_value = "6.18", help_heading = "Virtual machine")]
    kernel: String,
    /// Machine preset
    #[arg(long, value_name = "PRESET", default_value = HOST, help_heading = "Virtual machine")]
    machine: String,
    /// What is changed in the presets.
    #[command(flatten)]
    sets: Sets,
    /// The store of the record.
    #[arg(long, value_name = "FILE", help = STORE_HELP, hide_short_help = true)]
    store: Option<PathBuf>,
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A lock of the virtual machine by the name that `convoy with` has for it.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    name: String,
    policy: Policy,
    looks: Option<u32>,
    /// Whether only the first lock has it.
    alone: bool,
}

fn names() -> Vec<&'static str> {
    [SLEEP, "spin", FAIR].into_iter().chain(Policy::NAMES.iter().copied()).collect()
}

impl Choice {
    /// Of one of [`names`].
    pub(crate) fn new(name: &str) -> Self {
        let policy = match name {
            FAIR => Policy::Quota,
            name => Policy::named(name).unwrap_or(Policy::Adaptive),
        };
        Self { name: name.to_owned(), policy, looks: (name == SLEEP).then_some(0), alone: false }
    }

    /// In place of the first lock alone.
    pub(crate) fn alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }
}

/// What rows are asked for; an empty list: as recorded.
pub(crate) struct Wanted {
    /// Numbers of CPUs.
    pub(crate) cpus: Vec<u32>,
    /// Numbers of threads.
    pub(crate) threads: Vec<u32>,
    /// Locks in place of all.
    pub(crate) policy: Vec<Choice>,
    /// Ways to split the first lock.
    pub(crate) split: Option<u32>,
}

/// What is printed.
#[derive(Debug, Serialize)]
pub(crate) struct Prediction {
    /// The lock that limits.
    verdict: String,
    /// The replay at the recorded point, beside the record.
    anchor: [Point; 2],
    /// What the prices of switches and wakeups were multiplied with.
    anchor_wakeups: f64,
    /// Work that was added before each section.
    anchor_work_us: f64,
    /// Sleep that was added before each section.
    anchor_sleep_us: f64,
    /// Why the replay is not to be believed, if it is not.
    pub(crate) doubt: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// Throughput and its price.
#[derive(Clone, Debug, Serialize)]
struct Point {
    what: &'static str,
    acquisitions_per_s: f64,
    cpu_us: f64,
    wait_mean_us: f64,
}

/// One prediction. The interval is that of the seeds, widened by what the anchor leaves.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    cpus: u32,
    threads: u32,
    pub(crate) policy: String,
    pub(crate) split: u32,
    acquisitions_per_s: f64,
    pub(crate) change_percent: f64,
    pub(crate) low_percent: f64,
    pub(crate) high_percent: f64,
    pub(crate) wait_p99_us: f64,
    pub(crate) jain: f64,
}

/// The command.
pub(crate) fn run(args: &Predict) -> Result<ExitCode, Failure> {
    output::ready(args.replays.common.output.as_deref())?;
    let record = args.replays.record()?;
    let wanted = Wanted {
        cpus: args.cpus.clone(),
        threads: args.threads.clone(),
        policy: args.policy.clone(),
        split: args.split,
    };
    let prediction = args.replays.prediction(&record, &wanted)?;
    let text = || prediction.to_text();
    let json = || serde_json::to_string_pretty(&prediction).expect("numbers and text") + "\n";
    output::print(&args.replays.common, text, json, || prediction.table().to_csv())?;
    Ok(ExitCode::SUCCESS)
}

impl Replays {
    /// The record that is named.
    pub(crate) fn record(&self) -> Result<Record, Failure> {
        let record = find(&self.record, self.store.as_deref())?.ok_or_else(|| {
            Failure::usage(format!(
                "{} is no record of a program; name a file that convoy record wrote, or a number \
                 of convoy runs list",
                self.record
            ))
        })?;
        match record.program.source.as_str() {
            "" if !record.program.locks.is_empty() => Err(Failure::usage(format!(
                "{} was recorded with --lock, so that it has several kinds of locks; record the \
                 program without",
                self.record
            ))),
            "" if record.program.only_contended => Err(Failure::usage(format!(
                "{} has only acquisitions that had to wait (--contended), so there is nothing to \
                 replay; record the program again without it",
                self.record
            ))),
            "" => Ok(record),
            source => Err(Failure::usage(format!(
                "{} is from {source}, which has no work to replay; record the program with convoy \
                 record",
                self.record
            ))),
        }
    }

    /// The lock that was waited for most.
    pub(crate) fn first<'a>(&self, record: &'a Record) -> Result<&'a Lock, Failure> {
        busiest(record).1.first().copied().ok_or_else(|| self.nothing())
    }

    fn nothing(&self) -> Failure {
        Failure::usage(format!("{}: no lock was taken in it, so nothing limits", self.record))
    }

    /// Replays the record, then what is wanted.
    pub(crate) fn prediction(
        &self,
        record: &Record,
        wanted: &Wanted,
    ) -> Result<Prediction, Failure> {
        let (Some(process), locks) = busiest(record) else { return Err(self.nothing()) };
        let first = self.first(record)?;
        let behaviour = Arc::new(behaviour(record, process, &locks));
        let recorded = match record.program.policy(first.kind) {
            "" => Choice::new(SLEEP),
            policy => Choice::new(policy),
        };
        let cells = self.cells(record, &behaviour, &recorded, wanted)?;
        let (measured, mut verdict) = (measured(&behaviour), limit(&behaviour, &locks));
        if self.machine == HOST {
            verdict.extend(disturbed(&record.program.prices_ns));
        }
        apart(move || predict(&cells, measured, verdict))
    }
}

fn measured(behaviour: &Behaviour) -> Point {
    Point {
        what: "recorded",
        acquisitions_per_s: behaviour.rate,
        cpu_us: behaviour.cpu_ns / 1e3,
        wait_mean_us: behaviour.wait_ns / 1e3,
    }
}

/// One row: the recorded point, or one that was asked for.
struct Asked {
    choice: Choice,
    split: u32,
    /// Its runs.
    rounds: Vec<Replay>,
}

impl Replays {
    /// The recorded point first.
    fn cells(
        &self,
        record: &Record,
        behaviour: &Arc<Behaviour>,
        recorded: &Choice,
        wanted: &Wanted,
    ) -> Result<Vec<Asked>, Failure> {
        let or = |list: &[u32], one: u32| if list.is_empty() { vec![one] } else { list.to_vec() };
        let kernel = self.sets.kernel(&self.kernel)?.value;
        let cell = |choice: &Choice, split: u32, cpus: u32, threads: u32| {
            let mut behaviour = Arc::clone(behaviour);
            if split > 1 {
                Arc::make_mut(&mut behaviour).locks[0] *= split;
            }
            let round = |seed| -> Result<Replay, Failure> {
                let sets = Sets::of(self.prices(&record.program, seed)).with(&self.sets);
                Ok(Replay {
                    behaviour: Arc::clone(&behaviour),
                    anchor: Anchor::NONE,
                    threads,
                    policy: choice.policy,
                    alone: choice.alone,
                    looks: choice.looks,
                    seed,
                    kernel: kernel.clone(),
                    machine: sets.machine(&self.machine, Some(cpus as usize))?.value,
                })
            };
            let rounds = (1..=self.rounds).map(round).collect::<Result<_, _>>()?;
            Ok::<_, Failure>(Asked { choice: choice.clone(), split, rounds })
        };
        let mut cells = vec![cell(recorded, 1, behaviour.cpus, behaviour.threads)?];
        for cpus in or(&wanted.cpus, behaviour.cpus) {
            for threads in or(&wanted.threads, behaviour.threads) {
                for choice in &wanted.policy {
                    cells.push(cell(choice, 1, cpus, threads)?);
                }
                if let Some(split) = wanted.split {
                    cells.push(cell(recorded, split, cpus, threads)?);
                }
            }
        }
        Ok(cells)
    }

    /// What the record says of the machine: in the first round the medians, in the others from the
    /// lower to the upper quartiles, all prices together, as a busy hour raises all.
    fn prices(&self, program: &Program, seed: u64) -> Vec<Set> {
        if self.machine != HOST {
            return Vec::new();
        }
        let part = match self.rounds {
            _ if seed == 1 => 1.0,
            0..3 => 0.0,
            rounds => 2.0 * (seed - 2) as f64 / (rounds - 2) as f64,
        };
        let between = |[low, median, high]: [f64; 3]| {
            if part < 1.0 {
                low + part * (median - low)
            } else {
                median + (part - 1.0) * (high - median)
            }
        };
        let set = |(key, ns): (&String, &[f64; 3])| {
            let path: Vec<&str> = key.split('.').collect();
            Set::machine(
                &path,
                format!("{:.1}", between(*ns).min(hour::MOST_NS)),
                format!("{key} of the record"),
            )
        };
        program.prices_ns.iter().filter(|(_, ns)| hour::is_price(ns)).map(set).collect()
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn predict(cells: &[Asked], measured: Point, verdict: String) -> Result<Prediction, VirtualError> {
    let anchors: Vec<Anchor> =
        cells[0].rounds.iter().map(Replay::anchored).collect::<Result<_, _>>()?;
    let runs = |cell: &Asked| -> Result<Vec<LoopResult>, VirtualError> {
        let anchored = cell.rounds.iter().zip(&anchors);
        let run = |(replay, &anchor): (&Replay, &Anchor)| Replay { anchor, ..replay.clone() }.run();
        anchored.map(|round| run(round).map(|point| point.result)).collect()
    };
    let base = runs(&cells[0])?;
    let rate = mean(base.iter().map(LoopResult::acquisitions_per_s));
    let simulated = Point {
        what: "replayed",
        acquisitions_per_s: rate,
        cpu_us: mean(base.iter().map(|one| one.cpus_used)) * 1e6 / rate,
        wait_mean_us: mean(base.iter().map(|one| metric(one, "wait_mean_us"))),
    };
    let left = (rate / measured.acquisitions_per_s).ln().abs().exp();
    let mut rows = Vec::new();
    for cell in &cells[1..] {
        let found = runs(cell)?;
        let pairs = found.iter().zip(&base);
        let changes: Vec<f64> =
            pairs.map(|(one, base)| one.acquisitions_per_s() / base.acquisitions_per_s()).collect();
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let of = |name| mean(found.iter().map(|one| metric(one, name)));
        let middle = mean(changes.iter().copied());
        rows.push(Row {
            cpus: cell.rounds[0].machine.topology.cpus as u32,
            threads: cell.rounds[0].threads,
            policy: cell.choice.name.clone(),
            split: cell.split,
            acquisitions_per_s: middle * measured.acquisitions_per_s,
            change_percent: percent(middle),
            low_percent: percent(changes.iter().copied().fold(f64::MAX, f64::min) / left),
            high_percent: percent(changes.iter().copied().fold(0.0, f64::max) * left),
            wait_p99_us: of("wait_p99_us"),
            jain: of("jain"),
        });
    }
    let anchor_wakeups = mean(anchors.iter().map(|one| one.wakeups));
    let anchor_work_us = mean(anchors.iter().map(|one| one.work_ns)) / 1e3;
    let anchor_sleep_us = mean(anchors.iter().map(|one| one.sleep_ns)) / 1e3;
    let turn_us = f64::from(cells[0].rounds[0].threads) * 1e6 / measured.acquisitions_per_s;
    let (doubt, anchor) = (doubt(&measured, &simulated, turn_us), [measured, simulated]);
    Ok(Prediction { verdict, anchor, anchor_wakeups, anchor_work_us, anchor_sleep_us, doubt, rows })
}

/// Whether the replay is another program than the record, whose threads take a lock every
/// `turn_us`.
fn doubt(measured: &Point, replayed: &Point, turn_us: f64) -> Option<String> {
    /// How far the throughput may be off, which is fitted.
    const RATE: f64 = 2.0;
    /// How far the mean wait may be off, which is not.
    const WAIT: f64 = 3.0;
    /// Of a turn: a smaller difference of waits does not matter.
    const LITTLE: f64 = 0.3;
    let off =
        |of: fn(&Point) -> f64| of(measured).max(of(replayed)) / of(measured).min(of(replayed));
    let waits = (measured.wait_mean_us - replayed.wait_mean_us).abs() > LITTLE * turn_us
        && off(|one| one.wait_mean_us) > WAIT;
    let what = match () {
        () if off(|one| one.acquisitions_per_s) > RATE => "throughput",
        () if waits => "mean wait",
        () => return None,
    };
    Some(format!(
        "The replay is not this program: its {what} is another one, so nothing follows from it."
    ))
}

fn metric(result: &LoopResult, name: &str) -> f64 {
    if name == "wait_mean_us" {
        return result.waits.mean().unwrap_or(0.0) / 1e3;
    }
    let metrics = result.metrics();
    metrics.iter().find(|metric| metric.0 == name).map_or(f64::NAN, |metric| metric.1)
}

impl Prediction {
    /// The lock that limits, and the replay beside the record.
    pub(crate) fn head(&self) -> String {
        let mut text = convoy_report::page_wrap(&self.verdict) + "\n";
        for point in &self.anchor {
            let line = format!(
                "{}: {:.0} acquisitions a second, {:.2} us of CPU each, mean wait {:.1} us\n",
                point.what, point.acquisitions_per_s, point.cpu_us, point.wait_mean_us
            );
            text += &line;
        }
        let anchor = format!(
            "anchor: wakeups times {:.2}, {:+.2} us of work and {:+.1} us of sleep before each \
             section\n\n",
            self.anchor_wakeups, self.anchor_work_us, self.anchor_sleep_us
        );
        let doubt = self.doubt.iter().map(|doubt| convoy_report::page_wrap(doubt) + "\n");
        text.extend(doubt);
        text + &anchor
    }

    fn to_text(&self) -> String {
        self.head() + &self.table().to_text()
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
