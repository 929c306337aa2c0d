//! The cells of a prediction: the recorded point, and each question, in a number of rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use convoy_kernel::KernelPreset;
use convoy_record::{Account, Lock, Process, Record};
use convoy_runs::lock_loop::LoopResult;
use convoy_runs::replay::{Anchor, Behaviour, Effort, Gates, Kind, Pace, Replay, Step};
use convoy_runs::virtual_end::VirtualError;
use convoy_runs::virtual_locks::VirtualLocksPoint;

use crate::behaviour::{behaviour, busiest, busy_s};
use crate::bounds::{self, is_exceeded};
use crate::choice::Change;
use crate::damage::is_damaged;
use crate::doubt::{Doubt, differs, differs_beside, of_record, others_cpus, slips};
use crate::limit::{WEIGHT, limit};
use crate::mix::Mix;
use crate::prediction::{Point, Prediction};
use crate::row::Row;
use crate::{Choice, Machines, PredictError, SLEEP};

/// Share of a program's time without work of its lock-taking threads that makes the speed of the
/// whole program another number than their throughput.
const OUTSIDE: f64 = 0.05;

/// Fitted: median error of predictions for packaged programs, as a ratio (docs/predictions.md):
/// what seeds and prices leave out, and what a program differs by from run to run.
const MODEL: f64 = 0.05;

/// Share of the threads without which a replay is another program.
const PRESENT: f64 = 2.0 / 3.0;

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
    /// How much of the host's time each may take.
    pub effort: Effort,
}

/// One row before it is run.
struct Cell {
    choice: Choice,
    split: u32,
    /// Which machine.
    says: String,
    rounds: Vec<Replay>,
}

impl Cell {
    fn cpus(&self) -> u32 {
        self.rounds[0].machine.topology.cpus as u32
    }
}

/// All simulations of a prediction.
struct Cells {
    /// The recorded point, without other programs.
    base: Cell,
    /// CPUs that other programs had during the recording, if that matters.
    others_cpus: Option<f64>,
    rows: Vec<Cell>,
}

/// Answers `question` for the program of `record`.
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
    let replayed = |in_order: bool| -> Result<(Prediction, u32), PredictError> {
        let (mut behaviour, written) = behaviour(record, process, &locks, in_order);
        behaviour.transfer_ns = machines.recorded(&record.program, (1, 1))?.price_ns.llc;
        let behaviour = Arc::new(behaviour);
        let cells = cells(record, machines, question, &behaviour)?;
        let most = cells.rows.iter().map(Cell::cpus).max().unwrap_or(0);
        let mut prediction = run(&cells, &behaviour)?;
        prediction.verdict = limit(&behaviour, (process, &locks));
        prediction.doubts.splice(0..0, of_record(&record.program, process, &behaviour, most));
        prediction.doubts.extend(written.leaves_out.into_iter().map(Doubt::note));
        prediction.order = written.has;
        prediction.beyond = beyond(record, process, &behaviour);
        whole(&mut prediction, record, (process, busy_s(process, &locks)));
        Ok((prediction.judged(), behaviour.threads))
    };
    let (ordered, threads) = replayed(true)?;
    if ordered.doubt.is_none() || ordered.order.is_empty() || waits_for_threads(&ordered) {
        return Ok(ordered);
    }
    // A replay without the order of steps may match the record where that one does not.
    let (mut plain, present) = replayed(false)?;
    // Where classes of threads have places of their own, counts by place do not tell how many
    // threads there are.
    if plain.doubt.is_some() || f64::from(present) < PRESENT * f64::from(threads) {
        return Ok(ordered);
    }
    plain.doubts.push(Doubt::note(format!(
        "Replayed by places, without the order of steps ({}), since the replay in that order is \
         refused: {}",
        ordered.order.join(", "),
        ordered.doubt.unwrap_or_default()
    )));
    Ok(plain)
}

/// Whether threads waited for each other for longer than they ran, so that a replay without these
/// waits is another program.
fn waits_for_threads(prediction: &Prediction) -> bool {
    prediction.anchor.first().is_some_and(|point| point.idle_mean_us > point.cpu_us)
}

/// Returns a sentence if threads waited mostly for locks that no other lock can replace.
fn beyond(record: &Record, process: &Process, behaviour: &Behaviour) -> Option<String> {
    let locks = process.kernel_locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
    let wait_s: f64 = locks.map(Lock::wait_s).sum();
    let time_s = f64::from(behaviour.threads) * process.seconds;
    Account::new(record).beyond(record).filter(|_| wait_s > WEIGHT * time_s)
}

