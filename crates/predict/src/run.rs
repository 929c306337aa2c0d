//! Runs the cells of a prediction and turns their simulations into rows and doubts. The outcome so
//! far is reported after each simulation, so an interrupt does not lose it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};

use convoy_runs::lock_loop::LoopResult;
use convoy_runs::replay::{Anchor, Behaviour, Gates, Replay};
use convoy_runs::virtual_end::VirtualError;
use convoy_runs::virtual_locks::VirtualLocksPoint;

use crate::doubt::{Doubt, Reason, differs, differs_beside, is_stuck, slips};
use crate::edit::Edit;
use crate::mix::Mix;
use crate::point::Point;
use crate::prediction::Prediction;
use crate::row::{Row, Simulated};
use crate::unsteady::{Unknown, answer, uncertainty};
use crate::{Choice, PredictError};

/// Fitted: median error of predictions for packaged programs, as a ratio (results/predictions.md).
/// It contains errors that seeds and prices do not cover, and the differences between runs of a
/// program.
const MODEL: f64 = 0.05;

/// One row before it is run.
pub(crate) struct Cell {
    /// Lock, or change of the program.
    pub(crate) choice: Choice,
    /// Number of locks that replace the first one.
    pub(crate) split: u32,
    /// Change of the source.
    pub(crate) edit: Option<Edit>,
    /// Description of the machine.
    pub(crate) says: String,
    /// One simulation for each round.
    pub(crate) rounds: Vec<Replay>,
}

impl Cell {
    pub(crate) fn cpus(&self) -> u32 {
        self.rounds[0].machine.topology.cpus as u32
    }
}

/// All simulations of a prediction.
pub(crate) struct Cells {
    /// The recorded point, without other programs.
    pub(crate) base: Cell,
    /// CPUs that other programs used during the recording; `None` if too few to matter.
    pub(crate) others_cpus: Option<f64>,
    /// One cell for each row.
    pub(crate) rows: Vec<Cell>,
}

/// Runs `work` on each item, on this thread and on more threads up to the number of CPUs. Returns
/// the results in the order of the items, or the first error in that order. `heard` receives each
/// result and its index as soon as it is available.
fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
    heard: &(impl Fn(usize, &R) + Sync),
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
            if let Ok(result) = &result {
                heard(index, result);
            }
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
            // If no more threads may be started (`ulimit -u`), the threads that run do all of the
            // work.
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

pub(crate) struct Outcome {
    /// The recorded point and its replays.
    anchor: Vec<Point>,
    /// Means of the fitted parameters.
    fitted: Anchor,
    doubts: Vec<Doubt>,
    /// Why the simulations do not count, if they do not.
    reason: Option<Reason>,
    /// The row of each cell; `None` until it is known.
    rows: Vec<Option<Result<Row, Reason>>>,
}

impl Outcome {
    /// Returns the outcome before any simulation.
    pub(crate) fn unknown(rows: usize) -> Self {
        let (anchor, doubts) = (Vec::new(), Vec::new());
        Self { anchor, fitted: Anchor::NONE, doubts, reason: None, rows: vec![None; rows] }
    }

    /// Returns the outcome in which no simulation counts.
    fn refused(reason: Reason, rows: usize) -> Self {
        Self { reason: Some(reason), ..Self::unknown(rows) }
    }

    /// Adds the outcome to a prediction from bounds, whose rows with these numbers were simulated.
    pub(crate) fn merge(&self, prediction: &mut Prediction, numbers: &[usize]) {
        let is_of_one_cpu = prediction.doubts.contains(&Doubt::OneCpu);
        if !self.anchor.is_empty() {
            prediction.anchor.clone_from(&self.anchor);
        }
        prediction.anchor_wakeups = self.fitted.wakeups;
        prediction.anchor_work = self.fitted.work;
        prediction.anchor_sleep_us = self.fitted.sleep_ns / 1e3;
        prediction.doubts.extend(self.doubts.iter().cloned());
        prediction.reason.clone_from(&self.reason);
        if self.reason.is_some() {
            return;
        }
        for (&number, simulation) in numbers.iter().zip(&self.rows) {
            let bounds = &mut prediction.rows[number];
            match simulation {
                Some(Ok(row)) => {
                    *bounds = bounds.narrowed(row.clone(), is_of_one_cpu && row.cpus > 1);
                }
                Some(Err(reason)) => bounds.reason = Some(reason.clone()),
                None => prediction.missing += 1,
            }
        }
    }
}

