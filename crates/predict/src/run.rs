//! Runs the cells of a prediction and turns their simulations into rows and doubts. The prediction
//! so far is reported after each simulation, so an interrupt does not lose it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};

use convoy_runs::lock_loop::LoopResult;
use convoy_runs::replay::{Anchor, Behaviour, Gates, Replay};
use convoy_runs::virtual_locks::VirtualLocksPoint;

use crate::bounds::{self, is_exceeded};
use crate::doubt::{Doubt, differs, differs_beside, slips};
use crate::mix::Mix;
use crate::point::Point;
use crate::prediction::Prediction;
use crate::row::Row;
use crate::unsteady::{Unknown, answer, unanswered, uncertainty};
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
    /// Description of the machine.
    pub(crate) says: String,
    /// One simulation for each round.
    pub(crate) rounds: Vec<Replay>,
}

impl Cell {
    pub(crate) fn cpus(&self) -> u32 {
        self.rounds[0].machine.topology.cpus as u32
    }

    /// Returns the question, for a sentence.
    fn named(&self) -> String {
        let Self { choice, split, .. } = self;
        let split = if *split > 1 { format!(" split by {split}") } else { String::new() };
        format!("`{}`{split} on {} CPUs", choice.name, self.cpus())
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

/// Returns the rows of cells and doubts about them, from their simulations.
fn rows_of(
    cells: &Cells,
    found: &[(&Cell, Vec<VirtualLocksPoint>)],
    base: &[VirtualLocksPoint],
    anchor: Anchor,
    rate: f64,
    left: f64,
    mix: Option<&Mix>,
) -> (Vec<Row>, Vec<Doubt>) {
    let (mut rows, mut doubts) = (Vec::new(), Vec::new());
    let behaviour = &cells.base.rounds[0].behaviour;
    let longest_us = 1e6 * behaviour.total as f64 / behaviour.rate;
    for (cell, found) in found {
        let mut row = row(cell, found, base, rate, left, mix);
        // A starving thread waits for as long as a run lasts, and a window may be longer than the
        // record.
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

/// Anchors the recorded point, then runs all cells. `told` is called after each simulation.
pub(crate) fn run(
    cells: &Cells,
    behaviour: &Behaviour,
    told: &(dyn Fn(Known) + Sync),
) -> Result<Prediction, PredictError> {
    let rounds = &cells.base.rounds;
    let groups = 1 + usize::from(cells.others_cpus.is_some()) + cells.rows.len();
    let of = rounds.len() * (1 + groups);
    let done = AtomicUsize::new(0);
    // Relaxed: the counter alone is shared.
    let tell = |prediction| told(Known { done: done.fetch_add(1, Relaxed) + 1, of, prediction });
    let anchors = side_by_side(rounds, Replay::anchored, &|_, _| tell(None))?;
    let anchored = |cell: &Cell| -> Vec<Replay> {
        let pairs = cell.rounds.iter().zip(&anchors);
        pairs.map(|(replay, &anchor)| Replay { anchor, ..replay.clone() }).collect()
    };
    // The recorded point as it was, which is the program alone on a quiet machine.
    let alone = anchored(&cells.base);
    let beside = cells.others_cpus.map(|others_cpus| {
        alone.iter().map(|replay| Replay { others_cpus, ..replay.clone() }).collect::<Vec<_>>()
    });
    let mut replays = alone;
    replays.extend(beside.into_iter().flatten());
    let first = replays.len();
    replays.extend(cells.rows.iter().flat_map(anchored));
    let known = Mutex::new(vec![None; replays.len()]);
    let heard = |index: usize, point: &Result<VirtualLocksPoint, Unknown>| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known[index] = Some(point.clone());
        let group = known.chunks(rounds.len()).nth(index / rounds.len());
        let is_news = group.is_some_and(|group| group.iter().all(Option::is_some));
        let prediction = is_news.then(|| conclude(cells, behaviour, &anchors, &known)).flatten();
        tell(prediction);
    };
    let concluded = || {
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        conclude(cells, behaviour, &anchors, &known).ok_or(PredictError::Unsteady)
    };
    // The recorded point decides whether there are any rows: if its replay has no steady throughput
    // or contradicts the record, no row is simulated.
    side_by_side(&replays[..first], answer, &heard)?;
    let prediction = concluded()?;
    if prediction.doubts.iter().any(|doubt| doubt.refuses) {
        return Ok(Prediction { missing: 0, ..prediction });
    }
    side_by_side(&replays[first..], answer, &|index, point| heard(first + index, point))?;
    concluded()
}

/// Returns the prediction before any simulation, without its `missing` rows.
pub(crate) fn unanchored(behaviour: &Behaviour, missing: usize) -> Prediction {
    Prediction {
        missing,
        anchor: vec![Point::recorded(behaviour)],
        anchor_wakeups: 1.0,
        anchor_work: 1.0,
        ..Prediction::default()
    }
}

/// Returns the simulations of a cell; `None` until all of them have ended.
fn complete(
    group: &[Option<Result<VirtualLocksPoint, Unknown>>],
) -> Option<Result<Vec<VirtualLocksPoint>, Unknown>> {
    let ended: Option<Vec<_>> = group.iter().cloned().collect();
    ended.map(|ended| ended.into_iter().collect())
}

/// Returns the prediction from the simulations of complete cells: the recorded point, that point
/// with other programs if there were any, then the rows. `None` without the recorded point.
fn conclude(
    cells: &Cells,
    behaviour: &Behaviour,
    anchors: &[Anchor],
    points: &[Option<Result<VirtualLocksPoint, Unknown>>],
) -> Option<Prediction> {
    let mut groups = points.chunks(anchors.len()).map(complete);
    let base = groups.next()??.ok()?;
    let beside = match cells.others_cpus {
        Some(_) => Some(groups.next()??.ok()?),
        None => None,
    };
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (cell, group) in cells.rows.iter().zip(groups) {
        match group {
            Some(Ok(group)) => found.push((cell, group)),
            Some(Err(Unknown)) => refused.push(cell.named()),
            None => {}
        }
    }
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
    let same =
        found.iter().filter(|(cell, _)| (cell.cpus(), cell.rounds[0].threads) == (cpus, threads));
    let mix = Mix::new(behaviour, &base, same.map(|(_, found)| found.as_slice()));
    let rate = mix.as_ref().map_or(rate, |mix| rate * mix.share(&base));
    let mut doubts: Vec<Doubt> = slips(&gates).into_iter().collect();
    let (rows, more) = rows_of(cells, &found, &base, anchors[0], rate, left, mix.as_ref());
    doubts.extend(more);
    doubts.extend(unanswered(&refused, refused.len() == cells.rows.len()));
    let turn_us = f64::from(behaviour.threads) * 1e6 / recorded.acquisitions_per_s;
    doubts.extend(if is_beside {
        beside_others(cells, behaviour, &recorded, (compared, &simulated), (&base[..], &alone))
    } else {
        differs(&recorded, &simulated, turn_us)
    });
    let is_refused = doubts.iter().any(|doubt| doubt.refuses);
    doubts.extend(mix.filter(|_| !is_refused).map(|mix| mix.told(&rows)));
    let of = |value: fn(&Anchor) -> f64| mean(anchors.iter().map(value));
    Some(Prediction {
        missing: cells.rows.len() - rows.len() - refused.len(),
        anchor: if is_beside {
            vec![recorded, simulated, alone]
        } else {
            vec![recorded, simulated]
        },
        anchor_wakeups: of(|one| one.wakeups),
        anchor_work: of(|one| one.work),
        anchor_sleep_us: of(|one| one.sleep_ns) / 1e3,
        doubts,
        rows,
        ..Prediction::default()
    })
}

/// Simulations and their point.
type Replayed<'a> = (&'a [VirtualLocksPoint], &'a Point);

/// Returns a refusal if a record that was made while other programs ran differs from its replays
/// with these programs and alone. Which class of threads starves is chance, so the points are
/// compared for the same work.
fn beside_others(
    cells: &Cells,
    behaviour: &Behaviour,
    recorded: &Point,
    beside: Replayed<'_>,
    alone: Replayed<'_>,
) -> Option<Doubt> {
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

/// Returns the mean point of replays.
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
    found: &[VirtualLocksPoint],
    base: &[VirtualLocksPoint],
    rate: f64,
    left: f64,
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
    let left = left * (1.0 + uncertainty(found).hypot(uncertainty(base)));
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