/// Refuses records without the work between acquisitions, and damaged ones.
fn check(record: &Record) -> Result<(), PredictError> {
    let program = &record.program;
    match program.source.as_str() {
        "" if !program.locks.is_empty() => Err(PredictError::SeveralLocks),
        "" if program.only_contended => Err(PredictError::OnlyContended),
        "" if is_damaged(record) => Err(PredictError::Damaged),
        "" => Ok(()),
        tool => Err(PredictError::Imported { tool: tool.to_owned() }),
    }
}

fn nothing(record: &Record) -> PredictError {
    PredictError::NoLock { beyond: Account::new(record).beyond(record) }
}

/// Adds the speed of the whole program to each row.
fn whole(prediction: &mut Prediction, record: &Record, (process, busy_s): (&Process, f64)) {
    let all_s = record.program.wall_s;
    if process.pid == record.processes[0].pid && all_s - busy_s > OUTSIDE * all_s {
        prediction.rows.iter_mut().for_each(|row| row.whole(all_s, busy_s));
    }
}

/// The recorded point, and one cell for each row.
fn cells(
    record: &Record,
    machines: &Machines,
    question: &Question,
    behaviour: &Arc<Behaviour>,
) -> Result<Cells, PredictError> {
    let program = &record.program;
    let first = busiest(record).1.first().map(|lock| lock.kind).unwrap_or_default();
    let recorded = match program.policy(first) {
        "" => Choice::new(SLEEP),
        policy => Choice::new(policy),
    };
    let or = |list: &[u32], one: u32| if list.is_empty() { vec![one] } else { list.to_vec() };
    let cell = |choice: &Choice, split: u32, cpus: Option<u32>, threads: u32| {
        let mut behaviour = Arc::clone(behaviour);
        if split > 1 {
            Arc::make_mut(&mut behaviour).locks[0] *= split;
        }
        if let Some(change) = choice.change {
            apply(change, Arc::make_mut(&mut behaviour));
        }
        let mut says = String::new();
        let mut round = |seed| -> Result<Replay, PredictError> {
            let round = (seed, question.rounds);
            let machine = match cpus {
                // The recorded machine also answers for the recorded number of CPUs.
                Some(cpus) if cpus != program.cpus || machines.machine.is_some() => {
                    let asked = machines.asked(program, cpus, round)?;
                    says = asked.1;
                    asked.0
                }
                _ => machines.recorded(program, round)?,
            };
            Ok(Replay {
                behaviour: paced(&behaviour, seed),
                anchor: Anchor::NONE,
                threads,
                policy: choice.policy,
                alone: choice.alone,
                // `convoy with` has no thread spin where there is one CPU.
                looks: if machine.topology.cpus == 1 { Some(0) } else { choice.looks },
                whole: false,
                others_cpus: 0.0,
                effort: question.effort,
                seed,
                kernel: placing(&machines.kernel, &behaviour, seed),
                machine,
            })
        };
        let rounds = (1..=question.rounds).map(&mut round).collect::<Result<_, _>>()?;
        Ok::<_, PredictError>(Cell { choice: choice.clone(), split, says, rounds })
    };
    let base = cell(&recorded, 1, None, behaviour.threads)?;
    let mut rows = Vec::new();
    for cpus in or(&question.cpus, behaviour.cpus) {
        for threads in or(&question.threads, behaviour.threads) {
            for choice in &question.policies {
                rows.push(cell(choice, 1, Some(cpus), threads)?);
            }
            if let Some(split) = question.split {
                rows.push(cell(&recorded, split, Some(cpus), threads)?);
            }
        }
    }
    Ok(Cells { base, others_cpus: others_cpus(program), rows })
}

/// Returns the behaviour of a round. How often a thread comes that waited from its first call on is
/// not known: it comes back at once in one round of three, and after a second in another.
fn paced(behaviour: &Arc<Behaviour>, round: u64) -> Arc<Behaviour> {
    const SELDOM_NS: f64 = 1e9;
    let mut behaviour = Arc::clone(behaviour);
    let pace = match round % 3 {
        2 => Pace::AtOnce,
        0 => Pace::After(SELDOM_NS),
        _ => return behaviour,
    };
    if behaviour.script.as_ref().is_some_and(|script| script.has_guesses())
        && let Some(script) = &mut Arc::make_mut(&mut behaviour).script
    {
        Arc::make_mut(script).guess(pace);
    }
    behaviour
}

/// Returns the kernel of a round. Whether a guest sees which of its idle CPUs the hypervisor has
/// halted, and wakes no thread there, is not recorded. Where threads mostly wait for each other
/// that decides whether they gather on one CPU, so one round of three assumes the opposite.
fn placing(kernel: &KernelPreset, behaviour: &Behaviour, round: u64) -> KernelPreset {
    let mut kernel = kernel.clone();
    let waits = behaviour.script.is_some() && behaviour.idle_ns > behaviour.cpu_ns;
    if waits && round.is_multiple_of(3) {
        kernel.sched.wake.avoid_halted = !kernel.sched.wake.avoid_halted;
    }
    kernel
}