/// Progress of a prediction.
#[derive(Clone, Debug)]
pub struct Known {
    /// Simulations that have ended.
    pub done: usize,
    /// All simulations.
    pub of: usize,
    /// The prediction so far, if it has changed: first the verdict alone, then after each complete
    /// row.
    pub prediction: Option<Prediction>,
}

/// Reports the simulations that have ended, all simulations, and the outcome if it has changed.
type Progress<'a> = dyn Fn(usize, usize, Option<&Outcome>) + Sync + 'a;

/// Anchors the recorded point, then runs all cells. `told` is called after each simulation.
pub(crate) fn run(
    cells: &Cells,
    behaviour: &Behaviour,
    told: &Progress<'_>,
) -> Result<Outcome, PredictError> {
    let rounds = &cells.base.rounds;
    let groups = 1 + usize::from(cells.others_cpus.is_some()) + cells.rows.len();
    let of = rounds.len() * (1 + groups);
    let done = AtomicUsize::new(0);
    // Relaxed: the counter alone is shared.
    let tell = |outcome: Option<&Outcome>| told(done.fetch_add(1, Relaxed) + 1, of, outcome);
    let anchors = match side_by_side(rounds, Replay::anchored, &|_, _| tell(None)) {
        Ok(anchors) => anchors,
        Err(VirtualError::OperationLimit { .. }) => {
            return Ok(Outcome::refused(Reason::Unsteady, cells.rows.len()));
        }
        Err(error) => return Err(error.into()),
    };
    // The recorded point as it was, which is the program alone on a quiet machine.
    let alone = cells.base.anchored(&anchors);
    let beside = cells.others_cpus.map(|others_cpus| {
        alone.iter().map(|replay| Replay { others_cpus, ..replay.clone() }).collect::<Vec<_>>()
    });
    let mut replays = alone;
    replays.extend(beside.into_iter().flatten());
    let first = replays.len();
    replays.extend(cells.rows.iter().flat_map(|cell| cell.anchored(&anchors)));
    let points = Mutex::new(vec![None; replays.len()]);
    let heard = |index: usize, point: &Result<VirtualLocksPoint, Unknown>| {
        let mut points = points.lock().unwrap_or_else(PoisonError::into_inner);
        points[index] = Some(point.clone());
        let group = points.chunks(rounds.len()).nth(index / rounds.len());
        let is_news = group.is_some_and(|group| group.iter().all(Option::is_some));
        let outcome = is_news.then(|| conclude(cells, behaviour, &anchors, &points)).flatten();
        tell(outcome.as_ref());
    };
    let concluded = || {
        let points = points.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = conclude(cells, behaviour, &anchors, &points);
        outcome.unwrap_or_else(|| Outcome::refused(Reason::Unsteady, cells.rows.len()))
    };
    // The recorded point decides whether rows are simulated: if its replay has no steady throughput
    // or contradicts the record, no row is.
    side_by_side(&replays[..first], answer, &heard)?;
    let outcome = concluded();
    if outcome.reason.is_some() {
        return Ok(outcome);
    }
    side_by_side(&replays[first..], answer, &|index, point| heard(first + index, point))?;
    Ok(concluded())
}

impl Cell {
    /// Returns the simulations of the cell, each with its anchor.
    fn anchored(&self, anchors: &[Anchor]) -> Vec<Replay> {
        let pairs = self.rounds.iter().zip(anchors);
        pairs.map(|(replay, &anchor)| Replay { anchor, ..replay.clone() }).collect()
    }
}

