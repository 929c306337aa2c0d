//! The cells of a prediction: the recorded point, and each question, in a number of rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use convoy_record::{Account, Process, Record};
use convoy_runs::lock_loop::LoopResult;
use convoy_runs::replay::{Anchor, Behaviour, Gates, Replay};
use convoy_runs::virtual_end::VirtualError;
use convoy_runs::virtual_locks::VirtualLocksPoint;

use crate::behaviour::{behaviour, busiest, busy_s};
use crate::doubt::{doubt, slips};
use crate::limit::{beside, disturbed, limit, watched};
use crate::prediction::{Point, Prediction};
use crate::row::Row;
use crate::{Choice, Machines, PredictError, SLEEP};

/// Share of a program's time without work of its lock-taking threads that makes the speed of the
/// whole program another number than their throughput.
const OUTSIDE: f64 = 0.05;

/// The rows that are asked for. An empty list stands for the recorded value.
#[derive(Clone, Debug)]
pub struct Question {
    /// Numbers of CPUs.
    pub cpus: Vec<u32>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Policies of the locks.
    pub policies: Vec<Choice>,
    /// Number of locks that replace the first one.
    pub split: Option<u32>,
    /// Simulations of each row.
    pub rounds: u64,
}

/// One row before it is run.
struct Cell {
    choice: Choice,
    split: u32,
    rounds: Vec<Replay>,
}

/// Predicts what is asked of `record`.
///
/// # Errors
/// [`PredictError`].
pub fn predict(
    record: &Record,
    machines: &Machines,
    question: &Question,
) -> Result<Prediction, PredictError> {
    check(record)?;
    let (Some(process), locks) = busiest(record) else { return Err(nothing(record)) };
    if locks.is_empty() {
        return Err(nothing(record));
    }
    let replayed = |in_order: bool| -> Result<Prediction, PredictError> {
        let (behaviour, written) = behaviour(record, process, &locks, in_order);
        let behaviour = Arc::new(behaviour);
        let cells = cells(record, machines, question, &behaviour)?;
        let mut verdict = limit(&behaviour, &locks);
        if machines.is_recorded {
            verdict.extend(disturbed(&record.program.prices_ns));
        }
        verdict.extend(beside(&record.program));
        verdict.extend(watched(process));
        let mut prediction = run(&cells, Point::recorded(&behaviour), verdict)?;
        prediction.leaves_out.splice(0..0, written.leaves_out);
        prediction.order = written.has;
        prediction.beyond = Account::new(record).beyond();
        whole(&mut prediction, record, (process, busy_s(process, &locks)));
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
        "Replayed by places, without the order of steps ({}): a replay with that order differs \
         from the record.",
        ordered.order.join(", ")
    ));
    Ok(plain)
}

/// Refuses records without the work between acquisitions.
fn check(record: &Record) -> Result<(), PredictError> {
    let program = &record.program;
    match program.source.as_str() {
        "" if !program.locks.is_empty() => Err(PredictError::SeveralLocks),
        "" if program.only_contended => Err(PredictError::OnlyContended),
        "" => Ok(()),
        tool => Err(PredictError::Imported { tool: tool.to_owned() }),
    }
}

fn nothing(record: &Record) -> PredictError {
    PredictError::NoLock { beyond: Account::new(record).beyond() }
}

/// Adds to each row what it means to the whole program.
fn whole(prediction: &mut Prediction, record: &Record, (process, busy_s): (&Process, f64)) {
    let all_s = record.program.wall_s;
    if process.pid == record.processes[0].pid && all_s - busy_s > OUTSIDE * all_s {
        prediction.rows.iter_mut().for_each(|row| row.whole(all_s, busy_s));
    }
}

/// The cells, the recorded point first.
fn cells(
    record: &Record,
    machines: &Machines,
    question: &Question,
    behaviour: &Arc<Behaviour>,
) -> Result<Vec<Cell>, PredictError> {
    let first = busiest(record).1.first().map(|lock| lock.kind).unwrap_or_default();
    let recorded = match record.program.policy(first) {
        "" => Choice::new(SLEEP),
        policy => Choice::new(policy),
    };
    let or = |list: &[u32], one: u32| if list.is_empty() { vec![one] } else { list.to_vec() };
    let cell = |choice: &Choice, split: u32, cpus: u32, threads: u32| {
        let mut behaviour = Arc::clone(behaviour);
        if split > 1 {
            Arc::make_mut(&mut behaviour).locks[0] *= split;
        }
        let round = |seed| -> Result<Replay, PredictError> {
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
                kernel: machines.kernel.clone(),
                machine: machines.with_cpus(&record.program, cpus, (seed, question.rounds))?,
            })
        };
        let rounds = (1..=question.rounds).map(round).collect::<Result<_, _>>()?;
        Ok::<_, PredictError>(Cell { choice: choice.clone(), split, rounds })
    };
    let mut cells = vec![cell(&recorded, 1, behaviour.cpus, behaviour.threads)?];
    for cpus in or(&question.cpus, behaviour.cpus) {
        for threads in or(&question.threads, behaviour.threads) {
            for choice in &question.policies {
                cells.push(cell(choice, 1, cpus, threads)?);
            }
            if let Some(split) = question.split {
                cells.push(cell(&recorded, split, cpus, threads)?);
            }
        }
    }
    Ok(cells)
}

