//! `convoy predict`: a recorded program with other CPUs, threads and locks.

use crate::args::Common;
use crate::experiment::apart;
use crate::explain::recorded::find;
use crate::fail::Failure;
use crate::keep::STORE_HELP;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_lab::lock_loop::Policy;
use convoy_lab::replay::{Anchor, Behaviour, Replay, Section, Span, Spread};
use convoy_lab::virtual_end::VirtualError;
use convoy_record::{Lock, Process, Record, Times};
use convoy_report::{Cell, Column, Table};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The policy of glibc's mutex and semaphore.
pub(crate) const SLEEP: &str = "sleep";
/// Share of acquisitions, and of waiting, below which a lock is left out.
const LITTLE: f64 = 0.001;
/// Locks of one name that are told apart.
const INSTANCES: u64 = 64;
/// CPU use, of the CPUs there were, below which an absence from the CPU was sleep.
const BUSY: f64 = 0.9;

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
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "sleep,spin,handoff")]
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
    /// Runs of each row, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Kernel preset
    #[arg(long, value_name = "PRESET", default_value = "6.18", help_heading = "Virtual machine")]
    kernel: String,
    /// Machine preset
    #[arg(long, value_name = "PRESET", default_value = "host", help_heading = "Virtual machine")]
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
}

fn names() -> Vec<&'static str> {
    [SLEEP, "spin"].into_iter().chain(Policy::NAMES.iter().copied()).collect()
}

impl Choice {
    /// Of one of [`names`].
    pub(crate) fn new(name: &str) -> Self {
        let policy = Policy::named(name).unwrap_or(Policy::Adaptive);
        Self { name: name.to_owned(), policy, looks: (name == SLEEP).then_some(0) }
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
    /// Work between sections, as a multiple of the recorded one.
    anchor_work: f64,
    /// Sleep that was added before each section.
    anchor_sleep_us: f64,
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

/// The process in which locks matter most, and those of them that do; empty: none.
fn busiest(record: &Record) -> (Option<&Process>, Vec<&Lock>) {
    let all = |one: &&Process| one.locks.iter().map(weight).sum::<u64>();
    let process = record.processes.iter().max_by_key(all);
    (process, process.map(kept).unwrap_or_default())
}

impl Replays {
    /// The record that is named.
    pub(crate) fn record(&self) -> Result<Record, Failure> {
        find(&self.record, self.store.as_deref())?.ok_or_else(|| {
            Failure::usage(format!(
                "{} is no record of a program; name a file that convoy record wrote, or a number \
                 of convoy runs list",
                self.record
            ))
        })
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
        let cells = self.cells(&behaviour, &recorded, wanted)?;
        let (measured, limit) = (measured(&behaviour), limit(&behaviour, &locks));
        let rounds = self.rounds;
        apart(move || predict(&cells, rounds, measured, limit))
    }
}

/// Nanoseconds that threads waited, and acquisitions.
fn weight(lock: &Lock) -> u64 {
    if lock.is_lock() { (lock.wait_s() * 1e9) as u64 + lock.count() } else { 0 }
}

/// The locks that matter, the one waited for longest first.
fn kept(process: &Process) -> Vec<&Lock> {
    let all = || process.locks.iter().filter(|lock| lock.is_lock() && lock.count() > 0);
    let count: u64 = all().map(Lock::count).sum();
    let wait_s: f64 = all().map(Lock::wait_s).sum();
    let matters = |lock: &&Lock| {
        lock.count() as f64 > LITTLE * count as f64 || lock.wait_s() > LITTLE * wait_s
    };
    let mut locks: Vec<&Lock> = all().filter(matters).collect();
    locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()));
    locks
}

fn behaviour(record: &Record, process: &Process, locks: &[&Lock]) -> Behaviour {
    let cpus = record.program.cpus.max(1);
    let spare = process.cpu_s < BUSY * process.seconds * f64::from(cpus);
    let mut behaviour = Behaviour { cpus, ..Behaviour::default() };
    for (index, lock) in locks.iter().enumerate() {
        behaviour.locks.push(lock.instances.clamp(1, INSTANCES) as u32);
        let sites = lock.sites.iter().filter(|site| site.act != "signal" && site.count > 0);
        behaviour.sections.extend(sites.map(|site| Section {
            lock: index,
            count: site.count,
            threads: site.threads.max(1) as u32,
            hold: span(&site.hold_on, &site.hold_off, spare),
            think: span(&site.think_on, &site.think_off, spare),
        }));
    }
    let count: u64 = behaviour.sections.iter().map(|one| one.count).sum();
    let threads = behaviour.sections.iter().map(|one| one.threads).max();
    behaviour.threads = threads.unwrap_or(1);
    behaviour.rate = count as f64 / process.seconds.max(1e-9);
    behaviour.cpu_ns = process.cpu_s * 1e9 / count.max(1) as f64;
    let wait_s: f64 = locks.iter().map(|lock| lock.wait_s()).sum();
    behaviour.wait_ns = wait_s * 1e9 / count.max(1) as f64;
    behaviour
}

/// Work with a switch in it slept if CPUs were to be had, and was preempted otherwise; then the
/// virtual machine preempts it too.
fn span(on: &Times, off: &Times, spare: bool) -> Span {
    let spread = |times: &Times| Spread::new(&times.buckets, times.mean_s() * 1e9);
    let all = (on.count + off.count).max(1) as f64;
    let sleeps = if spare || on.count == 0 { off.count as f64 / all } else { 0.0 };
    Span { work: spread(on), sleeps, sleep: spread(off) }
}