/// Returns the simulations of a cell; `None` until all of them have ended.
fn complete(
    group: &[Option<Result<VirtualLocksPoint, Unknown>>],
) -> Option<Result<Vec<VirtualLocksPoint>, Unknown>> {
    let ended: Option<Vec<_>> = group.iter().cloned().collect();
    ended.map(|ended| ended.into_iter().collect())
}

/// Returns the outcome of complete cells: the recorded point, that point with other programs if
/// there were any, then the rows. `None` without the recorded point.
fn conclude(
    cells: &Cells,
    behaviour: &Behaviour,
    anchors: &[Anchor],
    points: &[Option<Result<VirtualLocksPoint, Unknown>>],
) -> Option<Outcome> {
    let mut groups = points.chunks(anchors.len()).map(complete);
    let base = groups.next()??.ok()?;
    let beside = match cells.others_cpus {
        Some(_) => Some(groups.next()??.ok()?),
        None => None,
    };
    let simulations: Vec<_> = cells.rows.iter().zip(groups).collect();
    let is_beside = beside.is_some();
    let gates: Vec<Gates> = base.iter().map(|point| point.gates).collect();
    let recorded = Point::recorded(behaviour);
    let compared = beside.as_deref().unwrap_or(&base);
    let simulated = replayed(compared, if is_beside { "with other programs" } else { "replayed" });
    let alone = replayed(&base, "alone");
    // Rows are relative to the program alone; on a quiet machine that is the record.
    let rate = if is_beside { alone.acquisitions_per_s } else { recorded.acquisitions_per_s };
    let left = (simulated.acquisitions_per_s / recorded.acquisitions_per_s).ln().abs().exp();
    let left = if is_beside { 1.0 } else { left };
    // With other CPUs or threads the shares may change although the work does not.
    let (cpus, threads) = (cells.base.cpus(), cells.base.rounds[0].threads);
    let known = simulations.iter().filter_map(|(cell, group)| {
        let points = group.as_ref()?.as_ref().ok()?;
        ((cell.cpus(), cell.rounds[0].threads) == (cpus, threads)).then_some(points.as_slice())
    });
    let mix = Mix::new(behaviour, &base, known);
    let rate = mix.as_ref().map_or(rate, |mix| rate * mix.share(&base));
    let slips = slips(&gates);
    let mut doubts: Vec<Doubt> = slips.map(|share| Doubt::Slips { share }).into_iter().collect();
    let rows: Vec<Option<Result<Row, Reason>>> = simulations
        .iter()
        .map(|(cell, group)| {
            let points = group.as_ref()?;
            Some(match points {
                Ok(points) => Ok(row(cell, points, &base, rate, left, mix.as_ref())),
                Err(Unknown) => Err(Reason::Unsteady),
            })
        })
        .collect();
    let turn_us = f64::from(behaviour.threads) * 1e6 / recorded.acquisitions_per_s;
    let stuck = slips.filter(|share| is_stuck(*share)).map(|share| Reason::Stuck { share });
    let reason = stuck.or_else(|| {
        if is_beside {
            beside_others(cells, behaviour, &recorded, (compared, &simulated), (&base[..], &alone))
        } else {
            differs(&recorded, &simulated, turn_us)
        }
    });
    let answered: Vec<Row> = rows.iter().flatten().flatten().cloned().collect();
    doubts.extend(mix.filter(|_| reason.is_none()).map(|mix| mix.doubt(&answered)));
    let fitted = |value: fn(&Anchor) -> f64| mean(anchors.iter().map(value));
    Some(Outcome {
        anchor: if is_beside {
            vec![recorded, simulated, alone]
        } else {
            vec![recorded, simulated]
        },
        fitted: Anchor {
            wakeups: fitted(|anchor| anchor.wakeups),
            work: fitted(|anchor| anchor.work),
            sleep_ns: fitted(|anchor| anchor.sleep_ns),
        },
        doubts,
        reason,
        rows,
    })
}

type Replayed<'a> = (&'a [VirtualLocksPoint], &'a Point);

