//! `convoy predict`: a recorded program with other CPUs, threads and locks.

use crate::args::Common;
use crate::behaviour::{behaviour, beside, busiest, busy_s, disturbed, limit, watched};
use crate::experiment::apart;
use crate::explain::recorded::find;
use crate::fail::Failure;
use crate::keep::STORE_HELP;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_calibrate::hour;
use convoy_catalogue::Set;
use convoy_lab::lock_loop::{LoopResult, Policy};
use convoy_lab::replay::{Anchor, Behaviour, Gates, Replay};
use convoy_lab::virtual_end::VirtualError;
use convoy_lab::virtual_locks::VirtualLocksPoint;
use convoy_record::{Account, Lock, Program, Record};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use doubt::{doubt, slips};
pub(crate) use row::Row;

mod doubt;
mod print;
mod row;

/// The policy of glibc's mutex and semaphore.
pub(crate) const SLEEP: &str = "sleep";
/// The policy of locks that nobody takes past others for long.
pub(crate) const FAIR: &str = "fair";
/// The policy of locks that are never free while somebody waits.
const HANDOFF: &str = "handoff";
/// The machine whose prices the record replaces by those of its own hour.
const HOST: &str = "host";
/// Of the time of a program, what it does beside its threads' work with locks, if that matters.
const BESIDE: f64 = 0.05;

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
            HANDOFF => Policy::FutexHandoff,
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
    /// What threads waited for mostly, if that is no lock that another can replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) beyond: Option<String>,
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
    /// What is replayed in the order that was recorded; empty: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    order: Vec<String>,
    /// What the replay leaves out of what was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leaves_out: Vec<String>,
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
    /// Wait for other threads at conditions, of each acquisition.
    idle_mean_us: f64,
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
        busiest(record).1.first().copied().ok_or_else(|| self.nothing_of(record))
    }

    fn nothing(&self) -> Failure {
        Failure::usage(format!("{}: no lock was taken in it, so nothing limits", self.record))
    }

    /// The same of a record, with what threads waited for then.
    fn nothing_of(&self, record: &Record) -> Failure {
        match Account::new(record).beyond() {
            Some(beyond) => Failure::usage(format!("{}: {beyond}", self.record)),
            None => self.nothing(),
        }
    }

    /// Replays the record, then what is wanted.
    pub(crate) fn prediction(
        &self,
        record: &Record,
        wanted: &Wanted,
    ) -> Result<Prediction, Failure> {
        let (Some(process), locks) = busiest(record) else { return Err(self.nothing_of(record)) };
        let first = self.first(record)?;
        let recorded = match record.program.policy(first.kind) {
            "" => Choice::new(SLEEP),
            policy => Choice::new(policy),
        };
        let replayed = |in_order: bool| -> Result<Prediction, Failure> {
            let (behaviour, written) = behaviour(record, process, &locks, in_order);
            let behaviour = Arc::new(behaviour);
            let cells = self.cells(record, &behaviour, &recorded, wanted)?;
            let (measured, mut verdict) = (measured(&behaviour), limit(&behaviour, &locks));
            if self.machine == HOST {
                verdict.extend(disturbed(&record.program.prices_ns));
            }
            verdict.extend(beside(&record.program));
            verdict.extend(watched(process));
            let mut prediction = apart(move || predict(&cells, measured, verdict))?;
            let slips = std::mem::take(&mut prediction.leaves_out);
            prediction.leaves_out = written.leaves_out.into_iter().chain(slips).collect();
            prediction.order = written.has;
            prediction.beyond = Account::new(record).beyond();
            let (all_s, busy_s) = (record.program.wall_s, busy_s(process, &locks));
            if process.pid == record.processes[0].pid && all_s - busy_s > BESIDE * all_s {
                prediction.rows.iter_mut().for_each(|row| row.whole(all_s, busy_s));
            }
            Ok(prediction)
        };
        let ordered = replayed(true)?;
        if ordered.doubt.is_none() || ordered.order.is_empty() {
            return Ok(ordered);
        }
        // What the order of steps does not explain, the places alone may.
        let mut plain = replayed(false)?;
        if plain.doubt.is_some() {
            return Ok(ordered);
        }
        plain.leaves_out.push(format!(
            "Replayed by places, without the order of steps ({}): with it, the replay was another \
             program.",
            ordered.order.join(", ")
        ));
        Ok(plain)
    }
}

fn measured(behaviour: &Behaviour) -> Point {
    Point {
        what: "recorded",
        acquisitions_per_s: behaviour.rate,
        cpu_us: behaviour.cpu_ns / 1e3,
        wait_mean_us: behaviour.wait_ns / 1e3,
        idle_mean_us: behaviour.idle_ns / 1e3,
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
                    // `convoy with` has no thread spin where there is one CPU.
                    looks: if cpus == 1 { Some(0) } else { choice.looks },
                    whole: true,
                    others_cpus: 0.0,
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
    let points = |cell: &Asked| -> Result<Vec<VirtualLocksPoint>, VirtualError> {
        let anchored = cell.rounds.iter().zip(&anchors);
        let run = |(replay, &anchor): (&Replay, &Anchor)| Replay { anchor, ..replay.clone() }.run();
        anchored.map(run).collect()
    };
    let runs = |cell: &Asked| -> Result<Vec<LoopResult>, VirtualError> {
        Ok(points(cell)?.into_iter().map(|point| point.result).collect())
    };
    let (base, gates): (Vec<LoopResult>, Vec<Gates>) =
        points(&cells[0])?.into_iter().map(|point| (point.result, point.gates)).unzip();
    let rate = mean(base.iter().map(LoopResult::acquisitions_per_s));
    let simulated = Point {
        what: "replayed",
        acquisitions_per_s: rate,
        cpu_us: mean(base.iter().map(|one| one.cpus_used)) * 1e6 / rate,
        wait_mean_us: mean(base.iter().map(|one| metric(one, "wait_mean_us"))),
        idle_mean_us: mean(base.iter().zip(&gates).map(|(one, gates)| {
            gates.wait_ns / 1e3 / one.acquisitions.iter().sum::<u64>().max(1) as f64
        })),
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
            program_times: None,
            wait_p99_us: of("wait_p99_us"),
            jain: of("jain"),
        });
    }
    let anchor_wakeups = mean(anchors.iter().map(|one| one.wakeups));
    let anchor_work_us = mean(anchors.iter().map(|one| one.work_ns)) / 1e3;
    let anchor_sleep_us = mean(anchors.iter().map(|one| one.sleep_ns)) / 1e3;
    let turn_us = f64::from(cells[0].rounds[0].threads) * 1e6 / measured.acquisitions_per_s;
    let (doubt, anchor) = (doubt(&measured, &simulated, turn_us), [measured, simulated]);
    Ok(Prediction {
        beyond: None,
        verdict,
        anchor,
        anchor_wakeups,
        anchor_work_us,
        anchor_sleep_us,
        order: Vec::new(),
        leaves_out: slips(&gates).into_iter().collect(),
        doubt,
        rows,
    })
}

fn metric(result: &LoopResult, name: &str) -> f64 {
    if name == "wait_mean_us" {
        return result.waits.mean().unwrap_or(0.0) / 1e3;
    }
    let metrics = result.metrics();
    metrics.iter().find(|metric| metric.0 == name).map_or(f64::NAN, |metric| metric.1)
}