fn measured(behaviour: &Behaviour) -> Point {
    Point {
        what: "recorded",
        acquisitions_per_s: behaviour.rate,
        cpu_us: behaviour.cpu_ns / 1e3,
        wait_mean_us: behaviour.wait_ns / 1e3,
    }
}

/// Which lock limits, and from how many CPUs on.
fn limit(behaviour: &Behaviour, locks: &[&Lock]) -> String {
    let count: u64 = behaviour.sections.iter().map(|one| one.count).sum();
    let per_call = |lock: &Lock| {
        let (held_s, _) = lock.held_s();
        held_s / count.max(1) as f64 / lock.instances.max(1) as f64
    };
    let most = locks.iter().max_by(|a, b| per_call(a).total_cmp(&per_call(b)));
    let Some(lock) = most.filter(|lock| per_call(lock) > 0.0) else {
        return "No hold was timed, so no lock is known to limit.".to_owned();
    };
    let rate = 1.0 / per_call(lock);
    let cpus = (rate * behaviour.cpu_ns / 1e9).ceil().max(1.0);
    let site = lock.sites.first().map_or("", |site| site.place.as_str());
    format!(
        "`{}` in {site} limits: as long as it is held now it allows {rate:.0} acquisitions a \
         second in all, for which {cpus:.0} CPUs are enough; the record had {} and {:.0} a second.",
        lock.name, behaviour.cpus, behaviour.rate
    )
}

/// The recorded point first, then what was asked for, each with the number of its split.
type Cells = Vec<(Choice, u32, Replay)>;

impl Replays {
    fn cells(
        &self,
        behaviour: &Arc<Behaviour>,
        recorded: &Choice,
        wanted: &Wanted,
    ) -> Result<Cells, Failure> {
        let or = |list: &[u32], one: u32| if list.is_empty() { vec![one] } else { list.to_vec() };
        let kernel = self.sets.kernel(&self.kernel)?.value;
        let cell = |choice: &Choice, split: u32, cpus: u32, threads: u32| {
            let mut behaviour = Arc::clone(behaviour);
            if split > 1 {
                Arc::make_mut(&mut behaviour).locks[0] *= split;
            }
            let replay = Replay {
                behaviour,
                anchor: Anchor { work: 1.0, sleep_ns: 0.0 },
                threads,
                policy: choice.policy,
                looks: choice.looks,
                seed: 1,
                kernel: kernel.clone(),
                machine: self.sets.machine(&self.machine, Some(cpus as usize))?.value,
            };
            Ok::<_, Failure>((choice.clone(), split, replay))
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
}

fn predict(
    cells: &Cells,
    rounds: u64,
    measured: Point,
    verdict: String,
) -> Result<Prediction, VirtualError> {
    let anchor = cells[0].2.anchored()?;
    let runs = |replay: &Replay| -> Result<Vec<_>, VirtualError> {
        let seeded = |seed| Replay { seed, anchor, ..replay.clone() }.run();
        (1..=rounds).map(|seed| seeded(seed).map(|point| point.result)).collect()
    };
    let base = runs(&cells[0].2)?;
    let mean = |of: &dyn Fn(usize) -> f64| (0..base.len()).map(of).sum::<f64>() / rounds as f64;
    let rate = mean(&|at| base[at].acquisitions_per_s());
    let simulated = Point {
        what: "replayed",
        acquisitions_per_s: rate,
        cpu_us: mean(&|at| base[at].cpus_used) * 1e6 / rate,
        wait_mean_us: mean(&|at| metric(&base[at], "wait_mean_us")),
    };
    let left = (rate / measured.acquisitions_per_s).ln().abs().exp();
    let mut rows = Vec::new();
    for (choice, split, replay) in &cells[1..] {
        let found = runs(replay)?;
        let change = |at: usize| found[at].acquisitions_per_s() / base[at].acquisitions_per_s();
        let changes: Vec<f64> = (0..found.len()).map(change).collect();
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let of = |name| found.iter().map(|one| metric(one, name)).sum::<f64>() / rounds as f64;
        let middle = changes.iter().sum::<f64>() / rounds as f64;
        rows.push(Row {
            cpus: replay.machine.topology.cpus as u32,
            threads: replay.threads,
            policy: choice.name.clone(),
            split: *split,
            acquisitions_per_s: middle * measured.acquisitions_per_s,
            change_percent: percent(middle),
            low_percent: percent(changes.iter().copied().fold(f64::MAX, f64::min) / left),
            high_percent: percent(changes.iter().copied().fold(0.0, f64::max) * left),
            wait_p99_us: of("wait_p99_us"),
            jain: of("jain"),
        });
    }
    let (anchor_work, anchor_sleep_us) = (anchor.work, anchor.sleep_ns / 1e3);
    Ok(Prediction { verdict, anchor: [measured, simulated], anchor_work, anchor_sleep_us, rows })
}

fn metric(result: &convoy_lab::lock_loop::LoopResult, name: &str) -> f64 {
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
            "anchor: work between sections times {:.2}, {:.1} us of sleep added\n\n",
            self.anchor_work, self.anchor_sleep_us
        );
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
            "change: against the replay of the record; interval: least and most of the seeds, \
             widened by what the anchor leaves of the recorded throughput. The noise between \
             repeats of the record is not in it.",
        );
        table
    }
}