/// Returns a reason if a record that was made while other programs ran differs from its replays
/// with these programs and alone. Which class of threads starves is chance, so the points are
/// compared for the same work.
fn beside_others(
    cells: &Cells,
    behaviour: &Behaviour,
    recorded: &Point,
    beside: Replayed<'_>,
    alone: Replayed<'_>,
) -> Option<Reason> {
    let (cpus, others_cpus) = (f64::from(cells.base.cpus()), cells.others_cpus.unwrap_or(0.0));
    let cpu_us = behaviour.expected_cpu_ns(alone.0) / 1e3 / behaviour.other_work(alone.0);
    let expected = Point { cpu_us, ..recorded.clone() };
    let [beside, alone] =
        [beside, alone].map(|(points, point)| point.of_work(behaviour.other_work(points)));
    differs_beside(&expected, &beside, &alone, cpus, others_cpus)
}

fn rate_of(point: &VirtualLocksPoint) -> f64 {
    point.result.acquisitions_per_s()
}

fn replayed(base: &[VirtualLocksPoint], what: &'static str) -> Point {
    let of = |value: fn(&LoopResult) -> f64| mean(base.iter().map(|one| value(&one.result)));
    let rate = of(LoopResult::acquisitions_per_s);
    Point {
        what,
        acquisitions_per_s: rate,
        cpu_us: of(|one| one.cpus_used) * 1e6 / rate,
        // The mean over all waiting, as in the record: a starving thread may wait for the whole
        // window.
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

/// Returns the row of a cell, given its simulations, the simulations of the recorded point, the
/// throughput of that point, and the ratio by which its replay differs from the record.
fn row(
    cell: &Cell,
    points: &[VirtualLocksPoint],
    base: &[VirtualLocksPoint],
    rate: f64,
    left: f64,
    mix: Option<&Mix>,
) -> Row {
    let rate_of = |point| mix.map_or_else(|| rate_of(point), |mix| mix.leads(point));
    let pairs = points.iter().zip(base);
    let changes: Vec<f64> = pairs.map(|(point, base)| rate_of(point) / rate_of(base)).collect();
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let of = |value: fn(&VirtualLocksPoint) -> f64| mean(points.iter().map(value));
    let middle = mean(changes.iter().copied());
    let is_recorded = changes.iter().all(|ratio| (ratio - 1.0).abs() < f64::EPSILON);
    let left = if is_recorded { left } else { left * (1.0 + MODEL) };
    let left = left * (1.0 + uncertainty(points).hypot(uncertainty(base)));
    let longest_ns = points.iter().map(|point| point.tally.longest_ns()).max().unwrap_or(0);
    // A starving thread waits for as long as a run lasts, and a window may be longer than the
    // record.
    let behaviour = &cell.rounds[0].behaviour;
    let recorded_us = 1e6 * behaviour.total as f64 / behaviour.rate;
    let simulated = Simulated {
        cpus_used: of(|point| point.result.cpus_used),
        wait_p99_us: of(|point| metric(&point.result, "wait_p99_us")),
        wait_max_us: (longest_ns as f64 / 1e3).min(recorded_us),
        jain: of(|point| point.tally.jain().unwrap_or(1.0)),
        parts: mix.map(|mix| mix.parts(points)).unwrap_or_default(),
    };
    Row {
        cpus: cell.cpus(),
        threads: cell.rounds[0].threads,
        policy: cell.choice.name.clone(),
        split: cell.split,
        edit: cell.edit,
        machine: cell.says.clone(),
        acquisitions_per_s: middle * rate,
        change_percent: percent(middle),
        low_percent: percent(changes.iter().copied().fold(f64::MAX, f64::min) / left),
        high_percent: percent(changes.iter().copied().fold(0.0, f64::max) * left),
        simulated: Some(simulated),
        ..Row::default()
    }
}

fn metric(result: &LoopResult, name: &str) -> f64 {
    result.metrics().iter().find(|metric| metric.0 == name).map_or(f64::NAN, |metric| metric.1)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