/// Changes the program.
fn apply(change: Change, behaviour: &mut Behaviour) {
    match change {
        Change::PreferWriters => {
            for kind in &mut behaviour.kinds {
                if let Kind::RwLock { prefers_writers } = kind {
                    *prefers_writers = true;
                }
            }
        }
        Change::Signal => {
            let Some(script) = &mut behaviour.script else { return };
            let classes = Arc::make_mut(script).classes.iter_mut();
            for step in classes.flat_map(|class| &mut class.strips).flatten() {
                if let Step::Signal { all, .. } = step {
                    *all = false;
                }
            }
        }
    }
}

/// Runs `work` on each item, on this thread and as many others as there are CPUs for; results are
/// in the order of the items.
fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let worker = |sender: mpsc::Sender<_>| {
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
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        for _ in 1..threads {
            let sender = sender.clone();
            // Where there may be no more threads (ulimit -u), this one does all of the work.
            let started = std::thread::Builder::new().spawn_scoped(scope, || worker(sender));
            if started.is_err() {
                break;
            }
        }
        worker(sender);
    });
    let mut found: Vec<_> = receiver.into_iter().collect();
    found.sort_by_key(|one| one.0);
    found.into_iter().map(|one| one.1).collect()
}

/// Returns the rows of all cells, whose simulations are `points`, and doubts about them.
fn rows_of(
    cells: &Cells,
    (points, base): (&[&[VirtualLocksPoint]], &[VirtualLocksPoint]),
    (anchor, rate): (Anchor, (f64, f64)),
    mix: Option<&Mix>,
) -> (Vec<Row>, Vec<Doubt>) {
    let (mut rows, mut doubts) = (Vec::new(), Vec::new());
    let behaviour = &cells.base.rounds[0].behaviour;
    let longest_us = 1e6 * behaviour.total as f64 / behaviour.rate;
    for (cell, &found) in cells.rows.iter().zip(points) {
        let mut row = row(cell, (found, base), rate, mix);
        // A thread that starves waits as long as a run lasts, and a window may last for longer.
        row.wait_max_us = row.wait_max_us.min(longest_us);
        let replay = Replay { anchor, ..cell.rounds[0].clone() };
        let per_s = mean(found.iter().map(rate_of));
        if let Some(bound) = bounds::least(&replay).filter(|bound| is_exceeded(*bound, per_s)) {
            doubts.push(Doubt::refusal(format!(
                "The replay makes {per_s:.0} acquisitions per second where {} at most {:.0}.",
                bound.by, bound.per_s
            )));
        }
        rows.push(row);
    }
    (rows, doubts)
}

/// Anchors the recorded point, then runs all cells.
fn run(cells: &Cells, behaviour: &Behaviour) -> Result<Prediction, VirtualError> {
    let recorded = Point::recorded(behaviour);
    let rounds = &cells.base.rounds;
    let anchors = side_by_side(rounds, Replay::anchored)?;
    let anchored = |cell: &Cell| -> Vec<Replay> {
        let pairs = cell.rounds.iter().zip(&anchors);
        pairs.map(|(replay, &anchor)| Replay { anchor, ..replay.clone() }).collect()
    };
    // The recorded point as it was, which is the point alone on a quiet machine.
    let alone = anchored(&cells.base);
    let beside = cells.others_cpus.map(|others_cpus| {
        alone.iter().map(|replay| Replay { others_cpus, ..replay.clone() }).collect::<Vec<_>>()
    });
    let mut replays = alone;
    let is_beside = beside.is_some();
    replays.extend(beside.into_iter().flatten());
    replays.extend(cells.rows.iter().flat_map(anchored));
    let points = side_by_side(&replays, Replay::run)?;
    let mut points = points.chunks(anchors.len());
    let base = points.next().unwrap_or_default();
    let compared = if is_beside { points.next().unwrap_or_default() } else { base };
    let gates: Vec<Gates> = base.iter().map(|point| point.gates).collect();
    let simulated = replayed(compared, if is_beside { "beside" } else { "replayed" });
    let alone = replayed(base, "alone");
    // Rows are relative to the program alone; on a quiet machine that is the record.
    let rate = if is_beside { alone.acquisitions_per_s } else { recorded.acquisitions_per_s };
    let left = (simulated.acquisitions_per_s / recorded.acquisitions_per_s).ln().abs().exp();
    let left = if is_beside { 1.0 } else { left };
    let points: Vec<_> = points.collect();
    // With other CPUs or threads the shares may change without any change of the work.
    let (cpus, threads) = (cells.base.cpus(), cells.base.rounds[0].threads);
    let is_same = |cell: &Cell| (cell.cpus(), cell.rounds[0].threads) == (cpus, threads);
    let same = cells.rows.iter().zip(&points).filter(|(cell, _)| is_same(cell));
    let mix = Mix::new(behaviour, base, same.map(|(_, &found)| found));
    let rate = mix.as_ref().map_or(rate, |mix| rate * mix.share(base));
    let mut doubts: Vec<Doubt> = slips(&gates).into_iter().collect();
    let (rows, more) = rows_of(cells, (&points, base), (anchors[0], (rate, left)), mix.as_ref());
    doubts.extend(more);
    let turn_us = f64::from(behaviour.threads) * 1e6 / recorded.acquisitions_per_s;
    doubts.extend(if is_beside {
        let cpus = f64::from(cells.base.cpus());
        let cpus = (cpus, cells.others_cpus.unwrap_or(0.0));
        differs_beside(&recorded, (&simulated, &alone), cpus)
    } else {
        differs(&recorded, &simulated, turn_us)
    });
    let is_refused = doubts.iter().any(|doubt| doubt.refuses);
    doubts.extend(mix.filter(|_| !is_refused).map(|mix| mix.told(&rows)));
    let of = |value: fn(&Anchor) -> f64| mean(anchors.iter().map(value));
    Ok(Prediction {
        verdict: String::new(),
        beyond: None,
        anchor: if is_beside {
            vec![recorded, simulated, alone]
        } else {
            vec![recorded, simulated]
        },
        anchor_wakeups: of(|one| one.wakeups),
        anchor_work: of(|one| one.work),
        anchor_sleep_us: of(|one| one.sleep_ns) / 1e3,
        order: Vec::new(),
        doubts,
        doubt: None,
        rows,
    })
}