/// Runs `work` on each item, on as many threads as this process has CPUs; results are in the order
/// of the items.
fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                // Relaxed: the counter alone is shared.
                while let Some((index, item)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    let result = work(item);
                    let failed = result.is_err();
                    if sender.send((index, result)).is_err() || failed {
                        break;
                    }
                }
            });
        }
    });
    drop(sender);
    let mut found: Vec<_> = receiver.into_iter().collect();
    found.sort_by_key(|one| one.0);
    found.into_iter().map(|one| one.1).collect()
}

/// Anchors the first cell, then runs all.
fn run(cells: &[Cell], measured: Point, verdict: String) -> Result<Prediction, VirtualError> {
    let anchors = side_by_side(&cells[0].rounds, Replay::anchored)?;
    let replays: Vec<Replay> = cells
        .iter()
        .flat_map(|cell| cell.rounds.iter().zip(&anchors))
        .map(|(replay, &anchor)| Replay { anchor, ..replay.clone() })
        .collect();
    let points = side_by_side(&replays, Replay::run)?;
    let mut points = points.chunks(anchors.len());
    let base = points.next().unwrap_or_default();
    let gates: Vec<Gates> = base.iter().map(|point| point.gates).collect();
    let simulated = replayed(base);
    let left = (simulated.acquisitions_per_s / measured.acquisitions_per_s).ln().abs().exp();
    let rows: Vec<Row> = cells[1..]
        .iter()
        .zip(points)
        .map(|(cell, found)| row(cell, found, base, (measured.acquisitions_per_s, left)))
        .collect();
    let turn_us = f64::from(cells[0].rounds[0].threads) * 1e6 / measured.acquisitions_per_s;
    let of = |value: fn(&Anchor) -> f64| mean(anchors.iter().map(value));
    Ok(Prediction {
        beyond: None,
        verdict,
        doubt: doubt(&measured, &simulated, turn_us),
        anchor: [measured, simulated],
        anchor_wakeups: of(|one| one.wakeups),
        anchor_work_us: of(|one| one.work_ns) / 1e3,
        anchor_sleep_us: of(|one| one.sleep_ns) / 1e3,
        order: Vec::new(),
        leaves_out: slips(&gates).into_iter().collect(),
        rows,
    })
}

/// Returns the point of the replays of the record.
fn replayed(base: &[VirtualLocksPoint]) -> Point {
    let of = |value: fn(&LoopResult) -> f64| mean(base.iter().map(|one| value(&one.result)));
    let rate = of(LoopResult::acquisitions_per_s);
    Point {
        what: "replayed",
        acquisitions_per_s: rate,
        cpu_us: of(|one| one.cpus_used) * 1e6 / rate,
        wait_mean_us: of(|one| one.waits.mean().unwrap_or(0.0)) / 1e3,
        idle_mean_us: mean(base.iter().map(|one| {
            let count = one.result.acquisitions.iter().sum::<u64>().max(1);
            one.gates.wait_ns / 1e3 / count as f64
        })),
    }
}

/// Returns the row of a cell; `rate` is the recorded throughput, `left` the ratio by which the
/// replay misses it.
fn row(
    cell: &Cell,
    found: &[VirtualLocksPoint],
    base: &[VirtualLocksPoint],
    (rate, left): (f64, f64),
) -> Row {
    let rates = |points: &[VirtualLocksPoint]| -> Vec<f64> {
        points.iter().map(|point| point.result.acquisitions_per_s()).collect()
    };
    let changes: Vec<f64> =
        rates(found).iter().zip(rates(base)).map(|(one, base)| one / base).collect();
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let of = |name: &str| mean(found.iter().map(|point| metric(&point.result, name)));
    let middle = mean(changes.iter().copied());
    Row {
        cpus: cell.rounds[0].machine.topology.cpus as u32,
        threads: cell.rounds[0].threads,
        policy: cell.choice.name.clone(),
        split: cell.split,
        acquisitions_per_s: middle * rate,
        change_percent: percent(middle),
        low_percent: percent(changes.iter().copied().fold(f64::MAX, f64::min) / left),
        high_percent: percent(changes.iter().copied().fold(0.0, f64::max) * left),
        program_times: None,
        wait_p99_us: of("wait_p99_us"),
        jain: of("jain"),
    }
}

fn metric(result: &LoopResult, name: &str) -> f64 {
    result.metrics().iter().find(|metric| metric.0 == name).map_or(f64::NAN, |metric| metric.1)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