fn rate_of(point: &VirtualLocksPoint) -> f64 {
    point.result.acquisitions_per_s()
}

/// Returns the point of some replays.
fn replayed(base: &[VirtualLocksPoint], what: &'static str) -> Point {
    let of = |value: fn(&LoopResult) -> f64| mean(base.iter().map(|one| value(&one.result)));
    let rate = of(LoopResult::acquisitions_per_s);
    Point {
        what,
        acquisitions_per_s: rate,
        cpu_us: of(|one| one.cpus_used) * 1e6 / rate,
        // Of all waiting, as in the record: a thread that starves may wait for the whole window.
        wait_mean_us: mean(base.iter().map(|one| {
            let count = one.result.acquisitions.iter().sum::<u64>().max(1);
            one.tally.waited_ns() as f64 / 1e3 / count as f64
        })),
        idle_mean_us: mean(base.iter().map(|one| {
            let count = one.result.acquisitions.iter().sum::<u64>().max(1);
            one.gates.wait_ns / 1e3 / count as f64
        })),
    }
}

/// Returns the row of a cell, from its simulations, the simulations of the recorded point, the
/// throughput of that point, and the ratio by which its replay misses the record.
fn row(
    cell: &Cell,
    (found, base): (&[VirtualLocksPoint], &[VirtualLocksPoint]),
    (rate, left): (f64, f64),
    mix: Option<&Mix>,
) -> Row {
    let rate_of = |point| mix.map_or_else(|| rate_of(point), |mix| mix.leads(point));
    let pairs = found.iter().zip(base);
    let changes: Vec<f64> = pairs.map(|(one, base)| rate_of(one) / rate_of(base)).collect();
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let of = |value: fn(&VirtualLocksPoint) -> f64| mean(found.iter().map(value));
    let middle = mean(changes.iter().copied());
    let is_recorded = changes.iter().all(|ratio| (ratio - 1.0).abs() < f64::EPSILON);
    let left = if is_recorded { left } else { left * (1.0 + MODEL) };
    Row {
        cpus: cell.cpus(),
        threads: cell.rounds[0].threads,
        policy: cell.choice.name.clone(),
        split: cell.split,
        machine: cell.says.clone(),
        acquisitions_per_s: middle * rate,
        change_percent: percent(middle),
        low_percent: percent(changes.iter().copied().fold(f64::MAX, f64::min) / left),
        high_percent: percent(changes.iter().copied().fold(0.0, f64::max) * left),
        program_times: None,
        cpus_used: of(|point| point.result.cpus_used),
        wait_p99_us: of(|point| metric(&point.result, "wait_p99_us")),
        wait_max_us: found.iter().map(|point| point.tally.longest_ns()).max().unwrap_or(0) as f64
            / 1e3,
        jain: of(|point| point.tally.jain().unwrap_or(1.0)),
        parts: mix.map(|mix| mix.parts(found)).unwrap_or_default(),
    }
}

fn metric(result: &LoopResult, name: &str) -> f64 {
    result.metrics().iter().find(|metric| metric.0 == name).map_or(f64::NAN, |metric| metric.1)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
